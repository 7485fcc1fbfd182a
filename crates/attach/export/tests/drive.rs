//! A real drive behind the block files: what only the two together can show.

use export::{Device, Export, FuseTransport, Options};
use host::{Addr, Data, Host, Identity, SocketTransport, namespace_create};
use live::{Running, Shape};
use nvme::admin::{FaultInjection, FaultKind, FormatNvm, SecureErase};
use nvme::fabrics::FabricsCommand;
use nvme::property::{NSSR_NVME, PropertyOffset};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::Duration;
use testkit::{each_way, is_mounted, possible, run, wait_for};

const DRIVE: &str = r#"
[drive]
allow_network_faults = true
atomic_write = "16KiB"

[[set]]
media = "nand"
cell = "tlc"
capacity = "256MiB"
spare = "50%"
channels = 2
dies = 2
planes = 1
nand_page = "16KiB"
pages_per_block = 48
rated_cycles = 3000

[[set]]
media = "dram"
capacity = "16MiB"

[[namespace]]
set = 1
size = "128MiB"
lba = 4096
attach = "all"
"#;

struct Bench {
    dir: tempfile::TempDir,
    running: Option<Running>,
    export: Export,
}

impl Bench {
    fn new(rings: bool, loops: bool) -> Self {
        Self::of(rings, DRIVE, loops)
    }

    fn of(rings: bool, drive: &str, loops: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("files")).unwrap();
        let shape = Shape { config: device::Config::from_toml(drive).unwrap(), toml: drive.to_owned() };
        let options = live::Options { unix: Some(dir.path().join("socket")), ..live::Options::default() };
        let running = live::start(Some(shape), &options, &mut |_| ()).unwrap();
        let transport = if rings { FuseTransport::Uring } else { FuseTransport::Device };
        let options = Options { loops, transport, ..Options::default() };
        let export = Export::start(&running.handle(), &dir.path().join("files"), options).unwrap();
        Bench { dir, running: Some(running), export }
    }

    fn host(&self) -> Host<SocketTransport> {
        let addr: Addr = format!("unix://{}", self.dir.path().join("socket").display()).parse().unwrap();
        let identity = Identity::new("nqn.2026-11.test:host".parse().unwrap());
        Host::connect(SocketTransport::new(addr, Duration::from_secs(10)), &identity).unwrap()
    }

    fn device(&self, nsid: u32) -> Option<Device> {
        self.export.devices().into_iter().find(|device| device.nsid == nsid)
    }

    fn file(&self, nsid: u32) -> PathBuf {
        self.export.dir().join(format!("nvme0n{nsid}"))
    }

    fn open(&self, nsid: u32) -> File {
        OpenOptions::new().read(true).write(true).open(self.file(nsid)).unwrap()
    }

    fn stop(mut self) {
        assert_eq!(self.export.stop(), Vec::<String>::new());
        assert!(!is_mounted(self.export.dir()));
        self.running.take().unwrap().stop();
    }
}

each_way! {
    namespaces_follow_what_any_host_does_to_the_drive,
    protection_information_is_left_to_the_drive,
    a_page_of_a_database_reaches_the_drive_as_one_command,
    fio_finds_what_it_has_written,
    answers_of_the_drive_s_own_thread_arrive,
    without_power_requests_fail_and_with_it_the_data_is_there,
    what_was_open_when_writes_were_lost_fails_from_then_on,
    files_continue_after_a_subsystem_reset,
    no_space_on_the_host_is_no_space_for_programs,
}

fn namespaces_follow_what_any_host_does_to_the_drive(rings: bool) {
    let name = "namespaces_follow_what_any_host_does_to_the_drive";
    if !possible(name, &["losetup"]) {
        return;
    }
    let bench = Bench::new(rings, true);
    let first = bench.device(1).unwrap();
    assert_eq!((first.bytes, first.block_size, first.read_only), (128 << 20, 4096, false));

    let mut host = bench.host();
    let nsid = host.create_namespace(&namespace_create((4 << 20) / 512, 1, 2)).unwrap();
    assert!(!bench.file(nsid).exists(), "created but not attached");
    let controllers = host.controllers().unwrap();
    host.attach_namespace(nsid, &controllers).unwrap();
    wait_for("the new namespace", || bench.device(nsid).is_some_and(|device| device.node.is_some()));
    let device = bench.device(nsid).unwrap();
    assert_eq!((device.bytes, device.block_size), (4 << 20, 512));
    let node = device.node.unwrap();
    assert_eq!(run("blockdev", &["--getss", node.to_str().unwrap()]).trim(), "512");

    let open = bench.open(nsid);
    open.write_all_at(&[7; 5000], 1000).unwrap();
    host.detach_namespace(nsid, &controllers).unwrap();
    wait_for("its end", || !bench.file(nsid).exists());
    assert!(open.read_at(&mut [0; 512], 0).is_err());
    drop(open);
    host.attach_namespace(nsid, &controllers).unwrap();
    wait_for("its return", || bench.file(nsid).exists());
    let mut back = [0; 5000];
    bench.open(nsid).read_exact_at(&mut back, 1000).unwrap();
    assert_eq!(back, [7; 5000]);
    host.delete_namespace(nsid).unwrap();
    wait_for("its end for good", || !bench.file(nsid).exists());
    bench.stop();
}

fn protection_information_is_left_to_the_drive(rings: bool) {
    if !possible("protection_information_is_left_to_the_drive", &[]) {
        return;
    }
    let bench = Bench::new(rings, false);
    let mut host = bench.host();
    let format = |lbaf, pi| FormatNvm { nsid: 1, lbaf, mset: true, pi, pil: false, ses: SecureErase::NONE };
    // Metadata that is not the drive's alone has no place in a file.
    for (lbaf, pi, there) in [(3, 0, false), (3, 1, true), (4, 1, false), (2, 3, true)] {
        host.format(format(lbaf, pi)).unwrap();
        wait_for("the news", || bench.file(1).exists() == there);
        if there {
            let file = bench.open(1);
            file.write_all_at(&[9; 70_001], 4097).unwrap();
            let mut back = vec![0; 70_003];
            file.read_exact_at(&mut back, 4096).unwrap();
            assert_eq!((back[0], back[70_002]), (0, 0));
            assert!(back[1..70_002].iter().all(|&b| b == 9));
        }
    }
    bench.stop();
}

fn a_page_of_a_database_reaches_the_drive_as_one_command(rings: bool) {
    let name = "a_page_of_a_database_reaches_the_drive_as_one_command";
    if !possible(name, &["losetup", "dd"]) {
        return;
    }
    let bench = Bench::new(rings, true);
    let mut host = bench.host();
    let node = bench.device(1).unwrap().node.unwrap();
    for target in [node, bench.file(1)] {
        let before = host.namespace_statistics(1).unwrap();
        let of = format!("of={}", target.display());
        run(
            "dd",
            &["if=/dev/zero", &of, "bs=16k", "count=500", "oflag=direct", "conv=notrunc", "status=none"],
        );
        let after = host.namespace_statistics(1).unwrap();
        let count = |field: fn(&nvme::log::NamespaceStatistics) -> u64| field(&after) - field(&before);
        assert_eq!(count(|s| s.host_write_commands.get()), 500);
        assert_eq!(count(|s| s.host_bytes_written.get()), 500 * 16384);
        assert_eq!(count(|s| s.whole_writes.get()), 500);
    }
    bench.stop();
}

fn fio_finds_what_it_has_written(rings: bool) {
    if !possible("fio_finds_what_it_has_written", &["losetup", "fio"]) {
        return;
    }
    let bench = Bench::new(rings, true);
    let node = bench.device(1).unwrap().node.unwrap();
    let jobs: &[(PathBuf, &[&str])] = &[
        (node.clone(), &["--rw=randwrite", "--bs=4k"]),
        (node, &["--rw=randtrimwrite", "--bs=16k"]),
        (bench.file(1), &["--rw=randwrite", "--bsrange=4k-128k", "--blockalign=4k"]),
        (bench.file(1), &["--rw=write", "--bs=1000000"]),
    ];
    for (target, job) in jobs {
        let target = format!("--filename={}", target.display());
        let common = ["--name=verify", &target, "--size=120m", "--ioengine=libaio", "--direct=1"];
        let verify = ["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"];
        let load = ["--iodepth=32", "--randseed=7", "--fsync=100"];
        run("fio", &[&common[..], &verify, &load, job].concat());
    }
    bench.stop();
}

fn answers_of_the_drive_s_own_thread_arrive(rings: bool) {
    if !possible("answers_of_the_drive_s_own_thread_arrive", &[]) {
        return;
    }
    // With times of its own the drive answers later, from another thread than the one that asked.
    let bench = Bench::of(rings, &DRIVE.replace("[drive]", "[drive]\ntiming = true"), false);
    let file = bench.open(1);
    std::thread::scope(|scope| {
        for writer in 0..8u8 {
            let file = &file;
            scope.spawn(move || {
                let first = u64::from(writer) * 64;
                let data = |block: u64| vec![writer ^ block as u8; 4096];
                for block in first..first + 64 {
                    file.write_all_at(&data(block), block * 4096).unwrap();
                }
                for block in first..first + 64 {
                    let mut back = vec![0; 4096];
                    file.read_exact_at(&mut back, block * 4096).unwrap();
                    assert_eq!(back, data(block));
                }
                file.sync_data().unwrap();
            });
        }
    });
    drop(file);
    bench.stop();
}

fn without_power_requests_fail_and_with_it_the_data_is_there(rings: bool) {
    let name = "without_power_requests_fail_and_with_it_the_data_is_there";
    if !possible(name, &["mount"]) {
        return;
    }
    let bench = Bench::new(rings, false);
    let file = bench.open(1);
    file.write_all_at(&[1; 65536], 0).unwrap();
    let mut host = bench.host();
    // The connection goes with the power.
    let _ = host.power_cut(nvme::admin::PowerCut { off_ms: 300, ..Default::default() });
    wait_for("the loss of power", || {
        file.write_at(&[2; 4096], 65536).is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound)
    });
    wait_for("power", || file.write_at(&[2; 4096], 65536).is_ok());
    let mut back = vec![0; 65536];
    file.read_exact_at(&mut back, 0).unwrap();
    assert!(back.iter().all(|byte| *byte == 1));
    drop(file);
    bench.stop();
}

fn what_was_open_when_writes_were_lost_fails_from_then_on(rings: bool) {
    let name = "what_was_open_when_writes_were_lost_fails_from_then_on";
    if !possible(name, &["losetup", "mkfs.ext4", "mount", "umount"]) {
        return;
    }
    let bench = Bench::of(rings, &DRIVE.replace("[drive]", "[drive]\npower_loss_protection = false"), true);
    let file = bench.open(1);
    run("chmod", &["640", bench.file(1).to_str().unwrap()]);
    let node = bench.device(1).unwrap().node.unwrap();
    run("mkfs.ext4", &["-q", node.to_str().unwrap()]);
    let point = tempfile::tempdir().unwrap();
    run("mount", &[node.to_str().unwrap(), point.path().to_str().unwrap()]);
    let kept = point.path().join("kept");
    File::create(&kept).unwrap().write_all_at(b"before", 0).unwrap();
    File::open(&kept).unwrap().sync_all().unwrap();
    let held = OpenOptions::new().write(true).open(&kept).unwrap();

    let before = file.metadata().unwrap().ino();
    let _ = bench.host().power_cut(nvme::admin::PowerCut { off_ms: 50, ..Default::default() });
    wait_for("the file of afterwards", || {
        let node = bench.device(1).and_then(|device| device.node);
        node.is_some() && std::fs::metadata(bench.file(1)).is_ok_and(|meta| meta.ino() != before)
    });
    // No call on the old file and the old loop device says that all is well, not once and not later.
    for _ in 0..3 {
        assert_eq!(
            file.sync_data().unwrap_err().raw_os_error(),
            Some(rustix::io::Errno::NODEV.raw_os_error())
        );
        assert!(file.write_at(&[2; 4096], 0).is_err() && file.read_at(&mut [0; 4096], 0).is_err());
        assert!(held.write_at(b"after", 0).and_then(|_| held.sync_all()).is_err());
    }
    drop((file, held));
    wait_for("the end of the old file system", || !is_mounted(point.path()));

    // Opened anew, everything works, and what was flushed is there.
    let meta = std::fs::metadata(bench.file(1)).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o640);
    let node = bench.device(1).unwrap().node.unwrap();
    run("mount", &[node.to_str().unwrap(), point.path().to_str().unwrap()]);
    assert_eq!(std::fs::read(&kept).unwrap(), b"before");
    let file = File::create(point.path().join("new")).unwrap();
    file.write_all_at(b"after", 0).and_then(|()| file.sync_all()).unwrap();
    drop(file);
    run("umount", &[point.path().to_str().unwrap()]);
    bench.stop();
}

fn files_continue_after_a_subsystem_reset(rings: bool) {
    if !possible("files_continue_after_a_subsystem_reset", &[]) {
        return;
    }
    let bench = Bench::new(rings, false);
    let file = bench.open(1);
    file.write_all_at(&[1; 65536], 0).unwrap();
    for round in 2..5u8 {
        let reset = FabricsCommand::PropertySet {
            offset: PropertyOffset::NSSR,
            wide: false,
            value: NSSR_NVME.into(),
        };
        // Its own connection ends, perhaps before the answer.
        let _ = bench.host().call(reset.into(), Data::None);
        let mut back = vec![0; 65536];
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back.iter().all(|byte| *byte == round - 1));
        file.write_all_at(&[round; 65536], 0).and_then(|()| file.sync_all()).unwrap();
        let mut host = bench.host();
        let nsid = host.create_namespace(&namespace_create((1 << 20) / 512, 1, 2)).unwrap();
        let controllers = host.controllers().unwrap();
        host.attach_namespace(nsid, &controllers).unwrap();
        wait_for("the new namespace", || bench.device(nsid).is_some());
    }
    drop(file);
    bench.stop();
}

fn no_space_on_the_host_is_no_space_for_programs(rings: bool) {
    if !possible("no_space_on_the_host_is_no_space_for_programs", &[]) {
        return;
    }
    let bench = Bench::new(rings, false);
    let file = bench.open(1);
    let fault =
        |kind| FaultInjection { nsid: 0, kind, nvmsetid: 0, count: 1, one_in: 0, param: 0, lba: None };
    for (kind, expected) in [
        (FaultKind::HOST_DISK_FULL, rustix::io::Errno::NOSPC),
        (FaultKind::HOST_DISK_ERROR, rustix::io::Errno::IO),
    ] {
        bench.host().inject_fault(fault(kind)).unwrap();
        let error = file.write_at(&[1; 4096], 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(expected.raw_os_error()), "{error}");
        file.write_all_at(&[1; 4096], 0).unwrap();
    }
    drop(file);
    bench.stop();
}
