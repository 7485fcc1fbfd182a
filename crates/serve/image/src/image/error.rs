//! What can be wrong with an image: what, where, and what to do.

use super::format::FormatError;
use crate::trust::{TrustError, Untrusted};
use std::io;
use std::path::{Path, PathBuf};

/// An image that cannot be made, opened or kept.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The host's file system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// Another user can change the directory.
    #[error("the image is not safe there: {0}")]
    Untrusted(#[from] Untrusted),
    /// There is nothing where an image was expected.
    #[error("there is no image at {}: create it with `tranche serve --drive DRIVE.toml --image DIR`", path.display())]
    Missing {
        /// Where.
        path: PathBuf,
    },
    /// A file where an image was expected.
    #[error("{} is a file, and an image is a directory: name a new or an empty one", path.display())]
    File {
        /// Where.
        path: PathBuf,
    },
    /// A directory with other things in it.
    #[error("{} is not a Tranche image and not empty: name an empty or a new directory", path.display())]
    Foreign {
        /// Where.
        path: PathBuf,
    },
    /// The program ended while it made the image, or its checkpoints were removed.
    #[error(
        "the image {} has no checkpoint: it was never completed, or its files checkpoint.N are gone. Put them back, or remove the directory and \
         create the image again",
        path.display()
    )]
    Unfinished {
        /// Where.
        path: PathBuf,
    },
    /// Another process has it open.
    #[error("the image {} is in use by process {holder}: stop that drive first", path.display())]
    Locked {
        /// Where.
        path: PathBuf,
        /// Process identifier, or `unknown`.
        holder: String,
    },
    /// A file of the image was changed, cut short or mixed up.
    #[error("{} cannot be used: {source}", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
    /// No checkpoint can be used; the newest one's failure is given.
    #[error("no checkpoint of the image {} can be used: restore it from a copy, or see what `tranche image salvage` can save; the newest, {newest}", path.display())]
    Damaged {
        /// Where.
        path: PathBuf,
        /// Why the newest fails.
        newest: Box<ImageError>,
    },
    /// Bytes of a journal have changed since they were written, and what was completed after them cannot be replayed.
    #[error("{} is damaged at byte {at}, and what was written behind it cannot be told: restore the image from a copy, or see \
             what `tranche image salvage` can save", path.display())]
    DamagedJournal {
        /// Which one.
        path: PathBuf,
        /// Where.
        at: u64,
    },
    /// A journal in the middle of the chain is missing or damaged.
    #[error("{} is missing or damaged, although the journal that follows it is there: what was written since cannot be told; \
             restore the image from a copy, or see what `tranche image salvage` can save", path.display())]
    Gap {
        /// Which one.
        path: PathBuf,
    },
    /// What the checkpoint and the journal describe is no drive.
    #[error("the state in the image {} does not make a drive: {reason}", path.display())]
    State {
        /// Where.
        path: PathBuf,
        /// What the drive said.
        reason: String,
    },
    /// The image was made for another drive.
    #[error(
        "the image {} was made for another drive: {difference}; open it without DRIVE.toml or create a new image",
        path.display()
    )]
    OtherDrive {
        /// Where.
        path: PathBuf,
        /// What differs.
        difference: String,
    },
}

impl ImageError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ImageError + use<> {
        let path = path.to_owned();
        move |source| ImageError::Io { action, path, source }
    }

    /// No checkpoint can be used, or only one that leads to an older state.
    pub(crate) fn damaged(path: &Path, newest: ImageError) -> ImageError {
        ImageError::Damaged { path: path.to_owned(), newest: Box::new(newest) }
    }

    pub(crate) fn format(path: &Path) -> impl FnOnce(FormatError) -> ImageError + use<> {
        let path = path.to_owned();
        move |source| ImageError::Format { path, source }
    }
}

impl From<TrustError> for ImageError {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Untrusted(untrusted) => untrusted.into(),
            TrustError::NotADirectory(path) => ImageError::File { path },
            TrustError::Missing(path) => ImageError::Missing { path },
            TrustError::Io { action, path, source } => ImageError::Io { action, path, source },
        }
    }
}
