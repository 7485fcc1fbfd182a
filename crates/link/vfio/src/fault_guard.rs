//! Mapped files that become shorter.
//!
//! A page of a mapping that has no file behind it any more raises SIGBUS, which ends the process. A client may make its file shorter at any
//! time, and must not end the drive by it. So a handler puts a page of zeros into the place, and marks the mapping as broken. The
//! access continues, and its caller sees the mark afterwards. SIGBUS at any other address ends the process.
//!
//! `unsafe` has three reasons here. A signal handler is installed. It reads the address from the kernel's structure. It maps a page over one of
//! a registered mapping, whose memory is only accessed by volatile copies.

#![allow(unsafe_code, reason = "only a signal handler learns of pages that are gone")]

use nix::libc::{self, c_int, c_void, siginfo_t};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings of all clients of this process, at most.
pub(crate) const MAX_GUARDED: usize = 4096;
/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// A place for a mapping. It is free while `start` is 0.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    is_broken: AtomicBool,
}

static PLACES: [Place; MAX_GUARDED] = [const {
    Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0), is_broken: AtomicBool::new(false) }
}; MAX_GUARDED];

/// Puts zeros where a page is gone, if it is one of a guarded mapping.
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid structure for SIGBUS.
    let addr = unsafe { (*info).si_addr() } as usize;
    let holds = |place: &&Place| {
        let start = place.start.load(Ordering::Acquire);
        start != 0 && (start..place.end.load(Ordering::Relaxed)).contains(&addr)
    };
    if let Some(place) = PLACES.iter().find(holds) {
        let page = (addr & !(PAGE_BYTES - 1)) as *mut c_void;
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
        // SAFETY: the page is one of a registered mapping. It stays registered until it is unmapped.
        if unsafe { libc::mmap(page, PAGE_BYTES, prot, flags, -1, 0) } != libc::MAP_FAILED {
            place.is_broken.store(true, Ordering::Release);
            return;
        }
    }
    // SAFETY: the default action is no function of ours. The access is tried again, and ends the process.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let handler = SigHandler::SigAction(on_bus_error);
        let action = SigAction::new(handler, SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK, SigSet::empty());
        // SAFETY: the handler uses atomics and system calls only. It can only fail for a signal that does not exist.
        let _ = unsafe { sigaction(Signal::SIGBUS, &action) };
    });
}

/// Guards a mapping. To be dropped before it is unmapped.
#[derive(Debug)]
pub(crate) struct FaultGuard(usize);

impl FaultGuard {
    /// Guards this many bytes at an address; `None` if there are too many mappings.
    pub(crate) fn new(start: usize, bytes: usize) -> Option<Self> {
        install();
        for (place, index) in PLACES.iter().zip(0..) {
            // The end is set before the start is seen: nothing lies at a range that ends with 0.
            if place.start.load(Ordering::Relaxed) == 0
                && place.end.compare_exchange(0, start + bytes, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                place.is_broken.store(false, Ordering::Relaxed);
                place.start.store(start, Ordering::Release);
                return Some(FaultGuard(index));
            }
        }
        None
    }

    /// Whether a page of the mapping was gone.
    pub(crate) fn is_broken(&self) -> bool {
        PLACES[self.0].is_broken.load(Ordering::Acquire)
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        PLACES[self.0].start.store(0, Ordering::Release);
        PLACES[self.0].end.store(0, Ordering::Release);
    }
}
