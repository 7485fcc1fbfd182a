//! The place for one request and its answer, and who has it.
//!
//! Layout (Linux, `include/uapi/linux/fuse.h`): a header of 288 bytes and a payload. The header is `fuse_in_header` or
//! `fuse_out_header` (128 bytes), the fixed part of the request (128 bytes) and `fuse_uring_ent_in_out` (32 bytes).

use crate::mailbox::Mailbox;
use fuser::Errno;
use std::sync::Arc;

/// Memory is lent to the kernel in pages.
const PAGE: usize = 4096;
/// Bytes of the payload: the largest read or write.
pub const PAYLOAD: usize = crate::drive::MAX_TRANSFER_BYTES as usize;
/// Bytes of the fixed part of a request.
const FIXED_BYTES: usize = 128;
/// Where `fuse_uring_ent_in_out` begins.
const ENTRY: usize = 256;

/// A `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Iovec {
    base: *const u8,
    len: usize,
}

/// The place for one request. Its memory never moves.
#[derive(Debug)]
pub struct Frame {
    /// A page for the header, then the payload, and room to begin at a page.
    memory: Vec<u8>,
    start: usize,
    /// Number among the frames of its ring.
    pub index: u32,
    /// The kernel's queue.
    pub queue: u16,
}

impl Frame {
    /// A frame that takes memory only as it is used: new memory of this size is the kernel's page of zeroes.
    pub fn new(index: u32, queue: u16) -> Self {
        let memory = vec![0; PAYLOAD + 2 * PAGE];
        let start = memory.as_ptr().align_offset(PAGE).min(PAGE);
        Frame { memory, start, index, queue }
    }

    /// Where the kernel finds header and payload, as long as the frame lives.
    pub fn iovecs(&mut self) -> [Iovec; 2] {
        let base = self.memory[self.start..].as_mut_ptr().cast_const();
        [Iovec { base, len: PAGE }, Iovec { base: base.wrapping_add(PAGE), len: PAYLOAD }]
    }

    fn header(&self) -> &[u8] {
        &self.memory[self.start..self.start + PAGE]
    }

    fn header_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + PAGE]
    }

    /// What the request wants done (`FUSE_LOOKUP` and others).
    pub fn opcode(&self) -> u32 {
        u32_at(self.header(), 4)
    }

    /// The inode that it is about.
    pub fn node(&self) -> u64 {
        u64_at(self.header(), 16)
    }

    /// The fixed part of the request.
    pub fn fixed(&self) -> Fixed<'_> {
        Fixed(&self.header()[FIXED_BYTES..ENTRY])
    }

    /// The rest of the request: a name, or data to write.
    pub fn data(&self) -> &[u8] {
        let len = u32_at(self.header(), ENTRY + 16) as usize;
        &self.payload()[..len.min(PAYLOAD)]
    }

    /// The number by which the kernel knows the request when the answer comes.
    pub fn commit(&self) -> u64 {
        u64_at(self.header(), ENTRY + 8)
    }

    fn payload(&self) -> &[u8] {
        let at = self.start + PAGE;
        &self.memory[at..at + PAYLOAD]
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        let at = self.start + PAGE;
        &mut self.memory[at..at + PAYLOAD]
    }

    /// Makes it an answer, with `len` bytes of payload, or the negative number of an error.
    fn answer(&mut self, error: i32, len: usize) {
        // Not more than PAYLOAD.
        let len = u32::try_from(len).unwrap_or(0);
        let header = self.header_mut();
        // `unique`, 8 bytes at 8, stays.
        header[..4].copy_from_slice(&(16 + len).to_ne_bytes());
        header[4..8].copy_from_slice(&error.to_ne_bytes());
        header[ENTRY + 16..ENTRY + 20].copy_from_slice(&len.to_ne_bytes());
    }
}

/// The fixed part of a request, by byte offset.
#[derive(Clone, Copy)]
pub struct Fixed<'a>(&'a [u8]);

impl Fixed<'_> {
    /// Four bytes.
    pub fn u32(self, at: usize) -> u32 {
        u32_at(self.0, at)
    }

    /// Eight bytes.
    pub fn u64(self, at: usize) -> u64 {
        u64_at(self.0, at)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(value)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(value)
}

/// Frames with answers, on their way to the thread that gives them to the kernel.
pub type Outbox = Mailbox<Frame>;

/// A request that has not been answered. Dropped, it is answered with `EIO`, so that nobody waits for ever.
#[derive(Debug)]
pub struct Reply {
    frame: Option<Frame>,
    outbox: Arc<Outbox>,
}

impl Reply {
    /// The request in `frame`; its answer goes to `outbox`.
    pub fn new(frame: Frame, outbox: &Arc<Outbox>) -> Self {
        Reply { frame: Some(frame), outbox: outbox.clone() }
    }

    /// The request; none once it is answered.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// Refuses the request.
    pub fn error(mut self, errno: Errno) {
        self.send(-errno.code(), 0);
    }

    /// Success, and nothing to tell.
    pub fn ok(mut self) {
        self.send(0, 0);
    }

    /// Success with `data`: not more than was asked for.
    pub fn data(mut self, data: &[u8]) {
        let Some(frame) = &mut self.frame else { return };
        let len = data.len().min(PAYLOAD);
        frame.payload_mut()[..len].copy_from_slice(&data[..len]);
        self.send(0, len);
    }

    fn send(&mut self, error: i32, len: usize) {
        if let Some(mut frame) = self.frame.take() {
            frame.answer(error, len);
            self.outbox.put(frame);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send(-Errno::EIO.code(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox() -> Arc<Outbox> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        Arc::new(Outbox::new(rustix::event::eventfd(0, flags).unwrap()))
    }

    fn rung(outbox: &Outbox) -> bool {
        rustix::io::read(outbox.event(), &mut [0; 8]).is_ok()
    }

    #[test]
    fn a_frame_begins_at_a_page_and_keeps_the_number_of_its_request() {
        let mut frame = Frame::new(3, 1);
        let [header, payload] = frame.iovecs();
        assert_eq!((header.base.addr() % PAGE, payload.base.addr() % PAGE), (0, 0));
        assert_eq!(payload.len, PAYLOAD);
        frame.header_mut()[8..16].copy_from_slice(&77u64.to_ne_bytes());
        frame.answer(-5, 0);
        assert_eq!((u32_at(frame.header(), 0), u64_at(frame.header(), 8)), (16, 77));
        assert_eq!(u32_at(frame.header(), 4).cast_signed(), -5);
    }

    #[test]
    fn every_request_is_answered_once_and_only_a_sleeping_thread_is_woken() {
        let outbox = outbox();
        Reply::new(Frame::new(0, 0), &outbox).data(b"abc");
        assert!(!rung(&outbox), "nobody sleeps");
        let mut frames = Vec::new();
        outbox.take(&mut frames);
        assert_eq!((frames.len(), frames[0].data()), (1, &b"abc"[..]));

        // One that nobody answers, and one more.
        drop(Reply::new(frames.pop().unwrap(), &outbox));
        assert!(rung(&outbox));
        Reply::new(Frame::new(1, 0), &outbox).ok();
        assert!(!rung(&outbox), "once is enough");
        outbox.take(&mut frames);
        let errors: Vec<i32> = frames.iter().map(|frame| u32_at(frame.header(), 4).cast_signed()).collect();
        assert_eq!(errors, [-Errno::EIO.code(), 0]);
        outbox.awake();
        Reply::new(frames.pop().unwrap(), &outbox).ok();
        assert!(!rung(&outbox));
    }
}
