//! Marks of blocks that are uncorrectable.

use crate::connect;
use device::{Config, Drive};
use image::{BackgroundWork, Buffer, ImageOptions, Locked, Shape, Store, pages};
use live::VirtualQueues;
use live::engine::Engine;
use media::Nanos;
use nvme::copy::{Copy, CopySource};
use nvme::io::Blocks;
use nvme::{Command, IoCommand, Status};
use std::path::Path;

/// A namespace on a disk, with blocks of 512 bytes: in memory, or in an image. A Copy there writes when the disk has read.
fn engine(image: Option<&Path>) -> Engine {
    let toml = r#"
[drive]
timing = true

[[set]]
media = "disk"
rpm = 15000
heads = 2
cylinders = 100
zones = 2
outer_sectors = 100
inner_sectors = 60
sector = 512
read_seek = ["50us", "200us", "400us"]

[[namespace]]
size = "1MiB"
lba = "512"
attach = "all"
"#;
    let shape = Shape { config: Config::from_toml(toml).unwrap(), toml: toml.to_owned() };
    let Some(dir) = image else {
        let store = Store::in_memory(pages(&shape.config));
        return Engine::new(Drive::new(shape.config).unwrap(), store);
    };
    let locked = Locked::fresh(dir).unwrap();
    let mut config = shape.config.clone();
    config.ftl.durable = true;
    locked.create(&shape.toml, &Drive::new(config).unwrap().save(), Nanos::ZERO).unwrap();
    let opened = locked.open(Some(shape), None, ImageOptions::default(), BackgroundWork::Stepped).unwrap();
    Engine::new(opened.drive, opened.store)
}

/// Blocks are marked for the first time while a command is under way that writes other blocks of their page, and does not know
/// of marks.
#[test]
fn marks_outlive_a_command_that_began_before_them() {
    let dir = tempfile::tempdir().unwrap();
    for image in [None, Some(dir.path().join("image"))] {
        let mut engine = engine(image.as_deref());
        let mut queues = VirtualQueues::default();
        let mut now = Nanos(1_000_000);
        let id = connect(&mut engine, now);
        let submit = |engine: &mut Engine, now, tag, command: Command, data: Vec<u8>| {
            engine.submit(now, VirtualQueues::owner(0, tag), id, 1, command, Buffer::from(data).into());
        };
        let mut wait = |engine: &mut Engine, now: &mut Nanos, all: usize| {
            let mut ended = Vec::new();
            while ended.len() < all {
                engine.settle(*now, &mut queues);
                ended.append(&mut queues.completions);
                if let Some(image) = engine.store.image() {
                    while image.step_aside() {}
                }
                *now = (*now).max(engine.deadline().min(*now + Nanos(1_000_000)));
            }
            ended
        };
        submit(&mut engine, now, 0, Command::write(1, 32, 2), vec![7; 1024]);
        wait(&mut engine, &mut now, 1);
        let copy = Copy { nsid: 1, sdlba: 4, nr: 1, ..Copy::default() };
        let mut sources = Vec::new();
        let source = CopySource { slba: 32, nlb: 2, ..CopySource::default() };
        source.write(0, |bytes| sources.extend_from_slice(bytes));
        submit(&mut engine, now, 0, copy.into(), sources);
        let mark = IoCommand::WriteUncorrectable(Blocks::new(1, 1, 3));
        submit(&mut engine, now, 1, mark.into(), Vec::new());
        wait(&mut engine, &mut now, 2);
        for lba in 0..8 {
            submit(&mut engine, now, lba as u32, Command::read(1, lba, 1), vec![1; 512]);
        }
        for done in wait(&mut engine, &mut now, 8) {
            let status = done.completion.status();
            match done.tag {
                1..=3 => assert!(status.is(Status::UNRECOVERED_READ_ERROR), "block {}: {status}", done.tag),
                4 | 5 => assert_eq!(done.data.as_slice(), [7; 512]),
                _ => assert_eq!(done.data.as_slice(), [0; 512]),
            }
        }
    }
}
