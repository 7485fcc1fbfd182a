//! Parts of a command's data.

/// A part of a command's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DataSegment {
    /// Its guest address; `None` for bytes that go nowhere (SGL Bit Bucket descriptor).
    pub addr: Option<u64>,
    /// Its length in bytes, at least 1.
    pub len: u32,
}

/// Adds a part. Parts that touch become one.
pub(crate) fn push(segments: &mut Vec<DataSegment>, addr: Option<u64>, len: u32) {
    if len == 0 {
        return;
    }
    if let Some(last) = segments.last_mut()
        && let (Some(before), Some(addr)) = (last.addr, addr)
        && before.checked_add(u64::from(last.len)) == Some(addr)
        && let Some(both) = last.len.checked_add(len)
    {
        last.len = both;
        return;
    }
    segments.push(DataSegment { addr, len });
}
