//! The drive under attack, and the hosts of its list.

use crate::common::{Served, TRANCHE, at};
use crate::victim::Victim;
use crate::wire::{Association, Stop, flood};
use fabric::auth::{ChapKey, ChapKeys};
use host::{Addr, Data, Host, Identity, SocketTransport, namespace_create};
use nvme::feature::Select;
use nvme::identify::NamespaceCreate;
use nvme::quota::{Quota, QuotaLimits};
use nvme::{Command, Nqn, Nsid, U16, U64};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Command as Process, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tempfile::TempDir;

/// How long anything may take that is not measured. Whoever waits that long is locked out.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(30);

/// Namespaces: `drive.toml` has the first, [`World::start`] makes the last two.
pub const VICTIM_NSID: Nsid = 1;
pub const FULL_NSID: Nsid = 2;
pub const FORMATTED_NSID: Nsid = 3;
pub const ZONED_NSID: Nsid = 4;
pub const SHARED_NSID: Nsid = 5;
pub const DETACHED_NSID: Nsid = 6;
pub const BYSTANDER_NSID: Nsid = 7;
pub const SENTINEL_NSID: Nsid = 8;
pub const VICTIM_PLACED_NSID: Nsid = 9;
pub const PLACED_NSID: Nsid = 10;

/// The hostile tenant's namespaces.
pub const OWN_NSIDS: [Nsid; 5] = [FULL_NSID, FORMATTED_NSID, ZONED_NSID, SHARED_NSID, PLACED_NSID];
/// Those that do not exist for it.
pub const FOREIGN_NSIDS: [Nsid; 5] =
    [VICTIM_NSID, DETACHED_NSID, BYSTANDER_NSID, SENTINEL_NSID, VICTIM_PLACED_NSID];

const LARGEST_NSID: Nsid = PLACED_NSID;
const BLOCK: u64 = 4096;
/// Hosts on the list that come for the first time, one for each use.
pub const NEWCOMERS: usize = 256;
/// The administrator, the victim and the host with the most expensive authentication share this key. The test of authentication makes random ones.
const KEY: &str = "DHHC-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

/// The program that serves the drive: another build, if one is named.
pub fn program() -> String {
    std::env::var("TRANCHE_HOSTILE_PROGRAM").unwrap_or_else(|_| TRANCHE.to_owned())
}

pub fn nqn(name: &str) -> Nqn {
    Nqn::new(&format!("nqn.2026-11.test:{name}")).unwrap()
}

/// A drive that is served, and everything that has gone wrong on it.
pub struct World {
    served: Served,
    dir: TempDir,
    pub subsystem: Nqn,
    /// Where TCP hosts connect.
    pub tcp: SocketAddr,
    pub view: Page,
    pub metrics: Page,
    admin: Mutex<Host<SocketTransport>>,
    violations: Mutex<BTreeSet<String>>,
    newcomers: Mutex<std::ops::Range<usize>>,
}

/// Where a web page is: its address, and the token that its URL has.
pub struct Page {
    pub at: SocketAddr,
    pub token: Option<String>,
}

impl Page {
    /// Of `http://ADDRESS/?token=TOKEN` or of an address.
    pub fn parse(url: &str) -> Page {
        let (place, token) = match url.trim_start_matches("http://").split_once("?token=") {
            Some((place, token)) => (place, Some(token.to_owned())),
            None => (url.trim_start_matches("http://"), None),
        };
        let place = place.split('/').next().unwrap();
        Page { at: place.parse().unwrap_or_else(|_| panic!("an address in {url}")), token }
    }
}

impl World {
    pub fn start() -> World {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("hosts.toml"), hosts()).unwrap();
        std::fs::write(dir.path().join("drive.toml"), include_str!("drive.toml")).unwrap();
        let (hosts, drive) = (at(dir.path(), "hosts.toml"), at(dir.path(), "drive.toml"));
        let unix = at(dir.path(), "socket");
        let arguments =
            ["serve", "--drive", &drive, "--hosts", &hosts, "--tcp", "127.0.0.1:0", "--unix", &unix];
        // Memory that is touched for the first time can take milliseconds, in a virtual machine in particular.
        let pages = ["--ui", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--prefault", "1GiB"];
        let mut command = Process::new(program());
        let said = std::fs::File::create(dir.path().join("said")).unwrap();
        command.args(arguments).args(pages).stderr(Stdio::from(said));
        let served = Served::run(&mut command);
        let word = |name: &str| {
            let found = served.ready.split_whitespace().find_map(|word| word.strip_prefix(name));
            found.unwrap_or_else(|| panic!("{name} in {}", served.ready)).to_owned()
        };
        let (view, metrics) = (Page::parse(&word("ui=")), Page::parse(&word("metrics=")));
        let (tcp, subsystem) = (word("tcp=").parse().unwrap(), word("nqn=").parse().unwrap());
        let admin = Mutex::new(connect_near(&unix));
        let world = World {
            served,
            dir,
            subsystem,
            tcp,
            view,
            metrics,
            admin,
            violations: Mutex::default(),
            newcomers: Mutex::new(0..NEWCOMERS),
        };
        world.furnish();
        world
    }

    /// Makes the last namespaces, fills the victim's neighbours with data, and gives them quotas.
    fn furnish(&self) {
        let mut admin = self.admin();
        for (nsid, handles) in [(VICTIM_PLACED_NSID, 0..4), (PLACED_NSID, 4..8)] {
            let mut create: NamespaceCreate = namespace_create((64 << 20) / BLOCK, 0, 2);
            create.endgid.set(2);
            create.nphndls.set(4);
            for (place, handle) in create.phndl.iter_mut().zip(handles) {
                *place = U16::new(handle);
            }
            assert_eq!(admin.create_namespace(&create).unwrap(), nsid);
        }
        drop(admin);
        let mut hostile = self.hostile();
        self.admin().detach_namespace(DETACHED_NSID, &[hostile.cntlid]).unwrap();
        self.fill(&mut hostile, FULL_NSID, (256 << 20) / BLOCK);
        self.fill(&mut hostile, PLACED_NSID, (32 << 20) / BLOCK);
        for nsid in [FULL_NSID, FORMATTED_NSID, ZONED_NSID, SHARED_NSID, DETACHED_NSID, PLACED_NSID] {
            self.admin().set_quota(nsid, &small_quota(), true).unwrap();
        }
    }

    /// Fills the start of a namespace of 4 KiB blocks, which has no quota yet or loses it for the time.
    pub fn fill(&self, host: &mut Association, nsid: Nsid, blocks: u64) {
        let quota = self.admin().quota(nsid, Select::CURRENT).unwrap();
        self.admin().set_quota(nsid, &Quota::unlimited(), false).unwrap();
        let mut queue = host.queue(self, 32).unwrap();
        let write = |lba| (Command::write(nsid, lba, 32), Data::Out(vec![7; 131_072]));
        let tally = flood(&mut queue, 32, (0..blocks).step_by(32).map(write), &Stop::default());
        assert_eq!((tally.done, tally.failed), (blocks.div_ceil(32), 0), "filling namespace {nsid}");
        self.admin().set_quota(nsid, &quota, false).unwrap();
    }

    /// What the hostile tenant's namespaces owe to their quotas is forgotten.
    pub fn forgive_debts(&self) {
        let mut admin = self.admin();
        for nsid in OWN_NSIDS {
            let quota = admin.quota(nsid, Select::CURRENT).unwrap();
            admin.set_quota(nsid, &Quota::unlimited(), false).unwrap();
            admin.set_quota(nsid, &quota, false).unwrap();
        }
    }

    /// The administrator's connection over the Unix socket.
    pub fn admin(&self) -> MutexGuard<'_, Host<SocketTransport>> {
        self.admin.lock().unwrap()
    }

    /// Another connection of the administrator over the Unix socket.
    pub fn connect_near(&self) -> Result<Host<SocketTransport>, host::Error> {
        connect(&format!("unix://{}", self.unix()), &Identity::new(nqn("near")))
    }

    pub fn unix(&self) -> String {
        at(self.dir.path(), "socket")
    }

    /// A typed host over TCP.
    pub fn connect_far(&self, identity: &Identity) -> Result<Host<SocketTransport>, host::Error> {
        let identity = Identity { subnqn: Some(self.subsystem), ..identity.clone() };
        connect(&format!("tcp://{}", self.tcp), &identity)
    }

    /// The victim's identity.
    pub fn victim_identity() -> Identity {
        Identity { chap: Some(keys()), ..Identity::new(nqn("victim")) }
    }

    /// The administrator's identity.
    pub fn administrator_identity() -> Identity {
        Identity { chap: Some(keys()), ..Identity::new(nqn("admin")) }
    }

    /// The hostile tenant, with its own name and identifier.
    pub fn hostile(&self) -> Association {
        Association::open(self, &Identity::new(nqn("hostile")), self.source(1), 0)
            .expect("the hostile tenant connects")
    }

    /// Another address of this machine.
    pub fn source(&self, number: u8) -> IpAddr {
        IpAddr::from([127, 0, 1, number.max(1)])
    }

    /// The number of a host of the list that has never connected.
    pub fn newcomer(&self) -> usize {
        self.newcomers.lock().unwrap().next().expect("as many newcomers as rounds")
    }

    /// Notes that a promise was broken.
    pub fn violation(&self, what: impl Into<String>) {
        self.violations.lock().unwrap().insert(what.into());
    }

    pub fn take_violations(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.violations.lock().unwrap())
    }

    /// What the drive said last, for a failure.
    pub fn said(&self) -> String {
        let said = std::fs::read_to_string(self.dir.path().join("said")).unwrap_or_default();
        let lines: Vec<_> = said.lines().rev().take(12).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    pub fn is_alive(&mut self) -> bool {
        self.served.child.try_wait().unwrap().is_none()
    }

    /// A connected socket to a page.
    pub fn page(&self, page: &Page) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&page.at, HANG_TIMEOUT)?;
        stream.set_read_timeout(Some(HANG_TIMEOUT))?;
        Ok(stream)
    }

    /// What an administrator sees of the namespaces that the hostile tenant may not change, and of all quotas.
    pub fn audit(&self, victim: &mut Victim) -> Result<Vec<String>, host::Error> {
        let mut admin = self.admin();
        let mut seen = vec![format!("namespaces {:?}", admin.allocated_namespaces()?)];
        for nsid in 1..=LARGEST_NSID {
            let Quota { limits, weight, burst_us, read_bandwidth: read, write_bandwidth: write, .. } =
                admin.quota(nsid, Select::CURRENT)?;
            let limits = limits.into_bits();
            seen.push(format!(
                "quota {nsid}: limits {limits:#x}, {read} {write}, weight {weight}, burst {burst_us}"
            ));
        }
        for nsid in FOREIGN_NSIDS {
            let identified = admin.identify_allocated(nsid)?;
            let (size, capacity) = (identified.nsze, identified.ncap);
            let (format, nguid) = (identified.flbas.into_bits(), identified.nguid);
            seen.push(format!("namespace {nsid}: {size} {capacity} {format} {nguid:?}"));
        }
        let slots = admin.firmware_slots()?;
        let revisions =
            slots.frs.map(|revision| String::from_utf8_lossy(&revision).trim_matches(['\0', ' ']).to_owned());
        seen.push(format!("firmware {:#x} {}", slots.afi, revisions.join(" ")));
        seen.extend(victim.reservations()?);
        Ok(seen)
    }
}

fn connect_near(path: &str) -> Host<SocketTransport> {
    connect(&format!("unix://{path}"), &Identity::new(nqn("keeper"))).unwrap()
}

fn connect(address: &str, identity: &Identity) -> Result<Host<SocketTransport>, host::Error> {
    let address: Addr = address.parse().unwrap();
    Host::connect(SocketTransport::new(address, HANG_TIMEOUT), identity)
}

pub fn keys() -> ChapKeys {
    ChapKeys { host: KEY.parse::<ChapKey>().unwrap(), controller: None }
}

/// What the hostile tenant's namespaces may use: little next to what the drive can.
fn small_quota() -> Quota {
    let limits = QuotaLimits::new()
        .with_read_bandwidth(true)
        .with_write_bandwidth(true)
        .with_read_commands(true)
        .with_write_commands(true);
    Quota {
        limits,
        read_bandwidth: U64::new(8 << 20),
        write_bandwidth: U64::new(4 << 20),
        read_commands: U64::new(200),
        write_commands: U64::new(200),
        ..Quota::unlimited()
    }
}

/// The list of hosts. `heavy` is a tenant whose authentication is as expensive as can be.
fn hosts() -> String {
    let tenant = |name: &str, namespaces: &[Nsid], more: &str| {
        format!("[[host]]\nnqn = '{}'\nrole = 'tenant'\nnamespaces = {namespaces:?}\n{more}\n", nqn(name))
    };
    let key = format!("dhchap_key = '{KEY}'\n");
    // Without a key, whoever takes its name has its place.
    let mut list = format!("[[host]]\nnqn = '{}'\nrole = 'admin'\n{key}", nqn("admin"));
    list += &tenant("victim", &[VICTIM_NSID, SHARED_NSID, SENTINEL_NSID, VICTIM_PLACED_NSID], &key);
    list += &tenant("hostile", &[&OWN_NSIDS[..], &[DETACHED_NSID]].concat(), "");
    list += &tenant("heavy", &[FULL_NSID], &format!("{key}dhchap_dhgroup = 'ffdhe8192'"));
    list += &tenant("bystander", &[BYSTANDER_NSID], "");
    (0..NEWCOMERS).for_each(|number| list += &tenant(&format!("newcomer{number}"), &[BYSTANDER_NSID], ""));
    list
}
