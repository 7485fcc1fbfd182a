//! Cuts a byte stream into PDUs: headers are gathered whole, data passes through in pieces.

use nvme::U32;
use zerocopy::FromBytes;

use crate::digest::{RunningDigest, crc32c};
use crate::pdu::{COMMON_HEADER_BYTES, CommonHeader, DIGEST, Fault, Fes, Format, MAX_HEAD, PduType};

/// What the next bytes of the stream were.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// The input is used up.
    More,
    /// A header is complete: [`Framer::header`] has it, [`Framer::data_len`] the bytes of data that follow.
    Header(PduType),
    /// Data of the PDU.
    Data(&'a [u8]),
    /// The PDU is complete. `intact` is false when the data digest was wrong.
    End { intact: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Common,
    Head,
    Data,
    DataDigest,
    /// The header has been given out; without data the PDU ends here.
    Given,
}

#[derive(Debug)]
pub(crate) struct Framer {
    /// Whether the peer is a host: which PDU types it may send.
    peer_is_host: bool,
    /// Digests and alignment that the peer's PDUs must have; set when the connection is initialized.
    format: Option<Format>,
    head: [u8; MAX_HEAD],
    have: usize,
    need: usize,
    phase: Phase,
    data_left: u32,
    running: RunningDigest,
    tail: [u8; DIGEST],
    tail_have: usize,
    /// PDUs that were complete.
    ended: u64,
}

impl Framer {
    pub fn new(peer_is_host: bool) -> Self {
        Self {
            peer_is_host,
            format: None,
            head: [0; MAX_HEAD],
            have: 0,
            need: COMMON_HEADER_BYTES,
            phase: Phase::Common,
            data_left: 0,
            running: RunningDigest::new(),
            tail: [0; DIGEST],
            tail_have: 0,
            ended: 0,
        }
    }

    /// The connection is initialized: from here on PDUs have this format, and no IC PDU is expected.
    pub fn initialized(&mut self, format: Format) {
        self.format = Some(format);
    }

    /// The header that was given out last, as a PDU structure. The framer has checked the size before.
    pub fn header<T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + Copy>(
        &self,
    ) -> Result<T, Fault> {
        T::read_from_prefix(&self.head[..self.have])
            .map(|(header, _)| header)
            .map_err(|_| Fault::field(2, "header too short"))
    }

    /// Bytes of data that the PDU under way still lacks.
    pub fn data_len(&self) -> u32 {
        self.data_left
    }

    /// What has been received of the PDU under way, for a termination request: at most 128 bytes.
    pub fn evidence(&self) -> &[u8] {
        &self.head[..self.have.min(128)]
    }

    /// Data went around [`Framer::step`], into a place that the caller lent out.
    pub fn bypassed(&mut self, bytes: &[u8]) {
        if self.format.is_some_and(|format| format.ddgst) {
            self.running.update(bytes);
        }
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.data_left = self.data_left.saturating_sub(len);
    }

    /// Whether the next bytes of the stream are data.
    pub fn in_data(&self) -> bool {
        self.phase == Phase::Data && self.data_left != 0
    }

    /// Takes the next step over `input`, shortening it by what was used.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, Fault> {
        loop {
            match self.phase {
                Phase::Common => {
                    if !self.gather(input) {
                        return Ok(Step::More);
                    }
                    self.need = self.check_common()?;
                    self.phase = Phase::Head;
                }
                Phase::Head => {
                    if !self.gather(input) {
                        return Ok(Step::More);
                    }
                    self.check_header_digest()?;
                    self.phase = Phase::Given;
                    return Ok(Step::Header(PduType(self.head[0])));
                }
                Phase::Given => {
                    if self.data_left == 0 {
                        return Ok(self.end(true));
                    }
                    self.running = RunningDigest::new();
                    self.phase = Phase::Data;
                }
                Phase::Data => {
                    let ddgst = self.format.is_some_and(|format| format.ddgst);
                    if self.data_left == 0 {
                        if !ddgst {
                            return Ok(self.end(true));
                        }
                        self.tail_have = 0;
                        self.phase = Phase::DataDigest;
                        continue;
                    }
                    if input.is_empty() {
                        return Ok(Step::More);
                    }
                    let left = usize::try_from(self.data_left).unwrap_or(usize::MAX);
                    let (data, rest) = input.split_at(left.min(input.len()));
                    *input = rest;
                    self.bypassed(data);
                    return Ok(Step::Data(data));
                }
                Phase::DataDigest => {
                    let (part, rest) = input.split_at((DIGEST - self.tail_have).min(input.len()));
                    self.tail[self.tail_have..self.tail_have + part.len()].copy_from_slice(part);
                    self.tail_have += part.len();
                    *input = rest;
                    if self.tail_have < DIGEST {
                        return Ok(Step::More);
                    }
                    let intact = self.tail == self.running.finish();
                    return Ok(self.end(intact));
                }
            }
        }
    }

    /// The number of the PDU that has come in part, if there is one.
    pub fn under_way(&self) -> Option<u64> {
        (self.phase != Phase::Common || self.have != 0).then_some(self.ended)
    }

    fn end(&mut self, intact: bool) -> Step<'static> {
        self.ended += 1;
        self.phase = Phase::Common;
        self.have = 0;
        self.need = COMMON_HEADER_BYTES;
        Step::End { intact }
    }

    /// Fills the head up to `need`; true when it is.
    fn gather(&mut self, input: &mut &[u8]) -> bool {
        let (part, rest) = input.split_at((self.need - self.have).min(input.len()));
        self.head[self.have..self.have + part.len()].copy_from_slice(part);
        self.have += part.len();
        *input = rest;
        self.have == self.need
    }

    /// Checks the common header; the result is how many bytes to gather before data starts.
    fn check_common(&mut self) -> Result<usize, Fault> {
        let ch: CommonHeader = self.header()?;
        let kind = ch.pdu_type;
        let hlen = kind.hlen().ok_or(Fault::field(0, "unknown PDU type"))?;
        let is_ic = matches!(kind, PduType::IC_REQ | PduType::IC_RESP);
        let is_term = matches!(kind, PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ);
        if kind.from_host() != self.peer_is_host {
            return Err(Fault::sequence("a PDU of the wrong direction"));
        }
        if !is_term && is_ic != self.format.is_none() {
            return Err(Fault::sequence("initialization out of order"));
        }
        if ch.hlen != hlen {
            return Err(Fault::field(2, "wrong header length"));
        }
        let plen = ch.plen.get();
        self.data_left = 0;
        if is_ic {
            return if plen == 128 { Ok(128) } else { Err(Fault::field(4, "wrong PDU length")) };
        }
        if is_term {
            // The header in error follows as if it were header; there are no digests.
            return if (24..=152).contains(&plen) {
                Ok(usize::from(ch.plen.to_bytes()[0]))
            } else {
                Err(Fault::field(4, "wrong PDU length"))
            };
        }
        let format = self.format.unwrap_or_default();
        if ch.flags.hdgstf() != format.hdgst {
            return Err(Fault::field(1, "header digest flag not as negotiated"));
        }
        let head = u32::from(hlen) + if format.hdgst { 4 } else { 0 };
        if !kind.has_data() || (kind == PduType::CAPSULE_CMD && plen == head) {
            let whole = usize::from(hlen) + if format.hdgst { DIGEST } else { 0 };
            return if plen == head { Ok(whole) } else { Err(Fault::field(4, "wrong PDU length")) };
        }
        let pdo = u32::from(ch.pdo);
        if pdo < head || pdo % ((u32::from(format.pda_z) + 1) * 4) != 0 {
            return Err(Fault::field(3, "wrong PDU data offset"));
        }
        if ch.flags.ddgstf() != format.ddgst {
            return Err(Fault::field(1, "data digest flag not as negotiated"));
        }
        let around = pdo + if format.ddgst { 4 } else { 0 };
        match plen.checked_sub(around) {
            Some(data @ 1..) => self.data_left = data,
            _ => return Err(Fault::field(4, "PDU too short for its data")),
        }
        Ok(usize::from(ch.pdo))
    }

    fn check_header_digest(&self) -> Result<(), Fault> {
        let kind = PduType(self.head[0]);
        let plain = matches!(
            kind,
            PduType::IC_REQ | PduType::IC_RESP | PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ
        );
        if plain || !self.format.is_some_and(|format| format.hdgst) {
            return Ok(());
        }
        let hlen = usize::from(kind.hlen().unwrap_or(0));
        let received = &self.head[hlen..hlen + DIGEST];
        if received == crc32c(&self.head[..hlen]) {
            return Ok(());
        }
        let fei = U32::read_from_bytes(received).map_or(0, U32::get);
        Err(Fault { fes: Fes::HEADER_DIGEST, fei, what: "wrong header digest" })
    }
}
