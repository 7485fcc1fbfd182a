//! Preconditioned drives that are kept for the next time.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use anyhow::Result;
use live::Config;
use sim::{
    CheckpointError, Contents, Precondition, Sim,
    precondition::{Origin, preconditioned},
};

/// Bytes that the files of a cache may take together.
pub(super) const MAX_CACHE_BYTES: u64 = 16 << 30;

/// Where a user's preconditioned drives are kept, as the XDG Base Directory Specification has it; nowhere without a home.
pub fn usual_cache() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(caches?.join("tranche"))
}

/// Where preconditioned drives come from.
#[derive(Debug, Default)]
pub struct Cache {
    directory: Option<PathBuf>,
    /// For each drive that is looked for: the first thread makes it, the others wait and find it.
    makers: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
}

impl Cache {
    /// In this directory; in none, every drive is made anew.
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self { directory, makers: Mutex::default() }
    }

    /// A drive that has gone through this, and whether it was kept from an earlier time. `progress` is told, in per mille, how far one
    /// is that has to be made, and says whether to go on.
    ///
    /// # Errors
    /// The drive cannot be so. If the cache cannot be used, that is said, and the drive made.
    pub fn drive(
        &self,
        config: Config,
        contents: Contents,
        how: Precondition,
        seed: u64,
        progress: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(Sim, bool)> {
        if how == Precondition::None {
            return Ok((Sim::new(config, contents)?, false));
        }
        let maker = {
            let key = format!("{config:?} {contents:?} {how:?} {seed}");
            let mut makers = self.makers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(makers.entry(key).or_default())
        };
        let make = |directory: Option<&Path>, progress: &mut dyn FnMut(u32) -> bool| {
            let mut tell = |done| progress(done);
            preconditioned(config.clone(), contents, how, seed, directory, &mut tell)
        };
        let alone = maker.lock().unwrap_or_else(PoisonError::into_inner);
        let (checkpoint, origin) = match make(self.directory.as_deref(), progress) {
            Err(error @ CheckpointError::File { .. }) => {
                tracing::warn!("{error}: the drive is not kept for the next time");
                make(None, progress)?
            }
            made => made?,
        };
        let kept = match &origin {
            Origin::Kept(path) => {
                // It was used last now. If that cannot be said it goes sooner.
                let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
                true
            }
            Origin::Made(Some(path)) => {
                if let Some(directory) = path.parent() {
                    tidy(directory, path, MAX_CACHE_BYTES);
                }
                false
            }
            Origin::Made(None) => false,
        };
        drop(alone);
        Ok((checkpoint.start()?, kept))
    }
}

/// Removes those files of a cache that were used longest ago until the others take no more than `most` bytes; `newest` stays.
fn tidy(directory: &Path, newest: &Path, most: u64) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let file = |entry: fs::DirEntry| {
        let path = entry.path();
        let ours = path.extension().is_some_and(|end| end == "checkpoint" || end == "partial");
        let about = entry.metadata().ok()?;
        (ours && about.is_file() && path != newest).then_some((about.modified().ok()?, about.len(), path))
    };
    let mut files: Vec<_> = entries.flatten().filter_map(file).collect();
    files.sort();
    let newest = fs::metadata(newest).map_or(0, |about| about.len());
    let mut sum = files.iter().fold(newest, |sum, (_, bytes, _)| sum.saturating_add(*bytes));
    for (_, bytes, path) in files {
        if sum <= most {
            break;
        }
        // Another process may have removed it; what cannot be removed does no harm.
        if fs::remove_file(&path).is_ok() {
            tracing::debug!("removed {} from the cache", path.display());
        }
        sum = sum.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (age, name) in
            [(5, "a.checkpoint"), (9, "b.checkpoint"), (7, "c.1.partial"), (99, "other"), (0, "d.checkpoint")]
        {
            fs::write(path(name), [0; 100]).unwrap();
            let when = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
            File::options().write(true).open(path(name)).unwrap().set_modified(when).unwrap();
        }
        let left = |most: u64| {
            tidy(dir.path(), &path("d.checkpoint"), most);
            let names =
                fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(left(400), "a.checkpoint b.checkpoint c.1.partial d.checkpoint other");
        assert_eq!(left(399), "a.checkpoint c.1.partial d.checkpoint other");
        assert_eq!(left(200), "a.checkpoint d.checkpoint other");
        assert_eq!(left(0), "d.checkpoint other", "the newest and what is not ours stay");
    }

    #[test]
    fn a_drive_is_made_once_and_a_damaged_file_again() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("made").join("when needed");
        let cache = Cache::new(Some(inner.clone()));
        let mut config = Config::default_drive();
        config.timing = true;
        let drive = |cache: &Cache, seed| {
            let (sim, kept) =
                cache.drive(config.clone(), Contents::None, Precondition::Fill, seed, &mut |_| true).unwrap();
            (sim.now(), kept)
        };
        let (time, kept) = drive(&cache, 1);
        assert!(!kept);
        assert_eq!(drive(&cache, 1), (time, true));
        assert!(!drive(&cache, 2).1);
        let mut files: Vec<PathBuf> = fs::read_dir(&inner).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(files.len(), 2);
        for path in files.drain(..) {
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }
        assert_eq!(drive(&cache, 1), (time, false));
        assert_eq!(drive(&cache, 1), (time, true));
        assert_eq!(drive(&Cache::new(None), 1), (time, false));
        // A cache that is no directory is said, and does without.
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(drive(&Cache::new(Some(file)), 1), (time, false));
    }
}
