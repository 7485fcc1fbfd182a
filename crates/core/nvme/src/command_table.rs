//! The command table: one row for each command.
//!
//! A row says what does not depend on the command's fields: opcode and command sets, the source of its data, its reservation
//! group, its effects, who may send it, and how it uses the media. It also names the functions that parse the command and count
//! its bytes. Parsers, controllers and owners of drives ask the table and keep no lists of opcodes. A new
//! command is a row, a type, and a handler in the controller.

use crate::admin::{self, AdminCommand, NamespaceManagementSelect};
use crate::command::{AdminOpcode, Command, FABRICS_OPCODE, IoOpcode};
use crate::copy::Copy;
use crate::directive::{DirectiveType, operation};
use crate::fabrics::{ConnectData, FabricsCommand};
use crate::fault_selector::FaultSelector;
use crate::feature::{self, Select};
use crate::io::{self, DsmRange, IoCommand};
use crate::log::Effects;
use crate::reservation::{
    AcquireKeys, RegisterKeys, ReservationAcquire, ReservationRegister, ReservationRelease, ReservationReport,
};
use crate::zone::{ZoneManagementReceive, ZoneManagementSend};
use crate::{Csi, IDENTIFY_SIZE, Status, fdp};

/// Which way data goes (Base 4.1, "Opcodes": bits 1:0 of an opcode; for fabrics commands of FCTYPE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// 01b: from the host to the controller.
    ToController,
    /// 10b: from the controller to the host.
    ToHost,
}

impl Direction {
    /// What these bits announce. 00b moves no data; 11b (bidirectional) exists in no command set that this crate knows.
    #[must_use]
    #[inline]
    pub const fn of_bits(bits: u8) -> Option<Self> {
        match bits & 3 {
            1 => Some(Self::ToController),
            2 => Some(Self::ToHost),
            _ => None,
        }
    }

    /// The direction of a command's data, if it has any.
    #[must_use]
    #[inline]
    pub fn of(cmd: &Command) -> Option<Self> {
        Self::of_bits(if cmd.opc == FABRICS_OPCODE { cmd.fctype().0 } else { cmd.opc })
    }
}

/// Who supplies or takes a command's data, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataSource {
    /// There are none.
    None,
    /// The controller reads or makes them itself, when it executes the command.
    Controller,
    /// The controller reads them itself. The format of the namespace says how many they are, and not the command: a Zone
    /// Descriptor Extension.
    ZoneExtension,
    /// They are contents of blocks. They stay with the host until the translation layer says where they go.
    Contents,
}

/// Groups of commands (Base 8.1.22, "Command Behavior in the Presence of a Reservation").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReservationGroup {
    /// Allowed to whom the reservation lets read.
    Read,
    /// Allowed to whom the reservation lets write.
    Write,
    /// Always allowed, or (the commands of reservations) checked for themselves.
    Other,
}

/// What a command does to the blocks on the media. Quotas and fair shares count it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediaAccess {
    /// It moves none: a Flush, or a command that only deallocates.
    None,
    /// It reads them.
    Read,
    /// It writes them.
    Write,
}

/// Commands whose latency is counted, by namespace (log D8h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LatencyClass {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// What gives up blocks.
    Deallocate,
}

/// Hosts that may send a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    /// All.
    Everyone,
    /// Those to whom namespaces belong, and administrators.
    Owners,
    /// Those that administer the drive.
    Administrators,
}

/// What a drive or its connection must have, so that there is the command at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// Nothing more than the command set.
    None,
    /// Queues in the host's memory, as over PCI Express.
    MemoryQueues,
    /// Placement handles: Flexible Data Placement or streams.
    Placement,
}

/// What a row says of a command. None of it depends on the command's fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandInfo {
    /// Its opcode.
    pub opcode: u8,
    /// Command sets that have it, one bit each by their identifier. Admin commands are in all.
    sets: u8,
    /// Who supplies its data.
    pub data: DataSource,
    /// Its reservation group.
    pub reservation: ReservationGroup,
    /// What it does to the media.
    pub media: MediaAccess,
    /// Where its latency is counted, if it is.
    pub latency: Option<LatencyClass>,
    /// Whether it may change something that the drive keeps over a loss of power.
    pub changes: bool,
    /// Whether it is executed during a sanitize operation, and after one that failed (Base 5.1, the figure of admin commands that
    /// are allowed during a sanitize operation). Which logs may be read is decided elsewhere.
    pub during_sanitize: bool,
    /// Who may send it.
    pub audience: Audience,
    /// What it takes to have it.
    pub requires: Requirement,
    /// Its entry in the Commands Supported and Effects log (Base 5.1.12.1.6).
    pub effects: Effects,
}

impl CommandInfo {
    /// Whether this command set has it.
    #[must_use]
    pub const fn is_of(&self, csi: Csi) -> bool {
        csi.0 < 8 && self.sets >> csi.0 & 1 != 0
    }
}

/// A row: a command's properties, its parser, and how many bytes of data it moves if it is not contents.
struct Row<C: 'static> {
    info: CommandInfo,
    parse: fn(&Command) -> Result<C, Status>,
    bytes: fn(&C) -> u64,
}

/// Bit 0 of Command Scope: a namespace; bit 1: a controller; bit 5: the subsystem.
const NAMESPACE: Effects = Effects::new().with_csupp(true).with_csp(1);
const CONTROLLER: Effects = Effects::new().with_csupp(true).with_csp(1 << 1);
const SUBSYSTEM: Effects = Effects::new().with_csupp(true).with_csp(1 << 5);

/// Command sets as bits: all of them.
const EVERY_SET: u8 = u8::MAX;
/// Sets whose contents are logical blocks.
const BLOCKS: u8 = 1 << Csi::NVM.0 | ZONED;
const ZONED: u8 = 1 << Csi::ZONED.0;

/// Bytes of one kind of command.
macro_rules! bytes {
    ($variant:path, $command:pat => $bytes:expr) => {
        |command| match command {
            $variant($command) => $bytes,
            _ => 0,
        }
    };
}

impl<C> Row<C> {
    /// A command without data that changes nothing, for everyone.
    const fn new(opcode: u8, sets: u8, effects: Effects, parse: fn(&Command) -> Result<C, Status>) -> Self {
        let info = CommandInfo {
            opcode,
            sets,
            data: DataSource::None,
            reservation: ReservationGroup::Other,
            media: MediaAccess::None,
            latency: None,
            changes: false,
            during_sanitize: false,
            audience: Audience::Everyone,
            requires: Requirement::None,
            effects,
        };
        Row { info, parse, bytes: |_| 0 }
    }

    const fn data(mut self, bytes: fn(&C) -> u64) -> Self {
        self.info.data = DataSource::Controller;
        self.bytes = bytes;
        self
    }

    const fn zone_extension(mut self) -> Self {
        self.info.data = DataSource::ZoneExtension;
        self
    }

    const fn contents(mut self) -> Self {
        self.info.data = DataSource::Contents;
        self
    }

    const fn reservation(mut self, group: ReservationGroup) -> Self {
        self.info.reservation = group;
        self
    }

    const fn reads(mut self) -> Self {
        self.info.media = MediaAccess::Read;
        self.reservation(ReservationGroup::Read)
    }

    const fn writes(mut self) -> Self {
        self.info.media = MediaAccess::Write;
        self.changes().reservation(ReservationGroup::Write)
    }

    const fn counted(mut self, class: LatencyClass) -> Self {
        self.info.latency = Some(class);
        self
    }

    const fn changes(mut self) -> Self {
        self.info.changes = true;
        self
    }

    const fn during_sanitize(mut self) -> Self {
        self.info.during_sanitize = true;
        self
    }

    const fn only_for(mut self, audience: Audience) -> Self {
        self.info.audience = audience;
        self
    }

    const fn requires(mut self, requirement: Requirement) -> Self {
        self.info.requires = requirement;
        self
    }
}

const fn admin(
    opcode: AdminOpcode,
    effects: Effects,
    parse: fn(&Command) -> Result<AdminCommand, Status>,
) -> Row<AdminCommand> {
    Row::new(opcode.0, EVERY_SET, effects, parse)
}

const fn io(
    opcode: IoOpcode,
    sets: u8,
    effects: Effects,
    parse: fn(&Command) -> Result<IoCommand, Status>,
) -> Row<IoCommand> {
    Row::new(opcode.0, sets, effects, parse)
}

static ADMIN: [Row<AdminCommand>; 24] = [
    admin(AdminOpcode::DELETE_IO_SQ, CONTROLLER, admin::parse::delete_io_sq)
        .requires(Requirement::MemoryQueues),
    admin(AdminOpcode::CREATE_IO_SQ, CONTROLLER, admin::parse::create_io_sq)
        .requires(Requirement::MemoryQueues),
    admin(AdminOpcode::GET_LOG_PAGE, CONTROLLER.with_uss(true), admin::parse::get_log_page)
        .data(bytes!(AdminCommand::GetLogPage, c => c.bytes()))
        .during_sanitize(),
    admin(AdminOpcode::DELETE_IO_CQ, CONTROLLER, admin::parse::delete_io_cq)
        .requires(Requirement::MemoryQueues),
    admin(AdminOpcode::CREATE_IO_CQ, CONTROLLER, admin::parse::create_io_cq)
        .requires(Requirement::MemoryQueues),
    admin(AdminOpcode::IDENTIFY, CONTROLLER, admin::parse::identify)
        .data(|_| IDENTIFY_SIZE as u64)
        .during_sanitize(),
    admin(AdminOpcode::ABORT, CONTROLLER, admin::parse::abort).during_sanitize(),
    admin(AdminOpcode::SET_FEATURES, CONTROLLER.with_ccc(true).with_uss(true), admin::parse::set_features)
        .data(bytes!(AdminCommand::SetFeatures, c => feature::set_data_bytes(c.fid, c.cdw11)))
        .changes()
        .during_sanitize(),
    admin(AdminOpcode::GET_FEATURES, CONTROLLER.with_uss(true), admin::parse::get_features)
        .data(bytes!(AdminCommand::GetFeatures, c => match c.sel {
            Select::SUPPORTED_CAPABILITIES => 0,
            _ => feature::data_bytes(c.fid, c.cdw11),
        }))
        .during_sanitize(),
    admin(AdminOpcode::ASYNC_EVENT_REQUEST, CONTROLLER, |_| Ok(AdminCommand::AsyncEventRequest))
        .during_sanitize(),
    admin(
        AdminOpcode::NAMESPACE_MANAGEMENT,
        SUBSYSTEM.with_lbcc(true).with_nic(true),
        admin::parse::namespace_management,
    )
    .data(bytes!(AdminCommand::NamespaceManagement, c => match c.sel {
        NamespaceManagementSelect::CREATE => IDENTIFY_SIZE as u64,
        _ => 0,
    }))
    .changes()
    .reservation(ReservationGroup::Write)
    .only_for(Audience::Administrators),
    admin(AdminOpcode::FIRMWARE_COMMIT, SUBSYSTEM.with_ccc(true), admin::parse::firmware_commit)
        .changes()
        .only_for(Audience::Administrators),
    admin(AdminOpcode::FIRMWARE_IMAGE_DOWNLOAD, CONTROLLER, admin::parse::firmware_image_download)
        .data(bytes!(AdminCommand::FirmwareImageDownload, c => c.dwords * 4))
        .changes()
        .only_for(Audience::Administrators),
    admin(AdminOpcode::DEVICE_SELF_TEST, SUBSYSTEM, admin::parse::device_self_test)
        .changes()
        .only_for(Audience::Administrators),
    admin(AdminOpcode::NAMESPACE_ATTACHMENT, SUBSYSTEM.with_nic(true), admin::parse::namespace_attachment)
        .data(|_| IDENTIFY_SIZE as u64)
        .changes()
        .reservation(ReservationGroup::Write)
        .only_for(Audience::Administrators),
    admin(AdminOpcode::KEEP_ALIVE, CONTROLLER, |_| Ok(AdminCommand::KeepAlive)).during_sanitize(),
    admin(AdminOpcode::DIRECTIVE_SEND, NAMESPACE, admin::parse::directive_send)
        .changes()
        .requires(Requirement::Placement),
    admin(AdminOpcode::DIRECTIVE_RECEIVE, NAMESPACE, admin::parse::directive_receive)
        .data(bytes!(AdminCommand::DirectiveReceive, c => match (c.dtype, c.doper) {
            // It has a result and no data.
            (DirectiveType::STREAMS, operation::ALLOCATE_RESOURCES) => 0,
            _ => c.dwords * 4,
        }))
        .changes()
        .requires(Requirement::Placement),
    // Its scope and effects are those of the type of the command.
    admin(AdminOpcode::FABRICS, Effects::new(), |cmd| FabricsCommand::parse(cmd).map(AdminCommand::Fabrics))
        .data(bytes!(AdminCommand::Fabrics, c => bytes_of_fabrics(c)))
        .changes()
        .during_sanitize(),
    admin(
        AdminOpcode::FORMAT_NVM,
        NAMESPACE.with_lbcc(true).with_ncc(true).with_cse(1),
        admin::parse::format_nvm,
    )
    .changes()
    .reservation(ReservationGroup::Write)
    .only_for(Audience::Owners),
    // One operation on the subsystem at a time. During one, it says itself what it thinks of another.
    admin(AdminOpcode::SANITIZE, SUBSYSTEM.with_lbcc(true).with_cse(2), admin::parse::sanitize)
        .changes()
        .reservation(ReservationGroup::Write)
        .during_sanitize()
        .only_for(Audience::Administrators),
    admin(AdminOpcode::GET_LBA_STATUS, NAMESPACE, admin::parse::get_lba_status)
        .data(bytes!(AdminCommand::GetLbaStatus, c => c.bytes())),
    // The vendor's touch no user data.
    admin(AdminOpcode::POWER_CUT, SUBSYSTEM.with_lbcc(true), admin::parse::power_cut)
        .changes()
        .during_sanitize()
        .only_for(Audience::Administrators),
    admin(AdminOpcode::FAULT_INJECTION, SUBSYSTEM.with_lbcc(true), admin::parse::fault_injection)
        .data(bytes!(AdminCommand::ProtocolFault, _ => size_of::<FaultSelector>() as u64))
        .changes()
        .during_sanitize()
        .only_for(Audience::Administrators),
];

static IO: [Row<IoCommand>; 19] = [
    io(IoOpcode::FLUSH, EVERY_SET, NAMESPACE, io::parse::flush)
        .changes()
        .counted(LatencyClass::Flush)
        .reservation(ReservationGroup::Write),
    io(IoOpcode::WRITE, BLOCKS, NAMESPACE.with_lbcc(true), io::parse::write)
        .contents()
        .writes()
        .counted(LatencyClass::Write),
    io(IoOpcode::READ, BLOCKS, NAMESPACE, io::parse::read).contents().reads().counted(LatencyClass::Read),
    io(IoOpcode::WRITE_UNCORRECTABLE, BLOCKS, NAMESPACE.with_lbcc(true), io::parse::write_uncorrectable)
        .writes(),
    io(IoOpcode::COMPARE, BLOCKS, NAMESPACE, io::parse::compare).contents().reads(),
    io(IoOpcode::WRITE_ZEROES, BLOCKS, NAMESPACE.with_lbcc(true), io::parse::write_zeroes).writes(),
    io(IoOpcode::DATASET_MANAGEMENT, BLOCKS, NAMESPACE.with_lbcc(true), io::parse::dataset_management)
        .data(bytes!(IoCommand::DatasetManagement, c => u64::from(c.nr) * size_of::<DsmRange>() as u64))
        .changes()
        .counted(LatencyClass::Deallocate)
        .reservation(ReservationGroup::Write),
    io(IoOpcode::VERIFY, BLOCKS, NAMESPACE, io::parse::verify).reads(),
    io(IoOpcode::RESERVATION_REGISTER, EVERY_SET, NAMESPACE, |cmd| {
        ReservationRegister::parse(cmd).map(IoCommand::ReservationRegister)
    })
    .data(|_| size_of::<RegisterKeys>() as u64)
    .changes(),
    io(IoOpcode::RESERVATION_REPORT, EVERY_SET, NAMESPACE, |cmd| {
        Ok(IoCommand::ReservationReport(ReservationReport::parse(cmd)))
    })
    .data(bytes!(IoCommand::ReservationReport, c => c.bytes())),
    io(IoOpcode::RESERVATION_ACQUIRE, EVERY_SET, NAMESPACE, |cmd| {
        ReservationAcquire::parse(cmd).map(IoCommand::ReservationAcquire)
    })
    .data(|_| size_of::<AcquireKeys>() as u64)
    .changes(),
    io(IoOpcode::IO_MANAGEMENT_RECEIVE, EVERY_SET, NAMESPACE, io::parse::io_management_receive)
        .data(bytes!(IoCommand::IoManagementReceive, c => c.dwords * 4))
        .requires(Requirement::Placement),
    io(IoOpcode::RESERVATION_RELEASE, EVERY_SET, NAMESPACE, |cmd| {
        ReservationRelease::parse(cmd).map(IoCommand::ReservationRelease)
    })
    // The current key.
    .data(|_| 8)
    .changes(),
    io(IoOpcode::COPY, BLOCKS, NAMESPACE.with_lbcc(true), |cmd| Ok(IoCommand::Copy(Copy::parse(cmd))))
        .data(bytes!(IoCommand::Copy, c => c.data_bytes()))
        .writes(),
    io(IoOpcode::IO_MANAGEMENT_SEND, EVERY_SET, NAMESPACE, io::parse::io_management_send)
        .data(bytes!(IoCommand::IoManagementSend, c => match c.mo {
            fdp::RUH_UPDATE => (u64::from(c.mos) + 1) * 2,
            _ => 0,
        }))
        .changes()
        .requires(Requirement::Placement),
    io(IoOpcode::ZONE_MANAGEMENT_SEND, ZONED, NAMESPACE.with_lbcc(true), |cmd| {
        ZoneManagementSend::parse(cmd).map(IoCommand::ZoneManagementSend)
    })
    .zone_extension()
    .changes()
    .reservation(ReservationGroup::Write),
    io(IoOpcode::ZONE_MANAGEMENT_RECEIVE, ZONED, NAMESPACE, |cmd| {
        ZoneManagementReceive::parse(cmd).map(IoCommand::ZoneManagementReceive)
    })
    .data(bytes!(IoCommand::ZoneManagementReceive, c => c.bytes()))
    .reservation(ReservationGroup::Read),
    io(IoOpcode::ZONE_APPEND, ZONED, NAMESPACE.with_lbcc(true), io::parse::zone_append)
        .contents()
        .writes()
        .counted(LatencyClass::Write),
    // Its scope and effects are those of the type of the command.
    io(IoOpcode::FABRICS, EVERY_SET, Effects::new(), |cmd| {
        FabricsCommand::parse(cmd).map(IoCommand::Fabrics)
    })
    .data(bytes!(IoCommand::Fabrics, c => bytes_of_fabrics(c)))
    .changes()
    .during_sanitize(),
];

fn bytes_of_fabrics(command: &FabricsCommand) -> u64 {
    match command {
        FabricsCommand::Connect(_) => size_of::<ConnectData>() as u64,
        FabricsCommand::AuthenticationSend(auth) => u64::from(auth.length),
        FabricsCommand::AuthenticationReceive(auth) => u64::from(auth.length),
        _ => 0,
    }
}

/// Where in a table the row of each opcode is; its length where there is none.
const fn index<C, const N: usize>(rows: &[Row<C>; N]) -> [u8; 256] {
    let mut index = [N as u8; 256];
    let mut at = 0;
    while at < N {
        let opcode = rows[at].info.opcode as usize;
        assert!(index[opcode] == N as u8, "an opcode has two rows");
        index[opcode] = at as u8;
        at += 1;
    }
    index
}

static ADMIN_INDEX: [u8; 256] = index(&ADMIN);
static IO_INDEX: [u8; 256] = index(&IO);

#[inline]
fn admin_row(opcode: u8) -> Option<&'static Row<AdminCommand>> {
    ADMIN.get(usize::from(ADMIN_INDEX[usize::from(opcode)]))
}

#[inline]
fn io_row(opcode: u8) -> Option<&'static Row<IoCommand>> {
    IO.get(usize::from(IO_INDEX[usize::from(opcode)]))
}

/// The row of a command that arrived on an admin queue.
#[must_use]
pub fn of_admin(opcode: AdminOpcode) -> Option<&'static CommandInfo> {
    admin_row(opcode.0).map(|row| &row.info)
}

/// The row of a command that arrived on an I/O queue.
#[must_use]
#[inline]
pub fn of_io(opcode: IoOpcode) -> Option<&'static CommandInfo> {
    io_row(opcode.0).map(|row| &row.info)
}

/// The row of a command, by the kind of queue on which it arrived.
#[must_use]
#[inline]
pub fn of(opcode: u8, admin: bool) -> Option<&'static CommandInfo> {
    match admin {
        true => of_admin(AdminOpcode(opcode)),
        false => of_io(IoOpcode(opcode)),
    }
}

/// All admin commands, by opcode.
pub fn admin_commands() -> impl Iterator<Item = &'static CommandInfo> {
    ADMIN.iter().map(|row| &row.info)
}

/// All commands of I/O queues, by opcode.
pub fn io_commands() -> impl Iterator<Item = &'static CommandInfo> {
    IO.iter().map(|row| &row.info)
}

/// Bytes of data that a command moves which are not contents of blocks; none of a command that does not parse.
pub(crate) fn data_bytes(cmd: &Command, admin: bool) -> u64 {
    fn of<C>(row: Option<&Row<C>>, command: Result<C, Status>) -> u64 {
        row.zip(command.ok()).map_or(0, |(row, command)| (row.bytes)(&command))
    }
    match admin {
        true => of(admin_row(cmd.opc), AdminCommand::parse(cmd)),
        false => of(io_row(cmd.opc), IoCommand::parse(cmd)),
    }
}

impl AdminCommand {
    /// Parses a command that arrived on an admin queue.
    ///
    /// # Errors
    /// Invalid Command Opcode for opcodes that are not listed in this enum; Invalid Field in Command for a
    /// fused admin command and for selectors whose other values are reserved. Do Not Retry is set.
    pub fn parse(cmd: &Command) -> Result<Self, Status> {
        if cmd.flags.fuse() != 0 {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        let row = admin_row(cmd.opc).ok_or(Status::INVALID_OPCODE.with_dnr())?;
        (row.parse)(cmd)
    }
}

impl IoCommand {
    /// Parses a command that arrived on an I/O queue, of whichever command set.
    ///
    /// # Errors
    /// Invalid Command Opcode for opcodes that are not listed in this enum. Invalid Field in Command for reserved values of a
    /// reservation's action, type or persistence, and of the action or filter of zone management. Both with Do Not Retry.
    #[inline]
    pub fn parse(cmd: &Command) -> Result<Self, Status> {
        // Nearly all commands are one of these two: they need no search in the table.
        match IoOpcode(cmd.opc) {
            IoOpcode::READ => io::parse::read(cmd),
            IoOpcode::WRITE => io::parse::write(cmd),
            _ => Self::parse_other(cmd),
        }
    }

    /// Parses a command for a namespace of this command set.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse), and Invalid Command Opcode with Do Not Retry if the command set does not have the command.
    #[inline]
    pub fn parse_of(cmd: &Command, csi: Csi) -> Result<Self, Status> {
        match IoOpcode(cmd.opc) {
            IoOpcode::READ | IoOpcode::WRITE if BLOCKS >> csi.0.min(7) & 1 != 0 => Self::parse(cmd),
            opcode if of_io(opcode).is_some_and(|info| info.is_of(csi)) => Self::parse_other(cmd),
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    #[inline(never)]
    fn parse_other(cmd: &Command) -> Result<Self, Status> {
        let row = io_row(cmd.opc).ok_or(Status::INVALID_OPCODE.with_dnr())?;
        (row.parse)(cmd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the opcode says of the direction, and the row of data, agree.
    #[test]
    fn rows_agree_with_their_opcodes() {
        for (info, admin) in
            admin_commands().map(|info| (info, true)).chain(io_commands().map(|info| (info, false)))
        {
            assert_eq!(of(info.opcode, admin), Some(info));
            let direction = Direction::of_bits(info.opcode);
            // FCTYPE has the bits of fabrics commands.
            if info.opcode != FABRICS_OPCODE && info.data != DataSource::None {
                assert!(
                    direction.is_some(),
                    "{:02x}h has data, but its opcode does not say which way",
                    info.opcode
                );
            }
            if info.effects.lbcc() {
                assert!(info.changes, "{:02x}h changes blocks", info.opcode);
            }
            if info.media == MediaAccess::Write {
                assert_eq!(info.reservation, ReservationGroup::Write, "{:02x}h", info.opcode);
                assert!(info.effects.lbcc(), "{:02x}h", info.opcode);
            }
        }
        assert!(of(0xFF, true).is_none() && of(0xFF, false).is_none());
    }

    #[test]
    fn rows_are_in_order_and_each_parses_its_own_command() {
        let ordered = |a: &CommandInfo, b: &CommandInfo| a.opcode < b.opcode;
        assert!(admin_commands().is_sorted_by(|a, b| ordered(a, b)));
        assert!(io_commands().is_sorted_by(|a, b| ordered(a, b)));
        for info in admin_commands() {
            if let Ok(command) = AdminCommand::parse(&Command::new(info.opcode, 1)) {
                assert_eq!(Command::from(command).opc, info.opcode);
            }
        }
        for info in io_commands() {
            if let Ok(command) = IoCommand::parse(&Command::new(info.opcode, 1)) {
                assert_eq!(Command::from(command).opc, info.opcode);
            }
        }
    }

    #[test]
    fn command_sets_share_what_is_not_of_blocks() {
        let has = |opcode, csi| of_io(opcode).is_some_and(|info| info.is_of(csi));
        assert!(has(IoOpcode::FLUSH, Csi::ZONED) && has(IoOpcode::RESERVATION_REPORT, Csi::ZONED));
        assert!(has(IoOpcode::READ, Csi::NVM) && !has(IoOpcode::READ, Csi::KEY_VALUE));
        assert!(!has(IoOpcode::FLUSH, Csi(8)));
        for info in io_commands().filter(|info| info.is_of(Csi::NVM)) {
            assert!(
                info.is_of(Csi::ZONED),
                "{:02x}h: zoned namespaces have what the others have",
                info.opcode
            );
        }
    }

    #[test]
    fn zones_are_managed_in_the_zoned_set_only() {
        for opcode in
            [IoOpcode::ZONE_MANAGEMENT_SEND, IoOpcode::ZONE_MANAGEMENT_RECEIVE, IoOpcode::ZONE_APPEND]
        {
            let info = of_io(opcode).unwrap();
            assert!(info.is_of(Csi::ZONED) && !info.is_of(Csi::NVM), "{opcode}");
            let mut cmd = Command::new(opcode.0, 1);
            // Close Zone, or a report of empty zones.
            cmd.cdw13.set(if opcode == IoOpcode::ZONE_MANAGEMENT_SEND { 1 } else { 0x100 });
            assert!(IoCommand::parse_of(&cmd, Csi::ZONED).is_ok(), "{opcode}");
            let refused = Err(Status::INVALID_OPCODE.with_dnr());
            assert_eq!(IoCommand::parse_of(&cmd, Csi::NVM), refused);
            assert_eq!(IoCommand::parse_of(&cmd, Csi::KEY_VALUE), refused);
        }
        let read = Command::read(1, 0, 1);
        assert!(
            IoCommand::parse_of(&read, Csi::NVM).is_ok() && IoCommand::parse_of(&read, Csi::ZONED).is_ok()
        );
        let unknown = Command::new(0xC7, 1);
        assert_eq!(IoCommand::parse_of(&unknown, Csi::ZONED), Err(Status::INVALID_OPCODE.with_dnr()));
    }
}
