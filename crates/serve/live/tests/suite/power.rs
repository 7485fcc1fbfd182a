//! Power cuts of drives in images, and then a crash of the process: the image must lead to what the live
//! drive had.

use crate::common::shape_with;
use host::{Host, Identity, SocketTransport, Transport};
use live::{LocalTransport, Options, Running};
use media::Rng;
use nvme::admin::{FaultInjection, FaultKind, PowerCut};
use std::path::Path;
use std::time::Duration;

const PAGES: u64 = 3000;

fn identity(running: &Running) -> Identity {
    let mut identity = Identity::new("nqn.2026-11.test:host".parse().unwrap());
    identity.subnqn = Some(running.handle().subsystem_nqn().parse().unwrap());
    identity
}

fn connect(running: &Running) -> Host<LocalTransport> {
    let identity = identity(running);
    for _ in 0..2000 {
        if let Ok(host) = Host::connect(LocalTransport::new(running.handle()), &identity) {
            return host;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the drive does not come back");
}

fn contents<T: Transport>(host: &mut Host<T>) -> Vec<u8> {
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(16).unwrap();
    let mut all = vec![0; (PAGES * 4096) as usize];
    queue.read(&namespace, 0, &mut all).unwrap();
    all
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn campaign(drive: &str, seed: u64) {
    println!("{drive:?}, seed {seed}");
    let protected = !drive.contains("power_loss_protection = false");
    let temp = tempfile::tempdir().unwrap();
    let (live, dead) = (temp.path().join("live"), temp.path().join("dead"));
    let options = Options { image: Some(live.clone()), ..Options::default() };
    let running = live::start(Some(shape_with(drive)), &options, &mut |_| ()).unwrap();
    let mut rng = Rng::new(seed);
    let mut stamp = 0u64;
    // What each page may hold: the last write that a cut cannot take, and all after it.
    let mut safe = vec![0u64; PAGES as usize];
    let mut later: Vec<Vec<u64>> = vec![Vec::new(); PAGES as usize];
    for round in 0..8 {
        let mut host = connect(&running);
        let namespace = host.namespace(1).unwrap();
        let mut queue = host.io_queue(16).unwrap();
        for _ in 0..300 {
            stamp += 1;
            let page = rng.below(PAGES);
            let fua = rng.below(5) == 0;
            queue.write(&namespace, page, &stamp.to_le_bytes().repeat(512), fua).unwrap();
            if fua || protected {
                safe[page as usize] = stamp;
                later[page as usize].clear();
            } else {
                later[page as usize].push(stamp);
            }
            if rng.below(60) == 0 {
                queue.flush(1).unwrap();
                for (page, after) in later.iter_mut().enumerate() {
                    if let Some(last) = after.last() {
                        safe[page] = *last;
                        after.clear();
                    }
                }
            }
        }
        let cut = PowerCut { after_media_ops: 0, off_ms: 5, seed: rng.next_u64() as u32, no_plp: false };
        host.power_cut(cut).unwrap();
        drop((queue, host));
        let mut host = connect(&running);
        let now = contents(&mut host);
        for page in 0..PAGES as usize {
            let bytes = &now[page * 4096..][..4096];
            let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(bytes.chunks_exact(8).all(|c| c == &bytes[..8]), "round {round}: page {page} is torn");
            assert!(
                found == safe[page] || later[page].contains(&found),
                "round {round}: page {page} has {found}, promised was {} (later {:?})",
                safe[page],
                later[page]
            );
            // From here on, what survived is what counts.
            safe[page] = found;
            later[page].clear();
        }
        copy(&live, &dead);
        let again = Options { image: Some(dead.clone()), ..Options::default() };
        let crashed = live::start(None, &again, &mut |_| ()).unwrap();
        assert!(contents(&mut connect(&crashed)) == now, "round {round}: the image leads somewhere else");
        crashed.stop();
        std::fs::remove_dir_all(&dead).unwrap();
    }
}

#[test]
fn with_capacitors_everything_survives() {
    campaign("write_buffer = \"256KiB\"", 88_172_645_463_325_252);
    campaign("write_buffer = \"256KiB\"\ntiming = true", 1_234_567);
}

#[test]
fn without_capacitors_what_was_flushed_survives() {
    campaign("write_buffer = \"256KiB\"\npower_loss_protection = false", 362_436_069);
    campaign("write_buffer = \"256KiB\"\npower_loss_protection = false\ntiming = true", 521_288_629);
}

#[test]
fn a_failing_host_disk_fails_commands_and_nothing_else() {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("s");
    let options = Options { unix: Some(socket.clone()), ..Options::default() };
    let running = live::start(Some(shape_with("")), &options, &mut |_| ()).unwrap();
    let addr = format!("unix://{}", socket.display()).parse().unwrap();
    let mut host =
        Host::connect(SocketTransport::new(addr, Duration::from_secs(20)), &identity(&running)).unwrap();
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(4).unwrap();
    queue.write(&namespace, 0, &[1; 4096], false).unwrap();
    let fault =
        |kind, count| FaultInjection { nsid: 0, kind, nvmsetid: 0, count, one_in: 0, param: 0, lba: None };
    host.inject_fault(fault(FaultKind::HOST_DISK_FULL, 1)).unwrap();
    assert!(queue.write(&namespace, 0, &[2; 4096], false).is_err());
    queue.write(&namespace, 1, &[3; 4096], false).unwrap();
    host.inject_fault(fault(FaultKind::HOST_DISK_ERROR, 1)).unwrap();
    assert!(queue.flush(1).is_err());
    queue.flush(1).unwrap();
    let mut page = [0; 4096];
    queue.read(&namespace, 0, &mut page).unwrap();
    assert_eq!(page, [1; 4096], "the write that failed changed nothing");
    queue.read(&namespace, 1, &mut page).unwrap();
    assert_eq!(page, [3; 4096]);
}
