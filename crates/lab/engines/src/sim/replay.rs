//! A block trace on a drive in virtual time.

use std::{io::BufRead, path::PathBuf};

use anyhow::{Result, anyhow};
use host::Host;
use load_formats::trace::{Fold, Options, Pace, Reader, Replay, Space, Speed};
use nvme::Nsid;
use sim::{Nanos, Sim, SimTransport};

use super::{
    agreement::Agreement,
    jobs::LoadResult,
    load_document::{LoadDocument, Replayed, TraceDocument},
    tally::{self, Tally},
    trace_file::{self, TraceForm},
    watch::Watch,
};
use crate::bench::progress::Goal;
use lab_report::control::Cancel;

/// Times are doubtful if more than one I/O in so many has an earlier time than the one before.
const REORDERED_ONE_IN: u64 = 100;
/// Requests that are later than this are late.
const LATE_NANOS: u64 = 1000;

/// How traces are replayed.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceOptions {
    /// How much faster time passes; `None` is as recorded.
    pub speed: Option<Speed>,
    /// Not at their times, but as fast as so many outstanding requests allow.
    pub depth: Option<u32>,
    /// Where addresses beyond the end of the namespace lie.
    pub fold: Fold,
    /// Only these devices, each on its namespace; none: all devices, on the namespaces in turn.
    pub device: Vec<(String, Nsid)>,
    /// How it is understood.
    pub form: TraceForm,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self { speed: None, depth: None, fold: Fold::Wrap, device: Vec::new(), form: TraceForm::default() }
    }
}

/// A trace that is to be replayed.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub path: PathBuf,
    pub name: String,
    pub options: TraceOptions,
}

impl Trace {
    fn reader(&self, cancel: &Cancel) -> Result<Reader<Box<dyn BufRead>>> {
        trace_file::open(&self.path, self.options.form, cancel)
    }

    /// Whether it begins as a trace does.
    ///
    /// # Errors
    /// It cannot be read, or is no trace. What comes later shows when it is replayed.
    pub fn check(&self) -> Result<()> {
        // What was read of a pipe would be missing later.
        if self.path.is_file() {
            self.reader(&Cancel::default())?;
        }
        Ok(())
    }

    /// The namespaces of its devices, their spaces, and the options of its replay.
    fn lay(
        &self,
        host: &mut Host<SimTransport>,
        nsid: Option<Nsid>,
    ) -> Result<(Vec<Nsid>, Vec<Space>, Options)> {
        let nsids = match nsid {
            Some(nsid) => vec![nsid],
            None => host.active_namespaces()?,
        };
        let mut spaces = Vec::new();
        for &nsid in &nsids {
            let namespace = host.namespace(nsid)?;
            spaces.push(Space { nsid, blocks: namespace.blocks, block_bytes: namespace.block_size });
        }
        let mut devices = Vec::new();
        for (name, nsid) in &self.options.device {
            let Some(at) = nsids.iter().position(|known| known == nsid) else {
                lab_report::misuse!(
                    "--only {name}={nsid}: the load has no namespace {nsid}, there are {nsids:?}"
                );
            };
            devices.push((name.clone(), at as u16));
        }
        let pace = match self.options.depth {
            Some(depth) => Pace::Depth(depth),
            None => Pace::Recorded(self.options.speed.unwrap_or(Speed::ONE)),
        };
        Ok((nsids, spaces, Options { pace, fold: self.options.fold, devices, powered: None }))
    }

    /// Whether the drive has the namespaces that it needs. Nothing is read or written, also not of the trace.
    ///
    /// # Errors
    /// It has not.
    pub fn fits(&self, host: &mut Host<SimTransport>, nsid: Option<Nsid>) -> Result<()> {
        self.lay(host, nsid).map(drop)
    }

    /// Replays it.
    ///
    /// # Errors
    /// It is no trace, or does not fit the drive.
    pub fn play(
        &self,
        sim: &Sim,
        host: &mut Host<SimTransport>,
        nsid: Option<Nsid>,
        watch: &mut Watch<'_>,
    ) -> Result<LoadResult> {
        let (nsids, spaces, options) = self.lay(host, nsid)?;
        let pace = options.pace;
        let agreement = Agreement::begin(host, &nsids)?;
        let powered = agreement.powered_for().map(|span| sim.now().since(span).0);
        let options = Options { powered, ..options };
        let replay = Replay::new(self.reader(watch.cancel())?, options, &spaces)
            .map_err(|problem| anyhow!("{}: {problem}", self.name))?;
        let mut actors = sim.actors();
        actors.add_over(host, &nsids, replay)?;
        let blocks: Vec<u64> = spaces.iter().map(|space| space.block_bytes.into()).collect();
        watch.goals(vec![(Goal::unknown(), blocks[0])], sim.now());
        let mut tally = Tally::new(blocks, sim.now())?;
        watch.run(&mut actors, sim, Nanos::MAX, |step| tally.step(step))?;
        watch.check_time()?;
        let (replay, outcome) = (actors.actor(0), actors.outcome(0));
        // Latencies of other times or fewer commands are others.
        let whole = pace == Pace::Recorded(Speed::ONE) && self.options.device.is_empty();
        let told = if whole { replay.reader().latencies() } else { &[] };
        let (agreement, latencies) = agreement.end(host, told)?;
        let reader = replay.reader();
        let mut problems = Vec::new();
        let (mut notes, mut doubts) = (Vec::new(), Vec::new());
        if let Some(error) = replay.error() {
            problems.push(format!(
                "{}:{}: {}; what came before was replayed",
                self.name, error.line, error.problem
            ));
        }
        if replay.events() == 0 && problems.is_empty() && !watch.interrupted() {
            problems.push(format!("{}: nothing was replayed: {}", self.name, why_empty(replay)));
        }
        if outcome.failed > 0 {
            problems.push(format!("{} requests failed", outcome.failed));
        }
        if let Some(line) = reader.cut() {
            let doubt = format!("the trace ends in the middle of line {line}, which was left out");
            notes.push(doubt.clone());
            doubts.push(format!("{}: {doubt}: perhaps more of it is missing", self.name));
        }
        if let (count @ 1.., Some(first)) = reader.unknown() {
            let doubt = format!("lines that make no sense and were left out: {count}, the first is {first}");
            notes.push(doubt.clone());
            doubts.push(format!("{}: {doubt}", self.name));
        }
        notes.extend(devices(reader.devices()));
        doubts.extend(doubts_of(replay).into_iter().map(|doubt| format!("{}: {doubt}", self.name)));
        if let Some(action) = reader.action() {
            notes.push(format!("the events that count are of action {}", action.letter()));
        }
        if replay.late() > 0 {
            notes.push(format!("the latest request was {} us late", replay.late() / 1000));
        }
        for (count, what) in [
            (reader.reordered(), "lines with a time before an earlier one's"),
            (reader.ignored(), "lines that are no I/O that counts"),
            (replay.left_out(), "I/Os of devices that were not asked for"),
            (replay.folded(), "requests that were moved or shortened to fit their namespace"),
        ] {
            if count > 0 {
                notes.push(format!("{what}: {count}"));
            }
        }
        let traffic = tally.moved(sim.now());
        let document = TraceDocument {
            trace: Replayed {
                format: format!("{:?}", reader.format()),
                devices: reader.devices().to_vec(),
                lines: reader.lines(),
                requests: replay.events(),
                cut_at_line: reader.cut(),
                late_ns: replay.late(),
                reordered: reader.reordered(),
                ignored: reader.ignored(),
                unknown: reader.unknown().0,
                left_out: replay.left_out(),
                folded: replay.folded(),
                latencies,
            },
            requests: tally::document(&traffic),
        };
        let notes: String = notes.iter().map(|note| format!("  {note}\n")).collect();
        let text = format!(
            "{}: requests: {}, devices: {}\n{}{}{agreement}{notes}",
            self.name,
            replay.events(),
            reader.devices().len(),
            tally::text(&traffic),
            tally.flushes()
        );
        Ok(LoadResult {
            document: Some(LoadDocument::Trace(document)),
            text,
            traffic,
            requests: outcome.requests,
            digest: outcome.digest,
            problems,
            doubts,
            interrupted: watch.interrupted(),
            ..LoadResult::default()
        })
    }
}

/// Devices that are named to people.
const NAMED_DEVICES: usize = 16;

/// The names of a trace's devices, for people.
fn devices(names: &[String]) -> Option<String> {
    let named: Vec<String> = names.iter().take(NAMED_DEVICES).map(|name| format!("{name:?}")).collect();
    let more = match names.len().saturating_sub(NAMED_DEVICES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| format!("devices (--only NAME=NSID): {}{more}", named.join(" ")))
}

/// What makes the figures of a trace doubtful, besides damage.
fn doubts_of(replay: &Replay<Box<dyn BufRead>>) -> Vec<String> {
    let reader = replay.reader();
    let mut doubts = Vec::new();
    if replay.folded() > 0 {
        doubts.push(format!(
            "{} of {} requests were beyond the end of their namespace, and were moved or shortened: a larger namespace takes them as they are",
            replay.folded(),
            replay.events()
        ));
    }
    if replay.late() >= LATE_NANOS {
        doubts.push(format!(
            "requests came late, by up to {} us: so many were outstanding that the next ones had to wait",
            replay.late() / 1000
        ));
    }
    if reader.missing() > 0 {
        doubts.push(format!("{} records of blktrace are missing by their numbers", reader.missing()));
    }
    if reader.reordered() > replay.events() / REORDERED_ONE_IN {
        doubts.push(format!(
            "{} I/Os have a time before an earlier one's and came at once: one time of the trace may be wrong",
            reader.reordered()
        ));
    }
    if !reader.has_times() && replay.is_timed() {
        doubts
            .push("the trace has no times, so that all I/Os came at once: replay it with --depth".to_owned());
    }
    for name in replay.not_there() {
        doubts.push(format!("there is no device {name:?} of --only in the trace"));
    }
    doubts
}

/// Why nothing of a trace was replayed, and what helps.
fn why_empty(replay: &Replay<Box<dyn BufRead>>) -> String {
    let reader = replay.reader();
    let devices = reader.devices();
    if replay.left_out() > 0 {
        return format!("no device is one of --only; the trace has {}", devices.join(", "));
    }
    match reader.of_other_action() {
        0 => format!("none of its {} lines is a read, write, flush or deallocation", reader.lines()),
        others => {
            format!("{others} I/Os have another action than the one that counts: choose it with --action")
        }
    }
}
