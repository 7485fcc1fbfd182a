//! What is in the mounted directory: a file for each attached namespace, and for a zoned one a directory with a file for each zone.

use crate::access::Access;
use crate::drive::Namespace;
use crate::write_lock::WriteLock;
use crate::zones::ZoneTable;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

/// Inode number of the directory itself, as FUSE has it.
pub const ROOT: u64 = 1;

/// What an inode number stands for.
#[derive(Clone, Debug)]
pub enum Node {
    /// The mounted directory.
    Root,
    /// A namespace as a block file.
    File(Arc<File>),
    /// The directory of a zoned namespace.
    Zoned(Arc<File>),
    /// The directory in it with the files of zones.
    Zones(Arc<File>),
    /// A zone, by its number.
    Zone(Arc<File>, u32),
}

/// A namespace as a file, or as a directory with files.
#[derive(Debug)]
pub struct File {
    /// Inode number; never used twice during a mount. Those of a zoned namespace follow: of the directory `seq`, and of each zone.
    pub ino: u64,
    /// The namespace.
    pub namespace: Namespace,
    name: String,
    /// When it appeared.
    pub since: SystemTime,
    access: Mutex<Access>,
    gone: AtomicBool,
    write_lock: Mutex<WriteLock<u32>>,
    zones: ZoneTable,
}

impl File {
    /// `before` is the file of the same namespace before a power cut or a Format.
    fn new(ino: u64, name: String, namespace: Namespace, before: Option<&File>, access: Access) -> Self {
        let mut access = before.map_or(access, |file| *file.access());
        if namespace.read_only {
            access.mode &= !0o222;
        }
        let zones = ZoneTable::new(access, before.map(|file| &file.zones));
        File {
            ino,
            namespace,
            name,
            since: SystemTime::now(),
            access: Mutex::new(access),
            gone: AtomicBool::new(false),
            write_lock: Mutex::default(),
            zones,
        }
    }

    /// Inode number of the directory `seq` of a zoned namespace.
    pub fn zones_ino(&self) -> u64 {
        self.ino + 1
    }

    /// Inode number of a zone.
    pub fn zone_ino(&self, zone: u32) -> u64 {
        self.ino + 2 + u64::from(zone)
    }

    /// The first inode number after its own.
    fn end_ino(&self) -> u64 {
        self.namespace.zones.map_or(self.ino + 1, |zones| self.zone_ino(zones.count))
    }

    /// What one of its inode numbers stands for.
    fn node(self: &Arc<Self>, ino: u64) -> Option<Node> {
        let file = self.clone();
        match ino.checked_sub(self.ino)? {
            _ if ino >= self.end_ino() => None,
            0 if self.namespace.zones.is_none() => Some(Node::File(file)),
            0 => Some(Node::Zoned(file)),
            1 => Some(Node::Zones(file)),
            after => Some(Node::Zone(file, u32::try_from(after - 2).ok()?)),
        }
    }

    /// What is known of its zones.
    pub fn zones(&self) -> &ZoneTable {
        &self.zones
    }

    /// Name in the directory: that of a Linux block device of the first controller, or one of its own.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Whether the namespace has been detached or deleted since the file was opened.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Permissions and ownership.
    pub fn access(&self) -> MutexGuard<'_, Access> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders writes of partial blocks.
    pub fn write_lock(&self) -> MutexGuard<'_, WriteLock<u32>> {
        self.write_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All files.
#[derive(Debug)]
pub struct FileTable {
    access: Access,
    /// Names that are not those of a Linux block device, by NSID.
    names: BTreeMap<u32, String>,
    table: RwLock<Table>,
}

#[derive(Debug)]
struct Table {
    next_ino: u64,
    by_ino: BTreeMap<u64, Arc<File>>,
    by_nsid: BTreeMap<u32, Arc<File>>,
}

/// What an update of the table has changed.
#[derive(Default, Debug)]
pub struct Changes {
    /// Files that have appeared.
    pub new: Vec<Arc<File>>,
    /// Files that have vanished.
    pub gone: Vec<Arc<File>>,
}

impl FileTable {
    /// No files yet; those to come get these permissions, and these names by NSID, or else that of a Linux block device.
    pub fn new(access: Access, names: BTreeMap<u32, String>) -> Self {
        let table = Table { next_ino: ROOT + 1, by_ino: BTreeMap::new(), by_nsid: BTreeMap::new() };
        FileTable { access, names, table: RwLock::new(table) }
    }

    /// Permissions that files start with.
    pub fn default_access(&self) -> Access {
        self.access
    }

    /// Makes the files those of `namespaces`. A namespace of which anything has changed (size, generation,
    /// identity, protection, lost writes) is another file: what is open of the old one fails from now on.
    pub fn update(&self, namespaces: &[Namespace]) -> Changes {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Changes::default();
        let stays = |file: &Arc<File>| namespaces.contains(&file.namespace);
        changes.gone.extend(table.by_nsid.values().filter(|file| !stays(file)).cloned());
        for file in &changes.gone {
            file.gone.store(true, Ordering::Relaxed);
            table.by_ino.remove(&file.ino);
            table.by_nsid.remove(&file.namespace.nsid());
        }
        for namespace in namespaces {
            if !table.by_nsid.contains_key(&namespace.nsid()) {
                // Neither a power cut nor a Format takes permissions along.
                let same = |file: &&Arc<File>| {
                    let losses = namespace.losses;
                    let device = blockdev::Namespace {
                        generation: namespace.device.generation,
                        ..file.namespace.device
                    };
                    Namespace { losses, device, ..file.namespace } == *namespace
                };
                let before = changes.gone.iter().find(same).map(|file| &**file);
                let name = self.name_of(namespace.nsid());
                let file = Arc::new(File::new(table.next_ino, name, *namespace, before, self.access));
                table.next_ino = file.end_ino();
                table.by_ino.insert(file.ino, file.clone());
                table.by_nsid.insert(namespace.nsid(), file.clone());
                changes.new.push(file);
            }
        }
        changes
    }

    /// What this inode number stands for, unless it is gone.
    pub fn node(&self, ino: u64) -> Option<Node> {
        if ino == ROOT {
            return Some(Node::Root);
        }
        let table = self.read();
        let (_, file) = table.by_ino.range(..=ino).next_back()?;
        file.node(ino)
    }

    /// The namespace with this name.
    pub fn find(&self, name: &str) -> Option<Arc<File>> {
        let named = self.names.iter().find(|(_, own)| *own == name).map(|(nsid, _)| *nsid);
        let nsid = match named {
            Some(nsid) => nsid,
            None => name.strip_prefix("nvme0n")?.parse().ok()?,
        };
        let file = self.read().by_nsid.get(&nsid).cloned()?;
        // `parse` takes "01" and "+1" as well.
        (file.name() == name).then_some(file)
    }

    fn name_of(&self, nsid: u32) -> String {
        self.names.get(&nsid).cloned().unwrap_or_else(|| format!("nvme0n{nsid}"))
    }

    /// All files, by ascending NSID.
    pub fn all(&self) -> Vec<Arc<File>> {
        self.read().by_nsid.values().cloned().collect()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Zones;

    fn namespace(nsid: u32, blocks: u64) -> Namespace {
        Namespace::new(blockdev::Namespace::plain(nsid, blocks, 512))
    }

    fn names_of(files: &[Arc<File>]) -> Vec<String> {
        files.iter().map(|file| file.name()).collect()
    }

    #[test]
    fn namespaces_come_and_go() {
        let files = FileTable::new(Access { mode: 0o600, uid: 0, gid: 0 }, BTreeMap::new());
        let changes = files.update(&[namespace(1, 8), namespace(7, 8)]);
        assert_eq!(names_of(&changes.new), ["nvme0n1", "nvme0n7"]);
        let first = files.find("nvme0n1").unwrap();
        for wrong in ["nvme0n2", "nvme0n01", "nvme0n+1", "nvme0n", "nvme1n1", ""] {
            assert!(files.find(wrong).is_none(), "{wrong}");
        }

        let changes = files.update(&[namespace(1, 16), namespace(7, 8)]);
        assert_eq!(names_of(&changes.new), ["nvme0n1"]);
        assert_eq!(names_of(&changes.gone), ["nvme0n1"]);
        assert!(first.is_gone() && files.node(first.ino).is_none());
        let second = files.find("nvme0n1").unwrap();
        assert!(second.ino != first.ino && !second.is_gone());
        assert_eq!(names_of(&files.all()), ["nvme0n1", "nvme0n7"]);
    }

    #[test]
    fn a_file_after_a_loss_is_another_with_the_same_permissions() {
        let files = FileTable::new(Access { mode: 0o600, uid: 0, gid: 0 }, BTreeMap::new());
        files.update(&[namespace(1, 8)]);
        let first = files.find("nvme0n1").unwrap();
        *first.access() = Access { mode: 0o660, uid: 7, gid: 8 };
        files.update(&[Namespace { losses: 1, ..namespace(1, 8) }]);
        let second = files.find("nvme0n1").unwrap();
        assert!(first.is_gone() && !second.is_gone());
        assert_eq!(*second.access(), Access { mode: 0o660, uid: 7, gid: 8 });
        files.update(&[Namespace { losses: 2, ..namespace(1, 16) }]);
        assert_eq!(files.find("nvme0n1").unwrap().access().mode, 0o600, "another size, another namespace");
    }

    #[test]
    fn inode_numbers_of_a_zoned_namespace_are_its_directories_and_zones() {
        let files = FileTable::new(Access { mode: 0o600, uid: 0, gid: 0 }, BTreeMap::new());
        let zones = Some(Zones { count: 3, size: 8, capacity: 6 });
        files.update(&[namespace(1, 8), Namespace { zones, ..namespace(2, 24) }, namespace(3, 8)]);
        let zoned = files.find("nvme0n2").unwrap();
        let name = |node: Option<Node>| match node {
            Some(Node::Root) => "root".to_owned(),
            Some(Node::File(file)) => file.name(),
            Some(Node::Zoned(file)) => format!("{}/", file.name()),
            Some(Node::Zones(file)) => format!("{}/seq/", file.name()),
            Some(Node::Zone(file, zone)) => format!("{}/seq/{zone}", file.name()),
            None => "none".to_owned(),
        };
        let names: Vec<String> = (ROOT - 1..=9).map(|ino| name(files.node(ino))).collect();
        let expected =
            "none root nvme0n1 nvme0n2/ nvme0n2/seq/ nvme0n2/seq/0 nvme0n2/seq/1 nvme0n2/seq/2 nvme0n3 none";
        assert_eq!(names.join(" "), expected);
        assert_eq!((zoned.zones_ino(), zoned.zone_ino(2)), (zoned.ino + 1, zoned.ino + 4));
    }

    #[test]
    fn files_with_names_of_their_own_are_found_by_these_only() {
        let names = BTreeMap::from([(7, "cache-fast".to_owned())]);
        let files = FileTable::new(Access { mode: 0o600, uid: 0, gid: 0 }, names);
        let changes = files.update(&[namespace(1, 8), namespace(7, 8)]);
        assert_eq!(names_of(&changes.new), ["nvme0n1", "cache-fast"]);
        assert_eq!(files.find("cache-fast").unwrap().namespace.nsid(), 7);
        assert!(files.find("nvme0n7").is_none() && files.find("cache-slow").is_none());
        files.update(&[namespace(1, 8)]);
        assert!(files.find("cache-fast").is_none());
    }

    #[test]
    fn a_protected_namespace_is_a_read_only_file() {
        let files = FileTable::new(Access { mode: 0o660, uid: 0, gid: 0 }, BTreeMap::new());
        files.update(&[Namespace { read_only: true, ..namespace(1, 8) }]);
        assert_eq!(files.find("nvme0n1").unwrap().access().mode, 0o440);
    }
}
