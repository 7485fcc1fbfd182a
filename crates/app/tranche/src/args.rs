//! The command line as types.

use crate::cache_tier::Cache;
use crate::fault::Fault;
use crate::key::MakeKey;
use crate::live_view::ServeUi;
use crate::options::{FuseIo, Output, Target};
use crate::quota::Quota;
use crate::secret::Secret;
use crate::store::Store;
use crate::zone::Zone;
use crate::zone_shape::NewZones;
use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use device::LbaFormat;
use host::Addr;
use live::TcpPort;
use std::path::PathBuf;

/// The version, with the commit where it is known.
const VERSION: &str = env!("TRANCHE_VERSION");

/// An NVMe SSD in software: serve a drive, manage its namespaces, and measure what a layout buys a
/// database
#[derive(Parser, Debug)]
#[command(name = "tranche", version = VERSION, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
    /// How results are printed
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub output: Output,
    /// Say more on standard error; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Say only errors on standard error, and show no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Color what is said on standard error: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub color: ColorChoice,
    /// Where commands look for the drive unless they have an --on of their own: tcp://HOST:PORT, unix://PATH or pci://PATH [default: the Unix
    /// socket of a drive that was served without --unix and --tcp, else tcp://127.0.0.1:4420]
    #[arg(id = "place", long = "on", value_name = "ADDR", env = "TRANCHE_ON")]
    pub on: Option<Addr>,
}

/// What the exit code tells.
const EXIT_CODES: &str = "Exit codes: 0 success, 1 failure, 2 usage, 3 no drive that lets this host in, 4 the drive answers with an error or \
                          lacks the namespace, 5 a check fails. With --output json an error is one JSON object on standard error.";

/// Commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Serve a drive until SIGINT or SIGTERM
    Serve(Box<Serve>),
    /// List, create, attach, detach, delete or format namespaces
    #[command(subcommand)]
    Ns(Box<Ns>),
    /// What the drive says of itself, of a namespace, or of what it has
    Id(Id),
    /// Health, wear and traffic
    Smart(Smart),
    /// Show what a drive does, second by second
    ///
    /// Works with any NVMe/TCP target, as far as its logs tell: rates from SMART, write amplification from the logs of Endurance
    /// Groups, and by namespace with latencies from log D8h of a drive like ours. On a terminal it fills the screen; elsewhere, or with
    /// --count, it prints a table for each interval, with --output json a line.
    Top(Top),
    /// Serve the live view of a drive of another process: a page that shows what it does, and changes it
    ///
    /// It is a host of the drive, so the drive decides what the page may change (docs/howto/live-view.md). The drive has to be one of Tranche.
    Ui(ServeUi),
    /// Show or change what a namespace may use: bandwidth, commands per second, its share beside others
    #[command(subcommand)]
    Quota(Quota),
    /// Look at the zones of a zoned namespace, change their states, append to them
    #[command(subcommand)]
    Zone(Box<Zone>),
    /// Keep files on the zones of a zoned namespace: make a store, mount it, look into it
    #[command(subcommand)]
    Store(Box<Store>),
    /// Put a fast device in front of a slow one, as dm-cache does: make a cache tier, serve it as a block file, look at it, change it
    #[command(subcommand)]
    Cache(Box<Cache>),
    /// Make media, ports or the disk under an image fail
    #[command(subcommand)]
    Fault(Box<Fault>),
    /// Cut the power of a drive, and give it back; a cut that comes at once is over when this returns
    PowerCut(PowerCut),
    /// Erase everything that a drive ever stored, for good, or look how far that is
    #[command(subcommand)]
    Sanitize(Sanitize),
    /// Make a key for a host, in the standard formats
    Key(MakeKey),
    /// Make a firmware image for a drive, to be installed with nvme fw-download and nvme fw-commit
    Firmware(Firmware),
    /// Look at the image of a drive that does not run: check it, or save what is left of it
    #[command(subcommand)]
    Image(Image),
    /// Put a load on a drive, ours or another's, as a fio job file says, and measure it
    Bench(Bench),
    /// Put a load on a drive in virtual time: the same drive, as fast as this machine computes it
    Sim(Box<crate::sim::Options>),
    /// Drives that are built in
    #[command(subcommand)]
    Profile(Profile),
    /// Answer one question by an experiment
    #[command(subcommand)]
    Study(lab_studies::StudyCommand),
    /// Run any command on several layouts of a drive, interleaved, and compare
    Compare(Box<crate::studies::Compare>),
    /// Read the configuration of a MySQL, MariaDB or PostgreSQL server, simulate other layouts of its drive, and say what they would gain
    ///
    /// Layouts: the doublewrite buffer or PostgreSQL's log in the drive's memory, and neither copies nor full-page images on a drive that writes pages atomically.
    /// Each is simulated with several seeds, on the model of InnoDB or of PostgreSQL and a drive of your choice. Nothing is written to any device.
    Advise(Box<crate::advise::Options>),
    /// Say what this machine can do, and what mends the rest
    Doctor(Doctor),
    /// Look at a small drive under load in a browser, for two minutes
    ///
    /// The drive is in memory and gone afterwards. A database, its doublewrite buffer in DRAM, a tenant with a quota and a log in zones work on it. The live
    /// view at 127.0.0.1 shows what the drive does, and changes it: move a quota, cut the power, make a namespace. Needs nothing.
    Demo(Demo),
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command
    Man {
        /// Directory for the pages, made if need be
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Overwrite the pages of an earlier run
        #[arg(long)]
        force: bool,
    },
}

/// `tranche doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Fail (exit code 5) if one of these is missing; names are those of the first column
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = lab_databases::doctor::NAMES)]
    pub require: Vec<String>,
}

/// `tranche demo`.
#[derive(Args, Debug)]
pub struct Demo {
    /// How long
    #[arg(long, default_value = "120s", value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    pub time: u64,
    /// TCP port of the live view, on 127.0.0.1; 0: any that is free
    #[arg(long, default_value_t = 8420, value_name = "PORT")]
    pub port: u16,
}

/// `tranche serve`.
#[derive(Args, Debug)]
pub struct Serve {
    /// The drive: the name of a profile, or a TOML file [default: the profile "default", or what the
    /// image was created with]
    #[arg(long, value_name = "NAME|FILE")]
    pub drive: Option<String>,
    /// The same as --drive
    #[arg(value_name = "DRIVE.toml", hide = true, conflicts_with = "drive")]
    pub old_drive: Option<String>,
    /// Make the new drive without capacitors: a power cut loses only writes that were not flushed (docs/howto/power-cuts.md). Zone Random
    /// Write Areas need capacitors, so the drive has none.
    #[arg(long)]
    pub no_capacitors: bool,
    /// Keep the drive in this directory, made if need be; in memory without
    #[arg(long, value_name = "DIR")]
    pub image: Option<PathBuf>,
    /// Encrypt the drive's namespaces; their keys are wrapped with this drive key ("tranche-drive-key-1:…", as `tranche
    /// key drive` makes it) or that of a file. Nobody can read the drive without it (docs/keys.md)
    #[arg(long, value_name = "KEY|FILE", env = "TRANCHE_DRIVE_KEY", hide_env_values = true)]
    pub drive_key: Option<Secret>,
    /// Accept hosts on this Unix socket (NVMe/TCP PDUs)
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// Accept hosts on this TCP address, IPv4 or [IPv6]; several times for several ports of the drive, numbered from 1.
    /// STATE is a port's Asymmetric Namespace Access state: optimized, non-optimized, inaccessible, persistent-loss or
    /// change (see docs/multipath.md). Without --tcp and --unix the drive listens on 127.0.0.1:4420 and on a Unix socket:
    /// /run/tranche.sock for root, tranche.sock in $XDG_RUNTIME_DIR for others [default state: optimized]
    #[arg(long, value_name = "ADDRESS:PORT[,ana=STATE]", value_parser = tcp_port)]
    pub tcp: Vec<TcpPort>,
    /// Serve a PCI device (vfio-user) for a virtual machine on this Unix socket; several times for several machines, each with a controller of its
    /// own (docs/howto/vm.md). Who can open the socket may do everything
    #[arg(long, value_name = "PATH")]
    pub pci: Vec<PathBuf>,
    /// Let only the hosts of this file connect over TCP, with their roles and keys (docs/access.md). SIGHUP reads it again
    #[arg(long, value_name = "HOSTS.toml")]
    pub hosts: Option<PathBuf>,
    /// Take TCP connections over TLS 1.3 only, with the hosts' pre-shared keys
    #[arg(long, requires = "hosts")]
    pub tls: bool,
    /// Serve metrics to Prometheus on this address, at http://ADDRESS:PORT/metrics (docs/howto/metrics.md). There is no authentication: who can
    /// connect can read them, and change nothing
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<String>,
    /// Serve the attached conventional namespaces over NBD on this TCP address or Unix socket, as nvme0n1 and so on; several times for several
    /// places (docs/howto/nbd.md). There is no authentication: who can connect can read and write
    #[arg(long, value_name = "ADDRESS:PORT|PATH", value_parser = crate::served_nbd::place)]
    pub nbd: Vec<export::nbd::Place>,
    /// Make a block device /dev/ublkbN of each attached conventional namespace, through the kernel's driver ublk_drv, as root (docs/howto/ublk.md).
    /// The ready line says which they are
    #[arg(long)]
    pub ublk: bool,
    /// Serve the live view on this address: a page that shows what the drive does, and changes it (docs/howto/live-view.md). The ready line has the
    /// page's address with the token that it asks for
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub ui: Option<String>,
    /// The token that the live view asks for, instead of a new one that is printed: a file with 16 to 256 letters, digits, and the signs - _ . ~
    #[arg(long, value_name = "FILE", requires = "ui")]
    pub ui_token: Option<PathBuf>,
    /// Reports of studies that the live view shows: a directory with NAME/report.html [default: out, if it is there]
    #[arg(long, value_name = "DIR", requires = "ui")]
    pub ui_studies: Option<PathBuf>,
    /// Mount a directory with a block file for each attached namespace (nvme0n1 …). A zoned namespace is a directory with a file for each
    /// zone (nvme0n2/seq/0 …), as zonefs has them
    #[arg(long, value_name = "DIR")]
    pub fuse: Option<PathBuf>,
    /// Attach a loop device to each block file; their nodes are printed on standard error. Zoned namespaces get none
    #[arg(long = "loop", requires = "fuse")]
    pub loops: bool,
    /// Threads that take requests from the kernel [default: 2 through /dev/fuse, one for each processor through io_uring]
    #[arg(long, value_name = "N", requires = "fuse", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub fuse_threads: Option<u16>,
    /// How requests come from the kernel: through io_uring, which is faster for small requests, or through /dev/fuse, which is faster for large ones
    #[arg(long, value_name = "auto|uring|device", default_value = "auto", requires = "fuse")]
    pub fuse_io: FuseIo,
    /// Whether operations take their modelled time; off is as fast as the machine [default: as the
    /// drive's TOML says]
    #[arg(long, value_name = "on|off")]
    pub timing: Option<Switch>,
    /// What a new drive goes through first, in virtual time: nothing, being written once, or random writes
    /// until write amplification is steady
    #[arg(long, value_name = "none|fill|steady", default_value = "none", hide_possible_values = true)]
    pub precondition: Precondition,
    /// Seed of the preconditioning
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write down each command of the hosts in this new file, to be replayed (docs/loads.md); with --timing on also
    /// what the drive takes for it
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Never sleep: shortest latency for one busy processor
    #[arg(long)]
    pub poll: bool,
    /// Touch SIZE of memory after the start, an eighth of the available memory at most, so that first writes do not wait for this
    /// machine to clear it. A thread of low priority does it; a load that begins meanwhile on the same processor is slower. A drive with
    /// --image needs none
    #[arg(long, value_name = "SIZE", default_value = "0B", value_parser = units::parse_size)]
    pub prefault: u64,
    /// Do not wait for this machine's disk on Flush and FUA: faster, but if the machine (not just the
    /// drive's process) goes down, what was flushed may be lost
    #[arg(long, requires = "image")]
    pub no_host_sync: bool,
    /// Do not scrub the image. Otherwise the drive reads all of its data in the background and compares checksums, and
    /// names damage on standard error (docs/promises.md)
    #[arg(long, requires = "image")]
    pub no_scrub: bool,
    /// Read at most this fast for the scrub; it reads an eighth of the time at most, too
    #[arg(long, value_name = "RATE", default_value = "4MiB/s", value_parser = rate, requires = "image", conflicts_with = "no_scrub")]
    pub scrub_rate: u64,
    /// Begin to scrub again so long after the last begin, or at the end if it takes longer
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = units::parse_hours::<u32>, requires = "image", conflicts_with = "no_scrub")]
    pub scrub_period: u32,
}

impl Serve {
    /// The drive that was asked for.
    pub fn drive(&self) -> Option<&str> {
        self.drive.as_deref().or(self.old_drive.as_deref())
    }
}

/// On or off.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// State of a new drive.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precondition {
    /// Empty.
    None,
    /// Written once.
    Fill,
    /// In steady state.
    Steady,
}

/// `tranche ns`.
#[derive(Subcommand, Debug)]
pub enum Ns {
    /// List namespaces
    List {
        /// Only those that are attached to this host
        #[arg(long)]
        attached: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Create a namespace and print its identifier
    Create {
        /// NVM Set, which is the medium; 0 is the drive's default
        #[arg(long, alias = "set", value_name = "N", default_value_t = 0)]
        nvm_set: u16,
        /// Size, such as 64MiB or 3.84TB; of a zoned namespace a whole number of zones
        #[arg(long, value_name = "SIZE", value_parser = size)]
        size: u64,
        /// LBA format: bytes of a logical block (512), with metadata (4096+8). Where several formats have these, with the bits of the guard
        /// and of the storage tag (4096+16:64:16) [default: the drive's first format]
        #[arg(long, value_name = "FORMAT")]
        lba: Option<LbaFormat>,
        #[command(flatten)]
        protection: Protection,
        #[command(flatten)]
        zones: NewZones,
        /// Attach it as `ns attach` does
        #[arg(long)]
        attach: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Attach a namespace
    Attach(Attachment),
    /// Detach a namespace
    Detach {
        #[command(flatten)]
        which: Attachment,
        /// Detach it even if a program of this machine has the store on it open
        #[arg(long)]
        force: bool,
    },
    /// Delete a namespace and everything on it
    Delete {
        /// Namespace identifier
        nsid: u32,
        /// Delete it even if other hosts, or block files, have it attached
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Format a namespace: everything on it is lost
    Format {
        /// Namespace identifier
        nsid: u32,
        /// What becomes of the old contents: they are gone for the host only (none), erased from the media (user-data), or their
        /// key is replaced (crypto)
        #[arg(long, value_enum, default_value_t = Erase::None)]
        ses: Erase,
        /// LBA format, as `ns create` has it [default: as it is, with its protection information unless --pi is given]
        #[arg(long, value_name = "FORMAT")]
        lba: Option<LbaFormat>,
        #[command(flatten)]
        protection: Protection,
        #[command(flatten)]
        target: Target,
    },
}

/// Secure Erase Settings of Format NVM; nvme-cli's numbers are names, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Erase {
    /// The host reads zeros.
    #[value(alias = "0")]
    None,
    /// User Data Erase: nothing of it stays on the media.
    #[value(alias = "1")]
    UserData,
    /// Cryptographic Erase: the namespace gets a new key. The drive needs a drive key.
    #[value(alias = "2")]
    Crypto,
}

/// `tranche sanitize`.
#[derive(Subcommand, Debug)]
pub enum Sanitize {
    /// Erase every block of the media
    Block(StartSanitize),
    /// Replace the keys of all namespaces, and erase what was deallocated
    Crypto(StartSanitize),
    /// Take the time of overwriting the media with a pattern, and erase them. What is deallocated at the end reads as zeros,
    /// not as the pattern
    Overwrite {
        /// How many times: 1 to 16
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
        passes: u8,
        /// The pattern of 32 bits, in hexadecimal digits
        #[arg(long, value_name = "HEX", default_value = "0", value_parser = pattern)]
        pattern: u32,
        /// Invert the pattern between passes
        #[arg(long)]
        invert: bool,
        #[command(flatten)]
        start: StartSanitize,
    },
    /// Leave the state after a sanitize operation that has failed, if it was started with --unrestricted
    ExitFailure(Target),
    /// Tell how the most recent sanitize operation ended, or how far it is (exit code 5 if it has failed)
    Status(Target),
}

/// What all sanitize operations have in common.
#[derive(Args, Debug)]
pub struct StartSanitize {
    /// Yes, everything on all namespaces is to be lost
    #[arg(long)]
    pub force: bool,
    /// The drive may be used again after a failure (AUSE)
    #[arg(long)]
    pub unrestricted: bool,
    /// Come back when the operation has begun, and not when it is over
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub target: Target,
}

/// Up to eight hexadecimal digits.
fn pattern(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u32::from_str_radix(digits, 16)
        .map_err(|_| "expected up to eight hexadecimal digits, such as DEADBEEF".to_owned())
}

/// Protection information of a namespace.
#[derive(Args, Debug)]
pub struct Protection {
    /// Type of protection information in the metadata: 1 to 3; 0 is none [default: 0]
    #[arg(long, value_name = "TYPE", value_parser = clap::value_parser!(u8).range(..=3))]
    pub pi: Option<u8>,
    /// It is at the beginning of the metadata instead of at its end
    #[arg(long, requires = "pi")]
    pub pi_first: bool,
}

/// Which namespace and which controllers.
#[derive(Args, Debug)]
pub struct Attachment {
    /// Namespace identifier
    pub nsid: u32,
    /// Controller identifiers [default: every controller of this host, that is of this command's host NQN
    /// and of the block files that the drive exports]
    #[arg(long, value_name = "ID,…", value_delimiter = ',', conflicts_with = "host")]
    pub controllers: Vec<u16>,
    /// Every controller of the host with this NQN
    #[arg(long, value_name = "NQN")]
    pub host: Option<nvme::Nqn>,
    #[command(flatten)]
    pub target: Target,
}

/// `tranche id`.
#[derive(Args, Debug)]
pub struct Id {
    #[command(flatten)]
    pub of: IdOf,
    #[command(flatten)]
    pub target: Target,
}

/// What `tranche id` shows: the controller, or one of these.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub struct IdOf {
    /// One namespace (nvme id-ns)
    #[arg(long, alias = "namespace", value_name = "NSID")]
    pub nsid: Option<u32>,
    /// The zones of one zoned namespace (nvme zns id-ns)
    #[arg(long, value_name = "NSID")]
    pub zns: Option<u32>,
    /// The NVM Sets, that is the media (nvme id-nvmset)
    #[arg(long)]
    pub sets: bool,
    /// The Endurance Groups (nvme id-endurance-group-list)
    #[arg(long)]
    pub groups: bool,
    /// How namespaces are reached through this port: the ANA log (nvme ana-log)
    #[arg(long)]
    pub ana: bool,
    /// The log pages that the drive has (nvme supported-log-pages)
    #[arg(long)]
    pub logs: bool,
}

/// `tranche smart`.
#[derive(Args, Debug)]
pub struct Smart {
    #[command(flatten)]
    pub of: SmartOf,
    #[command(flatten)]
    pub target: Target,
}

/// What `tranche smart` shows: the SMART log, or one of these.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub struct SmartOf {
    /// Of one namespace: exact bytes, and latencies (vendor log D8h)
    #[arg(long, alias = "namespace", value_name = "NSID")]
    pub nsid: Option<u32>,
    /// Of one NVM Set: its Endurance Group log (nvme endurance-log)
    #[arg(long, alias = "set", value_name = "N")]
    pub nvm_set: Option<u16>,
    /// The OCP extended SMART log: exact bytes, wear, bad blocks (nvme ocp smart-add-log)
    #[arg(long)]
    pub ocp: bool,
    /// Memblaze's additional SMART log (nvme memblaze smart-log-add); docs/features.md says which values of vendors' logs, and
    /// the temperature, are constants
    #[arg(long)]
    pub memblaze: bool,
}

/// `tranche power-cut`.
#[derive(Args, Debug)]
pub struct PowerCut {
    /// Let so many media operations pass first; 0 cuts at once
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub after: u32,
    /// How long there is no power
    #[arg(long, alias = "off-ms", value_name = "TIME", default_value = "100ms", value_parser = units::parse_millis::<u32>)]
    pub off: u32,
    /// Seed of the media's faults (tranche fault) from now on; 0 keeps theirs
    ///
    /// What a cut tears is no chance: it is all that is under way.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u32,
    /// The capacitors fail too: what they would save is lost
    ///
    /// A drive with capacitors ends a Flush when data is in its write buffer. So flushed data is lost, too, if it was not on flash yet. To test whether a
    /// program flushes, take a drive without capacitors (power_loss_protection = false), and cut its power without this.
    #[arg(long)]
    pub no_plp: bool,
    #[command(flatten)]
    pub target: Target,
}

/// `tranche firmware`.
#[derive(Args, Debug)]
pub struct Firmware {
    /// The firmware revision that the drive takes on with it: 1 to 8 printable ASCII characters
    pub revision: String,
    /// The file to write, which must not exist
    #[arg(long, alias = "out", value_name = "FILE")]
    pub file: PathBuf,
    /// A file of up to 1 MiB to carry along, which the drive does not interpret
    #[arg(long, alias = "contents", value_name = "FILE")]
    pub payload: Option<PathBuf>,
}

/// `tranche image`.
#[derive(Subcommand, Debug)]
pub enum Image {
    /// Open an image without changing it, read every page that it holds, and tell what is damaged. The exit code is 0
    /// if nothing is, 5 if something is, 1 if it cannot be looked at
    Check {
        /// The image
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Save the namespaces of an image that cannot be opened, or has damaged blocks, as raw files: the newest state that
    /// can be read. The image is not changed. The exit code is 0 if everything is saved, 5 if something is not, 1 if nothing
    /// can be
    Salvage {
        /// The image
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Where the files go: a directory that does not exist, or is empty
        #[arg(value_name = "OUT")]
        out: PathBuf,
        /// The drive key, or a file that holds it, as for `tranche serve`. Without it encrypted namespaces are left out
        #[arg(long, value_name = "KEY|FILE", env = "TRANCHE_DRIVE_KEY", hide_env_values = true)]
        drive_key: Option<Secret>,
    },
    /// Give the drive of a copied image its own identity. Hosts can then tell it from the original. Namespaces get new
    /// identifiers (NGUID, UUID). Contents, keys and settings stay. The image must not be in use
    Renew {
        /// The image
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Serial number of the drive, up to 20 characters [default: the original's]
        #[arg(long, value_name = "SERIAL")]
        serial: Option<String>,
        /// NQN of the drive [default: the original's]. Linux takes drives of one NQN for one drive with several controllers
        #[arg(long, value_name = "NQN")]
        nqn: Option<String>,
        /// The drive key, or a file that holds it, as for `tranche serve`. A drive with encrypted namespaces needs it
        #[arg(long, value_name = "KEY|FILE", env = "TRANCHE_DRIVE_KEY", hide_env_values = true)]
        drive_key: Option<Secret>,
    },
}

/// `tranche bench`.
#[derive(Args, Debug)]
pub struct Bench {
    /// What to do, as a fio job file (docs/bench.md says which options mean what). A job that writes or trims
    /// overwrites the namespace or device without asking, as fio does
    #[arg(value_name = "JOB.fio")]
    pub job: PathBuf,
    /// Namespace of all jobs [default: those that they name (filename=nvme0n2), else the first that is attached to this host]
    #[arg(long, value_name = "NSID")]
    pub nsid: Option<u32>,
    /// Run on a block device, or on a regular file that exists, instead of a drive. Its size stays as it is. A device that is
    /// mounted or in use is refused
    #[arg(long, value_name = "PATH", conflicts_with_all = ["nsid", "on"])]
    pub device: Option<PathBuf>,
    /// Never sleep while waiting for the drive: a whole processor for each job
    #[arg(long)]
    pub poll: bool,
    #[command(flatten)]
    pub target: Target,
}

/// `tranche top`.
#[derive(Args, Debug)]
pub struct Top {
    /// Time between two looks at the logs
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::parse_time)]
    pub interval: u64,
    /// Print so many intervals and end
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    #[command(flatten)]
    pub target: Target,
}

/// `tranche profile`.
#[derive(Subcommand, Debug)]
pub enum Profile {
    /// List the profiles
    List,
    /// Print a profile's TOML
    Show {
        /// Name of a profile
        name: String,
    },
    /// Check a profile or a drive's TOML file, say what it makes, and whether it is as fast as its data sheet
    ///
    /// A drive with a data sheet ([datasheet] in its TOML, docs/drive-toml.md) is measured in virtual time: its sequential
    /// figures after it was written once in order, the others after it was then written at random until its write
    /// amplification was steady. The command fails (exit code 5) if a figure is off by more than 10 %. Without a data sheet
    /// nothing is measured. The command says so and succeeds.
    ///
    /// With --disksim and --trace it compares a model of a hard disk with measured requests of the real one (docs/disks.md).
    Check {
        /// Name of a profile, or a file
        #[arg(required_unless_present = "disksim")]
        name: Option<String>,
        /// Check a model of a hard disk in place of a drive: its DiskSim parameter file (.diskspecs), which sources others
        #[arg(
            long,
            value_name = "FILE",
            requires = "trace",
            conflicts_with_all = ["name", "dry_run", "full", "seed"]
        )]
        disksim: Option<PathBuf>,
        /// Measured requests of the real disk
        #[arg(long, value_name = "FILE", requires = "disksim")]
        trace: Option<PathBuf>,
        /// Only say what it makes: measure nothing
        #[arg(long)]
        dry_run: bool,
        /// Measure the whole drive. Else a drive of more than 32 GiB is measured shortened: it has fewer pages in each
        /// block, and an erase takes less time in proportion, so that its rates and latencies are those of the whole drive
        #[arg(long, conflicts_with = "dry_run")]
        full: bool,
        /// Seed of everything random
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Measure a device, and write a profile of it
    ///
    /// It reads a block device, a file or a namespace of an NVMe/TCP target: one read at a time, in order, and at random with 4 to 256
    /// outstanding. The model's parameters follow from that, and the number of its dies is searched for in virtual time. The profile has
    /// the measured figures as its data sheet. Nothing is written to the device without --overwrite-device, and then the profile's
    /// writes are assumptions (docs/howto/fit.md).
    Fit(Box<Fit>),
}

/// `tranche profile fit`.
#[derive(Args, Debug)]
pub struct Fit {
    /// Block device or regular file that is measured; one that is mounted may only be read [default: a namespace of --on]
    #[arg(value_name = "DEVICE", conflicts_with_all = ["nsid", "on"])]
    pub device: Option<PathBuf>,
    /// Namespace of the drive at --on [default: the first that is attached to this host]
    #[arg(long, value_name = "NSID")]
    pub nsid: Option<u32>,
    /// File for the profile
    #[arg(long, alias = "out", value_name = "FILE", default_value = "fitted.toml")]
    pub file: PathBuf,
    /// Overwrite the file of the profile
    #[arg(long)]
    pub force: bool,
    /// How long each load is on the device
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::parse_seconds::<u32>)]
    pub seconds: u32,
    /// Measure writes as well: ALL DATA OF THE DEVICE IS LOST. It is written once in order, and then at random for --settle
    #[arg(long)]
    pub overwrite_device: bool,
    /// How long the device is written at random before that counts
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = units::parse_seconds::<u32>, requires = "overwrite_device")]
    pub settle: u32,
    /// Seed of everything random in virtual time
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub target: Target,
}

/// A TCP address, with the port's ANA state behind it.
fn tcp_port(text: &str) -> Result<TcpPort, String> {
    let mut parts = text.split(',');
    let address = parts.next().unwrap_or_default();
    if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
        return Err(format!(
            "'{address}' has no port from 0 to 65535: expected ADDRESS:PORT, as in 127.0.0.1:4420"
        ));
    }
    let mut port = TcpPort::from(address);
    for part in parts {
        let state = part.strip_prefix("ana=").ok_or_else(|| {
            let key = part.split('=').next().unwrap_or_default();
            let near = units::did_you_mean(key, ["ana"]);
            format!("'{part}' is no setting of a port: expected ADDRESS:PORT or ADDRESS:PORT,ana=STATE{near}")
        })?;
        port.ana = crate::fault::ana_state(state)?;
    }
    Ok(port)
}

/// A size above 0.
fn size(text: &str) -> Result<u64, String> {
    more_than_none(units::parse_size(text).map_err(|wrong| wrong.to_string())?)
}

/// A rate above 0; without `/s` it is meant, too.
fn rate(text: &str) -> Result<u64, String> {
    let rate = units::parse_size(text).or_else(|_| units::parse_rate(text));
    more_than_none(rate.map_err(|wrong| wrong.to_string())?)
}

fn more_than_none(number: u64) -> Result<u64, String> {
    if number == 0 { Err("it must be more than 0".to_owned()) } else { Ok(number) }
}
