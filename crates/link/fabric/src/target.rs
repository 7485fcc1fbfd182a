//! The controller's side of a connection.

use std::collections::VecDeque;

use nvme::command::FABRICS_OPCODE;
use nvme::fabrics::{FabricsCommand, FabricsType};
use nvme::{Command, Completion, Status, Transfer, U16, U32};

use crate::buffer_pool::{Buffer, Pool};
use crate::frame::{Framer, Step};
use crate::fused::{self, LastFirst};
use crate::outbox::Outbox;
use crate::pdu::{
    ADMIN_IN_CAPSULE, CapsuleCmd, CapsuleResp, CommonHeader, DataHeader, DigestTypes, Fault, Format, IcReq,
    IcResp, MIN_MAXH2CDATA, PduType, R2t, TermReq,
};
use crate::requests::Requests;
use crate::sgl::{DataLocation, check_sgl};
use crate::slot::{CommandState, FusedHalf, Slot};
use crate::{Error, Misuse, Part, Tag};

/// What a target grants to its hosts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Entries of a queue at most: 1 to 65,535.
    pub max_depth: u16,
    /// In-capsule data that I/O queues take, in bytes; 8,192 is the least, which admin queues always have.
    /// It must agree with IOCCSZ: 16 × IOCCSZ = 64 + this.
    pub in_capsule: u32,
    /// Data that one command may move, in bytes: MDTS. Longer ones fail with Invalid Field in Command.
    pub max_transfer: u32,
    /// Data of one H2CData PDU at most (MAXH2CDATA), in bytes: 4,096 or more.
    pub max_h2c_data: u32,
    /// Alignment of data that the host sends (CPDA), in dwords, zero-based: 0 to 31.
    pub cpda_z: u8,
    /// Whether a host that asks for header digests gets them.
    pub header_digest: bool,
    /// Whether a host that asks for data digests gets them.
    pub data_digest: bool,
    /// Data buffers of the connection in sum, in bytes. Commands beyond wait; one always goes.
    pub data_memory: usize,
    /// R2Ts that may be outstanding for one command, at most; the host may allow fewer (MAXR2T). 1 to 64.
    pub max_r2t: u16,
    /// Data that one R2T asks for where several are allowed, in bytes: 4,096 or more, a multiple of 4. A host that
    /// allows one R2T at a time is asked for everything at once.
    pub r2t_bytes: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_depth: 1024,
            in_capsule: 8192,
            max_transfer: 1 << 20,
            max_h2c_data: 1 << 20,
            cpda_z: 0,
            header_digest: true,
            data_digest: true,
            data_memory: 8 << 20,
            max_r2t: 8,
            r2t_bytes: 128 << 10,
        }
    }
}

impl Config {
    /// IOCCSZ of Identify Controller, in units of 16 bytes, that belongs to [`Config::in_capsule`].
    #[must_use]
    pub fn ioccsz(&self) -> u32 {
        (64 + self.in_capsule.max(ADMIN_IN_CAPSULE)) / 16
    }
}

/// A command that is ready to be executed: its data, if it brings any, is there.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// What to answer it with.
    pub tag: Tag,
    /// The submission queue entry.
    pub sqe: Command,
    /// Data of the SGL: which way, and how many bytes. Whether that is what the command needs
    /// ([`nvme::data_transfer`]) is the controller's to check: Data SGL Length Invalid if it is less.
    pub transfer: Transfer,
    /// It is the first command of a fused operation, and the command behind it in the queue is not the second. Otherwise the second is
    /// what comes next.
    pub alone: bool,
}

/// Where the data of the PDU under way goes.
#[derive(Clone, Copy, Debug, Default)]
enum DataSink {
    #[default]
    Discard,
    /// Into this slot's buffer, at this offset. `ttag` is the R2T's that asked for it; none within a capsule.
    Slot { index: u16, at: u32, ttag: Option<u16> },
}

/// The controller's side of one connection: one queue.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    framer: Framer,
    out: Outbox,
    /// How PDUs to the host look.
    format: Format,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Commands to pass to the caller.
    ready: VecDeque<u16>,
    /// Commands that wait for memory.
    waiting: VecDeque<u16>,
    pool: Pool,
    sink: DataSink,
    requests: Requests,
    /// R2Ts that the host and we allow for one command.
    max_r2t: u16,
    /// The queue's size by Connect; 0 before.
    size: u16,
    /// Commands at once. Places for them are made when so many come: idle queues cost little, however deep.
    limit: u16,
    /// Generation of places that are made.
    first_generation: u16,
    is_admin: bool,
    sq_flow_control: bool,
    sq_head: u16,
    ended: bool,
    /// PDUs whose data digest was wrong.
    digest_errors: u64,
    /// The command that came last is the first of a fused operation.
    fused: LastFirst,
}

impl Connection {
    /// A connection on which nothing has arrived yet. Values of the configuration out of range are brought
    /// into it.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        config.max_depth = config.max_depth.clamp(1, u16::MAX - 1);
        config.in_capsule = config.in_capsule.max(ADMIN_IN_CAPSULE);
        config.max_h2c_data = config.max_h2c_data.max(MIN_MAXH2CDATA);
        config.cpda_z = config.cpda_z.min(31);
        // There are 65,536 transfer tags.
        config.max_r2t = config.max_r2t.min(u16::MAX / config.max_depth).clamp(1, 64);
        config.r2t_bytes = (config.r2t_bytes & !3).max(MIN_MAXH2CDATA);
        let pool = Pool::new(config.data_memory);
        Self {
            config,
            framer: Framer::new(true),
            out: Outbox::default(),
            format: Format::default(),
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            pool,
            sink: DataSink::Discard,
            requests: Requests::default(),
            max_r2t: 1,
            size: 0,
            // One place is enough until Connect has said how many there are.
            limit: 1,
            first_generation: 0,
            is_admin: true,
            sq_flow_control: true,
            sq_head: 0,
            ended: false,
            digest_errors: 0,
            fused: LastFirst::default(),
        }
    }

    /// A place for a command, if the queue has another.
    fn place(&mut self) -> Option<u16> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = u16::try_from(self.slots.len()).ok().filter(|&index| index < self.limit)?;
        self.slots.push(Slot { generation: self.first_generation, ..Slot::default() });
        Some(index)
    }

    /// Gives memory back that only a busier queue needs. Worth it after a while in which nothing came.
    pub fn trim(&mut self) {
        self.pool.trim();
        if self.in_flight() == 0 {
            // Tags of commands that were answered stay unknown.
            let generation = self.slots.iter().map(|slot| slot.generation).max().unwrap_or(0);
            self.first_generation = generation.wrapping_add(1);
            self.slots = Vec::new();
            self.free = Vec::new();
            self.ready.shrink_to_fit();
            self.waiting.shrink_to_fit();
            self.out.trim();
        }
    }

    /// Takes bytes that arrived. All of them are used. Afterwards [`Connection::next`] may have commands, and
    /// [`Connection::transmit`] bytes to send.
    ///
    /// # Errors
    /// The connection has ended: send what there is to send, then close it.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        if self.ended {
            return Err(Error::Ended);
        }
        let result = self.process(&mut bytes);
        self.conclude(result)
    }

    fn conclude(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        if let Err(error) = &result {
            self.ended = true;
            if let Error::Violation(fault) = error {
                self.out.terminate(PduType::C2H_TERM_REQ, fault, self.framer.evidence());
            }
        }
        result
    }

    fn process(&mut self, bytes: &mut &[u8]) -> Result<(), Error> {
        loop {
            match self.framer.step(bytes).map_err(Error::Violation)? {
                Step::More => return Ok(()),
                Step::Header(PduType::H2C_TERM_REQ) => {
                    let pdu: TermReq = self.framer.header().map_err(Error::Violation)?;
                    return Err(Error::Terminated { fes: pdu.fes, fei: pdu.fei.get() });
                }
                Step::Header(kind) => self.header(kind).map_err(Error::Violation)?,
                Step::Data(data) => {
                    if let DataSink::Slot { index, at, .. } = &mut self.sink {
                        let slot = &mut self.slots[usize::from(*index)];
                        let start = usize::try_from(*at).unwrap_or(usize::MAX);
                        if let Some(place) = slot.buffer.get_mut(start..start + data.len()) {
                            place.copy_from_slice(data);
                        }
                        let len = u32::try_from(data.len()).unwrap_or(0);
                        *at += len;
                        slot.received += len;
                    }
                }
                Step::End { intact } => self.end(intact),
            }
        }
    }

    /// The place for the data that comes next, when the PDU under way has some for a command: bytes read
    /// from the socket straight into it (its start) save a copy. Report them with [`Connection::filled`].
    pub fn gap(&mut self) -> Option<&mut [u8]> {
        let DataSink::Slot { index, at, .. } = self.sink else { return None };
        if self.ended || !self.framer.in_data() {
            return None;
        }
        let left = usize::try_from(self.framer.data_len()).ok()?;
        let slot = &mut self.slots[usize::from(index)];
        let at = usize::try_from(at).ok()?;
        slot.buffer.get_mut(at..at + left)
    }

    /// So many bytes were put at the start of the [`Connection::gap`].
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub fn filled(&mut self, bytes: usize) -> Result<(), Error> {
        let DataSink::Slot { index, at, .. } = &mut self.sink else { return Err(Error::Ended) };
        let slot = &mut self.slots[usize::from(*index)];
        let start = usize::try_from(*at).unwrap_or(usize::MAX);
        let left = usize::try_from(self.framer.data_len()).unwrap_or(0);
        let Some(data) = slot.buffer.get(start..start + bytes.min(left)) else { return Ok(()) };
        self.framer.bypassed(data);
        let len = u32::try_from(data.len()).unwrap_or(0);
        *at += len;
        slot.received += len;
        // Without a digest the PDU may have ended with these bytes.
        self.receive(&[])
    }

    fn header(&mut self, kind: PduType) -> Result<(), Fault> {
        self.sink = DataSink::Discard;
        match kind {
            PduType::IC_REQ => self.initialize(),
            PduType::CAPSULE_CMD => self.capsule(),
            PduType::H2C_DATA => self.h2c_data(),
            _ => Err(Fault::field(0, "a PDU that hosts do not send")),
        }
    }

    fn initialize(&mut self) -> Result<(), Fault> {
        let req: IcReq = self.framer.header()?;
        if req.pfv.get() != 0 {
            return Err(Fault::unsupported(8, "PDU format version other than 0"));
        }
        if req.hpda_z > 31 {
            return Err(Fault::field(10, "data alignment beyond 128 bytes"));
        }
        // Zero-based: how many R2Ts the host serves at a time for one command.
        let allowed = u16::try_from(req.maxr2t_z.get()).unwrap_or(u16::MAX).saturating_add(1);
        self.max_r2t = allowed.min(self.config.max_r2t);
        let hdgst = req.dgst.hdgst() && self.config.header_digest;
        let ddgst = req.dgst.ddgst() && self.config.data_digest;
        self.format = Format { hdgst, ddgst, pda_z: req.hpda_z };
        self.framer.initialized(Format { hdgst, ddgst, pda_z: self.config.cpda_z });
        let resp = IcResp {
            ch: CommonHeader::new(PduType::IC_RESP, false),
            pfv: U16::ZERO,
            cpda_z: self.config.cpda_z,
            dgst: DigestTypes::new().with_hdgst(hdgst).with_ddgst(ddgst),
            maxh2cdata: U32::new(self.config.max_h2c_data & !3),
            rsvd16: [0; 112],
        };
        self.out.plain(&resp, Format::default());
        Ok(())
    }

    /// A command has come; the data behind it, if any, is still to be read.
    fn capsule(&mut self) -> Result<(), Fault> {
        let capsule: CapsuleCmd = self.framer.header()?;
        let sqe = capsule.ccsqe;
        let in_capsule = self.framer.data_len();
        let limit = if self.is_admin || sqe.opc == FABRICS_OPCODE {
            ADMIN_IN_CAPSULE
        } else {
            self.config.in_capsule
        };
        if in_capsule > limit {
            return Err(Fault::limit("more in-capsule data than the controller takes"));
        }
        let Some(index) = self.place() else {
            return Err(Fault::sequence("more commands than the queue has entries"));
        };
        if self.size != 0 {
            self.sq_head = (self.sq_head + 1) % self.size;
        }
        let transfer = Transfer::from_sgl(&sqe);
        let slot = &mut self.slots[usize::from(index)];
        *slot = Slot { generation: slot.generation, sqe, state: CommandState::Gathering, ..Slot::default() };
        // On admin queues, and of fabrics commands, the controller says what it thinks of it.
        let fuse = if self.is_admin || sqe.opc == FABRICS_OPCODE { 0 } else { sqe.flags.fuse() };
        if let Some(alone) = fused::join(&mut self.slots, &mut self.fused, index, fuse) {
            self.deliver_now(alone);
        }
        let slot = &mut self.slots[usize::from(index)];
        let placed = check_sgl(&sqe, transfer, in_capsule, self.config.max_transfer);
        match (placed, transfer) {
            (Err(status), _) => {
                // `len` stays 0: no buffer was given out. What came in the capsule is read over.
                self.refuse(index, status);
            }
            (Ok(_), Transfer::None) => self.deliver(index),
            (Ok(place), _) => {
                slot.to_host = matches!(transfer, Transfer::ToHost(_));
                slot.len = sqe.dptr.length.get();
                slot.room = slot.len;
                if let DataLocation::Capsule { offset } = place {
                    // It is here already, so it cannot wait: bounded by the in-capsule size and the depth.
                    (slot.room, slot.offset) = (in_capsule, offset);
                    let len = usize::try_from(in_capsule).unwrap_or(0);
                    slot.buffer = self.pool.take(len).unwrap_or_else(|| self.pool.take_beyond(len));
                    self.sink = DataSink::Slot { index, at: 0, ttag: None };
                } else {
                    slot.state = CommandState::Waiting;
                    self.waiting.push_back(index);
                    self.grant();
                }
            }
        }
        Ok(())
    }

    /// Gives memory to the commands that wait for it, in their order, as far as it goes.
    fn grant(&mut self) {
        while let Some(&index) = self.waiting.front() {
            let slot = &mut self.slots[usize::from(index)];
            let len = usize::try_from(slot.len).unwrap_or(0);
            // A second command's memory is not to wait for its first one's.
            let urgent = matches!(slot.fused, FusedHalf::Second { .. });
            let Some(buffer) = self.pool.take(len).or_else(|| urgent.then(|| self.pool.take_beyond(len)))
            else {
                return;
            };
            slot.buffer = buffer;
            self.waiting.pop_front();
            if slot.to_host {
                self.deliver(index);
                continue;
            }
            slot.state = CommandState::Gathering;
            self.ask(index);
        }
    }

    /// Allows so much new memory for data from now on. To make memory takes time, and the owner has other connections. Commands wait for memory
    /// that is not allowed.
    pub fn allow_memory(&mut self, bytes: usize) {
        self.pool.allow(bytes);
        if !self.ended {
            self.grant();
        }
    }

    /// Bytes of memory for data that were made since the last call.
    pub fn take_memory_made(&mut self) -> usize {
        self.pool.take_made()
    }

    /// Whether commands wait until more is [allowed](Self::allow_memory).
    #[must_use]
    pub fn waits_for_allowance(&self) -> bool {
        !self.waiting.is_empty() && self.pool.is_used_up()
    }

    /// Asks for as much of a command's data as the host allows at a time.
    fn ask(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        while slot.requests < self.max_r2t && slot.asked < slot.len {
            let left = slot.len - slot.asked;
            let part = if self.max_r2t == 1 { left } else { left.min(self.config.r2t_bytes) };
            let end = slot.asked + part;
            // There are enough of them for every command.
            let Some(ttag) = self.requests.open(index, slot.asked, end) else { return };
            let r2t = R2t {
                ch: CommonHeader::new(PduType::R2T, self.format.hdgst),
                cccid: slot.sqe.cid,
                ttag: U16::new(ttag),
                r2to: U32::new(slot.asked),
                r2tl: U32::new(part),
                rsvd20: [0; 4],
            };
            self.out.plain(&r2t, self.format);
            slot.asked = end;
            slot.requests += 1;
        }
    }

    fn h2c_data(&mut self) -> Result<(), Fault> {
        let pdu: DataHeader = self.framer.header()?;
        let ttag = pdu.ttag.get();
        let Some(request) = self.requests.get(ttag) else {
            return Err(Fault::field(10, "a transfer tag that was not given"));
        };
        let (index, at, end) = (request.slot, request.at, request.end);
        let slot = &self.slots[usize::from(index)];
        if slot.sqe.cid != pdu.cccid {
            return Err(Fault::field(8, "a command identifier that the transfer tag does not belong to"));
        }
        let len = self.framer.data_len();
        if pdu.datal.get() != len {
            return Err(Fault::field(16, "data length that the PDU length contradicts"));
        }
        if len > self.config.max_h2c_data & !3 {
            return Err(Fault::limit("more data in one PDU than MAXH2CDATA"));
        }
        if pdu.datao.get() != at || len > end - at {
            return Err(Fault::range("data beyond or out of the order of what was asked for"));
        }
        if pdu.ch.flags.last_pdu() != (len == end - at) {
            return Err(Fault::field(1, "LAST_PDU flag in the wrong place"));
        }
        self.sink = DataSink::Slot { index, at, ttag: Some(ttag) };
        Ok(())
    }

    /// A PDU is complete.
    fn end(&mut self, intact: bool) {
        let DataSink::Slot { index, at, ttag } = std::mem::take(&mut self.sink) else { return };
        let slot = &mut self.slots[usize::from(index)];
        slot.damaged |= !intact;
        self.digest_errors += u64::from(!intact);
        if let Some(ttag) = ttag
            && let Some(request) = self.requests.get(ttag)
        {
            request.at = at;
            if at == request.end {
                self.requests.close(ttag);
                slot.requests -= 1;
            }
        }
        let slot = &mut self.slots[usize::from(index)];
        if slot.received < slot.len {
            return self.ask(index);
        }
        if slot.room != slot.len {
            slot.buffer.cut(slot.offset, slot.len);
        }
        if slot.damaged {
            self.refuse(index, Status::TRANSIENT_TRANSPORT_ERROR);
        } else {
            self.deliver(index);
        }
    }

    fn deliver(&mut self, index: u16) {
        match fused::complete(&mut self.slots, index) {
            fused::Next::Deliver => self.deliver_now(index),
            fused::Next::Wait => {}
            fused::Next::DeliverPair { first, second } => {
                self.deliver_now(first);
                self.deliver_now(second);
            }
            fused::Next::Refuse => self.refuse_now(index, Status::ABORTED_FAILED_FUSED.with_dnr()),
        }
    }

    /// A command fails before the controller sees it, and the other one of a fused pair with it.
    fn refuse(&mut self, index: u16, status: Status) {
        let other = fused::fail(&mut self.slots, &mut self.fused, index);
        self.refuse_now(index, status);
        if let Some(other) = other {
            self.refuse_now(other, Status::ABORTED_FAILED_FUSED.with_dnr());
        }
    }

    fn refuse_now(&mut self, index: u16, status: Status) {
        self.slots[usize::from(index)].state = CommandState::Ready;
        self.answer(index, Completion::new(0, status), 0);
    }

    fn deliver_now(&mut self, index: u16) {
        self.slots[usize::from(index)].state = CommandState::Ready;
        self.ready.push_back(index);
    }

    /// The next command to execute, in the order in which they became complete.
    #[expect(clippy::should_implement_trait, reason = "not the end of anything when it returns None")]
    pub fn next(&mut self) -> Option<Incoming> {
        let index = self.ready.pop_front()?;
        let slot = &self.slots[usize::from(index)];
        let transfer = match (slot.len, slot.to_host) {
            (0, _) => Transfer::None,
            (len, true) => Transfer::ToHost(u64::from(len)),
            (len, false) => Transfer::ToController(u64::from(len)),
        };
        let alone = slot.fused == FusedHalf::Alone;
        Some(Incoming {
            tag: Tag { slot: index, generation: slot.generation },
            sqe: slot.sqe,
            transfer,
            alone,
        })
    }

    /// The commands that [`Connection::next`] will give, in its order.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &Command> {
        self.ready.iter().map(|&index| &self.slots[usize::from(index)].sqe)
    }

    fn slot(&mut self, tag: Tag) -> Result<&mut Slot, Misuse> {
        self.slots
            .get_mut(tag.index())
            .filter(|slot| slot.generation == tag.generation && slot.state == CommandState::Ready)
            .ok_or(Misuse::StaleTag)
    }

    /// The data of a command that has not been answered: what the host sent, or room for what it gets (whose
    /// bytes are undefined until written). Empty without data.
    ///
    /// # Errors
    /// The tag is stale.
    pub fn data(&mut self, tag: Tag) -> Result<&mut [u8], Misuse> {
        self.slot(tag).map(|slot| &mut *slot.buffer)
    }

    /// Takes the buffer out, to fill or read it elsewhere; [`Connection::put_buffer`] brings it back before
    /// the command is answered.
    ///
    /// # Errors
    /// The tag is stale.
    pub fn take_buffer(&mut self, tag: Tag) -> Result<Buffer, Misuse> {
        self.slot(tag).map(|slot| std::mem::take(&mut slot.buffer))
    }

    /// Brings back what [`Connection::take_buffer`] took.
    ///
    /// # Errors
    /// The tag is stale: the buffer is dropped.
    pub fn put_buffer(&mut self, tag: Tag, buffer: Buffer) -> Result<(), Misuse> {
        self.slot(tag).map(|slot| slot.buffer = buffer)
    }

    /// Answers a command: the first `filled` bytes of its [`Connection::data`] go to the host (for a command
    /// that gets data, and succeeded), then the completion. CID and SQHD are filled in here.
    ///
    /// # Errors
    /// The tag is stale.
    pub fn respond(&mut self, tag: Tag, completion: Completion, filled: usize) -> Result<(), Misuse> {
        self.slot(tag)?;
        if !self.ended {
            self.answer(tag.slot, completion, filled);
        }
        Ok(())
    }

    /// Answers a command that gets data, and succeeded, with data in parts: without copying what lies
    /// elsewhere. `contents` gives the memory of a token; [`Connection::sent_with`] and [`Connection::abandon`]
    /// give each token back.
    ///
    /// # Errors
    /// The tag is stale, the command gets no data or less of it, the completion is no success, or the connection has
    /// ended: no token is kept.
    pub fn respond_with<'a>(
        &mut self,
        tag: Tag,
        completion: Completion,
        parts: &[Part],
        contents: impl Fn(u32) -> &'a [u8],
    ) -> Result<(), Misuse> {
        let slot = self.slot(tag)?;
        let len = parts.iter().map(|part| match *part {
            Part::Own { len, .. } | Part::Away { len, .. } => u64::from(len),
        });
        let len = u32::try_from(len.sum::<u64>()).unwrap_or(u32::MAX);
        if len == 0 || len > slot.len || !slot.to_host || !completion.status().is_success() {
            return Err(Misuse::TooLarge);
        }
        if self.ended {
            return Err(Misuse::NotReady);
        }
        let short = self.is_short(completion);
        let (ch, pdu) = self.data_header(tag.slot, len, short);
        let slot = &mut self.slots[usize::from(tag.slot)];
        slot.state = CommandState::Answered;
        self.out.with_parts(&pdu, ch, self.format, (tag.slot, &slot.buffer), parts, contents);
        self.conclude_answer(tag.slot, completion, short);
        Ok(())
    }

    /// Sends the completion of a command again, which was answered since bytes were sent last. Only a controller with a fault does that.
    pub fn repeat(&mut self, tag: Tag, completion: Completion) {
        let slot = self.slots.get(tag.index());
        let answered =
            |slot: &&Slot| slot.generation == tag.generation && slot.state == CommandState::Answered;
        if !self.ended && slot.filter(answered).is_some() {
            self.send_response(tag.slot, completion);
        }
    }

    fn answer(&mut self, index: u16, completion: Completion, filled: usize) {
        let slot = &mut self.slots[usize::from(index)];
        slot.state = CommandState::Answered;
        let sqe = slot.sqe;
        let success = completion.status().is_success();
        if success && sqe.opc == FABRICS_OPCODE && sqe.fctype() == FabricsType::CONNECT {
            self.connected(&sqe);
        }
        let slot = &self.slots[usize::from(index)];
        let filled = filled.min(slot.buffer.len());
        let sends = success && slot.to_host && filled > 0;
        let short = sends && self.is_short(completion);
        if sends {
            let (ch, pdu) = self.data_header(index, u32::try_from(filled).unwrap_or(u32::MAX), short);
            let buffer = &self.slots[usize::from(index)].buffer;
            self.out.with_data(&pdu, ch, self.format, index, 0, &buffer[..filled]);
        }
        self.conclude_answer(index, completion, short);
    }

    /// Whether the response behind data may be left out: only without flow control, because nothing else would tell
    /// SQHD.
    fn is_short(&self, completion: Completion) -> bool {
        !self.sq_flow_control && completion.result64() == 0 && completion.status() == Status::SUCCESS
    }

    fn data_header(&self, index: u16, len: u32, short: bool) -> (CommonHeader, DataHeader) {
        let ch = CommonHeader::new(PduType::C2H_DATA, self.format.hdgst);
        let mut ch = self.format.with_data(ch, len);
        ch.flags.set_last_pdu(true);
        ch.flags.set_success(short);
        let pdu = DataHeader {
            ch,
            cccid: self.slots[usize::from(index)].sqe.cid,
            ttag: U16::ZERO,
            datao: U32::ZERO,
            datal: U32::new(len),
            rsvd20: [0; 4],
        };
        (ch, pdu)
    }

    fn conclude_answer(&mut self, index: u16, completion: Completion, short: bool) {
        if !short {
            self.send_response(index, completion);
        }
        self.out.mark(index);
    }

    fn send_response(&mut self, index: u16, completion: Completion) {
        let mut rccqe = completion.with_cid(self.slots[usize::from(index)].sqe.cid.get());
        rccqe.sqhd.set(if self.sq_flow_control { self.sq_head } else { 0xFFFF });
        let ch = CommonHeader::new(PduType::CAPSULE_RESP, self.format.hdgst);
        self.out.plain(&CapsuleResp { ch, rccqe }, self.format);
    }

    /// Connect has succeeded: the queue has a size.
    fn connected(&mut self, sqe: &Command) {
        let Ok(FabricsCommand::Connect(connect)) = FabricsCommand::parse(sqe) else { return };
        let size = connect.sqsize_z.saturating_add(1).min(self.config.max_depth);
        self.size = size;
        self.is_admin = connect.qid == 0;
        self.sq_flow_control = !connect.cattr.dis_sqflow();
        self.sq_head = 1 % size;
        self.limit = self.limit.max(size);
    }

    /// Bytes to send, in order, as slices (for a vectored write). For a connection without
    /// [`Connection::respond_with`].
    pub fn transmit(&self) -> impl Iterator<Item = &[u8]> {
        self.transmit_with(|_| &[])
    }

    /// The same, where `contents` gives the memory of each token.
    pub fn transmit_with<'a>(
        &'a self,
        contents: impl Fn(u32) -> &'a [u8] + 'a,
    ) -> impl Iterator<Item = &'a [u8]> {
        self.out.slices(|index| &self.slots[usize::from(index)].buffer, contents)
    }

    /// Whether there is something to send.
    #[must_use]
    pub fn wants_to_send(&self) -> bool {
        !self.out.is_empty()
    }

    /// So many bytes of [`Connection::transmit`] have been sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent_with(bytes, |_| ());
    }

    /// So many bytes of [`Connection::transmit_with`] have been sent; `ended` gets the tokens that are not
    /// needed any more.
    pub fn sent_with(&mut self, bytes: usize, ended: impl FnMut(u32)) {
        let (slots, pool, free) = (&mut self.slots, &mut self.pool, &mut self.free);
        let passed = |index: u16| {
            let slot = &mut slots[usize::from(index)];
            pool.give(std::mem::take(&mut slot.buffer), usize::try_from(slot.room).unwrap_or(0));
            slot.state = CommandState::Free;
            slot.generation = slot.generation.wrapping_add(1);
            free.push(index);
        };
        self.out.sent(bytes, passed, ended);
        if !self.ended {
            self.grant();
        }
    }

    /// Nothing more will be sent: `ended` gets all tokens.
    pub fn abandon(&mut self, ended: impl FnMut(u32)) {
        self.ended = true;
        self.out.abandon(ended);
    }

    /// Commands that were received and not yet answered in full.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// What the host owes, for a caller that limits how long it may: a number for the PDU that has come in part, and
    /// one for the R2T that has been outstanding for longest. The same number later means that it still does.
    #[must_use]
    pub fn owed(&self) -> (Option<u64>, Option<u64>) {
        (self.framer.under_way(), self.requests.oldest())
    }

    /// Whether [`Connection::owed`] has anything.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        self.framer.under_way().is_some() || !self.requests.is_empty()
    }

    /// Bytes that were ever sent, for a caller that limits how long the host may take none.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.out.bytes_sent()
    }

    /// PDUs whose data digest was wrong. Their commands fail.
    #[must_use]
    pub fn data_digest_errors(&self) -> u64 {
        self.digest_errors
    }

    /// Whether the connection has ended: nothing more is received.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }
}
