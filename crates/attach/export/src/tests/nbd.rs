//! A server of NBD over a drive in memory, with a client that looks at every byte.

use super::memory::{Limits, Memory, namespace};
use crate::backend::Backend;
use crate::drive::{Drive, DriveCommand, Namespace, Zones};
use crate::nbd::{CONNECTIONS, Listener, Place, Server, greeting};
use blockdev::Verb;
use fuser::Errno;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use testkit::wait_for;

const LIMITS: Limits = Limits { transfer: 65536, zero: 1 << 20, commands: 16 };
const EINVAL: u32 = 22;
const ESHUTDOWN: u32 = 108;

struct Bench {
    dir: tempfile::TempDir,
    drive: Arc<Memory>,
    server: Option<Server>,
}

impl Bench {
    fn new(namespaces: &[Namespace]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut drive = None;
        let connect = |reports| {
            let memory = Memory::reporting(reports, LIMITS, namespaces);
            drive = Some(memory.clone());
            Ok(memory as Arc<dyn Drive>)
        };
        let backend = Backend::over(connect, 0o600).unwrap();
        let listener = Listener::bind(Place::Unix(dir.path().join("socket"))).unwrap();
        let server = Server::start(vec![listener], &backend).unwrap();
        Bench { dir, drive: drive.unwrap(), server: Some(server) }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn connect(&self) -> Client {
        Client::connect(&self.path())
    }

    /// A client of this export, which has chosen it in the newer way, when it is there.
    fn go(&self, name: &str, structured: bool) -> Client {
        let mut client = None;
        wait_for("the export", || {
            client = self.try_to_go(name, structured);
            client.is_some()
        });
        client.unwrap()
    }

    fn try_to_go(&self, name: &str, structured: bool) -> Option<Client> {
        Client::open(&self.path(), name, structured)
    }
}

fn named(name: &str, rest: &[u8]) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes(), name.as_bytes(), rest].concat()
}

pub struct Client {
    socket: UnixStream,
    structured: bool,
}

impl Client {
    fn connect(path: &Path) -> Client {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut client = Client { socket, structured: false };
        assert_eq!(client.take(18), greeting());
        client.send(&3u32.to_be_bytes());
        client
    }

    /// A client of this export, which has chosen it in the newer way; `None` if it is not there.
    pub fn open(path: &Path, name: &str, structured: bool) -> Option<Client> {
        let mut client = Client::connect(path);
        client.structured = structured;
        if structured {
            client.option(8, &[]);
            assert_eq!(client.reply().0, 1);
        }
        client.option(7, &named(name, &[0, 0]));
        loop {
            match client.reply().0 {
                1 => return Some(client),
                3 => {}
                _ => return None,
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn number(&mut self, len: usize) -> u64 {
        self.take(len).iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    fn option(&mut self, kind: u32, data: &[u8]) {
        let head = [&b"IHAVEOPT"[..], &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes()].concat();
        self.send(&[&head[..], data].concat());
    }

    /// Type and data of a reply to an option.
    fn reply(&mut self) -> (u32, Vec<u8>) {
        assert_eq!(self.number(8), 0x0003_E889_0455_65A9);
        let _option = self.number(4);
        let (kind, len) = (self.number(4) as u32, self.number(4) as usize);
        (kind, self.take(len))
    }

    fn request(&mut self, flags: u16, command: u16, cookie: u64, offset: u64, len: u32, data: &[u8]) {
        let head =
            [0x2560_9513u32.to_be_bytes().to_vec(), [flags.to_be_bytes(), command.to_be_bytes()].concat()];
        let rest = [&cookie.to_be_bytes()[..], &offset.to_be_bytes(), &len.to_be_bytes(), data].concat();
        self.send(&[head.concat(), rest].concat());
    }

    /// Cookie and outcome of an answer: data of `len` bytes if it was a read that succeeded.
    fn answer(&mut self, len: usize) -> (u64, Result<Vec<u8>, u32>) {
        match self.number(4) {
            0x6744_6698 => {
                let (error, cookie) = (self.number(4) as u32, self.number(8));
                let data = if error == 0 && !self.structured { self.take(len) } else { Vec::new() };
                (cookie, if error == 0 { Ok(data) } else { Err(error) })
            }
            0x668E_33EF => {
                assert!(self.structured);
                let (flags, kind) = (self.number(2), self.number(2));
                let (cookie, len) = (self.number(8), self.number(4) as usize);
                let data = self.take(len);
                assert_eq!(flags, 1, "one chunk");
                match kind {
                    1 => (cookie, Ok(data[8..].to_vec())),
                    0x8001 => (cookie, Err(u32::from_be_bytes(data[..4].try_into().unwrap()))),
                    kind => panic!("chunk {kind}"),
                }
            }
            magic => panic!("no answer: {magic:x}"),
        }
    }

    fn outcome(
        &mut self,
        flags: u16,
        command: u16,
        offset: u64,
        len: u32,
        data: &[u8],
    ) -> Result<Vec<u8>, u32> {
        self.request(flags, command, 77, offset, len, data);
        let (cookie, outcome) = self.answer(if command == 0 { len as usize } else { 0 });
        assert_eq!(cookie, 77);
        outcome
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<Vec<u8>, u32> {
        self.outcome(0, 1, offset, data.len() as u32, data)
    }

    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        self.outcome(0, 0, offset, len, &[])
    }

    /// Whether the server has closed the connection.
    fn is_over(&mut self) -> bool {
        match self.socket.read(&mut [0]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn conventional_namespaces_are_listed_and_described() {
    let zoned =
        Namespace { zones: Some(Zones { count: 2, size: 8, capacity: 8 }), ..namespace(2, 4096, 65536) };
    let read_only = Namespace { read_only: true, ..namespace(7, 4096, 65536) };
    let bench = Bench::new(&[namespace(1, 512, 1 << 20), zoned, read_only]);
    let mut client = bench.connect();
    client.option(3, &[]);
    let list: Vec<_> = (0..3).map(|_| client.reply()).collect();
    assert!(list[0].1.starts_with(&named("nvme0n1", &[])) && list[1].1.starts_with(&named("nvme0n7", &[])));
    assert_eq!(list.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [2, 2, 1]);
    // Nothing is the default of two; the zoned one is none of them.
    for name in ["", "nvme0n2", "nvme0n"] {
        client.option(6, &named(name, &[0, 0]));
        let (kind, words) = client.reply();
        assert_eq!(kind, 1 << 31 | 6);
        assert!(String::from_utf8(words).unwrap().contains("nvme0n1, nvme0n7"));
    }
    client.option(6, &named("nvme0n7", &[0, 0]));
    assert_eq!(
        client.reply(),
        (3, [&[0, 0][..], &65536u64.to_be_bytes(), &0x010Fu16.to_be_bytes()].concat())
    );
    let sizes = [4096u32, 4096, 32 << 20].map(u32::to_be_bytes).concat();
    assert_eq!(client.reply(), (3, [&[0, 3][..], &sizes].concat()));
    assert_eq!(client.reply().0, 1);
    client.option(5, &[]);
    assert_eq!(client.reply().0, 1 << 31 | 1, "no TLS");
    client.option(2, &[]);
    assert_eq!(client.reply().0, 1);
    assert!(client.is_over());

    // The older way, without the zeroes.
    let mut client = bench.connect();
    client.option(1, b"nvme0n1");
    assert_eq!((client.number(8), client.number(2)), (1 << 20, 0x016D));
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
    let mut client = bench.connect();
    client.option(1, b"nvme0n2");
    assert!(client.is_over());
}

#[test]
fn requests_become_commands() {
    let bench = Bench::new(&[namespace(1, 512, 1 << 20)]);
    for structured in [false, true] {
        let mut client = bench.go("", structured);
        let data: Vec<u8> = (0..200_704u32).map(|at| (at / 512) as u8).collect();
        client.write(4096, &data).unwrap();
        assert_eq!(client.read(4096, data.len() as u32).unwrap(), data);
        client.outcome(0, 4, 4096, 4096, &[]).unwrap();
        client.outcome(1 << 1, 6, 8192, 512, &[]).unwrap();
        assert_eq!(client.read(4096, 8192).unwrap(), [vec![0; 4608], data[4608..8192].to_vec()].concat());
        client.outcome(0, 3, 0, 0, &[]).unwrap();
        bench.drive.seen();
        client.outcome(1, 1, 512, 512, &[9; 512]).unwrap();
        client.outcome(1, 6, 0, 1024, &[]).unwrap();
        let expected = [
            DriveCommand::blocks(Verb::WriteFua, 1, 1),
            DriveCommand::blocks(Verb::WriteZeroes { deallocate: true }, 0, 2),
            DriveCommand::blocks(Verb::Flush, 0, 0),
        ];
        assert_eq!(bench.drive.seen(), expected, "FUA");
    }
}

#[test]
fn what_cannot_be_done_is_refused_and_the_connection_goes_on() {
    let read_only = Namespace { read_only: true, ..namespace(2, 4096, 65536) };
    let bench = Bench::new(&[namespace(1, 4096, 1 << 20), read_only]);
    for structured in [false, true] {
        let mut client = bench.go("nvme0n1", structured);
        assert_eq!(client.write(512, &[1; 4096]), Err(EINVAL));
        assert_eq!(client.write(0, &[1; 512]), Err(EINVAL));
        assert_eq!(client.read(0, 0), Err(EINVAL));
        assert_eq!(client.read(1 << 20, 4096), Err(EINVAL));
        assert_eq!(client.write((1 << 20) - 4096, &[1; 8192]), Err(28));
        assert_eq!(client.read(u64::MAX - 4095, 4096), Err(EINVAL));
        assert_eq!(client.outcome(0, 5, 0, 4096, &[]), Err(EINVAL), "CACHE");
        assert_eq!(client.outcome(1 << 3, 0, 0, 4096, &[]), Err(EINVAL), "a flag of another command");
        // This drive does not say that zeroes are fast, nor what is allocated.
        assert_eq!(client.outcome(1 << 4, 6, 0, 4096, &[]), Err(EINVAL));
        assert_eq!(client.outcome(0, 7, 0, 4096, &[]), Err(EINVAL));
        bench.drive.fail(Some(Errno::ENOSPC));
        assert_eq!(client.write(0, &[1; 4096]), Err(28));
        bench.drive.fail(Some(Errno::EILSEQ));
        assert_eq!(client.read(0, 4096), Err(5));
        bench.drive.fail(None);
        assert_eq!(client.read(0, 4096).unwrap(), [0; 4096]);
        let mut client = bench.go("nvme0n2", structured);
        assert_eq!(client.write(0, &[1; 4096]), Err(1));
        assert_eq!(client.outcome(0, 6, 0, 4096, &[]), Err(1));
        assert_eq!(client.read(0, 4096).unwrap(), [0; 4096]);
        client.send(&[0; 28]);
        assert!(client.is_over(), "no request");
    }
}

#[test]
fn answers_come_in_any_order_and_a_client_that_takes_none_holds_up_nobody() {
    let bench = Bench::new(&[namespace(1, 4096, 8 << 20)]);
    let mut client = bench.go("nvme0n1", false);
    bench.drive.hold();
    for cookie in 0..4 {
        client.request(0, 0, cookie, cookie * 4096, 4096, &[]);
    }
    let mut cookies = Vec::new();
    while cookies.len() < 4 {
        // The first that there is, then the last.
        if bench.drive.release(cookies.len() * 3) {
            cookies.push(client.answer(4096).0);
        }
    }
    cookies.sort_unstable();
    assert_eq!(cookies, [0, 1, 2, 3]);

    let bench = Bench::new(&[namespace(1, 4096, 8 << 20)]);
    let mut greedy = bench.go("nvme0n1", false);
    for cookie in 0..100 {
        greedy.request(0, 0, cookie, 0, 4 << 20, &[]);
    }
    let mut client = bench.go("nvme0n1", false);
    for _ in 0..20 {
        assert_eq!(client.read(0, 4096).unwrap(), [0; 4096]);
    }
    let mut cookies: Vec<u64> = (0..100).map(|_| greedy.answer(4 << 20).0).collect();
    cookies.sort_unstable();
    assert!(cookies.into_iter().eq(0..100), "each once, though late");
}

#[test]
fn a_namespace_that_changes_ends_for_who_has_it_and_begins_for_others() {
    let bench = Bench::new(&[namespace(1, 4096, 1 << 20)]);
    let mut old = bench.go("nvme0n1", true);
    old.write(0, &[1; 4096]).unwrap();
    // The first client that can read at `offset`.
    let change = |what: &dyn Fn(), offset| {
        what();
        // The thread that follows the drive needs a moment. Until then a client hears of the namespace as it was.
        let mut client = bench.go("nvme0n1", false);
        while let Err(error) = client.read(offset, 4096) {
            assert!([ESHUTDOWN, EINVAL].contains(&error), "{error}");
            client = bench.go("nvme0n1", false);
        }
        client
    };
    bench.drive.detach(1);
    wait_for("the end of the export", || old.read(0, 4096) == Err(ESHUTDOWN));
    let larger = Namespace { nguid: [9; 16], ..namespace(1, 4096, 2 << 20) };
    let mut new = change(&|| bench.drive.attach(larger), (2 << 20) - 4096);
    assert_eq!(new.read((2 << 20) - 4096, 4096).unwrap(), [0; 4096]);
    for outcome in [old.read(0, 4096), old.write(0, &[2; 4096]), old.outcome(0, 3, 0, 0, &[])] {
        assert_eq!(outcome, Err(ESHUTDOWN));
    }
    new.write(0, &[3; 4096]).unwrap();
    change(&|| bench.drive.lose(), 0);
    assert_eq!(new.read(0, 4096), Err(ESHUTDOWN), "a power cut may have taken what it wrote");
    assert_eq!(new.outcome(0, 3, 0, 0, &[]), Err(ESHUTDOWN));
}

#[test]
fn clients_who_leave_and_servers_that_end_answer_what_is_under_way() {
    let mut bench = Bench::new(&[namespace(1, 4096, 1 << 20)]);
    let mut client = bench.go("nvme0n1", false);
    bench.drive.hold();
    client.request(0, 0, 5, 0, 4096, &[]);
    client.request(0, 2, 6, 0, 0, &[]);
    while !bench.drive.release(0) {}
    assert_eq!(client.answer(4096), (5, Ok(vec![0; 4096])));
    assert!(client.is_over());

    let mut client = bench.go("nvme0n1", false);
    client.request(0, 0, 7, 0, 4096, &[]);
    let mut seen = 0;
    while seen < 2 {
        seen += bench.drive.seen().len();
    }
    let (drive, server) = (bench.drive.clone(), bench.server.take());
    let ending = std::thread::spawn(move || drop(server));
    while !drive.release(0) {}
    ending.join().unwrap();
    assert_eq!(client.answer(4096), (7, Ok(vec![0; 4096])));
    assert!(client.is_over() && !bench.path().exists());
}

#[test]
fn clients_that_choose_nothing_make_room() {
    let bench = Bench::new(&[namespace(1, 4096, 1 << 20)]);
    let mut chosen = bench.go("", false);
    let mut silent: Vec<Client> = (1..CONNECTIONS).map(|_| bench.connect()).collect();
    let mut more: Vec<Client> = (0..3).map(|_| bench.go("", false)).collect();
    for client in more.iter_mut().chain([&mut chosen]) {
        assert_eq!(client.read(0, 4096).unwrap(), [0; 4096]);
    }
    assert!(silent[..3].iter_mut().all(Client::is_over), "the oldest made room");
    // The others can still choose.
    silent[3].option(7, &named("", &[0, 0]));
    assert_ne!(silent[3].reply().0, 1 << 31);
}

#[test]
fn there_is_a_limit_to_connections() {
    let bench = Bench::new(&[namespace(1, 4096, 1 << 20)]);
    let mut all: Vec<Client> = (0..CONNECTIONS).map(|_| bench.go("", false)).collect();
    let mut one_more = UnixStream::connect(bench.path()).unwrap();
    assert_eq!(one_more.read(&mut [0]).unwrap(), 0);
    assert_eq!(all[0].read(0, 4096).unwrap(), [0; 4096]);
    // A place that is free is taken again: once the thread has noticed.
    all.pop();
    loop {
        let mut again = UnixStream::connect(bench.path()).unwrap();
        if again.read(&mut [0]).unwrap() == 1 {
            break;
        }
    }
}
