//! Files whose checksums are right and whose contents are not.

use image::testing::{
    self, HEADER, Header, HostDisk, ImageFileKind, checkpoint_name, crc, journal_name, rename_checkpoint,
    write_checkpoint,
};
use live::{Buffer, HostIdentity, NoEvents, Options, Shape};
use media::Nanos;
use std::fs;
use std::sync::Arc;

/// Frames and a checkpoint whose checksums are right and whose contents are not: what a broken program, or an
/// attacker, could write. Opening them gives an error or a drive, never a panic.
#[test]
fn wrong_contents_under_right_checksums_are_survived() {
    let toml = r#"
[[set]]
media = "nand"
cell = "slc"
capacity = "2MiB"
spare = "200%"
channels = 2
dies = 2
planes = 1
nand_page = "4KiB"
pages_per_block = 16
rated_cycles = 3000
[[set]]
media = "dram"
capacity = "1MiB"
[[namespace]]
size = "1MiB"
lba = 4096
"#;
    let shape = Shape { config: device::Config::from_toml(toml).unwrap(), toml: toml.to_owned() };
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("image");
    let options = Options { image: Some(dir.clone()), ..Options::default() };
    let running = live::start(Some(shape), &options, &mut |_| ()).unwrap();
    let host = HostIdentity::new("nqn.2026-11.test:host").unwrap();
    let controller = running.handle().connect(host, Arc::new(NoEvents)).unwrap();
    let queue = controller.blocking_queue(4).unwrap();
    for n in 0..600u32 {
        let mut write = nvme::Command::new(nvme::IoOpcode::WRITE.0, 1);
        write.cdw10.set(n * 7 % 256);
        let (completion, _) = queue.execute(&write, Buffer::from(vec![1; 4096])).unwrap();
        assert!(completion.status().is_success());
    }
    let journal = fs::read(dir.join(journal_name(2))).unwrap();
    let checkpoint = fs::read(dir.join(checkpoint_name(1))).unwrap();
    drop((queue, controller, running));

    let header = Header::decode(ImageFileKind::Journal, &journal).unwrap();
    let (mut frames, mut at) = (Vec::new(), HEADER);
    while let Some(frame) = testing::frame_at(&journal, at, frames.len() as u64, header.salt()) {
        frames.push((frame.kind, frame.payload.to_vec()));
        at = frame.next;
    }
    let seed = image::random::<8>();
    println!("seed {}", u64::from_le_bytes(seed));
    let mut random = rng::Rng::new(u64::from_le_bytes(seed));
    let mut below = move |bound: usize| random.below(bound as u64) as usize;
    let target = temp.path().join("changed");
    for round in 0..200 {
        let _ = fs::remove_dir_all(&target);
        fs::create_dir(&target).unwrap();
        fs::write(target.join("drive.toml"), toml).unwrap();
        fs::write(target.join("contents"), b"").unwrap();
        let mut body = checkpoint[HEADER..].to_vec();
        let mut changed = frames.clone();
        for _ in 0..1 + below(4) {
            if round % 2 == 0 {
                let frame = below(changed.len());
                let payload = &mut changed[frame].1;
                let byte = below(payload.len());
                if let Some(byte) = payload.get_mut(byte) {
                    *byte = byte.wrapping_add(1 + below(255) as u8);
                }
            } else {
                let byte = below(body.len());
                body[byte] = body[byte].wrapping_add(1 + below(255) as u8);
            }
        }
        let mut bytes = header.encode().to_vec();
        for (sequence, (kind, payload)) in changed.iter().enumerate() {
            let start = testing::begin_frame(&mut bytes);
            bytes.extend_from_slice(payload);
            testing::end_frame(&mut bytes, start, *kind, sequence as u64, Nanos(9), header.salt());
        }
        let mut first = Header::decode(ImageFileKind::Checkpoint, &checkpoint).unwrap();
        first.body_crc = crc(&body);
        let disk = HostDisk::open_dir(&target).unwrap();
        write_checkpoint(&disk, &first, &body).unwrap();
        rename_checkpoint(&disk, first.generation).unwrap();
        fs::write(target.join(journal_name(header.generation)), &bytes).unwrap();
        let options = Options { image: Some(target.clone()), ..Options::default() };
        if let Ok(running) = live::start(None, &options, &mut |_| ()) {
            assert!(running.stop_and_tell(), "the drive panicked");
        }
    }
}
