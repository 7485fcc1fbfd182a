//! Any commands, properties, connections and power cuts on a small drive.
#![no_main]

#[path = "../../crates/core/device/tests/suite/common/mod.rs"]
mod common;

use common::play::{Step, play};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use zerocopy::FromBytes;

fn step(u: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match u.int_in_range(0..=15)? {
        kind @ 0..=5 => {
            let mut bytes: [u8; 64] = u.arbitrary()?;
            // Most of what is interesting has a namespace that exists.
            if kind % 2 == 0 {
                let nsid = 1 + u32::from(bytes[4] % 4);
                bytes[4..8].copy_from_slice(&nsid.to_le_bytes());
            }
            let command = Box::new(nvme::Command::read_from_bytes(&bytes).expect("64 bytes"));
            let mut data: Vec<u8> = u.arbitrary()?;
            data.resize(4096, 0);
            if kind < 3 { Step::Admin(command, data) } else { Step::Io(command, data) }
        }
        6 => Step::Property(u.arbitrary()?, u.arbitrary()?),
        7 => Step::Pass(u.int_in_range(0..=10_000_000)?),
        8 => {
            if u.arbitrary()? {
                Step::Connect
            } else {
                Step::Disconnect
            }
        }
        9 => Step::Cut(u.arbitrary()?),
        kind => Step::Plausible(kind % 2 == 0, u.arbitrary()?),
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut u = Unstructured::new(bytes);
    let stage: u8 = u.arbitrary().unwrap_or(0);
    let mut steps = Vec::new();
    while let (false, Ok(step)) = (u.is_empty() || steps.len() == 200, step(&mut u)) {
        steps.push(step);
    }
    play(stage % 8, steps);
});
