//! Finding files by paths. All paths begin at the top of the store, with or without a slash.

use store::{FileKind, Ino, Stat};

use crate::failure::{Code, Failure};
use crate::opened::Inner;

/// Symbolic links that one path may have.
const MOST_LINKS: usize = 40;

fn about(path: &[u8], failure: impl Into<Failure>) -> Failure {
    let failure = failure.into();
    Failure { text: format!("{}: {}", String::from_utf8_lossy(path), failure.text), ..failure }
}

/// A path as the names on it, the last one first.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.rev().map(<[u8]>::to_vec).collect()
}

impl Inner {
    /// What a path names. Symbolic links are followed.
    pub(crate) fn find(&self, path: &[u8]) -> Result<Stat, Failure> {
        self.walk(names(path)).map_err(|failure| about(path, failure))
    }

    fn walk(&self, mut names: Vec<Vec<u8>>) -> Result<Stat, Failure> {
        let mut at = Ino::ROOT;
        let mut links = 0;
        while let Some(name) = names.pop() {
            match name.as_slice() {
                b"." => continue,
                b".." => {
                    at = self.store.parent(at)?;
                    continue;
                }
                _ => {}
            }
            let found = self.store.lookup(at, &name)?;
            if found.kind != FileKind::Symlink {
                at = found.ino;
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(Failure::invalid("too many symbolic links"));
            }
            let target = self.store.target(found.ino)?;
            if target.starts_with(b"/") {
                at = Ino::ROOT;
            }
            names.extend(self::names(&target));
        }
        Ok(self.store.stat(at)?)
    }

    /// The directory of a path, and the last name on it.
    pub(crate) fn parent(&self, path: &[u8]) -> Result<(Ino, Vec<u8>), Failure> {
        let mut names = names(path);
        if names.is_empty() {
            return Err(about(path, Failure::new(Code::IsDirectory, "this is the top directory")));
        }
        let last = names.remove(0);
        let directory = self.walk(names).map_err(|failure| about(path, failure))?;
        Ok((directory.ino, last))
    }
}

/// Says which path an operation failed for.
pub(crate) fn at<T>(path: &[u8], result: Result<T, store::Error>) -> Result<T, Failure> {
    result.map_err(|error| about(path, error))
}
