//! A real drive's zones as files: what the kernel, the drive and other hosts make of the contract of zonefs.

use export::{Export, FuseTransport, Options};
use host::{Addr, Host, Identity, SocketTransport, Zones, namespace_create};
use live::{Running, Shape};
use nvme::Csi;
use nvme::identify::ZonedCreate;
use nvme::zone::{ZoneReportFilter, ZoneSendAction, ZoneState};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::{each_way, is_mounted, possible, run, wait_for};

/// Zones of 2 MiB, of which 1.5 MiB can be written.
fn drive() -> String {
    let flash = testkit::drives::flash("128MiB", "zone = { active = 14 }");
    format!(
        r#"
[drive]
timing = false
write_buffer = "1MiB"
allow_network_faults = true
{flash}
[[namespace]]
size = "16MiB"
lba = 4096
attach = "all"
"#
    )
}
const COUNT: u32 = 16;
const SIZE: u64 = 512 * 4096;
const CAPACITY: u64 = 384 * 4096;
/// The zoned namespace.
const NSID: u32 = 2;
/// Zones that may be open, and active.
const MAX_OPEN_ZONES: u32 = 3;
const MAX_ACTIVE_ZONES: u32 = 5;

struct Bench {
    dir: tempfile::TempDir,
    rings: bool,
    running: Option<Running>,
    export: Option<Export>,
}

impl Bench {
    /// A drive with a zoned namespace.
    fn new(rings: bool) -> Self {
        Self::of(rings, &drive())
    }

    fn of(rings: bool, drive: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("files")).unwrap();
        let mut bench = Bench { dir, rings, running: None, export: None };
        bench.start(drive);
        let mut host = bench.host();
        let mut create = namespace_create(u64::from(COUNT) * SIZE / 4096, 0, 1);
        create.set_zoned(&ZonedCreate {
            rar: MAX_ACTIVE_ZONES.into(),
            ror: MAX_OPEN_ZONES.into(),
            ..ZonedCreate::default()
        });
        assert_eq!(host.create_namespace_of(Csi::ZONED, &create).unwrap(), NSID);
        assert!(!bench.top().exists(), "created but not attached");
        let controllers = host.controllers().unwrap();
        host.attach_namespace(NSID, &controllers).unwrap();
        bench.wait_for_zones();
        bench
    }

    fn start(&mut self, drive: &str) {
        let shape = Shape { config: device::Config::from_toml(drive).unwrap(), toml: drive.to_owned() };
        let (unix, image) = (self.dir.path().join("socket"), self.dir.path().join("image"));
        let options = live::Options { unix: Some(unix), image: Some(image), ..live::Options::default() };
        let mut running = None;
        // A program that another test starts has the lock of the image until it runs.
        wait_for("the image", || {
            running = live::start(Some(shape.clone()), &options, &mut |_| ()).ok();
            running.is_some()
        });
        let transport = if self.rings { FuseTransport::Uring } else { FuseTransport::Device };
        let options = Options { transport, ..Options::default() };
        let export =
            Export::start(&running.as_ref().unwrap().handle(), &self.dir.path().join("files"), options)
                .unwrap();
        (self.running, self.export) = (running, Some(export));
    }

    fn stop(&mut self) {
        assert_eq!(self.export.take().unwrap().stop(), Vec::<String>::new());
        assert!(!is_mounted(&self.dir.path().join("files")));
        self.running.take().unwrap().stop();
    }

    fn wait_for_zones(&self) {
        wait_for("the zoned namespace", || self.zone(0).exists());
    }

    fn host(&self) -> Host<SocketTransport> {
        let addr: Addr = format!("unix://{}", self.dir.path().join("socket").display()).parse().unwrap();
        let identity = Identity::new("nqn.2026-11.test:host".parse().unwrap());
        Host::connect(SocketTransport::new(addr, Duration::from_secs(10)), &identity).unwrap()
    }

    fn top(&self) -> PathBuf {
        self.dir.path().join("files").join(format!("nvme0n{NSID}"))
    }

    fn zone(&self, zone: u32) -> PathBuf {
        self.top().join("seq").join(zone.to_string())
    }

    fn size(&self, zone: u32) -> u64 {
        std::fs::metadata(self.zone(zone)).unwrap().len()
    }

    /// The states of all zones, as another host sees them.
    fn states(&self) -> Vec<ZoneState> {
        let mut host = self.host();
        let zoned = host.zoned_namespace(NSID).unwrap();
        let mut queue = host.io_queue(4).unwrap();
        let zones = queue.report_zones(&zoned, 0, ZoneReportFilter::ALL, COUNT as usize).unwrap();
        zones.iter().map(|zone| zone.state()).collect()
    }

    fn manage(&self, zone: u32, action: ZoneSendAction) {
        let zone = Zones::One(u64::from(zone) * SIZE / 4096);
        let mut host = self.host();
        host.io_queue(4).unwrap().manage_zones(NSID, action, zone).unwrap();
    }
}

fn direct() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::DIRECT.bits().cast_signed());
    options
}

fn writer(path: &Path) -> File {
    direct().read(true).write(true).open(path).unwrap()
}

/// Whole blocks.
fn blocks(count: usize, value: u8) -> Vec<u8> {
    vec![value; count * 4096]
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: std::io::Result<T>, errno: Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{error}");
}

each_way! {
    a_zoned_namespace_is_a_directory_of_zones,
    zones_are_written_at_their_ends,
    what_zonefs_does_not_allow_is_refused,
    files_that_are_open_for_writing_have_open_zones,
    other_hosts_change_zones_and_the_files_show_it,
    namespaces_with_zones_come_and_go,
    zones_outlive_the_drive_s_process,
    power_cuts_are_what_they_are_for_block_files,
    loads_of_programs_find_what_they_have_written,
}

fn a_zoned_namespace_is_a_directory_of_zones(rings: bool) {
    if !possible("a_zoned_namespace_is_a_directory_of_zones", &["df"]) {
        return;
    }
    let mut bench = Bench::new(rings);
    let names = |dir: &Path| {
        let mut names: Vec<String> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    };
    let (top, seq) = (bench.top(), bench.top().join("seq"));
    assert_eq!(names(top.parent().unwrap()), ["nvme0n1", "nvme0n2"]);
    assert_eq!(names(&top), ["seq"]);
    assert_eq!(names(&seq), (0..COUNT).map(|zone| zone.to_string()).collect::<Vec<_>>());
    let (of_top, of_seq) = (top.metadata().unwrap(), seq.metadata().unwrap());
    assert_eq!((of_top.len(), of_top.mode() & 0o7777), (1, 0o555));
    assert_eq!((of_seq.len(), of_seq.mode() & 0o7777), (COUNT.into(), 0o555));
    let zone = bench.zone(7).metadata().unwrap();
    assert_eq!((zone.len(), zone.blocks(), zone.blksize()), (0, CAPACITY / 512, 4096));
    assert_eq!(zone.mode() & 0o7777, 0o600);
    for missing in ["seq/16", "seq/007", "cnv"] {
        assert!(!top.join(missing).exists(), "{missing}");
    }
    let device = bench.export.as_ref().unwrap().devices().pop().unwrap();
    assert_eq!(
        (device.zones.map(|zones| zones.count), device.bytes),
        (Some(COUNT), u64::from(COUNT) * CAPACITY)
    );

    run("chown", &["65534:65534", bench.zone(7).to_str().unwrap()]);
    run("chmod", &["640", bench.zone(7).to_str().unwrap()]);
    let zone = bench.zone(7).metadata().unwrap();
    assert_eq!((zone.uid(), zone.gid(), zone.mode() & 0o7777), (65534, 65534, 0o640));
    assert_eq!(bench.zone(8).metadata().unwrap().uid(), 0);

    writer(&bench.zone(3)).write_all_at(&blocks(10, 1), 0).unwrap();
    let stat = rustix::fs::statfs(&seq).unwrap();
    let free = u64::from(COUNT) * CAPACITY / 4096 - 10;
    assert_eq!((stat.f_bsize as u64, stat.f_blocks as u64), (4096, free + 10));
    assert_eq!((stat.f_bfree as u64, stat.f_bavail as u64, stat.f_files as u64), (free, free, COUNT.into()));
    bench.stop();
}

fn zones_are_written_at_their_ends(rings: bool) {
    if !possible("zones_are_written_at_their_ends", &["dd", "truncate"]) {
        return;
    }
    let mut bench = Bench::new(rings);
    let mut file = writer(&bench.zone(0));
    file.write_all(&blocks(3, 1)).unwrap();
    file.write_all(&blocks(150, 2)).unwrap();
    file.write_all(&blocks(150, 2)).unwrap();
    assert_eq!((bench.size(0), file.metadata().unwrap().len()), (303 * 4096, 303 * 4096));
    // As far as there is room, and no further.
    assert_eq!(file.write(&blocks(200, 3)).unwrap(), 81 * 4096);
    refused(file.write(&blocks(1, 3)), Errno::FBIG);
    let read = std::fs::read(bench.zone(0)).unwrap();
    assert_eq!(read.len() as u64, CAPACITY);
    assert!(read == [blocks(3, 1), blocks(300, 2), blocks(81, 3)].concat());
    assert_eq!(file.read_at(&mut [0; 512], CAPACITY).unwrap(), 0);
    // Reads need no alignment.
    let mut part = [0; 7];
    file.read_exact_at(&mut part, 3 * 4096 - 3).unwrap();
    assert_eq!(part, [1, 1, 1, 2, 2, 2, 2]);
    file.sync_all().unwrap();
    drop(file);
    wait_for("the zone", || bench.states()[0] == ZoneState::FULL);

    // Appends go to the end, wherever that is.
    let mut append = direct().append(true).open(bench.zone(1)).unwrap();
    for value in [4, 5, 6] {
        append.write_all(&blocks(1, value)).unwrap();
    }
    assert!(std::fs::read(bench.zone(1)).unwrap() == [blocks(1, 4), blocks(1, 5), blocks(1, 6)].concat());
    assert_eq!(append.seek(SeekFrom::End(0)).unwrap(), 3 * 4096);

    // Truncating resets and finishes.
    for (size, state) in [(CAPACITY, ZoneState::FULL), (0, ZoneState::EXPLICITLY_OPENED)] {
        append.set_len(size).unwrap();
        assert_eq!((bench.size(1), bench.states()[1]), (size, state));
    }
    append.write_all(&blocks(1, 7)).unwrap();
    drop(append);
    run("truncate", &["--size", &CAPACITY.to_string(), bench.zone(2).to_str().unwrap()]);
    assert_eq!((bench.size(2), bench.states()[2]), (CAPACITY, ZoneState::FULL));
    assert!(std::fs::read(bench.zone(2)).unwrap().iter().all(|byte| *byte == 0));
    // As a program that makes its file anew does.
    let of = format!("of={}", bench.zone(2).display());
    run("dd", &["if=/dev/zero", &of, "bs=64k", "count=3", "oflag=direct", "status=none"]);
    assert_eq!(bench.size(2), 3 << 16);
    // And one that writes all there is room for.
    let (of, count) = (format!("of={}", bench.zone(4).display()), format!("count={}", CAPACITY >> 16));
    run(
        "dd",
        &["if=/dev/urandom", &of, "bs=64k", &count, "oflag=direct", "conv=notrunc,fsync", "status=none"],
    );
    assert_eq!((bench.size(4), bench.states()[4]), (CAPACITY, ZoneState::FULL));
    bench.stop();
}

fn what_zonefs_does_not_allow_is_refused(rings: bool) {
    if !possible("what_zonefs_does_not_allow_is_refused", &[]) {
        return;
    }
    let mut bench = Bench::new(rings);
    let file = writer(&bench.zone(0));
    file.write_all_at(&blocks(4, 1), 0).unwrap();
    refused(file.write_at(&blocks(1, 2), 0), Errno::INVAL);
    refused(file.write_at(&blocks(1, 2), 3 * 4096), Errno::INVAL);
    refused(file.write_at(&blocks(1, 2), 5 * 4096), Errno::INVAL);
    refused(file.write_at(&[2; 512], 4 * 4096), Errno::INVAL);
    refused(file.write_at(&blocks(1, 2), CAPACITY), Errno::FBIG);
    let cached = OpenOptions::new().write(true).open(bench.zone(0)).unwrap();
    refused(cached.write_at(&blocks(1, 2), 4 * 4096), Errno::IO);
    for size in [4096, 4 * 4096, CAPACITY - 4096, CAPACITY + 4096] {
        refused(file.set_len(size), Errno::PERM);
    }
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for mode in [FallocateFlags::empty(), hole] {
        refused(rustix::fs::fallocate(&file, mode, 0, 4096).map_err(Into::into), Errno::OPNOTSUPP);
    }
    assert_eq!(bench.size(0), 4 * 4096);

    let (top, seq) = (bench.top(), bench.top().join("seq"));
    refused(File::create(seq.join("99")), Errno::PERM);
    refused(std::fs::create_dir(top.join("cnv")), Errno::PERM);
    refused(std::fs::remove_file(bench.zone(0)), Errno::PERM);
    refused(std::fs::remove_dir(&seq), Errno::PERM);
    refused(std::fs::rename(bench.zone(0), seq.join("99")), Errno::PERM);
    refused(std::fs::hard_link(bench.zone(0), seq.join("99")), Errno::PERM);
    refused(std::os::unix::fs::symlink("0", seq.join("99")), Errno::PERM);
    for dir in [&top, &seq] {
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        refused(std::fs::set_permissions(dir, all), Errno::PERM);
    }
    drop((file, cached));
    bench.stop();
}

fn files_that_are_open_for_writing_have_open_zones(rings: bool) {
    if !possible("files_that_are_open_for_writing_have_open_zones", &[]) {
        return;
    }
    let mut bench = Bench::new(rings);
    let open: Vec<File> = (0..MAX_OPEN_ZONES).map(|zone| writer(&bench.zone(zone))).collect();
    let states = bench.states();
    assert!(states[..3].iter().all(|state| *state == ZoneState::EXPLICITLY_OPENED), "{states:?}");
    refused(direct().write(true).open(bench.zone(5)), Errno::BUSY);
    // Those that only read need nothing, and neither does a second one of the same zone.
    let second = writer(&bench.zone(0));
    File::open(bench.zone(5)).unwrap();
    open[0].write_all_at(&blocks(1, 1), 0).unwrap();
    // Closed after a write, and without.
    drop(open);
    wait_for("closing", || {
        let states = bench.states();
        let expected = [ZoneState::EXPLICITLY_OPENED, ZoneState::EMPTY, ZoneState::EMPTY];
        states[..3] == expected
    });
    drop(second);
    wait_for("closing", || bench.states()[0] == ZoneState::CLOSED);

    // What was closed may be opened again at once, and another in its place.
    let held: Vec<File> = (1..MAX_OPEN_ZONES).map(|zone| writer(&bench.zone(zone))).collect();
    for round in 0..60 {
        let file = writer(&bench.zone(6 + round % 4));
        if round < 4 {
            file.set_len(CAPACITY).unwrap();
        }
    }
    drop(held);
    // Zones that are written in part stay active: five may be.
    for zone in 1..MAX_ACTIVE_ZONES {
        bench.manage(zone, ZoneSendAction::RESET);
        writer(&bench.zone(zone)).write_all_at(&blocks(1, 2), 0).unwrap();
    }
    refused(direct().write(true).open(bench.zone(MAX_ACTIVE_ZONES)), Errno::BUSY);
    OpenOptions::new().write(true).open(bench.zone(1)).unwrap().set_len(0).unwrap();
    wait_for("room", || direct().write(true).open(bench.zone(MAX_ACTIVE_ZONES)).is_ok());
    bench.stop();
}

fn other_hosts_change_zones_and_the_files_show_it(rings: bool) {
    if !possible("other_hosts_change_zones_and_the_files_show_it", &[]) {
        return;
    }
    let mut bench = Bench::new(rings);
    let file = writer(&bench.zone(0));
    file.write_all_at(&blocks(4, 1), 0).unwrap();
    let mut host = bench.host();
    let zoned = host.zoned_namespace(NSID).unwrap();
    let mut queue = host.io_queue(4).unwrap();
    queue.append(&zoned, 0, &blocks(2, 2)).unwrap();
    // Also where nobody has asked for the size.
    let mut read = blocks(2, 0);
    file.read_exact_at(&mut read, 4 * 4096).unwrap();
    assert_eq!(read, blocks(2, 2));
    assert_eq!(bench.size(0), 6 * 4096);
    refused(file.write_at(&blocks(1, 3), 4 * 4096), Errno::INVAL);
    file.write_all_at(&blocks(1, 3), 6 * 4096).unwrap();
    queue.manage_zones(NSID, ZoneSendAction::RESET, Zones::One(0)).unwrap();
    assert_eq!(bench.size(0), 0);
    assert_eq!(file.read_at(&mut read, 0).unwrap(), 0);
    file.write_all_at(&blocks(1, 4), 0).unwrap();
    queue.manage_zones(NSID, ZoneSendAction::FINISH, Zones::One(0)).unwrap();
    assert_eq!(bench.size(0), CAPACITY);
    refused(file.write_at(&blocks(1, 5), 4096), Errno::INVAL);
    drop(file);
    bench.stop();
}

fn namespaces_with_zones_come_and_go(rings: bool) {
    if !possible("namespaces_with_zones_come_and_go", &[]) {
        return;
    }
    let mut bench = Bench::new(rings);
    let file = writer(&bench.zone(0));
    file.write_all_at(&blocks(4, 1), 0).unwrap();
    let mut host = bench.host();
    let controllers = host.controllers().unwrap();
    host.detach_namespace(NSID, &controllers).unwrap();
    wait_for("its end", || !bench.top().exists() && !bench.zone(0).exists());
    refused(file.write_at(&blocks(1, 1), 4 * 4096), Errno::NODEV);
    refused(file.read_at(&mut [0; 4096], 0), Errno::NODEV);
    refused(file.sync_all(), Errno::NODEV);
    refused(file.metadata(), Errno::NODEV);
    drop(file);
    host.attach_namespace(NSID, &controllers).unwrap();
    bench.wait_for_zones();
    assert!(std::fs::read(bench.zone(0)).unwrap() == blocks(4, 1));
    writer(&bench.zone(0)).write_all_at(&blocks(1, 2), 4 * 4096).unwrap();
    host.delete_namespace(NSID).unwrap();
    wait_for("its end for good", || !bench.top().exists());
    bench.stop();
}

fn zones_outlive_the_drive_s_process(rings: bool) {
    if !possible("zones_outlive_the_drive_s_process", &[]) {
        return;
    }
    let mut bench = Bench::new(rings);
    for zone in 0..MAX_OPEN_ZONES {
        let file = writer(&bench.zone(zone));
        file.write_all_at(&blocks(zone as usize + 1, zone as u8), 0).unwrap();
        file.sync_data().unwrap();
    }
    OpenOptions::new().write(true).open(bench.zone(9)).unwrap().set_len(CAPACITY).unwrap();
    for _ in 0..2 {
        bench.stop();
        bench.start(&drive());
        bench.wait_for_zones();
        for zone in 0..MAX_OPEN_ZONES {
            assert!(std::fs::read(bench.zone(zone)).unwrap() == blocks(zone as usize + 1, zone as u8));
        }
        assert_eq!((bench.size(9), bench.size(10)), (CAPACITY, 0));
    }
    writer(&bench.zone(2)).write_all_at(&blocks(1, 9), 3 * 4096).unwrap();
    assert_eq!(bench.size(2), 4 * 4096);
    bench.stop();
}

fn power_cuts_are_what_they_are_for_block_files(rings: bool) {
    if !possible("power_cuts_are_what_they_are_for_block_files", &[]) {
        return;
    }
    let cut = nvme::admin::PowerCut { off_ms: 300, ..Default::default() };
    let mut bench = Bench::new(rings);
    let file = writer(&bench.zone(0));
    file.write_all_at(&blocks(20, 1), 0).unwrap();
    let mut host = bench.host();
    // The connection goes with the power.
    let _ = host.power_cut(cut);
    refused(file.write_at(&blocks(1, 2), 20 * 4096), Errno::IO);
    refused(direct().write(true).open(bench.zone(1)), Errno::IO);
    wait_for("power", || file.write_at(&blocks(1, 2), 20 * 4096).is_ok());
    assert!(std::fs::read(bench.zone(0)).unwrap() == [blocks(20, 1), blocks(1, 2)].concat());
    drop(file);
    bench.stop();

    // Without capacitors, what was not flushed is lost: the directory is another one.
    let without = drive().replace("allow_network", "power_loss_protection = false\nallow_network");
    let mut bench = Bench::of(rings, &without);
    let file = writer(&bench.zone(0));
    run("chmod", &["640", bench.zone(0).to_str().unwrap()]);
    file.write_all_at(&blocks(8, 1), 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&blocks(1, 2), 8 * 4096).unwrap();
    let before = bench.top().metadata().unwrap().ino();
    let _ = bench.host().power_cut(cut);
    wait_for("the directory of afterwards", || {
        bench.top().metadata().is_ok_and(|meta| meta.ino() != before) && bench.zone(0).exists()
    });
    for _ in 0..3 {
        refused(file.sync_all(), Errno::NODEV);
        refused(file.write_at(&blocks(1, 2), 9 * 4096), Errno::NODEV);
    }
    let zone = bench.zone(0).metadata().unwrap();
    assert!([8 * 4096, 9 * 4096].contains(&zone.len()), "{}", zone.len());
    assert_eq!(zone.mode() & 0o777, 0o640);
    assert!(std::fs::read(bench.zone(0)).unwrap().starts_with(&blocks(8, 1)));
    writer(&bench.zone(0)).write_all_at(&blocks(1, 3), zone.len()).unwrap();
    drop(file);
    bench.stop();
}

fn loads_of_programs_find_what_they_have_written(rings: bool) {
    if !possible("loads_of_programs_find_what_they_have_written", &["fio"]) {
        return;
    }
    let mut bench = Bench::new(rings);
    let size = format!("--size={CAPACITY}");
    // One request at a time; several, which the kernel sends one after the other; requests larger than one of FUSE.
    for (zone, load) in [
        (0, ["--ioengine=psync", "--iodepth=1", "--bs=4k"]),
        (1, ["--ioengine=libaio", "--iodepth=16", "--bs=16k"]),
        (2, ["--ioengine=libaio", "--iodepth=4", "--bs=1536k"]),
    ] {
        let filename = format!("--filename={}", bench.zone(zone).display());
        let common = ["--name=zone", &filename, &size, "--rw=write", "--direct=1", "--create_on_open=1"];
        let verify = ["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--file_append=0"];
        run("fio", &[&common[..], &verify, &load].concat());
        assert_eq!(bench.size(zone), CAPACITY);
    }
    bench.stop();
}
