//! Physical Region Pages (Base 4.3.1).

use crate::memory::GuestMemory;
use crate::segment::{DataSegment, push};
use nvme::Status;

/// Bytes of a PRP entry.
const ENTRY_BYTES: usize = 8;
/// Entries of a list that are read at once.
const CHUNK_ENTRIES: usize = 64;

/// Reads `count` entries of a PRP list at `at`, each once. An entry has no offset within its page of `page` bytes, a power of two.
///
/// A list page that cannot hold all remaining entries ends with a pointer to the next list page. Each list page after the first
/// brings hundreds of entries, so the number of pages is bounded by `count`, and a list that leads to itself ends.
///
/// # Errors
/// PRP Offset Invalid; Data Transfer Error if the list is not mapped.
pub(crate) fn read_list<M: GuestMemory>(
    memory: &M,
    page: u64,
    mut at: u64,
    mut count: usize,
    mut take: impl FnMut(u64),
) -> Result<(), Status> {
    if !at.is_multiple_of(ENTRY_BYTES as u64) {
        return Err(Status::PRP_OFFSET_INVALID.with_dnr());
    }
    loop {
        let room = (page - at % page) as usize / ENTRY_BYTES;
        let is_chained = count > room;
        let here = if is_chained { room - 1 } else { count };
        let mut next = None;
        let mut done = 0;
        while done < here + usize::from(is_chained) {
            let entries = CHUNK_ENTRIES.min(here + usize::from(is_chained) - done);
            let mut chunk = [0; CHUNK_ENTRIES * ENTRY_BYTES];
            let bytes = &mut chunk[..entries * ENTRY_BYTES];
            memory
                .read(at + (done * ENTRY_BYTES) as u64, bytes)
                .map_err(|_| Status::DATA_TRANSFER_ERROR.with_dnr())?;
            for (entry, index) in
                bytes.as_chunks().0.iter().map(|entry| u64::from_le_bytes(*entry)).zip(done..)
            {
                if entry % page != 0 {
                    return Err(Status::PRP_OFFSET_INVALID.with_dnr());
                }
                if index == here {
                    next = Some(entry);
                } else {
                    take(entry);
                }
            }
            done += entries;
        }
        count -= here;
        match next {
            Some(list) => at = list,
            None => return Ok(()),
        }
    }
}

/// The segments of `len` bytes of data that two PRP entries describe. They are added to `segments`.
///
/// # Errors
/// PRP Offset Invalid; Data Transfer Error if a list is not mapped. Whether the data is mapped is not checked here.
pub(crate) fn map<M: GuestMemory>(
    memory: &M,
    page: u64,
    prps: [u64; 2],
    len: u32,
    segments: &mut Vec<DataSegment>,
) -> Result<(), Status> {
    let [first, second] = prps;
    if first % 4 != 0 {
        return Err(Status::PRP_OFFSET_INVALID.with_dnr());
    }
    // At most `len`.
    let here = u64::from(len).min(page - first % page) as u32;
    push(segments, Some(first), here);
    let mut left = len - here;
    let mut take = |addr: u64| {
        let bytes = u64::from(left).min(page) as u32;
        push(segments, Some(addr), bytes);
        left -= bytes;
    };
    match u64::from(len - here).div_ceil(page) {
        0 => Ok(()),
        1 if second % page != 0 => Err(Status::PRP_OFFSET_INVALID.with_dnr()),
        1 => {
            take(second);
            Ok(())
        }
        pages => read_list(memory, page, second, pages as usize, take),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::Ram;

    const PAGE: u64 = 4096;

    fn segments(memory: &Ram, prps: [u64; 2], len: u32) -> Result<Vec<(u64, u32)>, Status> {
        let mut found = Vec::new();
        map(memory, PAGE, prps, len, &mut found)?;
        Ok(found.iter().map(|segment| (segment.addr.unwrap(), segment.len)).collect())
    }

    fn list(memory: &Ram, at: u64, entries: impl IntoIterator<Item = u64>) {
        for (entry, index) in entries.into_iter().zip(0..) {
            memory.write(at + 8 * index, &entry.to_le_bytes()).unwrap();
        }
    }

    const OFFSET_INVALID: Result<Vec<(u64, u32)>, Status> = Err(Status::PRP_OFFSET_INVALID.with_dnr());

    #[test]
    fn one_and_two_entries() {
        let memory = Ram::whole(0x10_0000);
        assert_eq!(segments(&memory, [0x1004, 0], 4092), Ok(vec![(0x1004, 4092)]));
        assert_eq!(segments(&memory, [0x1004, 0x8000], 4096), Ok(vec![(0x1004, 4092), (0x8000, 4)]));
        assert_eq!(segments(&memory, [0x1000, 0x2000], 8192), Ok(vec![(0x1000, 8192)]), "they touch");
        assert_eq!(segments(&memory, [0x1002, 0], 16), OFFSET_INVALID);
        assert_eq!(segments(&memory, [0x1000, 0x8010], 8192), OFFSET_INVALID);
    }

    #[test]
    fn a_list_starts_anywhere_in_its_page_and_goes_on_in_the_next() {
        let memory = Ram::whole(0x10_0000);
        // Two entries and the pointer to the next page.
        list(&memory, 0x2FE8, [0x1_0000, 0x1_2000, 0x5000]);
        list(&memory, 0x5000, [0x1_4000, 0x1_6000]);
        let all = vec![(0x1FF0, 16), (0x1_0000, 4096), (0x1_2000, 4096), (0x1_4000, 4096), (0x1_6000, 100)];
        assert_eq!(segments(&memory, [0x1FF0, 0x2FE8], 16 + 3 * 4096 + 100), Ok(all));
        // Three entries fit: the last one is no pointer.
        let all = vec![(0x1FF0, 16), (0x1_0000, 4096), (0x1_2000, 4096), (0x5000, 4096)];
        assert_eq!(segments(&memory, [0x1FF0, 0x2FE8], 16 + 3 * 4096), Ok(all));
        assert_eq!(segments(&memory, [0x1000, 0x2FE4], 4 * 4096), OFFSET_INVALID);
        list(&memory, 0x2FE8, [0x1_0000, 0x1_2008, 0x5000]);
        assert_eq!(segments(&memory, [0x1000, 0x2FE8], 4 * 4096), OFFSET_INVALID);
        list(&memory, 0x2FE8, [0x1_0000, 0x1_2000, 0x5010]);
        assert_eq!(segments(&memory, [0x1000, 0x2FE8], 5 * 4096), OFFSET_INVALID);
        assert_eq!(
            segments(&memory, [0x1000, 0xFFFF_F000], 5 * 4096),
            Err(Status::DATA_TRANSFER_ERROR.with_dnr())
        );
    }

    #[test]
    fn a_list_that_leads_to_itself_ends() {
        let memory = Ram::whole(0x10_0000);
        list(&memory, 0x3000, [0x3000; 512]);
        let pages = 4 * 511 + 7;
        let mut found = 0;
        read_list(&memory, PAGE, 0x3000, pages, |_| found += 1).unwrap();
        assert_eq!(found, pages);
        assert!(memory.reads() < 5 * 512 / 64 + 10);
    }
}
