//! Plain files behind loop devices.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    layout::{Namespace, Size},
    process::run,
    scratch,
};

#[derive(Debug)]
pub(super) struct Plain {
    directory: PathBuf,
    attached: Vec<PathBuf>,
}

impl Plain {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
        Ok(Self { directory: directory.to_owned(), attached: Vec::new() })
    }

    fn file(&self, nsid: u32) -> PathBuf {
        self.directory.join(format!("nvme0n{nsid}"))
    }

    pub(super) fn create(&mut self, namespace: &Namespace) -> Result<u32> {
        let bytes = match namespace.size {
            Size::Bytes(bytes) => bytes,
            Size::Rest => 2 << 30,
        };
        let nsid = (1..).find(|&nsid| !self.file(nsid).exists()).unwrap_or(1);
        File::create_new(self.file(nsid))
            .and_then(|file| file.set_len(bytes))
            .with_context(|| format!("making {}", self.file(nsid).display()))?;
        Ok(nsid)
    }

    pub(super) fn device(&mut self, nsid: u32) -> Result<PathBuf> {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", "--direct-io=on"]).arg(self.file(nsid));
        let device = PathBuf::from(run(&mut command, "mount")?.trim());
        self.attached.push(device.clone());
        Ok(device)
    }

    pub(super) fn close(mut self) -> Result<()> {
        for device in self.attached.drain(..) {
            scratch::detach(&device)?;
        }
        Ok(())
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        for device in self.attached.drain(..) {
            let _ = scratch::detach(&device);
        }
    }
}
