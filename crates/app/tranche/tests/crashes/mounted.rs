//! A file system on the loop device of a drive, through crashes of that drive.

use super::drive::{Drive, HANG_TIMEOUT, Setup};
use super::events::{Event, Events};
use super::scene::{Scene, command, mounts_below, run};
use super::stamp::Random;
use super::{Options, drives};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystem {
    Ext4,
    Xfs,
}

pub struct Mounted {
    pub events: Events,
    /// Where it is mounted.
    pub point: PathBuf,
    pub scene: PathBuf,
    drive: Drive,
    kind: FileSystem,
    discard: bool,
    /// When the power went, if it comes back by itself.
    cut: Option<Instant>,
    /// What was buffered was lost with it.
    lost: bool,
}

/// The file system, and whether the drive has capacitors.
pub type MountSetup = (FileSystem, bool);

/// How long the power stays away: long enough to give up everything above the drive, as a machine without power writes
/// nothing more.
const OFF: Duration = Duration::from_millis(2500);

impl Mounted {
    /// A new drive with a new file system, mounted.
    pub fn new(
        (kind, protected): MountSetup,
        scene: &Scene,
        random: &mut Random,
        options: &Options,
    ) -> Result<Self, String> {
        let no_host_sync = random.one_in(2);
        let setup = Setup { toml: drives::roomy(protected), no_host_sync, fuse: true, ..Setup::default() };
        let drive = Drive::new(setup, &scene.dir, options)?;
        let (scene, point) = (scene.dir.clone(), scene.dir.join("mounted"));
        std::fs::create_dir_all(&point).unwrap();
        let events = Events::new(protected, !protected);
        let discard = random.one_in(2);
        let mounted = Mounted { events, point, scene, drive, kind, discard, cut: None, lost: false };
        mounted.make()?;
        mounted.mount()?;
        Ok(mounted)
    }

    fn tool(&self, program: &str, args: &[&str]) -> Result<(), String> {
        let node = self.drive.node(1)?;
        run(command(&self.scene, program).args(args).arg(node)).map(drop)
    }

    fn make(&self) -> Result<(), String> {
        match self.kind {
            FileSystem::Ext4 => self.tool("mkfs.ext4", &["-q", "-F"]),
            FileSystem::Xfs => self.tool("mkfs.xfs", &["-q", "-f"]),
        }
    }

    fn mount(&self) -> Result<(), String> {
        let mut mount = command(&self.scene, "mount");
        if self.discard {
            mount.args(["-o", "discard"]);
        }
        run(mount.arg(self.drive.node(1)?).arg(&self.point)).map(drop)
    }

    fn unmount(&self) -> Result<(), String> {
        let start = Instant::now();
        while mounts_below(&self.point).contains(&self.point) {
            let done = run(command(&self.scene, "umount").arg(&self.point));
            if start.elapsed() > HANG_TIMEOUT {
                return done.map(drop);
            }
            if done.is_err() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// Looks whether everything fits together, changing nothing.
    fn check(&self) -> Result<(), String> {
        match self.kind {
            FileSystem::Ext4 => self.tool("e2fsck", &["-fn"]),
            FileSystem::Xfs => self.tool("xfs_repair", &["-n"]),
        }
    }

    /// It happens to the drive, under whatever uses the file system.
    pub fn strike(&mut self, event: Event, random: &mut Random) -> Result<(), String> {
        self.lost = self.events.note(event);
        if matches!(event, Event::Cut | Event::UnprotectedCut | Event::CutAndKill) {
            self.drive.cut_for(random.next() as u32, event != Event::UnprotectedCut, OFF)?;
            self.cut = Some(Instant::now());
        }
        if event == Event::CutAndKill {
            std::thread::sleep(Duration::from_millis(random.below(20)));
        }
        if matches!(event, Event::Kill | Event::CutAndKill) {
            self.drive.kill();
        }
        Ok(())
    }

    /// Nothing uses the file system any more. Brings the drive up again, lets the journal be replayed and looks whether
    /// all is well. False if the file system had to be made anew, as the machine was too slow for the cut.
    pub fn recover(&mut self, event: Event, random: &mut Random) -> Result<bool, String> {
        self.unmount()?;
        let late = self.cut.take().is_some_and(|cut| cut.elapsed() >= OFF);
        self.events.come_back(event, &mut self.drive, random)?;
        // It answers when there is power.
        drop(self.drive.host()?);
        std::thread::sleep(Duration::from_millis(random.below(1500)));
        if late && self.lost {
            self.make()?;
            self.mount()?;
            return Ok(false);
        }
        self.mount().and_then(|()| self.unmount()).and_then(|()| self.check())?;
        self.mount()?;
        Ok(true)
    }

    pub fn end(&mut self) -> Result<(), String> {
        self.unmount().and_then(|()| self.check()).and_then(|()| self.drive.stop())
    }
}
