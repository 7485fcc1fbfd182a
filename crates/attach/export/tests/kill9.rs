//! Kills a drive at random while programs write to its block files, starts it again on the same image and
//! looks whether everything that was acknowledged is there.
//!
//! `cargo test -p export --test kill9 -- --rounds 100 [--seed N] [--dir DIR]`; 3 rounds in the suite.
//!
//! Requests come through io_uring and through the device in turn, where the kernel has both. Each round: fio writes a region of the loop device with checksums, completely; four writers overwrite and
//! punch another region of the file without end; the process gets SIGKILL after a random time (now and then
//! it is stopped in order instead). After the next start fio verifies its region, and every block
//! of the other must hold the last acknowledged content or one that was on its way at the end, whole.

use export::{Export, FuseTransport, Options};
use live::{ImageOptions, Shape};
use rng::Rng;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::{has_rings, is_mounted, possible, run};

const DRIVE: &str = r#"
[[set]]
media = "nand"
cell = "tlc"
capacity = "256MiB"
spare = "30%"
channels = 2
dies = 2
planes = 1
nand_page = "16KiB"
pages_per_block = 48
rated_cycles = 30000

[[namespace]]
set = 1
size = "192MiB"
lba = 4096
attach = "all"
"#;

const BLOCK: usize = 4096;
/// What each of the writers owns; fio's region follows the last.
const REGION_BLOCKS: u64 = 4096;
const WRITERS: u64 = 4;
const SERVE: &str = "BLOCK_KILL9_SERVE";
/// Set for a process whose requests come through io_uring.
const RINGS: &str = "BLOCK_KILL9_RINGS";

fn main() {
    if let Some(dir) = std::env::var_os(SERVE) {
        return serve(Path::new(&dir));
    }
    let mut rounds = 3;
    let mut seed = u64::from(std::process::id());
    let mut dir = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--rounds" => rounds = value().parse().expect("--rounds takes a number"),
            "--seed" => seed = value().parse().expect("--seed takes a number"),
            "--dir" => dir = Some(PathBuf::from(value())),
            "--list" => return println!("kill9: test"),
            // The runner's own options change nothing here; the name of another test does.
            other if other.starts_with('-') => {}
            filter if "kill9".contains(filter) => {}
            _ => return,
        }
    }
    if possible("kill9", &["losetup", "fio"]) {
        let temporary = tempfile::tempdir().unwrap();
        campaign(rounds, seed, dir.as_deref().unwrap_or(temporary.path()));
    }
}

/// The process that is killed.
fn serve(dir: &Path) {
    let shape = Shape { config: device::Config::from_toml(DRIVE).unwrap(), toml: DRIVE.to_owned() };
    // A process that dies takes nothing of the host's page cache along.
    let image_options = ImageOptions { host_sync: false, ..ImageOptions::default() };
    let image = Some(dir.join("image"));
    let options = live::Options { image, image_options, ..live::Options::default() };
    let running = live::start(Some(shape), &options, &mut |_| ()).unwrap();
    let transport =
        if std::env::var_os(RINGS).is_some() { FuseTransport::Uring } else { FuseTransport::Device };
    let options = Options { loops: true, transport, ..Options::default() };
    let mut export = Export::start(&running.handle(), &dir.join("files"), options).unwrap();
    println!("ready {}", export.devices()[0].node.as_deref().unwrap().display());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert_eq!(export.stop(), Vec::<String>::new());
    running.stop();
}

struct Server {
    child: Child,
    node: String,
}

impl Server {
    fn start(dir: &Path, rings: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if rings {
            command.env(RINGS, "1");
        }
        let mut child = command.env(SERVE, dir).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let node = line.trim().strip_prefix("ready ").expect("the drive does not start").to_owned();
        Server { child, node }
    }

    fn kill(self) {
        drop(self);
    }

    fn stop(mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// However the campaign ends, the drive does, too.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// And nothing stays mounted.
struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        if let Err(error) = export::clean_stale(&self.0) {
            println!("kill9: {error}");
        }
    }
}

/// The content of a block in one of its versions; version 0 is zeroes.
fn content(block: u64, version: u64) -> Vec<u8> {
    if version == 0 {
        return vec![0; BLOCK];
    }
    let mut random = Rng::new(block << 32 | version);
    let mut bytes = Vec::with_capacity(BLOCK);
    bytes.extend(version.to_le_bytes());
    while bytes.len() < BLOCK {
        bytes.extend(random.next_u64().to_le_bytes());
    }
    bytes
}

/// What one writer knows of its blocks.
#[derive(Default)]
struct Writer {
    /// Last acknowledged version; 0, zeroes, if absent.
    acknowledged: HashMap<u64, u64>,
    /// The operation that was not answered: first block, number, version.
    open: Option<(u64, u64, u64)>,
    last_version: u64,
    operations: u64,
}

impl Writer {
    /// Writes until the drive dies or `stop` is set.
    fn run(&mut self, file: &File, first: u64, mut random: Rng, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let blocks = 1 + random.below(32);
            let start = first + random.below(REGION_BLOCKS - blocks + 1);
            let hole = random.below(8) == 0;
            self.last_version += 1;
            let version = if hole { 0 } else { self.last_version };
            self.open = Some((start, blocks, version));
            let result = if hole {
                let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                let (at, len) = (start * BLOCK as u64, blocks * BLOCK as u64);
                rustix::fs::fallocate(file, flags, at, len).map_err(std::io::Error::from)
            } else {
                let data: Vec<u8> =
                    (start..start + blocks).flat_map(|block| content(block, version)).collect();
                file.write_all_at(&data, start * BLOCK as u64)
            };
            if result.is_err() {
                return;
            }
            self.acknowledge();
        }
    }

    fn acknowledge(&mut self) {
        if let Some((start, blocks, version)) = self.open.take() {
            self.acknowledged.extend((start..start + blocks).map(|block| (block, version)));
            self.operations += 1;
        }
    }

    /// Compares, and takes what is there as acknowledged.
    fn check(&mut self, file: &File, first: u64) -> Result<(), String> {
        let mut data = vec![0; REGION_BLOCKS as usize * BLOCK];
        file.read_exact_at(&mut data, first * BLOCK as u64).map_err(|error| error.to_string())?;
        let open = self.open.take();
        for (block, found) in (first..).zip(data.chunks(BLOCK)) {
            let sure = self.acknowledged.get(&block).copied().unwrap_or(0);
            if found == content(block, sure) {
                continue;
            }
            let perhaps = open.filter(|(start, blocks, _)| (*start..start + blocks).contains(&block));
            match perhaps {
                Some((_, _, version)) if found == content(block, version) => {
                    self.acknowledged.insert(block, version);
                }
                _ => {
                    let version = u64::from_le_bytes(found[..8].try_into().unwrap());
                    return Err(format!(
                        "block {block}: version {sure} acknowledged, {perhaps:?} open, {version} found"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn fio(node: &str, seed: u64, verify_only: bool) {
    let target = format!("--filename={node}");
    let offset = format!("--offset={}", WRITERS * REGION_BLOCKS * BLOCK as u64);
    let seed = format!("--randseed={seed}");
    let how = if verify_only { "--verify_only" } else { "--do_verify=0" };
    run(
        "fio",
        &[
            "--name=kill9",
            &target,
            &offset,
            &seed,
            how,
            "--size=32m",
            "--rw=randwrite",
            "--bs=16k",
            "--direct=1",
            "--ioengine=libaio",
            "--iodepth=16",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
        ],
    );
}

fn campaign(rounds: u32, seed: u64, dir: &Path) {
    println!("kill9: {rounds} rounds, seed {seed}");
    let mut random = Rng::new(seed | 1);
    let files = dir.join("files");
    std::fs::create_dir_all(&files).unwrap();
    let _cleared = Files(files.clone());
    let mut writers: Vec<Writer> = (0..WRITERS).map(|_| Writer::default()).collect();
    let (mut killed, mut lost_answers) = (0, 0);
    let has_rings = has_rings("kill9");
    let mut server = Server::start(dir, has_rings);
    for round in 1..=rounds {
        let fio_seed = random.below(1 << 30);
        fio(&server.node, fio_seed, false);
        let in_order = random.below(8) == 0;
        let patience = Duration::from_millis(5 + random.below(400));
        let stop = AtomicBool::new(false);
        let file = OpenOptions::new().read(true).write(true).open(files.join("nvme0n1")).unwrap();
        let mut running = Some(server);
        std::thread::scope(|scope| {
            for (index, writer) in (0..).zip(&mut writers) {
                let random = Rng::new(random.next_u64() | 1);
                let (file, stop) = (&file, &stop);
                scope.spawn(move || writer.run(file, index * REGION_BLOCKS, random, stop));
            }
            std::thread::sleep(patience);
            if in_order {
                stop.store(true, Ordering::Relaxed);
            } else {
                running.take().unwrap().kill();
                killed += 1;
            }
        });
        drop(file);
        running.into_iter().for_each(Server::stop);
        lost_answers += writers.iter().filter(|writer| writer.open.is_some()).count();

        server = Server::start(dir, has_rings && round % 2 == 0);
        fio(&server.node, fio_seed, true);
        let file = File::open(files.join("nvme0n1")).unwrap();
        for (index, writer) in (0..).zip(&mut writers) {
            if let Err(error) = writer.check(&file, index * REGION_BLOCKS) {
                let image = dir.join("image");
                server.kill();
                let kept = std::env::temp_dir().join(format!("kill9-{seed}-{round}"));
                let _ = std::fs::rename(image, &kept);
                panic!("round {round} of seed {seed}, image kept in {}: {error}", kept.display());
            }
        }
        let operations: u64 = writers.iter().map(|writer| writer.operations).sum();
        if round % 10 == 0 || round == rounds {
            println!(
                "kill9: round {round}, {killed} kills, {operations} acknowledged operations, {lost_answers} unanswered, nothing lost"
            );
        }
    }
    server.stop();
    assert!(!is_mounted(&files));
}
