//! What this machine takes for the system calls of Aerospike's certification tool: the source of `load_formats::act::HostTime::LINUX`.
//!
//!     cargo run --release -p lab-studies --example act_host -- DIRECTORY
//!
//! Makes a file in the directory and reads and writes it with direct I/O, as the tool does a device. What is told are the
//! processor's times, without those of the device.

use std::{
    io::{Seek, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::{pread, pwrite},
    time::{ClockId, clock_gettime},
};
use workload::Rng;

const LARGE_BLOCK_BYTES: usize = 128 << 10;
const SMALL_BLOCK_BYTES: usize = 4 << 10;
/// Bytes of the file, and I/Os of each kind.
const FILE: u64 = 1 << 30;
const ROUNDS: u32 = 2000;

/// Nanoseconds that this thread has had a processor.
fn processor() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Nanoseconds of a processor for one of many rounds.
fn each(mut work: impl FnMut() -> Result<()>) -> Result<u64> {
    let before = processor();
    for _ in 0..ROUNDS {
        work()?;
    }
    Ok((processor() - before) / u64::from(ROUNDS))
}

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let mut file = tempfile::NamedTempFile::new_in(dir).context("making a file")?;
    let zeros = vec![1; 1 << 20];
    for _ in 0..FILE >> 20 {
        file.write_all(&zeros)?;
    }
    file.rewind()?;
    file.as_file().sync_all()?;
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::DSYNC;
    let direct = openat(CWD, file.path(), flags, Mode::empty()).context("direct I/O")?;

    // Direct I/O wants aligned memory.
    let mut memory = vec![0u8; LARGE_BLOCK_BYTES + 4096];
    let from = memory.as_ptr().align_offset(4096);
    let buffer = &mut memory[from..from + LARGE_BLOCK_BYTES];
    let mut rng = Rng::new(1);
    let mut places = Rng::new(2);
    let mut place = |size: usize| places.below(FILE / size as u64) * size as u64;

    let fill = each(|| {
        for word in buffer.chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        Ok(())
    })?;
    let small =
        each(|| Ok(pread(&direct, &mut buffer[..SMALL_BLOCK_BYTES], place(SMALL_BLOCK_BYTES)).map(drop)?))?;
    let read = each(|| Ok(pread(&direct, &mut buffer[..], place(LARGE_BLOCK_BYTES)).map(drop)?))?;
    let write = each(|| Ok(pwrite(&direct, buffer, place(LARGE_BLOCK_BYTES)).map(drop)?))?;
    println!("fill 128 KiB with random bytes: {fill} ns");
    println!("direct read of 4 KiB: {small} ns, of 128 KiB: {read} ns; direct write of 128 KiB: {write} ns");

    let nap = Duration::from_micros(400);
    let mut late: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            std::thread::sleep(nap);
            start.elapsed().saturating_sub(nap)
        })
        .collect();
    late.sort_unstable();
    let at = |share: usize| late[late.len() * share / 100];
    println!(
        "a sleep ends late by {:?} (1 % less than that), {:?} (half), {:?} (1 % more)",
        at(1),
        at(50),
        at(99)
    );

    let start = Instant::now();
    let threads: Vec<_> = (0..1000).map(|_| std::thread::spawn(move || start.elapsed())).collect();
    let began: Option<Duration> = threads.into_iter().filter_map(|t| t.join().ok()).max();
    println!("1,000 threads start within {:?}", began.unwrap_or_default());
    Ok(())
}
