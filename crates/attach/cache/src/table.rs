//! `[[cache]]` of a drive's TOML: tiers that are served with the drive.
//!
//! The drive does not know them: they are hosts of it. Its own parser leaves the tables alone, and this one reads nothing else.

use crate::place::Place;
use blockdev::Geometry;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use tier::{Config, Geometries, Mode, PolicyKind};
use units::toml_error;

/// A tier that is served with a drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its name: that of its block file is `cache-NAME`.
    pub name: String,
    /// The large and slow device.
    pub origin: Place,
    /// The small and fast device.
    pub cache: Place,
    /// The device for what lies on the cache.
    pub metadata: Place,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// What a write does.
    pub mode: Mode,
    /// Which chunks are cached.
    pub policy: PolicyKind,
    /// Tunables, by dm-cache's names.
    pub set: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    cache: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    origin: At,
    cache: At,
    metadata: At,
    #[serde(default)]
    chunk: Option<String>,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, u64>,
}

/// A namespace of this drive, or a device anywhere.
#[derive(Deserialize)]
#[serde(untagged)]
enum At {
    Own(u32),
    Anywhere(String),
}

/// Whether a name can be that of a block file and of a socket.
pub fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    (1..=32).contains(&name.len()) && name.chars().all(good) && !name.starts_with('.')
}

/// Reads the tiers of a drive's TOML, in their order.
///
/// # Errors
/// What is wrong, in words.
pub fn read(toml: &str) -> Result<Vec<Entry>, String> {
    let file: File = toml::from_str(toml).map_err(|error| toml_error(&error.to_string(), error.message()))?;
    let mut names = BTreeSet::new();
    let mut entries = Vec::new();
    for table in file.cache {
        let name = table.name.clone();
        let entry = entry(table).map_err(|problem| format!("the [[cache]] {name:?}: {problem}"))?;
        if !names.insert(name.clone()) {
            return Err(format!("two [[cache]] have the name {name:?}"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Checks tiers against the namespaces of their drive, which has these conventional ones when it is new, by NSID. Devices elsewhere are not looked at.
///
/// # Errors
/// A namespace is not there, or has two uses; a tier cannot be made of namespaces of these sizes.
pub fn check(entries: &[Entry], namespaces: &BTreeMap<u32, Geometry>) -> Result<(), String> {
    let mut used: BTreeMap<u32, String> = BTreeMap::new();
    for entry in entries {
        let of = |problem: String| format!("the [[cache]] {:?}: {problem}", entry.name);
        for (role, place) in
            [("origin", &entry.origin), ("cache", &entry.cache), ("metadata", &entry.metadata)]
        {
            let Place::Own(nsid) = place else { continue };
            if !namespaces.contains_key(nsid) {
                return Err(of(format!("{role}: this drive has no conventional namespace {nsid}")));
            }
            if let Some(other) = used.insert(*nsid, format!("the {role} of {:?}", entry.name)) {
                return Err(of(format!("{role}: namespace {nsid} is {other}, too")));
            }
        }
        let own = |place: &Place| match place {
            Place::Own(nsid) => namespaces.get(nsid).copied(),
            _ => None,
        };
        if let (Some(origin), Some(cache), Some(metadata)) =
            (own(&entry.origin), own(&entry.cache), own(&entry.metadata))
        {
            let config = Config { chunk: entry.chunk, policy: entry.policy, ..Config::default() };
            config.check(&Geometries { origin, cache, metadata }).map_err(|error| of(error.to_string()))?;
        }
    }
    Ok(())
}

fn entry(table: Table) -> Result<Entry, String> {
    let Table { name, origin, cache, metadata, chunk, mode, policy, set } = table;
    if !is_name(&name) {
        return Err("a name has 1 to 32 letters, digits, '-', '_' and '.', and begins with no '.'".to_owned());
    }
    let place = |at: At| match at {
        At::Own(nsid) if (1..u32::MAX).contains(&nsid) => Ok(Place::Own(nsid)),
        At::Own(nsid) => Err(format!("{nsid} is no namespace")),
        At::Anywhere(text) => text.parse::<Place>().map_err(|error| error.to_string()),
    };
    let mut config = Config::default();
    if let Some(chunk) = chunk {
        config.chunk = units::parse_size(&chunk).map_err(|error| format!("chunk: {error}"))?;
    }
    if let Some(mode) = mode {
        config.mode = mode.parse().map_err(|error| format!("mode: {error}"))?;
    }
    if let Some(policy) = policy {
        config.policy = policy.parse().map_err(|error| format!("policy: {error}"))?;
    }
    config.check_chunk().map_err(|error| error.to_string())?;
    set.iter()
        .try_for_each(|(key, value)| config.set(key, &value.to_string()))
        .map_err(|error| format!("set: {error}"))?;
    Ok(Entry {
        name,
        origin: place(origin)?,
        cache: place(cache)?,
        metadata: place(metadata)?,
        chunk: config.chunk,
        mode: config.mode,
        policy: config.policy,
        set,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockdev::Limits;

    const VALID_TABLE: &str = r#"
        [drive]
        serial = "whatever"
        [[cache]]
        name = "db"
        origin = 1
        cache = "tcp://other:4420/2"
        metadata = "/var/lib/meta.img"
        chunk = "64KiB"
        mode = "writethrough"
        policy = "mq"
        set = { migration_threshold = 4096 }
        [[cache]]
        name = "logs"
        origin = 4
        cache = 5
        metadata = 6
    "#;

    #[test]
    fn tables_are_read_and_the_rest_of_the_file_is_not() {
        let entries = read(VALID_TABLE).unwrap();
        let [db, logs] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!((&*db.name, &db.origin, db.chunk), ("db", &Place::Own(1), 64 << 10));
        assert_eq!((db.mode, db.policy), (Mode::Writethrough, PolicyKind::Mq));
        assert_eq!(db.cache.to_string(), "tcp://other:4420/2");
        assert_eq!(db.set["migration_threshold"], 4096);
        let config = Config::default();
        assert_eq!((logs.chunk, logs.mode, logs.policy), (config.chunk, config.mode, config.policy));
        assert!(read("[drive]\n").unwrap().is_empty());
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, problem) in [
            ("\"logs\"", "\"db\"", "two [[cache]]"),
            ("\"logs\"", "\"a/b\"", "1 to 32 letters"),
            ("origin = 4", "origin = 0", "0 is no namespace"),
            ("origin = 4", "origin = \"4\"", "of which drive"),
            ("64KiB", "48KiB", "multiple of 32 KiB"),
            ("\"mq\"", "\"lru\"", "not one of mq"),
            ("writethrough", "write-through", "not one of writeback"),
            ("policy =", "polcy =", "polcy"),
            ("metadata = 6", "", "metadata"),
            ("migration_threshold =", "migration =", "no such tunable"),
            ("policy = \"mq\"", "policy = \"smq\"", "smq has no such tunable"),
        ] {
            let good = VALID_TABLE.replace(
                "{ migration_threshold = 4096 }",
                "{ migration_threshold = 4096, random_threshold = 8 }",
            );
            let error = read(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(problem), "{to}: {error}");
        }
    }

    #[test]
    fn tiers_lie_on_namespaces_of_their_drive_that_nothing_else_uses() {
        let of = |mib: u64| Geometry { block_size: 4096, blocks: mib << 8, limits: Limits::NONE };
        let namespaces = BTreeMap::from([(1, of(512)), (4, of(256)), (5, of(32)), (6, of(1))]);
        let checked =
            |from: &str, to: &str| check(&read(&VALID_TABLE.replace(from, to)).unwrap(), &namespaces);
        assert_eq!(checked("", ""), Ok(()));
        for (from, to, problem) in [
            ("origin = 4", "origin = 3", "\"logs\": origin: this drive has no conventional namespace 3"),
            ("cache = 5", "cache = 4", "cache: namespace 4 is the origin of \"logs\", too"),
            ("origin = 4", "origin = 1", "origin: namespace 1 is the origin of \"db\", too"),
            (
                "cache = 5\n        metadata = 6",
                "cache = 6\n        metadata = 5\n        chunk = \"2MiB\"",
                "less than one chunk",
            ),
        ] {
            let error = checked(from, to).unwrap_err();
            assert!(error.contains(problem), "{to}: {error}");
        }
    }
}
