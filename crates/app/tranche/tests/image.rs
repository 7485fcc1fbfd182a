//! `tranche image`: images that are whole, damaged, and in use.

mod common;

use live::{BlockingQueue, Buffer, DriveKey, HostIdentity, NoEvents, Options, Running, Shape};
use nvme::{Command, IoOpcode, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

/// Namespace 1 has plain blocks, 2 metadata, 3 eight blocks in a page.
const TOML: &str = r#"
[[set]]
media = "nand"
cell = "tlc"
capacity = "64MiB"
spare = "100%"
channels = 2
dies = 2
planes = 1
nand_page = "4KiB"
pages_per_block = 48
rated_cycles = 3000

[[namespace]]
size = "32MiB"
lba = 4096
attach = "all"

[[namespace]]
size = "4MiB"
lba = "4096+8"
attach = "all"

[[namespace]]
size = "2MiB"
lba = 512
attach = "all"
"#;

fn open(dir: &Path, key: Option<&str>) -> (Running, BlockingQueue) {
    let shape = Shape { config: device::Config::from_toml(TOML).unwrap(), toml: TOML.to_owned() };
    let drive_key = key.map(|key| key.parse::<DriveKey>().unwrap());
    let options = Options { image: Some(dir.to_owned()), drive_key, ..Options::default() };
    let running = live::start(Some(shape), &options, &mut |_| ()).unwrap();
    let host = HostIdentity::new("nqn.2026-11.test:host").unwrap();
    let controller = running.handle().connect(host, Arc::new(NoEvents)).unwrap();
    let queue = controller.blocking_queue(32).unwrap();
    std::mem::forget(controller);
    (running, queue)
}

fn transfer(
    queue: &BlockingQueue,
    opcode: IoOpcode,
    nsid: u32,
    lba: u32,
    blocks: u32,
    data: Buffer,
) -> (Status, Buffer) {
    let mut command = Command::new(opcode.0, nsid);
    command.cdw10.set(lba);
    command.cdw12.set(blocks - 1);
    let (completion, data) = queue.execute(&command, data).unwrap();
    (completion.status(), data)
}

/// A page of a namespace that is like no other.
fn page(nsid: u32, lba: u32) -> Vec<u8> {
    (0..1024).flat_map(|i| (nsid << 24 | lba << 12 | i).to_le_bytes()).collect()
}

fn write(queue: &BlockingQueue, nsid: u32, lba: u32) {
    let (blocks, mut data) = (if nsid == 3 { 8 } else { 1 }, page(nsid, lba));
    if nsid == 2 {
        data.extend([lba as u8 + 1; 8]);
    }
    let written = transfer(queue, IoOpcode::WRITE, nsid, lba, blocks, Buffer::from(data)).0;
    assert!(written.is_success(), "{written}");
}

fn flush(queue: &BlockingQueue) {
    let (completion, _) = queue.execute(&Command::new(IoOpcode::FLUSH.0, 1), Buffer::empty()).unwrap();
    assert!(completion.status().is_success());
}

fn write_all(queue: &BlockingQueue) {
    for lba in 0..40 {
        write(queue, 1, lba);
    }
    for lba in 3..6 {
        write(queue, 2, lba);
    }
    write(queue, 3, 16);
    write(queue, 3, 24);
    flush(queue);
}

/// What a process that is killed now leaves.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

struct Temp {
    temp: tempfile::TempDir,
}

impl Temp {
    fn new() -> Self {
        Temp { temp: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// An image with blocks in all namespaces, left in order.
    fn clean(&self) -> PathBuf {
        let dir = self.at("image");
        let (running, queue) = open(&dir, None);
        write_all(&queue);
        drop(queue);
        running.stop();
        dir
    }

    /// The same, left by a process that was killed.
    fn killed(&self) -> PathBuf {
        let (live, dead) = (self.at("live"), self.at("image"));
        let (running, queue) = open(&live, None);
        write_all(&queue);
        copy(&live, &dead);
        drop(queue);
        running.stop();
        dead
    }
}

fn bytes_of(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn tranche(args: &[&str], dir: &Path, rest: &[&str]) -> Output {
    let mut command = std::process::Command::new(common::TRANCHE);
    command.args(args).arg(dir).args(rest).env_remove("TRANCHE_DRIVE_KEY").output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// What a check says, which changes nothing.
fn check(dir: &Path) -> (i32, Value, String) {
    let before = bytes_of(dir);
    let output = tranche(&["image", "check", "--output", "json"], dir, &[]);
    let words = tranche(&["image", "check"], dir, &[]);
    assert_eq!(output.status.code(), words.status.code());
    assert!(bytes_of(dir) == before, "the check changed something");
    let document = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code().unwrap(), document, text(&words))
}

fn salvage(dir: &Path, out: &Path, rest: &[&str]) -> (i32, Value, String) {
    let before = bytes_of(dir);
    let mut all = vec![out.to_str().unwrap()];
    all.extend(rest);
    let output = tranche(&["image", "salvage"], dir, &all);
    assert!(bytes_of(dir) == before, "the salvage changed something");
    let report = std::fs::read(out.join("report.json")).unwrap_or_default();
    (output.status.code().unwrap(), serde_json::from_slice(&report).unwrap_or_default(), text(&output))
}

/// The newest file of a kind, by its generation.
fn newest(dir: &Path, kind: &str) -> PathBuf {
    let names =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let generation = |name: String| name.strip_prefix(kind)?.strip_prefix('.')?.parse::<u64>().ok();
    dir.join(format!("{kind}.{}", names.filter_map(generation).max().unwrap()))
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

/// Where the contents hold a page.
fn place(dir: &Path, nsid: u32, lba: u32) -> usize {
    let contents = std::fs::read(dir.join("contents")).unwrap();
    let wanted = page(nsid, lba);
    contents.chunks(4096).position(|page| page == wanted).unwrap() * 4096
}

/// Bytes of a file without the zeros at its end.
fn used(path: &Path) -> usize {
    std::fs::read(path).unwrap().iter().rposition(|&byte| byte != 0).unwrap() + 1
}

fn reads(queue: &BlockingQueue, lba: u32) -> bool {
    let (status, data) = transfer(queue, IoOpcode::READ, 1, lba, 1, Buffer::zeroed(4096));
    assert!(!status.is_success() || data.as_slice() == page(1, lba));
    status.is_success()
}

/// Which pages of namespace 1 a salvage saved, of those that were written; the others are zeros.
fn saved(out: &Path) -> Vec<u32> {
    let bytes = std::fs::read(out.join("namespace-1.img")).unwrap();
    assert_eq!(bytes.len(), 32 << 20);
    let pages = (0..).zip(bytes.chunks(4096));
    pages
        .filter(|(lba, bytes)| {
            **bytes == page(1, *lba) || {
                assert!(bytes.iter().all(|&b| b == 0));
                false
            }
        })
        .map(|(lba, _)| lba)
        .collect()
}

#[test]
fn a_whole_image_is_told_to_be_whole() {
    for (killed, left) in [(false, "clean"), (true, "killed")] {
        let temp = Temp::new();
        let dir = if killed { temp.killed() } else { temp.clean() };
        let (code, found, words) = check(&dir);
        assert_eq!(code, 0, "{words}");
        assert!(words.contains("nothing is damaged"), "{words}");
        assert_eq!((&found["left"], &found["damaged"]), (&json!(left), &json!(false)));
        assert_eq!(found["format_version"], 3);
        assert_eq!(found["damaged_files"], json!([]));
        let whole: Vec<&Value> =
            found["namespaces"].as_array().unwrap().iter().map(|n| &n["whole"]).collect();
        assert_eq!(whole, [40, 3, 16]);
        let out = temp.at("out");
        let (code, report, words) = salvage(&dir, &out, &[]);
        assert_eq!((code, &report["complete"]), (0, &json!(true)), "{words}");
        assert_eq!(saved(&out), (0..40).collect::<Vec<_>>());
        let second = std::fs::read(out.join("namespace-2.img")).unwrap();
        assert_eq!(second[4 * 4096..][..4096], page(2, 4));
        let beside = std::fs::read(out.join("namespace-2.meta")).unwrap();
        assert_eq!(
            (beside.len(), &beside[16..48]),
            (8 * 1024, &[[0; 8], [4; 8], [5; 8], [6; 8]].concat()[..])
        );
        let third = std::fs::read(out.join("namespace-3.img")).unwrap();
        assert_eq!((third.len(), &third[16 * 512..][..4096]), (2 << 20, &page(3, 16)[..]));
        for path in bytes_of(&out).keys() {
            use std::os::unix::fs::{MetadataExt, PermissionsExt};
            let metadata = std::fs::metadata(path).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
            assert!(metadata.blocks() * 512 < 1 << 20, "{} is not sparse", path.display());
        }
        let (code, _, words) = salvage(&dir, &out, &[]);
        assert!(code == 1 && words.contains("is not empty"), "{words}");
        let (code, _, words) = salvage(&dir, &dir.join("out"), &[]);
        assert!(code == 1 && words.contains("is in the image"), "{words}");
    }
}

#[test]
fn flipped_bits_in_contents_are_found_where_they_are() {
    let temp = Temp::new();
    let dir = temp.killed();
    let places = [place(&dir, 1, 7) + 4095, place(&dir, 1, 8), place(&dir, 2, 4), place(&dir, 3, 24)];
    for at in places {
        flip(&dir.join("contents"), at);
    }
    let (code, found, words) = check(&dir);
    assert_eq!(code, 5, "{words}");
    let damaged = |n: usize| &found["namespaces"][n]["damaged"];
    assert_eq!(*damaged(0), json!([{ "lba": 7, "blocks": 2 }]), "{words}");
    assert_eq!(*damaged(1), json!([{ "lba": 4, "blocks": 1 }]));
    assert_eq!(*damaged(2), json!([{ "lba": 24, "blocks": 8 }]));
    assert_eq!([0, 2].map(|n| &found["namespaces"][n]["page_blocks"]), [1, 8]);
    assert_eq!(words.matches("where one block is damaged, all 8 of its page count as damaged").count(), 1);
    assert_eq!(found["damaged_files"], json!([]));
    for line in
        ["LBA 7 to 8: damaged", "LBA 4: damaged", "LBA 24 to 31: damaged", "All others are as they were"]
    {
        assert!(words.contains(line), "{words}");
    }
    let out = temp.at("out");
    let (code, report, words) = salvage(&dir, &out, &[]);
    assert_eq!((code, &report["missing"]), (5, &Value::Null), "{words}");
    assert_eq!(report["namespaces"][0]["damaged"], *damaged(0));
    assert_eq!(saved(&out), (0..40).filter(|lba| ![7, 8].contains(lba)).collect::<Vec<_>>());
    let (running, queue) = open(&dir, None);
    for lba in 0..40 {
        assert_eq!(reads(&queue, lba), ![7, 8].contains(&lba), "LBA {lba}");
    }
    drop(queue);
    running.stop();
}

/// Metadata are as much a part of a block as its data.
#[test]
fn what_lies_beside_pages_and_what_was_cut_off_is_missed() {
    let temp = Temp::new();
    let dir = temp.clean();
    let slot = place(&dir, 2, 5) / 4096;
    flip(&dir.join("spares"), slot * 128 + 3);
    let (code, found, words) = check(&dir);
    assert_eq!(
        (code, &found["namespaces"][1]["damaged"]),
        (5, &json!([{ "lba": 5, "blocks": 1 }])),
        "{words}"
    );
    flip(&dir.join("spares"), slot * 128 + 3);
    assert_eq!(check(&dir).0, 0);
    // From here on nothing is there.
    let cut = place(&dir, 1, 20);
    let there: Vec<u32> = (0..40).filter(|&lba| place(&dir, 1, lba) < cut).collect();
    let contents = std::fs::OpenOptions::new().write(true).open(dir.join("contents")).unwrap();
    contents.set_len(cut as u64 + 100).unwrap();
    let (code, found, words) = check(&dir);
    assert_eq!((code, &found["damaged"]), (5, &json!(true)), "{words}");
    assert!(there.len() < 40 && found["namespaces"][0]["whole"] == there.len(), "{words}");
    let out = temp.at("out");
    assert_eq!(salvage(&dir, &out, &[]).0, 5);
    assert_eq!(saved(&out), there);
}

#[test]
fn of_a_damaged_journal_what_was_before_is_saved() {
    let temp = Temp::new();
    let (live, dir) = (temp.at("live"), temp.at("image"));
    let (running, queue) = open(&live, None);
    for lba in 0..20 {
        write(&queue, 1, lba);
    }
    flush(&queue);
    let journal = newest(&live, "journal");
    let before = used(&journal);
    for lba in 20..40 {
        write(&queue, 1, lba);
    }
    flush(&queue);
    copy(&live, &dir);
    drop(queue);
    running.stop();
    let journal = dir.join(journal.file_name().unwrap());
    flip(&journal, before + 40);
    let served = tranche(&["serve", "--image"], &dir, &["--unix", temp.at("s").to_str().unwrap()]);
    let words = text(&served);
    assert!(!served.status.success() && words.contains("tranche image salvage"), "{words}");
    let (code, found, words) = check(&dir);
    assert_eq!((code, &found["namespaces"][0]["whole"]), (5, &json!(20)), "{words}");
    assert!(words.contains("is damaged at byte") && words.contains("OLD STATE"), "{words}");
    assert_eq!(found["damaged_files"][0]["file"], journal.display().to_string());
    let out = temp.at("out");
    let (code, report, words) = salvage(&dir, &out, &[]);
    assert!(code == 5 && words.contains("OLD STATE"), "{words}");
    assert!(report["missing"]["journal_bytes"].as_u64().unwrap() > 20 * 32, "{report}");
    assert!(report["missing"]["drive_seconds"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(saved(&out), (0..20).collect::<Vec<_>>());
}

/// An image with two checkpoints: LBA 0 to 9 are in the first, LBA 10 to 19 in the second.
fn two_checkpoints(temp: &Temp) -> PathBuf {
    let dir = temp.at("image");
    for first in [0, 10] {
        let (running, queue) = open(&dir, None);
        for lba in first..first + 10 {
            write(&queue, 1, lba);
        }
        drop(queue);
        running.stop();
    }
    dir
}

#[test]
fn a_damaged_checkpoint_loses_nothing_while_journals_lead_to_it() {
    let temp = Temp::new();
    let dir = two_checkpoints(&temp);
    assert_eq!(check(&dir).0, 0);
    let checkpoint = newest(&dir, "checkpoint");
    flip(&checkpoint, 200);
    let (code, found, words) = check(&dir);
    assert!(code == 5 && words.contains("no data is lost"), "{words}");
    assert_eq!(found["damaged_files"][0]["file"], checkpoint.display().to_string());
    assert_eq!((&found["damaged_files"][0]["loses"], &found["missing"]), (&json!(false), &Value::Null));
    assert_eq!(found["namespaces"][0]["whole"], 20);
    let out = temp.at("out");
    assert_eq!(salvage(&dir, &out, &[]).0, 0);
    assert_eq!(saved(&out), (0..20).collect::<Vec<_>>());
    // Whole again, but what is to stand in for it is not.
    flip(&checkpoint, 200);
    let generation = |path: &Path| path.extension().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let before = dir.join(format!("journal.{}", generation(&checkpoint) - 1));
    flip(&before, used(&before) / 2);
    let (code, found, words) = check(&dir);
    assert!(code == 5 && words.contains("no data is lost"), "{words}");
    assert_eq!(found["damaged_files"][0]["file"], before.display().to_string(), "{words}");
    // Now both: there is nothing but the older state.
    flip(&checkpoint, 200);
    let served = tranche(&["serve", "--image"], &dir, &["--unix", temp.at("s").to_str().unwrap()]);
    assert!(!served.status.success() && text(&served).contains("tranche image salvage"), "{}", text(&served));
    let (code, _, words) = check(&dir);
    assert!(code == 5 && words.contains("OLD STATE"), "{words}");
    let out = temp.at("older");
    let (code, report, words) = salvage(&dir, &out, &[]);
    assert!(code == 5 && report["checkpoint"].as_u64() < Some(generation(&checkpoint)), "{words}");
    let saved = saved(&out);
    assert!(saved.len() < 20 && saved.starts_with(&(0..10).collect::<Vec<_>>()), "{saved:?}");
}

#[test]
fn without_a_checkpoint_there_is_nothing() {
    let temp = Temp::new();
    let dir = two_checkpoints(&temp);
    for path in bytes_of(&dir).keys().filter(|path| path.to_str().unwrap().contains("checkpoint.")) {
        flip(path, 200);
    }
    let (code, found, words) = check(&dir);
    assert!(code == 5 && words.contains("no checkpoint of the image"), "{words}");
    assert_eq!((&found["damaged"], &found["usable"]), (&json!(true), &json!(false)));
    let out = temp.at("out");
    let (code, _, words) = salvage(&dir, &out, &[]);
    assert!(code == 1 && words.contains("no checkpoint of the image") && !out.exists(), "{words}");
    let foreign = tranche(&["image", "check"], temp.temp.path(), &[]);
    assert!(foreign.status.code() == Some(1) && text(&foreign).contains("is not a Tranche image"));
    let none = tranche(&["image", "check"], &temp.at("nowhere"), &[]);
    assert!(none.status.code() == Some(1) && text(&none).contains("there is no image at"));
}

/// Serves an image until its log says something, at most a minute; the log.
fn serve_until(temp: &Temp, dir: &Path, more: &[&str], said: &str) -> String {
    let log = temp.at("log");
    let mut command = std::process::Command::new(common::TRANCHE);
    command.args(["serve", "-v", "--image"]).arg(dir).arg("--unix").arg(temp.at("s")).args(more);
    let served = common::Served::run(command.stderr(std::fs::File::create(&log).unwrap()));
    let begun = std::time::Instant::now();
    let words = loop {
        let words = std::fs::read_to_string(&log).unwrap();
        if words.contains(said) || begun.elapsed().as_secs() > 60 {
            break words;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
    words
}

#[test]
fn a_scrub_finds_damage_that_nobody_reads() {
    let temp = Temp::new();
    let dir = temp.killed();
    let fast = ["--scrub-rate", "1GiB"];
    let whole = serve_until(&temp, &dir, &fast, "the scrub has checked");
    assert!(whole.contains("the scrub has checked 45 pages, none is damaged"), "{whole}");
    let at = place(&dir, 3, 24);
    flip(&dir.join("contents"), at);
    let found = serve_until(&temp, &dir, &fast, "the scrub has checked");
    let damage = format!(
        "the scrub has found damage at LBA 24 to 31 of namespace 3: slot {} of the image's contents is damaged",
        at / 4096
    );
    assert!(found.contains(&damage), "{found}");
    assert!(found.contains("the scrub has checked 45 pages, 1 of them are damaged"), "{found}");
    // A second is long for 45 pages.
    let log = temp.at("off");
    let mut off = std::process::Command::new(common::TRANCHE);
    off.args(["serve", "-v", "--no-scrub", "--image"]).arg(&dir).arg("--unix").arg(temp.at("s"));
    let served = common::Served::run(off.stderr(std::fs::File::create(&log).unwrap()));
    std::thread::sleep(std::time::Duration::from_secs(1));
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
    let words = std::fs::read_to_string(&log).unwrap();
    assert!(!words.contains("scrub"), "{words}");
}

#[test]
fn an_image_in_use_is_left_alone() {
    let temp = Temp::new();
    let dir = temp.at("image");
    let served =
        common::Served::start(&["--image", dir.to_str().unwrap(), "--unix", temp.at("s").to_str().unwrap()]);
    let out = temp.at("out");
    for output in [
        tranche(&["image", "check"], &dir, &[]),
        tranche(&["image", "salvage"], &dir, &[out.to_str().unwrap()]),
    ] {
        let wanted = format!("is in use by process {}", served.child.id());
        assert!(output.status.code() == Some(1) && text(&output).contains(&wanted), "{}", text(&output));
    }
    assert!(!out.exists());
}

#[test]
fn encrypted_namespaces_are_saved_with_their_key() {
    let temp = Temp::new();
    let dir = temp.at("image");
    let key = format!("{}{}", DriveKey::PREFIX, "5a".repeat(32));
    let (running, queue) = open(&dir, Some(&key));
    write_all(&queue);
    drop(queue);
    running.stop();
    let (code, found, words) = check(&dir);
    assert!(code == 0 && found["namespaces"][0]["encrypted"] == true, "{words}");
    let out = temp.at("without");
    let (code, report, words) = salvage(&dir, &out, &[]);
    assert!(code == 5 && words.contains("its drive key was not given"), "{words}");
    assert_eq!(report["namespaces"][0]["saved"], false);
    assert_eq!(bytes_of(&out).len(), 1);
    let (out, file) = (temp.at("with"), temp.at("key"));
    std::fs::write(&file, &key).unwrap();
    let (code, report, words) = salvage(&dir, &out, &["--drive-key", file.to_str().unwrap()]);
    assert!(code == 0 && report["namespaces"][0]["saved"] == true, "{words}");
    assert_eq!(saved(&out), (0..40).collect::<Vec<_>>());
    let second = std::fs::read(out.join("namespace-2.img")).unwrap();
    assert_eq!(second[4 * 4096..][..4096], page(2, 4));
}

/// What a drive says of itself when it opens.
fn notes(dir: &Path, key: &str) -> Vec<String> {
    let options =
        Options { image: Some(dir.to_owned()), drive_key: Some(key.parse().unwrap()), ..Options::default() };
    let running = live::start(None, &options, &mut |_| ()).unwrap();
    let notes = running.notes().to_vec();
    running.stop();
    notes
}

#[test]
fn a_copy_is_told_and_gets_an_identity_of_its_own() {
    let temp = Temp::new();
    let (dir, dead, copied) = (temp.at("image"), temp.at("dead"), temp.at("copy"));
    let key = format!("{}{}", DriveKey::PREFIX, "5a".repeat(32));
    let (running, queue) = open(&dir, Some(&key));
    write_all(&queue);
    // What a killed process leaves can be renewed, too: it is recovered first.
    copy(&dir, &dead);
    let in_use = tranche(&["image", "renew"], &dir, &[]);
    assert!(in_use.status.code() == Some(1) && text(&in_use).contains("is in use"), "{}", text(&in_use));
    drop(queue);
    running.stop();
    copy(&dir, &copied);
    let told = |dir: &Path| notes(dir, &key).iter().any(|note| note.contains("tranche image renew"));
    assert!(!told(&dir) && told(&copied) && !told(&copied), "a copy is told once");

    let renew = |dir: &Path, rest: &[&str]| {
        let output = tranche(&["image", "renew", "--output", "json"], dir, rest);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code().unwrap(), document, text(&output))
    };
    // The lock file has the last process.
    let drive = || {
        let mut files = bytes_of(&copied);
        files.remove(&copied.join("lock"));
        files
    };
    let before = drive();
    let (code, _, words) = renew(&copied, &["--drive-key", &key, "--nqn", "no NQN"]);
    assert!(code == 1 && words.contains("drive.nqn"), "{words}");
    assert!(drive() == before, "a name that cannot be changes nothing");
    let (code, _, words) = renew(&copied, &[]);
    assert!(code == 1 && words.contains("LOCKED"), "{words}");

    let nqn = "nqn.2026-11.test:copy";
    let mut seen = Vec::new();
    for dir in [&dead, &copied] {
        let (code, renewed, words) = renew(dir, &["--drive-key", &key, "--nqn", nqn, "--serial", "COPY0001"]);
        assert!(code == 0 && renewed["before"]["serial"] == "TRANCHE0001", "{words}");
        assert!(renewed["now"]["serial"] == "COPY0001" && renewed["now"]["nqn"] == nqn, "{words}");
        let ids = |which: &str| {
            let namespaces = renewed[which]["namespaces"].as_array().unwrap();
            namespaces.iter().map(|ns| ns["uuid"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!((ids("before").len(), ids("now").len()), (3, 3));
        seen.extend(ids("now"));
        seen.extend(if seen.len() == 3 { ids("before") } else { Vec::new() });
        let out = temp.at(dir.file_name().unwrap().to_str().unwrap()).with_extension("out");
        let (code, _, words) = salvage(dir, &out, &["--drive-key", &key]);
        assert_eq!((code, saved(&out)), (0, (0..40).collect::<Vec<_>>()), "{words}");
        // The next time it is the original of this identity.
        let (_, again, _) = renew(dir, &["--drive-key", &key]);
        assert_eq!(again["before"], renewed["now"]);
    }
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((all, seen.len()), (9, 9), "{seen:?}");
}
