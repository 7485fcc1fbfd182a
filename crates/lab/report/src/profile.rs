//! Profiles: drives that are built in. Beside them drives are TOML files (docs/drive-toml.md).

use std::path::Path;

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

use crate::{Misuse, input::read_text};

/// A drive that is built in.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// What it is called.
    pub name: &'static str,
    /// Its TOML, whose first comment says what it is.
    pub toml: &'static str,
}

macro_rules! profiles {
    ($($name:literal),* $(,)?) => {
        [$(Profile { name: $name, toml: include_str!(concat!("../profiles/", $name, ".toml")) }),*]
    };
}

const DEFAULT: Profile = Profile { name: "default", toml: include_str!("default_drive.toml") };

/// All of them but [`DEFAULT`], by name.
const OTHER_PROFILES: [Profile; 26] = profiles![
    "bench-16g",
    "cheetah-15k7-300g",
    "cm7-r-3.84t-scaled",
    "constellation2-1t",
    "d7-p5520-1.92t-scaled",
    "micron-7450-max-800g-scaled",
    "micron-7450-pro-960g-scaled",
    "micron-9300-max-6.4t",
    "micron-9300-max-short",
    "no-capacitors",
    "pblaze5-910-3.84t",
    "pblaze5-910-lab",
    "pblaze5-910-short",
    "pe8110-960g-scaled",
    "pm9a3-960g-scaled",
    "px02sm-400g",
    "qlc-7.68t",
    "savvio-10k4-600g",
    "savvio-15k3-300g",
    "tlc-3.84t",
    "wd-960g-scaled",
    "xs1715-400g",
    "zn540-1t",
    "zn540-2t",
    "zn540-4t",
    "zn540-lab",
];

impl Profile {
    /// All profiles: the default drive, then the others by name.
    pub fn all() -> impl Iterator<Item = &'static Profile> {
        [&DEFAULT].into_iter().chain(&OTHER_PROFILES)
    }

    /// The drive without a name.
    pub fn default_drive() -> &'static Profile {
        &DEFAULT
    }

    /// The profile of this name.
    pub fn find(name: &str) -> Option<&'static Profile> {
        Profile::all().find(|profile| profile.name == name)
    }

    /// What it is: the first sentence of its comment.
    pub fn about(&self) -> String {
        about(self.toml)
    }
}

/// What the drive of a TOML is: the first sentence of the comment that it begins with; empty without one.
pub fn about(toml: &str) -> String {
    let comment: Vec<&str> = toml.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    let text = comment.join(" ");
    text.split_once(". ").map_or(text.clone(), |(first, _)| first.to_owned())
}

/// The TOML of a profile, or of a file: what has a slash, ends with `.toml` or is there as a file is one.
///
/// # Errors
/// There is no such profile, with the names that there are. The file cannot be read.
pub fn read(drive: &str) -> Result<String> {
    if drive.contains('/') || drive.ends_with(".toml") || Path::new(drive).is_file() {
        return read_text(Path::new(drive));
    }
    if let Some(profile) = Profile::find(drive) {
        return Ok(profile.toml.to_owned());
    }
    let names: Vec<_> = Profile::all().map(|profile| profile.name).collect();
    let near = units::did_you_mean(drive, names.iter().copied());
    let known = names.join(", ");
    bail!(Misuse(format!("there is no profile {drive:?}: there are {known}; or name a TOML file{near}")))
}

/// Like [`read`], as TOML.
///
/// # Errors
/// Those of [`read`]; it is no TOML.
pub fn table(drive: &str) -> Result<Table> {
    toml::from_str(&read(drive)?).with_context(|| format!("in the drive {drive}"))
}

/// A drive without capacitors: `power_loss_protection = false`, and without what needs it. Those are Zone Random Write Areas, atomic writes
/// across pages of a disk, and `energy`. A DRAM set whose capacity is what `energy` leaves keeps that capacity. Comments are lost.
///
/// # Errors
/// It is no TOML of a drive.
pub fn without_capacitors(toml: &str) -> Result<String> {
    let config = live::Config::from_toml(toml)?;
    let mut table: Table = toml::from_str(toml)?;
    let mut has_disk = false;
    for (set, config) in tables(&mut table, "set").zip(&config.ftl.sets) {
        if let Some(zone) = set.get_mut("zone").and_then(Value::as_table_mut) {
            zone.remove("zrwa");
        }
        let media = set.get("media").and_then(Value::as_str);
        has_disk |= media == Some("disk");
        if media == Some("dram") {
            // Pages of 4 KiB.
            let kib = u64::from(config.capacity_pages()) * 4;
            set.entry("capacity").or_insert_with(|| format!("{kib}KiB").into());
        }
    }
    let drive = table.entry("drive").or_insert_with(|| Table::new().into());
    let drive = drive.as_table_mut().context("drive is no table")?;
    drive.insert("power_loss_protection".to_owned(), false.into());
    drive.remove("energy");
    if has_disk {
        drive.remove("atomic_write");
    }
    tables(&mut table, "namespace").for_each(|namespace| drop(namespace.remove("zrwa")));
    Ok(toml::to_string(&table)?)
}

/// The tables of a list of tables.
fn tables<'a>(table: &'a mut Table, name: &str) -> impl Iterator<Item = &'a mut Table> {
    let list = table.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_table_mut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use live::Config;

    #[test]
    fn profiles_are_drives_and_say_what_they_are() {
        for profile in Profile::all() {
            Config::from_toml(profile.toml).unwrap();
            assert!(!profile.about().is_empty(), "{}", profile.name);
            assert_eq!(read(profile.name).unwrap(), profile.toml);
        }
        let names: Vec<_> = OTHER_PROFILES.iter().map(|profile| profile.name).collect();
        assert!(names.is_sorted());
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../profiles");
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
        assert_eq!(files.count(), names.len(), "every profile of the directory is built in");
    }

    #[test]
    fn every_profile_can_do_without_capacitors() {
        for profile in Profile::all() {
            let without =
                without_capacitors(profile.toml).unwrap_or_else(|e| panic!("{}: {e:#}", profile.name));
            let (with, without) =
                (Config::from_toml(profile.toml).unwrap(), Config::from_toml(&without).unwrap());
            assert!(without.has_volatile_write_cache(), "{}", profile.name);
            assert_eq!(with.ftl.buffer_pages, without.ftl.buffer_pages, "{}", profile.name);
            assert_eq!((with.link, with.timing), (without.link, without.timing), "{}", profile.name);
            let shape = |config: &Config| {
                let sets = config.ftl.sets.iter().map(|set| set.capacity_pages()).collect::<Vec<_>>();
                (sets, config.namespaces.iter().map(|ns| (ns.set, ns.bytes)).collect::<Vec<_>>())
            };
            assert_eq!(shape(&with), shape(&without), "{}", profile.name);
        }
        let named = Config::from_toml(Profile::find("no-capacitors").unwrap().toml).unwrap();
        let made = Config::from_toml(&without_capacitors(DEFAULT.toml).unwrap()).unwrap();
        assert_eq!(named, Config { identity: named.identity.clone(), ..made });
    }

    #[test]
    fn what_needs_capacitors_goes_with_them() {
        let toml = DEFAULT
            .toml
            .replace("[drive]", "[drive]\nenergy = \"128MiB\"")
            .replace("capacity = \"64MiB\"\n", "")
            .replace("size = \"1GiB\"", "size = \"64MiB\"\nzoned = true\nzrwa = 2");
        let with = Config::from_toml(&toml).unwrap();
        let without = Config::from_toml(&without_capacitors(&toml).unwrap()).unwrap();
        assert!(with.namespaces[0].zones.unwrap().zrwa.is_some());
        assert!(without.namespaces[0].zones.unwrap().zrwa.is_none());
        assert_eq!(with.ftl.sets[1].capacity_pages(), without.ftl.sets[1].capacity_pages());
        assert!(without_capacitors("[drive").is_err());
    }

    #[test]
    fn a_path_is_a_file_and_another_name_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own");
        std::fs::write(&path, "[drive]\nmodel = \"x\"\n").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(table(path).unwrap()["drive"]["model"].as_str(), Some("x"));
        std::fs::write(path, "[drive").unwrap();
        assert!(format!("{:#}", table(path).unwrap_err()).contains("in the drive"));
        assert!(read("own.toml").unwrap_err().to_string().contains("cannot read own.toml"));
        let error = read("tlc-3.84").unwrap_err().to_string();
        assert!(error.contains("there are default, bench-16g,"), "{error}");
        assert!(error.ends_with("(did you mean tlc-3.84t?)"), "{error}");
    }
}
