//! `tranche demo`: a small drive in memory under a load, with the live view of it.

use crate::args::Demo;
use crate::live_view::LiveView;
use crate::options::Output;
use crate::{print_json_line, print_text, progress};
use anyhow::{Context, Result, anyhow};
use device::Config;
use host::{Addr, Endpoint, Host, Identity};
use lab_engines::bench;
use lab_report::control::Control;
use lab_report::terminal::{self, Look};
use live::{Handle, LocalTransport, NamespaceSnapshot, Options, Shape};
use nvme::{Nqn, Nsid};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};

const DRIVE: &str = include_str!("drive.toml");
/// Host NQN of the load.
const NQN: &str = "nqn.2026-11.io.tranche:demo";

/// What is done with a namespace of the drive.
struct Load {
    nsid: Nsid,
    about: &'static str,
    /// Options of fio.
    job: &'static str,
}

const LOADS: [Load; 4] = [
    Load {
        nsid: 1,
        about: "a database: reads and writes of pages",
        job: "rw=randrw\nrwmixread=70\nbs=16k\niodepth=8\nrate=220m,95m\n",
    },
    Load {
        nsid: 2,
        about: "its doublewrite buffer, in DRAM",
        job: "rw=write\nbs=128k\niodepth=1\nrate=,30m\n",
    },
    Load {
        nsid: 3,
        about: "a tenant that writes as much as its quota lets it",
        job: "rw=randwrite\nbs=4k\niodepth=32\n",
    },
    Load { nsid: 4, about: "a log, in zones", job: "rw=write\nbs=64k\niodepth=1\nzonemode=zbd\nrate=,20m\n" },
];

/// The first line: where the drive is. The second is what was done.
#[derive(Serialize, JsonSchema)]
pub struct ServedDemo<'a> {
    /// Where NVMe/TCP hosts find the drive.
    tcp: &'a str,
    /// Address of the live view.
    ui: &'a str,
}

/// What was done, in the last line.
#[derive(Serialize, JsonSchema)]
pub struct Done {
    /// How long the load ran.
    #[schemars(extend("unit" = "s"))]
    seconds: f64,
    /// The namespaces.
    namespaces: Vec<DoneInNamespace>,
}

/// A namespace.
#[derive(Serialize, JsonSchema)]
struct DoneInNamespace {
    /// Namespace identifier.
    nsid: Nsid,
    /// What its load stands for.
    #[schemars(extend("null" = "it was made meanwhile"))]
    about: Option<&'static str>,
    /// Read by hosts.
    #[schemars(extend("unit" = "bytes"))]
    read_bytes: u64,
    /// Written by hosts.
    #[schemars(extend("unit" = "bytes"))]
    written_bytes: u64,
    /// Bytes programmed for each byte that hosts wrote.
    #[schemars(extend("null" = "they wrote none"))]
    write_amplification: Option<f64>,
}

/// Runs it.
pub fn demo(options: &Demo, output: Output) -> Result<()> {
    let control = progress::control()?;
    let address = format!("127.0.0.1:{}", options.port);
    let view = LiveView::listen(&address, None, None)
        .context("choose another port with --port, or any that is free with --port 0")?;
    let shape = Shape { config: Config::from_toml(DRIVE)?, toml: DRIVE.to_owned() };
    let run_options = Options { tcp: vec!["127.0.0.1:0".into()], ..Options::default() };
    let running = live::start(Some(shape), &run_options, &mut |_| ())?;
    let at = running.tcp().map(|at| {
        let endpoint = Endpoint::Tcp { host: at.ip().to_string(), port: at.port() };
        Addr { endpoint, subnqn: None }.to_string()
    });
    let at = at.unwrap_or_default();
    let ui = match view.start(running.handle(), at.clone()) {
        Ok(ui) => ui,
        Err(error) => {
            running.stop();
            return Err(error);
        }
    };
    let told = say_where(output, &ui.url(), &at, options.time);
    let begun = Instant::now();
    if told.is_ok() {
        put_under_load(&running.handle(), Duration::from_secs(options.time), &control);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let snapshot = running.handle().snapshot();
    drop(ui);
    running.stop();
    told?;
    let done = Done { seconds, namespaces: snapshot?.drive.namespaces.iter().map(of_namespace).collect() };
    match output {
        Output::Json => print_json_line(&done),
        Output::Text => print_text(text(&done).trim_end()),
    }
}

fn say_where(output: Output, url: &str, at: &str, seconds: u64) -> Result<()> {
    if output == Output::Json {
        return print_json_line(&ServedDemo { tcp: at, ui: url });
    }
    print_text(&format!(
        "A drive in memory is under load for {seconds} seconds. Ctrl-C ends it.\n\n    \
         open          {url}\n    \
         or watch      tranche top --on {at}\n    \
         change it     tranche quota set 3 --write 200MiB/s --on {at}\n"
    ))
}

fn of_namespace(namespace: &NamespaceSnapshot) -> DoneInNamespace {
    let media = namespace.media;
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let ratio = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
    DoneInNamespace {
        nsid: namespace.nsid,
        about: LOADS.iter().find(|load| load.nsid == namespace.nsid).map(|load| load.about),
        read_bytes: namespace.read_bytes,
        written_bytes: namespace.written_bytes,
        write_amplification: ratio(media.media_host_bytes + media.media_gc_bytes, media.host_written_bytes),
    }
}

fn text(done: &Done) -> String {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let rows: Vec<Vec<String>> = done
        .namespaces
        .iter()
        .map(|of| {
            vec![
                of.nsid.to_string(),
                of.about.unwrap_or("made meanwhile").to_owned(),
                mib(of.read_bytes),
                mib(of.written_bytes),
                of.write_amplification.map_or("-".into(), |factor| format!("{factor:.2}")),
            ]
        })
        .collect();
    let heads = ["namespace", "what it was", "read", "written", "write amplification"].map(String::from);
    let look = Look { text: 2, ..Look::default() };
    format!("{:.0} seconds of load\n{}", done.seconds, terminal::table(look, &heads, &rows))
}

/// Keeps the drive busy. A power cut, or a namespace that goes, ends a load; another one begins.
fn put_under_load(drive: &Handle, time: Duration, control: &Control) {
    let end = Instant::now() + time;
    let mut said = String::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if control.is_cancelled() || left < Duration::from_millis(100) {
            return;
        }
        if let Err(error) = load(drive, left, control) {
            let words = format!("{error:#}");
            if words != said && !control.is_cancelled() {
                tracing::warn!("the load ends, and begins again: {words}");
            }
            said = words;
            std::thread::sleep(Duration::from_millis(300));
        }
    }
}

/// Puts a load on the namespaces that are there.
fn load(drive: &Handle, time: Duration, control: &Control) -> Result<()> {
    let name = Nqn::new(NQN).map_err(|error| anyhow!("{NQN}: {error}"))?;
    let mut host = Host::connect(LocalTransport::new(drive.clone()), &Identity::new(name))?;
    let there = host.active_namespaces()?;
    let mut jobs = format!("[global]\ntime_based\nnorandommap\nruntime={}ms\n", time.as_millis());
    for Load { nsid, job, .. } in LOADS.iter().filter(|load| there.contains(&load.nsid)) {
        jobs += &format!("[namespace-{nsid}]\nfilename=/dev/nvme0n{nsid}\n{job}");
    }
    let outcome = bench::run("demo", &jobs, &mut host, bench::Settings::default(), control)?;
    // What a load has done counts, and not how it ends.
    let _ = host.shutdown();
    outcome.failure.map_or(Ok(()), |failure| Err(anyhow!(failure)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_namespace_of_the_drive_has_a_load() {
        let config = Config::from_toml(DRIVE).unwrap();
        let nsids: Vec<Nsid> = LOADS.iter().map(|load| load.nsid).collect();
        assert_eq!(nsids, (1..).take(config.namespaces.len()).collect::<Vec<Nsid>>());
        assert!(config.timing, "the drive is as fast as such a drive, and not as this machine");
    }
}
