//! Torn pages, counted in the files before the server repairs them.

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
};

use anyhow::{Context, Result};
use crc_fast::{CrcAlgorithm, checksum};

const PAGE: usize = 16 << 10;

/// Whether a page of MariaDB's default format (full_crc32, since 10.5) has a good checksum: its last four bytes are the
/// CRC-32C of the others, big endian. A page of zeroes was never written.
fn is_good(page: &[u8]) -> bool {
    let (content, stored) = page.split_at(page.len() - 4);
    let computed = u32::try_from(checksum(CrcAlgorithm::Crc32Iscsi, content)).unwrap_or(0);
    stored == computed.to_be_bytes() || page.iter().all(|byte| *byte == 0)
}

/// Tables and undo tablespaces.
fn is_tablespace(path: &Path) -> bool {
    let undo = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("undo0"));
    undo || path.extension().is_some_and(|e| e == "ibd")
}

/// Pages with bad checksums in all tablespaces below a directory.
///
/// # Errors
/// When a file cannot be read.
pub fn torn_pages(directory: &Path) -> Result<u64> {
    let mut torn = 0;
    for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            torn += torn_pages(&path)?;
        } else if is_tablespace(&path) {
            torn += torn_pages_of(&path)?;
        }
    }
    Ok(torn)
}

fn torn_pages_of(path: &Path) -> Result<u64> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut page = vec![0; PAGE];
    let mut torn = 0;
    loop {
        match file.read_exact(&mut page) {
            Ok(()) => torn += u64::from(!is_good(&page)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(torn),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_torn_at_4_kib_is_seen() {
        let mut page = vec![7u8; PAGE];
        let crc = u32::try_from(checksum(CrcAlgorithm::Crc32Iscsi, &page[..PAGE - 4])).unwrap();
        page[PAGE - 4..].copy_from_slice(&crc.to_be_bytes());
        let mut torn = page.clone();
        torn[4096..8192].fill(6);
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("db")).unwrap();
        fs::write(directory.path().join("db/t.ibd"), [page, torn.clone(), vec![0; PAGE]].concat()).unwrap();
        fs::write(directory.path().join("db/undo001"), &torn).unwrap();
        fs::write(directory.path().join("db/ib_logfile0"), &torn).unwrap();
        assert_eq!(torn_pages(directory.path()).unwrap(), 2);
    }
}
