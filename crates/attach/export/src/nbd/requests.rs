//! Requests of a client: cut from a stream of bytes and checked, without a socket.

use super::negotiation::Session;
use super::wire::{NbdError, REQUEST_MAGIC, Take, command, flag};
use crate::buffer_pool;

/// Bytes of a request without its data.
const HEADER: usize = 28;

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Read `len` bytes, 1 or more.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Write.
    Write {
        /// First byte.
        offset: u64,
        /// What is written: 1 byte or more.
        data: Vec<u8>,
        /// Durable before the reply.
        fua: bool,
    },
    /// Make `len` bytes, 1 or more, read as zeroes.
    Zero {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// Give the space back.
        deallocate: bool,
        /// Durable before the reply.
        fua: bool,
    },
    /// Make all writes durable that were answered.
    Flush,
    /// Tell which of `len` bytes, 1 or more, are allocated.
    Status {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// No more than one extent.
        one: bool,
    },
    /// Answer what is under way, and close the connection.
    Disconnect,
}

impl Action {
    /// Bytes that the request takes until it is answered, in its data or its reply.
    pub fn bytes(&self) -> u32 {
        match self {
            Action::Read { len, .. } => *len,
            // At most [`MAX_PAYLOAD_BYTES`](super::MAX_PAYLOAD_BYTES).
            Action::Write { data, .. } => u32::try_from(data.len()).unwrap_or(u32::MAX),
            _ => 0,
        }
    }
}

/// A request, or what is wrong with it: an error, and words for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incoming {
    /// What the client knows it by.
    pub cookie: u64,
    /// What to do, or to answer.
    pub action: Result<Action, (NbdError, &'static str)>,
}

/// The client does not speak the protocol: the connection is to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotNbd;

/// Cuts a stream of bytes into the requests of a session.
#[derive(Debug)]
pub struct Requests {
    session: Session,
    /// A write whose data has not come yet.
    write: Option<PendingWrite>,
    /// A write that is refused, and bytes of its data still to come.
    refused: Option<(Incoming, u32)>,
}

#[derive(Debug)]
struct PendingWrite {
    cookie: u64,
    offset: u64,
    fua: bool,
    data: Vec<u8>,
    filled: usize,
}

#[derive(Clone, Copy)]
struct Header {
    flags: u16,
    command: u16,
    cookie: u64,
    offset: u64,
    len: u32,
}

type Refusal = (NbdError, &'static str);

impl Requests {
    /// The requests of this session.
    pub fn new(session: Session) -> Self {
        Requests { session, write: None, refused: None }
    }

    /// What was agreed on.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Takes the next request from the begin of `input`. If not all of it is there, takes what there is.
    ///
    /// # Errors
    /// If it is none.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Incoming>, NotNbd> {
        if self.write.is_none() && self.refused.is_none() {
            let Some((head, rest)) = input.split_at_checked(HEADER) else { return Ok(None) };
            let header = header(head).ok_or(NotNbd)?;
            *input = rest;
            let action = self.check(header);
            let cookie = header.cookie;
            match action {
                Ok(Action::Write { offset, data, fua }) => {
                    self.write = Some(PendingWrite { cookie, offset, fua, data, filled: 0 });
                }
                Err(refusal) if header.command == command::WRITE => {
                    self.refused = Some((Incoming { cookie, action: Err(refusal) }, header.len));
                }
                action => return Ok(Some(Incoming { cookie, action })),
            }
        }
        if let Some((_, left)) = &mut self.refused {
            let now = (*left as usize).min(input.len());
            *input = &input[now..];
            // At most `left`.
            *left -= now as u32;
            let ended = *left == 0;
            return Ok(self.refused.take_if(|_| ended).map(|(incoming, _)| incoming));
        }
        if let Some(room) = self.room() {
            let now = room.len().min(input.len());
            room[..now].copy_from_slice(&input[..now]);
            *input = &input[now..];
            return Ok(self.filled(now));
        }
        Ok(None)
    }

    /// Where data of a write is to be read to, if some has not come yet.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        self.write.as_mut().map(|write| &mut write.data[write.filled..])
    }

    /// So many bytes were read to [`room`](Requests::room): the write, if that was all.
    pub fn filled(&mut self, bytes: usize) -> Option<Incoming> {
        let write = self.write.as_mut()?;
        write.filled += bytes;
        let complete = self.write.take_if(|write| write.filled >= write.data.len())?;
        let PendingWrite { cookie, offset, fua, data, .. } = complete;
        Some(Incoming { cookie, action: Ok(Action::Write { offset, data, fua }) })
    }

    /// What a request asks for; of a write, with room for its data.
    fn check(&self, header: Header) -> Result<Action, Refusal> {
        let Header { flags, command, offset, len, .. } = header;
        let structured = self.session.structured;
        // FUA may come with any command.
        let allowed = match command {
            command::READ if structured => flag::DF,
            command::WRITE_ZEROES if self.session.export.fast_zeroes => flag::NO_HOLE | flag::FAST_ZERO,
            command::WRITE_ZEROES => flag::NO_HOLE,
            command::BLOCK_STATUS => flag::REQ_ONE,
            _ => 0,
        };
        if flags & !(allowed | flag::FUA) != 0 {
            return Err((NbdError::Inval, "this flag is not for this command"));
        }
        let fua = flags & flag::FUA != 0;
        match command {
            command::DISC => Ok(Action::Disconnect),
            command::FLUSH => Ok(Action::Flush),
            command::READ => {
                self.check_range(header, NbdError::Inval)?;
                if len > self.session.export.maximum {
                    let error = if structured { NbdError::Overflow } else { NbdError::Inval };
                    return Err((error, "larger than the maximum payload"));
                }
                Ok(Action::Read { offset, len })
            }
            command::WRITE => {
                self.check_change(header, NbdError::NoSpc)?;
                if len > self.session.export.maximum {
                    return Err((NbdError::Inval, "larger than the maximum payload"));
                }
                Ok(Action::Write { offset, data: buffer_pool::take(len.into()), fua })
            }
            command::TRIM => {
                self.check_change(header, NbdError::Inval)?;
                Ok(Action::Zero { offset, len, deallocate: true, fua })
            }
            command::WRITE_ZEROES => {
                self.check_change(header, NbdError::NoSpc)?;
                let deallocate = flags & flag::NO_HOLE == 0;
                if flags & flag::FAST_ZERO != 0 && !(deallocate && self.is_preferred(header)) {
                    return Err((NbdError::NotSup, "zeroes would be written"));
                }
                Ok(Action::Zero { offset, len, deallocate, fua })
            }
            command::BLOCK_STATUS if self.session.allocation => {
                self.check_range(header, NbdError::Inval)?;
                Ok(Action::Status { offset, len, one: flags & flag::REQ_ONE != 0 })
            }
            command::BLOCK_STATUS => Err((NbdError::Inval, "no metadata context was chosen")),
            _ => Err((NbdError::Inval, "this server does not know this command")),
        }
    }

    fn check_change(&self, header: Header, beyond: NbdError) -> Result<(), Refusal> {
        if self.session.export.read_only {
            return Err((NbdError::Perm, "the export is read-only"));
        }
        self.check_range(header, beyond)
    }

    fn check_range(&self, header: Header, beyond: NbdError) -> Result<(), Refusal> {
        let Header { offset, len, .. } = header;
        let export = &self.session.export;
        if len == 0 {
            return Err((NbdError::Inval, "a length of 0"));
        }
        if !is_aligned(offset, len, export.minimum) {
            return Err((NbdError::Inval, "offset or length is no multiple of the minimum block size"));
        }
        if offset.checked_add(len.into()).is_none_or(|end| end > export.bytes) {
            return Err((beyond, "beyond the end of the export"));
        }
        Ok(())
    }

    fn is_preferred(&self, header: Header) -> bool {
        is_aligned(header.offset, header.len, self.session.export.preferred)
    }
}

fn is_aligned(offset: u64, len: u32, size: u32) -> bool {
    offset.is_multiple_of(size.into()) && len.is_multiple_of(size)
}

fn header(bytes: &[u8]) -> Option<Header> {
    let mut take = Take(bytes);
    if take.u32()? != REQUEST_MAGIC {
        return None;
    }
    Some(Header {
        flags: take.u16()?,
        command: take.u16()?,
        cookie: take.u64()?,
        offset: take.u64()?,
        len: take.u32()?,
    })
}
