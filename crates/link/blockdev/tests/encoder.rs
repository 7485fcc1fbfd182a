//! Any request on any namespace: its parts cover it once, keep to the limits, and say what is to be done with protection information.

use blockdev::{ControllerLimits, Limits, Namespace, Operation, Payload, Unusable, Verb, ZoneAction};
use nvme::copy::CopySource;
use nvme::identify::{IdentifyNamespace, LbaFormat, NvmController};
use nvme::io::{Blocks, DsmRange};
use nvme::zerocopy::FromBytes;
use nvme::zone::{ZoneManagementSend, ZoneSendAction};
use nvme::{Command, IoCommand};
use proptest::prelude::*;

/// What Identify says, with small limits so that requests are cut.
#[derive(Clone, Debug)]
struct Drive {
    mdts: u8,
    nvm: NvmController,
    namespace: IdentifyNamespace,
}

impl Drive {
    fn limits(&self) -> ControllerLimits {
        ControllerLimits::new(self.mdts, 4096, &self.nvm)
    }

    fn namespace(&self) -> Namespace {
        Namespace::new(7, &self.namespace, &self.limits()).unwrap()
    }
}

prop_compose! {
    fn drive()(
        mdts in 0u8..6, wzsl in 0u8..6, dmrl in 0u8..5, dmrsl in 0u32..50, dmsl in 0u64..120,
        mssrl in 0u16..40, mcl in 0u32..90, msrc_z in 0u8..4, shift in 9u8..13, protection in 0u8..4,
    ) -> Drive {
        let mut nvm = NvmController { wzsl, dmrl, ..NvmController::default() };
        nvm.dmrsl.set(dmrsl);
        nvm.dmsl.set(dmsl);
        let mut namespace = IdentifyNamespace { msrc_z, ..IdentifyNamespace::default() };
        namespace.nsze.set(1 << 40);
        namespace.mssrl.set(mssrl);
        namespace.mcl.set(mcl);
        namespace.dps.set_pit(protection);
        namespace.lbaf[0] = LbaFormat::new(shift, if protection > 0 { 8 } else { 0 });
        Drive { mdts, nvm, namespace }
    }
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        Just(Verb::Read),
        Just(Verb::Write),
        Just(Verb::ReadFua),
        Just(Verb::WriteFua),
        Just(Verb::Trim),
        (0u64..1 << 39, any::<bool>()).prop_map(|(from, fua)| Verb::Copy { from, fua }),
        any::<bool>().prop_map(|deallocate| Verb::WriteZeroes { deallocate }),
    ]
}

/// The ranges of logical blocks that a command touches; with a Copy those that it reads, too.
type Touched = (Vec<(u64, u64)>, Vec<(u64, u64)>);

fn range(blocks: &Blocks) -> (u64, u64) {
    (blocks.slba, blocks.nlb.into())
}

/// Holds a command to the limits of its drive, and says what it touches.
fn look(drive: &Drive, namespace: &Namespace, verb: Verb, command: &Command, payload: &Payload) -> Touched {
    let limits = drive.limits();
    let block = u64::from(namespace.block_size);
    let protected = namespace.protection != 0;
    let mut bytes = Vec::new();
    if let Payload::Ranges(ranges) = payload {
        ranges.write(&mut bytes);
    }
    let whole = |blocks: &Blocks| {
        assert_eq!((blocks.nsid, blocks.fua), (7, verb.fua()));
        assert_eq!((blocks.prinfo.pract(), blocks.lbtl), (protected, blocks.slba as u32));
        assert!(blocks.nlb <= 65536);
    };
    match IoCommand::parse(command).unwrap() {
        IoCommand::Read(b) => {
            whole(&b);
            assert_eq!((b.prinfo.check_guard(), *payload), (protected, Payload::Read));
            assert!(b.nlb == 1 || u64::from(b.nlb) * block <= limits.transfer);
            (vec![range(&b)], vec![])
        }
        IoCommand::Write(b) => {
            whole(&b);
            assert_eq!((b.prinfo.check_guard(), *payload), (false, Payload::Write));
            assert!(b.nlb == 1 || u64::from(b.nlb) * block <= limits.transfer);
            (vec![range(&b)], vec![])
        }
        IoCommand::WriteZeroes(b) => {
            whole(&b);
            assert_eq!(Verb::WriteZeroes { deallocate: b.deac }, verb);
            assert!(b.nlb == 1 || u64::from(b.nlb) * block <= limits.write_zeroes);
            assert_eq!(*payload, Payload::None);
            (vec![range(&b)], vec![])
        }
        IoCommand::DatasetManagement(dsm) => {
            let ranges: Vec<(u64, u64)> = bytes
                .chunks_exact(16)
                .map(|bytes| DsmRange::read_from_bytes(bytes).unwrap())
                .map(|range| (range.slba.get(), range.lengthlb.get().into()))
                .collect();
            assert!(dsm.ad && ranges.len() == usize::from(dsm.nr));
            assert!(ranges.len() <= limits.ranges as usize);
            assert!(ranges.iter().all(|(_, blocks)| *blocks <= limits.range_blocks.into()));
            assert!(ranges.iter().map(|(_, blocks)| blocks).sum::<u64>() <= limits.all_blocks);
            (ranges, vec![])
        }
        IoCommand::Copy(copy) => {
            let sources: Vec<CopySource> =
                bytes.chunks_exact(32).map(|bytes| CopySource::parse(0, bytes).unwrap()).collect();
            assert_eq!((sources.len(), copy.fua), (copy.nr.into(), verb.fua()));
            assert_eq!(
                (copy.prinfor.pract(), copy.prinfor.check_guard(), copy.prinfow.pract(), copy.lbtl),
                (protected, protected, protected, copy.sdlba as u32)
            );
            let identified = &drive.namespace;
            let (length, all) = (identified.mssrl.get(), identified.mcl.get());
            assert!(sources.len() <= usize::from(identified.msrc_z) + 1);
            assert!(length == 0 || sources.iter().all(|source| source.nlb <= length.into()));
            let blocks = sources.iter().map(|source| u64::from(source.nlb)).sum::<u64>();
            assert!(all == 0 || blocks <= all.into());
            assert!(sources.iter().all(|source| source.lbtl == source.slba as u32));
            (vec![(copy.sdlba, blocks)], sources.iter().map(|s| (s.slba, s.nlb.into())).collect())
        }
        other => panic!("{other:?}"),
    }
}

/// The ranges are those blocks, once and in order.
fn covers(ranges: &[(u64, u64)], first: u64, blocks: u64) {
    let mut next = first;
    for (lba, count) in ranges {
        assert_eq!(*lba, next);
        assert!(*count > 0);
        next += count;
    }
    assert_eq!(next, first + blocks);
}

proptest! {
    #[test]
    fn every_block_is_covered_once_within_the_limits(
        drive in drive(), verb in verb(), lba in 0u64..1 << 39, blocks in 1u32..700,
    ) {
        let namespace = drive.namespace();
        let operation = Operation { verb, lba, blocks };
        let (mut touched, mut read) = (Vec::new(), Vec::new());
        let mut parts = operation.parts(&namespace.limits);
        let mut left = parts.left();
        loop {
            prop_assert_eq!(parts.left(), left);
            prop_assert_eq!(parts.is_over(), left == 0);
            let at = parts.at();
            let Some(part) = parts.next() else { break };
            prop_assert_eq!(part.lba, lba + u64::from(at));
            left -= 1;
            let (command, payload) = namespace.encode(&part);
            let (more, source) = look(&drive, &namespace, verb, &command, &payload);
            covers(&more, part.lba, part.blocks.into());
            touched.extend(more);
            read.extend(source);
        }
        prop_assert_eq!(left, 0);
        covers(&touched, lba, blocks.into());
        if let Verb::Copy { from, .. } = verb {
            covers(&read, from, blocks.into());
        }
    }

    #[test]
    fn parts_begin_at_units(unit in 1u64..40, blocks in 1u32..700, transfer in 1u32..50) {
        let limits = Limits { transfer, ..Limits::NONE };
        let Some(limits) = limits.in_units(unit * 1024, 4096) else {
            prop_assert!(u64::from(transfer) * 4096 < unit * 4096);
            return Ok(());
        };
        let mut parts = Operation { verb: Verb::Read, lba: 3, blocks }.parts(&limits);
        while parts.left() > 0 {
            prop_assert_eq!(u64::from(parts.at()) * 4096 % (unit * 1024), 0);
            prop_assert!(parts.next().unwrap().blocks <= transfer);
        }
    }
}

#[test]
fn appends_go_to_their_zone_and_actions_name_it() {
    let namespace = Namespace { protection: 1, ..Namespace::plain(7, 4096, 512) };
    let limits = Limits { append: 100, ..namespace.limits };
    let append = Operation { verb: Verb::Append, lba: 1024, blocks: 250 };
    let parts: Vec<Operation> = append.parts(&limits).collect();
    assert_eq!(
        parts.iter().map(|part| (part.lba, part.blocks)).collect::<Vec<_>>(),
        [(1024, 100), (1024, 100), (1024, 50)]
    );
    let (command, payload) = namespace.encode(&parts[2]);
    let IoCommand::ZoneAppend(blocks) = IoCommand::parse(&command).unwrap() else { panic!("{command:?}") };
    assert_eq!((blocks.slba, blocks.nlb, blocks.piremap, payload), (1024, 50, true, Payload::Write));
    assert_eq!((parts[2].bytes(512), blocks.prinfo.pract()), (25600, true));
    for (action, wanted) in
        [(ZoneAction::Finish, ZoneSendAction::FINISH), (ZoneAction::Reset, ZoneSendAction::RESET)]
    {
        let action = Operation { verb: Verb::Zone(action), lba: 2048, blocks: 0 };
        assert_eq!(action.parts(&limits).collect::<Vec<_>>(), [action]);
        let (command, payload) = namespace.encode(&action);
        let parsed = IoCommand::parse(&command).unwrap();
        let IoCommand::ZoneManagementSend(send) = parsed else { panic!("{command:?}") };
        assert_eq!((send, payload), (ZoneManagementSend::new(7, wanted, 2048), Payload::None));
        assert_eq!(action.bytes(512), 0);
    }
}

#[test]
fn a_flush_is_one_part_without_blocks() {
    let namespace = Namespace::plain(7, 100, 512);
    let flush = Operation { verb: Verb::Flush, lba: 0, blocks: 0 };
    let parts: Vec<Operation> = flush.parts(&namespace.limits).collect();
    assert_eq!(parts, [flush]);
    assert_eq!(namespace.encode(&flush), (Command::flush(7), Payload::None));
}

#[test]
fn what_carries_other_metadata_is_not_used() {
    let mut identified = IdentifyNamespace::default();
    let new = |identified: &IdentifyNamespace| Namespace::new(1, identified, &ControllerLimits::NONE);
    assert_eq!(new(&identified), Err(Unusable::Absent));
    identified.nsze.set(10);
    assert_eq!(new(&identified), Err(Unusable::Format));
    identified.lbaf[0] = LbaFormat::new(9, 0);
    assert_eq!(new(&identified), Ok(Namespace::plain(1, 10, 512)));
    identified.lbaf[0] = LbaFormat::new(9, 8);
    // Nor is metadata in a separate buffer.
    assert_eq!(new(&identified), Err(Unusable::Metadata));
    identified.flbas.set_mtelba(true);
    assert_eq!(new(&identified), Err(Unusable::Metadata));
    identified.dps.set_pit(1);
    assert_eq!(new(&identified), Ok(Namespace { protection: 1, ..Namespace::plain(1, 10, 512) }));
    identified.lbaf[0] = LbaFormat::new(9, 16);
    assert_eq!(new(&identified), Err(Unusable::Metadata));
}
