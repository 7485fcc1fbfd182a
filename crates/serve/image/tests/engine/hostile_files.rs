//! Images whose files a stranger made: links, FIFOs, and sizes that nothing fits into.

use image::examine::Examination;
use image::testing::{self, CONFIG, CONTENTS, HEADER, Header, ImageFileKind, SPARES};
use image::{Presence, presence};
use live::Options;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// Sparse, and longer than there is memory for.
const HUGE_FILE_BYTES: u64 = 1 << 42;

fn start(dir: &Path) -> Result<(), String> {
    let options = Options { image: Some(dir.to_owned()), ..Options::default() };
    let shape = testing::shape("", "2MiB", &[("1600KiB", "4096")]);
    live::start(Some(shape), &options, &mut |_| ()).map(|running| running.stop()).map_err(|e| e.to_string())
}

/// An image, the names of its files, and a file of somebody else.
fn image(temp: &Path) -> (PathBuf, Vec<String>, PathBuf) {
    let dir = temp.join("image");
    start(&dir).unwrap();
    let names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let victim = temp.join("victim");
    fs::write(&victim, "precious").unwrap();
    (dir, names.collect(), victim)
}

#[test]
fn links_and_fifos_among_the_files_are_errors_and_are_not_followed() {
    let temp = tempfile::tempdir().unwrap();
    let (_, names, _) = image(temp.path());
    assert!([CONFIG, CONTENTS, SPARES, "lock", "checkpoint.1"].iter().all(|n| names.iter().any(|f| f == n)));
    for name in &names {
        for fifo in [false, true] {
            let temp = tempfile::tempdir().unwrap();
            let (dir, _, victim) = image(temp.path());
            let path = dir.join(name);
            fs::remove_file(&path).unwrap();
            match fifo {
                false => symlink(&victim, &path).unwrap(),
                true => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
            }
            let examined = Examination::open(&dir, None).map(drop).err().map(|e| e.to_string());
            for error in [examined, start(&dir).err()] {
                // Of checkpoints and journals another one may do.
                let may_do = name.contains('.') && name != CONFIG;
                assert!(
                    error.as_ref().map_or(may_do, |e| e.contains("no regular file")),
                    "{name}: {error:?}"
                );
            }
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{name}");
        }
    }
}

#[test]
fn sizes_are_checked_before_memory_is_taken() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, names, _) = image(temp.path());
    for name in &names {
        let path = dir.join(name);
        let before = fs::read(&path).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        if file.set_len(HUGE_FILE_BYTES).is_err() {
            // No file of this file system is as large.
            continue;
        }
        // A checkpoint with a header that agrees.
        if let Ok(mut header) = Header::decode(ImageFileKind::Checkpoint, &before) {
            header.body = HUGE_FILE_BYTES - HEADER as u64;
            file.write_all_at(&header.encode(), 0).unwrap();
        }
        let opened = Examination::open(&dir, None).map(drop);
        match name.as_str() {
            CONTENTS | SPARES | "lock" => assert!(opened.is_ok(), "{name}: {opened:?}"),
            CONFIG => assert!(opened.unwrap_err().to_string().contains("are available"), "{name}"),
            // Another checkpoint may do, or nothing.
            _ => drop(opened),
        }
        drop(file);
        fs::write(&path, &before).unwrap();
    }
    assert!(Examination::open(&dir, None).is_ok());
}

#[test]
fn a_directory_that_others_can_change_holds_no_image() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, ..) = image(temp.path());
    let refused = |dir: &Path| {
        let errors = [
            start(dir).unwrap_err(),
            Examination::open(dir, None).map(drop).unwrap_err().to_string(),
            presence(dir).unwrap_err().to_string(),
        ];
        assert!(errors.iter().all(|e| e.contains("could have this process")), "{errors:?}");
    };
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    allow(&dir, 0o777);
    refused(&dir);
    allow(&dir, 0o700);
    // A link of this user's own leads there.
    symlink(&dir, temp.path().join("link")).unwrap();
    assert_eq!(presence(&temp.path().join("link")).unwrap(), Presence::Image);
    start(&temp.path().join("link")).unwrap();
    // Somebody could exchange it.
    allow(temp.path(), 0o777);
    refused(&dir);
    refused(&temp.path().join("new"));
    allow(temp.path(), 0o1777);
    start(&dir).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&dir, Some(1234), None).unwrap();
        refused(&dir);
    }
}
