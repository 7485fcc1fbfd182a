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

impl Table<u64> {
    /// `len` zeros, which cost nothing until they are visited.
    pub fn zeros(len: usize) -> Table<u64> {
        let mut entries = vec![0; len];
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
    let Some(len) = bytes.checked_sub(skip).map(|b| b / PAGE * PAGE).filter(|&b| b >= HUGE) else { return };
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

/// A page of the host, at least.
const PAGE: usize = 4096;
/// What is too small for a huge page gets no advice.
const HUGE: usize = 2 << 20;

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
    fn a_table_holds_what_was_asked_for() {
        for len in [0, 1, 1000, HUGE / 8 + 12_345] {
            let entries = Table::new(7u64, len).clone();
            assert_eq!((entries.len(), entries.iter().all(|&e| e == 7)), (len, true));
            prefetch(&entries, 0);
            prefetch(&entries, u32::MAX);
        }
    }
}
