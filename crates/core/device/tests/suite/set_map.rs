//! Vendor specific log DAh: the superblocks of an NVM Set, and what its medium did.

use crate::common::zones::{self, CAPACITY};
use crate::common::{Bench, TIMING_EDIT, initial, pattern, small};
use device::{Host, Origin, Role};
use nvme::log::{LogId, NamespaceStatistics, OcpSmart, SetMapEntry, SetMapHeader, SetMedium, SuperblockUse};
use nvme::zerocopy::FromBytes;
use nvme::zone::{ZoneSendAction, ZoneState};
use nvme::{Command, NSID_ALL, Status};

const HEADER: usize = size_of::<SetMapHeader>();
const ENTRY: usize = size_of::<SetMapEntry>();

fn command(set: u16, offset: usize, bytes: usize) -> Command {
    Command::get_log_page(LogId::SET_MAP, 0, set, offset as u64, bytes as u32)
}

fn header(b: &mut Bench, set: u16) -> SetMapHeader {
    b.ask(command(set, 0, HEADER))
}

fn map(b: &mut Bench, set: u16) -> (SetMapHeader, Vec<SetMapEntry>) {
    let head = header(b, set);
    let bytes = head.entries.get() as usize * ENTRY;
    let (_, log) = b.admin_ok(command(set, 0, HEADER + bytes), &[]);
    let entries = <[SetMapEntry]>::ref_from_bytes(&log[HEADER..]).unwrap().to_vec();
    (head, entries)
}

fn pages(entries: &[SetMapEntry], of: fn(&SetMapEntry) -> u32) -> u64 {
    entries.iter().map(|entry| u64::from(of(entry))).sum()
}

#[test]
fn a_new_set_is_free_and_says_what_it_is() {
    let mut b = Bench::new(small(&[]));
    let (head, entries) = map(&mut b, 1);
    assert_eq!((head.version.get(), head.nvmsetid.get(), head.medium), (1, 1, SetMedium::NAND));
    assert_eq!((head.header_bytes.get(), head.entry_bytes.get()), (HEADER as u16, ENTRY as u16));
    assert_eq!((entries.len() as u32, head.free_superblocks), (head.entries.get(), head.entries));
    assert!(entries.len() > 4);
    assert_eq!(head.zone_size.get(), 0, "this drive has no zones");
    for entry in &entries {
        assert_eq!((entry.state, entry.usable_pages), (SuperblockUse::FREE, head.superblock_pages));
        assert_eq!((entry.written_pages.get(), entry.valid_pages.get(), entry.nsid.get()), (0, 0, 0));
    }
    for set in [0, 99, 256, u16::MAX] {
        assert!(b.admin(command(set, 0, HEADER), &[]).0.status().is(Status::INVALID_FIELD), "set {set}");
    }
}

#[test]
fn pieces_of_it_are_those_of_the_whole() {
    let (mut b, _) = Bench::under_collection(&[]);
    let (head, _) = map(&mut b, 1);
    let length = HEADER + head.entries.get() as usize * ENTRY;
    let (_, whole) = b.admin_ok(command(1, 0, length), &[]);
    // Nothing happens in between, but for the time.
    for (offset, bytes) in
        [(HEADER, ENTRY), (HEADER + 3 * ENTRY, 2 * ENTRY), (HEADER - 4, 8), (HEADER + 36, 40)]
    {
        let (_, part) = b.admin_ok(command(1, offset, bytes), &[]);
        assert_eq!(part, whole[offset..offset + bytes], "{bytes} bytes at {offset}");
    }
    // Beyond the last entry are zeros, and beyond the log is nothing.
    let (_, beyond) = b.admin_ok(command(1, length - ENTRY, 2 * ENTRY), &[]);
    assert_eq!((&beyond[..ENTRY], &beyond[ENTRY..]), (&whole[length - ENTRY..], &[0; ENTRY][..]));
    let (got, _) = b.admin(command(1, length + 4, ENTRY), &[]);
    assert!(got.status().is(Status::INVALID_FIELD));
}

#[test]
fn its_pages_add_up_under_collection() {
    // Nearly all that the set offers, at random, with the times of the medium: collection takes a while.
    const PIECE: u32 = 16;
    const PIECES: u32 = 60 * 16;
    let mut config = small(&[TIMING_EDIT]);
    config.namespaces.push(initial(1, u64::from(PIECES * PIECE) * 4096));
    let mut b = Bench::new(config);
    let mut seen = [false; 7];
    let mut states = Vec::new();
    for round in 0..2_000u32 {
        let piece = u64::from(round.wrapping_mul(2_654_435_761) >> 16) % u64::from(PIECES);
        b.write(1, piece * u64::from(PIECE), PIECE, &pattern(round, PIECE as usize * 4096));
        let (_, entries) = map(&mut b, 1);
        for entry in &entries {
            seen[usize::from(entry.state.0)] = true;
            assert!(
                entry.valid_pages <= entry.written_pages && entry.written_pages <= entry.usable_pages,
                "{entry:?}"
            );
            match entry.state {
                SuperblockUse::FREE => assert_eq!(entry.written_pages.get(), 0),
                SuperblockUse::CLOSED | SuperblockUse::COLLECTING => assert!(entry.written_pages.get() > 0),
                SuperblockUse::ERASING => assert_eq!(entry.valid_pages.get(), 0),
                _ => {}
            }
        }
        states = entries;
    }
    let used = |state: SuperblockUse| seen[usize::from(state.0)];
    assert!(
        used(SuperblockUse::OPEN) && used(SuperblockUse::CLOSED) && used(SuperblockUse::COLLECTING),
        "{seen:?}"
    );
    assert!(!used(SuperblockUse::ZONES) && !used(SuperblockUse::BAD), "{seen:?}");
    // The header's counts are those of other logs.
    let head = header(&mut b, 1);
    let ocp: OcpSmart = b.ask(Command::get_log_page(LogId::OCP_SMART, NSID_ALL, 0, 0, 512));
    assert_eq!(u128::from(head.media_written.get()), ocp.physical_media_units_written.get());
    assert!(head.collections.get() > 0 && head.collected_pages.get() > 0 && head.erases.get() > 0);
    assert!(head.media_moved.get() > 0 && head.media_moved < head.media_written);
    let most = states.iter().map(|entry| entry.erases.get()).max().unwrap();
    assert_eq!(most, ocp.max_user_data_erase_count.get());
    // All of them once.
    let valid = pages(&states, |entry| entry.valid_pages.get());
    let all = u64::from(PIECES * PIECE);
    assert!(valid > all / 2 && valid <= all, "{valid} valid pages of a namespace of {all}");
}

#[test]
fn zones_are_found_where_they_lie() {
    let mut b = zones::bench();
    let nsid = zones::create(&mut b, &zones::new_namespace());
    let head = header(&mut b, 1);
    assert_eq!((head.zone_size.get(), head.zone_capacity.get()), (zones::SIZE * 4096, CAPACITY * 4096));
    assert!(head.zones_active_left.get() < 4, "the namespace has its share");
    assert!(zones::write(&mut b, nsid, 0, CAPACITY as u32 / 2).is_success());
    assert!(zones::write(&mut b, nsid, CAPACITY / 2, CAPACITY as u32 / 2).is_success());
    assert!(zones::write(&mut b, nsid, zones::SIZE, 64).is_success());
    b.admin_ok(Command::get_log_page(LogId::SMART, NSID_ALL, 0, 0, 512), &[]);
    b.run_until(media::Nanos(b.now.0 + 1_000_000_000));
    let (_, entries) = map(&mut b, 1);
    let of = |zone: u32| {
        let mut found = entries.iter().filter(|entry| entry.nsid.get() == nsid && entry.zone.get() == zone);
        let entry = *found.next().unwrap_or_else(|| panic!("zone {zone} is nowhere"));
        assert!(found.next().is_none(), "zone {zone} is there twice");
        entry
    };
    let (full, open) = (of(0), of(1));
    assert_eq!((full.state, full.zone_state, full.zones.get()), (SuperblockUse::ZONES, ZoneState::FULL, 1));
    assert_eq!((full.valid_pages.get(), full.written_pages.get()), (CAPACITY as u32, CAPACITY as u32));
    assert_eq!((open.state, open.zone_state), (SuperblockUse::ZONES, ZoneState::IMPLICITLY_OPENED));
    assert!(open.valid_pages.get() <= 64 && open.valid_pages <= open.written_pages, "{open:?}");
    assert!(zones::send(&mut b, nsid, ZoneSendAction::RESET, 0).is_success());
    let (_, entries) = map(&mut b, 1);
    assert!(entries.iter().all(|entry| entry.zone_state != ZoneState::FULL));
    assert_eq!(entries.iter().filter(|entry| entry.nsid.get() == nsid).count(), 1);
}

#[test]
fn a_set_that_is_written_in_place_has_no_superblocks() {
    let mut b = Bench::new(small(&[]));
    let sets = (1..).take_while(|set| b.admin(command(*set, 0, HEADER), &[]).0.status().is_success()).count();
    let memory =
        (1..=sets as u16).map(|set| header(&mut b, set)).filter(|head| head.medium != SetMedium::NAND);
    let memory: Vec<_> = memory.collect();
    assert!(!memory.is_empty());
    for head in memory {
        assert_eq!(
            (head.entries.get(), head.rated_cycles.get(), head.superblock_pages.get()),
            (0, u32::MAX, 0)
        );
        let (_, log) = b.admin_ok(command(head.nvmsetid.get(), 0, HEADER + ENTRY), &[]);
        assert_eq!(log[HEADER..], [0; ENTRY]);
    }
}

#[test]
fn it_says_whether_its_reader_may_harm_the_drive() {
    for allowed in [false, true] {
        let mut config = small(&[]);
        config.allow_fault_commands_from_network = allowed;
        let mut b = Bench::new(config);
        for (origin, may) in [(Origin::InProcess, true), (Origin::Unix, true), (Origin::Network, allowed)] {
            let id = b.connect(&format!("{origin:?}").to_lowercase(), origin);
            let (_, log) = b.on(id, 0, &command(1, 0, HEADER), &[]);
            let head = SetMapHeader::read_from_bytes(&log).unwrap();
            assert_eq!(head.flags.faults_allowed(), may, "{origin:?}, allow_network_faults = {allowed}");
        }
    }
}

#[test]
fn only_administrators_read_it() {
    let mut b = Bench::with_namespaces(&[]);
    for role in [Role::Tenant(vec![1]), Role::Guest] {
        let host =
            Host { role, ..Host::administrator(crate::common::nqn("other"), [9; 16], Origin::Network) };
        let id = b.connect_host(host);
        let (got, _) = b.on(id, 0, &command(1, 0, HEADER), &[]);
        assert!(got.status().is(Status::OPERATION_DENIED), "{}", got.status());
    }
}

#[test]
fn commands_of_this_moment_are_counted() {
    // One read per second: the second waits.
    let mut b = Bench::with_namespaces(&[]);
    let mut quota = nvme::quota::Quota::unlimited();
    quota.set_limit(nvme::quota::QuotaKind::ReadCommands, Some(1));
    let set = Command::set_features(nvme::feature::FeatureId::QUOTA, 1, 0);
    b.admin_ok(set, &crate::common::bytes(&quota));
    let read = nvme::IoCommand::Read(nvme::io::Blocks::new(1, 0, 1)).into();
    for _ in 0..5 {
        b.submit(b.controller, 1, &read, &[]);
    }
    let now = |b: &mut Bench, nsid| -> (u64, u64, u64) {
        let log: NamespaceStatistics =
            b.ask(Command::get_log_page(LogId::NAMESPACE_STATISTICS, nsid, 0, 0, 8192));
        (log.in_flight.get(), log.held_reads.get(), log.held_writes.get())
    };
    let (flying, held, writes) = now(&mut b, 1);
    assert!(held >= 3 && flying + held <= 5 && writes == 0, "{flying} {held} {writes}");
    assert_eq!(now(&mut b, NSID_ALL), (flying, held, writes));
    assert_eq!(now(&mut b, 2), (0, 0, 0));
}
