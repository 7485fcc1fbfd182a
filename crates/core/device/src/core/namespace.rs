//! Namespaces and who may see them.

use super::held_queue::NamespaceArbitration;
use crate::keys::wrapped::WrappedKey;
use crate::quota::quotas::Quotas;
use crate::reservation::registrants::Reservations;
use crate::stats::counts::{NamespaceStats, Traffic};
use drive_config::LbaFormat;
use drive_config::protection::Protection;
use ftl::{SetId, VolumeId, ZoneLayout};
use nvme::{Csi, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which hosts a namespace is attached for. Namespace Attachment names controllers; the choice is
/// remembered for the hosts behind them, so that a host's later controllers see the same namespaces.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AttachmentPolicy {
    /// For hosts that are not listed.
    pub all: bool,
    /// By host NQN, what was chosen for that host.
    pub hosts: BTreeMap<String, bool>,
}

impl AttachmentPolicy {
    /// Whether a new controller of this host gets the namespace, if that was chosen.
    pub fn chosen(&self, host: &str) -> Option<bool> {
        self.hosts.get(host).copied()
    }

    /// Remembers a choice, unless it is the usual one for this host.
    pub fn set(&mut self, host: &str, attached: bool, usual: bool) {
        if attached == usual {
            self.hosts.remove(host);
        } else {
            self.hosts.insert(host.to_owned(), attached);
        }
    }
}

/// One namespace. Its identifier is its place in the table, from 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Namespace {
    pub volume: VolumeId,
    pub set: SetId,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Index into the drive's LBA formats.
    pub format: u8,
    /// Logical block size as a power of two.
    pub shift: u8,
    /// Whether more than one controller may have it attached (NMIC).
    pub shared: bool,
    pub nguid: [u8; 16],
    pub uuid: [u8; 16],
    pub policy: AttachmentPolicy,
    /// Host traffic before this power cycle; what is saved is [`traffic`](Namespace::traffic).
    #[serde(default, rename = "traffic", skip_serializing)]
    pub before: Traffic,
    #[serde(default)]
    pub quota: Quotas,
    #[serde(skip)]
    pub arbitration: NamespaceArbitration,
    /// Protection Information Type: 0 none, 1 to 3.
    #[serde(default)]
    pub protection_type: u8,
    /// Protection information at the beginning of the metadata, else at its end.
    #[serde(default)]
    pub protection_first: bool,
    /// Metadata travels in a buffer of its own (FLBAS bit 4 is 0), else behind each block's data. It is stored in one way.
    #[serde(default)]
    pub separate_metadata: bool,
    /// Logical Block Storage Tag Mask.
    #[serde(default)]
    pub storage_mask: u64,
    /// The stamp of its slots since blocks were marked uncorrectable; 0 if none were since the last format.
    #[serde(default)]
    pub stamp: u32,
    /// What its blocks are encrypted with; without, they are stored as they are.
    #[serde(default)]
    pub key: Option<WrappedKey>,
    /// Its key cannot be opened: nothing that touches blocks is done.
    #[serde(skip)]
    pub locked: bool,
    /// What its format says, beside the size of blocks.
    #[serde(skip)]
    pub layout: FormatLayout,
    /// Its zones, if it is zoned: what the translation layer has of them.
    #[serde(skip)]
    pub zones: Option<ZoneLayout>,
    /// None while no host is registered and nothing is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservations: Option<Box<Reservations>>,
    /// Reclaim unit handles, by placement handle; none without Flexible Data Placement.
    #[serde(default)]
    pub handles: Vec<u8>,
    /// Whether the controller chose them.
    #[serde(default)]
    pub handles_by_controller: bool,
    #[serde(skip)]
    pub stats: Box<NamespaceStats>,
    /// Pages that were lost, as far as controllers were told.
    #[serde(skip)]
    pub losses: u64,
    /// Commands on their way.
    #[serde(skip)]
    pub in_flight: u32,
    #[serde(skip)]
    pub admission: Admission,
    /// Tells the namespace from all that had its identifier before, and from itself before a Format. [`Namespaces`] gives it.
    #[serde(skip)]
    pub generation: u64,
}

/// Whether a namespace takes commands.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Admission {
    #[default]
    Open,
    /// A delete or a format waits until the commands on their way have ended.
    Draining,
    /// A format is under way.
    Formatting,
    /// A delete is under way.
    Deleting,
}

impl Admission {
    /// Why a command is refused. Another try may not meet it.
    #[cold]
    pub fn refusal(self) -> Status {
        if self == Admission::Formatting { Status::FORMAT_IN_PROGRESS } else { Status::NAMESPACE_NOT_READY }
    }

    /// Whether a format or a delete is under way.
    pub fn is_changing(self) -> bool {
        matches!(self, Admission::Formatting | Admission::Deleting)
    }
}

/// What follows from a namespace's format.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct FormatLayout {
    /// Whether its blocks are more than plain bytes of pages: commands on them have a transform.
    pub transformed: bool,
    /// Bytes of metadata of a block.
    pub metadata: u8,
    /// There is metadata, and it travels in a buffer of its own.
    pub separate: bool,
    pub protection: Option<Protection>,
    /// The format is one that hosts must have enabled (LBAFEE).
    pub extended: bool,
}

impl FormatLayout {
    /// Bytes of metadata that travel with each block's data: none if the controller inserts and strips all there is.
    #[inline]
    pub fn host_metadata(&self, pract: bool) -> u8 {
        let stripped = |p: Protection| pract && usize::from(self.metadata) == p.guard.bytes();
        if self.protection.is_some_and(stripped) { 0 } else { self.metadata }
    }
}

impl Namespace {
    /// Takes over a format, and what is derived from it.
    pub fn set_format(&mut self, index: u8, format: LbaFormat) {
        self.format = index;
        self.shift = format.shift();
        self.layout = FormatLayout {
            transformed: format.metadata > 0 || self.stamp != 0 || self.key.is_some(),
            metadata: format.metadata,
            separate: self.separate_metadata && format.metadata > 0,
            protection: (self.protection_type != 0).then_some(Protection {
                kind: self.protection_type,
                guard: format.guard,
                storage_bits: format.storage_bits,
                storage_mask: self.storage_mask & drive_config::protection::low(format.storage_bits),
                first: self.protection_first,
            }),
            extended: format.extension() != 0,
        };
    }

    /// Its I/O command set.
    #[inline]
    pub fn csi(&self) -> Csi {
        if self.zones.is_some() { Csi::ZONED } else { Csi::NVM }
    }

    /// Bytes of its volume: whole pages.
    pub fn volume_bytes(&self) -> u64 {
        self.bytes.next_multiple_of(ftl::PAGE.into())
    }

    /// Host traffic since the namespace was created. (Unaligned commands are not counted.)
    pub fn traffic(&self) -> Traffic {
        let s = &self.stats;
        self.before.and(Traffic {
            read_bytes: s.read_bytes,
            written_bytes: s.written_bytes,
            reads: s.reads,
            writes: s.writes,
            media_errors: s.media_errors,
            unaligned: 0,
        })
    }

    /// The reclaim unit handle of a placement handle; those of namespaces without any are all 0.
    #[inline]
    pub fn handle(&self, placement: u16) -> Option<u8> {
        self.handles.get(usize::from(placement)).copied()
    }

    /// Size in logical blocks (NSZE).
    #[inline]
    pub fn blocks(&self) -> u64 {
        self.bytes >> self.shift
    }
}

/// All namespaces of the subsystem.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    table: Vec<Option<Namespace>>,
    /// The generation that was given last.
    generations: u64,
}

impl Namespaces {
    /// Room for `count` namespaces.
    pub fn new(count: u32) -> Namespaces {
        Namespaces { table: (0..count).map(|_| None).collect(), generations: 0 }
    }

    /// The highest valid identifier (NN).
    pub fn count(&self) -> u32 {
        u32::try_from(self.table.len()).unwrap_or(u32::MAX)
    }

    /// Whether an identifier is valid: one that a namespace has or could have.
    pub fn is_valid(&self, nsid: u32) -> bool {
        nsid != 0 && nsid <= self.count()
    }

    /// The namespace with this identifier, if it is allocated.
    #[inline]
    pub fn get(&self, nsid: u32) -> Option<&Namespace> {
        self.table.get((nsid as usize).wrapping_sub(1))?.as_ref()
    }

    /// The namespace with this identifier, if it is allocated.
    #[inline]
    pub fn get_mut(&mut self, nsid: u32) -> Option<&mut Namespace> {
        self.table.get_mut((nsid as usize).wrapping_sub(1))?.as_mut()
    }

    /// The I/O command set of a namespace. One that does not exist is taken to be of the NVM Command Set.
    #[inline]
    pub fn csi(&self, nsid: u32) -> Csi {
        self.get(nsid).map_or(Csi::NVM, Namespace::csi)
    }

    /// The lowest free identifier.
    pub fn free(&self) -> Option<u32> {
        let index = self.table.iter().position(Option::is_none)?;
        u32::try_from(index + 1).ok()
    }

    /// Puts a namespace at an identifier that is valid. It gets a generation.
    pub fn insert(&mut self, nsid: u32, namespace: Namespace) {
        if let Some(place) = self.table.get_mut((nsid as usize).wrapping_sub(1)) {
            *place = Some(namespace);
        }
        self.renew(nsid);
    }

    /// Gives a namespace another generation: what hosts know of it holds no more.
    pub fn renew(&mut self, nsid: u32) {
        self.generations += 1;
        let generation = self.generations;
        if let Some(namespace) = self.get_mut(nsid) {
            namespace.generation = generation;
        }
    }

    /// Takes a namespace away.
    pub fn remove(&mut self, nsid: u32) -> Option<Namespace> {
        self.table.get_mut((nsid as usize).wrapping_sub(1))?.take()
    }

    /// All allocated namespaces, by identifier.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        (1..).zip(&self.table).filter_map(|(nsid, ns)| Some((nsid, ns.as_ref()?)))
    }

    /// All allocated namespaces, by identifier.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Namespace)> {
        (1..).zip(&mut self.table).filter_map(|(nsid, ns)| Some((nsid, ns.as_mut()?)))
    }

    /// Identifiers of all allocated namespaces, in order.
    pub fn ids(&self) -> Vec<u32> {
        self.iter().map(|(nsid, _)| nsid).collect()
    }
}

/// Globally unique identifiers for the `serial`th namespace that a drive ever had: from the drive's own
/// name, so that the same drive makes the same ones, and no two drives of different serial number do.
/// NGUID is a UUID of version 8 (RFC 9562, vendor specific) in the same bytes, so that both agree.
pub(crate) fn identifiers((drive, mark): (&str, u64), serial: u64) -> [u8; 16] {
    let mut state = [0xCBF2_9CE4_8422_2325u64, 0x9E37_79B9_7F4A_7C15];
    // Drives from before there were marks have none.
    let mark = mark.to_le_bytes().into_iter().take(if mark == 0 { 0 } else { 8 });
    let name = drive.bytes().chain(serial.to_le_bytes()).chain(mark);
    for (i, byte) in name.enumerate() {
        let half = &mut state[i % 2];
        *half = (*half ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    }
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let low = mix(state[0] ^ state[1].rotate_left(32));
    let high = mix(state[1].wrapping_add(low));
    let mut id = [0; 16];
    id[..8].copy_from_slice(&high.to_be_bytes());
    id[8..].copy_from_slice(&low.to_be_bytes());
    id[6] = id[6] & 0x0F | 0x80;
    id[8] = id[8] & 0x3F | 0x80;
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_remembers_exceptions_only() {
        let mut p = AttachmentPolicy { all: true, ..AttachmentPolicy::default() };
        p.set("a", false, true);
        assert_eq!((p.chosen("a"), p.chosen("b")), (Some(false), None));
        p.set("a", true, true);
        assert_eq!((p.chosen("a"), p.hosts.len()), (None, 0));
        p.set("a", true, false);
        assert_eq!(p.chosen("a"), Some(true));
    }

    #[test]
    fn identifiers_differ() {
        let mut all: Vec<_> = (0..1000).map(|i| identifiers(("S1", 0), i)).collect();
        all.extend((0..1000).map(|i| identifiers(("S2", 0), i)));
        all.extend((1..1000).map(|mark| identifiers(("S1", mark), 0)));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2999);
    }
}
