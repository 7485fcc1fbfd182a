//! The checksum of a page, and pages that are not whole, counted in the files as they are.
//!
//! `pg_checksums` does the same, but only with files of a server that was shut down cleanly: after a power cut those of a server that has
//! repaired them. The checksum is that of PostgreSQL's `storage/checksum_impl.h`: 32 sums, each an FNV-1a with one more shift, over
//! every 32nd word, then XORed.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read},
    path::Path,
};

use anyhow::{Context, Result};

/// Bytes of a page, as PostgreSQL is built.
pub const PAGE: usize = 8 << 10;
/// Pages of a segment: a larger table has several files.
const SEGMENT: u32 = (1 << 30) / 8192;
/// Where the header has the checksum, two bytes.
const CHECKSUM: usize = 8;
/// Where the header has the end of free space, two bytes: zero only on a page that was never used.
const UPPER: usize = 14;

/// Start of each of the sums.
const BASES: [u32; 32] = [
    0x5B1F_36E9,
    0xB852_5960,
    0x02AB_50AA,
    0x1DE6_6D2A,
    0x79FF_467A,
    0x9BB9_F8A3,
    0x217E_7CD2,
    0x83E1_3D2C,
    0xF8D4_474F,
    0xE39E_B970,
    0x42C6_AE16,
    0x9932_16FA,
    0x7B09_3B5D,
    0x98DA_FF3C,
    0xF718_902A,
    0x0B1C_9CDB,
    0xE58F_764B,
    0x1876_36BC,
    0x5D7B_3BB1,
    0xE73D_E7DE,
    0x92BE_C979,
    0xCCA6_C0B2,
    0x304A_0979,
    0x85AA_43D4,
    0x7831_25BB,
    0x6CA8_EAA2,
    0xE407_EAC6,
    0x4B5C_FC3E,
    0x9FBF_8C76,
    0x15CA_20BE,
    0xF2CA_9FD3,
    0x959B_D756,
];

fn mix(sum: u32, word: u32) -> u32 {
    let mixed = sum ^ word;
    mixed.wrapping_mul(16_777_619) ^ (mixed >> 17)
}

/// The checksum that a page must have as number `block` of its table.
fn checksum(page: &[u8], block: u32) -> u16 {
    let mut sums = BASES;
    for (at, row) in page.chunks_exact(4 * BASES.len()).enumerate() {
        for (lane, (sum, word)) in sums.iter_mut().zip(row.chunks_exact(4)).enumerate() {
            let mut word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            if at == 0 && lane == CHECKSUM / 4 {
                // The checksum itself counts as zero.
                word &= 0xFFFF_0000;
            }
            *sum = mix(*sum, word);
        }
    }
    let all = sums.iter().fold(0, |all, sum| all ^ mix(mix(*sum, 0), 0));
    u16::try_from((all ^ block) % 65_535 + 1).unwrap_or(0)
}

/// Whether a page has a good checksum and is whole. A page of zeroes was never written.
fn is_good(page: &[u8], block: u32) -> bool {
    let field = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    if field(UPPER) == 0 {
        return page.iter().all(|byte| *byte == 0);
    }
    field(CHECKSUM) == checksum(page, block)
}

/// The number of the first page in a file of a table or an index, or of one of their forks; none of other files.
fn first_page(name: &str) -> Option<u32> {
    let (name, segment) = name.split_once('.').unwrap_or((name, "0"));
    let (relation, fork) = name.split_once('_').unwrap_or((name, "init"));
    relation.parse::<u32>().ok()?;
    matches!(fork, "init" | "fsm" | "vm").then_some(())?;
    segment.parse::<u32>().ok()?.checked_mul(SEGMENT)
}

/// Pages with bad checksums in all tables and indexes of a data directory that was made with checksums.
///
/// # Errors
/// When a file cannot be read.
pub fn bad_pages(data: &Path) -> Result<u64> {
    let mut bad = 0;
    for part in ["global", "base"] {
        bad += bad_pages_below(&data.join(part))?;
    }
    Ok(bad)
}

fn bad_pages_below(directory: &Path) -> Result<u64> {
    let mut bad = 0;
    for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            bad += bad_pages_below(&path)?;
        } else if let Some(first) = path.file_name().and_then(|name| first_page(name.to_str()?)) {
            bad += bad_pages_of(&path, first)?;
        }
    }
    Ok(bad)
}

fn bad_pages_of(path: &Path, first: u32) -> Result<u64> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut page = vec![0; PAGE];
    let mut bad = 0;
    for block in first.. {
        match file.read_exact(&mut page) {
            Ok(()) => bad += u64::from(!is_good(&page, block)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }
    Ok(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with something on it, as number `block`.
    fn page(fill: u8, block: u32) -> Vec<u8> {
        let mut page = vec![fill; PAGE];
        let sum = checksum(&page, block);
        page[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_le_bytes());
        page
    }

    #[test]
    fn files_are_told_apart_by_their_names() {
        for (name, first) in [
            ("16384", Some(0)),
            ("16384.2", Some(2 * 131_072)),
            ("16384_fsm", Some(0)),
            ("16384_vm.1", Some(131_072)),
            ("pg_internal.init", None),
            ("pg_filenode.map", None),
            ("PG_VERSION", None),
            ("pg_control", None),
            ("t3_16384", None),
        ] {
            assert_eq!(first_page(name), first, "{name}");
        }
    }

    #[test]
    fn a_page_torn_at_4_kib_or_of_another_place_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let tables = directory.path().join("base/5");
        fs::create_dir_all(&tables).unwrap();
        fs::create_dir(directory.path().join("global")).unwrap();
        let (old, new) = (page(7, 1), page(6, 1));
        let torn = [&new[..4096], &old[4096..]].concat();
        let unused = [vec![0; 4096], vec![1; 4096]].concat();
        fs::write(tables.join("16384"), [page(7, 0), old, vec![0; PAGE]].concat()).unwrap();
        assert_eq!(bad_pages(directory.path()).unwrap(), 0);
        fs::write(tables.join("16385"), [page(7, 0), torn, unused, page(7, 9)].concat()).unwrap();
        fs::write(tables.join("pg_filenode.map"), [1; PAGE]).unwrap();
        assert_eq!(bad_pages(directory.path()).unwrap(), 3);
    }
}
