//! A client of a vfio-user device: the side of a virtual machine monitor, or of a driver in user space.
//!
//! Source: *vfio-user Protocol Specification*, version 0.9.1 (libvfio-user, `docs/vfio-user.rst`). Unlike the client of the crate `vfio_user`, this one
//! has a time limit, writes without waiting for an answer, and treats answers as hostile.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::fs::File;
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use vfio_bindings::bindings::vfio;
use vfio_user::Command;

/// Bytes of a message's header: identifier, command, size, flags, error.
const HEADER_BYTES: usize = 16;
/// A header's flags: an answer.
const REPLY_FLAG: u32 = 1;
/// A header's flags: nobody waits for an answer.
const NO_REPLY_FLAG: u32 = 1 << 4;
/// A header's flags: the request has failed.
const ERROR_FLAG: u32 = 1 << 5;
/// Bytes of an answer, at most.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Files of an answer, at most.
const MAX_ANSWER_FILES: usize = 8;
/// What this client can do, as JSON.
const CAPABILITIES: &[u8] = b"{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":1048576}}\0";
/// A request to map memory: it may be read and written.
const READ_WRITE_FLAGS: u32 = 3;

/// Pages of a region that a client may map.
#[derive(Debug)]
pub struct MappableArea {
    /// The first byte in the region.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// The file.
    pub file: File,
    /// The first byte in the file.
    pub offset: u64,
}

/// A region of a device.
#[derive(Debug, Default)]
pub struct RegionInfo {
    /// Bytes.
    pub bytes: u64,
    /// Pages that may be mapped.
    pub mappable: Vec<MappableArea>,
}

/// A connection to a device.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    next_id: u16,
    timeout: Duration,
    /// Requests whose answers were not waited for to the end. They may still come.
    abandoned: Vec<u16>,
}

fn broken(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidData, problem.into())
}

/// The bytes and files of an answer, or the device's error.
type Answered = Result<(Vec<u8>, Vec<File>), Error>;

/// Little-endian numbers of a request or an answer.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn dword(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn qword(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
}

/// A number of an answer.
fn dword(bytes: &[u8], at: usize) -> Result<u32, Error> {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk);
    field.copied().map(u32::from_le_bytes).ok_or_else(|| broken("an answer is too short"))
}

fn qword(bytes: &[u8], at: usize) -> Result<u64, Error> {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk);
    field.copied().map(u64::from_le_bytes).ok_or_else(|| broken("an answer is too short"))
}

impl Client {
    /// Connects to the device of a socket. `timeout` limits each answer.
    ///
    /// # Errors
    /// There is no such socket; no answer in time, as when another client has the device; what listens there is no PCI device.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, Error> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut client = Client { stream, next_id: 0, timeout, abandoned: Vec::new() };
        // Version 0.1.
        let mut version = 0x0001_0000_u32.to_le_bytes().to_vec();
        version.extend_from_slice(CAPABILITIES);
        let (answer, _) = client.call(Command::Version, &version, &[])?;
        if dword(&answer, 0)? & 0xFFFF != 0 {
            return Err(broken("another version of vfio-user"));
        }
        let (info, _) =
            client.call(Command::DeviceGetInfo, &Fields::default().dword(16).qword(0).dword(0).0, &[])?;
        if dword(&info, 4)? & vfio::VFIO_DEVICE_FLAGS_PCI == 0 {
            return Err(broken("the device is none of PCI"));
        }
        Ok(client)
    }

    /// The socket, to see when the device goes.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Ends the connection for all that use it.
    pub fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    fn send(
        &mut self,
        command: Command,
        flags: u32,
        body: &[&[u8]],
        files: &[BorrowedFd<'_>],
    ) -> Result<u16, Error> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let size: usize = HEADER_BYTES + body.iter().map(|part| part.len()).sum::<usize>();
        let mut message = Vec::with_capacity(size);
        message.extend_from_slice(&id.to_le_bytes());
        message.extend_from_slice(&(command as u16).to_le_bytes());
        message.extend_from_slice(&(size as u32).to_le_bytes());
        message.extend_from_slice(&flags.to_le_bytes());
        message.extend_from_slice(&[0; 4]);
        body.iter().for_each(|part| message.extend_from_slice(part));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        // Files go with the first byte. A device that has gone must not kill this program by a signal.
        let sent = sendmsg(&self.stream, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL)?;
        self.stream.write_all(&message[sent..])?;
        Ok(id)
    }

    /// Sends a request, and waits for its answer without the header.
    fn call(&mut self, command: Command, body: &[u8], files: &[BorrowedFd<'_>]) -> Answered {
        let id = self.send(command, 0, &[body], files)?;
        loop {
            let (answered, answer) = match self.receive() {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.abandoned.push(id);
                    return Err(ErrorKind::TimedOut.into());
                }
                received => received?,
            };
            if answered == id {
                return answer;
            }
            match self.abandoned.iter().position(|abandoned| *abandoned == answered) {
                Some(index) => drop(self.abandoned.swap_remove(index)),
                // Only a write that fails has an answer: the device's owner has gone.
                None if answer.is_err() => return Err(ErrorKind::BrokenPipe.into()),
                None => return Err(broken("an answer without a request")),
            }
        }
    }

    /// Receives an answer, with the identifier of its request.
    fn receive(&mut self) -> Result<(u16, Answered), Error> {
        let mut header = [0; HEADER_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ANSWER_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut header)];
        let got = recvmsg(&self.stream, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights.map(File::from));
            }
        }
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        // The rest follows, or the connection is of no more use.
        let interrupted = |_| broken("an answer that ends in the middle");
        self.stream.read_exact(&mut header[got..]).map_err(interrupted)?;
        let (size, flags) = (dword(&header, 4)? as usize, dword(&header, 8)?);
        let id = dword(&header, 0)? as u16;
        if flags & 0xF != REPLY_FLAG {
            return Err(broken("no answer of vfio-user"));
        }
        if !(HEADER_BYTES..=MAX_ANSWER_BYTES).contains(&size) {
            return Err(broken(format!("an answer of {size} bytes")));
        }
        let mut answer = vec![0; size - HEADER_BYTES];
        self.stream.read_exact(&mut answer).map_err(interrupted)?;
        if flags & ERROR_FLAG != 0 {
            let error = match dword(&header, 12)? {
                0 => Error::other("the device refuses a request"),
                number => Error::from_raw_os_error(i32::try_from(number).unwrap_or(0)),
            };
            return Ok((id, Err(error)));
        }
        Ok((id, Ok((answer, files))))
    }

    /// Reads a region as [`region_read`](Client::region_read), and waits for the answer no longer than this.
    ///
    /// # Errors
    /// As [`region_read`](Client::region_read). After [`ErrorKind::TimedOut`], the connection may be used further.
    pub fn region_read_within(
        &mut self,
        timeout: Duration,
        region: u32,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), Error> {
        self.stream.set_read_timeout(Some(timeout))?;
        let read = self.region_read(region, offset, bytes);
        self.stream.set_read_timeout(Some(self.timeout))?;
        read
    }

    /// Reads a region.
    ///
    /// # Errors
    /// The device refuses it, has gone, or does not answer in time; so with all that follow.
    pub fn region_read(&mut self, region: u32, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let body = Fields::default().qword(offset).dword(region).dword(bytes.len() as u32);
        let (answer, _) = self.call(Command::RegionRead, &body.0, &[])?;
        let read = answer.get(16..16 + bytes.len()).ok_or_else(|| broken("an answer is too short"))?;
        bytes.copy_from_slice(read);
        Ok(())
    }

    /// Writes a region, without waiting for an answer.
    ///
    /// # Errors
    /// The device has gone.
    pub fn region_write(&mut self, region: u32, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let body = Fields::default().qword(offset).dword(region).dword(bytes.len() as u32);
        self.send(Command::RegionWrite, NO_REPLY_FLAG, &[&body.0, bytes], &[]).map(drop)
    }

    /// What a region has.
    ///
    /// # Errors
    /// As [`region_read`](Client::region_read).
    pub fn region_info(&mut self, region: u32) -> Result<RegionInfo, Error> {
        const INFO_BYTES: u32 = size_of::<vfio::vfio_region_info>() as u32;
        let ask =
            |bytes: u32| Fields::default().dword(bytes).dword(0).dword(region).dword(0).qword(0).qword(0).0;
        let (mut info, mut files) = self.call(Command::DeviceGetRegionInfo, &ask(INFO_BYTES), &[])?;
        let needed = dword(&info, 0)?;
        // The areas that can be mapped follow, if there is room for them.
        if needed > INFO_BYTES && needed as usize <= MAX_ANSWER_BYTES {
            (info, files) = self.call(Command::DeviceGetRegionInfo, &ask(needed), &[])?;
        }
        let (flags, bytes, offset) = (dword(&info, 4)?, qword(&info, 16)?, qword(&info, 24)?);
        let mut found = RegionInfo { bytes, mappable: Vec::new() };
        let Some(file) = files.pop().filter(|_| flags & vfio::VFIO_REGION_INFO_FLAG_MMAP != 0) else {
            return Ok(found);
        };
        let mut add = |start: u64, bytes: u64| {
            let offset = offset.checked_add(start).ok_or_else(|| broken("an area of a region wraps"))?;
            found.mappable.push(MappableArea { start, bytes, file: file.try_clone()?, offset });
            Ok::<(), Error>(())
        };
        let mut at = dword(&info, 12)? as usize;
        if flags & vfio::VFIO_REGION_INFO_FLAG_CAPS == 0 || at == 0 {
            add(0, bytes)?;
        }
        while flags & vfio::VFIO_REGION_INFO_FLAG_CAPS != 0 && at != 0 {
            let (kind, next) = (dword(&info, at)? & 0xFFFF, dword(&info, at + 4)? as usize);
            if kind == vfio::VFIO_REGION_INFO_CAP_SPARSE_MMAP {
                let count = dword(&info, at + 8)? as usize;
                for index in 0..count.min(MAX_ANSWER_BYTES / 16) {
                    let area = at + 16 + index * 16;
                    add(qword(&info, area)?, qword(&info, area + 8)?)?;
                }
            }
            // The list leads forward, so it ends.
            at = if next > at { next } else { 0 };
        }
        Ok(found)
    }

    /// Lends `size` bytes of a file from its start on, as memory at an address.
    ///
    /// # Errors
    /// As [`region_read`](Client::region_read).
    pub fn map_memory(&mut self, addr: u64, size: u64, file: &File) -> Result<(), Error> {
        let body = Fields::default().dword(32).dword(READ_WRITE_FLAGS).qword(0).qword(addr).qword(size);
        self.call(Command::DmaMap, &body.0, &[file.as_fd()]).map(drop)
    }

    /// How many interrupts of a kind the device has.
    ///
    /// # Errors
    /// As [`region_read`](Client::region_read).
    pub fn interrupts(&mut self, index: u32) -> Result<u32, Error> {
        let body = Fields::default().dword(16).dword(0).dword(index).dword(0);
        let (info, _) = self.call(Command::GetIrqInfo, &body.0, &[])?;
        dword(&info, 12)
    }

    /// Connects an interrupt with an event.
    ///
    /// # Errors
    /// As [`region_read`](Client::region_read).
    pub fn connect_interrupt(&mut self, index: u32, number: u32, event: BorrowedFd<'_>) -> Result<(), Error> {
        let flags = vfio::VFIO_IRQ_SET_DATA_EVENTFD | vfio::VFIO_IRQ_SET_ACTION_TRIGGER;
        let body = Fields::default().dword(20).dword(flags).dword(index).dword(number).dword(1);
        self.call(Command::SetIrqs, &body.0, &[event]).map(drop)
    }

    /// Resets the device.
    ///
    /// # Errors
    /// As [`region_read`](Client::region_read).
    pub fn reset(&mut self) -> Result<(), Error> {
        self.call(Command::DeviceReset, &[], &[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicU32, Ordering};

    const TIMEOUT: Duration = Duration::from_millis(200);

    /// A device that reads each request and sends these bytes; the path of its socket.
    fn device(dir: &tempfile::TempDir, answers: Vec<Vec<u8>>) -> std::path::PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let path = dir.path().join(NUMBER.fetch_add(1, Ordering::Relaxed).to_string());
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let mut header = [0; HEADER_BYTES];
                stream.read_exact(&mut header).unwrap();
                let mut body = vec![0; dword(&header, 4).unwrap() as usize - HEADER_BYTES];
                stream.read_exact(&mut body).unwrap();
                stream.write_all(&answer).unwrap();
            }
            // It keeps the connection until its client goes.
            let _ = stream.read(&mut [0]);
        });
        path
    }

    fn answer(id: u16, command: Command, body: &[u8]) -> Vec<u8> {
        let head = Fields::default().dword(u32::from(id) | (command as u32) << 16);
        let head = head.dword((HEADER_BYTES + body.len()) as u32).dword(REPLY_FLAG).dword(0);
        [&head.0, body].concat()
    }

    fn greetings() -> Vec<Vec<u8>> {
        let info = Fields::default().dword(16).dword(vfio::VFIO_DEVICE_FLAGS_PCI).dword(9).dword(5);
        vec![answer(0, Command::Version, b"\0\0\x01\0{}\0"), answer(1, Command::DeviceGetInfo, &info.0)]
    }

    #[test]
    fn answers_that_make_no_sense_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let sized = |size: u32, flags: u32| {
            [&[0, 0, 1, 0][..], &size.to_le_bytes(), &flags.to_le_bytes(), &[0; 4]].concat()
        };
        for (first, expected) in [
            (vec![], ErrorKind::TimedOut),
            (vec![1, 2, 3], ErrorKind::InvalidData),
            (vec![0xFF; 64], ErrorKind::InvalidData),
            (sized(0, REPLY_FLAG), ErrorKind::InvalidData),
            (sized(u32::MAX, REPLY_FLAG), ErrorKind::InvalidData),
            (sized(16, REPLY_FLAG), ErrorKind::InvalidData),
            (sized(99, REPLY_FLAG), ErrorKind::InvalidData),
            (sized(16, 0), ErrorKind::InvalidData),
            (sized(16, REPLY_FLAG | ERROR_FLAG), ErrorKind::Other),
            (answer(7, Command::Version, b"\0\0\x01\0{}\0"), ErrorKind::InvalidData),
            (answer(0, Command::Version, b"\x02\0\x01\0{}\0"), ErrorKind::InvalidData),
        ] {
            let error = Client::connect(&device(&dir, vec![first.clone()]), TIMEOUT).unwrap_err();
            assert_eq!(error.kind(), expected, "{first:x?}: {error}");
        }
        // Areas of a region that lie outside of the answer, or lead back.
        for (offset, next) in [(0xFFFF_FFF0_u32, 0), (32, 32), (32, 8)] {
            let flags = vfio::VFIO_REGION_INFO_FLAG_CAPS | vfio::VFIO_REGION_INFO_FLAG_MMAP;
            let info = Fields::default().dword(32).dword(flags).dword(0).dword(offset).qword(0x4000).qword(0);
            let info = info.dword(1).dword(next).dword(1 << 30).dword(0).qword(0x1000).qword(0x1000);
            let answers = [greetings(), vec![answer(2, Command::DeviceGetRegionInfo, &info.0)]].concat();
            let mut client = Client::connect(&device(&dir, answers), TIMEOUT).unwrap();
            // Without a file nothing can be mapped.
            assert!(client.region_info(0).unwrap().mappable.is_empty());
        }
    }

    #[test]
    fn a_late_answer_is_not_taken_for_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let read = |id, byte: u8| {
            let head = Fields::default().qword(0x10).dword(0).dword(4);
            answer(id, Command::RegionRead, &[&head.0, &[byte; 4][..]].concat())
        };
        let late = [read(2, 1), read(3, 2)].concat();
        let answers = [greetings(), vec![vec![], late]].concat();
        let mut client = Client::connect(&device(&dir, answers), Duration::from_secs(60)).unwrap();
        let mut bytes = [0; 4];
        let missed = client.region_read_within(Duration::from_millis(1), 0, 0x10, &mut bytes).unwrap_err();
        assert_eq!(missed.kind(), ErrorKind::TimedOut);
        client.region_read(0, 0x10, &mut bytes).unwrap();
        assert_eq!(bytes, [2; 4]);
    }

    #[test]
    fn a_device_whose_owner_has_gone_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let mut refusal = answer(2, Command::RegionWrite, &[]);
        refusal[8] |= ERROR_FLAG as u8;
        let answers = [greetings(), vec![refusal, vec![]]].concat();
        let mut client = Client::connect(&device(&dir, answers), Duration::from_secs(60)).unwrap();
        client.region_write(0, 0x10, &[0; 4]).unwrap();
        let gone = client.region_read(0, 0x10, &mut [0; 4]).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::BrokenPipe);
    }
}
