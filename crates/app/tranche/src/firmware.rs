//! `tranche firmware`.

use crate::args::Firmware;
use crate::options::Output;
use crate::print_written;
use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::File;
use std::io::{Read, Write};

/// The firmware image.
#[derive(Serialize, JsonSchema)]
pub struct FirmwareImage {
    /// Size of the image.
    #[schemars(extend("unit" = "bytes"))]
    bytes: usize,
    /// Firmware revision that the drive takes on.
    revision: String,
}

/// Makes a firmware image.
pub fn firmware(command: &Firmware, output: Output) -> Result<()> {
    let mut contents = Vec::new();
    if let Some(path) = &command.payload {
        let failed = || format!("cannot read the file {}", path.display());
        // One byte more than fits: then it is refused for its size.
        let most = device::MAX_FIRMWARE_IMAGE as u64 + 1;
        File::open(path).with_context(failed)?.take(most).read_to_end(&mut contents).with_context(failed)?;
    }
    let image = device::firmware_image(&command.revision, &contents)?;
    let out = command.file.display();
    let mut file =
        File::create_new(&command.file).with_context(|| format!("cannot create the file {out}"))?;
    file.write_all(&image).with_context(|| format!("cannot write the file {out}"))?;
    let about = FirmwareImage { bytes: image.len(), revision: command.revision.clone() };
    print_written(&about, &command.file, output)
}
