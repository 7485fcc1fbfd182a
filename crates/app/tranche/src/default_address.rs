//! Where a drive listens, and where commands look for it, when no option says so.
//!
//! `tranche serve` without `--unix` and `--tcp` listens on the port of NVMe/TCP, on loopback, and on a Unix socket. Commands
//! look for that socket first: faults and power cuts are refused to hosts on the network.

use host::{Addr, Endpoint};
use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The TCP address of a drive without `--tcp` and `--unix`.
pub const DEFAULT_TCP: &str = "127.0.0.1:4420";

/// The Unix socket of such a drive: `/run/tranche.sock` for root, `tranche.sock` in `$XDG_RUNTIME_DIR` for others. None if this
/// user cannot make files there.
pub fn default_socket() -> Option<PathBuf> {
    socket_of(rustix::process::geteuid().is_root(), std::env::var_os("XDG_RUNTIME_DIR"))
}

/// The directory for sockets of this user's programs: `/run` for root, `$XDG_RUNTIME_DIR` for others. None if this user cannot make files there.
pub fn runtime_directory() -> Option<PathBuf> {
    directory_of(rustix::process::geteuid().is_root(), std::env::var_os("XDG_RUNTIME_DIR"))
}

fn socket_of(root: bool, runtime: Option<OsString>) -> Option<PathBuf> {
    Some(directory_of(root, runtime)?.join("tranche.sock"))
}

fn directory_of(root: bool, runtime: Option<OsString>) -> Option<PathBuf> {
    let directory = match runtime {
        _ if root => PathBuf::from("/run"),
        runtime => PathBuf::from(runtime?),
    };
    let usable =
        directory.is_absolute() && rustix::fs::access(&directory, rustix::fs::Access::WRITE_OK).is_ok();
    usable.then_some(directory)
}

/// Where commands look for a drive: on the Unix socket if something listens there, else at [`DEFAULT_TCP`].
pub fn default_drive() -> Addr {
    drive_at(default_socket().as_deref())
}

fn drive_at(socket: Option<&Path>) -> Addr {
    match socket {
        // A socket that a killed drive left takes no connection.
        Some(path) if UnixStream::connect(path).is_ok() => {
            Addr { endpoint: Endpoint::Unix(path.to_owned()), subnqn: None }
        }
        _ => Addr::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_socket_is_where_this_user_can_make_files() {
        let runtime = tempfile::tempdir().unwrap();
        let of = |directory: &Path| socket_of(false, Some(directory.into()));
        assert_eq!(of(runtime.path()), Some(runtime.path().join("tranche.sock")));
        assert_eq!(of(Path::new("relative")), None);
        assert_eq!(of(&runtime.path().join("missing")), None);
        assert_eq!(socket_of(false, None), None);
        assert_eq!(
            socket_of(true, Some(runtime.path().into())).unwrap_or("/run/tranche.sock".into()),
            Path::new("/run/tranche.sock")
        );
    }

    #[test]
    fn commands_look_on_the_socket_only_if_something_listens_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        assert_eq!(drive_at(None), Addr::default());
        assert_eq!(Addr::default().to_string(), format!("tcp://{DEFAULT_TCP}"));
        assert_eq!(drive_at(Some(&path)), Addr::default());
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(drive_at(Some(&path)).to_string(), format!("unix://{}", path.display()));
        drop(listener);
        assert!(path.exists());
        assert_eq!(drive_at(Some(&path)), Addr::default());
    }
}
