//! The tier beside the kernel's dm-cache: see `cache.sh` and `cache.py` here, and `crates/link/tier/tests/kernel`.

#[path = "../../../../link/tier/tests/kernel/mod.rs"]
mod kernel;

use super::{Drive, Guest, nand_with_1_gib};
use kernel::{Load, Log, after_crash, agree, compare, loads};
use std::collections::BTreeMap;
use std::io::Read;
use testkit::skipped;

/// A drive with namespaces for origins, caches and metadata.
fn drive_toml() -> String {
    let more = "[[namespace]]\nsize = \"256MiB\"\nlba = 4096\n[[namespace]]\nsize = \"64MiB\"\nlba = 4096\n";
    format!("[drive]\nallow_network_faults = true\n{}{more}", nand_with_1_gib("1536MiB"))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// The texts that the guest printed compressed, by their labels.
fn texts(said: &str, what: &str) -> BTreeMap<String, String> {
    let mut packed: BTreeMap<String, String> = BTreeMap::new();
    for line in said.lines().filter_map(|line| line.trim().strip_prefix(what)) {
        let (name, part) = line.trim().split_once(' ').expect("a name");
        packed.entry(name.to_owned()).or_default().push_str(part);
    }
    let unpack = |hex: &str| {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let mut text = String::new();
        flate2::read::ZlibDecoder::new(&bytes[..]).read_to_string(&mut text).expect("a text");
        text
    };
    packed.iter().map(|(name, hex)| (name.clone(), unpack(hex))).collect()
}

/// A guest that runs the loads on caches of a new drive.
struct Caches {
    drive: Drive,
    /// Where the loads are.
    directory: tempfile::TempDir,
    /// How long a guest may take, in seconds.
    limit: String,
}

impl Caches {
    const TEST: &str = "the_tier_does_what_dm_cache_does";

    fn new(loads: &[Load], times: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for load in loads {
            std::fs::write(directory.path().join(format!("{}.load", load.name)), load.to_string()).unwrap();
        }
        let file = directory.path().join("drive.toml");
        std::fs::write(&file, drive_toml()).unwrap();
        let drive = Drive::start_with(&directory.path().join("image"), 0, &[file.as_os_str()]);
        Self { drive, directory, limit: (600 * times).to_string() }
    }

    /// What the guest said; `None` where no guest can run.
    fn guest(&self, what: &str) -> Option<String> {
        let needed = ["dmsetup", "python3"];
        let options = ["-t", self.limit.as_str()];
        let arguments = [self.directory.path().to_str().unwrap(), what];
        let guest = Guest::boot_with(Self::TEST, "cache.sh", &needed, &options, self.drive.port, &arguments)?;
        guest.must_be_well(Self::TEST)
    }
}

/// Whether the tier's policy answers as the kernel's did. `TRANCHE_DM_CACHE_KEEP` keeps in a directory what the guest said.
fn agrees(said: &str) -> Result<(), String> {
    if let Ok(directory) = std::env::var("TRANCHE_DM_CACHE_KEEP") {
        std::fs::create_dir_all(&directory).unwrap();
        for (label, text) in texts(said, "LOG ").iter().chain(&texts(said, "TRACE ")) {
            std::fs::write(format!("{directory}/{label}"), text).unwrap();
        }
    }
    let traces = texts(said, "TRACE ");
    let Some(trace) = traces.get("all") else {
        skipped(Caches::TEST, "the guest's kernel has no probes: only counts are compared");
        return Ok(());
    };
    let (agreement, corrections) = agree(trace)?;
    println!("{agreement:?}, {corrections} corrections of the trace");
    // It tries what it should.
    let least = [agreement.promotions / 100, agreement.demotions / 20, agreement.writebacks / 100];
    assert!(agreement.policies > 7 && least.iter().all(|count| *count > 0), "{agreement:?}");
    Ok(())
}

/// Whether dm-cache's counts are the tier's.
fn counts_agree(loads: &[Load], logs: &BTreeMap<String, String>) -> Result<(), String> {
    let mut differ = Vec::new();
    for load in loads {
        for line in compare(load, &Log::parse(&logs[&load.name])) {
            println!("{line}");
            differ.extend(line.differ.iter().map(|what| format!("{}, {}: {what}", line.load, line.phase)));
        }
    }
    if differ.is_empty() { Ok(()) } else { Err(differ.join("\n")) }
}

/// Every answer of the kernel's smq is the tier's, and dm-cache's counts are the tier's as far as both do not depend on how long migrations take.
/// `TRANCHE_DM_CACHE_SEED` is the seed of the loads, and `TRANCHE_DM_CACHE_TIMES` makes them longer.
///
/// A processor that stalls between a call and its probe can leave a trace that no correction explains. On a busy machine a cache that is idle may stop
/// writing back. Two in a row are a difference.
#[test]
fn the_tier_does_what_dm_cache_does() {
    let (seed, times) =
        (number("TRANCHE_DM_CACHE_SEED").unwrap_or(1), number("TRANCHE_DM_CACHE_TIMES").unwrap_or(1));
    println!("seed {seed}");
    let loads = loads(seed, times);
    let run = || {
        let caches = Caches::new(&loads, times);
        let said = caches.guest("run")?;
        let logs = texts(&said, "LOG ");
        Some((caches, agrees(&said).and_then(|()| counts_agree(&loads, &logs)).map(|()| logs)))
    };
    let Some((mut caches, mut ran)) = run() else { return };
    if let Err(why) = &ran {
        println!("once more: {why}");
        let Some(again) = run() else { return };
        (caches, ran) = again;
    }
    let logs = ran.unwrap_or_else(|why| panic!("seed {seed}, twice: {why}"));
    // That guest is gone without a word to its caches.
    let Some(said) = caches.guest("after") else { return };
    for load in &loads {
        crashed(load, &Log::parse(&logs[&load.name]), &said);
    }
}

/// What dm-cache and the tier find after a crash.
fn crashed(load: &Load, log: &Log, said: &str) {
    let of_load = |line: &str| line.trim().strip_prefix(&format!("AFTER {} ", load.name)).map(str::to_owned);
    let line = said.lines().find_map(of_load).expect("what was there after the crash");
    let words: Vec<&str> = line.split(' ').collect();
    let numbers: Vec<i64> = words[1..].iter().map(|word| word.parse().unwrap()).collect();
    let (mode, used, dirty) = (words[0], numbers[0], numbers[1]);
    let (before, after) = after_crash(load, log);
    println!(
        "{}, {mode}: {used} chunks, {dirty} dirty; the tier {} and {}",
        load.name, after.used, after.dirty
    );
    // Every chunk of dm-cache is dirty, and so is every one of the tier in writeback mode. In writethrough mode the tier drops them.
    assert_eq!(dirty, used, "{}", load.name);
    let kept = if mode == "writeback" { before.used } else { 0 };
    assert_eq!((after.used, after.dirty), (kept, kept), "{}", load.name);
}
