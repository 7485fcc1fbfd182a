//! Arbitrary commands on arbitrary queues: nothing panics, and every command completes exactly once.

use crate::common::play::{Stage, Step, play};
use nvme::zerocopy::FromBytes;
use nvme::{Command, U32};
use proptest::prelude::*;

fn dword() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..8u32, 2 => 0..2048u32, 1 => any::<u32>(), 1 => Just(u32::MAX), 1 => (0..32u32).prop_map(|b| 1 << b)]
}

fn nsid() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 1..4u32, 1 => Just(0), 1 => Just(u32::MAX), 1 => any::<u32>()]
}

fn command(opcodes: &'static [u8]) -> impl Strategy<Value = Box<Command>> {
    let opcode = prop_oneof![9 => proptest::sample::select(opcodes), 1 => any::<u8>()];
    let flags = prop_oneof![9 => Just(0x40u8), 1 => any::<u8>()];
    (opcode, flags, nsid(), proptest::array::uniform8(dword())).prop_map(|(opc, flags, nsid, d)| {
        let mut command = Command::new(opc, nsid);
        command.flags = nvme::command::CommandFlags::from_bits(flags);
        for (field, value) in [
            (&mut command.cdw2, d[0]),
            (&mut command.cdw3, d[1]),
            (&mut command.cdw10, d[2]),
            (&mut command.cdw11, d[3]),
            (&mut command.cdw12, d[4]),
            (&mut command.cdw13, d[5]),
            (&mut command.cdw14, d[6]),
            (&mut command.cdw15, d[7]),
        ] {
            *field = U32::new(value);
        }
        Box::new(command)
    })
}

/// Mostly zeros and small numbers, which counts and identifiers are. From a seed: to choose each byte by a strategy takes most of the test's time.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let one = |rng: &mut rng::Rng| match rng.below(11) {
        0..8 => 0,
        8..10 => rng.below(4) as u8,
        _ => rng.below(256) as u8,
    };
    let block = move |seed| {
        let mut rng = rng::Rng::new(seed);
        (0..4096).map(|_| one(&mut rng)).collect::<Vec<u8>>()
    };
    prop_oneof![
        4 => any::<u64>().prop_map(block),
        1 => proptest::collection::vec(any::<u8>(), 0..64),
    ]
}

const ADMIN: &[u8] = &[
    0x02, 0x06, 0x08, 0x09, 0x0A, 0x0C, 0x0D, 0x10, 0x11, 0x14, 0x15, 0x18, 0x19, 0x1A, 0x80, 0x84, 0x86,
    0xD0, 0xD1, 0x7F,
];
const IO: &[u8] =
    &[0x00, 0x01, 0x02, 0x04, 0x05, 0x08, 0x09, 0x0C, 0x0D, 0x0E, 0x11, 0x12, 0x15, 0x19, 0x1D, 0x7F];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (command(ADMIN), data()).prop_map(|(c, d)| Step::Admin(c, d)),
        12 => (command(IO), data()).prop_map(|(c, d)| Step::Io(c, d)),
        1 => (prop_oneof![Just(0x14), Just(0x1C), 0..0x80u32], dword()).prop_map(|(o, v)| Step::Property(o, v)),
        1 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        4 => (0..10_000_000u64).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Cut),
    ]
}

/// Mostly commands that mean something, from two hosts.
fn plausible() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (any::<bool>(), proptest::array::uniform12(any::<u32>())).prop_map(|(admin, n)| Step::Plausible(admin, n)),
        1 => Just(Step::Property(0x14, 0x0046_0000)),
        1 => Just(Step::Property(0x14, 0x0046_0001)),
        1 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        4 => (0..10_000_000u64).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Cut),
    ]
}

/// `PROPTEST_CASES` runs more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn commands_without_timing(steps in proptest::collection::vec(step(), 1..120)) {
        play(0, steps);
    }

    #[test]
    fn commands_with_timing(steps in proptest::collection::vec(step(), 1..120)) {
        play(Stage::TIMED_BIT, steps);
    }

    #[test]
    fn plausible_commands(stage in 0..8u8, steps in proptest::collection::vec(plausible(), 1..160)) {
        play(stage, steps);
    }

    #[test]
    fn raw_bytes(entries in proptest::collection::vec((any::<bool>(), proptest::array::uniform32(any::<u8>()), proptest::array::uniform32(any::<u8>())), 1..60)) {
        let mut steps = Vec::new();
        for (admin, first, second) in entries {
            let bytes: Vec<u8> = first.into_iter().chain(second).collect();
            let command = Box::new(Command::read_from_bytes(&bytes).unwrap());
            steps.push(if admin { Step::Admin(command, bytes) } else { Step::Io(command, bytes) });
        }
        play(0, steps);
    }

    #[test]
    fn any_text_is_a_drive_or_an_error(text in "\\PC*") {
        let _ = device::Config::from_toml(&text);
    }

    #[test]
    fn any_value_is_a_drive_or_an_error(key in proptest::sample::select(KEYS), value in proptest::sample::select(VALUES)) {
        let changed: String = crate::common::SMALL_DRIVE.lines().map(|line| match line.split_once(" = ") {
            Some((k, _)) if k == key => format!("{k} = {value}\n"),
            _ => format!("{line}\n"),
        }).collect();
        if let Ok(config) = device::Config::from_toml(&changed) {
            // Only small ones: a drive takes memory by its size.
            let pages: u64 = config.ftl.sets.iter().map(|s| u64::from(s.capacity_pages())).sum();
            if pages < 1 << 20 {
                let _ = device::Drive::new(config);
            }
        }
    }
}

const KEYS: &[&str] = &[
    "write_buffer",
    "read",
    "write",
    "command_overhead",
    "media",
    "cell",
    "capacity",
    "spare",
    "channels",
    "dies",
    "planes",
    "nand_page",
    "pages_per_block",
    "rated_cycles",
    "timing",
];
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "3",
    "7",
    "4294967295",
    "9223372036854775807",
    "\"0%\"",
    "\"1%\"",
    "\"99999999%\"",
    "\"4KiB\"",
    "\"1MiB\"",
    "\"16TiB\"",
    "\"16000000TiB\"",
    "\"0\"",
    "\"nand\"",
    "\"dram\"",
    "\"slc\"",
    "\"qlc\"",
    "{}",
    "[]",
    "true",
    "\"5us\"",
    "\"1GB/s\"",
];

#[test]
fn a_power_cut_that_comes_with_the_last_command_is_an_end_like_others() {
    let write = Command { cdw12: U32::new(1), ..Command::new(1, 2) };
    let cut = Command { cdw10: U32::new(1), cdw11: U32::new(1 << 24), ..Command::new(0xD0, 0) };
    let steps = vec![Step::Io(Box::new(write), vec![0; 4096]), Step::Admin(Box::new(cut), Vec::new())];
    play(Stage::TIMED_BIT, steps);
}
