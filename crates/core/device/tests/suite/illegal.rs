//! Every illegal field gets the status that the specification names: one row each.

use crate::common::table::Table;
use crate::common::{Bench, bytes};
use device::{ControllerId, Host, Io, Origin, Output, Submission};
use nvme::admin::*;
use nvme::command::{CommandFlags, SglDescriptor};
use nvme::feature::FeatureId;
use nvme::identify::{Cns, Flbas, NamespaceCreate, Nmic};
use nvme::io::{Blocks, DsmRange, PrInfo};
use nvme::log::LogId;
use nvme::property::{Cc, PropertyOffset, Shn};
use nvme::{AdminCommand, Command, Csi, IoCommand, IoOpcode, NSID_ALL, Status, U16, U32, U64};

const SUCCESS: Status = Status::SUCCESS;
const FIELD: Status = Status::INVALID_FIELD;
const NAMESPACE: Status = Status::INVALID_NAMESPACE;
const OPCODE: Status = Status::INVALID_OPCODE;

fn blocks(nsid: u32, slba: u64, nlb: u32) -> Blocks {
    Blocks::new(nsid, slba, nlb)
}

#[test]
fn refused_io_commands() {
    // Namespaces 1 and 2 have 1,024 blocks of 4 KiB; 3 exists and is not attached; MDTS is 64 KiB.
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\nmax_transfer = \"64KiB\"")]);
    let data = bytes(&create(1, 8));
    b.admin_ok(management(NamespaceManagementSelect::CREATE, 0), &data);
    let with = |change: fn(&mut Blocks)| {
        let mut blocks = blocks(1, 0, 1);
        change(&mut blocks);
        blocks
    };
    let flags = |fuse, psdt, mut c: Command| {
        c.flags = CommandFlags::new().with_fuse(fuse).with_psdt(psdt);
        c
    };
    let mut rows: Vec<(&str, Command, Status)> = vec![
        ("read", Command::read(1, 1023, 1), SUCCESS),
        ("one block too far", Command::read(1, 1023, 2), Status::LBA_OUT_OF_RANGE),
        ("far out", Command::read(1, u64::MAX, 1), Status::LBA_OUT_OF_RANGE),
        ("an end that wraps", Command::read(1, u64::MAX - 3, 65536), Status::LBA_OUT_OF_RANGE),
        ("an offset that wraps", Command::read(1, 1 << 52, 1), Status::LBA_OUT_OF_RANGE),
        ("larger than MDTS", Command::read(1, 0, 17), FIELD),
        ("no namespace", Command::read(0, 0, 1), NAMESPACE),
        ("broadcast", Command::read(NSID_ALL, 0, 1), NAMESPACE),
        ("more than NN", Command::read(33, 0, 1), NAMESPACE),
        ("not attached", Command::read(3, 0, 1), FIELD),
        ("not allocated", Command::read(4, 0, 1), FIELD),
        ("first of a fused pair", flags(1, 1, Command::read(1, 0, 1)), FIELD),
        ("reserved FUSE", flags(3, 1, Command::write(1, 0, 1)), FIELD),
        ("reserved PSDT", flags(0, 3, Command::read(1, 0, 1)), FIELD),
        ("flush", Command::flush(1), SUCCESS),
        ("flush of all", Command::flush(NSID_ALL), SUCCESS),
        ("flush of none", Command::flush(0), NAMESPACE),
        ("flush of what is not attached", Command::flush(3), FIELD),
        ("a directive", IoCommand::Write(with(|b| b.dtype = 1)).into(), FIELD),
        ("a directive in Write Zeroes", IoCommand::WriteZeroes(with(|b| b.dtype = 2)).into(), FIELD),
        ("namespace zeroes", IoCommand::WriteZeroes(with(|b| b.nsz = true)).into(), FIELD),
        ("large Write Zeroes", Command::write_zeroes(1, 0, 1024, false), SUCCESS),
        ("large Verify", IoCommand::Verify(blocks(1, 0, 1024)).into(), SUCCESS),
        ("Verify too far", IoCommand::Verify(blocks(1, 1, 1024)).into(), Status::LBA_OUT_OF_RANGE),
        ("Write Uncorrectable", IoCommand::WriteUncorrectable(blocks(2, 0, 1)).into(), SUCCESS),
        (
            "Write Uncorrectable too far",
            IoCommand::WriteUncorrectable(blocks(2, 1023, 2)).into(),
            Status::LBA_OUT_OF_RANGE,
        ),
        ("vendor specific", Command::new(0xC0, 1), OPCODE),
        ("Connect", Command::new(0x7F, 1), OPCODE),
    ];
    for (name, opcode) in [
        ("read", IoOpcode::READ),
        ("write", IoOpcode::WRITE),
        ("compare", IoOpcode::COMPARE),
        ("verify", IoOpcode::VERIFY),
        ("write zeroes", IoOpcode::WRITE_ZEROES),
    ] {
        rows.push((
            name,
            with(|b| b.prinfo = PrInfo::from_nibble(8)).encode(opcode),
            Status::INVALID_PROTECTION_INFORMATION,
        ));
        rows.push((
            name,
            with(|b| b.prinfo = PrInfo::from_nibble(1)).encode(opcode),
            Status::INVALID_PROTECTION_INFORMATION,
        ));
        rows.push((name, with(|b| b.stc = true).encode(opcode), Status::INVALID_PROTECTION_INFORMATION));
        rows.push((name, with(|b| b.cetype = 1).encode(opcode), FIELD));
    }
    let mut table = Table::new("I/O commands", "illegal.rs", "refused_io_commands");
    for (name, command, status) in rows {
        let (got, _) = b.io(command, &vec![0; 65536]);
        table.check(name, false, &command, got, status);
        assert_eq!(got.dnr(), !status.is_success(), "{name}");
    }
    let dsm = |range: &[DsmRange]| range.iter().flat_map(bytes).collect::<Vec<u8>>();
    for (name, command, data, status) in [
        ("in range", Command::deallocate(1, 1), dsm(&[DsmRange::new(1020, 4)]), SUCCESS),
        (
            "only hints",
            Command { cdw11: U32::new(3), ..Command::deallocate(1, 1) },
            dsm(&[DsmRange::new(0, 4)]),
            SUCCESS,
        ),
        ("too far", Command::deallocate(1, 1), dsm(&[DsmRange::new(1020, 5)]), Status::LBA_OUT_OF_RANGE),
        (
            "wraps",
            Command::deallocate(1, 1),
            dsm(&[DsmRange::new(u64::MAX, u32::MAX)]),
            Status::LBA_OUT_OF_RANGE,
        ),
        (
            "one of two",
            Command::deallocate(1, 2),
            dsm(&[DsmRange::new(0, 1), DsmRange::new(1024, 1)]),
            Status::LBA_OUT_OF_RANGE,
        ),
        ("an empty range at the end", Command::deallocate(1, 1), dsm(&[DsmRange::new(1024, 0)]), SUCCESS),
        (
            "an empty range behind the end",
            Command::deallocate(1, 1),
            dsm(&[DsmRange::new(1025, 0)]),
            Status::LBA_OUT_OF_RANGE,
        ),
        (
            "too little data",
            Command::deallocate(1, 2),
            dsm(&[DsmRange::new(0, 1)]),
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        ("broadcast", Command::deallocate(NSID_ALL, 1), dsm(&[DsmRange::new(0, 1)]), NAMESPACE),
    ] {
        let (got, _) = b.io(command, &data);
        table.check(name, false, &command, got, status);
    }
    table.finish();
}

fn create(set: u16, blocks: u64) -> NamespaceCreate {
    NamespaceCreate {
        nsze: U64::new(blocks),
        ncap: U64::new(blocks),
        nvmsetid: U16::new(set),
        ..Default::default()
    }
}

fn management(sel: NamespaceManagementSelect, nsid: u32) -> NamespaceManagement {
    NamespaceManagement { nsid, sel, csi: Csi::NVM }
}

#[test]
fn refused_namespace_management() {
    let mut b = Bench::with_namespaces(&[]);
    type Row = (&'static str, fn(&mut NamespaceCreate), Status);
    let rows: &[Row] = &[
        ("no size", |c| c.nsze = U64::new(0), FIELD),
        ("no capacity", |c| c.ncap = U64::new(0), FIELD),
        ("more capacity than size", |c| c.ncap = U64::new(9), FIELD),
        ("less capacity than size", |c| c.ncap = U64::new(7), Status::THIN_PROVISIONING_NOT_SUPPORTED),
        ("a format that is not there", |c| c.flbas = Flbas::from_format_index(2), Status::INVALID_FORMAT),
        ("a format beyond 15", |c| c.flbas = Flbas::from_format_index(16), Status::INVALID_FORMAT),
        (
            "protection information",
            |c| c.dps = nvme::identify::Dps::new().with_pit(1),
            Status::INVALID_FORMAT,
        ),
        ("a dispersed namespace", |c| c.nmic = Nmic::new().with_disns(true), FIELD),
        ("an ANA group", |c| c.anagrpid = U32::new(2), Status::ANA_GROUP_ID_INVALID),
        ("an NVM Set that is not there", |c| c.nvmsetid = U16::new(3), FIELD),
        (
            "an Endurance Group that is not there",
            |c| (c.nvmsetid, c.endgid) = (U16::new(0), U16::new(9)),
            FIELD,
        ),
        ("a set of another group", |c| c.endgid = U16::new(2), FIELD),
        ("a storage tag mask", |c| c.lbstm = U64::new(1), FIELD),
        ("placement handles", |c| c.nphndls = U16::new(1), FIELD),
        ("nothing", |_| {}, SUCCESS),
    ];
    let mut table = Table::new("Namespace Management", "illegal.rs", "refused_namespace_management");
    for (name, change, status) in rows {
        let mut new = create(1, 8);
        change(&mut new);
        let command = management(NamespaceManagementSelect::CREATE, 0).into();
        let (got, _) = b.admin(command, &bytes(&new));
        table.check(name, true, &command, got.status(), *status);
    }
    let good = bytes(&create(1, 8));
    let zoned = NamespaceManagement { csi: Csi::ZONED, ..management(NamespaceManagementSelect::CREATE, 0) };
    let mut reserved: Command = management(NamespaceManagementSelect::CREATE, 0).into();
    reserved.cdw10 = U32::new(2);
    for (name, command, data, status) in [
        ("zoned", zoned.into(), &good[..], Status::IOCS_NOT_SUPPORTED),
        ("an identifier", management(NamespaceManagementSelect::CREATE, 5).into(), &good, FIELD),
        ("reserved select", reserved, &good, FIELD),
        (
            "too little data",
            management(NamespaceManagementSelect::CREATE, 0).into(),
            &good[..64],
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        ("delete nothing", management(NamespaceManagementSelect::DELETE, 0).into(), &[], NAMESPACE),
        ("delete what is not there", management(NamespaceManagementSelect::DELETE, 30).into(), &[], FIELD),
    ] {
        let (got, _) = b.admin(command, data);
        table.check(name, true, &command, got.status(), status);
    }
    table.finish();
}

#[test]
fn refused_admin_commands() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\nmax_transfer = \"64KiB\"")]);
    let identify = |cns, nsid, csi| Identify { nsid, cns, cntid: 0, cnssid: 0, csi, uidx: 0 };
    let log = |change: fn(&mut GetLogPage)| {
        let mut c = GetLogPage {
            nsid: NSID_ALL,
            lid: LogId::SMART,
            lsp: 0,
            lsi: 0,
            rae: true,
            dwords: 128,
            offset: 0,
            ot: false,
            csi: Csi::NVM,
            uidx: 0,
        };
        change(&mut c);
        Command::from(c)
    };
    let set = |fid, cdw11| Command::set_features(fid, 0, cdw11);
    let get = |fid, cdw11| {
        Command::from(GetFeatures { nsid: 0, fid, sel: nvme::feature::Select::CURRENT, uidx: 0, cdw11 })
    };
    let save = |fid, cdw11| {
        Command::from(SetFeatures { nsid: 0, fid, sv: true, uidx: 0, cdw11, cdw12: 0, cdw13: 0, cdw15: 0 })
    };
    let format = |change: fn(&mut FormatNvm)| {
        let mut c = FormatNvm { nsid: 2, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::NONE };
        change(&mut c);
        Command::from(c)
    };
    let mut reserved_erase = format(|_| {});
    reserved_erase.cdw10 = U32::new(5 << 9);
    let mut fused = Command::identify(Cns::CONTROLLER, 0);
    fused.flags = CommandFlags::new().with_fuse(1);
    let rows: &[(&str, Command, Status)] = &[
        ("identify controller", Command::identify(Cns::CONTROLLER, 0), SUCCESS),
        ("fused", fused, FIELD),
        ("a CNS that is not there", identify(Cns::PRIMARY_CONTROLLER, 0, Csi::NVM).into(), FIELD),
        ("a reserved CNS", identify(Cns(0xE0), 0, Csi::NVM).into(), FIELD),
        ("namespace 0", identify(Cns::NAMESPACE, 0, Csi::NVM).into(), NAMESPACE),
        ("all namespaces", identify(Cns::NAMESPACE, NSID_ALL, Csi::NVM).into(), SUCCESS),
        ("an inactive one", identify(Cns::NAMESPACE, 9, Csi::NVM).into(), SUCCESS),
        ("one beyond NN", identify(Cns::NAMESPACE, 33, Csi::NVM).into(), NAMESPACE),
        (
            "descriptors of an inactive one",
            identify(Cns::NAMESPACE_DESCRIPTORS, 9, Csi::NVM).into(),
            NAMESPACE,
        ),
        ("list above all", identify(Cns::ACTIVE_NAMESPACES, NSID_ALL, Csi::NVM).into(), NAMESPACE),
        ("list above the last", identify(Cns::ACTIVE_NAMESPACES, NSID_ALL - 1, Csi::NVM).into(), NAMESPACE),
        ("zoned controller", identify(Cns::IOCS_CONTROLLER, 0, Csi::ZONED).into(), FIELD),
        ("zoned namespace", identify(Cns::IOCS_NAMESPACE, 1, Csi::ZONED).into(), FIELD),
        ("NVM controller", identify(Cns::IOCS_CONTROLLER, 0, Csi::NVM).into(), SUCCESS),
        ("NVM namespace", identify(Cns::IOCS_NAMESPACE, 1, Csi::NVM).into(), SUCCESS),
        ("independent namespace", identify(Cns::INDEPENDENT_NAMESPACE, 1, Csi::NVM).into(), SUCCESS),
        ("granularity", identify(Cns::NAMESPACE_GRANULARITY, 0, Csi::NVM).into(), SUCCESS),
        (
            "command sets",
            Identify { cntid: 0xFFFF, ..identify(Cns::IO_COMMAND_SETS, 0, Csi::NVM) }.into(),
            SUCCESS,
        ),
        (
            "command sets of nobody",
            Identify { cntid: 77, ..identify(Cns::IO_COMMAND_SETS, 0, Csi::NVM) }.into(),
            FIELD,
        ),
        ("log", log(|_| {}), SUCCESS),
        ("a log that is not there", log(|c| c.lid = LogId(0x15)), Status::INVALID_LOG_PAGE),
        ("a part of a telemetry block", log(|c| (c.lid, c.offset) = (LogId::TELEMETRY_HOST, 4)), FIELD),
        ("an odd offset", log(|c| c.offset = 2), FIELD),
        ("the end of the log", log(|c| c.offset = 512), SUCCESS),
        ("beyond the log", log(|c| c.offset = 516), FIELD),
        ("far beyond the log", log(|c| c.offset = u64::MAX - 3), FIELD),
        ("an index offset", log(|c| c.ot = true), FIELD),
        ("more than MDTS", log(|c| c.dwords = 65536 / 4 + 1), FIELD),
        ("much more than MDTS", log(|c| c.dwords = 1 << 32), FIELD),
        ("SMART by namespace", log(|c| c.nsid = 1), SUCCESS),
        ("SMART of nothing", log(|c| c.nsid = 9), FIELD),
        ("SMART beyond NN", log(|c| c.nsid = 99), NAMESPACE),
        ("a log that is not by namespace", log(|c| (c.lid, c.nsid) = (LogId::ERROR, 1)), FIELD),
        ("a UUID for a log of the base", log(|c| c.uidx = 99), SUCCESS),
        ("a UUID that is not there", log(|c| (c.lid, c.uidx) = (LogId::OCP_SMART, 4)), FIELD),
        (
            "a log of another vendor",
            log(|c| (c.lid, c.uidx) = (LogId::OCP_SMART, 3)),
            Status::INVALID_LOG_PAGE,
        ),
        ("no Endurance Group", log(|c| c.lid = LogId::ENDURANCE_GROUP), FIELD),
        ("Endurance Group 3", log(|c| (c.lid, c.lsi) = (LogId::ENDURANCE_GROUP, 3)), FIELD),
        ("Endurance Group 2", log(|c| (c.lid, c.lsi) = (LogId::ENDURANCE_GROUP, 2)), SUCCESS),
        ("statistics of nothing", log(|c| (c.lid, c.nsid) = (LogId::NAMESPACE_STATISTICS, 9)), FIELD),
        ("statistics beyond NN", log(|c| (c.lid, c.nsid) = (LogId::NAMESPACE_STATISTICS, 99)), NAMESPACE),
        ("an unknown feature", get(FeatureId(0x7E), 0), FIELD),
        ("an absent feature", get(FeatureId::HOST_MEMORY_BUFFER, 0), FIELD),
        ("a write cache that is not there", get(FeatureId::VOLATILE_WRITE_CACHE, 0), FIELD),
        ("set a write cache that is not there", set(FeatureId::VOLATILE_WRITE_CACHE, 0), FIELD),
        ("a short host identifier", get(FeatureId::HOST_IDENTIFIER, 0), FIELD),
        ("a host identifier", get(FeatureId::HOST_IDENTIFIER, 1), SUCCESS),
        ("set the host identifier", set(FeatureId::HOST_IDENTIFIER, 1), Status::COMMAND_SEQUENCE_ERROR),
        ("a power state", set(FeatureId::POWER_MANAGEMENT, 1), FIELD),
        ("65,536 queues", set(FeatureId::NUMBER_OF_QUEUES, 0xFFFF_FFFF), FIELD),
        ("queues after queues", set(FeatureId::NUMBER_OF_QUEUES, 0), Status::COMMAND_SEQUENCE_ERROR),
        ("another sensor", set(FeatureId::TEMPERATURE_THRESHOLD, 300 | 1 << 16), FIELD),
        ("reserved threshold type", set(FeatureId::TEMPERATURE_THRESHOLD, 300 | 2 << 20), FIELD),
        ("hysteresis", set(FeatureId::TEMPERATURE_THRESHOLD, 300 | 1 << 22), FIELD),
        ("errors for deallocated blocks", set(FeatureId::ERROR_RECOVERY, 1 << 16), FIELD),
        ("events of no group", set(FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION, 0), FIELD),
        ("events of group 3", set(FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION, 3), FIELD),
        ("the one combination of command sets", set(FeatureId::IO_COMMAND_SET_PROFILE, 0), SUCCESS),
        (
            "another combination of command sets",
            set(FeatureId::IO_COMMAND_SET_PROFILE, 1),
            Status::IOCS_COMBINATION_REJECTED,
        ),
        ("save what cannot be", save(FeatureId::KEEP_ALIVE_TIMER, 0), Status::FEATURE_NOT_SAVEABLE),
        ("save", save(FeatureId::ARBITRATION, 3), SUCCESS),
        (
            "a feature of a namespace",
            Command::set_features(FeatureId::ARBITRATION, 1, 0),
            Status::FEATURE_NOT_NAMESPACE_SPECIFIC,
        ),
        ("of one that is not attached", Command::set_features(FeatureId::ARBITRATION, 9, 0), FIELD),
        ("of one that cannot be", Command::set_features(FeatureId::ARBITRATION, 99, 0), NAMESPACE),
        ("abort on a queue that is not there", Abort { sqid: 2, cid: 0 }.into(), FIELD),
        ("format", format(|_| {}), SUCCESS),
        ("a format that is not there", format(|c| c.lbaf = 9), Status::INVALID_FORMAT),
        ("a format beyond 15", format(|c| c.lbaf = 63), Status::INVALID_FORMAT),
        ("format with protection", format(|c| c.pi = 1), Status::INVALID_FORMAT),
        ("a setting of metadata without metadata", format(|c| c.mset = true), SUCCESS),
        ("metadata in a separate buffer", format(|c| c.lbaf = 3), Status::INVALID_FORMAT),
        (
            "a reserved protection type",
            format(|c| (c.lbaf, c.mset, c.pi) = (3, true, 4)),
            Status::INVALID_FORMAT,
        ),
        ("a format that is not enabled", format(|c| (c.lbaf, c.mset) = (6, true)), NAMESPACE),
        ("crypto erase", format(|c| c.ses = SecureErase::CRYPTOGRAPHIC), FIELD),
        ("reserved erase", reserved_erase, FIELD),
        ("format nothing", format(|c| c.nsid = 0), NAMESPACE),
        ("format what is not there", format(|c| c.nsid = 9), FIELD),
        ("format all", format(|c| c.nsid = NSID_ALL), SUCCESS),
        ("keep alive", AdminCommand::KeepAlive.into(), SUCCESS),
        ("create a queue", Command::new(1, 0), OPCODE),
        ("another vendor command", Command::new(0xD2, 0), OPCODE),
        ("Connect again", Command { nsid: U32::new(1), ..Command::new(0x7F, 0) }, OPCODE),
    ];
    let mut table = Table::new("Admin commands", "illegal.rs", "refused_admin_commands");
    for (name, command, status) in rows {
        let (got, _) = b.admin(*command, &[]);
        table.check(name, true, command, got.status(), *status);
    }
    table.finish();
}

#[test]
fn vendor_commands_from_the_network_are_refused() {
    let mut b = Bench::with_namespaces(&[]);
    let network = b.connect("far", Origin::Network);
    let fault = |change: fn(&mut FaultInjection)| {
        let mut f = FaultInjection {
            nsid: 0,
            kind: FaultKind::UNCORRECTABLE,
            nvmsetid: 1,
            count: 0,
            one_in: 1000,
            param: 0,
            lba: None,
        };
        change(&mut f);
        Command::from(f)
    };
    let function = "vendor_commands_from_the_network_are_refused";
    let mut table = Table::new("Power cuts and faults", "illegal.rs", function);
    for command in [PowerCut::default().into(), fault(|_| {})] {
        let (got, _) = b.on(network, 0, &command, &[]);
        table.check("from the network", true, &command, got.status(), Status::OPERATION_DENIED);
    }
    assert!(b.drive.is_powered());
    let rows: &[(&str, Command, Status)] = &[
        ("a set that is not there", fault(|f| f.nvmsetid = 3), FIELD),
        ("a namespace", fault(|f| f.nsid = 1), FIELD),
        ("a block", fault(|f| f.lba = Some(0)), FIELD),
        ("a count of a chance", fault(|f| f.count = 1), FIELD),
        ("a count of slow ones", fault(|f| (f.kind, f.count, f.one_in) = (FaultKind::SLOW, 1, 0)), FIELD),
        ("a die that is not there", fault(|f| (f.kind, f.param) = (FaultKind::STUCK_DIE, 4)), FIELD),
        ("slow without a factor", fault(|f| f.kind = FaultKind::SLOW), FIELD),
        ("an unknown fault", fault(|f| f.kind = FaultKind(0x77)), FIELD),
        ("a fault", fault(|_| {}), SUCCESS),
        ("no fault", fault(|f| f.kind = FaultKind::CLEAR), SUCCESS),
    ];
    for (name, command, status) in rows {
        let (got, _) = b.admin(*command, &[]);
        table.check(name, true, command, got.status(), *status);
    }
    table.finish();
    let full = fault(|f| (f.kind, f.count) = (FaultKind::HOST_DISK_FULL, 3));
    b.events.clear();
    b.admin_ok(full, &[]);
    let told = Output::FaultInjected { kind: FaultKind::HOST_DISK_FULL, nvmsetid: 1 };
    assert_eq!(b.events, [Output::HostDiskFault { full: true, count: 3 }, told]);
}

#[test]
fn refused_associations() {
    let mut b = Bench::with_namespaces(&[]);
    let host = crate::common::nqn("new");
    let now = b.now;
    let refused = b.drive.connect(now, Host::administrator(host, [0; 16], Origin::Network), 5, 0);
    let mut table = Table::new("Associations", "illegal.rs", "refused_associations");
    let connect = ("Connect", "Base 6.3");
    let invalid = Status::CONNECT_INVALID_PARAMETERS;
    table.check_other("a static controller", connect.0, connect.1, refused.unwrap_err(), invalid);
    let id = b.drive.connect(now, Host::administrator(host, [0; 16], Origin::Network), 0xFFFF, 0).unwrap();
    // Not enabled: only properties.
    let early = b.drive.add_queue(id, 1, 128).unwrap_err();
    let sequence = Status::COMMAND_SEQUENCE_ERROR;
    table.check_other(
        "an I/O queue of a controller that is not enabled",
        connect.0,
        connect.1,
        early,
        sequence,
    );
    let identify = Command::identify(Cns::CONTROLLER, 0);
    let (got, _) = b.on(id, 0, &identify, &[]);
    table.check("a controller that is not enabled", true, &identify, got.status(), sequence);
    let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4);
    let (set, get) = (("Property Set", "Base 6.6"), ("Property Get", "Base 6.5"));
    for (name, bad) in [
        ("CC.CSS: a command set that is not there", cc.with_css(1)),
        ("CC.MPS above CAP.MPSMAX", cc.with_mps(5)),
        ("CC.AMS: another arbitration", cc.with_ams(1)),
        ("CC.IOSQES: entries of another size", cc.with_iosqes(7)),
        ("CC.IOCQES: entries of another size", cc.with_iocqes(5)),
        ("CC.CRIME: ready without media", cc.with_crime(true)),
    ] {
        let refused = b.set_property(id, PropertyOffset::CC, bad.into_bits().get());
        table.check_other(name, set.0, set.1, refused.unwrap_err(), FIELD);
    }
    let refused = b.set_property(id, PropertyOffset::VS, 0).unwrap_err();
    table.check_other("one that cannot be set", set.0, set.1, refused, FIELD);
    let refused = b.drive.property_get(id, PropertyOffset::CAP, false).unwrap_err();
    table.check_other("half of a wide one", get.0, get.1, refused, FIELD);
    let refused = b.drive.property_get(id, PropertyOffset(0x1000), false).unwrap_err();
    table.check_other("one that is not there", get.0, get.1, refused, FIELD);
    assert!(b.drive.property_get(ControllerId(999), PropertyOffset::CAP, true).is_err());
    b.set_property(id, PropertyOffset::CC, cc.into_bits().get()).unwrap();
    for (name, qid, entries, status) in [
        ("the admin queue again", 0, 128, sequence),
        ("more queues than were granted", 65, 128, invalid),
        ("a queue identifier beyond all", u16::MAX, 128, invalid),
        ("a queue of one entry", 1, 1, invalid),
        ("more entries than CAP.MQES", 1, 1025, invalid),
        ("the last and longest queue", 64, 1024, SUCCESS),
        ("a queue that exists", 64, 1024, sequence),
    ] {
        let got = b.drive.add_queue(id, qid, entries).err().unwrap_or_default();
        table.check_other(name, connect.0, connect.1, got, status);
    }
    let read = Command::read(1, 0, 1);
    let (got, _) = b.on(id, 2, &read, &[]);
    table.check("a queue that is not there", false, &read, got.status(), sequence);
    let (got, _) = b.on(ControllerId(999), 0, &read, &[]);
    assert!(got.status().is(sequence), "a controller that is not there");
    // A shut-down controller takes no commands; a reset one has to be enabled again.
    b.set_property(id, PropertyOffset::CC, cc.with_shn(Shn::NORMAL).into_bits().get()).unwrap();
    b.run_until(media::Nanos::MAX);
    assert_eq!(b.drive.property_get(id, PropertyOffset::CSTS, false).unwrap(), 0b1001);
    let (got, _) = b.on(id, 64, &read, &[]);
    table.check("a controller that was shut down", false, &read, got.status(), sequence);
    table.finish();
    b.set_property(id, PropertyOffset::CC, cc.with_en(false).into_bits().get()).unwrap();
    assert_eq!(b.drive.property_get(id, PropertyOffset::CSTS, false).unwrap(), 0);
    b.enable(id);
    b.drive.add_queue(id, 64, 2).unwrap();
    let (got, _) = b.on(id, 64, &Command::read(1, 0, 1), &[]);
    assert_eq!(got.status(), SUCCESS);
    // NVM Subsystem Reset ends all associations, its own too; any other value does nothing.
    b.events.clear();
    b.set_property(id, PropertyOffset::NSSR, 1).unwrap();
    assert!(b.events.is_empty());
    b.set_property(id, PropertyOffset::NSSR, nvme::property::NSSR_NVME).unwrap();
    let gone: Vec<_> = [b.controller, id].map(|controller| Output::Disconnect { controller }).into();
    assert_eq!(b.events, gone);
    assert_eq!(b.drive.controllers().count(), 0);
}

#[test]
fn refused_while_namespaces_are_in_use() {
    let mut b = Bench::with_namespaces(crate::common::TIMED_SMALL);
    let mut table = Table::new("Namespaces in use", "illegal.rs", "refused_while_namespaces_are_in_use");
    let (me, other) = (b.controller, b.connect("other", Origin::Network));
    let ready = Status::NAMESPACE_NOT_READY;
    // Formatted while another host writes: what is under way ends well, what comes is refused, then it is empty.
    let write = Command::write(1, 0, 1);
    let under_way = b.submit(other, 1, &write, &[1; 4096]);
    let format = FormatNvm { nsid: 1, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::NONE };
    let formatting = b.submit(me, 0, &format.into(), &[]);
    let (got, _) = b.on(other, 1, &write, &[2; 4096]);
    table.check("while Format waits for another host's I/O", false, &write, got.status(), ready);
    assert_eq!(b.wait(under_way).0.status(), SUCCESS);
    assert_eq!(b.wait(formatting).0.status(), SUCCESS);
    // The other host looks at it again: until then, its commands mean what was formatted.
    assert_eq!(b.on(other, 0, &Command::identify(Cns::NAMESPACE, 1), &[]).0.status(), SUCCESS);
    let (got, data) = b.on(other, 1, &Command::read(1, 0, 1), &[]);
    assert_eq!((got.status(), data), (SUCCESS, vec![0; 4096]));
    // Deleted under I/O.
    let under_way = b.submit(other, 1, &write, &[3; 4096]);
    let delete = management(NamespaceManagementSelect::DELETE, 1);
    let deleting = b.submit(me, 0, &delete.into(), &[]);
    let read = Command::read(1, 0, 1);
    let (got, _) = b.on(me, 1, &read, &[]);
    table.check("while Namespace Management waits to delete", false, &read, got.status(), ready);
    assert_eq!(b.wait(under_way).0.status(), SUCCESS);
    assert_eq!(b.wait(deleting).0.status(), SUCCESS);
    let (got, _) = b.on(other, 1, &read, &[]);
    table.check("what was deleted", false, &read, got.status(), FIELD);
    let (got, _) = b.admin(delete, &[]);
    table.check("what was deleted", true, &delete.into(), got.status(), FIELD);
    // What a set does not have, and identifiers when there are no more.
    for (name, set, blocks, status) in [
        ("more than the set has left", 1, 1 << 20, Status::NAMESPACE_INSUFFICIENT_CAPACITY),
        ("more than the set of DRAM has", 2, 1 << 12, Status::NAMESPACE_INSUFFICIENT_CAPACITY),
        ("more bytes than 64 bits", 1, 1 << 60, Status::NAMESPACE_INSUFFICIENT_CAPACITY),
        ("more blocks than any drive", 1, u64::MAX, Status::NAMESPACE_INSUFFICIENT_CAPACITY),
        ("what fits", 1, 8, SUCCESS),
    ] {
        let command = management(NamespaceManagementSelect::CREATE, 0);
        let (got, _) = b.admin(command, &bytes(&create(set, blocks)));
        table.check(name, true, &command.into(), got.status(), status);
    }
    // Attachment: namespace 1 is new and private.
    let attachment = |nsid, sel| NamespaceAttachment { nsid, sel };
    let (attach, detach) = (NamespaceAttachmentSelect::ATTACH, NamespaceAttachmentSelect::DETACH);
    for (name, nsid, sel, controllers, status) in [
        (
            "a private namespace to two controllers",
            1,
            attach,
            vec![me.0, other.0],
            Status::NAMESPACE_IS_PRIVATE,
        ),
        ("a private namespace", 1, attach, vec![me.0], SUCCESS),
        (
            "a private namespace that is attached elsewhere",
            1,
            attach,
            vec![other.0],
            Status::NAMESPACE_IS_PRIVATE,
        ),
        ("what is attached", 1, attach, vec![me.0], Status::NAMESPACE_ALREADY_ATTACHED),
        ("detach what is not attached", 1, detach, vec![other.0], Status::NAMESPACE_NOT_ATTACHED),
        ("a controller that is not there", 2, attach, vec![999], Status::CONTROLLER_LIST_INVALID),
        ("a controller twice", 2, detach, vec![me.0, me.0], Status::CONTROLLER_LIST_INVALID),
        ("no controller", 2, detach, vec![], Status::CONTROLLER_LIST_INVALID),
        ("no namespace", 0, attach, vec![me.0], NAMESPACE),
        ("all namespaces", NSID_ALL, attach, vec![me.0], NAMESPACE),
        ("a namespace that is not there", 9, attach, vec![me.0], FIELD),
    ] {
        let command = Command::from(attachment(nsid, sel));
        let list = nvme::identify::ControllerList::new(controllers);
        let (got, _) = b.admin(command, &bytes(&list));
        table.check(name, true, &command, got.status(), status);
    }
    table.finish();
}

#[test]
fn numbers_of_commands() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\ntiming = true")]);
    let command = Command::flush(1).with_dptr(SglDescriptor::transport(0));
    let request = Command::new(nvme::AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
    let me = b.controller;
    b.submit(me, 0, &request, &[]);
    // A number that is taken, and one that is too large: an answer at once, nothing lost.
    for io in [0, device::MAX_IO, u32::MAX] {
        let mut out = Vec::new();
        let submission = Submission { controller: me, qid: 1, io: Io(io), command: &command, data: &[] };
        b.drive.submit(b.now, submission, &mut b.memory, &mut out);
        let [Output::Complete { completion, .. }] = &out[..] else { panic!("{out:?}") };
        assert!(completion.status().is(Status::INTERNAL_ERROR));
    }
    for _ in 1..8 {
        b.submit(me, 0, &request, &[]);
    }
    assert_eq!(b.drive.in_flight(), 8);
    let (got, _) = b.admin(request, &[]);
    assert!(got.status().is(Status::AER_LIMIT_EXCEEDED));
    // Abort finds a request that waits, and nothing else.
    let (missed, _) = b.admin_ok(Abort { sqid: 0, cid: 999 }, &[]);
    assert_eq!(missed, 1);
    let (hit, _) = b.admin_ok(Abort { sqid: 0, cid: 3 }, &[]);
    assert_eq!(hit, 0);
    assert!(b.wait(3).0.status().is(Status::ABORT_REQUESTED));
    // A reset returns the others.
    b.set_property(me, PropertyOffset::CC, 0).unwrap();
    assert_eq!((b.drive.in_flight(), b.done.len()), (0, 7));
}
