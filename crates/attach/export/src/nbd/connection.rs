//! A client: its thread reads what it sends, and sleeps in between.

use super::exports::Namespaces;
use super::negotiation::{Negotiation, Progress, Session};
use super::outbox::{Asked, Outbox, Socket, Wants, bell};
use super::requests::{Action, Incoming, Requests};
use super::wire::greeting;
use crate::file_table::File;
use crate::request_queue::Answer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// How long a client may take to choose an export.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long requests under way may take to be answered when the server ends, and the client to take the replies.
const LAST_REPLIES: Duration = Duration::from_secs(2);
/// Bytes that are read at once.
const INPUT: usize = 256 << 10;

/// How a server tells the threads of its connections to end.
pub struct Ending {
    /// Set before their bells are rung.
    pub now: AtomicBool,
}

/// How far a client is.
#[derive(Default)]
pub struct Stage(AtomicU8);

impl Stage {
    /// It has not chosen an export yet.
    const NEGOTIATES: u8 = 0;
    const HAS_CHOSEN: u8 = 1;
    const MAKES_ROOM: u8 = 2;

    fn leaves_negotiation_for(&self, stage: u8) -> bool {
        self.0.compare_exchange(Self::NEGOTIATES, stage, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// A client that has not chosen an export makes room for another. `false`: it has chosen, or it does so already.
    pub fn make_room(&self) -> bool {
        self.leaves_negotiation_for(Self::MAKES_ROOM)
    }

    /// Whether it makes room.
    pub fn makes_room(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::MAKES_ROOM
    }
}

/// Bytes that a client has sent and that nobody has understood yet.
struct Input {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
}

/// What came of reading.
#[derive(PartialEq, Eq)]
enum Read {
    Some,
    /// Something, and nothing more for now.
    Last,
    /// Nothing is there now.
    Nothing,
    /// Nothing will come any more.
    Over,
}

impl Input {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    /// Reads more behind what is there.
    fn fill(&mut self, socket: &Socket) -> Read {
        self.bytes.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        if self.end == self.bytes.len() {
            return Read::Some;
        }
        let (read, bytes) = read(socket, &mut self.bytes[self.end..]);
        self.end += bytes;
        read
    }
}

fn read(socket: &Socket, room: &mut [u8]) -> (Read, usize) {
    loop {
        match socket.read(room) {
            Ok(0) => return (Read::Over, 0),
            Ok(bytes) if bytes < room.len() => return (Read::Last, bytes),
            Ok(bytes) => return (Read::Some, bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (Read::Nothing, 0),
            Err(_) => return (Read::Over, 0),
        }
    }
}

/// Sleeps until the socket is ready or the bell rings, or for so long. `false`: the client has gone.
fn sleep(socket: &Socket, flags: PollFlags, bell: &OwnedFd, most: Option<Duration>) -> io::Result<bool> {
    let mut descriptors = [PollFd::new(socket, flags), PollFd::new(bell, PollFlags::IN)];
    let most = most.map(|most| Timespec::try_from(most).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 }));
    match poll(&mut descriptors, most.as_ref()) {
        Ok(_) => Ok(!descriptors[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// What a client is served from.
pub struct Connection {
    namespaces: Arc<Namespaces>,
    socket: Socket,
    bell: Arc<OwnedFd>,
    ending: Arc<Ending>,
    stage: Arc<Stage>,
}

impl Connection {
    /// A connection, and its bell. All replies that are owed have the bell, too.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn new(
        namespaces: Arc<Namespaces>,
        socket: Socket,
        ending: Arc<Ending>,
        stage: Arc<Stage>,
    ) -> io::Result<(Self, Arc<OwnedFd>)> {
        let bell = Arc::new(bell()?);
        let rope = bell.clone();
        Ok((Connection { namespaces, socket, bell, ending, stage }, rope))
    }

    /// Serves the client to its end.
    pub fn serve(self) {
        let input = Input { bytes: vec![0; INPUT], begin: 0, end: 0 };
        let Some((session, input)) = self.negotiate(input) else { return };
        // It may have gone since it was chosen.
        let Some(file) = self.namespaces.file(&session.export) else { return };
        let outbox = Outbox::new(self.socket, self.bell, session.structured);
        let transmission = Transmission {
            namespaces: self.namespaces,
            outbox,
            file,
            ending: self.ending,
            requests: Requests::new(session),
            input,
            disconnecting: false,
            stalled: false,
            dry: false,
        };
        transmission.run();
    }

    /// `None`: the connection ends here.
    fn negotiate(&self, mut input: Input) -> Option<(Session, Input)> {
        let deadline = Instant::now() + NEGOTIATION_TIMEOUT;
        let mut negotiation = Negotiation::default();
        let mut out = greeting().to_vec();
        loop {
            let (taken, progress) = negotiation.advance(input.unread(), &*self.namespaces, &mut out);
            input.begin += taken;
            match progress {
                // Replies to what came at once may be large.
                Progress::More if taken > 0 => {
                    if out.len() >= INPUT {
                        self.send(&mut out, deadline)?;
                    }
                }
                Progress::More => {
                    self.send(&mut out, deadline)?;
                    loop {
                        match input.fill(&self.socket) {
                            Read::Some | Read::Last => break,
                            Read::Nothing => self.wait(PollFlags::IN, deadline)?,
                            Read::Over => return None,
                        }
                    }
                }
                Progress::Enter(session) => {
                    // Before it is told: a client that knows its export has its place.
                    self.stage.leaves_negotiation_for(Stage::HAS_CHOSEN).then_some(())?;
                    self.send(&mut out, deadline)?;
                    return Some((*session, input));
                }
                Progress::End => {
                    let _ = self.send(&mut out, deadline);
                    return None;
                }
            }
        }
    }

    /// Sends all of it. `None`: the client does not take it.
    fn send(&self, out: &mut Vec<u8>, deadline: Instant) -> Option<()> {
        let mut rest = &out[..];
        while !rest.is_empty() {
            match self.socket.write(&[io::IoSlice::new(rest)]) {
                Ok(0) => return None,
                Ok(bytes) => rest = &rest[bytes..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::OUT, deadline)?,
                Err(_) => return None,
            }
        }
        out.clear();
        Some(())
    }

    fn wait(&self, flags: PollFlags, deadline: Instant) -> Option<()> {
        let left = deadline.checked_duration_since(Instant::now())?;
        let there = sleep(&self.socket, flags, &self.bell, Some(left)).ok()?;
        (there && !self.ending.now.load(Ordering::Acquire) && !self.stage.makes_room()).then_some(())
    }
}

/// A client that sends requests.
struct Transmission {
    namespaces: Arc<Namespaces>,
    outbox: Arc<Outbox>,
    file: Arc<File>,
    ending: Arc<Ending>,
    requests: Requests,
    input: Input,
    /// The client takes its leave: what is under way is answered.
    disconnecting: bool,
    /// Requests were not handed out for lack of room.
    stalled: bool,
    /// The socket had nothing more when it was read last: it is worth a sleep.
    dry: bool,
}

impl Transmission {
    fn run(mut self) {
        let mut give_up = None;
        while self.hand_out() {
            let server_ends = self.ending.now.load(Ordering::Acquire);
            let ending = self.disconnecting || server_ends;
            if ending && self.outbox.is_quiet() {
                break;
            }
            let deadline = server_ends.then(|| *give_up.get_or_insert_with(|| Instant::now() + LAST_REPLIES));
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                break;
            }
            if !ending && !self.stalled && !std::mem::take(&mut self.dry) {
                match self.read() {
                    Read::Some => continue,
                    Read::Last => {
                        self.dry = true;
                        continue;
                    }
                    Read::Over => break,
                    Read::Nothing => {}
                }
            }
            if let Some(wants) = self.outbox.before_sleep(self.stalled && !ending, ending)
                && !self.sleep(wants, deadline).unwrap_or(false)
            {
                break;
            }
        }
        self.outbox.close();
    }

    /// Hands out the requests that have come, as long as there is room for them. `false`: the connection is over.
    fn hand_out(&mut self) -> bool {
        self.outbox.begin_batch();
        let mut well = true;
        self.stalled = false;
        while well && !self.disconnecting {
            self.stalled = !self.outbox.has_room();
            if self.stalled {
                break;
            }
            let mut unread = self.input.unread();
            let before = unread.len();
            let next = self.requests.next(&mut unread);
            self.input.begin += before - unread.len();
            match next {
                Ok(Some(incoming)) => self.carry_out(incoming),
                Ok(None) => break,
                Err(_) => well = false,
            }
        }
        self.outbox.end_batch() && well
    }

    /// Reads what the client sends: data of a large write where it belongs, else as much as there is room for.
    fn read(&mut self) -> Read {
        let socket = self.outbox.socket();
        if let Some(room) = self.requests.room() {
            let (result, bytes) = read(socket, room);
            if let Some(incoming) = self.requests.filled(bytes) {
                self.carry_out(incoming);
            }
            return result;
        }
        self.input.fill(socket)
    }

    /// `false`: the client has gone.
    fn sleep(&self, wants: Wants, deadline: Option<Instant>) -> io::Result<bool> {
        let mut flags = PollFlags::empty();
        // A client is read from unless there is no room, or it has said all.
        flags.set(PollFlags::IN, !wants.room && !wants.quiet);
        flags.set(PollFlags::OUT, wants.send);
        let most = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let slept = sleep(self.outbox.socket(), flags, self.outbox.bell(), most);
        self.outbox.after_sleep();
        slept
    }

    fn carry_out(&mut self, incoming: Incoming) {
        let Incoming { cookie, action } = incoming;
        let action = match action {
            Ok(action) => action,
            Err((error, words)) => return self.outbox.begin(cookie, Asked::Done, 0).refuse(error, words),
        };
        let asked = match action {
            Action::Read { offset, len } => Asked::Data { offset, len },
            Action::Disconnect => {
                self.disconnecting = true;
                return;
            }
            _ => Asked::Done,
        };
        let reply = self.outbox.begin(cookie, asked, action.bytes());
        let (requests, file) = (self.namespaces.requests(), self.file.clone());
        match action {
            Action::Read { offset, len } => requests.read(file, offset, len, Answer::to(reply)),
            Action::Write { offset, data, fua } => requests.write(file, offset, data, fua, Answer::to(reply)),
            Action::Zero { offset, len, deallocate, fua: false } => {
                requests.zero(file, offset, len.into(), deallocate, Answer::to(reply));
            }
            Action::Zero { offset, len, deallocate, fua: true } => {
                requests.zero_durably(file, offset, len.into(), deallocate, Answer::to(reply));
            }
            Action::Flush => requests.flush(file, Answer::to(reply)),
            Action::Status { offset, len, one } => self.namespaces.status(file, offset, len, one, reply),
            Action::Disconnect => {}
        }
    }
}
