//! The same drive under the virtual clock.

use crate::common::{shape, shape_with};
use load_formats::fio::{Job, JobFile, Space};
use media::Nanos;
use nvme::log::LogId;
use nvme::zerocopy::IntoBytes;
use sim::Precondition;
use sim::precondition::{Origin, preconditioned};
use sim::{ActorTotals, Actors, Checkpoint, CheckpointError, Contents, Sim};
use workload::{Actor, Mix, MixConfig, Next, Order, Request, Verb};

fn config(writes: u32, seed: u64) -> MixConfig {
    MixConfig {
        range: 8192,
        blocks: 1,
        order: Order::Random,
        writes_per_mille: writes,
        depth: 16,
        count: Some(40_000),
        seed,
    }
}

fn run(contents: Contents, seed: u64) -> ActorTotals {
    let shape = shape_with("timing = true");
    let sim = Sim::new(shape.config, contents).unwrap();
    sim.run(1, &mut Mix::new(config(700, seed)), |_| false).unwrap()
}

#[test]
fn equal_seeds_give_equal_runs() {
    let first = run(Contents::None, 1);
    assert_eq!((first.requests, first.failed), (40_000, 0));
    assert_eq!(first, run(Contents::None, 1));
    // Whether contents are kept makes no difference to the drive.
    assert_eq!(first, run(Contents::Memory, 1));
    assert_ne!(first.digest, run(Contents::None, 2).digest);
}

#[test]
fn without_timing_nothing_takes_time() {
    let sim = Sim::new(shape().config, Contents::None).unwrap();
    let outcome = sim.run(1, &mut Mix::new(config(1000, 3)), |_| false).unwrap();
    assert_eq!((outcome.requests, outcome.failed), (40_000, 0));
    assert_eq!(outcome.elapsed, 0);
}

#[test]
fn an_actor_without_a_namespace_is_told() {
    let sim = Sim::new(shape().config, Contents::None).unwrap();
    assert!(sim.run(2, &mut Mix::new(config(0, 1)), |_| false).is_err());
}

#[test]
fn a_run_can_be_ended_early() {
    let sim = Sim::new(shape_with("timing = true").config, Contents::None).unwrap();
    let outcome = sim.run(1, &mut Mix::new(config(500, 3)), |s| s.outcome.requests >= 100).unwrap();
    assert!((100..120).contains(&outcome.requests), "{}", outcome.requests);
}

fn open_loop(iops: u64, seed: u64) -> Job {
    let text = format!(
        "[a]\nrw=randread\nbs=4k\niodepth=64\nrate_iops={iops}\nruntime=1\ntime_based\nrandseed={seed}\n"
    );
    let jobs = JobFile::parse(&text, &|_| None).unwrap().jobs().unwrap();
    Job::of(&jobs.jobs[0], Space::new(8192, 4096), 0, 0, 0).unwrap()
}

/// A drive whose flash takes time.
fn with_chips() -> Sim {
    let toml = shape_with("timing = true\nwrite_buffer = \"256KiB\"").toml.replace(
        "rated_cycles = 3000",
        r#"rated_cycles = 3000
timing = { read = "60us", program = "700us", erase = "4ms", channel = "800MB/s" }"#,
    );
    Sim::new(device::Config::from_toml(&toml).unwrap(), Contents::None).unwrap()
}

/// Two hosts on one drive: a slow one with a fixed rate, and one that writes as fast as it can.
fn neighbours(writer: bool) -> (ActorTotals, u64, ActorTotals) {
    let sim = with_chips();
    sim.run(1, &mut Mix::new(MixConfig { writes_per_mille: 1000, ..config(0, 1) }), |_| false).unwrap();
    let mut first = sim.host("nqn.2026-11.org.example:first").unwrap();
    let mut second = sim.host("nqn.2026-11.org.example:second").unwrap();
    let mut actors: Actors<Box<dyn Actor>> = sim.actors();
    actors.add(&mut first, 1, Box::new(open_loop(1000, 1))).unwrap();
    let count = Some(if writer { 100_000 } else { 1 });
    actors.add(&mut second, 1, Box::new(Mix::new(MixConfig { count, ..config(1000, 9) }))).unwrap();
    let until = sim.now() + Nanos(500_000_000);
    assert!(!actors.run(until, |_| false), "the first runs for a second");
    assert_eq!(sim.now(), until);
    let half = actors.outcome(0).requests;
    // A host may ask in the middle of it.
    assert_eq!(first.identify_namespace(1).unwrap().nsze.get(), 8192);
    assert!(actors.run(Nanos::MAX, |_| false));
    (actors.outcome(0), half, actors.outcome(1))
}

#[test]
fn actors_share_a_drive_and_its_time() {
    let (alone, half, _) = neighbours(false);
    assert!((1000..=1001).contains(&alone.requests) && alone.failed == 0, "{alone:?}");
    assert!((499..=501).contains(&half), "{half}");
    let (disturbed, _, other) = neighbours(true);
    assert_eq!((disturbed.requests, other.failed), (alone.requests, 0));
    assert!(disturbed.latency_sum > alone.latency_sum, "{disturbed:?} {alone:?}");
    assert_eq!((disturbed, other), {
        let again = neighbours(true);
        (again.0, again.2)
    });
}

#[test]
fn large_requests_are_cut_and_contents_are_kept() {
    let sim =
        Sim::new(shape_with("timing = true\nmax_transfer = \"16KiB\"").config, Contents::Memory).unwrap();
    let outcome =
        sim.run(1, &mut Mix::new(MixConfig { blocks: 10, count: Some(50), ..config(1000, 1) }), |_| false);
    assert_eq!(outcome.map(|o| (o.requests, o.bytes, o.failed)).unwrap(), (50, 50 * 40960, 0));
    // What a typed host writes, it reads; its data is not that of the actor's.
    let mut host = sim.host("nqn.2026-11.org.example:host").unwrap();
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(8).unwrap();
    queue.write(&namespace, 7, &[0x5A; 8192], false).unwrap();
    let mut read = [0; 8192];
    queue.read(&namespace, 7, &mut read).unwrap();
    assert_eq!(read, [0x5A; 8192]);
    host.shutdown().unwrap();
}

/// So many reads of eight blocks at once.
struct Burst(u32);

impl Actor for Burst {
    fn next(&mut self, _: u64) -> Next {
        let Some(left) = self.0.checked_sub(1) else { return Next::Done };
        self.0 = left;
        let lba = u64::from(left % 1000) * 8;
        Next::Submit(Request { verb: Verb::Read, namespace: 0, lba, blocks: 8, tag: left })
    }

    fn completed(&mut self, _: u64, _: u32, _: bool) {}
}

#[test]
fn more_commands_than_a_drive_can_have_wait_outside() {
    let sim = Sim::new(shape_with("timing = true\nmax_transfer = \"16KiB\"").config, Contents::None).unwrap();
    let mut hosts: Vec<_> =
        ["a", "b"].map(|name| sim.host(&format!("nqn.2026-11.org.example:{name}")).unwrap()).into();
    let mut actors: Actors<Burst> = sim.actors();
    // Two commands each.
    for (host, count) in hosts.iter_mut().zip([40_000, 2_000]) {
        actors.add(host, 1, Burst(count)).unwrap();
    }
    assert!(actors.run(Nanos::MAX, |_| false));
    let ended = [0, 1].map(|number| actors.outcome(number)).map(|outcome| (outcome.requests, outcome.failed));
    assert_eq!(ended, [(40_000, 0), (2_000, 0)]);
    // The time outside counts: the last one of all has waited for all the others.
    assert_eq!(actors.outcome(0).latency_max, actors.outcome(0).elapsed);
}

/// Writes so many whole namespaces in turn, one request at a time.
struct Both(Vec<Request>, bool);

impl Actor for Both {
    fn next(&mut self, _: u64) -> Next {
        match self.0.last() {
            _ if self.1 => Next::Wait,
            None => Next::Done,
            Some(&request) => {
                self.1 = true;
                Next::Submit(request)
            }
        }
    }

    fn completed(&mut self, _: u64, _: u32, ok: bool) {
        assert!(ok);
        self.0.pop();
        self.1 = false;
    }
}

#[test]
fn an_actor_may_have_several_namespaces() {
    let toml = shape_with("timing = true\nmax_transfer = \"128KiB\"").toml
        + "\n[[namespace]]\nset = 2\nsize = \"1MiB\"\nlba = 512\nattach = \"all\"\n";
    for contents in [Contents::None, Contents::Memory] {
        let sim = Sim::new(device::Config::from_toml(&toml).unwrap(), contents).unwrap();
        let mut host = sim.host("nqn.2026-11.org.example:host").unwrap();
        let mut actors = sim.actors();
        let write = |namespace, lba, blocks| Request { tag: 0, verb: Verb::Write, namespace, lba, blocks };
        let flush = |namespace| Request { verb: Verb::Flush, ..write(namespace, 0, 0) };
        // The last blocks of each, which the other does not have or has elsewhere.
        let requests = vec![flush(1), write(1, 0, 2048), flush(0), write(0, 8128, 64), write(1, 2040, 8)];
        let at = actors.add_over(&mut host, &[1, 2], Both(requests, false)).unwrap();
        assert!(actors.run(Nanos::MAX, |step| {
            assert!(step.status.is_success(), "{step:?}");
            false
        }));
        let written = [1, 2].map(|nsid| host.namespace_statistics(nsid).unwrap().host_bytes_written.get());
        assert_eq!(written, [64 * 4096, 2056 * 512]);
        assert_eq!(actors.outcome(at).bytes, 64 * 4096 + 2056 * 512);
        assert!(actors.add_over(&mut host, &[1, 3], Both(Vec::new(), false)).is_err(), "there is no third");
    }
}

#[test]
fn whoever_waits_lets_the_clock_run() {
    let sim = Sim::new(shape_with("timing = true").config, Contents::None).unwrap();
    let mut host = sim.host("nqn.2026-11.org.example:host").unwrap();
    assert!(host.next_event(std::time::Duration::from_secs(3)).unwrap().is_none(), "nothing happened");
    // Typed hosts reckon with the wall's clock, of which a little has passed.
    assert!(sim.now() >= Nanos(1_000_000_000), "it was waited for");
}

#[test]
fn a_drive_goes_live() {
    let sim = Sim::new(shape_with("timing = true").config, Contents::Later).unwrap();
    let mut host = sim.host("nqn.2026-11.org.example:host").unwrap();
    for round in 0..200 {
        // Queues that are dropped are given back.
        let (namespace, mut queue) = (host.namespace(1).unwrap(), host.io_queue(8).unwrap());
        queue.write(&namespace, round, &[0x5A; 4096], false).unwrap();
    }
    let refused = sim.go_live(1).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("still connected"), "{refused}");
    drop(host);

    let sim = Sim::new(shape_with("timing = true").config, Contents::Later).unwrap();
    sim.run(1, &mut Mix::new(config(1000, 1)), |_| false).unwrap();
    let programmed = sim.drive().ftl().set_stats(ftl::SetId(0)).media_written_bytes;
    assert!(programmed > 0);
    let running = sim.go_live(1).unwrap();
    let identity = host::Identity::new("nqn.2026-11.org.example:host".parse().unwrap());
    let mut host = host::Host::connect(live::LocalTransport::new(running.handle()), &identity).unwrap();
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(8).unwrap();
    queue.write(&namespace, 3, &[7; 4096], false).unwrap();
    let mut read = [1; 8192];
    queue.read(&namespace, 3, &mut read).unwrap();
    assert_eq!((read[..4096] == [7; 4096], read[4096..] == [0; 4096]), (true, true));
    let written = host.namespace_statistics(1).unwrap().media_bytes_written();
    assert!(written >= programmed, "{written} after {programmed}");
}

/// A small drive under load after each way to come by its preconditioned state.
fn later(checkpoint: Checkpoint) -> (ActorTotals, Vec<u8>) {
    let sim = checkpoint.start().unwrap();
    let outcome = sim.run(1, &mut Mix::new(config(700, 9)), |_| false).unwrap();
    let smart =
        sim.host("nqn.2026-11.org.example:log").unwrap().log(LogId::SMART, nvme::NSID_ALL, 0, 512).unwrap();
    (outcome, smart)
}

#[test]
fn a_preconditioned_drive_is_the_same_made_copied_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let shape = |seed: u32| shape_with(&format!("timing = true\nserial = \"S{seed}\"")).config;
    let make = |how, cache| preconditioned(shape(1), Contents::None, how, 5, cache, &mut |_| true).unwrap();
    for how in [Precondition::Fill, Precondition::Steady] {
        let (uncached, origin) = make(how, None);
        assert_eq!(origin, Origin::Made(None));
        let (made, origin) = make(how, Some(dir.path()));
        let Origin::Made(Some(path)) = origin else { panic!("{origin:?}") };
        let (kept, origin) = make(how, Some(dir.path()));
        assert_eq!(origin, Origin::Kept(path.clone()));
        let all = [uncached.clone(), uncached, made, kept].map(later);
        assert_eq!((all[0].0.requests, all[0].0.failed), (40_000, 0));
        assert!(all.windows(2).all(|w| w[0] == w[1]), "{how:?}: {:?}", all.map(|a| a.0));

        // Damaged, it is made again.
        let good = std::fs::read(&path).unwrap();
        for (at, what) in
            [(3, "TRANCHCP"), (8, "version"), (30, "another drive"), (good.len() / 2, "checksum")]
        {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            let past = format!("{how:?} 5");
            let open = |bytes: &[u8]| Checkpoint::open(shape(1), Contents::None, &past, &mut &bytes[..]);
            let error = open(&bytes).err().unwrap().to_string();
            assert!(error.contains(what), "{error}");
            assert!(open(&good[..at]).err().unwrap().to_string().contains("too early"));
            assert!(Checkpoint::open(shape(2), Contents::None, &past, &mut &good[..]).is_err());
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(make(how, Some(dir.path())).1, Origin::Made(Some(path.clone())));
            assert_eq!(std::fs::read(&path).unwrap(), good);
        }
    }
    // Nothing but whole files.
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_preconditioned_drive_amplifies_writes_as_a_used_one() {
    let mut drive = shape_with("timing = false").config;
    let ftl::SetConfig::Nand { nand, capacity_pages, .. } = &mut drive.ftl.sets[0] else { panic!("NAND") };
    // 1,024 superblocks of 960 pages, 28 % spare.
    (nand.geometry.superblocks, nand.geometry.units_per_block) = (1024, 480 / nand.geometry.unit_pages);
    *capacity_pages = (nand.geometry.pages() * 100 / 128) as u32 / ftl::GRANULE_PAGES * ftl::GRANULE_PAGES;
    let pages = u64::from(*capacity_pages);
    drive.namespaces[0].bytes = pages * 4096;
    // Also for who happens to have the seed of the preconditioning.
    for seed in [1, 2] {
        let made =
            preconditioned(drive.clone(), Contents::None, Precondition::Steady, 1, None, &mut |_| true);
        let sim = made.unwrap().0.start().unwrap();
        let programmed = |sim: &Sim| sim.drive().ftl().set_stats(ftl::SetId(0)).media_written_bytes;
        let before = programmed(&sim);
        let load =
            MixConfig { range: pages, writes_per_mille: 1000, count: Some(pages / 8), ..config(1000, seed) };
        let outcome = sim.run(1, &mut Mix::new(load), |_| false).unwrap();
        let amplification = (programmed(&sim) - before) as f64 / outcome.bytes as f64;
        // Theory says 2.51, a superblock more or less in 100 is 1 %.
        assert!((2.4..2.65).contains(&amplification), "seed {seed}: {amplification:.3}");
    }
}

#[test]
fn a_drive_in_use_or_with_contents_is_no_checkpoint() {
    let sim = Sim::new(shape().config, Contents::None).unwrap();
    let host = sim.host("nqn.2026-11.org.example:first").unwrap();
    assert!(matches!(Checkpoint::of(sim), Err(CheckpointError::InUse)));
    drop(host);
    let sim = Sim::new(shape().config, Contents::Memory).unwrap();
    assert!(matches!(Checkpoint::of(sim), Err(CheckpointError::Contents)));
}

#[test]
fn preconditioning_ends_when_asked() {
    let mut told = Vec::new();
    let mut tell = |done| {
        told.push(done);
        done < 300
    };
    let ended = preconditioned(shape().config, Contents::None, Precondition::Steady, 1, None, &mut tell);
    assert!(matches!(ended, Err(CheckpointError::Interrupted)));
    let at_once = preconditioned(shape().config, Contents::None, Precondition::Fill, 1, None, &mut |_| false);
    assert!(matches!(at_once, Err(CheckpointError::Interrupted)));
    assert!(told.is_sorted() && told.last().is_some_and(|last| (300..=1000).contains(last)), "{told:?}");
}

/// A run, and what a host that only looks found between its parts.
fn watched(looks: u64) -> (ActorTotals, Nanos, Vec<u64>) {
    let sim = with_chips();
    let mut host = sim.host("nqn.2026-11.org.example:load").unwrap();
    let mut actors = sim.actors();
    actors.add(&mut host, 1, Mix::new(config(700, 3))).unwrap();
    let mut found = Vec::new();
    let mut inspector = (looks > 0).then(|| sim.inspect(host.cntlid()).unwrap());
    loop {
        let part = 1_000_000_000_u64.checked_div(looks).map_or(Nanos::MAX, |part| sim.now() + Nanos(part));
        let ended = actors.run_part(part, |_| false);
        if let Some(inspector) = &mut inspector {
            let statistics = inspector.namespace_statistics(1).unwrap();
            found.push(statistics.host_write_commands.get());
            inspector.smart().unwrap();
            inspector.set_map(1).unwrap();
            inspector.quota(1, nvme::feature::Select::CURRENT).unwrap();
            inspector.nvm_sets().unwrap();
        }
        if ended {
            return (actors.outcome(0), sim.now(), found);
        }
    }
}

#[test]
fn a_run_that_is_looked_at_is_the_run_that_it_is() {
    let (alone, end, _) = watched(0);
    for looks in [10, 997] {
        let (outcome, ended, found) = watched(looks);
        assert_eq!((outcome, ended), (alone, end), "{looks} looks in a second");
        assert!(found.len() > 3 && found.is_sorted() && found.first() < found.last(), "{found:?}");
    }
}

#[test]
fn who_only_looks_sees_what_hosts_are_told_and_changes_nothing() {
    let sim = Sim::new(shape_with("timing = true").config, Contents::None).unwrap();
    let mut host = sim.host("nqn.2026-11.org.example:host").unwrap();
    let mut inspector = sim.inspect(host.cntlid()).unwrap();
    assert_eq!(inspector.cntlid(), host.cntlid());
    let now = sim.now();
    let seen = inspector.identify_namespace(1).unwrap();
    assert_eq!(sim.now(), now, "it takes no time");
    assert_eq!(seen.as_bytes(), host.identify_namespace(1).unwrap().as_bytes());
    assert_eq!(
        inspector.identify_controller().unwrap().as_bytes(),
        host.identify_controller().unwrap().as_bytes()
    );
    let refused = |error: host::Error| error.status().unwrap();
    let create = host::namespace_create(8, 0, 1);
    assert!(refused(inspector.create_namespace(&create).unwrap_err()).is(nvme::Status::INVALID_OPCODE));
    assert!(refused(inspector.delete_namespace(1).unwrap_err()).is(nvme::Status::INVALID_OPCODE));
    assert!(inspector.set_map(9).is_err(), "what the drive lacks it lacks here, too");
    assert!(inspector.io_queue(4).is_err());
    assert!(sim.inspect(99).is_err(), "there is no such controller");
    // The controller is the host's, and stays.
    drop(inspector);
    host.identify_namespace(1).unwrap();
}
