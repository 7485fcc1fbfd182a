//! Logs whose identifiers vendors share: each is chosen by its UUID.

use crate::common::{Bench, pattern};
use nvme::admin::GetLogPage;
use nvme::identify::{Cns, IdentifyController, UuidList};
use nvme::log::{
    CommandEffects, LogId, MemblazeItemId, MemblazeSmart, OcpSmart, SmartHealth, SupportedLogPages,
    memblaze_units,
};
use nvme::{AdminOpcode, Command, Csi, NSID_ALL, Status};

/// The OCP's UUID, as its specification has it.
const OCP: [u8; 16] = 0xC194_D55B_E094_4794_A21D_2999_8F56_BE6F_u128.to_be_bytes();

fn log(lid: LogId, uidx: u8, bytes: u64) -> GetLogPage {
    GetLogPage {
        nsid: NSID_ALL,
        lid,
        lsp: 0,
        // Those that are by NVM Set.
        lsi: u16::from(lid == LogId::SET_MAP || lid == LogId::DIE_TIMES),
        rae: true,
        dwords: bytes / 4,
        offset: 0,
        ot: false,
        csi: Csi::NVM,
        uidx,
    }
}

#[test]
fn each_vendors_logs_are_chosen_by_its_uuid() {
    let mut b = Bench::with_namespaces(&[]);
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(id.ctratt.ulist());
    let uuids: UuidList = b.ask(Command::identify(Cns::UUIDS, 0));
    assert_eq!(uuids.index(&OCP), Some(1));
    assert_eq!(uuids.index(&[0; 16]), None);
    let count = uuids.entry.iter().take_while(|e| e.uuid != [0; 16]).count() as u8;
    let of_vendors = |log: &SupportedLogPages| -> Vec<u8> {
        (0xC0..=0xFF).filter(|lid| log.lid[usize::from(*lid)].lsupp()).collect()
    };
    let all: SupportedLogPages = b.ask(log(LogId::SUPPORTED, 0, 1024));
    let mut found = Vec::new();
    for uidx in 1..=count {
        let own: SupportedLogPages = b.ask(log(LogId::SUPPORTED, uidx, 1024));
        let own = of_vendors(&own);
        for lid in 0xC0..=0xFF {
            let (got, _) = b.admin(log(LogId(lid), uidx, 16), &[]);
            let expected = if own.contains(&lid) { Status::SUCCESS } else { Status::INVALID_LOG_PAGE };
            assert!(got.status().is(expected), "log {lid:#x} of vendor {uidx}: {}", got.status());
        }
        found.extend(own);
    }
    found.sort_unstable();
    // Without an index they are all there, each once.
    assert_eq!(found, of_vendors(&all));
    assert!(found.contains(&LogId::OCP_SMART.0) && found.contains(&LogId::MEMBLAZE_SMART.0));
    let (got, _) = b.admin(log(LogId::SUPPORTED, count + 1, 1024), &[]);
    assert!(got.status().is(Status::INVALID_FIELD));
    let effects: CommandEffects = b.ask(log(LogId::COMMAND_EFFECTS, 0, 4096));
    assert!(effects.acs[usize::from(AdminOpcode::GET_LOG_PAGE.0)].uss());
}

#[test]
fn memblazes_log_agrees_with_the_others() {
    let (mut b, host_written) = Bench::under_collection(&[]);
    let ocp: OcpSmart = b.ask(log(LogId::OCP_SMART, 0, 512));
    let log: MemblazeSmart = b.ask(log(LogId::MEMBLAZE_SMART, 0, 512));
    let item = |id: MemblazeItemId| {
        let at = MemblazeItemId::ORDER.iter().position(|i| *i == id).unwrap();
        assert_eq!(log.item[at].id, [id.0, 0, 0]);
        log.item[at]
    };
    let written = ocp.physical_media_units_written.get() as u64;
    assert_eq!(item(MemblazeItemId::NAND_WRITTEN).raw(), memblaze_units(written));
    assert_eq!(item(MemblazeItemId::HOST_WRITTEN).raw(), memblaze_units(host_written));
    let [min, max, mean] = item(MemblazeItemId::WEAR_LEVELING).values();
    assert!(max > 0, "blocks were erased");
    assert_eq!(u32::from(min), ocp.min_user_data_erase_count.get());
    assert_eq!(u32::from(max), ocp.max_user_data_erase_count.get());
    assert_eq!(u64::from(mean), ocp.nand_avg_erase_count.get());
    assert_eq!(item(MemblazeItemId::TEMPERATURE_SINCE_BORN).values(), [313; 3]);
}

#[test]
fn smart_of_a_namespace_outlives_power() {
    let mut b = Bench::with_namespaces(&[]);
    for block in 0..300 {
        b.write(1, block, 1, &pattern(1, 4096));
    }
    b.read(1, 0, 4);
    b.write(2, 0, 1, &pattern(2, 4096));
    let smart =
        |b: &mut Bench, nsid| -> SmartHealth { b.ask(Command::get_log_page(LogId::SMART, nsid, 0, 0, 512)) };
    let of = |s: SmartHealth| {
        (s.host_write_commands.get(), s.host_read_commands.get(), s.data_units_written.get())
    };
    assert_eq!(of(smart(&mut b, 1)), (300, 1, 3));
    assert_eq!(of(smart(&mut b, 2)), (1, 0, 1));
    assert_eq!(of(smart(&mut b, NSID_ALL)), (301, 1, 3));
    b.cut(true);
    b.power_on();
    b.write(1, 0, 1, &pattern(1, 4096));
    assert_eq!(of(smart(&mut b, 1)), (301, 1, 3));
    // And a restart of the program.
    let mut restored = device::Drive::restore(b.drive.config().clone(), &b.drive.save()).unwrap();
    let record = b.memory.controller_records.last().unwrap().clone();
    restored.apply(&ftl::Record::Section { kind: ftl::Section::Controller, bytes: &record }).unwrap();
    let drive = restored.finish(b.now, &mut b.memory).unwrap();
    let mut again = Bench::around(drive, b.memory.clone());
    // One write after the last record was not recorded.
    assert_eq!(of(smart(&mut again, 1)), (300, 1, 3));
}
