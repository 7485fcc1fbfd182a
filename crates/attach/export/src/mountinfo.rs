//! What is mounted where, from `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount of this process's namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Mount ID.
    pub id: u64,
    /// Device number of the file system.
    pub device: (u32, u32),
    /// Where it is mounted.
    pub point: PathBuf,
    /// File system type, with its subtype: `fuse.tranche`.
    pub kind: String,
    /// What is mounted, as the file system names it.
    pub source: String,
}

/// All mounts, lower ones before those on top of them.
///
/// # Errors
/// If `/proc` is not there.
pub fn read() -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// The file system that is visible at `point`, if one is mounted exactly there.
///
/// # Errors
/// As for [`read`].
pub fn at(point: &Path) -> io::Result<Option<Mount>> {
    Ok(read()?.into_iter().rfind(|mount| mount.point == point))
}

fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /point options [tags ...] - kind source options` (proc(5)).
fn parse_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = 6 + fields.get(6..)?.iter().position(|field| *field == b"-")?;
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let (major, minor) = std::str::from_utf8(fields[2]).ok()?.split_once(':')?;
    Some(Mount {
        id: number(fields[0])?,
        device: (major.parse().ok()?, minor.parse().ok()?),
        point: PathBuf::from(OsString::from_vec(unescape(fields[4]))),
        kind: String::from_utf8_lossy(&unescape(fields.get(dash + 1)?)).into_owned(),
        source: String::from_utf8_lossy(&unescape(fields.get(dash + 2)?)).into_owned(),
    })
}

/// The kernel writes space, tab, newline and backslash as `\ooo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let octal = tail.get(..3).and_then(|digits| {
            digits.iter().try_fold(0u16, |value, digit| {
                matches!(digit, b'0'..=b'7').then(|| value * 8 + u16::from(digit - b'0'))
            })
        });
        match octal.and_then(|value| u8::try_from(value).ok()) {
            Some(value) if byte == b'\\' => {
                out.push(value);
                rest = &tail[3..];
            }
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds() {
        let text = b"22 1 254:0 / / rw,relatime shared:1 master:7 - ext4 /dev/vda rw\n\
            40 22 0:38 / /mnt/a\\040b\\134 rw - fuse.tranche tranche rw,user_id=0\n\
            41 22 7:3 /sub /x rw unbindable - xfs /dev/loop3 rw\n\
            garbage\n\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].source, "/dev/vda");
        assert_eq!(mounts[1].point, Path::new("/mnt/a b\\"));
        assert_eq!((mounts[1].id, mounts[1].device, &*mounts[1].kind), (40, (0, 38), "fuse.tranche"));
        assert_eq!(mounts[2].device, (7, 3));
    }

    #[test]
    fn truncated_lines_are_skipped() {
        let line = b"40 22 0:38 / /mnt rw - fuse.tranche tranche rw";
        for len in 0..line.len() {
            let _ = parse(&line[..len]);
        }
        assert_eq!(unescape(b"\\04"), b"\\04");
        assert_eq!(unescape(b"\\777"), b"\\777");
    }

    #[test]
    fn this_process_has_a_root() {
        assert!(read().unwrap().iter().any(|mount| mount.point == Path::new("/")));
    }
}
