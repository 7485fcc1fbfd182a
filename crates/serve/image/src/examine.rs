//! Looking at an image that may be damaged, without changing it: what its files say, and what its pages hold.

pub use crate::image::{DamagedFile, Findings, LastShutdown, Missing, generation_of};
pub use crate::store::PageCondition;

use crate::image::{ImageError, Presence, Salvaged, presence, salvage};
use crate::keys::DriveKey;
use crate::memory::SLOT;
use crate::opening::Opened;
use crate::store::Store;
use device::{Drive, NamespaceLayout, SPARE_BYTES};
use ftl::{PAGE, PageState};
use media::Slot;
use std::fs::File;
use std::io;
use std::path::Path;

/// A page of a namespace: the blocks in it. What is damaged or lost reads as zeros.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Its first block.
    pub lba: u64,
    /// Its blocks.
    pub blocks: u32,
    /// What it is.
    pub is: PageCondition,
    /// Bit by bit the blocks that a host had marked uncorrectable.
    pub marked: u8,
    /// Data of its blocks, decrypted if their key is open.
    pub data: &'a [u8],
    /// Their metadata.
    pub metadata: &'a [u8],
}

/// A namespace of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Namespace {
    /// Its identifier.
    pub nsid: u32,
    /// Bytes of data of a block.
    pub block_size: u32,
    /// Bytes of metadata of a block.
    pub metadata: u32,
    /// Its blocks.
    pub blocks: u64,
    /// Whether they are encrypted.
    pub encrypted: bool,
    /// Whether they are, and no key was given.
    pub locked: bool,
}

/// An image that is looked at. Nothing of it is changed.
pub struct Examination {
    findings: Findings,
    drive: Drive,
    store: Store,
    _lock: Option<File>,
}

impl Examination {
    /// Opens an image, to the newest state that its files still lead to. `key` is for what is to be decrypted.
    ///
    /// # Errors
    /// If it is in use, or its files lead to no state.
    pub fn open(dir: &Path, key: Option<DriveKey>) -> Result<Self, ImageError> {
        if presence(dir)? == Presence::Nothing {
            return Err(ImageError::Missing { path: dir.to_owned() });
        }
        let Salvaged { findings, locked, found, lock } = salvage(dir)?;
        let Opened { drive, store, .. } = locked.look(found, key)?;
        Ok(Examination { findings, drive, store, _lock: lock })
    }

    /// What the image's files say.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The namespaces that it holds.
    pub fn namespaces(&self) -> Vec<Namespace> {
        let namespace = |layout: NamespaceLayout| Namespace {
            nsid: layout.nsid,
            block_size: 1 << layout.transform.shift,
            metadata: layout.transform.metadata.into(),
            blocks: layout.blocks,
            encrypted: layout.transform.encrypted,
            locked: layout.locked,
        };
        self.drive.namespace_layouts().map(namespace).collect()
    }

    /// Goes through all pages of a namespace, in order.
    ///
    /// # Errors
    /// What `each` says.
    pub fn pages(&mut self, nsid: u32, each: &mut dyn FnMut(&Page<'_>) -> io::Result<()>) -> io::Result<()> {
        let Some(layout) = self.drive.namespace_layouts().find(|layout| layout.nsid == nsid) else {
            return Ok(());
        };
        let mut transform = layout.transform;
        let (mut page, mut beside) = ([0; SLOT], [0; SPARE_BYTES]);
        transform.fill_unwritten(&mut page, &mut beside);
        let nothing = beside;
        let per_page = PAGE >> transform.shift;
        let zeros = [0; SLOT];
        for number in 0..layout.blocks.div_ceil(per_page.into()) {
            let lba = number * u64::from(per_page);
            let blocks = (layout.blocks - lba).min(per_page.into()) as u32;
            let (mut is, mut marked) = (PageCondition::Nothing, 0);
            match self.drive.ftl().page_state(layout.volume, number) {
                None => {}
                Some(PageState::Lost) => is = PageCondition::Lost,
                Some(PageState::Held(Slot::NONE)) => is = PageCondition::Whole,
                Some(PageState::Held(slot)) => {
                    transform.slba = lba;
                    (is, marked) = self.store.look(&transform, !layout.locked, slot, &mut page, &mut beside);
                }
            }
            let (data, metadata) = match is {
                PageCondition::Whole | PageCondition::Unchecked => (&page, &beside),
                _ => (&zeros, &nothing),
            };
            each(&Page {
                lba,
                blocks,
                is,
                marked,
                data: &data[..(blocks as usize) << transform.shift],
                metadata: &metadata[..blocks as usize * usize::from(transform.metadata)],
            })?;
            if is != PageCondition::Nothing {
                (page, beside) = (zeros, nothing);
            }
        }
        Ok(())
    }
}
