//! Layouts: a drive, its namespaces, what is on them and where that is mounted.
//!
//! ```toml
//! description = "data on flash, doublewrite buffer on DRAM"
//! drive = "pblaze5-910-lab"      # a profile's name or a drive's TOML file; without it, the drive of plain `tranche serve`
//! precondition = "steady"        # none (default), fill: every block written once, steady: overwritten at random after that
//!
//! [override]                     # keys of the drive's TOML that differ; tables are merged, other values replaced
//! # …
//!
//! [[namespace]]
//! name = "data"                  # names TRANCHE_MOUNT_DATA and TRANCHE_DEV_DATA
//! set = 1                        # NVM Set: the medium
//! size = "1500MiB"               # or "rest": all that the set has left
//! lba = 4096                     # logical block size (default)
//! filesystem = "xfs"             # xfs, ext4, store (on zones: the namespace is a zoned one) or raw (default)
//! mkfs = ["-d", "extszinherit=4"] # further arguments: of mkfs, or of `tranche store format`
//! mount = ["noatime"]            # options: of mount, or of `tranche store mount` ("placement=none")
//!
//! [database]                     # a private server for the command, if wanted: see [`Database`]
//! engine = "postgresql"
//! data = "data"                  # the namespace with its data directory (default)
//! full_page_writes = true
//! ```

mod database;
mod size;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    database::{Database, Engine},
    size::Size,
};
use lab_report::{
    input::read_text,
    profile::{self, Profile},
};

/// A layout, as in its TOML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Its name: that of its file without extension.
    #[serde(skip)]
    pub name: String,
    /// What it is, in a sentence.
    #[serde(default)]
    pub description: String,
    /// Profile or TOML file of the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "the layout names none"))]
    pub drive: Option<String>,
    /// What the namespaces hold before they are used.
    #[serde(default)]
    pub precondition: Precondition,
    /// Keys of the drive's TOML that differ ([drive-toml.md](drive-toml.md)).
    #[serde(default, rename = "override", skip_serializing_if = "toml::Table::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>", extend("absent" = "there are none"))]
    pub overrides: toml::Table,
    /// The namespaces, in the order in which they are created.
    #[serde(rename = "namespace")]
    pub namespaces: Vec<Namespace>,
    /// A private database server for the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "there is none"))]
    pub database: Option<Database>,
    /// Where relative paths start.
    #[serde(skip)]
    base: PathBuf,
}

/// What the flash holds before it is used: a fresh drive has no garbage to collect and flatters itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// Every block was written once.
    Fill,
    /// After that, blocks were overwritten at random, as many bytes as the namespace has, so that garbage
    /// collection runs from the first write on.
    Steady,
}

/// A namespace of a layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Name: lower case letters, digits and underscores.
    pub name: String,
    /// NVM Set, from 1.
    #[serde(default = "first_set")]
    pub set: u16,
    /// Size with its unit, or rest: all that the set has left.
    #[schemars(with = "String")]
    pub size: Size,
    /// Logical block size.
    #[serde(default = "default_lba")]
    #[schemars(extend("unit" = "bytes"))]
    pub lba: u32,
    /// What is made on it.
    #[serde(default)]
    pub filesystem: Filesystem,
    /// Further arguments of mkfs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("absent" = "there are none"))]
    pub mkfs: Vec<String>,
    /// Mount options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("absent" = "there are none"))]
    pub mount: Vec<String>,
}

/// A file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Filesystem {
    /// None: the block device is used as it is.
    #[default]
    Raw,
    /// XFS.
    Xfs,
    /// ext4.
    Ext4,
    /// A store on the zones of a zoned namespace (`tranche store`).
    Store,
}

fn first_set() -> u16 {
    1
}

fn default_lba() -> u32 {
    4096
}

impl Namespace {
    /// One without a file system.
    pub fn raw(name: &str, set: u16, size: Size) -> Self {
        Self {
            name: name.into(),
            set,
            size,
            lba: default_lba(),
            filesystem: Filesystem::Raw,
            mkfs: Vec::new(),
            mount: Vec::new(),
        }
    }

    /// The name as it appears in `TRANCHE_DEV_…`.
    pub fn variable(&self) -> String {
        self.name.to_ascii_uppercase()
    }
}

impl Layout {
    /// One on the drive of this profile (or of plain `tranche serve`).
    pub fn new(name: &str, drive: Option<String>, namespaces: Vec<Namespace>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            drive,
            precondition: Precondition::None,
            overrides: toml::Table::new(),
            namespaces,
            database: None,
            base: PathBuf::new(),
        }
    }

    /// Reads a layout's file.
    ///
    /// # Errors
    /// Says which file, which line and what is allowed.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text(path).with_context(|| format!("reading the layout {}", path.display()))?;
        let mut layout =
            Self::from_toml(&text).with_context(|| format!("in the layout {}", path.display()))?;
        layout.name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        layout.base = path.parent().map(Path::to_owned).unwrap_or_default();
        layout.check().with_context(|| format!("in the layout {}", path.display()))?;
        Ok(layout)
    }

    /// A layout without a name and a place.
    fn from_toml(text: &str) -> Result<Self> {
        toml::from_str(text)
            .map_err(|error| anyhow::Error::msg(units::toml_error(&error.to_string(), error.message())))
    }

    /// Checks what the types do not.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn check(&self) -> Result<()> {
        if self.namespaces.is_empty() {
            bail!("there is no [[namespace]]: a layout needs at least one");
        }
        let mut names = BTreeSet::new();
        for namespace in &self.namespaces {
            let name = &namespace.name;
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if name.is_empty() || !name.chars().all(plain) {
                bail!("namespace name {name:?}: lower case letters, digits and underscores, please");
            }
            if !names.insert(name) {
                bail!("two namespaces are named {name:?}");
            }
            if !matches!(namespace.lba, 512 | 4096) {
                bail!("namespace {name}: lba is {}; 512 and 4096 are possible", namespace.lba);
            }
            if namespace.filesystem == Filesystem::Store {
                if namespace.lba != 4096 {
                    bail!("namespace {name}: a store takes logical blocks of 4096 bytes");
                }
                if namespace.size == Size::Rest {
                    bail!("namespace {name}: say the size of a store, a whole number of zones");
                }
            }
            if let Size::Bytes(bytes) = namespace.size
                && (bytes == 0 || bytes % u64::from(namespace.lba) != 0)
            {
                bail!(
                    "namespace {name}: the size is no multiple of its logical block size, {}",
                    namespace.lba
                );
            }
            if namespace.set == 0 {
                bail!("namespace {name}: NVM Sets are numbered from 1");
            }
            if namespace.filesystem == Filesystem::Raw
                && !(namespace.mkfs.is_empty() && namespace.mount.is_empty())
            {
                bail!(
                    "namespace {name} has mkfs or mount options but no file system: add filesystem = \"xfs\" or \"ext4\""
                );
            }
        }
        let Some(database) = &self.database else { return Ok(()) };
        let mounted = |name: &str| {
            let namespace = self.namespaces.iter().find(|namespace| namespace.name == name)?;
            Some(matches!(namespace.filesystem, Filesystem::Xfs | Filesystem::Ext4))
        };
        database.check(mounted).context("in [database]")
    }

    /// The drive's TOML file, when `drive` names one and not a profile.
    pub fn drive_file(&self) -> Option<PathBuf> {
        let drive = self.drive.as_ref()?;
        (drive.contains('/') || drive.to_ascii_lowercase().ends_with(".toml")).then(|| self.base.join(drive))
    }

    /// The TOML of its drive: the profile or file, with the layout's changes.
    ///
    /// # Errors
    /// When there is no such profile or file, or it is no TOML.
    pub fn drive_toml(&self) -> Result<toml::Table> {
        let name = self.drive.as_deref().unwrap_or(Profile::default_drive().name);
        let text = match self.drive_file() {
            Some(file) => read_text(&file)
                .with_context(|| format!("reading the drive {} of layout {}", file.display(), self.name))?,
            None => profile::read(name)
                .with_context(|| format!("finding the drive profile {name:?} of layout {}", self.name))?,
        };
        let mut table: toml::Table = toml::from_str(&text)
            .with_context(|| format!("in the drive {name:?} of layout {}", self.name))?;
        merge(&mut table, &self.overrides);
        Ok(table)
    }
}

/// Merges `changes` into `table`: tables key by key, everything else replaced.
pub fn merge(table: &mut toml::Table, changes: &toml::Table) {
    for (key, value) in changes {
        match (table.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            _ => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
        description = "an example"
        drive = "small"
        precondition = "steady"
        [override.drive]
        atomic = "16KiB"
        [[namespace]]
        name = "data"
        size = "1500MiB"
        filesystem = "xfs"
        mkfs = ["-d", "extszinherit=4"]
        mount = ["noatime"]
        [[namespace]]
        name = "dwb"
        set = 2
        size = 16777216
    "#;

    fn read(text: &str) -> Result<Layout> {
        let layout = Layout::from_toml(text)?;
        layout.check()?;
        Ok(layout)
    }

    #[test]
    fn a_layout_survives_writing_and_reading() {
        let layout = read(EXAMPLE).unwrap();
        assert_eq!(layout.namespaces[0].size, Size::Bytes(1500 << 20));
        assert_eq!(layout.namespaces[0].filesystem, Filesystem::Xfs);
        assert_eq!((layout.namespaces[1].set, layout.namespaces[1].lba), (2, 4096));
        assert_eq!(read(&toml::to_string(&layout).unwrap()).unwrap(), layout);
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, expected) in [
            ("\"dwb\"", "\"data\"", "two namespaces"),
            ("\"dwb\"", "\"D W\"", "lower case"),
            ("16777216", "16777217", "multiple"),
            ("set = 2", "set = 0", "from 1"),
            ("set = 2", "lba = 520", "512 and 4096"),
            ("\"xfs\"", "\"zfs\"", "zfs"),
            ("\"xfs\"", "\"raw\"", "no file system"),
            ("filesystem = \"xfs\"", "filesystem = \"store\"\nlba = 512", "4096"),
            ("1500MiB", "lots", "not a size"),
            ("16777216", "-1", "negative"),
            ("description", "descripton", "unknown field"),
        ] {
            let error = format!("{:#}", read(&EXAMPLE.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(expected), "{expected}: {error}");
        }
        for (from, to, line, expected) in [
            ("set = 2", "set = -2", 15, "expected a whole number from 0 to 65,535"),
            ("filesystem", "filesytem", 10, "did you mean filesystem?"),
            ("precondition", "precondition 5", 4, "`=`"),
        ] {
            let error = format!("{:#}", read(&EXAMPLE.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(&format!("at line {line}, ")) && error.contains(expected), "{error}");
        }
        assert!(read("namespace = []").is_err());
        let store = EXAMPLE.replace("1500MiB", "rest").replace("\"xfs\"", "\"store\"");
        assert!(format!("{:#}", read(&store).unwrap_err()).contains("whole number of zones"));
        let rest = read(&EXAMPLE.replace("1500MiB", "rest")).unwrap();
        assert_eq!(rest.namespaces[0].size, Size::Rest);
    }

    #[test]
    fn a_database_is_read_and_its_mistakes_are_named() {
        const DATABASE: &str = r#"
            [database]
            engine = "postgresql"
            max_wal_size = "64MiB"
            full_page_writes = false
            wal_sync_method = "open_datasync"
            settings = { checkpoint_timeout = "30s" }
        "#;
        let text = format!("{EXAMPLE}{DATABASE}");
        let layout = read(&text).unwrap();
        let database = layout.database.as_ref().unwrap();
        assert!(database.checksums && !database.full_page_writes && database.data == "data");
        let tuning = database.tuning().unwrap();
        assert_eq!((tuning.shared_buffers_mib, tuning.max_wal_mib), (128, 64));
        assert_eq!(tuning.wal_sync.to_string(), "open_datasync");
        assert_eq!(tuning.extra, [("checkpoint_timeout".to_owned(), "30s".to_owned())]);
        assert_eq!(read(&toml::to_string(&layout).unwrap()).unwrap(), layout);
        for (from, to, expected) in [
            ("max_wal_size = \"64MiB\"", "max_wal_size = \"16MiB\"", "32MiB at least"),
            ("max_wal_size", "shared_buffers = \"rest\"\nmax_wal_size", "shared_buffers is a whole number"),
            ("postgresql", "oracle", "oracle"),
            ("max_wal_size", "wal = \"log\"\nmax_wal_size", "no namespace"),
            ("max_wal_size", "wal = \"dwb\"\nmax_wal_size", "file system"),
            ("max_wal_size", "wal = \"data\"\nmax_wal_size", "leave it out"),
            ("full_page_writes", "full_page_write", "full_page_write"),
        ] {
            let error = format!("{:#}", read(&text.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn a_name_is_a_profile_and_a_path_a_file() {
        let mut layout = read(EXAMPLE).unwrap();
        layout.base = PathBuf::from("/layouts");
        assert_eq!(layout.drive_file(), None);
        layout.drive = Some("mine.toml".into());
        assert_eq!(layout.drive_file(), Some(PathBuf::from("/layouts/mine.toml")));
        layout.drive = Some("/abs/mine".into());
        assert_eq!(layout.drive_file(), Some(PathBuf::from("/abs/mine")));
    }

    #[test]
    fn overrides_are_merged() {
        let mut table: toml::Table = toml::from_str("[drive]\na = 1\nb = 2\n[x]\ny = 3").unwrap();
        merge(&mut table, &toml::from_str("[drive]\nb = 5\nc = 6").unwrap());
        assert_eq!(table, toml::from_str("[drive]\na = 1\nb = 5\nc = 6\n[x]\ny = 3").unwrap());
    }

    #[test]
    fn the_examples_are_valid() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../layouts");
        let mut read = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "toml") {
                Layout::read(&path).unwrap();
                read += 1;
            }
        }
        assert!(read >= 2);
    }
}
