//! The data of one command. It moves from owner to owner.

/// Bytes of a command's data, moved (never copied) from the front end to the drive and back.
///
/// The data may lie anywhere in its allocation. A front end that receives a request header and data
/// in one read hands over the whole read. One that must put a header before the answer keeps
/// room for it in front.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: u32,
    len: u32,
}

impl Buffer {
    /// No data: for commands without.
    pub const fn empty() -> Self {
        Buffer { bytes: Vec::new(), start: 0, len: 0 }
    }

    /// `len` zero bytes.
    pub fn zeroed(len: u32) -> Self {
        Buffer { bytes: vec![0; len as usize], start: 0, len }
    }

    /// `len` zero bytes, with `headroom` bytes before them in the same allocation.
    pub fn with_headroom(headroom: u32, len: u32) -> Self {
        Buffer { bytes: vec![0; headroom as usize + len as usize], start: headroom, len }
    }

    /// `len` bytes at `start` of `bytes`; `None` if they do not lie within.
    pub fn part_of(bytes: Vec<u8>, start: u32, len: u32) -> Option<Self> {
        let end = start as usize + len as usize;
        (end <= bytes.len()).then_some(Buffer { bytes, start, len })
    }

    /// The data.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start as usize..self.start as usize + self.len as usize]
    }

    /// The data, to be written.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start as usize..self.start as usize + self.len as usize]
    }

    /// Bytes of data.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The whole allocation with what lies before and after the data.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }

    /// What lies before the data, and the data, in one piece: for a header in front of an answer.
    pub fn framed_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.start as usize + self.len as usize]
    }
}

impl From<Vec<u8>> for Buffer {
    /// # Panics
    /// If there are 4 GiB or more.
    fn from(bytes: Vec<u8>) -> Self {
        let len = u32::try_from(bytes.len()).expect("a command moves less than 4 GiB");
        Buffer { bytes, start: 0, len }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_lies_where_it_was_put() {
        let b = Buffer::part_of(vec![1, 2, 3, 4], 1, 2).unwrap();
        assert_eq!(b.as_slice(), [2, 3]);
        assert!(Buffer::part_of(vec![0; 4], 2, 3).is_none());
        let mut b = Buffer::with_headroom(16, 4);
        b.as_mut_slice().fill(7);
        assert_eq!(b.into_vec()[15..], [0, 7, 7, 7, 7]);
    }
}
