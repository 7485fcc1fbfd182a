//! What a live host did is recorded, and replayed in virtual time.

use crate::common::{shape, shape_with};
use host::{Data, Host, Identity, Queue, SocketTransport};
use live::{Options, Shape};
use load_formats::trace::{self, Event, Fold, Pace, Reader, Replay, Space, Speed};
use media::Nanos;
use nvme::io::DsmRange;
use nvme::log::NamespaceStatistics;
use nvme::zerocopy::IntoBytes;
use nvme::{Command, Status};
use sim::{Contents, Sim};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use workload::{Rng, Verb};

const NQN: &str = "nqn.2026-11.org.example:recorded";

/// A live drive with a host on a Unix socket: there completions arrive in the order in which the drive gave them. In this
/// process the host's thread and the drive's both deliver, and may overtake each other. What the drive counted of namespace 1.
fn live(shape: Shape, record: &Path, work: impl FnOnce(&mut Host<SocketTransport>)) -> NamespaceStatistics {
    let dir = tempfile::tempdir().unwrap();
    let unix = dir.path().join("socket");
    let addr = format!("unix://{}", unix.display()).parse().unwrap();
    let options = Options { record: Some(record.to_owned()), unix: Some(unix), ..Options::default() };
    let running = live::start(Some(shape), &options, &mut |_| ()).unwrap();
    let mut identity = Identity::new(NQN.parse().unwrap());
    identity.subnqn = Some(running.handle().subsystem_nqn().parse().unwrap());
    let mut host = Host::connect(SocketTransport::new(addr, Duration::from_secs(60)), &identity).unwrap();
    work(&mut host);
    let counts = host.namespace_statistics(1).unwrap();
    host.shutdown().unwrap();
    running.stop();
    counts
}

/// What a drive counted of the latencies of its commands, by its own clock.
fn latencies(counts: &NamespaceStatistics) -> Vec<u8> {
    let NamespaceStatistics { read_latency, write_latency, read_latency_sum, write_latency_sum, .. } = counts;
    let stalls = [counts.stalled_write_commands, counts.stalled_write_ns, counts.host_other_commands];
    [
        read_latency.as_bytes(),
        write_latency.as_bytes(),
        read_latency_sum.as_bytes(),
        write_latency_sum.as_bytes(),
    ]
    .concat()
    .into_iter()
    .chain(stalls.as_bytes().iter().copied())
    .collect()
}

fn events(path: &Path) -> Vec<Event> {
    let text = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&text[..], None).unwrap();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    assert_eq!((reader.cut(), reader.reordered()), (None, 0));
    events
}

/// A drive whose reads, programs, erases and collections take their times; small enough for its buffer to be full and its
/// blocks to be collected.
fn timed() -> Shape {
    let toml = shape_with("timing = true\nwrite_buffer = \"256KiB\"").toml.replace(
        "rated_cycles = 3000",
        r#"rated_cycles = 3000
timing = { read = "60us", program = "700us", erase = "4ms", channel = "800MB/s" }"#,
    );
    Shape { config: device::Config::from_toml(&toml).unwrap(), toml }
}

/// A Copy within namespace 1, and its data.
fn copy(lba: u64, from: u64, blocks: u32, fua: bool) -> (Command, Vec<u8>) {
    let copy = blockdev::Operation { verb: Verb::Copy { from, fua }, lba, blocks };
    let (command, payload) = blockdev::Namespace::plain(1, 0, 4096).encode(&copy);
    let blockdev::Payload::Ranges(ranges) = payload else { panic!("a Copy has source ranges") };
    let mut data = Vec::new();
    ranges.write(&mut data);
    (command, data)
}

/// The first block of each request, in the order of completions.
type Order = Vec<u64>;

/// Each block once, in random order, read or written, at a depth; returns what was asked for, and the order of completions.
fn random_load(host: &mut Host<SocketTransport>, seed: u64, rounds: u64) -> (Vec<(Verb, u64)>, Order) {
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(16).unwrap().into_raw();
    let mut rng = Rng::new(seed);
    let (mut asked, mut order) = (Vec::new(), Vec::new());
    let mut outstanding = Vec::new();
    let mut tried = BTreeSet::new();
    while asked.len() < rounds as usize || queue.outstanding() > 0 {
        while asked.len() < rounds as usize && queue.outstanding() < 16 {
            let lba = rng.below(namespace.blocks);
            if !tried.insert(lba) {
                continue;
            }
            let durable = nvme::io::Blocks { fua: true, ..nvme::io::Blocks::new(1, lba, 1) };
            let (verb, command, data) = match rng.below(23) {
                20.. => {
                    let (from, fua) = (rng.below(namespace.blocks - 1), rng.below(3) == 0);
                    let from = from + u64::from(from >= lba);
                    let (command, source) = copy(lba, from, 1, fua);
                    (Verb::Copy { from: from * 4096, fua }, command, Data::Out(source))
                }
                0 => (Verb::WriteFua, nvme::IoCommand::Write(durable).into(), Data::Out(vec![2; 4096])),
                1 => (Verb::ReadFua, nvme::IoCommand::Read(durable).into(), Data::In(vec![0; 4096])),
                2..14 => (Verb::Write, Command::write(1, lba, 1), Data::Out(vec![1; 4096])),
                _ => (Verb::Read, Command::read(1, lba, 1), Data::In(vec![0; 4096])),
            };
            asked.push((verb, lba));
            outstanding.push((queue.submit(command, data).unwrap(), lba));
        }
        let done = queue.next(None).unwrap().unwrap();
        assert_eq!(done.completion.status(), Status::SUCCESS);
        let at = outstanding.iter().position(|(tag, _)| *tag == done.tag).unwrap();
        order.push(outstanding.swap_remove(at).1);
    }
    (asked, order)
}

#[test]
fn a_recording_replayed_completes_in_the_same_order_after_the_same_times() {
    let dir = tempfile::tempdir().unwrap();
    for seed in [1, 2, 3] {
        let path = dir.path().join(format!("recording-{seed}"));
        let mut load = None;
        let counts = live(timed(), &path, |host| load = Some(random_load(host, seed, 4000)));
        let (asked, order) = load.unwrap();
        // A write may wait for its data, and a read overtake it.
        let found: BTreeSet<_> =
            events(&path).iter().map(|event| (format!("{:?}", event.verb), event.offset / 4096)).collect();
        assert_eq!(
            found,
            asked.iter().map(|(verb, lba)| (format!("{verb:?}"), *lba)).collect(),
            "seed {seed}"
        );

        // The live drive keeps contents, and so its blocks wait for them to be durable; this one, too.
        let sim = Sim::new(timed().config, Contents::Memory).unwrap();
        let text = std::fs::read(&path).unwrap();
        let options = trace::Options {
            pace: Pace::Recorded(Speed::ONE),
            fold: Fold::Wrap,
            devices: Vec::new(),
            powered: Some(0),
        };
        let reader = Reader::new(&text[..], None).unwrap();
        let mut replay =
            Replay::new(reader, options, &[Space { nsid: 1, blocks: 8192, block_bytes: 4096 }]).unwrap();
        let mut again = Order::new();
        let outcome = sim.run(1, &mut replay, |step| {
            again.push(step.request.lba);
            false
        });
        assert_eq!(outcome.map(|o| (o.requests, o.failed)).unwrap(), (4000, 0));
        assert_eq!(replay.late(), Nanos::ZERO.0);
        let differs = order.iter().zip(&again).position(|(a, b)| a != b);
        let near = |order: &Order| -> Vec<_> {
            let from = differs.unwrap_or(0);
            let what = |lba: &u64| asked.iter().find(|(_, l)| l == lba).map(|(verb, _)| *verb);
            order.iter().skip(from).take(6).map(|lba| (*lba, what(lba))).collect()
        };
        assert_eq!(
            differs,
            None,
            "seed {seed}: the completions differ from there on: live {:?}, replayed {:?}",
            near(&order),
            near(&again)
        );
        let repeated = sim.host(NQN).unwrap().namespace_statistics(1).unwrap();
        assert!(counts.stalled_write_commands.get() > 10, "seed {seed}: no write waited for the buffer");
        assert!(
            latencies(&counts) == latencies(&repeated),
            "seed {seed}: latencies differ by the drive's clock"
        );
    }
}

#[test]
fn every_kind_of_command_is_recorded_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recording");
    live(shape(), &path, |host| {
        let mut queue = host.io_queue(4).unwrap().into_raw();
        let mut execute = |command: Command, data: Data| {
            queue.submit(command, data).unwrap();
            queue.next(None).unwrap().unwrap().completion.status()
        };
        let page = || Data::Out(vec![7; 4096]);
        assert!(execute(Command::write(1, 5, 1), page()).is_success());
        assert!(execute(Command::read(1, 4, 2), Data::In(vec![0; 8192])).is_success());
        assert!(execute(Command::flush(1), Data::None).is_success());
        assert!(execute(Command::write_zeroes(1, 8, 4, false), Data::None).is_success());
        let ranges = [DsmRange::new(16, 2), DsmRange::new(32, 0), DsmRange::new(64, 3)];
        assert!(execute(Command::deallocate(1, 3), Data::Out(ranges.as_bytes().to_vec())).is_success());
        let durable = nvme::io::Blocks { fua: true, ..nvme::io::Blocks::new(1, 9, 1) };
        assert!(execute(nvme::IoCommand::Write(durable).into(), page()).is_success());
        assert!(execute(nvme::IoCommand::Read(durable).into(), Data::In(vec![0; 4096])).is_success());
        let (command, source) = copy(100, 5, 2, false);
        assert!(execute(command, Data::Out(source)).is_success());
        let (command, source) = copy(200, 100, 1, true);
        assert!(execute(command, Data::Out(source)).is_success());
        // What is refused is not recorded.
        assert!(!execute(Command::write(1, 8192, 1), page()).is_success());
        assert!(!execute(Command::write(7, 0, 1), page()).is_success());
    });
    let found: Vec<_> = events(&path).iter().map(|e| (e.verb, e.offset / 4096, e.bytes / 4096)).collect();
    assert_eq!(
        found,
        [
            (Verb::Write, 5, 1),
            (Verb::Read, 4, 2),
            (Verb::Flush, 0, 0),
            (Verb::Trim, 8, 4),
            (Verb::Trim, 16, 2),
            (Verb::Trim, 64, 3),
            (Verb::WriteFua, 9, 1),
            (Verb::ReadFua, 9, 1),
            (Verb::Copy { from: 5 * 4096, fua: false }, 100, 2),
            (Verb::Copy { from: 100 * 4096, fua: true }, 200, 1),
        ]
    );
    // It is not written over.
    let options = Options { record: Some(path.clone()), ..Options::default() };
    let refused = live::start(Some(shape()), &options, &mut |_| ()).err().unwrap().to_string();
    assert!(refused.contains("cannot record to") && refused.contains("name another one"), "{refused}");
    assert_eq!(events(&path).len(), 10);
}

#[test]
fn a_full_disk_ends_the_recording_and_nothing_else() {
    let full = Path::new("/dev/full");
    let options = Options { record: Some(full.to_owned()), ..Options::default() };
    // Its first line cannot be written: the drive does not start.
    let refused = live::start(Some(shape()), &options, &mut |_| ()).err().unwrap().to_string();
    assert!(refused.contains("/dev/full"), "{refused}");
    // A reader that goes away later is the same to the writer.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    );
    made.unwrap();
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut first = [0; 10];
            std::io::Read::read_exact(&mut std::fs::File::open(path).unwrap(), &mut first).unwrap();
            first
        })
    };
    let mut order = Order::new();
    live(shape(), &path, |host| order = random_load(host, 1, 6000).1);
    assert_eq!(order.len(), 6000, "the drive went on");
    assert_eq!(&reader.join().unwrap(), b"# tranche ");
}
