//! Typed hosts over a Unix socket, TCP, and in the process.

use crate::common::shape;
use host::{Data, Host, Identity, Queue, SocketTransport, Transport};
use live::{LocalTransport, Options, Running, Shape};
use nvme::io::Blocks;
use nvme::{Command, IoCommand, Status};
use std::time::Duration;

fn start(options: &Options) -> Running {
    live::start(Some(shape()), options, &mut |_| ()).unwrap()
}

fn identity(running: &Running, name: &str) -> Identity {
    let mut identity = Identity::new(format!("nqn.2026-11.test:{name}").parse().unwrap());
    identity.subnqn = Some(running.handle().subsystem_nqn().parse().unwrap());
    identity
}

fn socket(addr: &str) -> SocketTransport {
    SocketTransport::new(addr.parse().unwrap(), Duration::from_secs(20))
}

/// What every host must be able to do, whatever carries its commands.
fn exercise<T: Transport>(transport: T, identity: &Identity) {
    let mut host = Host::connect(transport, identity).unwrap();
    assert_eq!(host.active_namespaces().unwrap(), [1]);
    let namespace = host.namespace(1).unwrap();
    assert_eq!(namespace.bytes(), 32 << 20);
    let mut queue = host.io_queue(16).unwrap();
    let data: Vec<u8> = (0..3 << 20).map(|i: u32| (i / 512) as u8 ^ (i % 251) as u8).collect();
    queue.write(&namespace, 7, &data, false).unwrap();
    queue.flush(1).unwrap();
    let mut back = vec![0; data.len()];
    queue.read(&namespace, 7, &mut back).unwrap();
    assert!(data == back);
    queue.write(&namespace, 100, &data[..4096], true).unwrap();
    queue.compare(&namespace, 100, &data[..4096]).unwrap();
    let differs = queue.compare(&namespace, 100, &data[4096..8192]).unwrap_err();
    assert!(differs.status().unwrap().is(Status::COMPARE_FAILURE));
    queue.deallocate(&namespace, 100, 1).unwrap();
    queue.read(&namespace, 100, &mut back[..4096]).unwrap();
    assert!(back[..4096].iter().all(|&b| b == 0));
    let beyond = queue.read(&namespace, 8192, &mut back[..4096]).unwrap_err();
    assert!(beyond.status().unwrap().is(Status::LBA_OUT_OF_RANGE));
    let smart = host.smart().unwrap();
    assert_eq!(smart.critical_warning, Default::default());
    drop(queue);
    host.shutdown().unwrap();
}

#[test]
fn a_host_in_the_process() {
    let running = start(&Options::default());
    exercise(LocalTransport::new(running.handle()), &identity(&running, "local"));
}

#[test]
fn a_host_over_a_unix_socket() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("drive.sock");
    let running = start(&Options { unix: Some(path.clone()), ..Options::default() });
    let addr = format!("unix://{}", path.display());
    exercise(socket(&addr), &identity(&running, "unix"));
    exercise(socket(&addr), &identity(&running, "unix"));
    running.stop();
    assert!(!path.exists(), "the socket is removed");
}

#[test]
fn a_host_over_tcp() {
    let running = start(&Options { tcp: vec!["127.0.0.1:0".into()], ..Options::default() });
    let addr = format!("tcp://{}", running.tcp().unwrap());
    exercise(socket(&addr), &identity(&running, "tcp"));
    // Large writes in several R2Ts, and with digests.
    exercise(socket(&addr).with_r2ts(4).with_digests(true, true), &identity(&running, "tcp"));
}

#[test]
fn the_discovery_service_knows_the_drive() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("drive.sock");
    let options = Options { unix: Some(path.clone()), tcp: vec!["127.0.0.1:0".into()], ..Options::default() };
    let running = start(&options);
    for addr in [format!("unix://{}", path.display()), format!("tcp://{}", running.tcp().unwrap())] {
        let identity = Identity::new("nqn.2026-11.test:seeker".parse().unwrap());
        exercise(socket(&addr), &identity);
    }
}

#[test]
fn wrong_names_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("drive.sock");
    let running = start(&Options { unix: Some(path.clone()), ..Options::default() });
    let addr = format!("unix://{}", path.display());
    let mut other = identity(&running, "unix");
    other.subnqn = Some("nqn.2026-11.test:another-drive".parse().unwrap());
    let refused = Host::connect(socket(&addr), &other).map(|_| ()).unwrap_err();
    assert!(refused.status().unwrap().is(Status::CONNECT_INVALID_PARAMETERS), "{refused}");
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("precious");
    std::fs::write(&path, "important").unwrap();
    let options = Options { unix: Some(path.clone()), ..Options::default() };
    let error = live::start(Some(shape()), &options, &mut |_| ()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("precious"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "important");
}

#[test]
fn a_socket_that_a_dead_process_left_is_replaced_and_a_live_one_is_not() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("drive.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let options = Options { unix: Some(path.clone()), ..Options::default() };
    let running = start(&options);
    let second = live::start(Some(shape()), &options, &mut |_| ()).map(|_| ()).unwrap_err();
    assert!(second.to_string().contains("drive.sock"), "{second}");
    exercise(socket(&format!("unix://{}", path.display())), &identity(&running, "unix"));
}

#[test]
fn hosts_come_and_go_while_others_work() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("drive.sock");
    let running = start(&Options { unix: Some(path.clone()), ..Options::default() });
    let addr = format!("unix://{}", path.display());
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (addr, identity) = (&addr, identity(&running, &format!("host{thread}")));
            scope.spawn(move || {
                for round in 0..20u64 {
                    let mut host = Host::connect(socket(addr), &identity).unwrap();
                    let namespace = host.namespace(1).unwrap();
                    let mut queue = host.io_queue(4).unwrap();
                    let data = vec![(thread * 50 + round) as u8; 65536];
                    let at = thread * 1000;
                    queue.write(&namespace, at, &data, false).unwrap();
                    let mut back = vec![0; data.len()];
                    queue.read(&namespace, at, &mut back).unwrap();
                    assert!(data == back, "thread {thread} round {round}");
                    // Some leave without a word.
                    if round % 3 == 0 {
                        host.shutdown().unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn a_power_cut_closes_connections_and_keeps_what_was_acknowledged() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("drive.sock");
    let running = start(&Options { unix: Some(path.clone()), ..Options::default() });
    let addr = format!("unix://{}", path.display());
    let identity = identity(&running, "unix");
    for round in 0..3u8 {
        let mut host = Host::connect(socket(&addr), &identity).unwrap();
        let namespace = host.namespace(1).unwrap();
        let mut queue = host.io_queue(4).unwrap();
        queue.write(&namespace, round.into(), &[round + 1; 4096], false).unwrap();
        let cut = nvme::admin::PowerCut { after_media_ops: 0, off_ms: 20, seed: 1, no_plp: false };
        host.power_cut(cut).unwrap();
        let mut back = [0; 4096];
        assert!(queue.read(&namespace, 0, &mut back).is_err(), "the connection is closed");
        // Power is off for a while: hosts try again.
        let mut host = loop {
            match Host::connect(socket(&addr), &identity) {
                Ok(host) => break host,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let mut queue = host.io_queue(4).unwrap();
        for before in 0..=round {
            queue.read(&namespace, before.into(), &mut back).unwrap();
            assert!(back.iter().all(|&b| b == before + 1));
        }
        assert_eq!(host.smart().unwrap().unexpected_power_losses.get(), u128::from(round) + 1);
    }
}

/// Compares and writes blocks as one operation: how the two ended.
fn swap(queue: &mut impl Queue, slba: u64, old: &[u8], new: &[u8]) -> [Status; 2] {
    let blocks = (old.len() / 4096) as u32;
    let mut commands: [Command; 2] =
        [IoCommand::Compare(Blocks::new(1, slba, blocks)).into(), Command::write(1, slba, blocks)];
    let tags = [(1, old), (2, new)].map(|(fuse, data)| {
        let command = &mut commands[fuse - 1];
        command.flags.set_fuse(fuse as u8);
        queue.submit(*command, Data::Out(data.to_vec())).unwrap()
    });
    let mut ended = [None; 2];
    while ended.contains(&None) {
        let done = queue.next(Some(Duration::from_secs(60))).unwrap().expect("both commands end");
        let which = tags.iter().position(|tag| *tag == done.tag).expect("one of the two");
        ended[which] = Some(done.completion.status());
    }
    ended.map(Option::unwrap)
}

/// Compare and Write as any transport carries it: with data in the capsule, or asked for.
fn exercise_fused<T: Transport>(transport: T, identity: &Identity) {
    let mut host = Host::connect(transport, identity).unwrap();
    assert_eq!(host.controller().fuses.get(), 1);
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(16).unwrap();
    for blocks in [1, 4] {
        let of = |fill: u8| vec![fill; blocks * 4096];
        let mut last = 0;
        queue.write(&namespace, 8, &of(last), false).unwrap();
        for round in 1..20 {
            let [compared, written] = swap(queue.raw(), 8, &of(last), &of(round));
            assert!(compared.is_success() && written.is_success(), "{compared}, {written}");
            let [compared, written] = swap(queue.raw(), 8, &of(last), &of(99));
            assert!(compared.is(Status::COMPARE_FAILURE), "{compared}");
            assert!(written.is(Status::ABORTED_FAILED_FUSED), "{written}");
            last = round;
        }
        let mut back = of(0);
        queue.read(&namespace, 8, &mut back).unwrap();
        assert!(back == of(last));
    }
    // Alone, the first one comes back when another command comes.
    let mut first: Command = IoCommand::Compare(Blocks::new(1, 0, 1)).into();
    first.flags.set_fuse(1);
    let tag = queue.raw().submit(first, Data::Out(vec![0; 4096])).unwrap();
    queue.raw().submit(Command::flush(1), Data::None).unwrap();
    for _ in 0..2 {
        let done = queue.raw().next(Some(Duration::from_secs(60))).unwrap().expect("both commands end");
        let alone = done.tag == tag;
        assert_eq!(done.completion.status().is(Status::ABORTED_MISSING_FUSED), alone);
    }
    drop(queue);
    host.shutdown().unwrap();
}

#[test]
fn fused_commands_over_every_transport() {
    let options = Options { tcp: vec!["127.0.0.1:0".into()], ..Options::default() };
    // Units large enough that their data is not in the capsule.
    let toml = shape()
        .toml
        .replace("[drive]", "[drive]\natomic_write = \"16KiB\"")
        .replace("planes = 1", "planes = 4");
    let shape = Shape { config: device::Config::from_toml(&toml).unwrap(), toml };
    let running = live::start(Some(shape), &options, &mut |_| ()).unwrap();
    exercise_fused(LocalTransport::new(running.handle()), &identity(&running, "local"));
    let addr = format!("tcp://{}", running.tcp().unwrap());
    exercise_fused(socket(&addr), &identity(&running, "tcp"));
    exercise_fused(socket(&addr).with_r2ts(4).with_digests(true, true), &identity(&running, "tcp"));
}
