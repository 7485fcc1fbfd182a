//! Strangers, silent clients and one tenant take all they can of a drive that is served. An administrator on the Unix socket, a
//! host that proves itself over TCP, a page's visitor, a scraper and a client of NBD still get in.

mod common;
use common::{Served, TRANCHE, at, text};
use fabric::auth::{AuthStep, ChapKeys, Methods, Parties};
use host::{Data, Host, Identity, Queue, SocketQueue, SocketTransport};
use nvme::auth::SECP_NVME;
use nvme::fabrics::{Authentication, Connect, ConnectAttributes, ConnectData, FabricsCommand};
use nvme::zerocopy::IntoBytes;
use nvme::{CNTLID_DYNAMIC, Command, Nqn};
use std::io::Read;
use std::net::TcpStream;
use std::process::Command as Process;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
/// More than the drive has places of this kind for one network.
const SILENT_CONNECTIONS: usize = 300;
/// Handshakes of the largest group that are begun and not finished.
const HANDSHAKES: usize = 40;

fn nqn(name: &str) -> Nqn {
    format!("nqn.2026-11.test:{name}").parse().unwrap()
}

struct Drive {
    served: Served,
    socket: String,
    key: String,
}

impl Drive {
    fn start(dir: &std::path::Path) -> Drive {
        let key = Process::new(TRANCHE).args(["key", "dhchap"]).output().unwrap();
        let key = text(&key.stdout).trim().to_owned();
        let entry = |name: &str, role: &str, group: &str| {
            let nqn = nqn(name);
            format!("[[host]]\nnqn = '{nqn}'\n{role}\ndhchap_key = '{key}'\ndhchap_dhgroup = '{group}'\n")
        };
        let tenant = "role = 'tenant'\nnamespaces = [1]";
        let hosts = entry("tenant", tenant, "null")
            + &entry("slow", tenant, "ffdhe8192")
            + &entry("proven", "role = 'admin'", "ffdhe2048");
        std::fs::write(dir.join("hosts.toml"), hosts).unwrap();
        let (socket, hosts) = (at(dir, "socket"), at(dir, "hosts.toml"));
        let any = "127.0.0.1:0";
        let mut command = Process::new(TRANCHE);
        command.args(["serve", "--timing", "off", "--tcp", any, "--unix", &socket, "--hosts", &hosts]);
        command.args(["--ui", any, "--metrics", any, "--nbd", any]);
        Drive { served: Served::run(&mut command), socket, key }
    }

    fn place(&self, name: &str) -> &str {
        let found = self.served.ready.split_whitespace().find_map(|word| word.strip_prefix(name));
        found.unwrap_or_else(|| panic!("{name} in {}", self.served.ready))
    }

    fn host(&self, addr: &str, name: &str) -> Result<Host<SocketTransport>, host::Error> {
        let mut identity = Identity::new(nqn(name));
        identity.subnqn = Some(self.place("nqn=").parse().unwrap());
        identity.chap = Some(self.keys());
        Host::connect(SocketTransport::new(addr.parse().unwrap(), TIMEOUT), &identity)
    }

    fn keys(&self) -> ChapKeys {
        ChapKeys { host: self.key.parse().unwrap(), controller: None }
    }

    fn tcp(&self) -> String {
        format!("tcp://{}", self.place("tcp="))
    }

    /// A connection whose Connect command was answered.
    fn raw(&self, subsystem: &str, name: &str) -> Option<SocketQueue> {
        let stream = TcpStream::connect(self.place("tcp=")).ok()?;
        let mut queue = SocketQueue::over_tcp(stream, Default::default(), TIMEOUT).ok()?;
        let cattr = ConnectAttributes::new();
        let connect = Connect { recfmt: 0, qid: 0, sqsize_z: 31, cattr, kato: u32::MAX };
        let mut data = ConnectData {
            subnqn: subsystem.parse::<Nqn>().unwrap().to_field(),
            hostnqn: nqn(name).to_field(),
            hostid: [9; 16],
            ..ConnectData::default()
        };
        data.cntlid.set(CNTLID_DYNAMIC);
        let command = Command::from(FabricsCommand::Connect(connect));
        queue.submit(command, Data::Out(data.as_bytes().to_vec())).ok()?;
        queue.next(Some(TIMEOUT)).ok()??;
        Some(queue)
    }

    /// A handshake of the largest group is begun, and left.
    fn begin_handshake(&self) -> Option<SocketQueue> {
        let subsystem = self.place("nqn=");
        let mut queue = self.raw(subsystem, "slow")?;
        let parties = Parties { host: nqn("slow"), subsystem: subsystem.parse().unwrap() };
        let mut host = fabric::auth::Host::new(parties, self.keys(), Methods::default(), 1);
        let AuthStep::Send(message) = host.step(None, &mut host::fill_random) else { return None };
        let length = message.len() as u32;
        let send = Authentication { spsp0: 1, spsp1: 1, secp: SECP_NVME, length };
        queue.submit(FabricsCommand::AuthenticationSend(send).into(), Data::Out(message)).ok()?;
        queue.exchange_all().ok()?;
        Some(queue)
    }
}

fn silent(place: &str, number: usize) -> Vec<TcpStream> {
    (0..number).filter_map(|_| TcpStream::connect(place).ok()).collect()
}

#[test]
fn whatever_strangers_and_a_tenant_take_others_get_in() {
    let dir = tempfile::tempdir().unwrap();
    let drive = Drive::start(dir.path());
    let (view, token) = drive.place("ui=http://").split_once("/?token=").unwrap();

    let controllers: Vec<_> = (0..100).map_while(|_| drive.host(&drive.tcp(), "tenant").ok()).collect();
    assert_eq!(controllers.len(), 64, "controllers of one tenant");
    let strangers: Vec<_> =
        (0..SILENT_CONNECTIONS).filter_map(|_| drive.raw(Nqn::DISCOVERY, "stranger")).collect();
    let mut held = Vec::new();
    for place in [drive.place("tcp="), view, drive.place("metrics="), drive.place("nbd=")] {
        held.extend(silent(place, SILENT_CONNECTIONS));
    }
    let handshakes: Vec<_> = (0..HANDSHAKES).filter_map(|_| drive.begin_handshake()).collect();
    assert!(handshakes.len() > HANDSHAKES / 2);

    let mut proven = drive.host(&drive.tcp(), "proven").unwrap();
    assert!(!proven.active_namespaces().unwrap().is_empty());
    let mut administrator = drive.host(&format!("unix://{}", drive.socket), "any").unwrap();
    assert!(administrator.controllers().unwrap().len() > controllers.len());
    let get = |place: &str, path: &str, headers: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {place}\r\n{headers}\r\n");
        testkit::http::send(place, request.as_bytes()).status
    };
    assert_eq!(get(view, "/api/state", &format!("Authorization: Bearer {token}\r\n")), 200);
    assert_eq!(get(view, "/api/state", ""), 401);
    assert_eq!(get(drive.place("metrics="), "/metrics", ""), 200);
    let mut greeting = [0; 18];
    testkit::http::connect(drive.place("nbd=")).read_exact(&mut greeting).unwrap();
    assert!(greeting.starts_with(b"NBDMAGIC"));
    drop((controllers, strangers, held, handshakes));
}
