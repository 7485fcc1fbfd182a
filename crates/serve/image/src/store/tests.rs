//! The contents of a drive, without the drive and with it.

use super::*;
use crate::buffer::Buffer;
use crate::keys::Keyring;
use device::protection::{Checks, Tags};
use device::{BlockAction, BlockTransform, Contents, WrappedKey};
use ftl::Storage;

#[test]
fn pages_are_put_together_from_pieces() {
    let mut store = Store::in_memory(8);
    let io = Io(3);
    store.lend(io, Buffer::from(vec![1; 4096]).into());
    let a = store.allocate().unwrap();
    let all = Piece { host: 0, page: 0, len: 4096 };
    store.store(io, all, a, None).unwrap();
    store.lend(io, Buffer::from(vec![2; 512]).into());
    let b = store.allocate().unwrap();
    store.store(io, Piece { host: 0, page: 1024, len: 512 }, b, Some(a)).unwrap();
    store.lend(io, Buffer::zeroed(4096).into());
    store.load(io, all, Some(b)).unwrap();
    let got = store.give_back(io);
    assert!(got.as_slice()[..1024].iter().all(|&x| x == 1));
    assert!(got.as_slice()[1024..1536].iter().all(|&x| x == 2));
    assert!(got.as_slice()[1536..].iter().all(|&x| x == 1));
    store.lend(io, got);
    assert!(store.compare(io, all, Some(b)).unwrap());
    assert!(!store.compare(io, all, Some(a)).unwrap());
    assert!(!store.compare(io, all, None).unwrap());
}

/// What a front end lends memory for is referred to where it lies; smaller pieces are copied.
#[test]
fn an_answer_refers_to_slots_until_it_is_told_that_it_need_not() {
    let mut store = Store::in_memory(8);
    let io = Io(1);
    let slot = store.allocate().unwrap();
    store.lend(io, Buffer::from(vec![7; 4096]).into());
    store.store(io, Piece { host: 0, page: 0, len: 4096 }, slot, None).unwrap();
    let bytes = Buffer::zeroed(8192);
    store.lend(io, DataBuffer::Lent(Box::new(LentMemory { bytes, parts: Vec::new() })));
    for host in [0, 512] {
        store.load(io, Piece { host, page: 0, len: 512 }, Some(slot)).unwrap();
    }
    store.load(io, Piece { host: 1024, page: 0, len: 4096 }, Some(slot)).unwrap();
    store.load(io, Piece { host: 5120, page: 0, len: 3072 }, None).unwrap();
    assert_eq!(store.references(), 1);
    let DataBuffer::Lent(mut memory) = store.give_back(io) else { panic!("not the memory that was lent") };
    let parts = [
        AnswerPart::Copied { start: 0, len: 1024 },
        AnswerPart::InSlot { slot, start: 0, len: 4096 },
        AnswerPart::Copied { start: 5120, len: 3072 },
    ];
    assert_eq!(memory.parts, parts);
    assert!(memory.bytes.as_slice()[..1024].iter().all(|&byte| byte == 7));
    // The page that is overwritten meanwhile is another slot's.
    store.release(slot);
    let next = store.allocate().unwrap();
    assert_ne!(next, slot);
    assert!(store.page(slot).iter().all(|&byte| byte == 7));
    store.end_references(&mut memory);
    assert!(memory.parts.is_empty());
    assert_eq!((store.references(), store.allocate()), (0, Some(slot)), "the slot is free again");
}

#[test]
fn what_lies_outside_is_an_error() {
    let mut store = Store::in_memory(8);
    let slot = store.allocate().unwrap();
    store.lend(Io(0), Buffer::zeroed(512).into());
    assert!(store.store(Io(0), Piece { host: 0, page: 0, len: 4096 }, slot, None).is_err());
    assert!(store.load(Io(0), Piece { host: 0, page: 4000, len: 512 }, Some(slot)).is_err());
    assert!(store.load(Io(9), Piece { host: 0, page: 0, len: 512 }, Some(slot)).is_err());
}

#[test]
fn injected_faults_count_down() {
    let mut store = Store::in_memory(8);
    let slot = store.allocate().unwrap();
    store.lend(Io(0), Buffer::zeroed(4096).into());
    let all = Piece { host: 0, page: 0, len: 4096 };
    store.arm_fault(true, 1);
    assert!(store.load(Io(0), all, Some(slot)).is_ok(), "a full disk can be read");
    assert!(store.store(Io(0), all, slot, None).is_err());
    assert!(store.store(Io(0), all, slot, None).is_ok());
    store.arm_fault(false, 0);
    assert!(store.load(Io(0), all, Some(slot)).is_err());
    assert!(store.load(Io(0), all, Some(slot)).is_err());
    store.clear_faults();
    assert!(store.load(Io(0), all, Some(slot)).is_ok());
}

/// A slot's last write says what lies beside its page, also a write that puts nothing there.
#[test]
fn a_write_without_marks_leaves_none_of_an_earlier_page() {
    let mut store = Store::in_memory(8);
    let (slot, next) = (store.allocate().unwrap(), store.allocate().unwrap());
    let Backing::Memory { spares, .. } = &mut store.backing else { panic!("in memory") };
    *spares.get_mut(slot).unwrap() = [9; SPARE_BYTES];
    assert!(Store::beside(&store.backing, slot).unwrap().is_some());
    store.lend(Io(0), Buffer::from(vec![1; 512]).into());
    let part = Piece { host: 0, page: 512, len: 512 };
    store.store(Io(0), part, next, Some(slot)).unwrap();
    let kept = Store::beside(&store.backing, next).unwrap().unwrap();
    assert_eq!(BlockTransform::marks(&kept, u32::from_le_bytes([9; 4]), false), 9 & !2);
    store.lend(Io(0), Buffer::from(vec![1; 4096]).into());
    store.store(Io(0), Piece { host: 0, page: 0, len: 4096 }, slot, None).unwrap();
    assert_eq!(Store::beside(&store.backing, slot), Ok(None));
}

/// An encrypted namespace with pages of one block, in a store in memory. Commands have one page.
struct SealedPages {
    store: Store,
    slots: Vec<Slot>,
}

impl SealedPages {
    const PAGE: Piece = Piece { host: 0, page: 0, len: 4096 };

    fn transform(action: BlockAction, lba: u64) -> BlockTransform {
        BlockTransform {
            action,
            shift: 12,
            metadata: 0,
            host_metadata: 0,
            protection: None,
            checks: Checks::default(),
            insert: false,
            tags: Tags::default(),
            remap: 0,
            stamp: 0,
            gathered: false,
            offset: 0,
            encrypted: true,
            nsid: 1,
            slba: lba,
        }
    }

    /// So many pages, each full of its number.
    fn new(count: u8) -> Self {
        let mut store = Store::in_memory(1024).with_keys(Keyring::wide());
        store.make_key(1, &[1; 16]).unwrap().unwrap();
        let mut slots = Vec::new();
        for number in 0..count {
            let slot = store.allocate().unwrap();
            store.lend(Io(0), Buffer::from(vec![number; 4096]).into());
            store.set_transform(Io(0), &Self::transform(BlockAction::Write, number.into())).unwrap();
            store.store(Io(0), Self::PAGE, slot, None).unwrap();
            store.give_back(Io(0));
            slots.push(slot);
        }
        SealedPages { store, slots }
    }

    /// Begins to read a page, as a command of the same number.
    fn begin(&mut self, number: u8) -> Result<(), StorageError> {
        let io = Io(number.into());
        let lent = LentMemory { bytes: Buffer::from(vec![0xEE; 4096]), parts: Vec::new() };
        self.store.lend(io, DataBuffer::Lent(Box::new(lent)));
        self.store.set_transform(io, &Self::transform(BlockAction::Read, number.into())).unwrap();
        self.store.load(io, Self::PAGE, Some(self.slots[usize::from(number)]))
    }

    /// Ends it: whether every byte is the page's number.
    fn end(&mut self, number: u8) -> bool {
        let DataBuffer::Lent(lent) = self.store.give_back(Io(number.into())) else { return false };
        assert_eq!(lent.parts, [AnswerPart::Copied { start: 0, len: 4096 }]);
        lent.bytes.as_slice() == [number; 4096]
    }
}

/// A power cut leaves a part of the first write to a page. What nobody wrote of the page stays zeroes, also where they are encrypted.
#[test]
fn what_nobody_wrote_of_a_page_in_part_is_zeroes() {
    for keys in [Keyring::default(), Keyring::wide()] {
        let mut store = Store::in_memory(8).with_keys(keys);
        let encrypted = store.make_key(1, &[1; 16]).unwrap().is_some();
        let transform =
            |action, lba| BlockTransform { shift: 9, encrypted, ..SealedPages::transform(action, lba) };
        let [first, second, left] = [(); 3].map(|()| store.allocate().unwrap());
        for (slot, base, page, byte) in [(first, None, 0, 7), (second, Some(first), 2048, 8)] {
            store.lend(Io(0), Buffer::from(vec![byte; 512]).into());
            let lba = u64::from(page) / 512;
            store.set_transform(Io(0), &transform(BlockAction::Write, lba)).unwrap();
            store.store(Io(0), Piece { host: 0, page, len: 512 }, slot, base).unwrap();
            store.give_back(Io(0));
        }
        store.splice(left, second, 2048..2560, None).unwrap();
        store.lend(Io(0), Buffer::from(vec![0xEE; 4096]).into());
        store.set_transform(Io(0), &transform(BlockAction::Read, 0)).unwrap();
        store.load(Io(0), SealedPages::PAGE, Some(left)).unwrap();
        let read = store.give_back(Io(0));
        for (block, bytes) in read.as_slice().chunks(512).enumerate() {
            let allowed: &[u8] = match block {
                0 => &[0, 7],
                4 => &[8],
                _ => &[0],
            };
            assert!(allowed.iter().any(|byte| bytes == [*byte; 512]), "{encrypted}: block {block}");
        }
    }
}

#[test]
fn encrypted_reads_are_decrypted_together_before_a_buffer_is_given_back() {
    let mut pages = SealedPages::new(200);
    for number in 0..200 {
        pages.begin(number).unwrap();
    }
    let waiting = pages.store.references();
    assert!(0 < waiting && waiting < 200, "{waiting} wait");
    for number in (0..200).rev() {
        assert!(pages.end(number), "page {number}");
        assert_eq!(pages.store.references(), 0, "all are decrypted at once");
    }
}

#[test]
fn a_page_that_is_overwritten_while_its_read_waits_is_read_as_it_was() {
    let mut pages = SealedPages::new(8);
    for number in 0..8 {
        pages.begin(number).unwrap();
    }
    // An overwrite takes another slot, and nobody else needs the old one.
    for number in 0..8 {
        pages.store.release(pages.slots[number]);
        let slot = pages.store.allocate().unwrap();
        assert!(!pages.slots.contains(&slot), "a slot in use is given to another page");
        let write = SealedPages::transform(BlockAction::Write, number as u64);
        pages.store.lend(Io(100), Buffer::from(vec![99; 4096]).into());
        pages.store.set_transform(Io(100), &write).unwrap();
        pages.store.store(Io(100), SealedPages::PAGE, slot, None).unwrap();
    }
    for number in 0..8 {
        assert!(pages.end(number), "page {number}");
    }
    let old = pages.slots.clone();
    assert!(old.contains(&pages.store.allocate().unwrap()), "the old slots are free again");
}

/// Reads that began before something is lost have read what was there. Those that begin after it do not get it.
#[test]
fn what_ends_contents_comes_after_reads_that_wait() {
    type End = fn(&mut Store, &[Slot]);
    let ends: [(&str, End, bool); 7] = [
        ("the key is dropped", |store, _| store.drop_key(1), true),
        ("another key is made", |store, _| assert!(store.make_key(1, &[1; 16]).unwrap().is_some()), false),
        ("a wrong key is opened", |store, _| assert!(!store.open_key(1, &[1; 16], &wrong_key())), true),
        ("slots are scrubbed", |store, slots| slots.iter().for_each(|&slot| store.scrub(slot)), false),
        (
            "everything is forgotten",
            |store, slots| {
                slots.iter().for_each(|&slot| store.release(slot));
                store.want_forget(Io(900), true, &mut Vec::new());
            },
            false,
        ),
        (
            "power is cut",
            |store, slots| {
                store.forget_slots();
                assert_eq!(store.references(), 0);
                slots.iter().for_each(|&slot| store.retain(slot));
                store.slots_are_counted();
            },
            false,
        ),
        ("the store is closed", |store, _| store.close(), false),
    ];
    for (what, end, refuses) in ends {
        let mut pages = SealedPages::new(4);
        for number in 0..3 {
            pages.begin(number).unwrap();
        }
        assert_eq!(pages.store.references(), 3);
        let slots = pages.slots.clone();
        end(&mut pages.store, &slots);
        for number in 0..3 {
            assert!(pages.end(number), "{what}: page {number}");
        }
        assert_eq!(pages.store.references(), 0, "{what}");
        assert_eq!(pages.begin(3).is_err(), refuses, "{what}");
        let survives = what == "power is cut";
        assert_eq!(!refuses && pages.end(3), survives, "{what}: a later read");
    }
}

fn wrong_key() -> WrappedKey {
    WrappedKey::new(vec![1; 92]).unwrap()
}
