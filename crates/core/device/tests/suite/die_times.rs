//! Vendor specific log DBh: for how long each die of an NVM Set was asked to work.

use crate::common::{Bench, TIMING_EDIT, pattern};
use nvme::log::{DieTimesEntry, DieTimesHeader, LogId};
use nvme::zerocopy::FromBytes;
use nvme::{Command, Status};

const HEADER: usize = size_of::<DieTimesHeader>();
const ENTRY: usize = size_of::<DieTimesEntry>();
/// Dies of set 1 of the small drive, and what its operations take.
const DIES: usize = 4;
const READ: u64 = 60_000;
const PROGRAM: u64 = 700_000;

fn command(set: u16, offset: usize, bytes: usize) -> Command {
    Command::get_log_page(LogId::DIE_TIMES, 0, set, offset as u64, bytes as u32)
}

fn times(b: &mut Bench, set: u16) -> (DieTimesHeader, Vec<DieTimesEntry>) {
    let header: DieTimesHeader = b.ask(command(set, 0, HEADER));
    assert_eq!((header.version.get(), header.nvmsetid.get()), (DieTimesHeader::VERSION, set));
    assert_eq!((header.header_bytes.get(), header.entry_bytes.get()), (HEADER as u16, ENTRY as u16));
    let bytes = header.entries.get() as usize * ENTRY;
    let (_, log) = b.admin_ok(command(set, 0, HEADER + bytes), &[]);
    (header, <[DieTimesEntry]>::ref_from_bytes(&log[HEADER..]).unwrap().to_vec())
}

fn sum(dies: &[DieTimesEntry], of: fn(&DieTimesEntry) -> u64) -> u64 {
    dies.iter().map(of).sum()
}

#[test]
fn each_die_says_what_it_was_asked_for() {
    let mut b = Bench::with_namespaces(&[TIMING_EDIT]);
    let (_, idle) = times(&mut b, 1);
    assert_eq!((idle.len(), sum(&idle, |die| die.read_ns.get() + die.erase_ns.get())), (DIES, 0));
    b.write(1, 0, 256, &pattern(1, 256 * 4096));
    b.run_until(media::Nanos(b.now.0 + 1_000_000_000));
    let (header, written) = times(&mut b, 1);
    assert!((1_000_000_000..=b.now.0).contains(&header.time_ns.get()), "since power on");
    // Three pages of both planes of a die are programmed at the same time.
    let programs = sum(&written, |die| die.program_ns.get());
    assert!(programs >= 256 / 6 * PROGRAM && programs.is_multiple_of(PROGRAM), "{programs}");
    assert!(written.iter().all(|die| die.program_ns.get() > 0), "all dies share the work");
    assert_eq!(b.read(1, 0, 32), pattern(1, 256 * 4096)[..32 * 4096]);
    let (_, read) = times(&mut b, 1);
    assert!(sum(&read, |die| die.read_ns.get()) >= 32 / 2 * READ);
    assert_eq!(sum(&read, |die| die.program_ns.get()), programs);
    // Counts begin anew with power.
    b.cut(true);
    b.power_on();
    let (_, anew) = times(&mut b, 1);
    assert!(sum(&anew, |die| die.read_ns.get()) < sum(&read, |die| die.read_ns.get()) + READ);
    assert_eq!(sum(&anew, |die| die.program_ns.get()), 0);
}

#[test]
fn collection_shows_in_erases() {
    let (mut b, _) = Bench::under_collection(&[TIMING_EDIT]);
    let (_, dies) = times(&mut b, 1);
    assert!(sum(&dies, |die| die.erase_ns.get()) > 0);
}

#[test]
fn dies_without_times_take_none_and_other_media_have_none() {
    let (mut b, _) = Bench::under_collection(&[]);
    let (_, dies) = times(&mut b, 1);
    assert_eq!((dies.len(), sum(&dies, |die| die.program_ns.get() + die.erase_ns.get())), (DIES, 0));
    let (header, dies) = times(&mut b, 2);
    assert_eq!((header.entries.get(), dies.len()), (0, 0));
    for set in [0, 99, 256, u16::MAX] {
        assert!(b.admin(command(set, 0, HEADER), &[]).0.status().is(Status::INVALID_FIELD), "set {set}");
    }
}
