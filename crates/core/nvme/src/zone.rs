//! Zones: their states and descriptors, and the commands that manage them.
//!
//! Sources are sections of the *Zoned Namespace Command Set Specification, Revision 1.2* ("ZNS"), cited by title. The command
//! set has all commands of the NVM Command Set, and three more: [`ZoneManagementSend`], [`ZoneManagementReceive`] and
//! [`IoCommand::ZoneAppend`](crate::IoCommand::ZoneAppend).

use crate::command::{Command, IoOpcode};
use crate::{Nsid, Status, U32, U64};

open_enum! {
    /// Zone Type (ZNS, "Zone Descriptor").
    pub struct ZoneType: u8 {
        /// Sequential Write Required: the only type.
        SEQUENTIAL_WRITE_REQUIRED = 0x2 => "Sequential Write Required",
    }
}

open_enum! {
    /// Zone State (ZNS, "Zone State Machine").
    pub struct ZoneState: u8 {
        /// ZSE: Empty. The write pointer is at the start; the zone takes no resources.
        EMPTY = 0x1 => "Empty",
        /// ZSIO: Implicitly Opened, by a write. The controller may close it to open another.
        IMPLICITLY_OPENED = 0x2 => "Implicitly Opened",
        /// ZSEO: Explicitly Opened, by a command of the host.
        EXPLICITLY_OPENED = 0x3 => "Explicitly Opened",
        /// ZSC: Closed. It takes an active resource, and no open one.
        CLOSED = 0x4 => "Closed",
        /// ZSRO: Read Only. It takes no writes, and cannot be reset.
        READ_ONLY = 0xD => "Read Only",
        /// ZSF: Full. It takes no writes until it is reset.
        FULL = 0xE => "Full",
        /// ZSO: Offline. It can neither be read nor written, for ever.
        OFFLINE = 0xF => "Offline",
    }
}

impl ZoneState {
    /// Whether a zone of this state takes an open resource.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::IMPLICITLY_OPENED | Self::EXPLICITLY_OPENED)
    }

    /// Whether a zone of this state takes an active resource.
    #[must_use]
    pub const fn is_active(self) -> bool {
        self.is_open() || matches!(self, Self::CLOSED)
    }

    /// Whether a zone of this state has a write pointer: empty and active zones do.
    #[must_use]
    pub const fn has_write_pointer(self) -> bool {
        self.is_active() || matches!(self, Self::EMPTY)
    }
}

wire! {
    /// Header of a report of zones (ZNS, "Report Zones Data Structure"). Zone Descriptors follow.
    pub struct ZoneReportHeader[64] {
        /// Number of Zones. Of a partial report: descriptors in the data. Else: all zones from the report's first LBA on that
        /// the report asks for, however few fit into the data.
        pub nzones: U64,
        /// Reserved.
        pub rsvd8: [u8; 56],
    }

    /// Zone Descriptor (ZNS, "Zone Descriptor Data Structure"). In an extended report, the zone's Zone Descriptor Extension
    /// follows it.
    pub struct ZoneDescriptor[64] {
        /// Zone Type.
        pub zt: ZoneTypeField,
        /// Zone State.
        pub zs: ZoneStateField,
        /// Zone Attributes.
        pub za: ZoneAttributes,
        /// Zone Attributes Information.
        pub zai: ZoneAttributesInformation,
        /// Reserved.
        pub rsvd4: [u8; 4],
        /// Zone Capacity: logical blocks that can be written.
        pub zcap: U64,
        /// Zone Start Logical Block Address.
        pub zslba: U64,
        /// Write Pointer; all ones in states without one.
        pub wp: U64,
        /// Reserved.
        pub rsvd32: [u8; 32],
    }
}
layout!(ZoneDescriptor, 64, za @ 2, zai @ 3, zcap @ 8, zslba @ 16, wp @ 24);

bits8! {
    /// Byte 0 of a Zone Descriptor.
    pub struct ZoneTypeField {
        /// Zone Type.
        #[bits(4)]
        pub zt: ZoneType,
        #[bits(4)]
        _r4: u8,
    }

    /// Byte 1 of a Zone Descriptor.
    pub struct ZoneStateField {
        #[bits(4)]
        _r0: u8,
        /// Zone State.
        #[bits(4)]
        pub zs: ZoneState,
    }

    /// Zone Attributes (ZNS, "Zone Descriptor Data Structure").
    pub struct ZoneAttributes {
        /// Zone Finished by Controller: the zone is full because the controller made it so (a Zone Active Excursion).
        pub zfc: bool,
        /// Finish Zone Recommended.
        pub fzr: bool,
        /// Reset Zone Recommended.
        pub rzr: bool,
        /// Zone Random Write Area Valid: the zone has one.
        pub zrwav: bool,
        #[bits(3)]
        _r4: u8,
        /// Zone Descriptor Extension Valid.
        pub zdev: bool,
    }

    /// Zone Attributes Information: which limit a recommendation is about. 0 stands for FRL or RRL, 1 to 3 for FRL1 to FRL3 or
    /// RRL1 to RRL3.
    pub struct ZoneAttributesInformation {
        /// Limit of the Finish Zone Recommended attribute.
        #[bits(2)]
        pub fzr_limit: u8,
        /// Limit of the Reset Zone Recommended attribute.
        #[bits(2)]
        pub rzr_limit: u8,
        #[bits(4)]
        _r4: u8,
    }
}

impl ZoneDescriptor {
    /// A zone of type Sequential Write Required without attributes. `wp` is ignored in states without a write pointer.
    #[must_use]
    pub fn new(zslba: u64, zcap: u64, state: ZoneState, wp: u64) -> Self {
        let wp = if state.has_write_pointer() { wp } else { u64::MAX };
        Self {
            zt: ZoneTypeField::new().with_zt(ZoneType::SEQUENTIAL_WRITE_REQUIRED),
            zs: ZoneStateField::new().with_zs(ZoneState(state.0 & 0xF)),
            zcap: U64::new(zcap),
            zslba: U64::new(zslba),
            wp: U64::new(wp),
            ..Self::default()
        }
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> ZoneState {
        self.zs.zs()
    }

    /// The write pointer, in states that have one.
    #[must_use]
    pub fn write_pointer(&self) -> Option<u64> {
        self.state().has_write_pointer().then(|| self.wp.get())
    }

    /// The LBA after the last that can be written; `None` if it leaves 64 bits.
    #[must_use]
    pub fn writable_end(&self) -> Option<u64> {
        self.zslba.get().checked_add(self.zcap.get())
    }
}

/// A report of zones as it arrived: the header, and descriptors with their extensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneReport<'a> {
    nzones: u64,
    entries: &'a [u8],
    extension: usize,
}

impl<'a> ZoneReport<'a> {
    /// Reads a report whose descriptors have extensions of so many bytes each: none unless it is an extended report. `None` if the
    /// bytes are fewer than the header's.
    #[must_use]
    pub fn parse(bytes: &'a [u8], extension: usize) -> Option<Self> {
        use zerocopy::FromBytes;
        let (header, entries) = ZoneReportHeader::ref_from_prefix(bytes).ok()?;
        Some(Self { nzones: header.nzones.get(), entries, extension })
    }

    /// Number of Zones, as the header has it.
    #[must_use]
    pub const fn nzones(&self) -> u64 {
        self.nzones
    }

    /// Descriptors that are whole in the data, each with its extension; no more than [`nzones`](Self::nzones).
    pub fn zones(&self) -> impl Iterator<Item = (&'a ZoneDescriptor, &'a [u8])> + use<'a> {
        use zerocopy::FromBytes;
        let each = size_of::<ZoneDescriptor>().saturating_add(self.extension);
        let count = usize::try_from(self.nzones).unwrap_or(usize::MAX);
        self.entries
            .chunks_exact(each)
            .take(count)
            .filter_map(|entry| ZoneDescriptor::ref_from_prefix(entry).ok())
    }
}

open_enum! {
    /// Zone Send Action (ZNS, "Zone Management Send").
    pub struct ZoneSendAction: u8 {
        /// Close Zone: gives up the open resource.
        CLOSE = 0x01 => "Close Zone",
        /// Finish Zone: makes it full.
        FINISH = 0x02 => "Finish Zone",
        /// Open Zone: explicitly.
        OPEN = 0x03 => "Open Zone",
        /// Reset Zone: makes it empty. What was written is deallocated.
        RESET = 0x04 => "Reset Zone",
        /// Offline Zone: takes a read-only zone offline.
        OFFLINE = 0x05 => "Offline Zone",
        /// Set Zone Descriptor Extension: the command's data is the extension. It closes an empty zone.
        SET_DESCRIPTOR_EXTENSION = 0x10 => "Set Zone Descriptor Extension",
        /// Flush Explicit ZRWA Range: commits the Zone Random Write Area up to an LBA.
        FLUSH_ZRWA = 0x11 => "Flush Explicit ZRWA Range",
    }
}

impl ZoneSendAction {
    /// Whether Select All may go with it.
    #[must_use]
    pub const fn takes_all(self) -> bool {
        !matches!(self, Self::SET_DESCRIPTOR_EXTENSION | Self::FLUSH_ZRWA)
    }
}

/// Zone Management Send (ZNS, "Zone Management Send").
///
/// Only [`ZoneSendAction::SET_DESCRIPTOR_EXTENSION`] has data: as many bytes as the namespace's format says
/// ([`LbaFormatExtension::extension_bytes`](crate::identify::LbaFormatExtension::extension_bytes)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneManagementSend {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Starting LBA: the zone's first block. For [`ZoneSendAction::FLUSH_ZRWA`] the last block to commit. Ignored with Select All.
    pub slba: u64,
    /// Zone Send Action: never a reserved one when parsed.
    pub action: ZoneSendAction,
    /// Select All: all zones in states from which the action leads somewhere.
    pub select_all: bool,
    /// Zone Send Action Specific Option. For [`ZoneSendAction::OPEN`]: allocate a Zone Random Write Area. Reserved elsewhere.
    pub zrwa: bool,
}

open_enum! {
    /// Zone Receive Action (ZNS, "Zone Management Receive").
    pub struct ZoneReceiveAction: u8 {
        /// Report Zones.
        REPORT = 0x00 => "Report Zones",
        /// Extended Report Zones: each descriptor has its extension.
        EXTENDED_REPORT = 0x01 => "Extended Report Zones",
    }
}

open_enum! {
    /// Zones that a report lists: Zone Receive Action Specific Field, reporting options (ZNS, "Zone Management Receive").
    pub struct ZoneReportFilter: u8 {
        /// All zones.
        ALL = 0x00 => "all",
        /// Zones in the state Empty.
        EMPTY = 0x01 => "empty",
        /// Zones in the state Implicitly Opened.
        IMPLICITLY_OPENED = 0x02 => "implicitly opened",
        /// Zones in the state Explicitly Opened.
        EXPLICITLY_OPENED = 0x03 => "explicitly opened",
        /// Zones in the state Closed.
        CLOSED = 0x04 => "closed",
        /// Zones in the state Full.
        FULL = 0x05 => "full",
        /// Zones in the state Read Only.
        READ_ONLY = 0x06 => "read only",
        /// Zones in the state Offline.
        OFFLINE = 0x07 => "offline",
    }
}

impl ZoneReportFilter {
    /// Whether zones of this state are listed. A reserved value lists none.
    #[must_use]
    pub const fn lists(self, state: ZoneState) -> bool {
        match self {
            Self::ALL => true,
            Self::EMPTY => matches!(state, ZoneState::EMPTY),
            Self::IMPLICITLY_OPENED => matches!(state, ZoneState::IMPLICITLY_OPENED),
            Self::EXPLICITLY_OPENED => matches!(state, ZoneState::EXPLICITLY_OPENED),
            Self::CLOSED => matches!(state, ZoneState::CLOSED),
            Self::FULL => matches!(state, ZoneState::FULL),
            Self::READ_ONLY => matches!(state, ZoneState::READ_ONLY),
            Self::OFFLINE => matches!(state, ZoneState::OFFLINE),
            _ => false,
        }
    }
}

/// Zone Management Receive (ZNS, "Zone Management Receive").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneManagementReceive {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Starting LBA: the report begins with the zone that has it.
    pub slba: u64,
    /// Number of dwords to return, counted from one: 1 to 2^32.
    pub dwords: u64,
    /// Zone Receive Action: never a reserved one when parsed.
    pub action: ZoneReceiveAction,
    /// Zones to list: never a reserved value when parsed.
    pub filter: ZoneReportFilter,
    /// Partial Report: Number of Zones counts the descriptors in the data, not all zones that the filter lists.
    pub partial: bool,
}

impl ZoneManagementReceive {
    /// A report of all zones from the one that has this block on: as many as `bytes` have room for.
    #[must_use]
    pub const fn report(nsid: Nsid, slba: u64, bytes: usize) -> Self {
        let (action, filter) = (ZoneReceiveAction::REPORT, ZoneReportFilter::ALL);
        Self { nsid, slba, dwords: bytes as u64 / 4, action, filter, partial: true }
    }

    /// Bytes to return: 4 to 2^34.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.dwords.saturating_mul(4)
    }
}

bits32! {
    struct SendCdw13 { #[bits(8)] zsa: ZoneSendAction, select_all: bool, zsaso: bool, #[bits(22)] _r: u32 }
    struct ReceiveCdw13 {
        #[bits(8)] zra: ZoneReceiveAction, #[bits(8)] zrasf: ZoneReportFilter, partial: bool, #[bits(15)] _r: u16,
    }
}

fn halves(lba: u64) -> (U32, U32) {
    let b = lba.to_le_bytes();
    (U32::from_bytes([b[0], b[1], b[2], b[3]]), U32::from_bytes([b[4], b[5], b[6], b[7]]))
}

const INVALID: Status = Status::INVALID_FIELD.with_dnr();

impl ZoneManagementSend {
    /// An action on the zone that begins at this block, without options.
    #[must_use]
    pub const fn new(nsid: Nsid, action: ZoneSendAction, slba: u64) -> Self {
        Self { nsid, slba, action, select_all: false, zrwa: false }
    }

    /// Refuses reserved actions, and Select All with an action that takes one zone.
    pub(crate) fn parse(cmd: &Command) -> Result<Self, Status> {
        let d = SendCdw13(cmd.cdw13);
        let action = d.zsa();
        if action.name().is_none() || d.select_all() && !action.takes_all() {
            return Err(INVALID);
        }
        Ok(Self {
            nsid: cmd.nsid.get(),
            slba: cmd.cdw10_11(),
            action,
            select_all: d.select_all(),
            zrwa: d.zsaso(),
        })
    }
}

impl ZoneManagementReceive {
    /// Refuses reserved actions and reserved reporting options.
    pub(crate) fn parse(cmd: &Command) -> Result<Self, Status> {
        let d = ReceiveCdw13(cmd.cdw13);
        if d.zra().name().is_none() || d.zrasf().name().is_none() {
            return Err(INVALID);
        }
        Ok(Self {
            nsid: cmd.nsid.get(),
            slba: cmd.cdw10_11(),
            dwords: u64::from(cmd.cdw12.get()) + 1,
            action: d.zra(),
            filter: d.zrasf(),
            partial: d.partial(),
        })
    }
}

impl From<ZoneManagementSend> for Command {
    fn from(c: ZoneManagementSend) -> Self {
        let (cdw10, cdw11) = halves(c.slba);
        Self {
            cdw10,
            cdw11,
            cdw13: SendCdw13::new().with_zsa(c.action).with_select_all(c.select_all).with_zsaso(c.zrwa).0,
            ..Self::new(IoOpcode::ZONE_MANAGEMENT_SEND.0, c.nsid)
        }
    }
}

impl From<ZoneManagementReceive> for Command {
    fn from(c: ZoneManagementReceive) -> Self {
        let (cdw10, cdw11) = halves(c.slba);
        Self {
            cdw10,
            cdw11,
            cdw12: U32::new(u32::try_from(c.dwords.saturating_sub(1)).unwrap_or(u32::MAX)),
            cdw13: ReceiveCdw13::new().with_zra(c.action).with_zrasf(c.filter).with_partial(c.partial).0,
            ..Self::new(IoOpcode::ZONE_MANAGEMENT_RECEIVE.0, c.nsid)
        }
    }
}
