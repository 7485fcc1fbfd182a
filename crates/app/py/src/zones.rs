//! Zones of a live drive.

use host::{IoQueue, Queue, Zoned, Zones, namespace_create};
use nvme::{
    Csi, NSID_ALL, Nsid, U32,
    identify::{Znsco, ZonedCreate, ZonedNamespace},
    zone::{ZoneDescriptor, ZoneReportFilter, ZoneSendAction, ZoneState},
};
use pyo3::{buffer::PyBuffer, exceptions::PyValueError, prelude::*, types::PyBytes};

use crate::{
    integer::Whole,
    live::{Connection, LiveDrive, format_of},
};

/// States by the names that Python has for them.
const STATES: [(&str, ZoneState, ZoneReportFilter); 7] = [
    ("empty", ZoneState::EMPTY, ZoneReportFilter::EMPTY),
    ("implicitly-opened", ZoneState::IMPLICITLY_OPENED, ZoneReportFilter::IMPLICITLY_OPENED),
    ("explicitly-opened", ZoneState::EXPLICITLY_OPENED, ZoneReportFilter::EXPLICITLY_OPENED),
    ("closed", ZoneState::CLOSED, ZoneReportFilter::CLOSED),
    ("full", ZoneState::FULL, ZoneReportFilter::FULL),
    ("read-only", ZoneState::READ_ONLY, ZoneReportFilter::READ_ONLY),
    ("offline", ZoneState::OFFLINE, ZoneReportFilter::OFFLINE),
];

const ACTIONS: [(&str, ZoneSendAction); 5] = [
    ("open", ZoneSendAction::OPEN),
    ("close", ZoneSendAction::CLOSE),
    ("finish", ZoneSendAction::FINISH),
    ("reset", ZoneSendAction::RESET),
    ("offline", ZoneSendAction::OFFLINE),
];

/// A zone: its number, first block, write pointer, blocks that can be written, and state. Then four flags: it has a Zone Random Write Area, the drive finished it,
/// recommends to finish it, recommends to reset it. Last its descriptor extension, if it has one.
type ZoneRow<'py> =
    (u64, u64, Option<u64>, u64, &'static str, bool, bool, bool, bool, Option<Bound<'py, PyBytes>>);
/// What a zoned namespace is: zones, blocks from one to the next, bytes of a block, bytes of an extension, most active zones, most open ones, blocks of an append at most; and
/// of its areas how many, their blocks, the blocks that are committed together, and whether that can be asked for.
type ShapeRow = (u64, u64, u32, u32, Option<u32>, Option<u32>, u32, Option<(u32, u32, u32, bool)>);

/// The zones of a namespace.
#[pyclass(frozen, module = "tranche")]
pub struct LiveZones {
    drive: Py<LiveDrive>,
    nsid: Nsid,
}

/// The first logical block of a zone.
fn start(ns: &Zoned, zone: u64) -> Result<u64, host::Error> {
    let (zones, nsid) = (ns.zones(), ns.namespace.nsid);
    if zone >= zones {
        let why = format!("there is no zone {zone}: namespace {nsid} has {zones}, and the first is 0");
        return Err(host::Error::Usage(why));
    }
    Ok(zone * ns.zone_blocks)
}

fn look<Q: Queue>(queue: &mut IoQueue<Q>, ns: &Zoned, start: u64) -> Result<ZoneDescriptor, host::Error> {
    let zones = queue.report_zones(ns, start, ZoneReportFilter::ALL, 1)?;
    zones.first().copied().ok_or_else(|| host::Error::Usage("the drive reports no zone there".into()))
}

fn named<T: Copy>(what: &str, name: &str, mut all: impl Iterator<Item = (&'static str, T)>) -> PyResult<T> {
    let found = all.find(|(known, _)| *known == name).map(|(_, value)| value);
    found.ok_or_else(|| PyValueError::new_err(format!("no {what} {name:?}")))
}

fn row<'py>(py: Python<'py>, ns: &Zoned, zone: &ZoneDescriptor, extension: &[u8]) -> ZoneRow<'py> {
    let start = zone.zslba.get();
    let state = STATES.iter().find(|(_, state, _)| *state == zone.state());
    (
        start / ns.zone_blocks,
        start,
        zone.write_pointer(),
        zone.zcap.get(),
        state.map_or("unknown", |(name, ..)| name),
        zone.za.zrwav(),
        zone.za.zfc(),
        zone.za.fzr(),
        zone.za.rzr(),
        zone.za.zdev().then(|| PyBytes::new(py, extension)),
    )
}

impl LiveZones {
    /// Does this with the namespace as it is now.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Connection, &Zoned) -> Result<T, host::Error> + Send,
    ) -> PyResult<T> {
        self.drive.get().ask(py, |connection| {
            let ns = connection.host.zoned_namespace(self.nsid)?;
            work(connection, &ns)
        })
    }
}

/// The first LBA format that zones can have.
fn first_format(zoned: &ZonedNamespace) -> u8 {
    let first = zoned.lbafe.iter().position(|extension| extension.zsze.get() > 0);
    first.and_then(|first| u8::try_from(first).ok()).unwrap_or(0)
}

#[pymethods]
impl LiveZones {
    #[new]
    fn new(drive: Py<LiveDrive>, nsid: Whole<Nsid>) -> PyResult<Self> {
        let nsid = nsid.named("nsid")?;
        Ok(Self { drive, nsid })
    }

    /// Creates a zoned namespace.
    #[staticmethod]
    #[pyo3(signature = (drive, size, *, block_size, nvm_set, max_active, max_open, areas))]
    #[expect(clippy::too_many_arguments, reason = "options that Python names")]
    fn create(
        py: Python<'_>,
        drive: Py<LiveDrive>,
        size: Whole<u64>,
        block_size: Option<Whole<u32>>,
        nvm_set: Whole<u16>,
        max_active: Whole<u32>,
        max_open: Whole<u32>,
        areas: Whole<u32>,
    ) -> PyResult<Nsid> {
        let size = size.named("size")?;
        let block_size = Whole::maybe(block_size, "block_size")?;
        let nvm_set = nvm_set.named("nvm_set")?;
        let max_active = max_active.named("max_active")?;
        let max_open = max_open.named("max_open")?;
        let areas = areas.named("areas")?;
        if max_active > 0 && max_open.max(areas) > max_active {
            let why = format!("max_open={max_open} and areas={areas} are at most max_active={max_active}");
            return Err(PyValueError::new_err(why));
        }
        drive.get().ask(py, |Connection { host, .. }| {
            if !host.has_zones()? {
                return Err(host::Error::Usage("this drive has no zones".into()));
            }
            let index = match block_size {
                Some(bytes) => format_of(host, bytes)?,
                None => first_format(&host.identify_zoned_namespace(NSID_ALL)?),
            };
            let common = host.identify_namespace(NSID_ALL)?;
            let format = common.lbaf.get(usize::from(index));
            let block = u64::from(format.and_then(|format| format.data_bytes()).unwrap_or(0));
            if size == 0 || block == 0 || !size.is_multiple_of(block) {
                let why = format!("{size} bytes are no whole number of blocks of {block}");
                return Err(host::Error::Usage(why));
            }
            let mut create = namespace_create(size / block, index, nvm_set);
            create.set_zoned(&ZonedCreate {
                znsco: Znsco::new().with_azr(areas > 0),
                rar: U32::new(max_active),
                ror: U32::new(max_open),
                rnumzrwa: U32::new(areas),
            });
            host.create_namespace_of(Csi::ZONED, &create)
        })
    }

    fn shape(&self, py: Python<'_>) -> PyResult<ShapeRow> {
        self.ask(py, |_, ns| {
            let areas = ns
                .zrwa
                .map(|area| (area.resources, area.blocks, area.flush_granularity, area.explicit_flush));
            let space = &ns.namespace;
            Ok((
                ns.zones(),
                ns.zone_blocks,
                space.block_size,
                ns.extension_bytes,
                ns.max_active,
                ns.max_open,
                space.limits.append,
                areas,
            ))
        })
    }

    #[pyo3(signature = (*, state, first, count))]
    fn report<'py>(
        &self,
        py: Python<'py>,
        state: Option<&str>,
        first: Whole<u64>,
        count: Option<Whole<usize>>,
    ) -> PyResult<Vec<ZoneRow<'py>>> {
        let first = first.named("first")?;
        let count = Whole::maybe(count, "count")?;
        let filters = STATES.iter().map(|(name, _, filter)| (*name, *filter));
        let filter = state.map_or(Ok(ZoneReportFilter::ALL), |state| named("state", state, filters))?;
        let most = count.unwrap_or(usize::MAX);
        let (ns, zones) = self.ask(py, |Connection { queue, .. }, ns| {
            let from = start(ns, first)?;
            let zones = match ns.extension_bytes {
                0 => {
                    queue.report_zones(ns, from, filter, most)?.into_iter().map(|z| (z, Vec::new())).collect()
                }
                _ => queue.report_zones_extended(ns, from, filter, most)?,
            };
            Ok((*ns, zones))
        })?;
        Ok(zones.iter().map(|(zone, extension)| row(py, &ns, zone, extension)).collect())
    }

    /// Changes the state of a zone, or of all where that leads somewhere.
    fn manage(&self, py: Python<'_>, action: &str, zone: Option<Whole<u64>>) -> PyResult<()> {
        let zone = Whole::maybe(zone, "zone")?;
        let action = named("action", action, ACTIONS.into_iter())?;
        self.ask(py, |Connection { queue, .. }, ns| {
            let zones = match zone {
                Some(zone) => Zones::One(start(ns, zone)?),
                None => Zones::All,
            };
            queue.manage_zones(self.nsid, action, zones)
        })
    }

    fn open_with_area(&self, py: Python<'_>, zone: Whole<u64>) -> PyResult<()> {
        let zone = zone.named("zone")?;
        self.ask(py, |Connection { queue, .. }, ns| queue.open_zone_with_zrwa(self.nsid, start(ns, zone)?))
    }

    /// Commits the area up to so many blocks of the zone, or as far as it goes. The write pointer then.
    fn flush_area(&self, py: Python<'_>, zone: Whole<u64>, to: Option<Whole<u64>>) -> PyResult<Option<u64>> {
        let zone = zone.named("zone")?;
        let to = Whole::maybe(to, "to")?;
        self.ask(py, |Connection { queue, .. }, ns| {
            let start = start(ns, zone)?;
            let now = look(queue, ns, start)?;
            let Some(area) = ns.zrwa.filter(|_| now.za.zrwav()) else {
                let why = format!("zone {zone} is {}, and has no Zone Random Write Area", now.state());
                return Err(host::Error::Usage(why));
            };
            let end = match (to, now.write_pointer()) {
                (Some(to), _) => start.saturating_add(to),
                (None, Some(pointer)) => (pointer + u64::from(area.blocks)).min(start + now.zcap.get()),
                (None, None) => start,
            };
            if end <= start {
                return Err(host::Error::Usage("an area is committed to block 1 or further".into()));
            }
            queue.flush_zrwa(self.nsid, end - 1)?;
            Ok(look(queue, ns, start)?.write_pointer())
        })
    }

    /// Appends whole blocks. The first block that they went to.
    fn append(&self, py: Python<'_>, zone: Whole<u64>, data: PyBuffer<u8>) -> PyResult<u64> {
        let zone = zone.named("zone")?;
        let data = data.to_vec(py)?;
        self.ask(py, |Connection { queue, .. }, ns| queue.append(ns, start(ns, zone)?, &data))
    }

    fn set_extension(&self, py: Python<'_>, zone: Whole<u64>, extension: &[u8]) -> PyResult<()> {
        let zone = zone.named("zone")?;
        self.ask(py, |Connection { queue, .. }, ns| {
            let start = start(ns, zone)?;
            queue.set_zone_extension(ns, start, extension)
        })
    }

    /// Zones that the drive changed by itself since this was asked last; none if they are too many to list.
    fn changed(&self, py: Python<'_>) -> PyResult<Option<Vec<u64>>> {
        self.ask(py, |Connection { host, .. }, ns| {
            let changed = host.changed_zones(self.nsid)?;
            Ok(changed.map(|zones| zones.iter().map(|first| first / ns.zone_blocks).collect()))
        })
    }
}
