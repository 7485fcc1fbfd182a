//! A core for the unit tests of components: a small drive of flash with two namespaces, and hosts that are connected to it.

use crate::core::{CommandKind, Controller, ControllerId, Core, Cx, Host, InFlight, Origin, Output, Token};
use crate::drive::Drive;
use drive_config::Config;
use ftl::{Io, NoContents};
use media::Nanos;
use nvme::Nqn;

/// NVM Set 1 is flash with four placement handles. Namespaces 1 and 2 lie on it.
const SMALL_DRIVE: &str = r#"
[drive]
write_buffer = "1MiB"
[[set]]
media = "nand"
cell = "tlc"
capacity = "64MiB"
spare = "28%"
channels = 2
dies = 4
planes = 2
nand_page = "4KiB"
pages_per_block = 48
rated_cycles = 3000
placement = { handles = 4 }
timing = { read = "60us", program = "700us", erase = "4ms", channel = "800MB/s" }
[[namespace]]
set = 1
size = "4MiB"
[[namespace]]
set = 1
size = "4MiB"
"#;

/// The core of a new drive without hosts.
pub(crate) fn core() -> Core {
    core_with("", "")
}

/// The same with another text in its configuration.
pub(crate) fn core_with(from: &str, to: &str) -> Core {
    assert!(SMALL_DRIVE.contains(from), "{from:?} is in the configuration");
    Drive::new(Config::from_toml(&SMALL_DRIVE.replacen(from, to, 1)).unwrap()).unwrap().core
}

/// An administrator with this Host Identifier connects; both namespaces are attached.
pub(crate) fn connect(core: &mut Core, host: u8) -> ControllerId {
    let nqn = Nqn::new("nqn.2026-11.test:host").unwrap();
    let host = Host::administrator(nqn, [host; 16], Origin::InProcess);
    let mut controller = Controller::new(host, core.config.max_namespaces);
    [1, 2].into_iter().for_each(|nsid| controller.attach(nsid, true));
    core.controllers.add(controller).unwrap()
}

/// A command of an I/O queue comes in.
pub(crate) fn begin(core: &mut Core, id: ControllerId, io: u32, nsid: u32) -> Token {
    core.begin_busy(Nanos::ZERO);
    let entry = InFlight { controller: id.0, qid: 1, nsid, kind: CommandKind::Other, ..InFlight::FREE };
    core.commands.begin(Io(io), entry).unwrap()
}

/// Calls a component at time zero; returns what it returned, and what it asks of the drive's owner.
pub(crate) fn call<T>(f: impl FnOnce(&mut Cx<'_, NoContents>) -> T) -> (T, Vec<Output>) {
    let mut out = Vec::new();
    let answer = f(&mut Cx { now: Nanos::ZERO, storage: &mut NoContents, out: &mut out });
    (answer, out)
}
