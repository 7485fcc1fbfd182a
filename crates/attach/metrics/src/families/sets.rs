//! Metrics of NVM Sets. Each set is an Endurance Group of the same identifier.

use super::BaseUnit::{Bytes, None, Ratio, Seconds};
use super::Kind::{Counter, Gauge, Info};
use super::{Family, Samples, Value};
use live::{SetSnapshot, Snapshot};

const SET: &[&str] = &["set"];

fn each(s: &Snapshot, mut with: impl FnMut(&SetSnapshot)) {
    s.drive.sets.iter().for_each(&mut with);
}

fn counts(s: &Snapshot, out: &mut Samples, count: fn(&SetSnapshot) -> u64) {
    each(s, |set| out.count(&[&set.set], count(set)));
}

fn gauges(s: &Snapshot, out: &mut Samples, number: fn(&SetSnapshot) -> u64) {
    each(s, |set| out.gauge(&[&set.set], number(set)));
}

/// Whether its medium has superblocks, which wear.
fn is_flash(set: &SetSnapshot) -> bool {
    set.superblocks > 0
}

/// Those of flash only.
fn of_flash(s: &Snapshot, out: &mut Samples, number: fn(&SetSnapshot) -> u64) {
    each(s, |set| {
        if is_flash(set) {
            out.gauge(&[&set.set], number(set));
        }
    });
}

pub(super) const FAMILIES: &[Family] = &[
    Family::new(
        "set",
        Info,
        None,
        &["set", "medium"],
        "NVM Sets, which are Endurance Groups of the same number: nand, dram, pmem or disk",
        |s, out| each(s, |set| out.add(&[&set.set, &set.medium], Value::Info)),
    ),
    Family::new("set_capacity", Gauge, Bytes, SET, "Bytes that the set offers", |s, out| {
        gauges(s, out, |set| set.info.capacity_bytes);
    }),
    Family::new("set_unallocated", Gauge, Bytes, SET, "Of these, bytes that no namespace has", |s, out| {
        gauges(s, out, |set| set.info.unallocated_bytes);
    }),
    Family::new("set_raw", Gauge, Bytes, SET, "Bytes of the medium", |s, out| {
        gauges(s, out, |set| set.info.raw_bytes);
    }),
    Family::new("set_read_only", Gauge, None, SET, "Whether the set can only be read", |s, out| {
        gauges(s, out, |set| set.info.read_only.into());
    }),
    Family::new(
        "set_spare",
        Gauge,
        Ratio,
        SET,
        "What is left of the spare that it had when new",
        |s, out| {
            each(s, |set| out.percent(&[&set.set], set.info.spare_percent));
        },
    ),
    Family::new(
        "set_used",
        Gauge,
        Ratio,
        SET,
        "Wear: mean erase cycles of the rated ones, to whole percent, at most 2.55",
        |s, out| each(s, |set| out.percent(&[&set.set], set.info.used_percent)),
    ),
    Family::new(
        "set_erase_cycles",
        Gauge,
        None,
        &["set", "statistic"],
        "Erase cycles of a block: min, mean and max over the blocks; flash only",
        |s, out| {
            each(s, |set| {
                let info = &set.info;
                let cycles = [("min", info.min_cycles), ("mean", info.mean_cycles), ("max", info.max_cycles)];
                for (statistic, cycles) in cycles.into_iter().filter(|_| is_flash(set)) {
                    out.gauge(&[&set.set, &statistic], cycles.into());
                }
            });
        },
    ),
    Family::new(
        "set_rated_erase_cycles",
        Gauge,
        None,
        SET,
        "Rated erase cycles of a block; flash only",
        |s, out| {
            of_flash(s, out, |set| set.info.rated_cycles.into());
        },
    ),
    Family::new("set_bad_blocks", Gauge, None, SET, "Blocks that must not be used; flash only", |s, out| {
        of_flash(s, out, |set| set.info.bad_blocks.into());
    }),
    Family::new("set_superblocks", Gauge, None, SET, "Superblocks; flash only", |s, out| {
        of_flash(s, out, |set| set.superblocks.into());
    }),
    Family::new(
        "set_free_superblocks",
        Gauge,
        None,
        SET,
        "Superblocks ready to be written; flash only",
        |s, out| {
            of_flash(s, out, |set| set.info.free_superblocks.into());
        },
    ),
    Family::new(
        "set_host_read",
        Counter,
        Bytes,
        SET,
        "Bytes that hosts read, over the drive's life",
        |s, out| {
            counts(s, out, |set| set.read_bytes);
        },
    ),
    Family::new(
        "set_host_written",
        Counter,
        Bytes,
        SET,
        "Bytes that hosts wrote, over the drive's life",
        |s, out| {
            counts(s, out, |set| set.written_bytes);
        },
    ),
    Family::new(
        "set_media_read",
        Counter,
        Bytes,
        SET,
        "Bytes read from the medium, over the drive's life",
        |s, out| {
            counts(s, out, |set| set.counts.media_read_bytes);
        },
    ),
    Family::new(
        "set_media_written",
        Counter,
        Bytes,
        SET,
        "Bytes written to the medium, over the drive's life",
        |s, out| counts(s, out, |set| set.counts.media_written_bytes),
    ),
    Family::new(
        "set_media_collected",
        Counter,
        Bytes,
        SET,
        "Of these, bytes written by garbage collection and wear levelling",
        |s, out| counts(s, out, |set| set.counts.media_gc_bytes),
    ),
    Family::new(
        "set_write_amplification",
        Gauge,
        Ratio,
        SET,
        "Bytes written to the medium for each that hosts wrote, over the drive's life; rates of the counters tell it for a span",
        |s, out| {
            each(s, |set| out.quotient(&[&set.set], set.counts.media_written_bytes, set.written_bytes));
        },
    ),
    Family::new(
        "set_collections",
        Counter,
        None,
        SET,
        "Superblocks that garbage collection emptied",
        |s, out| {
            counts(s, out, |set| set.counts.collections);
        },
    ),
    Family::new(
        "set_collected_pages",
        Counter,
        None,
        SET,
        "Pages of 4 KiB that it read to move them",
        |s, out| {
            counts(s, out, |set| set.counts.collected_pages);
        },
    ),
    Family::new(
        "set_collecting",
        Counter,
        Seconds,
        SET,
        "Time from the choice of a superblock to its end, of the collections that ended, in the drive's time",
        |s, out| each(s, |set| out.seconds(&[&set.set], set.counts.collecting_ns)),
    ),
    Family::new(
        "set_erased_blocks",
        Counter,
        None,
        SET,
        "Blocks that were erased, over the drive's life",
        |s, out| {
            counts(s, out, |set| set.counts.erases);
        },
    ),
    Family::new(
        "set_failed_operations",
        Counter,
        None,
        &["set", "operation"],
        "Programs and erases of the medium that failed, over the drive's life",
        |s, out| {
            each(s, |set| {
                let counts = &set.counts;
                let programs = counts.media_failures.saturating_sub(counts.erase_failures);
                out.count(&[&set.set, &"program"], programs);
                out.count(&[&set.set, &"erase"], counts.erase_failures);
            });
        },
    ),
    Family::new(
        "set_uncorrectable_reads",
        Counter,
        None,
        SET,
        "Reads of the medium that could not be corrected, over the drive's life",
        |s, out| counts(s, out, |set| set.counts.uncorrectable),
    ),
    Family::new(
        "set_media_errors",
        Counter,
        None,
        SET,
        "Media and data integrity errors of commands, over the drive's life",
        |s, out| counts(s, out, |set| set.media_errors),
    ),
];
