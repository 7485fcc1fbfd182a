//! What is measured of a device.

use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// Outstanding reads for which the rate of random reads is measured.
pub(super) const DEPTHS: [u32; 4] = [4, 16, 64, 256];
/// I/Os of a job that go at once, at most: a file has a thread for each.
const OF_A_JOB: u32 = 64;

/// A load for a device: I/Os of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// fio's `rw`: `randread`, `read`, `randwrite` or `write`.
    pub rw: &'static str,
    /// Bytes of an I/O.
    pub bytes: u32,
    /// I/Os at once.
    pub depth: u32,
    /// For how long; `None`: until all of the device was read or written once, in order.
    pub time: Option<Duration>,
}

impl Load {
    /// The fio job file that does this.
    #[must_use]
    pub fn job(&self) -> String {
        let Self { rw, bytes, depth, time } = *self;
        let jobs = depth.div_ceil(OF_A_JOB);
        let each = depth / jobs;
        let time = match time {
            Some(time) => format!("time_based=1\nruntime={}ms\n", time.as_millis().max(1)),
            None => String::new(),
        };
        let random = if rw.starts_with("rand") { "norandommap=1\n" } else { "" };
        format!("[load]\nrw={rw}\nbs={bytes}\niodepth={each}\nnumjobs={jobs}\n{random}{time}")
    }
}

/// What a device did under a load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Done {
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub rate: f64,
    /// Mean time of one from beginning to end, in nanoseconds.
    pub mean: f64,
}

impl Done {
    /// From the results of `tranche bench`, which are those of fio.
    ///
    /// # Errors
    /// There are none.
    pub fn of_results(results: &Value, load: &Load) -> Result<Self> {
        let direction = if load.rw.ends_with("write") { "write" } else { "read" };
        let jobs = results["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let (mut done, mut ios) = (Self { iops: 0.0, rate: 0.0, mean: 0.0 }, 0.0);
        for job in jobs {
            let it = &job[direction];
            let number = |value: &Value| value.as_f64().unwrap_or(0.0);
            let count = number(&it["total_ios"]);
            done.iops += number(&it["iops"]);
            done.rate += number(&it["bw_bytes"]);
            done.mean += number(&it["lat_ns"]["mean"]) * count;
            ios += count;
        }
        if ios == 0.0 {
            bail!("no {} of {} bytes ended in time: let it measure for longer", load.rw, load.bytes);
        }
        Ok(Self { mean: done.mean / ios, ..done })
    }
}

/// The rate of random reads of 4 KiB with this many outstanding.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Point {
    /// Outstanding reads.
    pub depth: u32,
    /// Reads per second.
    #[schemars(extend("unit" = "1/s"))]
    pub iops: f64,
}

/// What was measured of writes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Writes {
    /// 128 KiB in order, 32 at once, over the whole device.
    #[schemars(extend("unit" = "bytes/s"))]
    pub sequential: f64,
    /// Random writes of 4 KiB per second, 256 at once, after the device was written so for a while.
    #[schemars(extend("unit" = "1/s"))]
    pub iops: f64,
    /// A random write of 4 KiB alone, on average.
    #[schemars(extend("unit" = "ns"))]
    pub latency: f64,
}

/// What was measured of the device.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Measured {
    /// Size of the device.
    #[schemars(extend("unit" = "bytes"))]
    pub bytes: u64,
    /// 128 KiB in order, 32 at once.
    #[schemars(extend("unit" = "bytes/s"))]
    pub sequential_read: f64,
    /// A random read of 4 KiB alone, on average.
    #[schemars(extend("unit" = "ns"))]
    pub read_latency: f64,
    /// Random reads of 4 KiB.
    pub random_reads: Vec<Point>,
    /// Writes.
    #[schemars(extend("null" = "without --overwrite-device"))]
    pub writes: Option<Writes>,
}

impl Measured {
    /// Random reads per second with the most outstanding.
    pub(super) fn most_reads(&self) -> f64 {
        self.random_reads.iter().map(|point| point.iops).fold(1.0, f64::max)
    }
}

/// Puts loads on a device: what it did.
pub type Run<'a> = dyn FnMut(&Load) -> Result<Done> + 'a;

/// How a device is measured.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// How long each load of reads and writes is on it.
    pub time: Duration,
    /// How long the device is written at random before that counts. `None`: nothing is written.
    pub writes: Option<Duration>,
}

/// Loads in order, and what the user is told of each.
pub(super) fn measure(
    bytes: u64,
    how: &How,
    run: &mut Run<'_>,
    mut tell: impl FnMut(&str, &Done) -> Result<()>,
) -> Result<Measured> {
    let mut on = |rw, bytes, depth, time: Option<Duration>| -> Result<Done> {
        let load = Load { rw, bytes, depth, time };
        let done = run(&load).with_context(|| format!("{rw} of {bytes} bytes, {depth} at once"))?;
        tell(&format!("{rw}, {} KiB, {depth} at once", bytes >> 10), &done)?;
        Ok(done)
    };
    let time = Some(how.time);
    // Writes come first: a drive that was written reads what it has, and not what it knows to be empty.
    let writes = match how.writes {
        None => None,
        Some(before) => {
            let sequential = on("write", 128 << 10, 32, None)?.rate;
            on("randwrite", 4096, 256, Some(before))?;
            let iops = on("randwrite", 4096, 256, time)?.iops;
            Some(Writes { sequential, iops, latency: on("randwrite", 4096, 1, time)?.mean })
        }
    };
    let sequential_read = on("read", 128 << 10, 32, time)?.rate;
    let read_latency = on("randread", 4096, 1, time)?.mean;
    let point = |depth| Ok(Point { depth, iops: on("randread", 4096, depth, time)?.iops });
    let random_reads = DEPTHS.into_iter().map(point).collect::<Result<_>>()?;
    Ok(Measured { bytes, sequential_read, read_latency, random_reads, writes })
}
