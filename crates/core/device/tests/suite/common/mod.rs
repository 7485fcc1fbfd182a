//! A host and a runner for tests: contents in memory, virtual time, one command at a time or many.
#![allow(dead_code, reason = "a fuzz target uses a part of it")]

pub mod load;
pub mod plausible;
pub mod play;
pub mod reservations;
pub mod table;
pub mod zones;

use device::{
    Attach, BlockAction, BlockError, BlockTransform, Config, Contents, ControllerId, Drive, DriveKeyId, Host,
    InitialNamespace, Io, LbaFormat, Limits, Origin, Output, SPARE_BYTES, Submission, Transfer, WrappedKey,
};
use ftl::{Piece, Record, Section, Storage, StorageError};
use media::{Nanos, Slot};
use nvme::admin::{FaultInjection, FaultKind};
use nvme::identify::{Cns, NamespaceList};
use nvme::log::{LogId, OcpSmart};
use nvme::property::{Cc, PropertyOffset};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Command, Completion, NSID_ALL, Nqn, Status};
use std::collections::BTreeMap;

/// A drive small enough for tests: set 1 NAND of 64 MiB in TLC, set 2 DRAM of 8 MiB, no namespaces.
pub const SMALL_DRIVE: &str = r#"
[drive]
write_buffer = "1MiB"
[link]
read = "1GB/s"
write = "1GB/s"
command_overhead = "5us"
[[set]]
media = "nand"
cell = "tlc"
capacity = "64MiB"
spare = "28%"
channels = 2
dies = 4
planes = 2
nand_page = "4KiB"
pages_per_block = 48
rated_cycles = 3000
timing = { read = "60us", program = "700us", erase = "4ms", channel = "800MB/s" }
[[set]]
media = "dram"
capacity = "8MiB"
timing = { read = "1us", write = "1us", bandwidth = "4GB/s" }
"#;

/// The set 2 of [`SMALL_DRIVE`], and a hard disk in its place: 13 MiB. A request takes 3 ms, and little more.
pub const ON_DISK: (&str, &str) = (
    r#"
media = "dram"
capacity = "8MiB"
timing = { read = "1us", write = "1us", bandwidth = "4GB/s" }
"#,
    r#"
media = "disk"
rpm = 1000000
heads = 2
cylinders = 200
zones = 2
outer_sectors = 80
inner_sectors = 50
read_seek = ["5us", "10us", "20us"]
overhead = "3ms"
buffer = { segments = 0 }
"#,
);

/// With the times of media and link.
pub const TIMING_EDIT: (&str, &str) = ("[drive]\n", "[drive]\ntiming = true\n");

/// The same with changes: `(from, to)`.
pub fn small(changes: &[(&str, &str)]) -> Config {
    let mut text = SMALL_DRIVE.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from:?} is in the configuration");
        text = text.replace(from, to);
    }
    Config::from_toml(&text).unwrap()
}

/// A plain namespace that a new drive has, attached for all.
pub fn initial(set: u16, bytes: u64) -> InitialNamespace {
    let format = LbaFormat::plain(4096);
    InitialNamespace {
        set,
        bytes,
        format,
        protection: 0,
        attach: Attach::All,
        limits: Limits::default(),
        zones: None,
    }
}

/// A slot: references, page, and what lies beside it.
#[derive(Clone)]
struct Held {
    references: u32,
    page: Box<[u8]>,
    spare: [u8; SPARE_BYTES],
}

/// Contents in memory, counted slots, and every record as a journal.
#[derive(Clone, Default)]
pub struct Memory {
    slots: Vec<Held>,
    pub buffers: BTreeMap<u32, Vec<u8>>,
    /// Commands in flight that were begun.
    transforms: BTreeMap<u32, BlockTransform>,
    /// What those gather that copy blocks.
    gathered: BTreeMap<u32, Vec<u8>>,
    block_error: Option<(Io, BlockError)>,
    pub controller_records: Vec<Vec<u8>>,
    pub fail: bool,
    /// Contents are not encrypted here; it is only said that they are.
    pub drive_key: Option<DriveKeyId>,
    pub keys_made: u32,
    /// There is no disk of a host below that would have to be synced.
    pub no_disk: bool,
}

fn range(piece: Piece) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let (host, page, len) = (piece.host as usize, piece.page as usize, piece.len as usize);
    (host..host + len, page..page + len)
}

impl Memory {
    fn whole(&self, slot: Option<Slot>, transform: Option<&BlockTransform>) -> (Vec<u8>, [u8; SPARE_BYTES]) {
        let (mut page, mut spare) = (vec![0; 4096], [0; SPARE_BYTES]);
        match (slot, transform) {
            (Some(slot), _) => {
                let held = &self.slots[slot.0 as usize];
                return (held.page.to_vec(), held.spare);
            }
            (None, Some(transform)) => transform.fill_unwritten(&mut page, &mut spare),
            (None, None) => {}
        }
        (page, spare)
    }

    /// Every byte that is kept anywhere, slot by slot.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.slots.iter().flat_map(|held| [&held.page[..], &held.spare[..]])
    }

    fn scrub_free(&mut self) {
        for held in self.slots.iter_mut().filter(|held| held.references == 0) {
            held.page.fill(0);
            held.spare.fill(0);
        }
    }

    fn put(
        &mut self,
        io: Io,
        piece: Piece,
        slot: Slot,
        base: Option<Slot>,
        from_host: bool,
    ) -> Result<(), StorageError> {
        if self.fail {
            return Err(StorageError::Failed);
        }
        let transform = self.transforms.get(&io.0);
        let (mut page, mut spare) = self.whole(base, transform);
        match transform {
            Some(transform) => {
                let source = if transform.gathered { &self.gathered } else { &self.buffers };
                let host = if from_host { &source[&io.0][transform.host_range(piece)] } else { &[] };
                transform.claim_spare(&mut spare);
                transform.write_slot(piece, host, &mut page, &mut spare);
                self.slots[slot.0 as usize].spare = spare;
            }
            None => {
                let (host, at) = range(piece);
                match from_host {
                    true => page[at].copy_from_slice(&self.buffers[&io.0][host]),
                    false => page[at].fill(0),
                }
            }
        }
        // Without a transform what lies beside the page is left as an earlier user of the slot left it.
        self.slots[slot.0 as usize].page = page.into();
        Ok(())
    }

    /// Looks at blocks that are begun; the page and what lies beside it.
    fn look(
        &mut self,
        io: Io,
        piece: Piece,
        slot: Option<Slot>,
    ) -> Result<(Vec<u8>, [u8; SPARE_BYTES]), StorageError> {
        let transform = self.transforms.get(&io.0).copied();
        let (page, spare) = self.whole(slot, transform.as_ref());
        match transform.map_or(Ok(()), |transform| transform.check_slot(piece, &page, &spare)) {
            Ok(()) => Ok((page, spare)),
            Err(block_error) => {
                self.block_error = Some((io, block_error));
                Err(StorageError::Failed)
            }
        }
    }
}

impl Contents for Memory {
    fn drive_key(&self) -> Option<DriveKeyId> {
        self.drive_key
    }
    fn make_key(&mut self, nsid: u32, _: &[u8; 16]) -> Result<Option<WrappedKey>, StorageError> {
        if self.fail {
            return Err(StorageError::Failed);
        }
        self.keys_made += 1;
        let key = [&nsid.to_le_bytes()[..], &self.keys_made.to_le_bytes()].concat();
        Ok(self.drive_key.and_then(|_| WrappedKey::new(key)))
    }
    fn open_key(&mut self, nsid: u32, _: &[u8; 16], key: &WrappedKey) -> bool {
        key.as_bytes().starts_with(&nsid.to_le_bytes())
    }
    fn must_sync(&self) -> bool {
        !self.no_disk
    }

    fn set_transform(&mut self, io: Io, transform: &BlockTransform) -> Result<(), BlockError> {
        self.transforms.insert(io.0, *transform);
        match transform.action {
            BlockAction::Write if transform.gathered => transform.check_host(&self.gathered[&io.0]),
            BlockAction::Write | BlockAction::Compare => transform.check_host(&self.buffers[&io.0]),
            _ => Ok(()),
        }
    }
    fn gather(&mut self, io: Io, bytes: u32) {
        self.gathered.insert(io.0, vec![0; bytes as usize]);
    }
    fn marks(&self, slot: Slot, stamp: u32, always: bool) -> u8 {
        BlockTransform::marks(&self.slots[slot.0 as usize].spare, stamp, always)
    }
    fn block_error(&mut self, io: Io) -> Option<BlockError> {
        self.block_error.take().filter(|(of, _)| *of == io).map(|(_, block_error)| block_error)
    }
}

impl Storage for Memory {
    fn allocate(&mut self) -> Option<Slot> {
        let free = self.slots.iter().position(|s| s.references == 0).unwrap_or_else(|| {
            self.slots.push(Held { references: 0, page: vec![0; 4096].into(), spare: [0; SPARE_BYTES] });
            self.slots.len() - 1
        });
        self.slots[free].references = 1;
        Some(Slot(free as u32))
    }
    fn retain(&mut self, slot: Slot) {
        if slot != Slot::NONE {
            self.slots[slot.0 as usize].references += 1;
        }
    }
    fn release(&mut self, slot: Slot) {
        if slot != Slot::NONE {
            self.slots[slot.0 as usize].references -= 1;
        }
    }
    fn scrub(&mut self, slot: Slot) {
        self.slots[slot.0 as usize].page.fill(0);
        self.slots[slot.0 as usize].spare.fill(0);
    }
    fn forget_slots(&mut self) {
        self.slots.iter_mut().for_each(|s| s.references = 0);
    }
    fn store(&mut self, io: Io, piece: Piece, slot: Slot, base: Option<Slot>) -> Result<(), StorageError> {
        self.put(io, piece, slot, base, true)
    }
    fn store_zeros(
        &mut self,
        io: Io,
        piece: Piece,
        slot: Slot,
        base: Option<Slot>,
    ) -> Result<(), StorageError> {
        self.put(io, piece, slot, base, false)
    }
    fn splice(
        &mut self,
        slot: Slot,
        from: Slot,
        bytes: std::ops::Range<u32>,
        base: Option<Slot>,
    ) -> Result<(), StorageError> {
        let look = |slot: Slot| {
            let held = &self.slots[slot.0 as usize];
            (held.page.clone(), held.spare)
        };
        let (mut page, older) = base.map_or((vec![0; 4096].into(), None), |base| {
            let (page, spare) = look(base);
            (page, Some(spare))
        });
        let (newer, beside) = look(from);
        let range = bytes.start as usize..bytes.end as usize;
        page[range.clone()].copy_from_slice(&newer[range]);
        let spare = BlockTransform::splice_spare(older, Some(beside), bytes).expect("a slot has some");
        let held = &mut self.slots[slot.0 as usize];
        (held.page, held.spare) = (page, spare);
        Ok(())
    }
    fn load(&mut self, io: Io, piece: Piece, slot: Option<Slot>) -> Result<(), StorageError> {
        if self.fail {
            return Err(StorageError::Failed);
        }
        let (page, spare) = self.look(io, piece, slot)?;
        let gathers = self.transforms.get(&io.0).is_some_and(|transform| transform.gathered);
        let target = if gathers { &mut self.gathered } else { &mut self.buffers };
        let buffer = target.get_mut(&io.0).expect("a buffer");
        match self.transforms.get(&io.0) {
            Some(transform) if transform.action == BlockAction::Read => {
                transform.read_slot(piece, &page, &spare, &mut buffer[transform.host_range(piece)]);
            }
            Some(_) => {}
            None => {
                let (host, at) = range(piece);
                buffer[host].copy_from_slice(&page[at]);
            }
        }
        Ok(())
    }
    fn compare(&mut self, io: Io, piece: Piece, slot: Option<Slot>) -> Result<bool, StorageError> {
        let (page, spare) = self.look(io, piece, slot)?;
        let buffer = &self.buffers[&io.0];
        Ok(match self.transforms.get(&io.0) {
            Some(transform) => {
                transform.equals_host(piece, &page, &spare, &buffer[transform.host_range(piece)])
            }
            None => {
                let (host, at) = range(piece);
                buffer[host] == page[at]
            }
        })
    }
    fn record(&mut self, record: Record<'_>) {
        if let Record::Section { kind: Section::Controller, bytes } = record {
            self.controller_records.push(bytes.to_vec());
        }
    }
}

pub fn nqn(name: &str) -> Nqn {
    Nqn::new(&format!("nqn.2026-11.test:{name}")).unwrap()
}

/// A drive with its runner.
pub struct Bench {
    pub drive: Drive,
    pub memory: Memory,
    pub now: Nanos,
    pub controller: ControllerId,
    /// Outputs other than completions, data and syncs.
    pub events: Vec<Output>,
    /// Completions by number of the command, with when they came.
    pub done: BTreeMap<u32, (Completion, Nanos)>,
    /// Numbers of commands in the order in which they completed.
    pub order: Vec<u32>,
    /// How the host's disk answers.
    pub disk: bool,
    pub syncs: u32,
    pub forgets: u32,
    /// Whether only what is to be forgotten cannot be.
    pub fail_forget: bool,
    next: u32,
}

impl Bench {
    pub fn new(config: Config) -> Bench {
        Bench::around(Drive::new(config).unwrap(), Memory::default())
    }

    pub fn around(drive: Drive, memory: Memory) -> Bench {
        let mut bench = Bench {
            drive,
            memory,
            now: Nanos::ZERO,
            controller: ControllerId(0),
            events: Vec::new(),
            done: BTreeMap::new(),
            order: Vec::new(),
            disk: true,
            syncs: 0,
            forgets: 0,
            fail_forget: false,
            next: 0,
        };
        bench.controller = bench.connect("host", Origin::InProcess);
        bench
    }

    /// A small drive with one namespace of 4 MiB on each of its sets, attached for all.
    pub fn with_namespaces(changes: &[(&str, &str)]) -> Bench {
        let mut config = small(changes);
        for set in [1, 2] {
            config.namespaces.push(initial(set, 4 << 20));
        }
        Bench::new(config)
    }

    /// The same, whose flash was written so often that blocks were erased. With the bytes that were written.
    pub fn under_collection(changes: &[(&str, &str)]) -> (Bench, u64) {
        const PIECE: u32 = 16;
        let mut bench = Bench::with_namespaces(changes);
        let mut written = 0;
        for round in 0..8_000u32 {
            let piece = u64::from(round.wrapping_mul(2_654_435_761) >> 26);
            bench.write(1, piece * u64::from(PIECE), PIECE, &pattern(round, PIECE as usize * 4096));
            written += u64::from(PIECE) * 4096;
            if round % 256 == 0 {
                let log: OcpSmart = bench.ask(Command::get_log_page(LogId::OCP_SMART, NSID_ALL, 0, 0, 512));
                if log.max_user_data_erase_count.get() > 0 {
                    return (bench, written);
                }
            }
        }
        panic!("nothing was erased by {written} bytes");
    }

    /// Connects a host, enables its controller, adds one I/O queue.
    pub fn connect(&mut self, host: &str, origin: Origin) -> ControllerId {
        self.connect_as(host, [7; 16], origin)
    }

    /// The same with another Host Identifier.
    pub fn connect_as(&mut self, host: &str, host_id: [u8; 16], origin: Origin) -> ControllerId {
        self.connect_host(Host::administrator(nqn(host), host_id, origin))
    }

    /// The same of a host with a role.
    pub fn connect_host(&mut self, host: Host) -> ControllerId {
        let id = self.drive.connect(self.now, host, 0xFFFF, 0).unwrap();
        self.enable(id);
        self.drive.add_queue(id, 1, 128).unwrap();
        id
    }

    pub fn enable(&mut self, id: ControllerId) {
        let cc = Cc::new().with_en(true).with_css(Cc::CSS_SETS).with_iosqes(6).with_iocqes(4);
        self.set_property(id, PropertyOffset::CC, cc.into_bits().get()).unwrap();
    }

    pub fn set_property(
        &mut self,
        id: ControllerId,
        offset: PropertyOffset,
        value: u32,
    ) -> Result<(), Status> {
        let mut out = Vec::new();
        let result = self.drive.property_set(self.now, id, offset, value, &mut self.memory, &mut out);
        self.deliver(out);
        result
    }

    /// Submits a command; its completion comes in [`done`](Bench::done), now or later.
    pub fn submit(&mut self, id: ControllerId, qid: u16, command: &Command, data: &[u8]) -> u32 {
        while self.memory.buffers.contains_key(&self.next) {
            self.next = (self.next + 1) % 4096;
        }
        let io = self.next;
        self.next = (self.next + 1) % 4096;
        let command = command.with_cid(io as u16);
        let transfer = self.drive.transfer(id, qid, &command);
        let buffer = match transfer {
            Transfer::ToHost(bytes) => vec![0xEE; bytes as usize],
            _ => data.to_vec(),
        };
        self.memory.buffers.insert(io, buffer);
        let mut out = Vec::new();
        let submission = Submission { controller: id, qid, io: Io(io), command: &command, data };
        self.drive.submit(self.now, submission, &mut self.memory, &mut out);
        self.deliver(out);
        io
    }

    /// Takes what the drive puts out.
    pub fn deliver(&mut self, mut out: Vec<Output>) {
        while !out.is_empty() {
            let mut more = Vec::new();
            for output in out.drain(..) {
                match output {
                    Output::Complete { io, completion, .. } => {
                        self.memory.transforms.remove(&io.0);
                        self.memory.gathered.remove(&io.0);
                        self.order.push(io.0);
                        let twice = self.done.insert(io.0, (completion, self.now));
                        assert!(twice.is_none(), "{io:?} completes twice");
                    }
                    Output::Data { io, bytes } => {
                        let buffer = self.memory.buffers.get_mut(&io.0).expect("a buffer");
                        assert_eq!(buffer.len(), bytes.len(), "data is as long as the transfer");
                        *buffer = bytes;
                    }
                    Output::Sync { io } => {
                        self.syncs += 1;
                        self.drive.synced(self.now, io, self.disk, &mut self.memory, &mut more);
                    }
                    Output::Forget { io, .. } => {
                        self.forgets += 1;
                        self.memory.scrub_free();
                        let ok = self.disk && !self.fail_forget;
                        self.drive.synced(self.now, io, ok, &mut self.memory, &mut more);
                    }
                    other => self.events.push(other),
                }
            }
            out = more;
        }
    }

    /// Runs until nothing is under way, or at most until `limit`.
    pub fn run_until(&mut self, limit: Nanos) {
        while let Some(at) = self.drive.next_event().filter(|at| *at <= limit) {
            self.now = self.now.max(at);
            let mut out = Vec::new();
            self.drive.poll(self.now, &mut self.memory, &mut out);
            self.deliver(out);
        }
        if limit != Nanos::MAX {
            self.now = self.now.max(limit);
        }
    }

    /// The completion of a command, and its buffer.
    pub fn wait(&mut self, io: u32) -> (Completion, Vec<u8>) {
        while !self.done.contains_key(&io) {
            let at = self.drive.next_event().expect("the command is under way");
            self.run_until(at.max(self.now));
        }
        (self.done.remove(&io).unwrap().0, self.memory.buffers.remove(&io).unwrap())
    }

    pub fn on(
        &mut self,
        id: ControllerId,
        qid: u16,
        command: &Command,
        data: &[u8],
    ) -> (Completion, Vec<u8>) {
        let io = self.submit(id, qid, command, data);
        self.wait(io)
    }

    /// An admin command of the first host.
    pub fn admin(&mut self, command: impl Into<Command>, data: &[u8]) -> (Completion, Vec<u8>) {
        let id = self.controller;
        self.on(id, 0, &command.into(), data)
    }

    /// The same, which must succeed.
    pub fn admin_ok(&mut self, command: impl Into<Command>, data: &[u8]) -> (u32, Vec<u8>) {
        let (completion, data) = self.admin(command, data);
        assert_eq!(completion.status(), Status::SUCCESS);
        (completion.dw0.get(), data)
    }

    /// From now on every erase of set 1 fails.
    pub fn fail_erases(&mut self) {
        let fault = FaultInjection {
            nsid: 0,
            kind: FaultKind::ERASE_FAILURE,
            nvmsetid: 1,
            count: 0,
            one_in: 1,
            param: 0,
            lba: None,
        };
        self.admin_ok(fault, &[]);
    }

    /// A structure that an admin command returns.
    pub fn ask<T: FromBytes>(&mut self, command: impl Into<Command>) -> T {
        let (_, data) = self.admin_ok(command, &[]);
        T::read_from_prefix(&data).unwrap_or_else(|_| panic!("{} bytes are too few", data.len())).0
    }

    /// An I/O command of the first host.
    pub fn io(&mut self, command: impl Into<Command>, data: &[u8]) -> (Status, Vec<u8>) {
        let id = self.controller;
        let (completion, data) = self.on(id, 1, &command.into(), data);
        (completion.status(), data)
    }

    pub fn write(&mut self, nsid: u32, slba: u64, blocks: u32, data: &[u8]) {
        assert_eq!(self.io(Command::write(nsid, slba, blocks), data).0, Status::SUCCESS);
    }

    pub fn read(&mut self, nsid: u32, slba: u64, blocks: u32) -> Vec<u8> {
        let (status, data) = self.io(Command::read(nsid, slba, blocks), &[]);
        assert_eq!(status, Status::SUCCESS);
        data
    }

    pub fn cut(&mut self, energy: bool) {
        let mut out = Vec::new();
        self.drive.power_cut(self.now, energy, Nanos::ZERO, &mut self.memory, &mut out);
        self.memory.transforms.clear();
        self.deliver(out);
    }

    pub fn power_on(&mut self) {
        self.drive.power_on(self.now, &mut self.memory);
        self.controller = self.connect("host", Origin::InProcess);
    }
}

/// `bytes` bytes that differ by `seed` and position.
pub fn pattern(seed: u32, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|i| {
            (i as u32).wrapping_mul(31).wrapping_add(seed.wrapping_mul(977)).to_le_bytes()[(i / 256) % 2]
        })
        .collect()
}

/// A structure as the data of a command.
pub fn bytes(structure: &(impl IntoBytes + nvme::zerocopy::Immutable)) -> Vec<u8> {
    structure.as_bytes().to_vec()
}

/// A small drive whose completions are held until their modelled time.
pub const TIMED_SMALL: &[(&str, &str)] = &[("[drive]", "[drive]\ntiming = true")];

impl Bench {
    /// A list of namespaces, as a controller sees it.
    pub fn numbers(&mut self, id: ControllerId, cns: Cns) -> Vec<u32> {
        let (completion, data) = self.on(id, 0, &Command::identify(cns, 0), &[]);
        assert_eq!(completion.status(), Status::SUCCESS);
        NamespaceList::ref_from_bytes(&data).unwrap().iter().collect()
    }

    /// The namespaces that a controller may use.
    pub fn visible(&mut self, id: ControllerId) -> Vec<u32> {
        self.numbers(id, Cns::ACTIVE_NAMESPACES)
    }

    /// A private namespace of 4 KiB blocks, attached to the first host's controller.
    pub fn create_attached(&mut self, set: u16, blocks: u64) -> u32 {
        use nvme::admin::*;
        use nvme::{U16, U64};
        let create =
            NamespaceManagement { nsid: 0, sel: NamespaceManagementSelect::CREATE, csi: nvme::Csi::NVM };
        let new = nvme::identify::NamespaceCreate {
            nsze: U64::new(blocks),
            ncap: U64::new(blocks),
            nvmsetid: U16::new(set),
            ..Default::default()
        };
        let (nsid, _) = self.admin_ok(create, &bytes(&new));
        let list = nvme::identify::ControllerList::new([self.controller.0]);
        self.admin_ok(NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH }, &bytes(&list));
        nsid
    }
}
