//! Predictable Latency Mode (Base 8.1.18): times in which an NVM Set of flash collects no garbage, levels no wear and
//! erases nothing.
//!
//! While the mode is enabled, the set collects ahead in non-deterministic windows, so that a deterministic one has superblocks
//! to write to. The controller ends a deterministic window when those are used up, or when the window has lasted its time.

pub(crate) mod setting;

use crate::contents::Contents;
use crate::core::{AdminResult, AsyncEvent, Controller, Core, Cx, Failure, Reply, TimedEvent};
use ftl::{PAGE, SetId, WindowProperties};
use media::Nanos;
use nvme::admin::{GetFeatures, SetFeatures};
use nvme::feature::Select;
use nvme::plm::{PredictableLatencyConfig, PredictableLatencyLog, WindowEvents, WindowSelect};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Status, U64};
use setting::WindowSetting;

/// How often a deterministic window is looked at.
const CHECK_INTERVAL: Nanos = Nanos(5_000_000);

/// Nanoseconds of a millisecond.
const MILLI: u64 = 1_000_000;

/// The window of a set.
#[derive(Clone, Copy, Default, Debug)]
struct Window {
    setting: WindowSetting,
    deterministic: bool,
    /// When the deterministic window began.
    since: Nanos,
    /// 4 KiB reads, and bytes written, of the set until then.
    reads: u64,
    written: u64,
    /// Pages that could be written without collection when it began.
    room: u64,
    /// Operations of the media that had failed until then.
    failures: u64,
    /// Those that this deterministic window has had: each warning comes once.
    had: u16,
    /// Tells the looks at this window from those at others.
    number: u32,
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

/// What is left of a window: reads and writes of 4 KiB, and milliseconds.
struct Estimate {
    reads: u64,
    writes: u64,
    time: u64,
}

/// Whether some set of the drive has the mode.
pub(crate) fn is_supported(core: &Core) -> bool {
    core.config.windows.iter().any(|t| *t > Nanos::ZERO)
}

/// The longest deterministic window of a set; `None` if it does not have the mode.
fn longest_window(core: &Core, set: SetId) -> Option<Nanos> {
    core.config.windows.get(usize::from(set.0)).copied().filter(|t| *t > Nanos::ZERO)
}

/// The set of an NVM Set Identifier, if it has the mode.
fn windowed_set(core: &Core, nvmsetid: u16) -> Option<SetId> {
    let set = nvmsetid.checked_sub(1).and_then(|i| u8::try_from(i).ok()).map(SetId)?;
    longest_window(core, set).map(|_| set)
}

fn saved_setting(core: &Core, set: SetId) -> WindowSetting {
    core.persistent.windows.get(usize::from(set.0)).copied().unwrap_or_default()
}

/// Reads of 4 KiB in the longest window, if every die did nothing else.
fn typical_reads(core: &Core, set: SetId) -> u64 {
    let longest = longest_window(core, set).unwrap_or_default();
    let properties = core.set_properties(set);
    let sense = properties.window.unwrap_or_default().sense;
    u64::from(properties.units) * (longest.0 / sense.0.max(1000))
}

/// Pages that are collected ahead for a window.
fn typical_writes(core: &Core, set: SetId) -> u64 {
    core.set_properties(set).window.unwrap_or_default().pages_ahead
}

/// How long it takes to collect what a window used up, in milliseconds: at most, and at least.
fn recovery_times(core: &Core, set: SetId) -> (u64, u64) {
    let Some(WindowProperties { recovery: (most, least), .. }) = core.set_properties(set).window else {
        return (0, 0);
    };
    ((most.0 / MILLI).max(1), (least.0 / MILLI).max(1))
}

/// Reads of 4 KiB that hosts did on a set.
fn reads_of(core: &Core, set: SetId) -> u64 {
    core.ftl.set_stats(set).host_read_bytes / u64::from(PAGE)
}

/// Whether a deterministic window with so much left is over.
fn is_exceeded(core: &Core, set: SetId, left: &Estimate) -> bool {
    left.reads == 0 || left.time == 0 || !core.ftl.is_gc_paused(set)
}

/// Sets of the drive, as the mode's configuration names them.
fn sets(core: &Core) -> impl Iterator<Item = SetId> + use<> {
    (0..core.config.windows.len()).map(|i| SetId(i as u8))
}

/// The windows of all NVM Sets. They end with power; their settings may be saved.
#[derive(Debug, Default)]
pub(crate) struct PredictableLatency {
    /// By set. Those that are missing have their saved settings.
    windows: Vec<Window>,
}

impl PredictableLatency {
    /// The window of a set.
    fn window(&self, core: &Core, set: SetId) -> Window {
        let saved = || Window { setting: saved_setting(core, set), ..Window::default() };
        self.windows.get(usize::from(set.0)).copied().unwrap_or_else(saved)
    }

    fn window_mut(&mut self, core: &Core, set: SetId) -> &mut Window {
        let index = usize::from(set.0);
        while self.windows.len() <= index {
            self.windows.push(self.window(core, SetId(self.windows.len() as u8)));
        }
        &mut self.windows[index]
    }

    /// Power has come: what was saved goes on, in non-deterministic windows.
    pub fn power_came<S: Contents>(&mut self, core: &mut Core, now: Nanos, storage: &mut S) {
        self.windows.clear();
        for set in sets(core) {
            if longest_window(core, set).is_some() && saved_setting(core, set).enabled {
                core.ftl.collect_ahead(now, set, true, storage);
            }
        }
    }

    fn estimate(&self, core: &Core, set: SetId, now: Nanos) -> Estimate {
        let window = self.window(core, set);
        let longest = longest_window(core, set).unwrap_or_default();
        let (mut reads, mut time) = (typical_reads(core, set), longest.0);
        if window.deterministic {
            reads = reads.saturating_sub(reads_of(core, set) - window.reads);
            time = time.saturating_sub(now.since(window.since).0);
        }
        Estimate { reads, writes: core.ftl.room_without_collection(set), time: time.div_ceil(MILLI) }
    }

    /// Whether a deterministic window that is over was not used up by its host. Either everything is being erased
    /// (`sanitizing`), or programs have failed and took some of the space that was collected ahead.
    fn is_excursion(&self, core: &Core, set: SetId, left: &Estimate, sanitizing: bool) -> bool {
        let (window, stats) = (self.window(core, set), core.ftl.set_stats(set));
        let written = (stats.host_written_bytes - window.written) / u64::from(PAGE);
        let used = left.reads == 0 || left.time == 0 || written >= window.room;
        !used && (sanitizing || stats.media_failures > window.failures)
    }

    /// Looks at all deterministic windows: whether one has to end, or will soon.
    pub fn look_at_all<S: Contents>(&mut self, core: &mut Core, sanitizing: bool, cx: &mut Cx<'_, S>) {
        for i in 0..self.windows.len() {
            self.look_at(core, SetId(i as u8), sanitizing, cx);
        }
    }

    fn look_at<S: Contents>(&mut self, core: &mut Core, set: SetId, sanitizing: bool, cx: &mut Cx<'_, S>) {
        let window = self.window(core, set);
        if !window.deterministic {
            return;
        }
        let left = self.estimate(core, set, cx.now);
        let setting = window.setting;
        let over = is_exceeded(core, set, &left);
        let excursion = over && self.is_excursion(core, set, &left, sanitizing);
        let events = WindowEvents::new()
            .with_reads(left.reads < setting.reads)
            .with_writes(left.writes < setting.writes)
            .with_time(left.time < setting.time)
            .with_exceeded(over && !excursion)
            .with_excursion(excursion);
        if over {
            self.leave(core, set, cx);
        }
        self.tell(core, set, events, cx);
    }

    /// All deterministic windows end, as everything is about to be erased: a Deterministic Excursion.
    pub fn leave_all<S: Contents>(&mut self, core: &mut Core, cx: &mut Cx<'_, S>) {
        for i in 0..self.windows.len() {
            let set = SetId(i as u8);
            if self.window(core, set).deterministic {
                self.leave(core, set, cx);
                self.tell(core, set, WindowEvents::new().with_excursion(true), cx);
            }
        }
    }

    fn leave<S: Contents>(&mut self, core: &mut Core, set: SetId, cx: &mut Cx<'_, S>) {
        self.window_mut(core, set).deterministic = false;
        core.ftl.pause_gc(cx.now, set, false, cx.storage);
    }

    /// Tells hosts what has happened to a window, if it is new.
    fn tell<S: Contents>(&mut self, core: &mut Core, set: SetId, events: WindowEvents, cx: &mut Cx<'_, S>) {
        let window = self.window_mut(core, set);
        let new = events.into_bits().get() & !window.had;
        window.had |= new;
        let announced = new & window.setting.events != 0;
        let nvmsetid = u16::from(set.0) + 1;
        for (_, controller) in core.controllers.iter_mut() {
            *controller.window_events.entry(nvmsetid).or_default() |= new;
            if announced {
                controller.changed_windows.insert(nvmsetid);
            }
        }
        if announced {
            core.raise_for_all(AsyncEvent::Window, cx);
        }
    }

    /// It is time to look at a window again.
    pub fn due<S: Contents>(
        &mut self,
        core: &mut Core,
        set: SetId,
        number: u32,
        sanitizing: bool,
        cx: &mut Cx<'_, S>,
    ) {
        self.look_at(core, set, sanitizing, cx);
        let window = self.window(core, set);
        if window.deterministic && window.number == number {
            core.events.push(cx.now + CHECK_INTERVAL, TimedEvent::Window(set, number));
        }
    }

    /// Predictable Latency Per NVM Set, with the events that a controller's host has not read.
    ///
    /// # Errors
    /// If the set does not have the mode.
    pub fn log(
        &self,
        core: &Core,
        controller: &Controller,
        nvmsetid: u16,
        now: Nanos,
    ) -> Result<PredictableLatencyLog, Failure> {
        let unread = controller.window_events.get(&nvmsetid).copied().unwrap_or(0);
        let set = windowed_set(core, nvmsetid).ok_or(Failure::field(46))?;
        let (window, left) = (self.window(core, set), self.estimate(core, set, now));
        let (high, low) = recovery_times(core, set);
        Ok(PredictableLatencyLog {
            status: window.select(),
            event_type: WindowEvents::from_bits(unread.into()),
            dtwinrt: U64::new(typical_reads(core, set)),
            dtwinwt: U64::new(typical_writes(core, set)),
            dtwintm: U64::new(longest_window(core, set).unwrap_or_default().0 / MILLI),
            ndwintmh: U64::new(high),
            ndwintml: U64::new(low),
            dtwinre: U64::new(left.reads),
            dtwinwe: U64::new(left.writes),
            dtwinte: U64::new(left.time),
            ..Default::default()
        })
    }

    /// Get Features: Predictable Latency Mode Config (Base 5.1.25.1.11).
    pub fn get_config(&self, core: &Core, c: &GetFeatures) -> AdminResult {
        let set = windowed_set(core, c.cdw11 as u16).ok_or(Failure::field(44))?;
        let setting = match c.sel {
            Select::DEFAULT => WindowSetting::default(),
            Select::SAVED => saved_setting(core, set),
            _ => self.window(core, set).setting,
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
    pub fn set_config<S: Contents>(
        &mut self,
        core: &mut Core,
        c: &SetFeatures,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        let set = windowed_set(core, c.cdw11 as u16).ok_or(Failure::field(44))?;
        let (data, _) =
            PredictableLatencyConfig::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
        let all = WindowEvents::new().with_reads(true).with_writes(true).with_time(true);
        let all = all.with_exceeded(true).with_excursion(true).into_bits().get();
        if data.ee.into_bits().get() & !all != 0 {
            return Err(Status::INVALID_FIELD.into());
        }
        let setting = WindowSetting {
            enabled: c.cdw12 & 1 != 0,
            events: data.ee.into_bits().get(),
            reads: data.dtwinrt.get(),
            writes: data.dtwinwt.get(),
            time: data.dtwintt.get(),
        };
        let window = self.window_mut(core, set);
        window.setting = setting;
        if !setting.enabled {
            window.deterministic = false;
            core.ftl.pause_gc(cx.now, set, false, cx.storage);
        }
        core.ftl.collect_ahead(cx.now, set, setting.enabled, cx.storage);
        if c.sv {
            let index = usize::from(set.0);
            let saved = &mut core.persistent.windows;
            if saved.len() <= index {
                saved.resize(index + 1, WindowSetting::default());
            }
            saved[index] = setting;
            core.record(cx.storage);
        }
        Ok(Reply::Done(0))
    }

    /// Get Features: Predictable Latency Mode Window (Base 5.1.25.1.12).
    pub fn get_window(&self, core: &Core, c: &GetFeatures, now: Nanos) -> AdminResult {
        let set = windowed_set(core, c.cdw11 as u16).ok_or(Failure::field(44))?;
        let mut window = match c.sel {
            Select::CURRENT => self.window(core, set),
            _ => Window::default(),
        };
        // A window may be over without a look at it since.
        window.deterministic &= !is_exceeded(core, set, &self.estimate(core, set, now));
        Ok(Reply::Done(window.select().0.into()))
    }

    /// Set Features: Predictable Latency Mode Window.
    pub fn set_window<S: Contents>(
        &mut self,
        core: &mut Core,
        c: &SetFeatures,
        sanitizing: bool,
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        let set = windowed_set(core, c.cdw11 as u16).ok_or(Failure::field(44))?;
        if !self.window(core, set).setting.enabled {
            return Err(Failure::field(44));
        }
        self.look_at(core, set, sanitizing, cx);
        let deterministic = match WindowSelect((c.cdw12 & 7) as u8) {
            WindowSelect::DETERMINISTIC => true,
            WindowSelect::NON_DETERMINISTIC => false,
            _ => return Err(Failure::field(48)),
        };
        if deterministic == self.window(core, set).deterministic {
            return Ok(Reply::Done(0));
        }
        let stats = core.ftl.set_stats(set);
        let (written, failures) = (stats.host_written_bytes, stats.media_failures);
        let (reads, room) = (reads_of(core, set), core.ftl.room_without_collection(set));
        let window = self.window_mut(core, set);
        window.deterministic = deterministic;
        (window.since, window.reads, window.had) = (cx.now, reads, 0);
        (window.written, window.room, window.failures) = (written, room, failures);
        window.number = window.number.wrapping_add(1);
        let number = window.number;
        core.ftl.pause_gc(cx.now, set, deterministic, cx.storage);
        if deterministic {
            core.events.push(cx.now + CHECK_INTERVAL, TimedEvent::Window(set, number));
        }
        Ok(Reply::Done(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use ftl::NoContents;
    use nvme::feature::FeatureId;

    /// Set 1 has windows of at most a second.
    fn core() -> Core {
        let spare = "spare = \"28%\"";
        fixture::core_with(spare, "spare = \"100%\"\nwindow = { superblocks = 4, time = \"1s\" }")
    }

    fn set(fid: FeatureId, cdw11: u32, cdw12: u32) -> SetFeatures {
        SetFeatures { nsid: 0, fid, sv: false, cdw11, cdw12, cdw13: 0, cdw15: 0, uidx: 0 }
    }

    #[test]
    fn a_window_begins_is_warned_of_once_and_ends_after_its_time() {
        let mut core = core();
        let (id, other) = (fixture::connect(&mut core, 1), fixture::connect(&mut core, 2));
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        let mut windows = PredictableLatency::default();
        assert!(is_supported(&core));
        let select = set(FeatureId::PREDICTABLE_LATENCY_WINDOW, 1, WindowSelect::DETERMINISTIC.0.into());
        // Not without the mode.
        assert!(windows.set_window(&mut core, &select, false, &mut cx).is_err());
        let all = WindowEvents::new().with_time(true).with_exceeded(true);
        let data = PredictableLatencyConfig { ee: all, dtwintt: U64::new(500), ..Default::default() };
        let config = set(FeatureId::PREDICTABLE_LATENCY_CONFIG, 1, 1);
        assert!(windows.set_config(&mut core, &config, data.as_bytes(), &mut cx).is_ok());
        assert!(windows.set_window(&mut core, &select, false, &mut cx).is_ok());
        let log = windows.log(&core, core.controllers.get(id).unwrap(), 1, cx.now).unwrap();
        assert_eq!((log.status, log.dtwinte.get()), (WindowSelect::DETERMINISTIC, 1000));
        cx.now = Nanos(600 * MILLI);
        windows.look_at_all(&mut core, false, &mut cx);
        let log = windows.log(&core, core.controllers.get(id).unwrap(), 1, cx.now).unwrap();
        assert!(log.event_type.time() && !log.event_type.exceeded());
        assert!(core.controllers.get(id).unwrap().changed_windows.contains(&1));
        core.controllers.get_mut(id).unwrap().window_events.remove(&1);
        cx.now = Nanos(700 * MILLI);
        windows.look_at_all(&mut core, false, &mut cx);
        assert_eq!(
            windows
                .log(&core, core.controllers.get(id).unwrap(), 1, cx.now)
                .unwrap()
                .event_type
                .into_bits()
                .get(),
            0
        );
        // Another host has not read it.
        let unread = windows.log(&core, core.controllers.get(other).unwrap(), 1, cx.now).unwrap();
        assert!(unread.event_type.time());
        cx.now = Nanos(1000 * MILLI);
        windows.look_at_all(&mut core, false, &mut cx);
        let log = windows.log(&core, core.controllers.get(id).unwrap(), 1, cx.now).unwrap();
        assert!(log.event_type.exceeded() && log.status == WindowSelect::NON_DETERMINISTIC);
        assert!(windows.log(&core, core.controllers.get(id).unwrap(), 2, cx.now).is_err());
    }

    #[test]
    fn a_saved_setting_outlives_power_and_a_window_does_not() {
        let mut core = core();
        let id = fixture::connect(&mut core, 1);
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        let mut windows = PredictableLatency::default();
        let config = SetFeatures { sv: true, ..set(FeatureId::PREDICTABLE_LATENCY_CONFIG, 1, 1) };
        let data = PredictableLatencyConfig::default();
        assert!(windows.set_config(&mut core, &config, data.as_bytes(), &mut cx).is_ok());
        let select = set(FeatureId::PREDICTABLE_LATENCY_WINDOW, 1, WindowSelect::DETERMINISTIC.0.into());
        assert!(windows.set_window(&mut core, &select, false, &mut cx).is_ok());
        windows.power_came(&mut core, cx.now, cx.storage);
        assert_eq!(
            windows.log(&core, core.controllers.get(id).unwrap(), 1, cx.now).unwrap().status,
            WindowSelect::NON_DETERMINISTIC
        );
    }
}
