//! Records: everything that changes the tree of files. `docs/store-format.md` describes their bytes.

use crate::codec::{Reader, Writer};
use crate::device::Run;

/// The number of a file, directory or symbolic link. Numbers are not used again while the store is open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ino(pub u64);

impl Ino {
    /// The top directory.
    pub const ROOT: Self = Self(1);
}

/// What an inode is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NewKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with its target.
    Symlink(Vec<u8>),
}

/// What belongs to an inode besides its contents.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Attributes {
    /// Permission bits, of which the lowest 12 count.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of the contents, in nanoseconds since 1970.
    pub mtime: u64,
    /// Last change of the inode, in nanoseconds since 1970.
    pub ctime: u64,
}

/// A change of the tree. The tree is what all records of the log make, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// A new inode, without a name yet.
    Inode {
        /// Its number.
        ino: Ino,
        /// What it is.
        kind: NewKind,
        /// Its attributes.
        attributes: Attributes,
    },
    /// A name in a directory.
    Link {
        /// The directory.
        parent: Ino,
        /// The name.
        name: Vec<u8>,
        /// What it names.
        ino: Ino,
    },
    /// A name is gone.
    Unlink {
        /// The directory.
        parent: Ino,
        /// The name.
        name: Vec<u8>,
    },
    /// A name becomes another one, and replaces what had that.
    Rename {
        /// The directory.
        parent: Ino,
        /// The name.
        name: Vec<u8>,
        /// The new directory.
        new_parent: Ino,
        /// The new name.
        new_name: Vec<u8>,
        /// Both names exchange what they name.
        exchange: bool,
    },
    /// Attributes.
    Attributes {
        /// Whose.
        ino: Ino,
        /// All of them.
        attributes: Attributes,
    },
    /// The size of a file. What lies behind it is gone.
    Size {
        /// The file.
        ino: Ino,
        /// Its size in bytes.
        size: u64,
        /// The time of the change.
        mtime: u64,
    },
    /// Blocks of a file were written. They replace what was there.
    Extent {
        /// The file.
        ino: Ino,
        /// The first block within the file.
        block: u64,
        /// Where they lie.
        run: Run,
        /// The file is at least as long, in bytes.
        size: u64,
        /// The time of the change.
        mtime: u64,
    },
    /// Blocks of a file lie elsewhere now. Their contents are the same.
    Moved {
        /// The file.
        ino: Ino,
        /// The first block within the file.
        block: u64,
        /// Where they lie.
        run: Run,
    },
    /// Bytes of a file, in the log itself.
    Inline {
        /// The file.
        ino: Ino,
        /// The offset of the first.
        offset: u64,
        /// They.
        bytes: Vec<u8>,
        /// The time of the change.
        mtime: u64,
    },
    /// Bytes of a file are a hole now. The size stays.
    Hole {
        /// The file.
        ino: Ino,
        /// The offset of the first.
        from: u64,
        /// The offset behind the last.
        to: u64,
        /// The time of the change.
        mtime: u64,
    },
    /// An extended attribute.
    Xattr {
        /// Whose.
        ino: Ino,
        /// Its name.
        name: Vec<u8>,
        /// Its value; `None`: it is removed.
        value: Option<Vec<u8>>,
    },
    /// A zone of data holds nothing any more and may be reset once this is durable.
    Freed {
        /// Which.
        zone: u32,
    },
    /// An inode without names is closed, and gone.
    Forget {
        /// Which.
        ino: Ino,
    },
}

impl Record {
    /// Writes it at the end of a vector: its length in bytes (4 bytes), its kind (1 byte), its fields.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend_from_slice(&[0; 4]);
        let mut w = Writer(to);
        w.u8(self.code());
        match self {
            Self::Inode { ino, kind, attributes } => {
                w.u64(ino.0);
                put_attributes(&mut w, attributes);
                match kind {
                    NewKind::File => {
                        w.u8(0);
                    }
                    NewKind::Directory => {
                        w.u8(1);
                    }
                    NewKind::Symlink(target) => {
                        w.u8(2);
                        w.bytes(target);
                    }
                }
            }
            Self::Link { parent, name, ino } => {
                w.u64(parent.0).u64(ino.0).bytes(name);
            }
            Self::Unlink { parent, name } => {
                w.u64(parent.0).bytes(name);
            }
            Self::Rename { parent, name, new_parent, new_name, exchange } => {
                w.u64(parent.0).u64(new_parent.0).u8(u8::from(*exchange));
                w.bytes(name).bytes(new_name);
            }
            Self::Attributes { ino, attributes } => {
                w.u64(ino.0);
                put_attributes(&mut w, attributes);
            }
            Self::Size { ino, size, mtime } => {
                w.u64(ino.0).u64(*size).u64(*mtime);
            }
            Self::Extent { ino, block, run, size, mtime } => {
                w.u64(ino.0).u64(*block).u64(run.lba).u64(run.blocks);
                w.u64(*size).u64(*mtime);
            }
            Self::Moved { ino, block, run } => {
                w.u64(ino.0).u64(*block).u64(run.lba).u64(run.blocks);
            }
            Self::Inline { ino, offset, bytes, mtime } => {
                w.u64(ino.0).u64(*offset).u64(*mtime).bytes(bytes);
            }
            Self::Hole { ino, from, to, mtime } => {
                w.u64(ino.0).u64(*from).u64(*to).u64(*mtime);
            }
            Self::Xattr { ino, name, value } => {
                w.u64(ino.0).bytes(name).u8(u8::from(value.is_some()));
                w.bytes(value.as_deref().unwrap_or_default());
            }
            Self::Freed { zone } => {
                w.u32(*zone);
            }
            Self::Forget { ino } => {
                w.u64(ino.0);
            }
        }
        let length = u32::try_from(to.len() - start - 4).unwrap_or(u32::MAX);
        to[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn code(&self) -> u8 {
        match self {
            Self::Inode { .. } => 1,
            Self::Link { .. } => 2,
            Self::Unlink { .. } => 3,
            Self::Rename { .. } => 4,
            Self::Attributes { .. } => 5,
            Self::Size { .. } => 6,
            Self::Extent { .. } => 7,
            Self::Moved { .. } => 8,
            Self::Inline { .. } => 9,
            Self::Hole { .. } => 10,
            Self::Xattr { .. } => 11,
            Self::Freed { .. } => 12,
            Self::Forget { .. } => 13,
        }
    }

    /// The record at the beginning of these bytes, and the bytes behind it. `None`: the bytes end within it, or are no record.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut reader = Reader(bytes);
        let body = reader.bytes()?;
        let record = Self::decode_body(&mut Reader(body))?;
        Some((record, reader.0))
    }

    fn decode_body(r: &mut Reader<'_>) -> Option<Self> {
        let ino = |r: &mut Reader<'_>| r.u64().map(Ino);
        let run = |r: &mut Reader<'_>| Some(Run { lba: r.u64()?, blocks: r.u64()? });
        let record = match r.u8()? {
            1 => {
                let (ino, attributes) = (ino(r)?, get_attributes(r)?);
                let kind = match r.u8()? {
                    0 => NewKind::File,
                    1 => NewKind::Directory,
                    2 => NewKind::Symlink(r.bytes()?.to_vec()),
                    _ => return None,
                };
                Self::Inode { ino, kind, attributes }
            }
            2 => Self::Link { parent: ino(r)?, ino: ino(r)?, name: r.bytes()?.to_vec() },
            3 => Self::Unlink { parent: ino(r)?, name: r.bytes()?.to_vec() },
            4 => Self::Rename {
                parent: ino(r)?,
                new_parent: ino(r)?,
                exchange: r.u8()? != 0,
                name: r.bytes()?.to_vec(),
                new_name: r.bytes()?.to_vec(),
            },
            5 => Self::Attributes { ino: ino(r)?, attributes: get_attributes(r)? },
            6 => Self::Size { ino: ino(r)?, size: r.u64()?, mtime: r.u64()? },
            7 => {
                Self::Extent { ino: ino(r)?, block: r.u64()?, run: run(r)?, size: r.u64()?, mtime: r.u64()? }
            }
            8 => Self::Moved { ino: ino(r)?, block: r.u64()?, run: run(r)? },
            9 => {
                let (ino, offset, mtime) = (ino(r)?, r.u64()?, r.u64()?);
                Self::Inline { ino, offset, mtime, bytes: r.bytes()?.to_vec() }
            }
            10 => Self::Hole { ino: ino(r)?, from: r.u64()?, to: r.u64()?, mtime: r.u64()? },
            11 => {
                let (ino, name, there) = (ino(r)?, r.bytes()?.to_vec(), r.u8()? != 0);
                let value = r.bytes()?.to_vec();
                Self::Xattr { ino, name, value: there.then_some(value) }
            }
            12 => Self::Freed { zone: r.u32()? },
            13 => Self::Forget { ino: ino(r)? },
            _ => return None,
        };
        r.0.is_empty().then_some(record)
    }
}

fn put_attributes(w: &mut Writer<'_>, attributes: &Attributes) {
    w.u32(attributes.mode).u32(attributes.uid).u32(attributes.gid);
    w.u64(attributes.mtime).u64(attributes.ctime);
}

fn get_attributes(r: &mut Reader<'_>) -> Option<Attributes> {
    Some(Attributes { mode: r.u32()?, uid: r.u32()?, gid: r.u32()?, mtime: r.u64()?, ctime: r.u64()? })
}

#[cfg(test)]
mod tests {
    use rng::Rng;

    use super::*;

    fn examples() -> Vec<Record> {
        let (ino, run) = (Ino(7), Run { lba: 77, blocks: 3 });
        let attributes = Attributes { mode: 0o644, uid: 1, gid: 2, mtime: 3, ctime: 4 };
        let name = b"a name".to_vec();
        vec![
            Record::Inode { ino, kind: NewKind::File, attributes },
            Record::Inode { ino, kind: NewKind::Directory, attributes },
            Record::Inode { ino, kind: NewKind::Symlink(b"there".to_vec()), attributes },
            Record::Link { parent: Ino::ROOT, name: name.clone(), ino },
            Record::Unlink { parent: Ino::ROOT, name: name.clone() },
            Record::Rename {
                parent: Ino(3),
                name: name.clone(),
                new_parent: Ino(4),
                new_name: Vec::new(),
                exchange: true,
            },
            Record::Attributes { ino, attributes },
            Record::Size { ino, size: 5, mtime: 6 },
            Record::Extent { ino, block: 9, run, size: 8, mtime: 7 },
            Record::Moved { ino, block: 9, run },
            Record::Inline { ino, offset: 10, bytes: vec![1, 2, 3], mtime: 11 },
            Record::Hole { ino, from: 1, to: 2, mtime: 3 },
            Record::Xattr { ino, name: name.clone(), value: Some(vec![4]) },
            Record::Xattr { ino, name, value: None },
            Record::Freed { zone: 12 },
            Record::Forget { ino },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        for record in examples() {
            record.encode(&mut bytes);
        }
        let mut rest = bytes.as_slice();
        for record in examples() {
            let (read, behind) = Record::decode(rest).unwrap();
            assert_eq!(read, record);
            rest = behind;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut bytes = Vec::new();
        for record in examples() {
            record.encode(&mut bytes);
        }
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let mut damaged = bytes.clone();
            for _ in 0..=rng.below(4) {
                let at = rng.below(damaged.len() as u64) as usize;
                damaged[at] = rng.next_u64() as u8;
            }
            damaged.truncate(rng.below(damaged.len() as u64 + 1) as usize);
            let mut rest = damaged.as_slice();
            while let Some((_, behind)) = Record::decode(rest) {
                rest = behind;
            }
        }
    }
}
