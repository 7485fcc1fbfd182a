//! The host's side of a connection.

use std::collections::VecDeque;

use nvme::{Command, Completion, SglDescriptor, Status, U16, U32};

use crate::command_identifier::{command_identifier, place_of};
use crate::frame::{Framer, Step};
use crate::outbox::Outbox;
use crate::pdu::{
    ADMIN_IN_CAPSULE, CapsuleCmd, CapsuleResp, CommonHeader, DataHeader, DigestTypes, Fault, Format, IcReq,
    IcResp, MIN_MAXH2CDATA, PduType, R2t, TermReq,
};
use crate::{Error, Misuse, Tag};

/// What a host asks for.
#[derive(Clone, Debug)]
pub struct Config {
    /// Commands outstanding at once: 1 to 65,535.
    pub depth: u16,
    /// Data that goes in the capsule at most, in bytes. Until the controller has told (IOCCSZ), only what
    /// every admin queue takes may stand here: 8,192.
    pub in_capsule: u32,
    /// Alignment of data that the controller sends (HPDA), in dwords, zero-based: 0 to 31.
    pub hpda_z: u8,
    /// Ask for header digests.
    pub header_digest: bool,
    /// Ask for data digests.
    pub data_digest: bool,
    /// R2Ts that are served at a time for one command (MAXR2T), zero-based.
    pub max_r2t_z: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            depth: 32,
            in_capsule: ADMIN_IN_CAPSULE,
            hpda_z: 0,
            header_digest: false,
            data_digest: false,
            max_r2t_z: 0,
        }
    }
}

/// Data of a command to submit. The buffer comes back with the completion.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Data {
    /// No data.
    #[default]
    None,
    /// These bytes, to the controller.
    Out(Vec<u8>),
    /// As many bytes as the vector is long, from the controller.
    In(Vec<u8>),
    /// So many bytes, from the controller, into memory of the caller: [`Connection::receive_to`] and [`Connection::gap_elsewhere`] say where
    /// in it.
    Elsewhere(u32),
}

impl Data {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::None | Self::Elsewhere(_) => &[],
            Self::Out(bytes) | Self::In(bytes) => bytes,
        }
    }

    /// Bytes that move.
    fn len(&self) -> usize {
        match self {
            Self::Elsewhere(len) => usize::try_from(*len).unwrap_or(usize::MAX),
            _ => self.bytes().len(),
        }
    }
}

/// The place for data that comes next, in memory of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The command.
    pub tag: Tag,
    /// The first byte of its data.
    pub at: usize,
    /// How many there are.
    pub len: usize,
}

/// A completed command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completed {
    /// What [`Connection::submit`] returned.
    pub tag: Tag,
    /// The completion.
    pub completion: Completion,
    /// The command's buffer.
    pub data: Data,
    /// Bytes of it that arrived, from its start.
    pub received: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum HostSlotState {
    #[default]
    Free,
    Outstanding,
    /// Completed by the controller while its data was still queued for sending.
    Completing(Completion),
}

#[derive(Debug, Default)]
struct Slot {
    state: HostSlotState,
    /// Identifier of the command.
    cid: u16,
    generation: u16,
    data: Data,
    /// Bytes that arrived, or that the controller has asked for.
    moved: u32,
    damaged: bool,
    /// Marks in the outbox that have not been passed.
    unsent: u32,
}

/// The host's side of one connection: one queue.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    framer: Framer,
    out: Outbox,
    /// How PDUs to the controller look; `None` until the controller has answered.
    format: Option<Format>,
    max_h2c_data: u32,
    slots: Vec<Slot>,
    free: Vec<u16>,
    done: VecDeque<(u16, Completion)>,
    /// The slot that the data of the PDU under way goes to, and whether success follows from it.
    sink: Option<(u16, bool)>,
    ended: bool,
}

impl Connection {
    /// A connection whose first bytes, the request to initialize, are ready to be sent. Values of the
    /// configuration out of range are brought into it.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        config.depth = config.depth.max(1);
        config.hpda_z = config.hpda_z.min(31);
        let mut out = Outbox::default();
        let req = IcReq {
            ch: CommonHeader::new(PduType::IC_REQ, false),
            pfv: U16::ZERO,
            hpda_z: config.hpda_z,
            dgst: DigestTypes::new().with_hdgst(config.header_digest).with_ddgst(config.data_digest),
            maxr2t_z: U32::new(config.max_r2t_z.into()),
            rsvd16: [0; 112],
        };
        out.plain(&req, Format::default());
        let mut slots = Vec::new();
        slots.resize_with(usize::from(config.depth), Slot::default);
        Self {
            free: (0..config.depth).rev().collect(),
            done: VecDeque::with_capacity(slots.len()),
            slots,
            config,
            framer: Framer::new(false),
            out,
            format: None,
            max_h2c_data: MIN_MAXH2CDATA,
            sink: None,
            ended: false,
        }
    }

    /// Whether the controller has answered and commands may be submitted.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.format.is_some() && !self.ended
    }

    /// Commands that may be outstanding at once.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Commands submitted, and not yet returned by [`Connection::next`].
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Submits a command; the CID and the data pointer are filled in here.
    ///
    /// # Errors
    /// Not ready, no place, or too much data; the command and its buffer are dropped.
    pub fn submit(&mut self, sqe: Command, data: Data) -> Result<Tag, Misuse> {
        let format = self.format.filter(|_| !self.ended).ok_or(Misuse::NotReady)?;
        let len = u32::try_from(data.len()).ok().filter(|len| *len <= 1 << 30);
        let len = len.ok_or(Misuse::TooLarge)?;
        let index = self.free.pop().ok_or(Misuse::Full)?;
        let in_capsule = matches!(data, Data::Out(_)) && len <= self.config.in_capsule && len > 0;
        let dptr = match &data {
            Data::None => SglDescriptor::transport(0),
            _ if in_capsule => SglDescriptor::in_capsule(len),
            _ => SglDescriptor::transport(len),
        };
        let depth = self.slots.len();
        let slot = &mut self.slots[usize::from(index)];
        let generation = slot.generation;
        let cid = command_identifier(index, generation, depth);
        let mut sqe = sqe.with_cid(cid).with_dptr(dptr);
        sqe.flags.set_psdt(1);
        *slot = Slot { state: HostSlotState::Outstanding, cid, generation, data, ..Slot::default() };
        let ch = CommonHeader::new(PduType::CAPSULE_CMD, format.hdgst);
        if in_capsule {
            let ch = format.with_data(ch, len);
            slot.moved = len;
            slot.unsent = 1;
            let pdu = CapsuleCmd { ch, ccsqe: sqe };
            self.out.with_data(&pdu, ch, format, index, 0, slot.data.bytes());
            self.out.mark(index);
        } else {
            self.out.plain(&CapsuleCmd { ch, ccsqe: sqe }, format);
        }
        Ok(Tag { slot: index, generation: slot.generation })
    }

    /// Takes bytes that arrived. All of them are used. Afterwards [`Connection::next`] may have completions,
    /// and [`Connection::transmit`] bytes to send.
    ///
    /// # Errors
    /// The connection has ended: send what there is to send, then close it.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.receive_to(bytes, &mut |_, _| {})
    }

    /// The same, for commands with [`Data::Elsewhere`], too: their data is handed to `take`, each piece with its place.
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub fn receive_to(&mut self, mut bytes: &[u8], take: &mut dyn FnMut(Gap, &[u8])) -> Result<(), Error> {
        if self.ended {
            return Err(Error::Ended);
        }
        let result = self.process(&mut bytes, take);
        if let Err(error) = &result {
            self.ended = true;
            if let Error::Violation(fault) = error {
                self.out.terminate(PduType::H2C_TERM_REQ, fault, self.framer.evidence());
            }
        }
        result
    }

    fn process(&mut self, bytes: &mut &[u8], take: &mut dyn FnMut(Gap, &[u8])) -> Result<(), Error> {
        loop {
            match self.framer.step(bytes).map_err(Error::Violation)? {
                Step::More => return Ok(()),
                Step::Header(PduType::C2H_TERM_REQ) => {
                    let pdu: TermReq = self.framer.header().map_err(Error::Violation)?;
                    return Err(Error::Terminated { fes: pdu.fes, fei: pdu.fei.get() });
                }
                Step::Header(kind) => self.header(kind).map_err(Error::Violation)?,
                Step::Data(data) => {
                    if let Some((index, _)) = self.sink {
                        let slot = &mut self.slots[usize::from(index)];
                        let at = usize::try_from(slot.moved).unwrap_or(usize::MAX);
                        match &mut slot.data {
                            Data::In(buffer) => {
                                if let Some(place) = buffer.get_mut(at..at + data.len()) {
                                    place.copy_from_slice(data);
                                }
                            }
                            Data::Elsewhere(_) => {
                                let tag = Tag { slot: index, generation: slot.generation };
                                take(Gap { tag, at, len: data.len() }, data);
                            }
                            Data::None | Data::Out(_) => {}
                        }
                        slot.moved += u32::try_from(data.len()).unwrap_or(0);
                    }
                }
                Step::End { intact } => {
                    if let Some((index, success)) = self.sink.take() {
                        self.slots[usize::from(index)].damaged |= !intact;
                        if success {
                            self.complete(index, Completion::success(index, 0));
                        }
                    }
                }
            }
        }
    }

    /// The place for the data that comes next, as [`crate::target::Connection::gap`].
    pub fn gap(&mut self) -> Option<&mut [u8]> {
        let (index, _) = self.sink?;
        if self.ended || !self.framer.in_data() {
            return None;
        }
        let left = usize::try_from(self.framer.data_len()).ok()?;
        let slot = &mut self.slots[usize::from(index)];
        let at = usize::try_from(slot.moved).ok()?;
        match &mut slot.data {
            Data::In(buffer) => buffer.get_mut(at..at + left),
            _ => None,
        }
    }

    /// The place for the data that comes next, if it is in memory of the caller. The data can be read into it, around the connection.
    #[must_use]
    pub fn gap_elsewhere(&self) -> Option<Gap> {
        let (index, _) = self.sink.filter(|_| !self.ended && self.framer.in_data())?;
        let slot = &self.slots[usize::from(index)];
        let len = usize::try_from(self.framer.data_len()).ok()?;
        let at = usize::try_from(slot.moved).ok()?;
        let is_there = matches!(slot.data, Data::Elsewhere(_));
        is_there.then_some(Gap { tag: Tag { slot: index, generation: slot.generation }, at, len })
    }

    /// These bytes were put at the start of [`Connection::gap_elsewhere`].
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub fn filled_elsewhere(&mut self, data: &[u8]) -> Result<(), Error> {
        let Some((index, _)) = self.sink else { return Err(Error::Ended) };
        let left = usize::try_from(self.framer.data_len()).unwrap_or(0);
        let data = &data[..data.len().min(left)];
        self.framer.bypassed(data);
        self.slots[usize::from(index)].moved += u32::try_from(data.len()).unwrap_or(0);
        self.receive(&[])
    }

    /// So many bytes were put at the start of the [`Connection::gap`].
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub fn filled(&mut self, bytes: usize) -> Result<(), Error> {
        let Some((index, _)) = self.sink else { return Err(Error::Ended) };
        let slot = &mut self.slots[usize::from(index)];
        let at = usize::try_from(slot.moved).unwrap_or(usize::MAX);
        let left = usize::try_from(self.framer.data_len()).unwrap_or(0);
        let Some(data) = slot.data.bytes().get(at..at + bytes.min(left)) else { return Ok(()) };
        self.framer.bypassed(data);
        slot.moved += u32::try_from(data.len()).unwrap_or(0);
        self.receive(&[])
    }

    fn header(&mut self, kind: PduType) -> Result<(), Fault> {
        self.sink = None;
        match kind {
            PduType::IC_RESP => self.initialized(),
            PduType::CAPSULE_RESP => {
                let pdu: CapsuleResp = self.framer.header()?;
                let (index, _) = outstanding(&mut self.slots, pdu.rccqe.cid, 20)?;
                self.complete(index, pdu.rccqe);
                Ok(())
            }
            PduType::C2H_DATA => self.c2h_data(),
            PduType::R2T => self.r2t(),
            _ => Err(Fault::field(0, "a PDU that controllers do not send")),
        }
    }

    fn initialized(&mut self) -> Result<(), Fault> {
        let resp: IcResp = self.framer.header()?;
        if resp.pfv.get() != 0 {
            return Err(Fault::unsupported(8, "PDU format version other than 0"));
        }
        if resp.cpda_z > 31 {
            return Err(Fault::field(10, "data alignment beyond 128 bytes"));
        }
        let (hdgst, ddgst) = (resp.dgst.hdgst(), resp.dgst.ddgst());
        if hdgst && !self.config.header_digest || ddgst && !self.config.data_digest {
            return Err(Fault::field(11, "digests that were not asked for"));
        }
        if resp.maxh2cdata.get() < MIN_MAXH2CDATA {
            return Err(Fault::field(12, "MAXH2CDATA below 4,096"));
        }
        self.max_h2c_data = resp.maxh2cdata.get();
        self.format = Some(Format { hdgst, ddgst, pda_z: resp.cpda_z });
        self.framer.initialized(Format { hdgst, ddgst, pda_z: self.config.hpda_z });
        Ok(())
    }

    fn c2h_data(&mut self) -> Result<(), Fault> {
        let pdu: DataHeader = self.framer.header()?;
        let len = self.framer.data_len();
        let (index, slot) = outstanding(&mut self.slots, pdu.cccid, 8)?;
        let (Data::In(_) | Data::Elsewhere(_)) = &slot.data else {
            return Err(Fault::sequence("data for a command that expects none"));
        };
        if pdu.datal.get() != len {
            return Err(Fault::field(16, "data length that the PDU length contradicts"));
        }
        let room = u32::try_from(slot.data.len()).unwrap_or(u32::MAX) - slot.moved;
        if pdu.datao.get() != slot.moved || len > room {
            return Err(Fault::range("data beyond or out of the order of what was asked for"));
        }
        let flags = pdu.ch.flags;
        if flags.success() && !flags.last_pdu() {
            return Err(Fault::field(1, "SUCCESS flag without LAST_PDU"));
        }
        self.sink = Some((index, flags.success()));
        Ok(())
    }

    fn r2t(&mut self) -> Result<(), Fault> {
        let pdu: R2t = self.framer.header()?;
        let format = self.format.unwrap_or_default();
        let max = self.max_h2c_data;
        let (index, slot) = outstanding(&mut self.slots, pdu.cccid, 8)?;
        let Data::Out(buffer) = &slot.data else {
            return Err(Fault::sequence("ready to transfer for a command without data"));
        };
        // Those before, but for as many as were allowed at a time, must have been served.
        if slot.unsent > u32::from(self.config.max_r2t_z) {
            return Err(Fault::limit("more R2Ts than were allowed"));
        }
        let (from, len) = (pdu.r2to.get(), pdu.r2tl.get());
        let total = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        if from != slot.moved || len == 0 || len > total - from {
            return Err(Fault::range("asked for data beyond or out of the order of the command's"));
        }
        slot.moved += len;
        slot.unsent += 1;
        let mut at = from;
        while at < from + len {
            let part = (from + len - at).min(max);
            let ch = CommonHeader::new(PduType::H2C_DATA, format.hdgst);
            let mut ch = format.with_data(ch, part);
            ch.flags.set_last_pdu(at + part == from + len);
            let header = DataHeader {
                ch,
                cccid: pdu.cccid,
                ttag: pdu.ttag,
                datao: U32::new(at),
                datal: U32::new(part),
                rsvd20: [0; 4],
            };
            let start = usize::try_from(at).unwrap_or(usize::MAX);
            let end = start + usize::try_from(part).unwrap_or(0);
            self.out.with_data(&header, ch, format, index, at, &buffer[start..end]);
            at += part;
        }
        self.out.mark(index);
        Ok(())
    }

    /// The controller has completed the command. It is returned when its buffer is free.
    fn complete(&mut self, index: u16, mut completion: Completion) {
        let slot = &mut self.slots[usize::from(index)];
        if slot.damaged && completion.status().is_success() {
            completion = completion.with_status(Status::TRANSIENT_TRANSPORT_ERROR);
        }
        slot.state = HostSlotState::Completing(completion);
        if slot.unsent == 0 {
            self.done.push_back((index, completion));
        }
    }

    /// The next completed command.
    #[expect(clippy::should_implement_trait, reason = "not the end of anything when it returns None")]
    pub fn next(&mut self) -> Option<Completed> {
        let (index, completion) = self.done.pop_front()?;
        let slot = &mut self.slots[usize::from(index)];
        let tag = Tag { slot: index, generation: slot.generation };
        let data = std::mem::take(&mut slot.data);
        let received = if matches!(data, Data::In(_) | Data::Elsewhere(_)) { slot.moved } else { 0 };
        slot.state = HostSlotState::Free;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(Completed { tag, completion, data, received: usize::try_from(received).unwrap_or(0) })
    }

    /// Bytes to send, in order, as slices (for a vectored write).
    pub fn transmit(&self) -> impl Iterator<Item = &[u8]> {
        self.out.slices(|index| self.slots[usize::from(index)].data.bytes(), |_| &[])
    }

    /// Whether there is something to send.
    #[must_use]
    pub fn wants_to_send(&self) -> bool {
        !self.out.is_empty()
    }

    /// So many bytes of [`Connection::transmit`] have been sent.
    pub fn sent(&mut self, bytes: usize) {
        let (slots, done) = (&mut self.slots, &mut self.done);
        let passed = |index: u16| {
            let slot = &mut slots[usize::from(index)];
            slot.unsent = slot.unsent.saturating_sub(1);
            if let (0, HostSlotState::Completing(completion)) = (slot.unsent, slot.state) {
                done.push_back((index, completion));
            }
        };
        self.out.sent(bytes, passed, |_| ());
    }

    /// Whether the connection has ended: nothing more is received.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }
}

/// The place of an outstanding command, and its index.
fn outstanding(slots: &mut [Slot], cid: U16, field: u32) -> Result<(u16, &mut Slot), Fault> {
    let cid = cid.get();
    let index = place_of(cid, slots.len());
    let slot = slots.get_mut(usize::from(index));
    slot.filter(|slot| slot.state == HostSlotState::Outstanding && slot.cid == cid)
        .map(|slot| (index, slot))
        .ok_or(Fault::field(field, "a command identifier that is not outstanding"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_is_that_of_the_command_with_its_identifier() {
        let slot = || Slot { state: HostSlotState::Outstanding, ..Slot::default() };
        let mut slots: Vec<Slot> = (0..8).map(|_| slot()).collect();
        slots[5].cid = 0x1005;
        assert_eq!(outstanding(&mut slots, U16::new(0x1005), 8).unwrap().0, 5);
        assert!(outstanding(&mut slots, U16::new(5), 8).is_err(), "the command before");
        assert!(outstanding(&mut slots, U16::new(0x1009), 8).is_err());
    }
}
