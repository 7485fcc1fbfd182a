//! Log pages.

use nvme::log::{
    AnaGroup, AnaHeader, ChangedNamespaces, CommandEffects, ControllerEntry, DieTimesEntry, DieTimesHeader,
    EnduranceGroup, ErrorInformation, FirmwareSlots, LogId, MemblazeSmart, NamespaceStatistics, OcpSmart,
    SanitizeStatus, SetMapEntry, SetMapHeader, SmartHealth, SupportedLogPages,
};
use nvme::plm::PredictableLatencyLog;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Command, NSID_ALL, Nqn, Nsid};

use crate::queue::Data;
use crate::{Error, Host, Transport};

/// Bytes of a log that are asked for in one command.
const CHUNK: usize = 4096;

/// Whether this host knows the layout of a log with entries: later versions only add. `version` is the log's, and the first that this host reads.
pub(crate) fn known_layout<E>(lid: LogId, version: (u16, u16), entry_bytes: u16) -> Result<(), Error> {
    let entry = usize::from(entry_bytes);
    if version.0 < version.1 || entry < size_of::<E>() || !entry.is_multiple_of(4) {
        return Err(Error::Answer {
            what: format!("reading the log '{lid}'"),
            problem: format!("layout version {} with entries of {entry} bytes", version.0),
        });
    }
    Ok(())
}

/// The Asymmetric Namespace Access log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnaLog {
    /// Its header.
    pub header: AnaHeader,
    /// The ANA groups, each with the attached namespaces that belong to it.
    pub groups: Vec<(AnaGroup, Vec<Nsid>)>,
}

impl<T: Transport> Host<T> {
    /// So many bytes of a log from its start, in pieces of 4 KiB. `lsi` is the Log Specific Identifier.
    ///
    /// # Errors
    /// A command failed (Invalid Log Page: the drive has no such log), or the transport is broken.
    pub fn log(&mut self, lid: LogId, nsid: Nsid, lsi: u16, bytes: usize) -> Result<Vec<u8>, Error> {
        self.part_of_log(lid, nsid, lsi, 0, bytes, CHUNK)
    }

    /// So many bytes of a log from this byte on, in pieces of so many.
    fn part_of_log(
        &mut self,
        lid: LogId,
        nsid: Nsid,
        lsi: u16,
        from: u64,
        bytes: usize,
        piece: usize,
    ) -> Result<Vec<u8>, Error> {
        let mut log = Vec::with_capacity(bytes);
        while log.len() < bytes {
            let part = (bytes - log.len()).min(piece);
            // Whole dwords travel; what is beyond the request is cut off.
            let room = part.next_multiple_of(4);
            let command = Command::get_log_page(lid, nsid, lsi, from + log.len() as u64, room as u32);
            let done = self.call(command, Data::room(room))?;
            if let Err(status) = done.completion.status().ok() {
                return Err(Error::Command { what: format!("reading the log '{lid}'"), status });
            }
            log.extend_from_slice(&done.data.into_buffer()[..part]);
        }
        Ok(log)
    }

    fn typed_log<S: FromBytes + IntoBytes>(&mut self, lid: LogId, nsid: Nsid, lsi: u16) -> Result<S, Error> {
        let bytes = self.log(lid, nsid, lsi, size_of::<S>())?;
        S::read_from_bytes(&bytes).map_err(|_| Error::Answer {
            what: format!("reading the log '{lid}'"),
            problem: format!("{} bytes instead of {}", bytes.len(), size_of::<S>()),
        })
    }

    /// The drive's controllers and their hosts, ascending (the vendor-specific log D9h). It leaves out controllers that no
    /// host has taken yet.
    ///
    /// Others may come and go meanwhile: a controller of this list need not be there any more.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn controllers_and_hosts(&mut self) -> Result<Vec<(u16, Nqn)>, Error> {
        let entries = self.controller_entries()?;
        let named =
            |entry: ControllerEntry| Some((entry.cntlid.get(), Nqn::from_field(&entry.hostnqn).ok()?));
        Ok(entries.into_iter().filter_map(named).collect())
    }

    /// The same with all that the log says of each controller.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn controller_entries(&mut self) -> Result<Vec<ControllerEntry>, Error> {
        // Bytes.
        const HEAD: usize = 16;
        const ENTRY: usize = size_of::<ControllerEntry>();
        let mut room = 4;
        loop {
            // Head and entries in one reading: the count is that of these entries.
            let log = self.log(LogId::CONTROLLERS, 0, 0, HEAD + room * ENTRY)?;
            let count = usize::from(u16::from_le_bytes([log[2], log[3]]));
            if count > room {
                room = count;
                continue;
            }
            let entries = log[HEAD..].chunks_exact(ENTRY).take(count);
            let mut controllers: Vec<ControllerEntry> =
                entries.filter_map(|bytes| ControllerEntry::read_from_bytes(bytes).ok()).collect();
            // A long log is read in pieces, between which it may move.
            controllers.sort_by_key(|entry| entry.cntlid.get());
            controllers.dedup_by_key(|entry| entry.cntlid.get());
            return Ok(controllers);
        }
    }

    /// How the most recent sanitize operation ended, or how far it is.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn sanitize_status(&mut self) -> Result<SanitizeStatus, Error> {
        self.typed_log(LogId::SANITIZE_STATUS, 0, 0)
    }

    /// Which logs the drive has.
    ///
    /// # Errors
    /// The command failed, or the transport is broken; so with all that follow.
    pub fn supported_logs(&mut self) -> Result<SupportedLogPages, Error> {
        self.typed_log(LogId::SUPPORTED, 0, 0)
    }

    /// SMART / Health of the drive.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn smart(&mut self) -> Result<SmartHealth, Error> {
        self.typed_log(LogId::SMART, NSID_ALL, 0)
    }

    /// The errors that the drive remembers, newest first.
    ///
    /// # Errors
    /// A command failed, or the transport is broken.
    pub fn errors(&mut self) -> Result<Vec<ErrorInformation>, Error> {
        let entries = usize::from(self.controller().elpe_z) + 1;
        let bytes = self.log(LogId::ERROR, NSID_ALL, 0, entries * size_of::<ErrorInformation>())?;
        Ok(bytes
            .chunks_exact(size_of::<ErrorInformation>())
            .filter_map(|entry| ErrorInformation::read_from_bytes(entry).ok())
            .filter(|entry| entry.error_count.get() != 0)
            .collect())
    }

    /// Firmware slots.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn firmware_slots(&mut self) -> Result<FirmwareSlots, Error> {
        self.typed_log(LogId::FIRMWARE_SLOT, NSID_ALL, 0)
    }

    /// Namespaces that changed since this log was read last; FFFFFFFFh alone when they are too many. The
    /// event that announced them is cleared.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn changed_namespaces(&mut self) -> Result<Vec<Nsid>, Error> {
        let mut command = Command::get_log_page(LogId::CHANGED_NAMESPACES, NSID_ALL, 0, 0, 4096);
        // Retain Asynchronous Event off.
        command.cdw10.set(command.cdw10.get() & !(1 << 15));
        let done = self.call(command, Data::room(size_of::<ChangedNamespaces>()))?;
        if let Err(status) = done.completion.status().ok() {
            return Err(Error::Command { what: "reading the list of changed namespaces".into(), status });
        }
        let log = ChangedNamespaces::read_from_bytes(&done.data.into_buffer()).unwrap_or_default();
        Ok(log.iter().collect())
    }

    /// The Asymmetric Namespace Access log: how this controller reaches the namespaces.
    ///
    /// # Errors
    /// A command failed, the answer makes no sense, or the transport is broken.
    pub fn ana_log(&mut self) -> Result<AnaLog, Error> {
        let (groups, namespaces) = (self.controller().nanagrpid.get(), self.controller().nn.get());
        // A drive may claim any number. These are more than any drive has.
        let (groups, namespaces) = (groups.min(1 << 12) as usize, namespaces.min(1 << 16) as usize);
        let bytes = size_of::<AnaHeader>() + groups * size_of::<AnaGroup>() + namespaces * size_of::<Nsid>();
        let log = self.log(LogId::ANA, 0, 0, bytes)?;
        let wrong = || Error::Answer {
            what: format!("reading the log '{}'", LogId::ANA),
            problem: "it is shorter than it says".into(),
        };
        let (header, mut rest) = AnaHeader::read_from_prefix(&log).map_err(|_| wrong())?;
        let mut found = Vec::new();
        for _ in 0..header.nagd.get() {
            let (group, after) = AnaGroup::read_from_prefix(rest).map_err(|_| wrong())?;
            let count = usize::try_from(group.nnv.get()).map_err(|_| wrong())?;
            let length = count.checked_mul(size_of::<Nsid>()).ok_or_else(wrong)?;
            let (nsids, after) = after.split_at_checked(length).ok_or_else(wrong)?;
            let nsids = nsids.as_chunks().0.iter().map(|bytes| Nsid::from_le_bytes(*bytes)).collect();
            found.push((group, nsids));
            rest = after;
        }
        Ok(AnaLog { header, groups: found })
    }

    /// Which commands the drive has, and their effects.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn command_effects(&mut self) -> Result<CommandEffects, Error> {
        self.typed_log(LogId::COMMAND_EFFECTS, 0, 0)
    }

    /// Wear and amounts of an Endurance Group.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn endurance_group(&mut self, endgid: u16) -> Result<EnduranceGroup, Error> {
        self.typed_log(LogId::ENDURANCE_GROUP, 0, endgid)
    }

    /// The window of an NVM Set in Predictable Latency Mode, and what is left of it. Reading it does not clear the log's events.
    ///
    /// # Errors
    /// The command failed (Invalid Log Page or Invalid Field in Command: the set has no such mode), or the transport is broken.
    pub fn predictable_latency(&mut self, nvmsetid: u16) -> Result<PredictableLatencyLog, Error> {
        self.typed_log(LogId::PREDICTABLE_LATENCY, 0, nvmsetid)
    }

    /// Exact bytes on the media of the whole drive (OCP C0h).
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn ocp_smart(&mut self) -> Result<OcpSmart, Error> {
        self.typed_log(LogId::OCP_SMART, NSID_ALL, 0)
    }

    /// Memblaze's additional SMART log of the whole drive (CAh).
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn memblaze_smart(&mut self) -> Result<MemblazeSmart, Error> {
        self.typed_log(LogId::MEMBLAZE_SMART, NSID_ALL, 0)
    }

    /// Statistics of a namespace, or of all together with FFFFFFFFh (vendor specific D8h).
    ///
    /// # Errors
    /// The command failed, the layout is newer than this host, or the transport is broken.
    pub fn namespace_statistics(&mut self, nsid: Nsid) -> Result<NamespaceStatistics, Error> {
        // In one command, so that the counters belong together.
        let bytes = size_of::<NamespaceStatistics>();
        let what = || format!("reading the log '{}'", LogId::NAMESPACE_STATISTICS);
        let command = Command::get_log_page(LogId::NAMESPACE_STATISTICS, nsid, 0, 0, bytes as u32);
        let done = self.call(command, Data::room(bytes))?;
        if let Err(status) = done.completion.status().ok() {
            return Err(Error::Command { what: what(), status });
        }
        let log = NamespaceStatistics::read_from_bytes(&done.data.into_buffer()).unwrap_or_default();
        if log.version.get() != NamespaceStatistics::VERSION {
            return Err(Error::Answer {
                what: what(),
                problem: format!(
                    "layout version {}, this host reads {}",
                    log.version,
                    NamespaceStatistics::VERSION
                ),
            });
        }
        Ok(log)
    }

    /// What an NVM Set is like, and what its medium did (the header of the vendor specific log DAh).
    ///
    /// # Errors
    /// The command failed (Invalid Log Page: the drive has no such log; Invalid Field in Command: there is no such set), the layout is
    /// one that this host does not know, or the transport is broken.
    pub fn set_map_header(&mut self, nvmsetid: u16) -> Result<SetMapHeader, Error> {
        let header: SetMapHeader = self.typed_log(LogId::SET_MAP, 0, nvmsetid)?;
        let version = (header.version.get(), SetMapHeader::VERSION);
        known_layout::<SetMapEntry>(LogId::SET_MAP, version, header.entry_bytes.get())?;
        Ok(header)
    }

    /// The superblocks of an NVM Set, with what [`set_map_header`](Host::set_map_header) gives. It is read in as few commands as possible: each shows
    /// another moment.
    ///
    /// # Errors
    /// As [`set_map_header`](Host::set_map_header).
    pub fn set_map(&mut self, nvmsetid: u16) -> Result<(SetMapHeader, Vec<SetMapEntry>), Error> {
        let header = self.set_map_header(nvmsetid)?;
        let entries =
            (header.header_bytes.get(), header.entry_bytes.get(), header.entries.get().min(1 << 22));
        Ok((header, self.entries_of_set(LogId::SET_MAP, nvmsetid, entries)?))
    }

    /// For how long each die of an NVM Set was asked to work since power on (the vendor specific log DBh). None of a set that is not on flash.
    ///
    /// # Errors
    /// As [`set_map_header`](Host::set_map_header).
    pub fn die_times(&mut self, nvmsetid: u16) -> Result<Vec<DieTimesEntry>, Error> {
        let header: DieTimesHeader = self.typed_log(LogId::DIE_TIMES, 0, nvmsetid)?;
        let version = (header.version.get(), DieTimesHeader::VERSION);
        known_layout::<DieTimesEntry>(LogId::DIE_TIMES, version, header.entry_bytes.get())?;
        let entries =
            (header.header_bytes.get(), header.entry_bytes.get(), header.entries.get().min(1 << 20));
        self.entries_of_set(LogId::DIE_TIMES, nvmsetid, entries)
    }

    /// The entries of a log of an NVM Set: `(bytes before them, bytes of each, how many)`. A drive may claim any number, so the caller has a
    /// limit. It is read in as few commands as possible: each shows another moment.
    fn entries_of_set<E: FromBytes>(
        &mut self,
        lid: LogId,
        nvmsetid: u16,
        (first, entry, count): (u16, u16, u32),
    ) -> Result<Vec<E>, Error> {
        let entry = usize::from(entry);
        // An entry is of one moment.
        let piece = (self.max_transfer().min(1 << 20) / entry * entry).max(entry);
        let read = self.part_of_log(lid, 0, nvmsetid, first.into(), count as usize * entry, piece)?;
        let entries = read.chunks_exact(entry).filter_map(|bytes| E::read_from_prefix(bytes).ok());
        Ok(entries.map(|(entry, _)| entry).collect())
    }
}
