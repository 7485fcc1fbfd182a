//! Namespaces as block devices, near and far, and loads on them: on a drive that takes little in one command, with protection information
//! and without.

use crate::common::shape_with;
use blockdev::{BlockDevice, Operation, Status, Verb, conformance};
use host::{Host, Identity, NamespaceDevice, SocketTransport};
use live::{LocalTransport, Options, Running, Shape};
use load_formats::fio::{Job, JobFile, Prompt, Space};
use media::Nanos;
use nvme::Nsid;
use sim::{Contents, Sim, SimDevice};
use std::time::Duration;
use workload::executor::{Executor, Target};
use workload::{Actor, Next, Request};

const NQN: &str = "nqn.2026-11.org.example:host";
/// Plain blocks; protection information of types 1 to 3; and blocks that are smaller than pages.
const NAMESPACES: [Nsid; 5] = [1, 2, 3, 4, 5];

fn shape() -> Shape {
    let mut shape = shape_with("timing = true\nmax_transfer = \"16KiB\"");
    shape.toml = shape.toml.replace("size = \"32MiB\"", "size = \"8MiB\"");
    for (set, size, lba, pi) in [(1, "8MiB", 4096, 1), (2, "1MiB", 512, 2), (1, "4MiB", 512, 3)] {
        let namespace =
            format!("set = {set}\nsize = \"{size}\"\nlba = \"{lba}+8\"\npi = {pi}\nattach = \"all\"\n");
        shape.toml.push_str(&format!("\n[[namespace]]\n{namespace}"));
    }
    shape.toml.push_str("\n[[namespace]]\nset = 2\nsize = \"1MiB\"\nlba = 512\nattach = \"all\"\n");
    shape.config = device::Config::from_toml(&shape.toml).unwrap();
    shape
}

fn sim() -> (Sim, Host<sim::SimTransport>) {
    let sim = Sim::new(shape().config, Contents::Memory).unwrap();
    let host = sim.host(NQN).unwrap();
    (sim, host)
}

fn live() -> Running {
    let options = Options { tcp: vec!["127.0.0.1:0".into()], ..Options::default() };
    live::start(Some(shape()), &options, &mut |_| ()).unwrap()
}

#[test]
fn near_in_virtual_time() {
    for nsid in NAMESPACES {
        let (sim, mut host) = sim();
        let mut device = SimDevice::new(&mut host, nsid).unwrap();
        assert_eq!(u64::from(device.limits().transfer) * u64::from(device.block_size()), 16384);
        conformance::check(&mut device, nsid.into(), 150, |device| {
            let next = device.next_event();
            if next < u64::MAX {
                sim.run_until(Nanos(next));
            }
            sim.now().0
        });
        // And through a typed host's queue.
        let (sim, mut host) = self::sim();
        let (namespace, queue) = (host.namespace(nsid).unwrap(), host.io_queue(4).unwrap().into_raw());
        conformance::check(&mut NamespaceDevice::new(queue, namespace), 7, 60, |_| {
            sim.run_until(sim.now() + Nanos(5_000));
            sim.now().0
        });
    }
}

#[test]
fn in_this_process_and_far_away() {
    let running = live();
    let identity = Identity::new(NQN.parse().unwrap());
    let mut near = Host::connect(LocalTransport::new(running.handle()), &identity).unwrap();
    let address = format!("tcp://{}", running.tcp().unwrap()).parse().unwrap();
    let named = Identity { subnqn: Some(running.handle().subsystem_nqn().parse().unwrap()), ..identity };
    let mut far = Host::connect(SocketTransport::new(address, Duration::from_secs(20)), &named).unwrap();
    let breathe = || {
        std::thread::yield_now();
        0
    };
    for nsid in NAMESPACES {
        let (namespace, queue) = (near.namespace(nsid).unwrap(), near.io_queue(8).unwrap().into_raw());
        conformance::check(&mut NamespaceDevice::new(queue, namespace), 1, 60, |_| breathe());
        let all = Operation { verb: Verb::WriteZeroes { deallocate: true }, lba: 0, blocks: 512 };
        let mut device =
            NamespaceDevice::new(far.io_queue(8).unwrap().into_raw(), far.namespace(nsid).unwrap());
        for part in all.parts(&device.limits()) {
            BlockDevice::submit(&mut device, 0, 1, &part, Vec::new()).unwrap();
            assert_eq!(device.next(None).unwrap().unwrap().status, Status::SUCCESS);
        }
        conformance::check(&mut device, 2, 60, |_| breathe());
    }
}

/// A job that verifies what it has written, in requests that the drive does not take in one command.
fn job(namespace: &host::Namespace) -> Job {
    let text = "[a]\nrw=randwrite\nbs=72k\nsize=720k\niodepth=16\nverify=crc32c\nverify_interval=4096\ndo_verify=1\n";
    let jobs = JobFile::parse(text, &|_| None).unwrap().jobs().unwrap();
    let space = Space::new(namespace.blocks, namespace.block_size);
    Job::of(&jobs.jobs[0], space, 0, 0, 0).unwrap()
}

/// A job that has ended has written all, and found what it wrote.
fn verified(job: &Job) {
    assert_eq!((job.mismatches().0, job.stats().failed), (0, 0));
    assert_eq!(job.stats().traffic.each_ref().map(|traffic| traffic.bytes)[..2], [720 << 10; 2]);
}

#[test]
fn a_load_is_cut_and_verified_in_virtual_time() {
    for nsid in NAMESPACES {
        let (sim, mut host) = sim();
        let namespace = host.namespace(nsid).unwrap();
        let mut actors = sim.actors();
        actors.add(&mut host, nsid, Prompt::new(job(&namespace))).unwrap();
        assert!(actors.run(Nanos::MAX, |step| {
            assert_eq!(step.status, Status::SUCCESS);
            false
        }));
        verified(actors.actor(0).job());
        assert_eq!((actors.outcome(0).requests, actors.outcome(0).failed), (20, 0));
        let counted = host.namespace_statistics(nsid).unwrap();
        assert_eq!(counted.host_bytes_written.get(), 720 << 10);
        // Each of 72 KiB is five commands.
        assert_eq!((counted.host_write_commands.get(), counted.host_read_commands.get()), (50, 50));
    }
}

/// Runs an actor on a device that is told from outside, to its end.
fn drive<A: Actor, D: BlockDevice>(actor: A, device: &mut D) -> A
where
    D::Error: std::fmt::Debug,
{
    let mut executor = Executor::new(actor, &[device.geometry()]).unwrap();
    let start = std::time::Instant::now();
    while !executor.is_over() {
        let now = start.elapsed().as_nanos() as u64;
        executor.ask(now, device).unwrap();
        while let Some(completed) = device.poll(now).unwrap() {
            executor.complete(now, completed, device.moves_data());
        }
    }
    assert_eq!(device.next_event(), u64::MAX);
    executor.into_actor()
}

#[test]
fn a_load_is_cut_and_verified_live() {
    let running = live();
    let identity = Identity::new(NQN.parse().unwrap());
    let mut host = Host::connect(LocalTransport::new(running.handle()), &identity).unwrap();
    for nsid in NAMESPACES {
        let namespace = host.namespace(nsid).unwrap();
        // Fewer places than parts.
        let queue = host.io_queue(3).unwrap().into_raw();
        let ended = drive(Prompt::new(job(&namespace)), &mut NamespaceDevice::new(queue, namespace));
        verified(ended.job());
        let counted = host.namespace_statistics(nsid).unwrap();
        assert_eq!((counted.host_write_commands.get(), counted.host_read_commands.get()), (50, 50));
    }
}

/// Requests one after the other.
struct InTurn(Vec<Request>, bool);

impl Actor for InTurn {
    fn next(&mut self, _: u64) -> Next {
        match self.0.last() {
            None => Next::Done,
            Some(_) if self.1 => Next::Wait,
            Some(request) => {
                self.1 = true;
                Next::Submit(*request)
            }
        }
    }

    fn completed(&mut self, _: u64, _: u32, ok: bool) {
        assert!(ok, "{:?}", self.0.last());
        self.0.pop();
        self.1 = false;
    }
}

/// What no command carries as a whole: a Copy beyond MCL, and zeroes beyond 65,536 blocks.
#[test]
fn copies_and_zeroes_are_cut() {
    for (nsid, contents) in [(1, Contents::None), (1, Contents::Memory), (2, Contents::Memory)] {
        let sim = Sim::new(shape().config, contents).unwrap();
        let mut host = sim.host(NQN).unwrap();
        let namespace = host.namespace(nsid).unwrap();
        assert_eq!(namespace.limits.copy, 256);
        let request = |verb, lba, blocks| Request { tag: 0, verb, namespace: 0, lba, blocks };
        let copy = request(Verb::Copy { from: 1, fua: true }, 1000, 700);
        let zeroes = request(Verb::WriteZeroes { deallocate: false }, 1500, 100);
        let flush = request(Verb::Flush, 0, 0);
        let trim = request(Verb::Trim, 0, 2048);
        let write = request(Verb::Write, 0, 800);
        let mut actors = sim.actors();
        actors.add(&mut host, nsid, InTurn(vec![flush, zeroes, copy, write, trim], false)).unwrap();
        assert!(actors.run(Nanos::MAX, |step| {
            assert_eq!(step.status, Status::SUCCESS, "{:?}", step.request);
            false
        }));
        assert_eq!((actors.outcome(0).requests, actors.outcome(0).failed), (5, 0));
        if contents == Contents::Memory {
            let mut queue = host.io_queue(8).unwrap();
            let read = |lba, queue: &mut host::IoQueue<_>| {
                let mut block = vec![1; 4096];
                queue.read(&namespace, lba, &mut block).unwrap();
                block
            };
            assert!(read(1000, &mut queue) == read(1, &mut queue));
            assert!(read(1499, &mut queue) == read(500, &mut queue));
            assert!(read(1500, &mut queue) == [0; 4096]);
        }
    }
}
