//! Both state machines wired to each other, over a stream that is cut at arbitrary points.

use std::collections::BTreeMap;

use fabric::host::{self, Data};
use fabric::{Part, target};
use nvme::fabrics::{Connect, ConnectAttributes, ConnectData, FabricsCommand};
use nvme::zerocopy::IntoBytes;
use nvme::{Command, Completion, IoCommand, Status, Transfer};
use proptest::prelude::*;

const BLOCK: usize = 512;
const BLOCKS: usize = 256;

/// Moves some of what one side has to send to the other; the cuts decide how much at a time.
struct Wire {
    cuts: Vec<usize>,
    at: usize,
    gaps: bool,
    /// Memory of the host that reads go to, by command.
    memory: BTreeMap<fabric::Tag, Vec<u8>>,
}

impl Wire {
    fn cut(&mut self) -> usize {
        self.at += 1;
        self.cuts[self.at % self.cuts.len()].max(1)
    }

    fn forward(&mut self, host: &mut host::Connection, target: &mut target::Connection) -> bool {
        let bytes: Vec<u8> = host.transmit().flatten().copied().take(self.cut()).collect();
        host.sent(bytes.len());
        let mut rest = &bytes[..];
        while self.gaps
            && !rest.is_empty()
            && let Some(gap) = target.gap()
        {
            let n = gap.len().min(rest.len());
            gap[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            target.filled(n).unwrap();
        }
        target.receive(rest).unwrap();
        !bytes.is_empty()
    }

    fn back(
        &mut self,
        target: &mut target::Connection,
        host: &mut host::Connection,
        lent: &mut LentMemory,
    ) -> bool {
        let cut = self.cut();
        let bytes: Vec<u8> =
            target.transmit_with(|token| &lent[&token]).flatten().copied().take(cut).collect();
        target.sent_with(bytes.len(), |token| assert!(lent.remove(&token).is_some(), "given back twice"));
        let mut rest = &bytes[..];
        while self.gaps && !rest.is_empty() {
            if let Some(gap) = host.gap() {
                let n = gap.len().min(rest.len());
                gap[..n].copy_from_slice(&rest[..n]);
                rest = &rest[n..];
                host.filled(n).unwrap();
            } else if let Some(gap) = host.gap_elsewhere() {
                let n = gap.len.min(rest.len());
                let place = &mut self.memory.get_mut(&gap.tag).unwrap()[gap.at..gap.at + n];
                place.copy_from_slice(&rest[..n]);
                rest = &rest[n..];
                host.filled_elsewhere(place).unwrap();
            } else {
                break;
            }
        }
        let memory = &mut self.memory;
        host.receive_to(rest, &mut |gap, data| {
            memory.get_mut(&gap.tag).unwrap()[gap.at..gap.at + gap.len].copy_from_slice(data);
        })
        .unwrap();
        !bytes.is_empty()
    }
}

/// What answers refer to, by token.
type LentMemory = BTreeMap<u32, Vec<u8>>;

/// A controller with one namespace in memory; answers the oldest or the newest command first.
struct Memory {
    blocks: Vec<u8>,
    held: Vec<target::Incoming>,
    newest_first: bool,
    lent: LentMemory,
    tokens: u32,
}

impl Memory {
    /// Every other block stays where it is, in the midst of other bytes; the rest is copied.
    fn parts(&mut self, at: usize, data: &mut [u8]) -> Vec<Part> {
        let mut parts = Vec::new();
        for (i, block) in data.chunks_mut(BLOCK).enumerate() {
            let (start, len) = ((i * BLOCK) as u32, block.len() as u32);
            let bytes = &self.blocks[at + i * BLOCK..at + i * BLOCK + block.len()];
            if i % 2 == 0 {
                self.tokens += 1;
                self.lent.insert(self.tokens, [&[0xEE; 3], bytes, &[0xDD; 5]].concat());
                parts.push(Part::Away { token: self.tokens, start: 3, len });
            } else {
                block.copy_from_slice(bytes);
                parts.push(Part::Own { start, len });
            }
        }
        parts
    }

    fn step(&mut self, target: &mut target::Connection) {
        while let Some(incoming) = target.next() {
            self.held.push(incoming);
        }
        let next = if self.newest_first {
            self.held.pop()
        } else {
            (!self.held.is_empty()).then(|| self.held.remove(0))
        };
        let Some(incoming) = next else { return };
        let data = target.data(incoming.tag).unwrap();
        if let Ok(IoCommand::Read(b)) = IoCommand::parse(&incoming.sqe)
            && b.slba % 2 == 1
        {
            let parts = self.parts(usize::try_from(b.slba).unwrap() * BLOCK, data);
            let failed = Completion::new(0, Status::INTERNAL_ERROR);
            assert!(target.respond_with(incoming.tag, failed, &parts, |_| &[]).is_err());
            let lent = &self.lent;
            target
                .respond_with(incoming.tag, Completion::success(0, 0), &parts, |token| &lent[&token])
                .unwrap();
            assert!(target.respond(incoming.tag, Completion::success(0, 0), 0).is_err(), "answered twice");
            return;
        }
        let (completion, filled) = match IoCommand::parse(&incoming.sqe) {
            Ok(IoCommand::Read(b)) => {
                let at = usize::try_from(b.slba).unwrap() * BLOCK;
                data.copy_from_slice(&self.blocks[at..at + data.len()]);
                (Completion::success(0, 0), data.len())
            }
            Ok(IoCommand::Write(b)) => {
                let at = usize::try_from(b.slba).unwrap() * BLOCK;
                self.blocks[at..at + data.len()].copy_from_slice(data);
                (Completion::success(0, 0), 0)
            }
            Ok(IoCommand::Flush { .. }) => (Completion::success(0, 7), 0),
            Ok(IoCommand::Fabrics(FabricsCommand::Connect(_))) => {
                assert_eq!(data.len(), 1024);
                (Completion::success(0, 1), 0)
            }
            _ => (Completion::new(0, Status::INVALID_OPCODE), 0),
        };
        target.respond(incoming.tag, completion, filled).unwrap();
        assert!(target.respond(incoming.tag, completion, 0).is_err(), "answered twice");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Read { slba: usize, blocks: usize },
    Write { slba: usize, blocks: usize, seed: u8 },
    Flush,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let range = (0..BLOCKS, 1usize..80).prop_map(|(slba, n)| (slba, n.min(BLOCKS - slba)));
    prop::collection::vec(
        prop_oneof![
            range.clone().prop_map(|(slba, blocks)| Op::Read { slba, blocks }),
            (range, any::<u8>()).prop_map(|((slba, blocks), seed)| Op::Write { slba, blocks, seed }),
            Just(Op::Flush),
        ],
        1..24,
    )
}

fn configs() -> impl Strategy<Value = (target::Config, host::Config)> {
    (any::<[bool; 4]>(), 0u8..32, 0u8..32, 1u16..9, 0usize..3, 0u32..20_000, 0u16..5).prop_map(
        |(d, cpda_z, hpda_z, depth, memory, in_capsule, max_r2t_z)| {
            let target = target::Config {
                max_depth: 64,
                in_capsule: 16384,
                max_transfer: 65536,
                max_h2c_data: 4096,
                cpda_z,
                header_digest: d[0],
                data_digest: d[1],
                data_memory: [1, 65536, 1 << 20][memory],
                max_r2t: 3,
                r2t_bytes: 8192,
            };
            let host = host::Config {
                depth,
                in_capsule: in_capsule.min(16384),
                hpda_z,
                header_digest: d[2],
                data_digest: d[3],
                max_r2t_z,
            };
            (target, host)
        },
    )
}

fn connect(depth: u16, flow_control: bool) -> (Command, Data) {
    let cmd = Command::from(FabricsCommand::Connect(Connect {
        recfmt: 0,
        qid: 1,
        sqsize_z: depth - 1,
        cattr: ConnectAttributes::new().with_dis_sqflow(!flow_control),
        kato: 0,
    }));
    (cmd, Data::Out(ConnectData::default().as_bytes().to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(
        ops in ops(),
        (tc, hc) in configs(),
        cuts in prop::collection::vec(1usize..9000, 1..8),
        gaps: bool,
        newest_first: bool,
        flow_control: bool,
    ) {
        let mut host = host::Connection::new(hc.clone());
        let mut target = target::Connection::new(tc);
        let mut wire = Wire { cuts, at: 0, gaps, memory: BTreeMap::new() };
        let mut drive = Memory { blocks: vec![0; BLOCK * BLOCKS], held: vec![], newest_first, lent: LentMemory::new(), tokens: 0 };
        while !host.is_ready() {
            wire.forward(&mut host, &mut target);
            wire.back(&mut target, &mut host, &mut drive.lent);
        }
        let (cmd, data) = connect(hc.depth, flow_control);
        host.submit(cmd, data).unwrap();
        let done = loop {
            wire.forward(&mut host, &mut target);
            drive.step(&mut target);
            wire.back(&mut target, &mut host, &mut drive.lent);
            if let Some(done) = host.next() {
                break done;
            }
        };
        prop_assert_eq!(done.completion.dw0.get(), 1);
        prop_assert_eq!(done.completion.sqhd.get(), if flow_control { 1 % hc.depth } else { 0xFFFF });

        // A write and whatever touches its blocks must not be in flight together: the order of execution is
        // free. The model is the memory at submission.
        let mut model = vec![0u8; BLOCK * BLOCKS];
        let mut expected = BTreeMap::new();
        let mut pending = ops.into_iter().peekable();
        let mut busy: Vec<(fabric::Tag, usize, usize, bool)> = vec![];
        let mut idle = 0;
        while pending.peek().is_some() || host.outstanding() > 0 {
            while let Some(op) = pending.peek() {
                let (from, to, writes) = match *op {
                    Op::Read { slba, blocks } => (slba, slba + blocks, false),
                    Op::Write { slba, blocks, .. } => (slba, slba + blocks, true),
                    Op::Flush => (0, 0, false),
                };
                if host.outstanding() == host.depth()
                    || busy.iter().any(|b| from < b.2 && b.1 < to && (writes || b.3))
                {
                    break;
                }
                let (slba, count) = (from as u64, u32::try_from(to - from).unwrap());
                let range = from * BLOCK..to * BLOCK;
                let (cmd, data) = match pending.next().unwrap() {
                    Op::Read { .. } if slba % 4 > 1 => {
                        (Command::read(1, slba, count), Data::Elsewhere(u32::try_from(range.len()).unwrap()))
                    }
                    Op::Read { .. } => {
                        (Command::read(1, slba, count), Data::In(vec![0xEE; range.len()]))
                    }
                    Op::Write { seed, .. } => {
                        let bytes: Vec<u8> = range.clone().map(|i| (i as u8).wrapping_mul(7) ^ seed).collect();
                        model[range.clone()].copy_from_slice(&bytes);
                        (Command::write(1, slba, count), Data::Out(bytes))
                    }
                    Op::Flush => (Command::flush(1), Data::None),
                };
                let room = if matches!(data, Data::Elsewhere(_)) { range.len() } else { 0 };
                let tag = host.submit(cmd, data).unwrap();
                wire.memory.insert(tag, vec![0xEE; room]);
                expected.insert(tag, model[range].to_vec());
                busy.push((tag, from, to, writes));
            }
            let a = wire.forward(&mut host, &mut target);
            drive.step(&mut target);
            let b = wire.back(&mut target, &mut host, &mut drive.lent);
            prop_assert!(target.in_flight() <= usize::from(hc.depth));
            while let Some(done) = host.next() {
                prop_assert!(done.completion.status().is_success(), "{:?}", done.completion.status());
                let model = expected.remove(&done.tag).unwrap();
                let memory = wire.memory.remove(&done.tag).unwrap();
                match done.data {
                    Data::In(data) | Data::Out(data) => prop_assert_eq!(data, model),
                    Data::Elsewhere(len) => {
                        prop_assert_eq!((done.received, len as usize), (memory.len(), memory.len()));
                        prop_assert_eq!(memory, model);
                    }
                    Data::None => {}
                }
                busy.retain(|b| b.0 != done.tag);
            }
            idle = if a || b { 0 } else { idle + 1 };
            prop_assert!(idle < 100, "stuck");
        }
        prop_assert!(expected.is_empty());
        while target.wants_to_send() {
            wire.back(&mut target, &mut host, &mut drive.lent);
        }
        prop_assert!(drive.lent.is_empty(), "not given back");
        target.trim();
        prop_assert_eq!(target.in_flight(), 0);
    }

    #[test]
    fn any_bytes_end_in_an_error_at_worst(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fabric::fuzz(&bytes);
    }

    /// Mostly right: PDUs of right shape with wild fields.
    #[test]
    fn wild_pdus_end_in_an_error_at_worst(
        pdus in prop::collection::vec((0u8..11, 0u8..16, any::<[u8; 64]>(), 0usize..64), 1..12),
    ) {
        let mut stream = vec![];
        for (kind, flags, fields, data) in pdus {
            let hlen = fabric::pdu::PduType(kind).hlen().unwrap_or(24);
            let pdo = if data > 0 { hlen } else { 0 };
            let plen = u32::from(hlen) + u32::try_from(data).unwrap();
            stream.extend([kind, flags & 0xC, hlen, pdo]);
            stream.extend(plen.to_le_bytes());
            let mut body = fields.iter().copied().cycle().take(usize::from(hlen) - 8).collect::<Vec<_>>();
            // Identifiers, offsets and lengths that may be meant.
            for byte in body.iter_mut().take(16) {
                *byte &= 3;
            }
            if hlen == 72 {
                body[24] = 0;
                body[1] = 0x40;
            }
            stream.extend(body);
            stream.extend(std::iter::repeat_n(0xAB, data));
        }
        fabric::fuzz(&stream);
    }

    /// With both digests on, a changed byte is noticed: no wrong data, at worst a failure.
    #[test]
    fn a_changed_byte_is_noticed(at in 0usize..9000, change in 1u8..=255) {
        let (tc, hc) = (
            target::Config::default(),
            host::Config { header_digest: true, data_digest: true, in_capsule: 0, ..host::Config::default() },
        );
        let mut host = host::Connection::new(hc);
        let mut target = target::Connection::new(tc);
        let mut wire = Wire { cuts: vec![1 << 20], at: 0, gaps: false, memory: BTreeMap::new() };
        while !host.is_ready() {
            wire.forward(&mut host, &mut target);
            wire.back(&mut target, &mut host, &mut LentMemory::new());
        }
        let bytes = vec![0x5A; 8192];
        host.submit(Command::write(1, 0, 16), Data::Out(bytes.clone())).unwrap();
        let mut moved = 0;
        for _ in 0..6 {
            let mut stream: Vec<u8> = host.transmit().flatten().copied().collect();
            host.sent(stream.len());
            if let Some(byte) = at.checked_sub(moved).and_then(|at| stream.get_mut(at)) {
                *byte ^= change;
            }
            moved += stream.len();
            if target.receive(&stream).is_err() {
                prop_assert!(target.wants_to_send());
                break;
            }
            if let Some(incoming) = target.next() {
                prop_assert_eq!(target.data(incoming.tag).unwrap().to_vec(), bytes.clone());
                prop_assert_eq!(incoming.transfer, Transfer::ToController(8192));
                target.respond(incoming.tag, Completion::success(0, 0), 0).unwrap();
            }
            wire.back(&mut target, &mut host, &mut LentMemory::new());
        }
    }
}
