//! Groups of pages in sets of memory are written as a whole or not at all.

use ftl::{
    Answer, Config, Extent, Fault, Ftl, Io, PAGE, Piece, Record, SetId, Source, Storage, StorageError, Write,
};
use media::{Nanos, Slot};

/// Slots without contents, of which there may be too few.
#[derive(Default)]
struct Few {
    left: u32,
    next: u32,
    /// The store after so many others fails.
    fails_after: Option<u32>,
    stores: u32,
}

impl Storage for Few {
    fn allocate(&mut self) -> Option<Slot> {
        self.left = self.left.checked_sub(1)?;
        self.next += 1;
        Some(Slot(self.next))
    }
    fn retain(&mut self, _: Slot) {}
    fn release(&mut self, _: Slot) {
        self.left += 1;
    }
    fn forget_slots(&mut self) {}
    fn store(&mut self, _: Io, _: Piece, _: Slot, _: Option<Slot>) -> Result<(), StorageError> {
        self.stores += 1;
        if self.fails_after == Some(self.stores - 1) { Err(StorageError::Failed) } else { Ok(()) }
    }
    fn store_zeros(
        &mut self,
        io: Io,
        piece: Piece,
        slot: Slot,
        base: Option<Slot>,
    ) -> Result<(), StorageError> {
        self.store(io, piece, slot, base)
    }
    fn splice(
        &mut self,
        _: Slot,
        _: Slot,
        _: std::ops::Range<u32>,
        _: Option<Slot>,
    ) -> Result<(), StorageError> {
        Ok(())
    }
    fn load(&mut self, _: Io, _: Piece, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn compare(&mut self, _: Io, _: Piece, _: Option<Slot>) -> Result<bool, StorageError> {
        Ok(true)
    }
    fn record(&mut self, _: Record<'_>) {}
}

/// A set of persistent memory whose atomic write unit is four pages, and slots.
fn bench(slots: u32) -> (Ftl, Few, ftl::VolumeId) {
    let config = Config {
        sets: vec![crate::sets::pmem()],
        buffer_pages: 64,
        protected: true,
        energy_bytes: 1 << 30,
        atomic_pages: 4,
        durable: true,
        faults: Default::default(),
    };
    let (mut ftl, mut store) = (Ftl::new(config).unwrap(), Few { left: slots, ..Few::default() });
    let volume = ftl.create(SetId(0), u64::from(64 * PAGE), &mut store).unwrap();
    (ftl, store, volume)
}

fn write(ftl: &mut Ftl, store: &mut Few, volume: ftl::VolumeId, first: u32, pages: u32) -> Answer {
    let extent = Extent { start: u64::from(first * PAGE), bytes: pages * PAGE };
    ftl.write(Nanos::ZERO, Write::new(Io(0), volume, extent, Source::Host), store)
}

#[test]
fn a_group_waits_until_there_are_slots_for_all_of_it() {
    let (mut ftl, mut store, volume) = bench(6);
    // Pages 2 and 3 are of one group, 4 to 7 of the next, 8 of a third.
    assert_eq!(write(&mut ftl, &mut store, volume, 2, 7), Answer::Later);
    assert_eq!(ftl.references().len(), 6, "two groups are there, the third waits");
    let (mut ftl, mut store, volume) = bench(5);
    assert_eq!(write(&mut ftl, &mut store, volume, 2, 7), Answer::Later);
    assert_eq!(ftl.references().len(), 2, "nothing of the second");
    assert_eq!(store.left, 3);
    store.left = 5;
    let mut done = Vec::new();
    ftl.poll(Nanos::ZERO, &mut store, &mut done);
    assert_eq!(done.len(), 1);
    assert_eq!(ftl.references().len(), 7);
}

#[test]
fn a_group_that_cannot_be_stored_changes_nothing() {
    let (mut ftl, mut store, volume) = bench(16);
    store.fails_after = Some(4);
    assert_eq!(write(&mut ftl, &mut store, volume, 2, 6), Answer::Failed(Fault::Storage));
    assert_eq!(ftl.references().len(), 2);
    assert_eq!(store.left, 14);
}
