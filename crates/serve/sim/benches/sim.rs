//! What a command costs in virtual time, with a fio job as load and the whole drive below it, on `profiles/bench-16g.toml`: what `tranche sim`
//! does, without the program around it.
//!
//! `cargo bench -p sim --bench sim -- [randwrite|randread] [SPARE%] [GIB] [ROUNDS]`
//!
//! Prints requests per second of CPU time, and the digest of the run.

use load_formats::fio::{Job, JobFile, Prompt, Space};
use sim::Precondition;
use sim::precondition::preconditioned;
use sim::{Contents, Sim};

/// CPU time of this thread in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// The drive with another spare, and one namespace of all of it.
fn drive(spare: &str) -> device::Config {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../profiles/bench-16g.toml");
    let text = std::fs::read_to_string(path).expect("the profile can be read");
    let text = text.replace("spare = \"28%\"", &format!("spare = \"{spare}\""));
    let mut config = device::Config::from_toml(&text.replace("12800MiB", "1MiB")).expect("a drive");
    config.timing = true;
    config.namespaces[0].bytes = u64::from(config.ftl.sets[0].capacity_pages()) * u64::from(ftl::PAGE);
    config
}

fn run(sim: &Sim, does: &str, gib: u64, seed: u32) -> (f64, u64) {
    let text =
        format!("[bench]\nrw={does}\nbs=4k\niodepth=64\nnorandommap\nrandseed={seed}\nio_size={gib}g\n");
    let jobs = JobFile::parse(&text, &|_| None).and_then(|file| file.jobs()).expect("a job file");
    let namespace = sim
        .host("nqn.2026-11.io.tranche:bench")
        .and_then(|mut host| host.namespace(1))
        .expect("namespace 1 is attached");
    let space = Space::new(namespace.blocks, namespace.block_size);
    let job = Job::of(&jobs.jobs[0], space, 0, 0, 0).expect("a job that fits");
    let begin = cpu_seconds();
    let outcome = sim.run(1, &mut Prompt::new(job), |_| false).expect("namespace 1 is attached");
    (outcome.requests as f64 / (cpu_seconds() - begin) / 1e6, outcome.digest)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let does = args.first().map_or("randwrite", String::as_str);
    let spare = args.get(1).map_or("28%", String::as_str);
    let gib = args.get(2).and_then(|n| n.parse().ok()).unwrap_or(8);
    let rounds = args.get(3).and_then(|n| n.parse().ok()).unwrap_or(3);
    let made = preconditioned(drive(spare), Contents::None, Precondition::Steady, 1, None, &mut |_| true);
    let sim = made.and_then(|(drive, _)| drive.start()).expect("a drive that can be preconditioned");
    for round in 1..=rounds {
        let (rate, digest) = run(&sim, does, gib, round);
        println!("{does}, {spare} spare: {rate:.3} M per CPU-second, digest {digest:016x}");
    }
}
