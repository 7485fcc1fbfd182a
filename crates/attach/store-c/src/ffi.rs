//! The C interface. `include/tranche_store.h` describes it.
//!
//! `unsafe` is here and nowhere else in the crate. What it rests on are the rules of the header: pointers come from this library or point to what
//! their types say, paths end with a zero, and a handle is freed once. A panic is caught at the border: it becomes [`BUG`].
#![allow(unsafe_code, reason = "C hands in pointers, and finds functions by their names")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use store::{FileKind, KeyRange, Lifetime, Read, Stat};

use crate::failure::Failure;
use crate::file::{File, Mode};
use crate::opened::Opened;
use crate::place::Place;

/// `TRANCHE_OK`.
const OK: c_int = 0;
/// `TRANCHE_BUG`.
const BUG: c_int = 10;
/// Flags of `tranche_open`.
const CREATE: c_int = 1;
const TRUNCATE: c_int = 2;
const APPEND: c_int = 4;

thread_local! {
    /// What went wrong in this thread last.
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// A store.
#[derive(Debug)]
pub struct StoreHandle(Arc<Opened>);

/// The names of a directory, and the next one.
#[derive(Debug)]
pub struct Listing {
    names: Vec<(CString, CStat)>,
    next: usize,
}

/// `struct tranche_stat`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CStat {
    inode: u64,
    size: u64,
    mtime_ns: u64,
    links: u32,
    kind: u32,
}

/// `struct tranche_request`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Request {
    offset: u64,
    buffer: *mut c_void,
    length: usize,
    read: usize,
}

impl From<&Stat> for CStat {
    fn from(stat: &Stat) -> Self {
        let kind = match stat.kind {
            FileKind::File => 0,
            FileKind::Directory => 1,
            FileKind::Symlink => 2,
        };
        let (mtime_ns, links) = (stat.attributes.mtime, stat.links);
        Self { inode: stat.ino.0, size: stat.size, mtime_ns, links, kind }
    }
}

fn remember(text: &str) {
    // A zero in a text would end it.
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    // At the end of a thread there is nobody to read it.
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = text);
}

/// Runs a function's body. What goes wrong becomes a code and a text, also a panic.
fn guard(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    // The store keeps its own consistency: its lock is not poisoned, and a broken rule stops it.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => OK,
        Ok(Err(failure)) => {
            remember(&failure.text);
            failure.code as c_int
        }
        Err(_) => {
            remember("a mistake in the store's library; standard error says where");
            BUG
        }
    }
}

/// What a pointer points to.
fn borrow<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: by the header it is NULL or a handle of this library that is not freed; all handles may be shared by threads.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::invalid("a handle is NULL"))
}

/// Whether two places share a byte. Each is an address and a length in bytes.
fn overlap(mut places: Vec<(usize, usize)>) -> bool {
    places.retain(|(_, length)| *length > 0);
    places.sort_unstable();
    places.windows(2).any(|pair| pair[0].0.saturating_add(pair[0].1) > pair[1].0)
}

/// Where a result goes.
fn place_of<'a, T>(pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: by the header it is NULL or points to a variable of the caller, which nobody else uses during the call.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::invalid("the pointer to the result is NULL"))
}

/// The bytes of a text.
fn text<'a>(pointer: *const c_char) -> Result<&'a [u8], Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid("a path is NULL"));
    }
    // SAFETY: by the header it points to bytes that end with a zero and do not change during the call.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// Bytes that the caller gives.
fn input<'a>(data: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    match (data.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::invalid("the data is NULL")),
        // SAFETY: by the header it points to so many bytes, which do not change during the call.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) }),
    }
}

/// Room that the caller gives. It is only written to.
fn output<'a>(buffer: *mut c_void, length: usize) -> Result<&'a mut [u8], Failure> {
    match (buffer.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Failure::invalid("the buffer is NULL")),
        // SAFETY: by the header it points to so many bytes, which nobody else uses during the call.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(buffer.cast(), length) }),
    }
}

/// Gives the caller a handle of what `make` makes.
fn hand_out<T>(result: *mut *mut T, make: impl FnOnce() -> Result<T, Failure>) -> c_int {
    guard(|| {
        let result = place_of(result)?;
        *result = std::ptr::null_mut();
        *result = Box::into_raw(Box::new(make()?));
        Ok(())
    })
}

/// Takes a handle back.
fn take_back<T>(handle: *mut T) -> Result<Box<T>, Failure> {
    if handle.is_null() {
        return Err(Failure::invalid("a handle is NULL"));
    }
    // SAFETY: by the header it came from `hand_out` with this type, and this is the last use of it.
    Ok(unsafe { Box::from_raw(handle) })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_store_open(place: *const c_char, result: *mut *mut StoreHandle) -> c_int {
    hand_out(result, || {
        let place: Place = String::from_utf8_lossy(text(place)?).parse()?;
        Opened::open(&place).map(StoreHandle)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_store_close(store: *mut StoreHandle) -> c_int {
    guard(|| {
        let store = take_back(store)?;
        if Arc::strong_count(&store.0) == 1 { store.0.sync() } else { Ok(()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_store_sync(store: *mut StoreHandle) -> c_int {
    guard(|| borrow(store)?.0.sync())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_store_sync_names(store: *mut StoreHandle) -> c_int {
    guard(|| borrow(store)?.0.sync_names())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_store_space(store: *mut StoreHandle, total: *mut u64, free: *mut u64) -> c_int {
    guard(|| {
        (*place_of(total)?, *place_of(free)?) = borrow(store)?.0.space();
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_store_block(store: *mut StoreHandle) -> u64 {
    borrow(store).map_or(0, |store| store.0.block())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_stat_path(
    store: *mut StoreHandle,
    path: *const c_char,
    result: *mut CStat,
) -> c_int {
    guard(|| {
        *place_of(result)? = (&borrow(store)?.0.stat(text(path)?)?).into();
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_make_directory(
    store: *mut StoreHandle,
    path: *const c_char,
    parents: c_int,
) -> c_int {
    guard(|| borrow(store)?.0.make_directory(text(path)?, parents != 0))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_remove_directory(store: *mut StoreHandle, path: *const c_char) -> c_int {
    guard(|| borrow(store)?.0.remove_directory(text(path)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_unlink(store: *mut StoreHandle, path: *const c_char) -> c_int {
    guard(|| borrow(store)?.0.unlink(text(path)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_rename(store: *mut StoreHandle, from: *const c_char, to: *const c_char) -> c_int {
    guard(|| borrow(store)?.0.rename(text(from)?, text(to)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_link(
    store: *mut StoreHandle,
    path: *const c_char,
    new_path: *const c_char,
) -> c_int {
    guard(|| borrow(store)?.0.link(text(path)?, text(new_path)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_lock(store: *mut StoreHandle, path: *const c_char) -> c_int {
    guard(|| borrow(store)?.0.lock(text(path)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_unlock(store: *mut StoreHandle, path: *const c_char) -> c_int {
    guard(|| borrow(store)?.0.unlock(text(path)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_list(
    store: *mut StoreHandle,
    path: *const c_char,
    result: *mut *mut Listing,
) -> c_int {
    hand_out(result, || {
        let names = borrow(store)?.0.list(text(path)?)?;
        // No name has a zero.
        let names =
            names.into_iter().filter_map(|(name, stat)| Some((CString::new(name).ok()?, (&stat).into())));
        Ok(Listing { names: names.collect(), next: 0 })
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_listing_next(listing: *mut Listing, result: *mut CStat) -> *const c_char {
    let Ok(listing) = place_of(listing) else { return std::ptr::null() };
    let Some((name, stat)) = listing.names.get(listing.next) else { return std::ptr::null() };
    listing.next += 1;
    if let Ok(result) = place_of(result) {
        *result = *stat;
    }
    name.as_ptr()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_listing_free(listing: *mut Listing) {
    guard(|| take_back(listing).map(drop));
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_open(
    store: *mut StoreHandle,
    path: *const c_char,
    flags: c_int,
    result: *mut *mut File,
) -> c_int {
    hand_out(result, || {
        if flags & !(CREATE | TRUNCATE | APPEND) != 0 {
            return Err(Failure::invalid(format!("{flags} has flags that tranche_open does not know")));
        }
        let is_set = |flag| flags & flag != 0;
        let mode = Mode { create: is_set(CREATE), truncate: is_set(TRUNCATE), append: is_set(APPEND) };
        borrow(store)?.0.file(text(path)?, mode)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_close(file: *mut File) -> c_int {
    guard(|| take_back(file)?.flush())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_read(
    file: *mut File,
    offset: u64,
    buffer: *mut c_void,
    length: usize,
    read: *mut usize,
) -> c_int {
    guard(|| {
        *place_of(read)? = borrow(file)?.read(offset, output(buffer, length)?)?;
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_read_many(file: *mut File, requests: *mut Request, count: usize) -> c_int {
    guard(|| {
        if count == 0 {
            return Ok(());
        }
        if requests.is_null() {
            return Err(Failure::invalid("the requests are NULL"));
        }
        let own = (requests as usize, count.saturating_mul(size_of::<Request>()));
        // SAFETY: by the header it points to so many requests, which nobody else uses during the call.
        let requests = unsafe { std::slice::from_raw_parts_mut(requests, count) };
        let buffers = requests.iter().map(|request| (request.buffer as usize, request.length));
        if overlap(std::iter::once(own).chain(buffers).collect()) {
            return Err(Failure::invalid("buffers of the requests overlap each other, or the requests"));
        }
        let one = |request: &Request| {
            let buffer = output(request.buffer, request.length)?;
            Ok(Read { offset: request.offset, buffer, length: 0 })
        };
        let mut reads = requests.iter().map(one).collect::<Result<Vec<_>, Failure>>()?;
        borrow(file)?.read_many(&mut reads)?;
        for (request, read) in requests.iter_mut().zip(&reads) {
            request.read = read.length;
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_write(file: *mut File, offset: u64, data: *const c_void, length: usize) -> c_int {
    guard(|| borrow(file)?.write(offset, input(data, length)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_append(file: *mut File, data: *const c_void, length: usize) -> c_int {
    guard(|| borrow(file)?.append(input(data, length)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_flush(file: *mut File) -> c_int {
    guard(|| borrow(file)?.flush())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_sync(file: *mut File) -> c_int {
    guard(|| borrow(file)?.sync())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_truncate(file: *mut File, size: u64) -> c_int {
    guard(|| borrow(file)?.truncate(size))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_size(file: *mut File, result: *mut u64) -> c_int {
    guard(|| {
        *place_of(result)? = borrow(file)?.size()?;
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_set_lifetime(file: *mut File, lifetime: c_int) -> c_int {
    guard(|| {
        let known = Lifetime::parse(lifetime.to_string().as_bytes());
        let lifetime = known.ok_or_else(|| Failure::invalid(format!("{lifetime} is no lifetime")))?;
        borrow(file)?.expect(lifetime)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_set_keys(
    file: *mut File,
    level: c_int,
    first: *const c_void,
    first_length: usize,
    last: *const c_void,
    last_length: usize,
) -> c_int {
    guard(|| {
        let level = u8::try_from(level)
            .map_err(|_| Failure::invalid(format!("{level} is no level from 0 to 255")))?;
        let keys = KeyRange::new(level, input(first, first_length)?, input(last, last_length)?);
        borrow(file)?.hold(&keys.ok_or_else(|| Failure::invalid("the last key comes before the first"))?)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tranche_inode(file: *mut File) -> u64 {
    borrow(file).map_or(0, File::ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_overlap_where_they_share_a_byte() {
        for (places, expected) in [
            (&[][..], false),
            (&[(100, 10), (110, 10)], false),
            (&[(110, 10), (100, 11)], true),
            (&[(100, 10), (100, 10)], true),
            (&[(100, 50), (120, 0), (150, 1)], false),
            (&[(100, 50), (10, 1), (120, 1)], true),
            (&[(usize::MAX, usize::MAX), (0, 5)], false),
        ] {
            assert_eq!(overlap(places.to_vec()), expected, "{places:?}");
        }
    }

    /// Two requests for one buffer, and one for the requests themselves, are refused before the file is looked at.
    #[test]
    fn requests_whose_buffers_overlap_are_refused() {
        let mut buffer = [0u8; 64];
        let at = |buffer: &mut [u8; 64], first: usize, length| Request {
            offset: 0,
            buffer: buffer[first..].as_mut_ptr().cast(),
            length,
            read: 0,
        };
        let mut requests = [at(&mut buffer, 0, 33), at(&mut buffer, 32, 32)];
        let refused = |requests: *mut Request, count| {
            tranche_read_many(std::ptr::null_mut(), requests, count);
            LAST_ERROR.with_borrow(|last| last.to_string_lossy().contains("overlap"))
        };
        assert!(refused(requests.as_mut_ptr(), 2));
        requests[0].length = 32;
        assert!(!refused(requests.as_mut_ptr(), 2));
        requests[1].buffer = (&raw mut requests[0]).cast();
        assert!(refused(requests.as_mut_ptr(), 2));
    }
}
