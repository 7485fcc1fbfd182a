//! Commands parse, and what was parsed constructs the same command again.

use nvme::admin::*;
use nvme::command::*;
use nvme::fabrics::*;
use nvme::feature::{FeatureId, Select};
use nvme::identify::Cns;
use nvme::io::*;
use nvme::log::LogId;
use nvme::property::PropertyOffset;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Csi, Status, Transfer, data_transfer};
use proptest::prelude::*;

fn command() -> impl Strategy<Value = Command> {
    // Half of all commands get an opcode that exists; pure noise would mostly test "unknown opcode".
    let opcodes = prop_oneof![
        any::<u8>(),
        prop::sample::select(vec![
            0u8, 1, 2, 4, 5, 6, 8, 9, 0xA, 0xC, 0xD, 0xE, 0x11, 0x14, 0x15, 0x18, 0x79, 0x7A, 0x7D, 0x7F,
            0x80, 0x84, 0xD0, 0xD1,
        ]),
    ];
    (prop::array::uniform32(any::<u8>()), prop::array::uniform32(any::<u8>()), opcodes, any::<bool>())
        .prop_map(|(a, b, opc, unfused)| {
            let mut bytes = [0; 64];
            bytes[..32].copy_from_slice(&a);
            bytes[32..].copy_from_slice(&b);
            bytes[0] = opc;
            if unfused {
                bytes[1] &= !3;
                bytes[4] &= 0xF;
            }
            Command::read_from_bytes(&bytes).unwrap()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn any_64_bytes_parse_or_fail_with_a_status(cmd in command(), block in any::<u32>()) {
        if let Ok(parsed) = AdminCommand::parse(&cmd) {
            let again = Command::from(parsed);
            prop_assert_eq!(AdminCommand::parse(&again), Ok(parsed));
        }
        if let Ok(parsed) = IoCommand::parse(&cmd) {
            let again = Command::from(parsed);
            prop_assert_eq!(IoCommand::parse(&again), Ok(parsed));
        }
        for admin in [false, true] {
            let moved = data_transfer(&cmd, admin, |_| block);
            prop_assert_eq!(moved == Transfer::None, moved.bytes() == 0);
        }
        let _ = Transfer::from_sgl(&cmd);
        let _ = format!("{cmd:?}");
    }

    #[test]
    fn blocks_round_trip(
        nsid: u32, slba: u64, nlb in 1u32..=65536, fua: bool, lr: bool, lbtl: u32, dspec: u16, dsm: u8,
    ) {
        let blocks = Blocks { fua, lr, lbtl, dspec, dsm, ..Blocks::new(nsid, slba, nlb) };
        let cmd = Command::from(IoCommand::Write(blocks));
        prop_assert_eq!(IoCommand::parse(&cmd), Ok(IoCommand::Write(blocks)));
        prop_assert_eq!(data_transfer(&cmd, false, |_| 512), Transfer::ToController(u64::from(nlb) * 512));
    }
}

/// Bytes taken by hand from the specification's figures.
#[test]
fn encodings_are_the_specifications() {
    let cmd = Command::read(7, 0x1122_3344_5566_7788, 8).with_cid(0xABCD);
    let b = cmd.as_bytes();
    assert_eq!(b[0], 0x02);
    assert_eq!(b[1], 0x40, "PSDT says SGL");
    assert_eq!(b[2..4], [0xCD, 0xAB]);
    assert_eq!(b[4..8], [7, 0, 0, 0]);
    assert_eq!(b[40..48], [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    assert_eq!(b[48..52], [7, 0, 0, 0], "eight blocks are 7 on the wire");

    let fua = IoCommand::Write(Blocks { fua: true, lr: true, ..Blocks::new(1, 0, 1) });
    assert_eq!(Command::from(fua).cdw12.get(), 0xC000_0000);
    let zeroes = Command::write_zeroes(1, 0, 1, true);
    assert_eq!(zeroes.cdw12.get(), 1 << 25);
    let nsz = IoCommand::WriteZeroes(Blocks { nsz: true, ..Blocks::new(1, 0, 1) });
    assert_eq!(Command::from(nsz).cdw12.get(), 1 << 23);

    let dsm = Command::deallocate(3, 256);
    assert_eq!((dsm.opc, dsm.cdw10.get(), dsm.cdw11.get()), (0x09, 255, 4));

    let log = Command::from(GetLogPage {
        nsid: 0xFFFF_FFFF,
        lid: LogId::ENDURANCE_GROUP,
        lsp: 5,
        lsi: 2,
        rae: true,
        dwords: 0x1_2345,
        offset: 0x1_0000_0004,
        ot: false,
        csi: Csi::ZONED,
        uidx: 1,
    });
    assert_eq!(log.cdw10.get(), 0x2344_8509);
    assert_eq!(log.cdw11.get(), 0x0002_0001);
    assert_eq!((log.cdw12.get(), log.cdw13.get()), (4, 1));
    assert_eq!(log.cdw14.get(), 0x0200_0001);

    let format = Command::from(FormatNvm {
        nsid: 1,
        lbaf: 0x21,
        mset: true,
        pi: 1,
        pil: true,
        ses: SecureErase::CRYPTOGRAPHIC,
    });
    assert_eq!(format.cdw10.get(), 1 | 1 << 4 | 1 << 5 | 1 << 8 | 2 << 9 | 2 << 12);

    let set = Command::from(SetFeatures {
        nsid: 1,
        fid: FeatureId::WRITE_ATOMICITY,
        sv: true,
        uidx: 0,
        cdw11: 1,
        cdw12: 0,
        cdw13: 0,
        cdw15: 0,
    });
    assert_eq!(set.cdw10.get(), 0x8000_000A);
    let get = Command::get_features(FeatureId::TIMESTAMP, 0, Select::SAVED);
    assert_eq!(get.cdw10.get(), 0x0000_020E);
    assert_eq!(data_transfer(&get, true, |_| 0), Transfer::ToHost(8));

    let ident = Command::identify(Cns::ALLOCATED_NAMESPACES, 5);
    assert_eq!((ident.opc, ident.nsid.get(), ident.cdw10.get()), (0x06, 5, 0x10));
    assert_eq!(data_transfer(&ident, true, |_| 0), Transfer::ToHost(4096));
}

#[test]
fn connect_and_properties_are_the_specifications() {
    let cmd = Command::from(FabricsCommand::Connect(Connect {
        recfmt: 0,
        qid: 2,
        sqsize_z: 127,
        cattr: ConnectAttributes::new().with_dis_sqflow(true),
        kato: 15_000,
    }));
    let b = cmd.as_bytes();
    assert_eq!((b[0], b[4]), (0x7F, 0x01));
    assert_eq!(b[40..48], [0, 0, 2, 0, 127, 0, 4, 0]);
    assert_eq!(b[48..52], 15_000u32.to_le_bytes());
    assert_eq!(data_transfer(&cmd, true, |_| 0), Transfer::ToController(1024));

    let cmd = Command::from(FabricsCommand::PropertySet {
        offset: PropertyOffset::CC,
        wide: false,
        value: 0x46_0001,
    });
    let b = cmd.as_bytes();
    assert_eq!((b[0], b[4], b[40]), (0x7F, 0x00, 0));
    assert_eq!(b[44..56], [0x14, 0, 0, 0, 1, 0, 0x46, 0, 0, 0, 0, 0]);
}

#[test]
fn unknown_and_reserved_are_refused() {
    let unknown = Command::new(0xC7, 1);
    assert_eq!(AdminCommand::parse(&unknown), Err(Status::INVALID_OPCODE.with_dnr()));
    assert_eq!(IoCommand::parse(&unknown), Err(Status::INVALID_OPCODE.with_dnr()));
    assert_eq!(data_transfer(&unknown, true, |_| 512), Transfer::None);

    let mut select = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 1);
    select.cdw10.set(2);
    assert_eq!(AdminCommand::parse(&select), Err(Status::INVALID_FIELD.with_dnr()));

    let mut fused = Command::identify(Cns::CONTROLLER, 0);
    fused.flags.set_fuse(1);
    assert_eq!(AdminCommand::parse(&fused), Err(Status::INVALID_FIELD.with_dnr()));
}

#[test]
fn vendor_commands_follow_the_opcode_rules_for_data() {
    let cut = Command::from(PowerCut { after_media_ops: 9, off_ms: 100, seed: 42, no_plp: true });
    assert_eq!(data_transfer(&cut, true, |_| 0), Transfer::None);
    let fault = FaultInjection {
        nsid: 1,
        kind: FaultKind::UNCORRECTABLE,
        nvmsetid: 2,
        count: 3,
        one_in: 4,
        param: 5,
        lba: None,
    };
    let cmd = Command::from(fault);
    assert_eq!((cmd.cdw14.get(), cmd.cdw15.get()), (u32::MAX, u32::MAX));
    assert_eq!(AdminCommand::parse(&cmd), Ok(AdminCommand::FaultInjection(fault)));
    assert_eq!(Transfer::from_sgl(&cmd), Transfer::None, "no SGL, no data");
}
