//! Options that several commands have.

use crate::default_address;
use crate::secret::Secret;
use clap::{Args, ValueEnum};
use host::Addr;
use std::sync::OnceLock;

/// Form of results on standard output.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Tables for people (the default)
    Text,
    /// One JSON document, with the keys of nvme-cli where it has the same command
    Json,
}

/// How requests come from the kernel.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FuseIo {
    /// Through io_uring where the kernel offers it, else through the device.
    Auto,
    /// Through io_uring.
    Uring,
    /// Through the device.
    Device,
}

impl From<FuseIo> for export::FuseTransport {
    fn from(way: FuseIo) -> Self {
        match way {
            FuseIo::Auto => export::FuseTransport::Auto,
            FuseIo::Uring => export::FuseTransport::Uring,
            FuseIo::Device => export::FuseTransport::Device,
        }
    }
}

/// The drive to talk to.
#[derive(Args, Debug, Clone)]
pub struct Target {
    /// Where the drive listens: tcp://HOST:PORT, unix://PATH or pci://PATH, with ?nqn=NQN if there are several [default: as before the command, or
    /// $TRANCHE_ON]
    #[arg(long, value_name = "ADDR")]
    on: Option<Addr>,
    #[command(flatten)]
    pub credentials: Credentials,
}

/// Who connects to a drive, with which keys, and how long it tries.
#[derive(Args, Debug, Clone, Default)]
pub struct Credentials {
    /// Host NQN to connect with; the drive remembers attached namespaces by it [default: that of
    /// /etc/nvme/hostnqn, or a fixed one]
    #[arg(long, value_name = "NQN")]
    pub hostnqn: Option<nvme::Nqn>,
    /// Try so long to connect while the drive cannot be reached, as when it is still starting
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::parse_seconds::<u32>)]
    pub wait: u32,
    /// DH-HMAC-CHAP key of this host ("DHHC-1:…"), or a file that holds it
    #[arg(long, value_name = "KEY|FILE", env = "TRANCHE_DHCHAP_SECRET", hide_env_values = true)]
    pub dhchap_secret: Option<Secret>,
    /// DH-HMAC-CHAP key of the drive, or a file that holds it: the drive must prove who it is
    #[arg(long, value_name = "KEY|FILE", env = "TRANCHE_DHCHAP_CTRL_SECRET", hide_env_values = true)]
    pub dhchap_ctrl_secret: Option<Secret>,
    /// Connect over TLS 1.3 with this pre-shared key ("NVMeTLSkey-1:…"), or that of a file
    #[arg(long, value_name = "KEY|FILE", env = "TRANCHE_TLS_PSK", hide_env_values = true)]
    pub tls_psk: Option<Secret>,
}

/// Where commands without an address of their own look for the drive. Looked for once.
static DEFAULT_DRIVE: OnceLock<Addr> = OnceLock::new();

/// What stands before the command, or in the environment.
pub fn look_for_drives_on(addr: Addr) {
    DEFAULT_DRIVE.get_or_init(|| addr);
}

impl Target {
    /// Where the drive listens.
    pub fn on(&self) -> &Addr {
        self.on.as_ref().unwrap_or_else(|| DEFAULT_DRIVE.get_or_init(default_address::default_drive))
    }
}
