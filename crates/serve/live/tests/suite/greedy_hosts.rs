//! Hosts that take all they can: strangers, silent connections, one tenant. Others still get in.

use crate::common::shape;
use fabric::host::Config;
use host::{Data, Host, Identity, Queue, SocketQueue, SocketTransport};
use live::access::{Access, Rule};
use live::{Limits, Options, Role, Running};
use nvme::fabrics::{Connect, ConnectAttributes, ConnectData, FabricsCommand};
use nvme::zerocopy::{FromZeros, IntoBytes};
use nvme::{CNTLID_DYNAMIC, Command, Nqn, Status, U16};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use testkit::wait_for;

const TIMEOUT: Duration = Duration::from_secs(25);
/// Unproven connections of a network in these tests.
const MAX_UNPROVEN: usize = 8;

fn nqn(name: &str) -> Nqn {
    format!("nqn.2026-11.test:{name}").parse().unwrap()
}

fn start(dir: &Path, limits: Limits) -> Running {
    let tenant = Rule { role: Role::Tenant(vec![1]), ..Rule::named(nqn("tenant")) };
    let options = Options {
        tcp: vec!["127.0.0.1:0".into()],
        unix: Some(dir.join("socket")),
        access: Some(Arc::new(Access::new(vec![tenant, Rule::named(nqn("other"))]))),
        limits,
        ..Options::default()
    };
    live::start(Some(shape()), &options, &mut |_| ()).unwrap()
}

/// A connection whose Connect command was answered.
fn raw(running: &Running, subsystem: &str, name: &str) -> Result<(SocketQueue, Status), ()> {
    let stream = TcpStream::connect(running.tcp().unwrap()).map_err(drop)?;
    let mut queue = SocketQueue::over_tcp(stream, Config::default(), TIMEOUT).map_err(drop)?;
    let cattr = ConnectAttributes::new();
    let connect = Connect { recfmt: 0, qid: 0, sqsize_z: 31, cattr, kato: u32::MAX };
    let data = ConnectData {
        cntlid: U16::new(CNTLID_DYNAMIC),
        subnqn: subsystem.parse::<Nqn>().unwrap().to_field(),
        hostnqn: nqn(name).to_field(),
        hostid: [9; 16],
        ..ConnectData::new_zeroed()
    };
    let command = Command::from(FabricsCommand::Connect(connect));
    queue.submit(command, Data::Out(data.as_bytes().to_vec())).map_err(drop)?;
    let done = queue.next(Some(TIMEOUT)).map_err(drop)?.ok_or(())?;
    Ok((queue, done.completion.status()))
}

fn is_open(queue: &mut SocketQueue) -> bool {
    matches!(queue.next(Some(Duration::ZERO)), Ok(None))
}

fn connect(running: &Running, addr: &str, name: &str) -> Result<Host<SocketTransport>, host::Error> {
    let mut identity = Identity::new(nqn(name));
    identity.subnqn = Some(running.handle().subsystem_nqn().parse().unwrap());
    Host::connect(SocketTransport::new(addr.parse().unwrap(), TIMEOUT), &identity)
}

/// A listed host over TCP and an administrator over the Unix socket get in and do something.
fn others_get_in(running: &Running, dir: &Path) {
    let tcp = format!("tcp://{}", running.tcp().unwrap());
    let unix = format!("unix://{}", dir.join("socket").display());
    for addr in [tcp, unix] {
        let mut host = connect(running, &addr, "other").unwrap();
        let namespace = host.namespace(1).unwrap();
        let mut queue = host.io_queue(8).unwrap();
        queue.write(&namespace, 0, &[7; 4096], false).unwrap();
    }
}

#[test]
fn strangers_hold_no_more_than_their_networks_unproven_places() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path(), Limits { unproven: MAX_UNPROVEN, ..Limits::default() });
    let mut strangers: Vec<SocketQueue> = (0..4 * MAX_UNPROVEN)
        .filter_map(|n| raw(&running, Nqn::DISCOVERY, &format!("stranger-{n}")).ok())
        .map(|(queue, _)| queue)
        .collect();
    wait_for("the end of strangers over the limit", || {
        strangers.iter_mut().filter_map(|queue| is_open(queue).then_some(())).count() <= MAX_UNPROVEN
    });
    others_get_in(&running, temp.path());
}

#[test]
fn a_stranger_is_shown_out_whatever_its_keep_alive_timeout() {
    let temp = tempfile::tempdir().unwrap();
    let setup = Duration::from_millis(100);
    let running = start(temp.path(), Limits { setup, ..Limits::default() });
    let (mut stranger, status) = raw(&running, Nqn::DISCOVERY, "stranger").unwrap();
    assert!(status.is_success(), "{status}");
    let (mut listed, _) = raw(&running, Nqn::DISCOVERY, "other").unwrap();
    wait_for("the end of the stranger", || !is_open(&mut stranger));
    assert!(is_open(&mut listed), "a listed host has the keep-alive timeout that it asked for");
}

#[test]
fn silent_connections_keep_no_host_of_their_network_out() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path(), Limits { unproven: MAX_UNPROVEN, ..Limits::default() });
    let silent: Vec<TcpStream> =
        (0..MAX_UNPROVEN).map(|_| TcpStream::connect(running.tcp().unwrap()).unwrap()).collect();
    others_get_in(&running, temp.path());
    drop(silent);
}

#[test]
fn a_tenant_has_a_limited_number_of_controllers() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path(), Limits::default());
    let subsystem = running.handle().subsystem_nqn().to_owned();
    let mut held = Vec::new();
    let refused = (0..100).find_map(|_| {
        let (queue, status) = raw(&running, &subsystem, "tenant").unwrap();
        held.push(queue);
        (!status.is_success()).then_some(status)
    });
    assert!(refused.is_some_and(|status| status.is(Status::CONNECT_CONTROLLER_BUSY)), "{refused:?}");
    assert_eq!(held.len(), 64 + 1);
    let tcp = format!("tcp://{}", running.tcp().unwrap());
    let said = connect(&running, &tcp, "tenant").err().unwrap().to_string();
    assert!(said.contains("max_controllers"), "{said}");
    others_get_in(&running, temp.path());
    held.pop();
    held.pop();
    wait_for("a controller for the tenant", || connect(&running, &tcp, "tenant").is_ok());
}

#[test]
fn while_two_hosts_have_commands_waiting_each_has_its_turn() {
    /// Commands of the greedy host, on queues whose commands cost little.
    const QUEUES: usize = 8;
    const DEPTH: u16 = 256;
    /// Commands of the other host. Each costs a turn, and memory for its data may cost it turns before.
    const LARGE_COMMANDS: u64 = 16;
    const LARGE_BLOCKS: u32 = 64;
    /// What the greedy host may do in one turn: 128 KiB at 4 KiB a read, and the one with which the turn ends.
    const TURN_COMMANDS: usize = 32;
    /// Turns of the greedy host while the other waits: two in which there is memory for the command's data, one in which it runs, and one that
    /// was under way.
    const TURNS: usize = 4;

    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("recording");
    let options = Options {
        tcp: vec!["127.0.0.1:0".into()],
        unix: Some(temp.path().join("socket")),
        record: Some(path.clone()),
        ..Options::default()
    };
    let running = live::start(Some(shape()), &options, &mut |_| ()).unwrap();
    let mut greedy = connect(&running, &format!("tcp://{}", running.tcp().unwrap()), "greedy").unwrap();
    let near = format!("unix://{}", temp.path().join("socket").display());
    let mut other = connect(&running, &near, "other").unwrap();
    let mut queues: Vec<_> = (0..QUEUES).map(|_| greedy.io_queue(DEPTH).unwrap().into_raw()).collect();
    let mut large = other.io_queue(32).unwrap().into_raw();
    for queue in &mut queues {
        for _ in 1..DEPTH {
            queue.submit(Command::read(1, 0, 1), Data::room(4096)).unwrap();
        }
    }
    for n in 0..LARGE_COMMANDS {
        let lba = n * u64::from(LARGE_BLOCKS) + 1;
        large.submit(Command::read(1, lba, LARGE_BLOCKS), Data::room(LARGE_BLOCKS as usize * 4096)).unwrap();
    }
    queues.iter_mut().chain([&mut large]).for_each(|queue| queue.flush().unwrap());
    for queue in queues.iter_mut().chain([&mut large]) {
        while queue.outstanding() > 0 {
            assert!(queue.next(Some(TIMEOUT)).unwrap().unwrap().completion.status().is_success());
        }
    }
    drop((queues, large, greedy, other));
    running.stop();
    let recording = std::fs::read(&path).unwrap();
    let mut reader = load_formats::trace::Reader::new(&recording[..], None).unwrap();
    let mut is_small = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        is_small.push(event.offset == 0);
    }
    let runs = is_small.split(|small| !small);
    let between: Vec<usize> = runs.map(<[bool]>::len).collect();
    assert_eq!(between.len() as u64, LARGE_COMMANDS + 1);
    // Before the first and after the last, the greedy host may have been alone.
    let inner = &between[1..between.len() - 1];
    assert!(inner.iter().all(|commands| *commands <= TURNS * TURN_COMMANDS), "{between:?}");
}
