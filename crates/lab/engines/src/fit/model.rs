//! The model of a drive from what was measured of one.

use super::measure::Measured;
use std::fmt::Write as _;

/// What a channel is assumed to transfer, in bytes per second.
const CHANNEL: f64 = 800e6;
/// The controller's share of a read is assumed to be so much of it, and this at most, in nanoseconds.
const OVERHEAD: (f64, f64) = (0.12, 12_000.0);
/// Where writes were not measured: rate of writes over that of reads, and how long one takes.
const WRITES: (f64, f64) = (0.6, 20_000.0);
/// Spare where it was not fitted.
const DEFAULT_SPARE: f64 = 0.07;
/// Bytes that a die programs at once: a wordline of TLC on two planes of 16 KiB.
const PROGRAM: f64 = 96.0 * 1024.0;
/// A block of a plane has these NAND pages at most, and a device so many superblocks if it can.
const BLOCK: (u64, u64, u64) = (12, 2304, 400);

/// Parameters that follow from measurements or are searched for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Model {
    pub(super) dies: u32,
    pub(super) spare: f64,
}

impl Model {
    pub(super) const FIRST: Self = Self { dies: 32, spare: DEFAULT_SPARE };
}

/// Nanoseconds as TOML.
fn time(nanos: f64) -> String {
    format!("\"{:.0}ns\"", nanos.max(0.0))
}

fn rate(bytes: f64) -> String {
    format!("\"{:.0}B/s\"", bytes.max(1.0))
}

/// The write buffer of a large device, in bytes.
const BUFFER: u64 = 32 << 20;
/// An erase of a block of so many NAND pages, in nanoseconds. Smaller blocks stand for a part of one, and take a part of its time.
const ERASE: (f64, f64) = (5e6, 1152.0);

/// A word that a TOML string can hold.
fn plain(text: &str, most: usize) -> String {
    let ok = |c: char| if c.is_ascii_alphanumeric() || " .-_/()".contains(c) { c } else { '-' };
    text.chars().map(ok).take(most).collect::<String>().trim().to_owned()
}

/// Numbers that follow from measurements.
struct Derived {
    overhead: f64,
    interval: f64,
    sense: f64,
    channels: u32,
    write: f64,
    write_overhead: f64,
    program: f64,
    pages_per_block: u64,
    erase: f64,
    write_buffer: u64,
}

impl Derived {
    fn of(measured: &Measured, model: &Model) -> Self {
        let interval = 1e9 / measured.most_reads();
        let moved = 4096.0 * 1e9 * (1.0 / CHANNEL + 1.0 / measured.sequential_read);
        let rest = measured.read_latency - interval - moved;
        let overhead = (measured.read_latency * OVERHEAD.0).min(OVERHEAD.1).min(rest.max(0.0) / 2.0);
        let write = measured.writes.map_or(measured.sequential_read * WRITES.0, |writes| writes.sequential);
        let alone = measured.writes.map_or(WRITES.1, |writes| writes.latency);
        // The channels together are to be no limit of reads in order.
        let channels = (measured.sequential_read * 1.25 / CHANNEL).ceil().max(4.0) as u32;
        let of_planes = u64::from(model.dies) * 2 * (16 << 10);
        let (least, most, superblocks) = BLOCK;
        // Whole wordlines of three bits.
        let pages_per_block = (measured.bytes / of_planes / superblocks).clamp(least, most) / 3 * 3;
        Self {
            overhead,
            interval,
            sense: (rest - overhead).max(500.0),
            channels: channels.next_power_of_two().min(model.dies),
            write,
            write_overhead: alone - interval - 4096.0 * 1e9 / write,
            program: PROGRAM * f64::from(model.dies) / (write * 1.15) * 1e9,
            pages_per_block,
            // Two program units for each die, and a small device has a small one.
            write_buffer: (measured.bytes / 512).min(BUFFER).max(2 * u64::from(model.dies) * PROGRAM as u64),
            erase: ERASE.0 * (pages_per_block as f64 / ERASE.1).min(1.0),
        }
    }
}

/// The drive's TOML. `about` names the device, and says when and how it was measured.
pub(super) fn toml(about: &str, measured: &Measured, model: &Model) -> String {
    let Derived {
        overhead,
        interval,
        sense,
        channels,
        write,
        write_overhead,
        program,
        pages_per_block,
        erase,
        write_buffer,
    } = Derived::of(measured, model);
    let mib = measured.bytes >> 20;
    let written = match measured.writes {
        Some(_) => "[measured]",
        None => "[assumed] writes were not measured",
    };
    let spare = match measured.writes {
        Some(_) => "[fitted] to random writes",
        None => "[assumed]",
    };
    let about = plain(about, 400);
    let Model { dies, spare: share } = *model;
    let mut out = format!(
        "# Fitted by `tranche profile fit` to {about}. [measured] was measured; [derived] follows from measurements; [fitted] was chosen so that the model does what was\n\
         # measured; [class] is usual for data-centre SSDs, and [assumed] stands for what was not measured: both are assumptions.\n\n\
         [drive]\nmodel = \"Fitted SSD\"\nserial = \"FITTED\"\nnqn = \"nqn.2026-11.io.tranche:fitted\"\ntiming = true\n\
         write_buffer = \"{}KiB\" # [class]\npower_loss_protection = true # [class]\n\n\
         [link]\nread = {} # [measured] reads of 128 KiB in order\nwrite = {} # {written}\n\
         command_overhead = {} # [class] a part of a read alone\nwrite_overhead = {} # {}\n\
         command_interval = {} # [derived] the most random reads\n\n\
         [[set]]\nmedia = \"nand\"\ncell = \"tlc\" # [class]\ncapacity = \"{mib}MiB\" # [measured]\nspare = \"{:.1}%\" # {spare}\n\
         channels = {channels} # [class] enough for reads in order\ndies = {dies} # [fitted] to random reads by how many are outstanding\n\
         planes = 2 # [class]\nnand_page = \"16KiB\" # [class]\npages_per_block = {pages_per_block} # [class]\nrated_cycles = 3000 # [class]\n",
        write_buffer >> 10,
        rate(measured.sequential_read),
        rate(write),
        time(overhead),
        time(write_overhead),
        if measured.writes.is_some() { "[derived] from a write alone" } else { "[assumed]" },
        time(interval),
        share * 100.0,
    );
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "# A read alone less what controller, channel and link take of it [derived]. Programs: what writes in order need [derived]. The rest is [class].\n\
         timing = {{ read = {}, program = {}, erase = {}, channel = {}, suspend = \"10us\", resume = \"10us\", max_suspends = 8 }}\n\n\
         [[namespace]]\nsize = \"{mib}MiB\"\n\n[datasheet]\nsource = \"{about}\"\nsequential_read = {}\nrandom_read_iops = {:.0}\nread_latency = {}\n",
        time(sense),
        time(program),
        time(erase),
        rate(CHANNEL),
        rate(measured.sequential_read),
        measured.most_reads(),
        time(measured.read_latency),
    );
    if let Some(writes) = measured.writes {
        let _ = write!(
            out,
            "sequential_write = {}\nrandom_write_iops = {:.0}\nwrite_latency = {}\n",
            rate(writes.sequential),
            writes.iops,
            time(writes.latency)
        );
    }
    out
}
