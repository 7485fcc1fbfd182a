//! `tranche profile fit`: a profile of a device from measurements of it.
//!
//! Reads are measured, and writes where the device may be overwritten. What a measurement gives becomes a parameter of the model. Two are searched
//! for in virtual time: the number of dies, so that random reads grow with how many are outstanding as on the device, and the spare, so that random
//! writes are as many. The profile has the measured figures as its data sheet, so that `tranche profile check` holds it to them.

mod measure;
mod model;

use crate::{bench, datasheet, sim::play_text};
use anyhow::{Context, Result, bail};
use lab_report::{
    Findings,
    control::{Control, Progress},
    figure,
    terminal::{self, Look},
};
use live::Config;
pub use measure::{Done, How, Load, Measured, Point, Run, Writes};
use model::Model;
use schemars::JsonSchema;
use serde::Serialize;
use sim::{Contents, Precondition, Sim, precondition::preconditioned};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The least that a device has: 64 MiB.
pub const MIN_DEVICE_BYTES: u64 = 64 << 20;
/// Dies among which is searched.
const DIES: [u32; 8] = [4, 8, 16, 32, 64, 128, 256, 512];
/// Bytes of the drive in virtual time whose random reads are compared, at least.
const MIN_READ_BYTES: u64 = 4 << 30;
/// Simulated time of a load.
const LOAD_TIME: Duration = Duration::from_millis(40);
/// Steps in the search for the spare, and how near is near enough.
const SEARCH_STEPS: u32 = 7;
const SPARE_TOLERANCE: f64 = 0.05;
const NQN: &str = "nqn.2026-11.io.tranche:fit";

/// What is to be fitted, and where to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the device is, in words.
    pub about: String,
    /// Its bytes: [`MIN_DEVICE_BYTES`] or more.
    pub bytes: u64,
    /// How it is measured.
    pub how: How,
    /// Where the profile goes.
    pub file: PathBuf,
    /// Whether a file there may go.
    pub force: bool,
    /// Seed of everything random in virtual time.
    pub seed: u64,
}

/// Random reads of the device, and of the model.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Compared {
    /// Outstanding reads.
    pub depth: u32,
    /// Reads per second of the device.
    #[schemars(extend("unit" = "1/s"))]
    pub measured: f64,
    /// Reads per second of the model in virtual time.
    #[schemars(extend("unit" = "1/s"))]
    pub model: f64,
}

/// A device, and the profile that was fitted to it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Fitted {
    /// The device in words.
    pub device: String,
    /// The file of the profile: the place of the results.
    #[serde(skip)]
    pub profile: PathBuf,
    /// What was measured of the device.
    pub measured: Measured,
    /// Dies of the model.
    pub dies: u32,
    /// Spare of the model; assumed where writes were not measured.
    #[schemars(extend("unit" = "%"))]
    pub spare_percent: f64,
    /// Random reads of the device and of the model.
    pub random_reads: Vec<Compared>,
    /// The model in virtual time beside the measured figures.
    pub data_sheet: datasheet::Measured,
}

/// Measures a device with `run`, and writes a profile of it.
///
/// # Errors
/// The device is too small or fails, the profile cannot be written, the user ended it.
pub fn fit(settings: &Settings, run: &mut Run<'_>, control: &Control) -> Result<Findings<Fitted>> {
    let Settings { about, bytes, how, file, seed, .. } = settings;
    if *bytes < MIN_DEVICE_BYTES {
        bail!(
            "{about} has {}: a profile needs {} or more",
            figure::show_size(*bytes),
            figure::show_size(MIN_DEVICE_BYTES)
        );
    }
    if file.exists() && !settings.force {
        bail!("{} is there already: name another file with --file, or give --force", file.display());
    }
    let loads = measure::DEPTHS.len() as u64 + 2 + if how.writes.is_some() { 4 } else { 0 };
    let mut progress = Progress::new(control, loads);
    let measured = measure::measure(*bytes, how, run, |what, done| {
        progress.begin(what);
        progress.end(&format!("{} IOPS, {} us each", figure::show(done.iops), figure::show(done.mean / 1e3)));
        Ok(control.check()?)
    })?;
    drop(progress);
    let (mut model, curve) = dies(about, &measured, *seed, control)?;
    let source = format!("measured: {about}");
    if let Some(writes) = measured.writes {
        model.spare = spare(&source, &measured, model, writes.iops, *seed, control)?;
    }
    let toml = model::toml(&source, &measured, &model);
    let config = Config::from_toml(&toml).context("the fitted profile makes no sense")?;
    let name = file.display().to_string();
    let checked =
        datasheet::check(&name, &config, datasheet::Settings { full: false, seed: *seed }, control)?;
    write(file, &toml)?;
    let fitted = Fitted {
        device: about.clone(),
        profile: file.clone(),
        dies: model.dies,
        spare_percent: model.spare * 100.0,
        random_reads: curve,
        data_sheet: checked.results,
        measured,
    };
    let text = format!("{}\n{}", text(&fitted), checked.text);
    // A figure that is off is said there. The profile is what was asked for.
    Ok(Findings { text, results: fitted, written: Some(file.clone()), failure: None })
}

fn write(path: &Path, toml: &str) -> Result<()> {
    std::fs::write(path, toml).with_context(|| format!("cannot write {}", path.display()))
}

fn text(fitted: &Fitted) -> String {
    let head = ["random reads at once", "device", "model", "ratio"].map(str::to_owned);
    let row = |point: &Compared| {
        vec![
            point.depth.to_string(),
            format!("{} IOPS", figure::show(point.measured)),
            format!("{} IOPS", figure::show(point.model)),
            format!("{:.3}", point.model / point.measured),
        ]
    };
    let rows: Vec<_> = fitted.random_reads.iter().map(row).collect();
    let table = terminal::table(Look { text: 0, ..Look::default() }, &head, &rows);
    let writes = match fitted.measured.writes {
        Some(_) => format!("a spare of {:.1} %", fitted.spare_percent),
        None => "writes as assumed, because they were not measured".to_owned(),
    };
    format!(
        "{}: {} dies, {writes}\nprofile: {}\n{}",
        fitted.device,
        fitted.dies,
        fitted.profile.display(),
        table.trim_end()
    )
}

/// A drive of this profile in virtual time, shortened and prepared.
fn drive(toml: &str, least: u64, how: Precondition, seed: u64, control: &Control) -> Result<Sim> {
    let config = Config::from_toml(toml).context("the fitted profile makes no sense")?;
    let mut config = config.shortened(least).unwrap_or(config);
    config.ftl.durable = false;
    let mut tell = |_: u32| !control.is_cancelled();
    let made = preconditioned(config, Contents::None, how, seed, None, &mut tell);
    control.check()?;
    Ok(made?.0.start()?)
}

/// What a drive in virtual time does under a load.
fn simulate(sim: &Sim, load: &Load, seed: u64, control: &Control) -> Result<Done> {
    let mut host = sim.host(NQN).context("connecting to the drive")?;
    let traffic = play_text(load.rw, &load.job(), sim, &mut host, seed, control.cancel())?;
    let moved = traffic[usize::from(load.rw.ends_with("write"))];
    if moved.ios == 0 {
        bail!("simulating {}: no I/O ended in time", load.rw);
    }
    let per_second = |count| bench::per_second(count, moved.nanos);
    Ok(Done { iops: per_second(moved.ios), rate: per_second(moved.bytes), mean: moved.mean })
}

/// The model whose random reads are most like those of the device.
fn dies(about: &str, measured: &Measured, seed: u64, control: &Control) -> Result<(Model, Vec<Compared>)> {
    let mut best: Option<(f64, Model, Vec<Compared>)> = None;
    let mut progress = Progress::new(control, DIES.len() as u64);
    for dies in DIES {
        progress.begin(&format!("random reads of {dies} dies in virtual time"));
        let model = Model { dies, ..Model::FIRST };
        let toml = model::toml(about, measured, &model);
        // With few bytes a device cannot have many dies.
        if Config::from_toml(&toml).is_err() {
            progress.end("too many for its size");
            continue;
        }
        let sim = drive(&toml, MIN_READ_BYTES, Precondition::Fill, seed, control)?;
        let mut curve = Vec::new();
        for (n, point) in (1..).zip(&measured.random_reads) {
            let load = Load { rw: "randread", bytes: 4096, depth: point.depth, time: Some(LOAD_TIME) };
            let done = simulate(&sim, &load, seed + n, control)?;
            curve.push(Compared { depth: point.depth, measured: point.iops, model: done.iops });
        }
        let off: f64 = curve.iter().map(|it| (it.model / it.measured).ln().powi(2)).sum();
        progress.end(&format!("off by {:.0} %", ((off / curve.len() as f64).sqrt().exp() - 1.0) * 100.0));
        if best.as_ref().is_none_or(|(least, ..)| off < *least) {
            best = Some((off, model, curve));
        }
    }
    let (_, model, curve) = best.context("the device is too small for any model of flash")?;
    Ok((model, curve))
}

/// The spare with which the model does as many random writes as the device.
fn spare(
    about: &str,
    measured: &Measured,
    model: Model,
    wanted: f64,
    seed: u64,
    control: &Control,
) -> Result<f64> {
    let (mut low, mut high) = (0.02f64, 1.0f64);
    let mut at = model.spare;
    let mut best = (f64::INFINITY, at);
    let mut progress = Progress::new(control, SEARCH_STEPS.into());
    for _ in 0..SEARCH_STEPS {
        progress.begin(&format!("random writes with {:.1} % of spare in virtual time", at * 100.0));
        let toml = model::toml(about, measured, &Model { spare: at, ..model });
        let sim = drive(&toml, MIN_READ_BYTES, Precondition::Steady, seed, control)?;
        let load = Load { rw: "randwrite", bytes: 4096, depth: 256, time: Some(LOAD_TIME * 25) };
        let done = simulate(&sim, &load, seed, control)?;
        progress.end(&format!("{} IOPS", figure::show(done.iops)));
        let ratio = done.iops / wanted;
        let off = ratio.ln().abs();
        if off < best.0 {
            best = (off, at);
        }
        if off < SPARE_TOLERANCE {
            break;
        }
        match ratio > 1.0 {
            true => high = at,
            false => low = at,
        }
        // Spare counts by its ratio.
        at = (low * high).sqrt();
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose parts are known: 16 dies of two planes, reads of 60 us.
    const DEVICE: &str = r#"
[drive]
nqn = "nqn.2026-11.io.tranche:device"
timing = true
write_buffer = "4MiB"
[link]
read = "2GB/s"
write = "600MB/s"
command_overhead = "5us"
write_overhead = "12us"
command_interval = "4us"
[[set]]
media = "nand"
cell = "tlc"
capacity = "1GiB"
spare = "20%"
channels = 4
dies = 16
planes = 2
nand_page = "16KiB"
pages_per_block = 24
rated_cycles = 3000
timing = { read = "60us", program = "700us", erase = "200us", channel = "800MB/s", suspend = "10us", resume = "10us", max_suspends = 8 }
[[namespace]]
size = "1GiB"
"#;

    fn fitted(writes: Option<Duration>) -> (Findings<Fitted>, String) {
        let control = Control::default();
        let sim = drive(DEVICE, MIN_READ_BYTES, Precondition::Fill, 5, &control).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("fitted.toml");
        let how = How { time: Duration::from_millis(300), writes };
        let about = "a \"device\"\nof 16 dies".to_owned();
        let settings = Settings { about, bytes: 1 << 30, how, file: out.clone(), force: false, seed: 1 };
        let mut seed = 100;
        let mut run = |load: &Load| {
            seed += 1;
            simulate(&sim, load, seed, &control)
        };
        let found = fit(&settings, &mut run, &control).unwrap();
        let again = fit(&settings, &mut run, &control).unwrap_err().to_string();
        assert!(again.contains("--force"), "{again}");
        (found, std::fs::read_to_string(out).unwrap())
    }

    #[test]
    fn reads_of_a_known_device_are_found_again() {
        let (found, toml) = fitted(None);
        let Fitted { dies, random_reads, data_sheet, .. } = &found.results;
        assert!((8..=32).contains(dies), "{}", found.text);
        for point in random_reads {
            let ratio = point.model / point.measured;
            assert!((0.75..1.35).contains(&ratio), "{point:?}\n{}", found.text);
        }
        let figures: Vec<&str> = data_sheet.figures.iter().map(|figure| figure.figure).collect();
        assert_eq!(figures, ["sequential_read", "random_read_iops", "read_latency"]);
        assert!(data_sheet.figures.iter().all(|figure| figure.within), "{}", found.text);
        assert!(toml.contains("[assumed] writes were not measured"), "{toml}");
    }

    #[test]
    fn writes_of_a_known_device_are_found_again() {
        let (found, toml) = fitted(Some(Duration::from_secs(1)));
        assert_eq!(found.results.data_sheet.figures.len(), 6);
        let off = |name: &str| {
            let all = &found.results.data_sheet.figures;
            all.iter().find(|figure| figure.figure == name).map(|figure| (figure.ratio - 1.0).abs())
        };
        for name in
            ["sequential_read", "sequential_write", "random_read_iops", "read_latency", "write_latency"]
        {
            assert!(off(name).unwrap() < 0.1, "{name}\n{}", found.text);
        }
        // The search ends when it is near, and a shortened drive is not quite the whole one.
        assert!(off("random_write_iops").unwrap() < 0.2, "{}", found.text);
        assert!(toml.contains("[fitted] to random writes"), "{toml}");
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let how = How { time: Duration::from_secs(1), writes: None };
        let out = PathBuf::from("/nowhere/at/all.toml");
        let settings = Settings {
            about: "x".into(),
            bytes: MIN_DEVICE_BYTES / 2,
            how,
            file: out,
            force: false,
            seed: 1,
        };
        let mut run = |_: &Load| -> Result<Done> { panic!("nothing is measured") };
        let error = fit(&settings, &mut run, &Control::default()).unwrap_err().to_string();
        assert!(error.contains("64.0 MiB or more"), "{error}");
        let none = serde_json::json!({ "jobs": [{ "read": { "total_ios": 0 } }] });
        let load = Load { rw: "randread", bytes: 4096, depth: 1, time: None };
        assert!(Done::of_results(&none, &load).unwrap_err().to_string().contains("longer"));
    }
}
