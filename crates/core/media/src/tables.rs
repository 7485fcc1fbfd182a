//! Tables with an entry per page, in the host's memory: millions of entries that are visited at random,
//! so that most of the time of an operation goes into waiting for them.

use std::ops::{Deref, DerefMut};

/// An entry per page, in huge pages, copies too.
#[derive(Default, Debug)]
pub struct Table<T>(Vec<T>);

impl<T: Copy> Table<T> {
    /// `len` times `value`.
    pub fn new(value: T, len: usize) -> Table<T> {
        let mut entries = Vec::with_capacity(len);
        huge_pages(entries.spare_capacity_mut());
        entries.resize(len, value);
        Table(entries)
    }
}

impl<T: Copy + Default> Table<T> {
    /// `len` zeros of a type of integers, which cost nothing until they are visited.
    pub fn zeros(len: usize) -> Table<T> {
        let mut entries = vec![T::default(); len];
        huge_pages(&mut entries);
        Table(entries)
    }
}

impl<T: Copy> Clone for Table<T> {
    fn clone(&self) -> Self {
        let mut entries = Vec::with_capacity(self.len());
        huge_pages(entries.spare_capacity_mut());
        entries.extend_from_slice(self);
        Table(entries)
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Table<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// Asks the system to back memory that was not touched yet with huge pages, where it leaves that to the
/// program: at random, nearly every visit of small pages misses the cache of address translations.
#[expect(unsafe_code, reason = "madvise is unsafe for advice that changes contents; this one does not")]
pub fn huge_pages<T>(entries: &mut [T]) {
    let bytes = size_of_val(entries);
    let first = entries.as_mut_ptr().cast::<u8>();
    // Whole pages inside.
    let skip = first.align_offset(PAGE);
    let Some(len) = bytes.checked_sub(skip).map(|b| b / PAGE * PAGE).filter(|&b| b >= HUGE_PAGE_BYTES) else {
        return;
    };
    // SAFETY: the range lies in `entries`, and LinuxHugepage changes nothing that can be seen in it.
    let _ = unsafe { rustix::mm::madvise(first.add(skip).cast(), len, rustix::mm::Advice::LinuxHugepage) };
}

/// Makes bytes zeros by giving their memory back to the system, which gives other memory when they are touched again. They
/// should begin and end at pages of the host: what lies in others is written.
#[expect(
    unsafe_code,
    reason = "madvise is unsafe for advice that changes contents; these are bytes, and become zeros"
)]
pub fn give_back(bytes: &mut [u8]) {
    let skip = bytes.as_mut_ptr().align_offset(PAGE).min(bytes.len());
    let (before, rest) = bytes.split_at_mut(skip);
    let (pages, behind) = rest.split_at_mut(rest.len() / PAGE * PAGE);
    before.fill(0);
    behind.fill(0);
    // SAFETY: the range is that of a slice of bytes that nobody else refers to, and of whole pages. Memory of this program's
    // allocator is anonymous and private, so that it reads as zeros from then on, which are bytes like others.
    let given = unsafe {
        rustix::mm::madvise(pages.as_mut_ptr().cast(), pages.len(), rustix::mm::Advice::LinuxDontNeed)
    };
    if given.is_err() {
        pages.fill(0);
    }
}

/// Where bytes of this program lie, without the bytes. With it, a thread lets the system put memory there before another thread
/// writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRange {
    first: usize,
    len: usize,
}

impl MemoryRange {
    /// Where these are.
    pub fn of(bytes: &[u8]) -> Self {
        MemoryRange { first: bytes.as_ptr().expose_provenance(), len: bytes.len() }
    }

    /// Has the system put memory under the whole pages in it; bytes that were never written stay zeros. Takes as long as the
    /// system needs to clear that memory.
    ///
    /// # Errors
    /// Out of memory, a system that cannot (Linux before 5.14), or nothing of this program lies there any more.
    #[expect(unsafe_code, reason = "madvise is unsafe for advice that changes contents; this one does not")]
    pub fn back(self) -> std::io::Result<()> {
        let first = self.first.next_multiple_of(PAGE);
        let Some(len) = (self.first + self.len).checked_sub(first).map(|len| len / PAGE * PAGE) else {
            return Ok(());
        };
        let first = std::ptr::with_exposed_provenance_mut(first);
        // SAFETY: LinuxPopulateWrite makes memory present as a write would, and changes no byte: not even of a stranger, if what lay
        // here was freed meanwhile. No mapping is an error.
        unsafe { rustix::mm::madvise(first, len, rustix::mm::Advice::LinuxPopulateWrite) }?;
        Ok(())
    }
}

/// A page of the host, at least.
const PAGE: usize = 4096;
/// What is too small for a huge page gets no advice.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Begins to bring an entry into the cache; costs nothing if it is there, and does nothing beyond the end.
#[inline]
#[expect(unsafe_code, reason = "the intrinsic takes a raw pointer")]
pub fn prefetch<T>(entries: &[T], index: u32) {
    #[cfg(target_arch = "x86_64")]
    if let Some(entry) = entries.get(index as usize) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees, and the address is that of an entry.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(entry).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (entries, index);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_zeros() {
        let mut bytes = vec![7u8; 5 * PAGE + 100];
        give_back(&mut bytes[10..4 * PAGE + 20]);
        assert!(bytes[10..4 * PAGE + 20].iter().all(|&b| b == 0));
        assert!(bytes[..10].iter().chain(&bytes[4 * PAGE + 20..]).all(|&b| b == 7));
        give_back(&mut []);
    }

    #[test]
    fn memory_put_under_bytes_changes_none() {
        let mut bytes = vec![0u8; 3 * PAGE + 100];
        bytes[PAGE + 7] = 7;
        let place = MemoryRange::of(&bytes[10..]);
        place.back().unwrap();
        assert_eq!(bytes.iter().map(|&b| u32::from(b)).sum::<u32>(), 7);
        assert_eq!(bytes[PAGE + 7], 7);
        // Too small for a page, and where nothing is.
        MemoryRange::of(&bytes[1..9]).back().unwrap();
        MemoryRange { first: 1 << 46, len: PAGE }.back().unwrap_err();
    }

    #[test]
    fn a_table_holds_what_was_asked_for() {
        for len in [0, 1, 1000, HUGE_PAGE_BYTES / 8 + 12_345] {
            let entries = Table::new(7u64, len).clone();
            assert_eq!((entries.len(), entries.iter().all(|&e| e == 7)), (len, true));
            prefetch(&entries, 0);
            prefetch(&entries, u32::MAX);
        }
    }
}
