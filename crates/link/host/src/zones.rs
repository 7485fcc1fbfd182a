//! Zoned namespaces: what the drive says of them, reports of zones, and what changes zones.

use std::time::Duration;

use blockdev::{Limits, Namespace};
use nvme::admin::{GetLogPage, Identify};
use nvme::identify::{
    Cns, IoCommandSets, NamespaceIdDescriptor, NamespaceList, ZonedController, ZonedNamespace,
};
use nvme::io::appended_lba;
use nvme::log::{ChangedZones, LogId};
use nvme::zerocopy::FromBytes;
use nvme::zone::{
    ZoneDescriptor, ZoneManagementReceive, ZoneManagementSend, ZoneReceiveAction, ZoneReport,
    ZoneReportFilter, ZoneReportHeader, ZoneSendAction,
};
use nvme::{CNTLID_DYNAMIC, Command, Csi, Nsid};

use crate::call::call_alone;
use crate::queue::{Data, Queue, Transport};
use crate::{Error, Host, IoQueue};

/// How long one command may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a command that changes all zones may take.
const LONG_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of a report that are asked for in one command.
const CHUNK: usize = 1 << 16;

/// What an I/O queue must know of a zoned namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zoned {
    /// What it has in common with others.
    pub namespace: Namespace,
    /// Zone size: logical blocks from the start of a zone to that of the next.
    pub zone_blocks: u64,
    /// Bytes of a Zone Descriptor Extension; 0: there are no extensions.
    pub extension_bytes: u32,
    /// Zones that may be active at once; `None` without limit.
    pub max_active: Option<u32>,
    /// Zones that may be open at once; `None` without limit.
    pub max_open: Option<u32>,
    /// Zone Random Write Areas; `None` if there are none.
    pub zrwa: Option<Zrwa>,
}

/// What a zoned namespace says of its Zone Random Write Areas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zrwa {
    /// Zones that may have one at once.
    pub resources: u32,
    /// Logical blocks of each.
    pub blocks: u32,
    /// Logical blocks that are committed together.
    pub flush_granularity: u32,
    /// Whether [`IoQueue::flush_zrwa`] is supported.
    pub explicit_flush: bool,
}

/// Zones that an action is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zones {
    /// The one that begins at this LBA.
    One(u64),
    /// All in states from which the action leads somewhere.
    All,
}

impl Zoned {
    /// Number of its zones.
    #[must_use]
    pub fn zones(&self) -> u64 {
        self.namespace.blocks.div_ceil(self.zone_blocks.max(1))
    }

    /// The start of the zone that has this block.
    #[must_use]
    pub fn zone_of(&self, lba: u64) -> u64 {
        lba - lba % self.zone_blocks.max(1)
    }
}

impl<T: Transport> Host<T> {
    /// The I/O command set of an attached namespace. The NVM Command Set if the drive does not say.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn command_set(&mut self, nsid: Nsid) -> Result<Csi, Error> {
        let descriptors = self.namespace_descriptors(nsid)?;
        let csi = descriptors.iter().find_map(|descriptor| match descriptor {
            NamespaceIdDescriptor::Csi(csi) => Some(*csi),
            _ => None,
        });
        Ok(csi.unwrap_or(Csi::NVM))
    }

    /// Whether there may be zoned namespaces: the controller has the Zoned Namespace Command Set. One that cannot list its command sets, as that of
    /// Linux 6.12, is asked about this one. It has not if it does not say.
    ///
    /// # Errors
    /// The transport is broken.
    pub fn has_zones(&mut self) -> Result<bool, Error> {
        if let Some(known) = self.transport.has_zones() {
            return Ok(known);
        }
        let cns = Cns::IO_COMMAND_SETS;
        let identify = Identify { nsid: 0, cns, cntid: CNTLID_DYNAMIC, cnssid: 0, csi: Csi::NVM, uidx: 0 };
        let done = self.call(identify.into(), Data::room(size_of::<IoCommandSets>()))?;
        if !done.completion.status().is_success() {
            return match self.identify_zoned_controller() {
                Ok(_) => Ok(true),
                Err(Error::Command { .. }) => Ok(false),
                Err(error) => Err(error),
            };
        }
        let sets = IoCommandSets::read_from_bytes(&done.data.into_buffer()).unwrap_or_default();
        Ok(sets.iocsc.iter().any(|combination| combination.get() >> Csi::ZONED.0 & 1 == 1))
    }

    /// The zoned namespaces among these, attached or not, with what the Zoned Namespace Command Set says of each.
    ///
    /// # Errors
    /// A command failed, or the transport is broken.
    pub fn zoned_among(&mut self, nsids: &[Nsid]) -> Result<Vec<(Nsid, ZonedNamespace)>, Error> {
        if nsids.is_empty() || !self.has_zones()? {
            return Ok(Vec::new());
        }
        let managed = self.manages_namespaces();
        let (list, one) = match managed {
            true => (Cns::IOCS_ALLOCATED_NAMESPACES, Cns::IOCS_ALLOCATED_NAMESPACE),
            false => (Cns::IOCS_ACTIVE_NAMESPACES, Cns::IOCS_NAMESPACE),
        };
        let mut found = Vec::new();
        for &nsid in nsids {
            // The list begins behind the identifier that is asked for.
            let is_zoned = match self.identified_zoned::<NamespaceList>(list, nsid - 1) {
                Ok(next) => next.nsid[0].get() == nsid,
                // A controller without such lists: an attached namespace says itself which command set it has.
                Err(Error::Command { .. }) => self.command_set(nsid)? == Csi::ZONED,
                Err(error) => return Err(error),
            };
            if is_zoned {
                found.push((nsid, self.identified_zoned(one, nsid)?));
            }
        }
        Ok(found)
    }

    /// What the controller says of the Zoned Namespace Command Set.
    ///
    /// # Errors
    /// The command failed (Invalid Field in Command: the drive does not have the command set), or the transport is broken.
    pub fn identify_zoned_controller(&mut self) -> Result<ZonedController, Error> {
        self.identified_zoned(Cns::IOCS_CONTROLLER, 0)
    }

    /// What the Zoned Namespace Command Set says of an attached namespace.
    ///
    /// # Errors
    /// The command failed (Invalid Field in Command: the namespace is not zoned), or the transport is broken.
    pub fn identify_zoned_namespace(&mut self, nsid: Nsid) -> Result<ZonedNamespace, Error> {
        self.identified_zoned(Cns::IOCS_NAMESPACE, nsid)
    }

    fn identified_zoned<S: FromBytes>(&mut self, cns: Cns, nsid: Nsid) -> Result<S, Error> {
        let what = || format!("{cns}, {}, namespace {nsid}", Csi::ZONED);
        let identify = Identify { nsid, cns, cntid: 0, cnssid: 0, csi: Csi::ZONED, uidx: 0 };
        let done = self.call(identify.into(), Data::room(size_of::<S>()))?;
        if let Err(status) = done.completion.status().ok() {
            return Err(Error::Command { what: what(), status });
        }
        S::read_from_bytes(&done.data.into_buffer())
            .map_err(|_| Error::Answer { what: what(), problem: "it is cut short".into() })
    }

    /// What an I/O queue must know of an attached zoned namespace.
    ///
    /// # Errors
    /// The namespace is not attached, is not zoned, or its format is none that this host can use.
    pub fn zoned_namespace(&mut self, nsid: Nsid) -> Result<Zoned, Error> {
        let namespace = self.namespace(nsid)?;
        if self.command_set(nsid)? != Csi::ZONED {
            return Err(Error::Usage(format!("namespace {nsid} has no zones")));
        }
        let format = self.identify_namespace(nsid)?.flbas.format_index();
        let zoned = self.identify_zoned_namespace(nsid)?;
        let extension = zoned.lbafe[usize::from(format)];
        if extension.zsze.get() == 0 {
            return Err(Error::Answer {
                what: format!("looking at namespace {nsid}"),
                problem: "its zones have no size".into(),
            });
        }
        let append = match self.identify_zoned_controller()?.zasl {
            0 => self.max_transfer(),
            zasl => self.size_limit(zasl).min(self.max_transfer()),
        };
        let append = u32::try_from(append).unwrap_or(u32::MAX) / namespace.block_size;
        let limits = Limits { append: append.clamp(1, 65536), ..namespace.limits };
        Ok(Zoned {
            namespace: Namespace { limits, ..namespace },
            zone_blocks: extension.zsze.get(),
            extension_bytes: extension.extension_bytes(),
            max_active: zoned.max_active(),
            max_open: zoned.max_open(),
            zrwa: zoned.ozcs.zrwasup().then(|| Zrwa {
                resources: zoned.zrwa_resources(),
                blocks: zoned.zrwas.get().into(),
                flush_granularity: zoned.zrwafg.get().into(),
                explicit_flush: zoned.zrwacap.expflushsup(),
            }),
        })
    }

    /// The first LBA of each zone that the controller changed by itself since this log was read last; `None` if they are too
    /// many to list. The event that announced them is cleared.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn changed_zones(&mut self, nsid: Nsid) -> Result<Option<Vec<u64>>, Error> {
        let command = GetLogPage {
            nsid,
            lid: LogId::CHANGED_ZONES,
            lsp: 0,
            lsi: 0,
            rae: false,
            dwords: size_of::<ChangedZones>() as u64 / 4,
            offset: 0,
            ot: false,
            csi: Csi::ZONED,
            uidx: 0,
        };
        let done = self.call(command.into(), Data::room(size_of::<ChangedZones>()))?;
        if let Err(status) = done.completion.status().ok() {
            return Err(Error::Command {
                what: format!("reading the log '{}'", LogId::CHANGED_ZONES),
                status,
            });
        }
        let log = ChangedZones::read_from_bytes(&done.data.into_buffer()).unwrap_or_default();
        Ok(log.zones().map(|zones| zones.iter().map(|zslba| zslba.get()).collect()))
    }
}

impl<Q: Queue> IoQueue<Q> {
    /// The first `most` zones that the filter lists, from the one that has the block `from` on, ascending. A long report is read in
    /// pieces, between which zones may change.
    ///
    /// # Errors
    /// A command failed, the answer makes no sense, or the transport is broken.
    pub fn report_zones(
        &mut self,
        ns: &Zoned,
        from: u64,
        filter: ZoneReportFilter,
        most: usize,
    ) -> Result<Vec<ZoneDescriptor>, Error> {
        let mut zones = Vec::new();
        self.report(ns, ZoneReceiveAction::REPORT, from, filter, most, |zone, _| zones.push(*zone))?;
        Ok(zones)
    }

    /// The same zones, each with its Zone Descriptor Extension. The extension means something if the attribute ZDEV is set.
    ///
    /// # Errors
    /// As [`report_zones`](IoQueue::report_zones); Invalid Field in Command if there are no extensions.
    pub fn report_zones_extended(
        &mut self,
        ns: &Zoned,
        from: u64,
        filter: ZoneReportFilter,
        most: usize,
    ) -> Result<Vec<(ZoneDescriptor, Vec<u8>)>, Error> {
        let mut zones = Vec::new();
        let action = ZoneReceiveAction::EXTENDED_REPORT;
        self.report(ns, action, from, filter, most, |zone, extension| {
            zones.push((*zone, extension.to_vec()))
        })?;
        Ok(zones)
    }

    /// How many zones the filter lists, from the one that has the block `from` on.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn count_zones(&mut self, ns: &Zoned, from: u64, filter: ZoneReportFilter) -> Result<u64, Error> {
        let report = ZoneManagementReceive::report(ns.namespace.nsid, from, size_of::<ZoneReportHeader>());
        let command = ZoneManagementReceive { filter, partial: false, ..report };
        let bytes = self.received(command)?;
        Ok(ZoneReport::parse(&bytes, 0).map_or(0, |report| report.nzones()))
    }

    fn report(
        &mut self,
        ns: &Zoned,
        action: ZoneReceiveAction,
        from: u64,
        filter: ZoneReportFilter,
        most: usize,
        mut take: impl FnMut(&ZoneDescriptor, &[u8]),
    ) -> Result<(), Error> {
        let head = size_of::<ZoneReportHeader>();
        let extension = match action {
            ZoneReceiveAction::EXTENDED_REPORT => ns.extension_bytes as usize,
            _ => 0,
        };
        let each = size_of::<ZoneDescriptor>() + extension;
        let room = (CHUNK.min(self.max_transfer()).saturating_sub(head) / each).max(1);
        let (mut left, mut slba) = (most, from);
        while left > 0 && slba < ns.namespace.blocks {
            let count = room.min(left);
            let report = ZoneManagementReceive::report(ns.namespace.nsid, slba, head + count * each);
            let command = ZoneManagementReceive { action, filter, ..report };
            let bytes = self.received(command)?;
            let mut found = 0;
            let report = ZoneReport::parse(&bytes, extension);
            for (zone, extension) in report.iter().flat_map(ZoneReport::zones) {
                let zslba = zone.zslba.get();
                // Not ascending would mean without end.
                if zslba < ns.zone_of(slba) {
                    return Err(Error::Answer {
                        what: describe("reporting zones", ns.namespace.nsid, Zones::One(slba)),
                        problem: format!("it has the zone at block {zslba}, which comes before"),
                    });
                }
                take(zone, extension);
                found += 1;
                slba = zslba.saturating_add(ns.zone_blocks);
            }
            left -= found;
            if found < count {
                break;
            }
        }
        Ok(())
    }

    fn received(&mut self, command: ZoneManagementReceive) -> Result<Vec<u8>, Error> {
        let what = || describe("reporting zones", command.nsid, Zones::One(command.slba));
        let room = Data::room(usize::try_from(command.bytes()).unwrap_or(CHUNK));
        Ok(call_alone(self.raw(), command.into(), room, TIMEOUT, what)?.data.into_buffer())
    }

    /// Closes, finishes, opens or resets zones, or takes them offline. The other actions have methods of their own.
    ///
    /// # Errors
    /// The command failed (for instance Invalid Zone State Transition, Too Many Open Zones), the action is another one, or the
    /// transport is broken.
    pub fn manage_zones(&mut self, nsid: Nsid, action: ZoneSendAction, zones: Zones) -> Result<(), Error> {
        if !action.takes_all() {
            return Err(Error::Usage(format!(
                "the action '{action}' is for one zone, and needs more to be said"
            )));
        }
        let (slba, select_all) = match zones {
            Zones::One(slba) => (slba, false),
            Zones::All => (0, true),
        };
        let command = ZoneManagementSend { select_all, ..ZoneManagementSend::new(nsid, action, slba) };
        self.send_to_zone(command, Data::None)
    }

    /// Opens an empty zone explicitly, with a Zone Random Write Area.
    ///
    /// # Errors
    /// The command failed (for instance ZRWA Resources Unavailable), or the transport is broken.
    pub fn open_zone_with_zrwa(&mut self, nsid: Nsid, zslba: u64) -> Result<(), Error> {
        let open = ZoneManagementSend::new(nsid, ZoneSendAction::OPEN, zslba);
        self.send_to_zone(ZoneManagementSend { zrwa: true, ..open }, Data::None)
    }

    /// Commits the Zone Random Write Area of a zone up to and with the block `last`.
    ///
    /// # Errors
    /// The command failed (Invalid Zone Operation Request: there is no such area, or the block is not in it), or the transport
    /// is broken.
    pub fn flush_zrwa(&mut self, nsid: Nsid, last: u64) -> Result<(), Error> {
        self.send_to_zone(ZoneManagementSend::new(nsid, ZoneSendAction::FLUSH_ZRWA, last), Data::None)
    }

    /// Gives an empty zone a Zone Descriptor Extension, which closes it. The extension is padded with zeroes.
    ///
    /// # Errors
    /// The extension is too long, the command failed, or the transport is broken.
    pub fn set_zone_extension(&mut self, ns: &Zoned, zslba: u64, extension: &[u8]) -> Result<(), Error> {
        let room = ns.extension_bytes as usize;
        if extension.len() > room {
            let length = extension.len();
            return Err(Error::Usage(format!(
                "an extension of {length} bytes; its zones have room for {room}"
            )));
        }
        let mut bytes = extension.to_vec();
        bytes.resize(room, 0);
        let action = ZoneSendAction::SET_DESCRIPTOR_EXTENSION;
        self.send_to_zone(ZoneManagementSend::new(ns.namespace.nsid, action, zslba), Data::Out(bytes))
    }

    fn send_to_zone(&mut self, command: ZoneManagementSend, data: Data) -> Result<(), Error> {
        let zones = if command.select_all { Zones::All } else { Zones::One(command.slba) };
        let timeout = if command.select_all { LONG_TIMEOUT } else { TIMEOUT };
        let what = || describe(&command.action.to_string(), command.nsid, zones);
        call_alone(self.raw(), command.into(), data, timeout, what).map(|_| ())
    }

    /// Appends whole blocks to the zone that begins at `zslba`, in one command. The result is the LBA of the first.
    ///
    /// # Errors
    /// The length is not one of whole blocks, or more than the namespace's limit of an append; the command failed (for instance Zone Is Full,
    /// Zone Boundary Error); the transport is broken.
    pub fn append(&mut self, ns: &Zoned, zslba: u64, data: &[u8]) -> Result<u64, Error> {
        let what = || describe("appending to", ns.namespace.nsid, Zones::One(zslba));
        let block = ns.namespace.block_size as usize;
        let blocks = u32::try_from(data.len() / block.max(1)).unwrap_or(u32::MAX);
        if data.is_empty() || !data.len().is_multiple_of(block) || blocks > ns.namespace.limits.append {
            let (length, most) = (data.len(), ns.namespace.limits.append);
            return Err(Error::Usage(format!(
                "{}: {length} bytes are not 1 to {most} blocks of {block} bytes",
                what()
            )));
        }
        let command: Command = ns.namespace.append(zslba, blocks);
        let done = call_alone(self.raw(), command, Data::Out(data.to_vec()), TIMEOUT, what)?;
        Ok(appended_lba(&done.completion))
    }
}

pub(crate) fn describe(verb: &str, nsid: Nsid, zones: Zones) -> String {
    match zones {
        Zones::One(lba) => format!("{verb}: namespace {nsid}, zone at block {lba}"),
        Zones::All => format!("{verb}: namespace {nsid}, all zones"),
    }
}
