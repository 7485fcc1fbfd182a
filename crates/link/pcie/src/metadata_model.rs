//! A model of blocks whose metadata is separate: a host with random blocks and metadata pointers, some of them hostile, predicts the bytes
//! and the status of each command.
//!
//!     TRANCHE_MODEL_ROUNDS=5000 cargo test --profile suite -p pcie model      (more runs)
//!
//! What holds: the controller sees each block with its metadata behind it; the host finds both where its pointers say, and no other byte
//! changes; a pointer that is not valid ends the command with the specified status.

use crate::memory::GuestMemory;
use crate::rig::Rig;
use nvme::command::SglType;
use nvme::zerocopy::IntoBytes;
use nvme::{Command, Completion, SeparateBlock, SglDescriptor, Status, Transfer};
use rng::Rng;

/// Address of data, page aligned.
const DATA_BASE: u64 = 0x4_0000;
/// Address of the page of metadata.
const METADATA_BASE: u64 = 0x5_0000;
/// Bytes of the memory of metadata.
const METADATA_BYTES: usize = 0x1000;
/// Address of a list of PRPs.
const PRP_LIST: u64 = 0x3_0000;
/// Address of descriptors of metadata.
const DESCRIPTORS: u64 = 0x6_0000;
/// An address within the hole of guest memory.
const HOLE: u64 = 0x8_8000;
/// The last dword before the hole.
const BEFORE_HOLE: u64 = 0x7_FFFC;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// The byte in memory that a command must not change.
const UNTOUCHED: u8 = 0xA5;

/// The target of a metadata pointer.
enum Pointed {
    /// Metadata, in parts.
    Parts(Vec<(u64, usize)>),
    /// A pointer or a list that is refused before data moves.
    Refused(Status),
    /// Bytes that are not mapped.
    Unmapped,
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| rng::mix(seed ^ (at / 8)) as u8 ^ at as u8).collect()
}

struct Model {
    rig: Rig,
    rng: Rng,
    what: String,
}

impl Model {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u64) as usize]
    }

    /// A metadata pointer for `len` bytes.
    fn pointer(&mut self, psdt: u8, len: usize) -> (u64, Pointed) {
        let room = (METADATA_BYTES - len) as u64;
        let valid = METADATA_BASE
            + if psdt == 1 { self.rng.below(room + 1) } else { self.rng.below(room / 4 + 1) * 4 };
        if psdt == 2 {
            return self.list(valid, len);
        }
        match self.rng.below(8) {
            0 if psdt == 0 => {
                (valid + 1 + self.rng.below(3), Pointed::Refused(Status::INVALID_FIELD.with_dnr()))
            }
            1 => (HOLE, Pointed::Unmapped),
            2 if len > 4 => (BEFORE_HOLE, Pointed::Unmapped),
            3 if len > 4 => (u64::MAX - 3, Pointed::Unmapped),
            _ => (valid, Pointed::Parts(vec![(valid, len)])),
        }
    }

    /// The same as an SGL.
    fn list(&mut self, at: u64, len: usize) -> (u64, Pointed) {
        let whole = SglDescriptor::data_block(at, len as u32);
        let refused = |status: Status| Pointed::Refused(status.with_dnr());
        let transfer_error = || refused(Status::DATA_TRANSFER_ERROR);
        let write = |model: &Model, list: &[SglDescriptor]| {
            model.rig.memory.write(DESCRIPTORS, list.as_bytes()).unwrap();
        };
        write(self, &[whole]);
        match self.rng.below(10) {
            0 => (DESCRIPTORS + 4, refused(Status::INVALID_SGL_SEGMENT)),
            1 => (HOLE, transfer_error()),
            2 => (u64::MAX - 7, transfer_error()),
            3 => {
                let wrong = self.pick(&[len - 1, len + 1]) as u32;
                write(self, &[SglDescriptor::data_block(at, wrong)]);
                (DESCRIPTORS, refused(Status::METADATA_SGL_LENGTH_INVALID))
            }
            4 => {
                let addr = self.pick(&[HOLE, u64::MAX]);
                write(self, &[SglDescriptor::data_block(addr, len as u32)]);
                (DESCRIPTORS, Pointed::Unmapped)
            }
            5 => {
                write(self, &[SglDescriptor::list(SglType::LAST_SEGMENT, HOLE, 16)]);
                (DESCRIPTORS, transfer_error())
            }
            6 | 7 if len > 1 => {
                // Two parts, the second one in front.
                let first = 1 + self.rng.below(len as u64 - 1) as usize;
                let parts = [(at + (len - first) as u64, first), (at, len - first)];
                let blocks = parts.map(|(addr, bytes)| SglDescriptor::data_block(addr, bytes as u32));
                let segment = SglDescriptor::list(SglType::LAST_SEGMENT, DESCRIPTORS + 64, 32);
                write(self, &[segment]);
                self.rig.memory.write(DESCRIPTORS + 64, blocks.as_bytes()).unwrap();
                (DESCRIPTORS, Pointed::Parts(parts.to_vec()))
            }
            _ => (DESCRIPTORS, Pointed::Parts(vec![(at, len)])),
        }
    }

    /// The data pointer of contiguous data.
    fn data_pointer(&mut self, psdt: u8, len: usize) -> SglDescriptor {
        if psdt != 0 {
            return SglDescriptor::data_block(DATA_BASE, len as u32);
        }
        let pages = (len as u64).div_ceil(PAGE);
        for page in 1..pages {
            let entry = DATA_BASE + page * PAGE;
            self.rig.memory.write(PRP_LIST + 8 * (page - 1), &entry.to_le_bytes()).unwrap();
        }
        let second = if pages > 2 { PRP_LIST } else { DATA_BASE + PAGE };
        SglDescriptor::of_prps([DATA_BASE, second])
    }

    /// One command, from the host's queue to its completion.
    fn command(&mut self) {
        let [data_size, metadata_size] = [self.pick(&[512, 4096, 3, 17]), self.pick(&[8, 64, 1, 5])];
        let block = SeparateBlock::new(data_size, metadata_size).unwrap();
        let count = 1 + self.rng.below(5) as usize;
        let (size, extra) = (data_size as usize, metadata_size as usize);
        let psdt = self.pick(&[0, 1, 2]);
        let is_read = self.rng.below(2) == 0;
        let seed = self.rng.next_u64();
        let (data, metadata) = (pattern(seed, count * size), pattern(!seed, count * extra));
        let whole: Vec<u8> = data
            .chunks(size)
            .zip(metadata.chunks(extra))
            .flat_map(|(data, metadata)| [data, metadata].concat())
            .collect();
        self.rig.memory.write(METADATA_BASE, &[UNTOUCHED; METADATA_BYTES]).unwrap();
        self.rig.memory.write(DATA_BASE, &vec![UNTOUCHED; count * size + 1]).unwrap();
        let mut command = if is_read { Command::read(1, 0, 1) } else { Command::write(1, 0, 1) };
        command.flags.set_psdt(psdt);
        command.dptr = self.data_pointer(psdt, data.len());
        let (mptr, pointed) = self.pointer(psdt, metadata.len());
        command.mptr.set(mptr);
        // Memory of metadata as it is to be in the end.
        let mut expected = vec![UNTOUCHED; METADATA_BYTES];
        if let Pointed::Parts(parts) = &pointed {
            let mut rest = &metadata[..];
            for (addr, bytes) in parts {
                let (part, behind) = rest.split_at(*bytes);
                let at = (addr - METADATA_BASE) as usize;
                expected[at..at + bytes].copy_from_slice(part);
                rest = behind;
            }
        }
        if !is_read {
            self.rig.memory.write(DATA_BASE, &data).unwrap();
            self.rig.memory.write(METADATA_BASE, &expected).unwrap();
        }
        self.rig.submit(1, command);
        let transferred = self.transfer(block, &whole, is_read);
        let completion = self.rig.take(1).unwrap();
        self.rig.ring_head(1);
        let status = match &pointed {
            Pointed::Parts(_) => Status::SUCCESS,
            Pointed::Refused(status) => *status,
            Pointed::Unmapped => Status::DATA_TRANSFER_ERROR.with_dnr(),
        };
        assert_eq!(completion.status(), status, "{}: {command:?}", self.what);
        let is_well = status.is_success();
        assert!(transferred == (is_well && !is_read).then_some(whole), "{}: bytes of a write", self.what);
        let mut found = vec![0; METADATA_BYTES];
        self.rig.memory.read(METADATA_BASE, &mut found).unwrap();
        assert!(found == expected, "{}: memory of metadata", self.what);
        let mut found = vec![0; data.len() + 1];
        self.rig.memory.read(DATA_BASE, &mut found).unwrap();
        if is_well {
            assert!(found[..data.len()] == data && found[data.len()] == UNTOUCHED, "{}: data", self.what);
        }
    }

    /// The controller executes the next command. Returns the bytes of a write that has all of them.
    fn transfer(&mut self, block: SeparateBlock, whole: &[u8], is_read: bool) -> Option<Vec<u8>> {
        let incoming = self.rig.command();
        let (function, memory) = (&mut self.rig.function, &self.rig.memory);
        let (tag, len) = (incoming.tag, whole.len() as u64);
        let transfer = if is_read { Transfer::ToHost(len) } else { Transfer::ToController(len) };
        let mut bytes = vec![0; whole.len()];
        let mapped = function.map(tag, transfer, Some(block), memory);
        let moved = mapped.and_then(|()| {
            if is_read {
                function.write(tag, whole, memory);
                return Ok(());
            }
            function.read(tag, &mut bytes, memory)
        });
        let status = moved.err().unwrap_or(Status::SUCCESS);
        self.rig.respond(incoming, Completion::new(0, status));
        (!is_read && status.is_success()).then_some(bytes)
    }
}

#[test]
fn random_metadata_pointers() {
    let number =
        |name: &str, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (first, rounds): (u64, u64) = (number("TRANCHE_MODEL_FIRST", 0), number("TRANCHE_MODEL_ROUNDS", 20));
    for seed in first..first + rounds {
        let mut rig = Rig::enabled();
        rig.create_cq(1, 0x1_0000, 16, 1);
        rig.create_sq(1, 0x2_0000, 16, 1);
        let mut model = Model { rig, rng: Rng::new(seed), what: String::new() };
        for step in 0..100 {
            model.what = format!("TRANCHE_MODEL_FIRST={seed} TRANCHE_MODEL_ROUNDS=1, command {step}");
            model.command();
        }
    }
}
