//! Torn pages, counted in the files before the server repairs them.

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
};

use anyhow::{Context, Result};
use crc_fast::{CrcAlgorithm, checksum};

use lab_databases::mariadb::Vendor;

/// Bytes of a page of InnoDB.
const PAGE: usize = 16 << 10;

/// Whether a page has a good checksum and is whole. A page of zeroes was never written.
fn is_good(page: &[u8], vendor: Vendor) -> bool {
    let whole = match vendor {
        Vendor::MariaDb => is_good_of_mariadb(page),
        Vendor::MySql => is_good_of_mysql(page),
    };
    whole || page.iter().all(|byte| *byte == 0)
}

fn crc32c(bytes: &[u8]) -> u32 {
    u32::try_from(checksum(CrcAlgorithm::Crc32Iscsi, bytes)).unwrap_or(0)
}

/// MariaDB's default format (full_crc32, since 10.5): the last four bytes are the CRC-32C of the others, big endian.
fn is_good_of_mariadb(page: &[u8]) -> bool {
    let (content, stored) = page.split_at(page.len() - 4);
    stored == crc32c(content).to_be_bytes()
}

/// MySQL's default format (`innodb_checksum_algorithm=crc32`).
///
/// The checksum is the CRC-32C of the header (bytes 4 to 25) XOR that of the body (byte 38 up to the trailer), big endian. It stands in
/// the first four bytes and again at the start of the trailer, the last eight bytes. The trailer's other half repeats the low half of
/// the log sequence number at byte 16. No checksum covers bytes 26 to 37, but a tear cannot change them alone: they share a sector
/// with the header.
fn is_good_of_mysql(page: &[u8]) -> bool {
    let end = page.len() - 8;
    let stored = (crc32c(&page[4..26]) ^ crc32c(&page[38..end])).to_be_bytes();
    page[..4] == stored && page[end..end + 4] == stored && page[20..24] == page[end + 4..]
}

/// Tables and undo tablespaces: `undo001` of MariaDB, `undo_001` of MySQL.
fn is_tablespace(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let undo = name.strip_prefix("undo").is_some_and(|rest| rest.starts_with(['0', '_']));
    undo || path.extension().is_some_and(|e| e == "ibd")
}

/// Pages with bad checksums in all tablespaces below a directory.
///
/// # Errors
/// When a file cannot be read.
pub fn torn_pages(directory: &Path, vendor: Vendor) -> Result<u64> {
    let mut torn = 0;
    for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            torn += torn_pages(&path, vendor)?;
        } else if is_tablespace(&path) {
            torn += torn_pages_of(&path, vendor)?;
        }
    }
    Ok(torn)
}

fn torn_pages_of(path: &Path, vendor: Vendor) -> Result<u64> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut page = vec![0; PAGE];
    let mut torn = 0;
    loop {
        match file.read_exact(&mut page) {
            Ok(()) => torn += u64::from(!is_good(&page, vendor)),
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
        assert_eq!(torn_pages(directory.path(), Vendor::MariaDb).unwrap(), 2);
    }

    #[test]
    fn a_torn_page_of_mysql_is_seen() {
        let mut page = vec![7u8; PAGE];
        let crc = crc32c(&page[4..26]) ^ crc32c(&page[38..PAGE - 8]);
        page[..4].copy_from_slice(&crc.to_be_bytes());
        page[PAGE - 8..PAGE - 4].copy_from_slice(&crc.to_be_bytes());
        assert!(is_good(&page, Vendor::MySql) && !is_good(&page, Vendor::MariaDb));
        for sector in 0..4 {
            let mut torn = page.clone();
            torn[sector * 4096..][..4096].fill(6);
            assert!(!is_good(&torn, Vendor::MySql), "{sector}");
        }
        let mut older = page.clone();
        older[PAGE - 1] = 6;
        assert!(!is_good(&older, Vendor::MySql), "the trailer of an older version");
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("undo_001"), [page, older].concat()).unwrap();
        assert_eq!(torn_pages(directory.path(), Vendor::MySql).unwrap(), 1);
    }
}
