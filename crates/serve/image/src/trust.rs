//! Directories that nobody but root and the user of this process can change.
//!
//! A user who can change a directory can put a symbolic link where a program expects its file, or exchange the directory. A program
//! that runs as root would then write where that user may not. So every directory on the way to one of this program's own is
//! checked, like the ones that OpenSSH checks with StrictModes, and files are opened relative to the directory:
//!
//! - It belongs to root or to the user of this process. The same holds for symbolic links on the way.
//! - No other user can write to it. Its group may, if it is the group of this process or that of root.
//! - A directory on the way may be writable for all if it is sticky, as `/tmp` is.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Symbolic links on the way to a directory: as many as the kernel follows.
const MAX_LINKS: u32 = 40;
const STICKY_BIT: u32 = 0o1000;
const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// The kernel shows this user where the owner has no number in this user namespace.
const UNMAPPED: u32 = 65534;

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// Another user can change a directory, or a symbolic link, on the way.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// There is something else than a directory.
    #[error("{} is no directory", .0.display())]
    NotADirectory(PathBuf),
    /// There is nothing.
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    /// The host refuses.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the host says.
        source: io::Error,
    },
}

/// Another user can change this.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Untrusted {
    /// The directory or symbolic link.
    pub path: PathBuf,
    /// Who can.
    pub by: ChangedBy,
    /// The user of this process.
    pub user: u32,
}

/// Who else can change a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangedBy {
    /// Its owner.
    Owner(u32),
    /// The members of its group, or users of its access list.
    Group(u32),
    /// Everybody.
    Everybody,
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, user) = (self.path.display(), UserName(self.user));
        match self.by {
            ChangedBy::Owner(owner) => write!(
                f,
                "{path} belongs to {}, who could have this process, which runs as {user}, write to other files: run it as \
                 that user, or name a directory of {user}",
                UserName(owner)
            ),
            ChangedBy::Group(group) => write!(
                f,
                "{path} can be written by other users (group {group}), who could have this process, which runs as {user}, \
                 write to other files: name a directory of {user}, or chmod g-w {path}"
            ),
            ChangedBy::Everybody => write!(
                f,
                "{path} can be written by everybody, who could have this process, which runs as {user}, write to other \
                 files: name a directory of {user}, or chmod o-w {path}"
            ),
        }
    }
}

/// A user for people: name and number.
struct UserName(u32);

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let name = users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(self.0)).then_some(name)
        });
        match name {
            Some(name) => write!(f, "user {name} ({})", self.0),
            None => write!(f, "user {}", self.0),
        }
    }
}

/// A directory that nobody but root and the user of this process can change. Its files are opened relative to it: it stays the
/// same one whatever becomes of its path.
#[derive(Clone, Debug)]
pub struct TrustedDir {
    fd: Arc<OwnedFd>,
    /// Its path, without symbolic links.
    path: PathBuf,
}

impl TrustedDir {
    /// Opens a directory that exists. Symbolic links on the way are followed once.
    ///
    /// # Errors
    /// Others can change it, it is missing or no directory, or what the host says.
    pub fn open(path: &Path) -> Result<Self, TrustError> {
        let walk = walk(path)?;
        if !walk.missing.is_empty() {
            return Err(TrustError::Missing(path.to_owned()));
        }
        Self::open_real(walk.real, Position::End)
    }

    /// Opens a directory, and makes it and those above it that are missing, for this user alone and durably.
    ///
    /// # Errors
    /// As for [`open`](TrustedDir::open).
    pub fn make(path: &Path) -> Result<Self, TrustError> {
        let Walk { mut real, missing } = walk(path)?;
        for name in missing {
            let above = Self::open_real(real.clone(), Position::OnTheWay)?;
            real.push(&name);
            match rustix::fs::mkdirat(&above.fd, &name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(failed("create", &real)(e.into())),
            }
            above.sync().map_err(failed("sync", &above.path))?;
        }
        Self::open_real(real, Position::End)
    }

    fn open_real(path: PathBuf, position: Position) -> Result<Self, TrustError> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let open = || -> io::Result<(OwnedFd, Stat)> {
            let fd = rustix::fs::openat(CWD, &path, flags, Mode::empty())?;
            let stat = rustix::fs::fstat(&fd)?;
            Ok((fd, stat))
        };
        let (fd, stat) = open().map_err(failed("open", &path))?;
        check(&path, &stat, position)?;
        Ok(TrustedDir { fd: Arc::new(fd), path })
    }

    /// Its path, without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file in it. A symbolic link, a FIFO or a device of that name is an error, and none of them is touched.
    ///
    /// # Errors
    /// It is no regular file, or what the host says.
    pub fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // Without waiting: to open a FIFO would end when somebody opens its other end.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let no_file =
            || io::Error::new(ErrorKind::InvalidInput, "it is no regular file: a link, a FIFO or a device");
        let file = match rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => File::from(fd),
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Err(no_file()),
            Err(e) => return Err(e.into()),
        };
        if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
    }

    /// The names of all files whose names are text.
    ///
    /// # Errors
    /// What the host says.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Gives a file another name, in place of what has that name.
    ///
    /// # Errors
    /// What the host says.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// What the host says.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Makes names durable.
    ///
    /// # Errors
    /// What the host says.
    pub fn sync(&self) -> io::Result<()> {
        // The descriptor may be used for that as it is.
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// The permissions of the directory, or of a file in it; none if it cannot be told.
    #[must_use]
    pub fn mode(&self, name: Option<&str>) -> Option<u32> {
        let stat = match name {
            None => rustix::fs::fstat(self.fd.as_fd()),
            Some(name) => rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW),
        };
        stat.ok().map(|stat| stat.st_mode & 0o7777)
    }
}

/// Checks the directory in which a socket or file of this name is to be made. It may be writable for all if it is sticky: then nobody
/// else can exchange what is made there.
///
/// # Errors
/// Others can change it, it is missing or no directory, or what the host says.
pub fn check_directory_of(path: &Path) -> Result<(), TrustError> {
    let dir = directory_of(path);
    match walk(dir)?.missing.is_empty() {
        true => Ok(()),
        false => Err(TrustError::Missing(dir.to_owned())),
    }
}

/// Opens a file to be written, and makes it if it is not there. One that is there must be of root or of this user, and no symbolic link:
/// in a sticky directory anybody may have made it.
///
/// # Errors
/// The directory is not to be trusted, or what the host says.
pub fn open_to_write(path: &Path) -> Result<File, TrustError> {
    check_directory_of(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = || -> io::Result<(OwnedFd, Stat)> {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let fd = rustix::fs::openat(CWD, path, flags, mode)?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok((fd, stat))
    };
    let (fd, stat) = open().map_err(failed("open", path))?;
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid != 0 && stat.st_uid != user {
        return Err(Untrusted { path: path.to_owned(), by: ChangedBy::Owner(stat.st_uid), user }.into());
    }
    Ok(fd.into())
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl From<TrustError> for io::Error {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Io { source, .. } => source,
            TrustError::Missing(_) => io::Error::new(ErrorKind::NotFound, error),
            TrustError::NotADirectory(_) => io::Error::new(ErrorKind::NotADirectory, error),
            TrustError::Untrusted(_) => io::Error::new(ErrorKind::PermissionDenied, error),
        }
    }
}

/// How far a path leads.
struct Walk {
    /// The last directory that is there, without symbolic links.
    real: PathBuf,
    /// What is missing behind it.
    missing: Vec<OsString>,
}

/// Where on the way something is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    OnTheWay,
    End,
}

/// Goes along a path and checks every directory and symbolic link on it.
fn walk(path: &Path) -> Result<Walk, TrustError> {
    let whole = match path.is_absolute() {
        true => path.to_owned(),
        false => std::env::current_dir().map_err(failed("find", path))?.join(path),
    };
    let mut parts = parts(&whole);
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = parts.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        let stat = match rustix::fs::statat(CWD, &next, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => {
                parts.push(part);
                parts.reverse();
                // Nothing leads back out of what is not there.
                if parts.iter().any(|part| part == "..") {
                    return Err(failed("find", path)(ErrorKind::NotFound.into()));
                }
                return Ok(Walk { real, missing: parts });
            }
            Err(e) => return Err(failed("look at", &next)(e.into())),
        };
        check(&next, &stat, Position::OnTheWay)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => real = next,
            FileType::Symlink => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(failed("follow", path)(Errno::LOOP.into()));
                }
                let target = rustix::fs::readlinkat(CWD, &next, Vec::new());
                let target = target.map_err(|e| failed("follow", &next)(e.into()))?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                parts.extend(self::parts(target));
            }
            _ => return Err(TrustError::NotADirectory(next)),
        }
    }
    Ok(Walk { real, missing: Vec::new() })
}

/// The names of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

/// Whether nobody else can change a directory, or where a symbolic link leads.
fn check(path: &Path, stat: &Stat, position: Position) -> Result<(), Untrusted> {
    let user = rustix::process::geteuid().as_raw();
    let by = |by| Err(Untrusted { path: path.to_owned(), by, user });
    let unmapped = position == Position::OnTheWay && stat.st_uid == UNMAPPED && is_in_user_namespace();
    if stat.st_uid != 0 && stat.st_uid != user && !unmapped {
        return by(ChangedBy::Owner(stat.st_uid));
    }
    let sticky = position == Position::OnTheWay && stat.st_mode & STICKY_BIT != 0;
    if sticky || FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Ok(());
    }
    if stat.st_mode & OTHERS_WRITE != 0 {
        return by(ChangedBy::Everybody);
    }
    let own_group = stat.st_gid == 0 || stat.st_gid == rustix::process::getegid().as_raw();
    if stat.st_mode & GROUP_WRITE != 0 && (!own_group || has_access_list(path)) {
        return by(ChangedBy::Group(stat.st_gid));
    }
    Ok(())
}

/// Whether users of the host have no number here. Who of them owns a directory cannot be told then.
fn is_in_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().ne(["0", "0", "4294967295"]))
}

/// Whether an access list says who may write. The bits of the group are those of all its users then.
fn has_access_list(path: &Path) -> bool {
    let mut nothing: [u8; 0] = [];
    rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut nothing[..]).is_ok()
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TrustError + use<> {
    let path = path.to_owned();
    move |source| TrustError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, mknodat, setxattr};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
    use std::time::Instant;

    /// Of nobody in particular.
    const STRANGER: u32 = 1234;

    fn temp() -> (tempfile::TempDir, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("above/dir");
        fs::create_dir_all(&path).unwrap();
        allow(&path, 0o700);
        allow(path.parent().unwrap(), 0o755);
        (temp, path)
    }

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Who else can change it.
    fn by(path: &Path) -> Option<ChangedBy> {
        match TrustedDir::open(path) {
            Ok(_) => None,
            Err(TrustError::Untrusted(untrusted)) => Some(untrusted.by),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn nobody_else_can_change_a_directory_or_those_above() {
        let (_temp, path) = temp();
        let above = path.parent().unwrap();
        assert_eq!(by(&path), None);
        for (mode, end, way) in [
            (0o755, None, None),
            (0o775, None, None),
            (0o777, Some(ChangedBy::Everybody), Some(ChangedBy::Everybody)),
            (0o1777, Some(ChangedBy::Everybody), None),
        ] {
            allow(&path, mode);
            assert_eq!(by(&path), end, "{mode:o}");
            allow(&path, 0o700);
            allow(above, mode);
            assert_eq!(by(&path), way, "{mode:o} on the way");
            assert_eq!(TrustedDir::make(&above.join(format!("{mode:o}"))).is_ok(), way.is_none(), "{mode:o}");
            allow(above, 0o755);
        }
        if !rustix::process::geteuid().is_root() {
            return;
        }
        for place in [path.as_path(), above] {
            chown(place, Some(STRANGER), None).unwrap();
            assert_eq!(by(&path), Some(ChangedBy::Owner(STRANGER)));
            // Only in another user namespace nobody can tell whose a directory on the way is.
            chown(place, Some(UNMAPPED), None).unwrap();
            let told = place == path.as_path() || !is_in_user_namespace();
            assert_eq!(by(&path), Some(ChangedBy::Owner(UNMAPPED)).filter(|_| told));
            chown(place, Some(STRANGER), None).unwrap();
            allow(place, 0o1777);
            assert_eq!(by(&path), Some(ChangedBy::Owner(STRANGER)), "sticky bits are its owner's, too");
            chown(place, Some(0), Some(STRANGER)).unwrap();
            allow(place, 0o755);
            assert_eq!(by(&path), None);
            allow(place, 0o775);
            assert_eq!(by(&path), Some(ChangedBy::Group(STRANGER)));
            chown(place, Some(0), Some(0)).unwrap();
            allow(place, 0o755);
        }
    }

    #[test]
    fn an_access_list_counts_as_others() {
        let (_temp, path) = temp();
        // Version 2: owner rwx, user 1234 rwx, group r-x, mask rwx, others ---.
        let entries =
            [(1, 7, u32::MAX), (2, 7, STRANGER), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)];
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, rights, id) in entries {
            list.extend([tag, 0, rights, 0]);
            list.extend(id.to_le_bytes());
        }
        // Not every file system has them.
        if setxattr(&path, "system.posix_acl_access", &list, XattrFlags::empty()).is_ok() {
            assert!(matches!(by(&path), Some(ChangedBy::Group(_))));
        }
    }

    #[test]
    fn links_are_followed_once_and_checked() {
        let (temp, path) = temp();
        let real = TrustedDir::open(&path).unwrap().path().to_owned();
        let link = temp.path().join("link");
        symlink("above/../above", &link).unwrap();
        assert_eq!(TrustedDir::open(&link.join("dir/.")).unwrap().path(), real);
        let wrong = temp.path().join("round");
        symlink("round", &wrong).unwrap();
        assert!(matches!(TrustedDir::open(&wrong), Err(TrustError::Io { .. })));
        fs::write(temp.path().join("file"), "").unwrap();
        assert!(matches!(TrustedDir::open(&temp.path().join("file/dir")), Err(TrustError::NotADirectory(_))));
        symlink("nowhere", temp.path().join("hanging")).unwrap();
        assert!(matches!(TrustedDir::open(&temp.path().join("hanging")), Err(TrustError::Missing(_))));
        // One that took the place of a directory since it was checked.
        assert!(TrustedDir::open_real(temp.path().join("above"), Position::End).is_ok());
        assert!(TrustedDir::open_real(link.clone(), Position::End).is_err());
        if rustix::process::geteuid().is_root() {
            // Where anybody may make one, whose it is counts.
            allow(temp.path(), 0o1777);
            assert_eq!(by(&link.join("dir")), None);
            lchown(&link, Some(STRANGER), None).unwrap();
            assert_eq!(by(&link.join("dir")), Some(ChangedBy::Owner(STRANGER)));
        }
    }

    #[test]
    fn a_directory_is_made_for_its_owner_alone() {
        let (temp, _) = temp();
        let path = temp.path().join("new/../new/deep");
        assert!(TrustedDir::make(&path).is_err(), "nothing leads out of what is not there");
        let dir = TrustedDir::make(&temp.path().join("new/deep/est")).unwrap();
        assert_eq!(dir.mode(None), Some(0o700));
        allow(&temp.path().join("new"), 0o777);
        assert!(matches!(TrustedDir::make(&temp.path().join("new/other")), Err(TrustError::Untrusted(_))));
        assert!(!temp.path().join("new/other").exists());
    }

    #[test]
    fn only_regular_files_are_opened_and_at_once() {
        let (temp, path) = temp();
        let victim = temp.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, path.join("link")).unwrap();
        symlink("nothing", path.join("hanging")).unwrap();
        fs::create_dir(path.join("directory")).unwrap();
        mknodat(CWD, path.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
        let dir = TrustedDir::open(&path).unwrap();
        let began = Instant::now();
        for name in ["link", "hanging", "directory", "fifo", "socket"] {
            for flags in [OFlags::RDONLY, OFlags::RDWR, OFlags::RDWR | OFlags::CREATE, OFlags::WRONLY] {
                assert!(dir.open_file(name, flags).is_err(), "{name} {flags:?}");
            }
        }
        assert!(began.elapsed().as_secs() < 60);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!path.join("nothing").exists());
        dir.open_file("file", OFlags::RDWR | OFlags::CREATE).unwrap();
        assert_eq!(dir.mode(Some("file")), Some(0o600));
        dir.rename("file", "other").unwrap();
        assert!(dir.names().unwrap().contains(&"other".to_owned()));
        dir.remove("other").unwrap();
    }

    #[test]
    fn what_is_written_is_of_this_user() {
        let (temp, path) = temp();
        allow(temp.path(), 0o1777);
        let file = temp.path().join("file");
        open_to_write(&file).unwrap();
        open_to_write(&file).unwrap();
        symlink(path.join("victim"), temp.path().join("link")).unwrap();
        assert!(open_to_write(&temp.path().join("link")).is_err());
        assert!(!path.join("victim").exists());
        if rustix::process::geteuid().is_root() {
            chown(&file, Some(STRANGER), None).unwrap();
            assert!(matches!(open_to_write(&file), Err(TrustError::Untrusted(_))));
        }
        allow(temp.path(), 0o777);
        let new = temp.path().join("new");
        assert!(matches!(open_to_write(&new), Err(TrustError::Untrusted(_))) && !new.exists());
        assert!(check_directory_of(&file).is_err() && check_directory_of(&path.join("file")).is_err());
    }

    #[test]
    fn an_error_says_whose_it_is_and_what_to_do() {
        let untrusted = |by| Untrusted { path: "/srv/image".into(), by, user: 0 }.to_string();
        let text = untrusted(ChangedBy::Owner(4_000_000_000));
        assert!(
            text.starts_with("/srv/image belongs to user 4000000000, who could have this process, which"),
            "{text}"
        );
        assert!(untrusted(ChangedBy::Everybody).contains("chmod o-w /srv/image"));
        assert!(untrusted(ChangedBy::Group(7)).contains("(group 7)"));
    }
}
