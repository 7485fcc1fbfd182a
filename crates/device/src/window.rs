//! Predictable Latency Mode (Base 8.1.18): times in which an NVM Set of flash collects no garbage, levels no wear and
//! erases nothing.
//!
//! While the mode is enabled, the set collects ahead in non-deterministic windows, so that a deterministic one has superblocks
//! to write to. When those are used up, or the window has lasted its time, the controller ends it.

use crate::contents::Contents;
use crate::core::{AsyncEvent, Cx, Failure, Outcome, Reply, TimedEvent};
use crate::drive::Drive;
use ftl::{PAGE, SetId, WindowProperties};
use media::Nanos;
use nvme::admin::{GetFeatures, SetFeatures};
use nvme::feature::Select;
use nvme::plm::{PredictableLatencyConfig, PredictableLatencyLog, WindowEvents, WindowSelect};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Status, U64};
use serde::{Deserialize, Serialize};

/// How often a deterministic window is looked at.
const LOOK: Nanos = Nanos(5_000_000);

const MILLI: u64 = 1_000_000;

/// Value of Predictable Latency Mode Config.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Setting {
    enabled: bool,
    /// [`WindowEvents`] that are told in the aggregate log.
    events: u16,
    /// Thresholds of the warnings.
    reads: u64,
    writes: u64,
    time: u64,
}

/// The window of a set.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Window {
    setting: Setting,
    deterministic: bool,
    /// When a deterministic one began, and what the set had read and written then.
    since: Nanos,
    reads: u64,
    written: u64,
    /// Pages that could be written in it when it began, and operations of the media that had failed by then.
    room: u64,
    failures: u64,
    /// [`WindowEvents`] since the log was read.
    happened: u16,
    /// Those that this deterministic window has had: each warning comes once.
    had: u16,
    /// Tells the looks at this window from those at others.
    number: u32,
}

/// What is left of a window.
struct Estimate {
    reads: u64,
    writes: u64,
    time: u64,
}

impl Drive {
    /// The longest deterministic window of a set; `None` if it has no Predictable Latency Mode.
    fn longest_window(&self, set: SetId) -> Option<Nanos> {
        self.core.config.windows.get(usize::from(set.0)).copied().filter(|t| *t > Nanos::ZERO)
    }

    /// Whether a set of the drive has Predictable Latency Mode.
    pub(crate) fn has_windows(&self) -> bool {
        self.core.config.windows.iter().any(|t| *t > Nanos::ZERO)
    }

    /// The set of an NVM Set Identifier, if it has the mode.
    fn windowed_set(&self, nvmsetid: u16) -> Option<SetId> {
        let set = nvmsetid.checked_sub(1).and_then(|i| u8::try_from(i).ok()).map(SetId)?;
        self.longest_window(set).map(|_| set)
    }

    /// The window of a set. After a loss of power it has its saved setting, and is not deterministic.
    fn window(&self, set: SetId) -> Window {
        let index = usize::from(set.0);
        let saved = || self.core.persistent.windows.get(index).copied().unwrap_or_default();
        self.windows.get(index).copied().unwrap_or_else(|| Window { setting: saved(), ..Window::default() })
    }

    fn window_mut(&mut self, set: SetId) -> &mut Window {
        let index = usize::from(set.0);
        while self.windows.len() <= index {
            self.windows.push(self.window(SetId(self.windows.len() as u8)));
        }
        &mut self.windows[index]
    }

    /// Resumes what was saved, after power on.
    pub(crate) fn restart_windows<S: Contents>(&mut self, now: Nanos, storage: &mut S) {
        self.windows.clear();
        for i in 0..self.core.config.windows.len() {
            let set = SetId(i as u8);
            if self.longest_window(set).is_some() && self.window(set).setting.enabled {
                self.core.ftl.collect_ahead(now, set, true, storage);
            }
        }
    }

    /// Reads of 4 KiB in the longest window, if every die did nothing else.
    fn typical_reads(&self, set: SetId) -> u64 {
        let longest = self.longest_window(set).unwrap_or_default();
        let properties = self.core.set_properties(set);
        let sense = properties.window.unwrap_or_default().sense;
        u64::from(properties.units) * (longest.0 / sense.0.max(1000))
    }

    /// Pages that are collected ahead for a window.
    fn typical_writes(&self, set: SetId) -> u64 {
        self.core.set_properties(set).window.unwrap_or_default().pages_ahead
    }

    /// How long it takes to collect what a window used up, in milliseconds: at most, and at least.
    fn recovery_times(&self, set: SetId) -> (u64, u64) {
        let Some(WindowProperties { recovery: (most, least), .. }) = self.core.set_properties(set).window
        else {
            return (0, 0);
        };
        ((most.0 / MILLI).max(1), (least.0 / MILLI).max(1))
    }

    fn window_estimate(&self, set: SetId, now: Nanos) -> Estimate {
        let window = self.window(set);
        let longest = self.longest_window(set).unwrap_or_default();
        let (mut reads, mut time) = (self.typical_reads(set), longest.0);
        if window.deterministic {
            reads = reads.saturating_sub(self.reads_of(set) - window.reads);
            time = time.saturating_sub(now.since(window.since).0);
        }
        Estimate { reads, writes: self.core.ftl.room_without_collection(set), time: time.div_ceil(MILLI) }
    }

    /// Whether a deterministic window with so much left is over.
    fn is_exceeded(&self, set: SetId, left: &Estimate) -> bool {
        left.reads == 0 || left.time == 0 || !self.core.ftl.is_gc_paused(set)
    }

    fn reads_of(&self, set: SetId) -> u64 {
        self.core.ftl.set_stats(set).host_read_bytes / u64::from(PAGE)
    }

    /// Whether a deterministic window that is over was not used up by its host: everything is being erased, or programs have failed, so
    /// that their pages and their blocks took of what was collected ahead.
    fn is_excursion(&self, set: SetId, left: &Estimate) -> bool {
        let (window, stats) = (self.window(set), self.core.ftl.set_stats(set));
        let written = (stats.host_written_bytes - window.written) / u64::from(PAGE);
        let used = left.reads == 0 || left.time == 0 || written >= window.room;
        !used && (self.sanitize.restricts() || stats.media_failures > window.failures)
    }

    /// Looks at all deterministic windows: whether one has to end, or will soon.
    pub(crate) fn look_at_windows<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        for i in 0..self.windows.len() {
            self.look_at_window(SetId(i as u8), cx);
        }
    }

    fn look_at_window<S: Contents>(&mut self, set: SetId, cx: &mut Cx<'_, S>) {
        let window = self.window(set);
        if !window.deterministic {
            return;
        }
        let left = self.window_estimate(set, cx.now);
        let setting = window.setting;
        let over = self.is_exceeded(set, &left);
        let excursion = over && self.is_excursion(set, &left);
        let events = WindowEvents::new()
            .with_reads(left.reads < setting.reads)
            .with_writes(left.writes < setting.writes)
            .with_time(left.time < setting.time)
            .with_exceeded(over && !excursion)
            .with_excursion(excursion);
        if over {
            self.leave_window(set, cx);
        }
        self.tell_window(set, events, cx);
    }

    /// All deterministic windows end, as everything is about to be erased: a Deterministic Excursion.
    pub(crate) fn leave_windows<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        for i in 0..self.windows.len() {
            let set = SetId(i as u8);
            if self.window(set).deterministic {
                self.leave_window(set, cx);
                self.tell_window(set, WindowEvents::new().with_excursion(true), cx);
            }
        }
    }

    fn leave_window<S: Contents>(&mut self, set: SetId, cx: &mut Cx<'_, S>) {
        self.window_mut(set).deterministic = false;
        self.core.ftl.pause_gc(cx.now, set, false, cx.storage);
    }

    /// Tells of what has happened to a window, if it is new.
    fn tell_window<S: Contents>(&mut self, set: SetId, events: WindowEvents, cx: &mut Cx<'_, S>) {
        let window = self.window_mut(set);
        let new = events.into_bits().get() & !window.had;
        window.had |= new;
        window.happened |= new;
        if new & window.setting.events != 0 {
            let mut answers = Vec::new();
            for (_, controller) in self.core.controllers.iter_mut() {
                controller.changed_windows.insert(u16::from(set.0) + 1);
                let configuration = controller.values.events();
                answers.extend(controller.events.raise(AsyncEvent::Window, configuration));
            }
            for answer in answers {
                self.core.answer_event(answer, cx);
            }
        }
    }

    /// It is time to look at a window again.
    pub(crate) fn window_due<S: Contents>(&mut self, set: SetId, number: u32, cx: &mut Cx<'_, S>) {
        self.look_at_window(set, cx);
        let window = self.window(set);
        if window.deterministic && window.number == number {
            self.core.events.push(cx.now + LOOK, TimedEvent::Window(set, number));
        }
    }

    /// The host has read what happened.
    pub(crate) fn clear_window_events(&mut self, nvmsetid: u16) {
        if let Some(set) = self.windowed_set(nvmsetid) {
            self.window_mut(set).happened = 0;
        }
    }

    /// Predictable Latency Per NVM Set.
    pub(crate) fn window_log(&self, nvmsetid: u16, now: Nanos) -> Result<Vec<u8>, Failure> {
        let set = self.windowed_set(nvmsetid).ok_or(Failure::field(46))?;
        let (window, left) = (self.window(set), self.window_estimate(set, now));
        let (high, low) = self.recovery_times(set);
        let log = PredictableLatencyLog {
            status: window.select(),
            event_type: WindowEvents::from_bits(window.happened.into()),
            dtwinrt: U64::new(self.typical_reads(set)),
            dtwinwt: U64::new(self.typical_writes(set)),
            dtwintm: U64::new(self.longest_window(set).unwrap_or_default().0 / MILLI),
            ndwintmh: U64::new(high),
            ndwintml: U64::new(low),
            dtwinre: U64::new(left.reads),
            dtwinwe: U64::new(left.writes),
            dtwinte: U64::new(left.time),
            ..Default::default()
        };
        Ok(log.as_bytes().to_vec())
    }

    /// Get Features: Predictable Latency Mode Config (Base 5.1.25.1.11).
    pub(crate) fn get_window_config(&self, c: &GetFeatures) -> Outcome {
        let set = self.windowed_set(c.cdw11 as u16).ok_or(Failure::field(44))?;
        let setting = match c.sel {
            Select::DEFAULT => Setting::default(),
            Select::SAVED => {
                self.core.persistent.windows.get(usize::from(set.0)).copied().unwrap_or_default()
            }
            _ => self.window(set).setting,
        };
        let data = PredictableLatencyConfig {
            ee: WindowEvents::from_bits(setting.events.into()),
            dtwinrt: U64::new(setting.reads),
            dtwinwt: U64::new(setting.writes),
            dtwintt: U64::new(setting.time),
            ..Default::default()
        };
        Ok(Reply::Data(data.as_bytes().to_vec(), u32::from(setting.enabled)))
    }

    /// Set Features: Predictable Latency Mode Config. A set begins in a non-deterministic window.
    pub(crate) fn set_window_config<S: Contents>(
        &mut self,
        c: &SetFeatures,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let set = self.windowed_set(c.cdw11 as u16).ok_or(Failure::field(44))?;
        let (data, _) =
            PredictableLatencyConfig::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
        let all = WindowEvents::new().with_reads(true).with_writes(true).with_time(true);
        let all = all.with_exceeded(true).with_excursion(true).into_bits().get();
        if data.ee.into_bits().get() & !all != 0 {
            return Err(Status::INVALID_FIELD.into());
        }
        let setting = Setting {
            enabled: c.cdw12 & 1 != 0,
            events: data.ee.into_bits().get(),
            reads: data.dtwinrt.get(),
            writes: data.dtwinwt.get(),
            time: data.dtwintt.get(),
        };
        let window = self.window_mut(set);
        window.setting = setting;
        if !setting.enabled {
            (window.deterministic, window.happened) = (false, 0);
            self.core.ftl.pause_gc(cx.now, set, false, cx.storage);
        }
        self.core.ftl.collect_ahead(cx.now, set, setting.enabled, cx.storage);
        if c.sv {
            let index = usize::from(set.0);
            if self.core.persistent.windows.len() <= index {
                self.core.persistent.windows.resize(index + 1, Setting::default());
            }
            self.core.persistent.windows[index] = setting;
            self.core.record(cx.storage);
        }
        Ok(Reply::Done(0))
    }

    /// Get Features: Predictable Latency Mode Window (Base 5.1.25.1.12).
    pub(crate) fn get_window(&self, c: &GetFeatures, now: Nanos) -> Outcome {
        let set = self.windowed_set(c.cdw11 as u16).ok_or(Failure::field(44))?;
        let mut window = match c.sel {
            Select::CURRENT => self.window(set),
            _ => Window::default(),
        };
        // One that is over may not have been looked at.
        window.deterministic &= !self.is_exceeded(set, &self.window_estimate(set, now));
        Ok(Reply::Done(window.select().0.into()))
    }

    /// Set Features: Predictable Latency Mode Window.
    pub(crate) fn set_window<S: Contents>(&mut self, c: &SetFeatures, cx: &mut Cx<'_, S>) -> Outcome {
        let set = self.windowed_set(c.cdw11 as u16).ok_or(Failure::field(44))?;
        if !self.window(set).setting.enabled {
            return Err(Failure::field(44));
        }
        self.look_at_window(set, cx);
        let deterministic = match WindowSelect((c.cdw12 & 7) as u8) {
            WindowSelect::DETERMINISTIC => true,
            WindowSelect::NON_DETERMINISTIC => false,
            _ => return Err(Failure::field(48)),
        };
        if deterministic == self.window(set).deterministic {
            return Ok(Reply::Done(0));
        }
        let (reads, stats) = (self.reads_of(set), self.core.ftl.set_stats(set));
        let (written, failures) = (stats.host_written_bytes, stats.media_failures);
        let room = self.core.ftl.room_without_collection(set);
        let window = self.window_mut(set);
        window.deterministic = deterministic;
        (window.since, window.reads, window.had) = (cx.now, reads, 0);
        (window.written, window.room, window.failures) = (written, room, failures);
        window.number = window.number.wrapping_add(1);
        let number = window.number;
        self.core.ftl.pause_gc(cx.now, set, deterministic, cx.storage);
        if deterministic {
            self.core.events.push(cx.now + LOOK, TimedEvent::Window(set, number));
        }
        Ok(Reply::Done(0))
    }
}

impl Window {
    fn select(&self) -> WindowSelect {
        match (self.setting.enabled, self.deterministic) {
            (false, _) => WindowSelect::NOT_ENABLED,
            (true, true) => WindowSelect::DETERMINISTIC,
            (true, false) => WindowSelect::NON_DETERMINISTIC,
        }
    }
}
