//! The simulated drive of a plan: its namespaces, and how much of them the database may take.
//!
//! The drive has the profile's chips with shorter blocks ([`live::Config::shortened`]), so that its garbage collection is steady within seconds of virtual time.

use anyhow::{Context, Result, bail};
use database_models::innodb::Volume;
use live::Config;
use workload::on_zones::{Zones, ring};

use super::{
    database_model::Database,
    disk::{Behind, Disk},
    drive::{Beside, Drive},
    layouts::{Place, Plan},
    load::Load,
    neighbour::Neighbour,
};
use lab_report::figure::show_size;

/// Bytes that the shortened drive offers at least.
const MIN_DRIVE_BYTES: u64 = 16 << 30;
/// Bytes of the drive that the database takes at least, if there is so much: otherwise its pages and logs would be overwritten in the write buffer.
const MIN_DATABASE_BYTES: u64 = 8 << 30;
/// The database takes so many quarters of what holds data at most, if there is a neighbour.
const MAX_DATABASE_QUARTERS: u64 = 3;

/// What places need that are not the drive alone.
#[derive(Clone, Debug)]
pub struct Extras {
    /// What the neighbour does.
    pub neighbour: Neighbour,
    /// Bytes that it may write in a second, and read; without one, [`SHARE`] of what the chips can program.
    pub quota: Option<u64>,
    /// What the database may lie on in place of the drive.
    pub disk: Disk,
}

/// A neighbour's quota, if none is said: one part in so many of what the drive's chips can program.
const SHARE: u64 = 10;

/// A simulated drive, and who has what of it.
#[derive(Clone, Debug)]
pub struct SimulatedDrive {
    /// The drive.
    pub config: Config,
    /// Namespaces of the server: of the data, and beside it.
    pub nsids: &'static [u32],
    /// Bytes of the first namespace that the database with its logs may take.
    pub data: u64,
    /// Zones of the second namespace, if it is zoned: how many, and what they are.
    pub zones: Option<(u64, Zones)>,
    /// Who else is there.
    pub neighbour: Option<Guest>,
    /// What the database lies on, if that is not the drive; then a part of the drive may be a cache.
    pub behind: Option<Behind>,
}

/// A neighbour on the drive.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its namespace.
    pub nsid: u32,
    /// What it does.
    pub load: Neighbour,
    /// Bytes that it may write in a second, and read.
    pub quota: Option<u64>,
}

impl SimulatedDrive {
    /// The drive for a plan, with room for a database of so many bytes.
    ///
    /// # Errors
    /// The drive cannot be so, or has no room, with what would help.
    pub fn new(
        drive: &Drive,
        database: &dyn Database,
        plan: &Plan,
        load: &Load,
        extras: &Extras,
    ) -> Result<Self> {
        let atomic = plan.arrangement.atomic.then(|| database.page());
        let beside = match (plan.place, atomic) {
            (Place::Drive, None) => Beside::Memory(database.memory()),
            (Place::Zones, _) => Beside::Zones,
            _ => Beside::Nothing,
        };
        let whole = drive.config(atomic, beside)?;
        let full = first(&whole)?;
        let config = whole.shortened(MIN_DRIVE_BYTES).unwrap_or_else(|| whole.clone());
        let room = first(&config)?;
        // As large beside the drive as it is beside the whole one, with a tenth more for logs.
        let share = u128::from(room) * (u128::from(load.dataset) * 11 / 10) / u128::from(full.max(1));
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        let data = share.max(MIN_DATABASE_BYTES).min(room);
        let nsids: &[u32] = if beside == Beside::Nothing { &[1] } else { &[1, 2] };
        let mut ground = Self { config, nsids, data, zones: None, neighbour: None, behind: None };
        let dataset = load.dataset;
        match plan.place {
            Place::Drive => Ok(ground),
            Place::Zones => {
                let unlimited = Volume { blocks: u64::MAX / 4096, block_bytes: 4096 };
                let volumes = [Volume { blocks: data / 4096, ..unlimited }, unlimited];
                let streams = database.streams(load, plan.arrangement, volumes)?;
                ground.zoned(room, &streams).context("the logs cannot lie on zones of the drive")
            }
            Place::Disk { cache } => {
                ground.behind = Some(extras.disk.behind(database, load, data, cache)?);
                ground.caching(&whole)
            }
            Place::Shared { quota } => ground.shared(room, share, quota, extras).with_context(|| {
                format!("the database of {} leaves no room for a neighbour on the drive", show_size(dataset))
            }),
        }
    }

    /// Gives the logs zones: what they take is taken from the data's namespace.
    fn zoned(mut self, room: u64, streams: &[(u64, u64)]) -> Result<Self> {
        let set = self.config.ftl.sets.first().context("the drive has no NVM Set")?;
        let support = set.zone_support().context("its zones are turned off (zone.active = 0)")?;
        let blocks = |bytes: u64| bytes / 4096;
        let layout = Zones { size: blocks(support.size), capacity: blocks(support.capacity) };
        let zones: u64 = streams.iter().map(|&(_, bytes)| ring(blocks(bytes), layout)).sum();
        if streams.len() as u64 > u64::from(support.active) {
            bail!("they want {} active zones, and it has {}", streams.len(), support.active);
        }
        let taken = zones.saturating_mul(support.capacity.next_multiple_of(1 << 20));
        let logs: u64 = streams.iter().map(|stream| stream.1).sum();
        if taken > room / 2 || logs > self.data / 2 {
            let each = show_size(support.capacity);
            bail!(
                "they want {zones} zones of {each} each, more than half of what holds data: name a larger --drive, or one with smaller zones"
            );
        }
        let [namespace, ..] = &mut self.config.namespaces[..] else { bail!("the drive has no namespace") };
        namespace.bytes = (room - taken) >> 20 << 20;
        self.data = (self.data - logs).min(namespace.bytes);
        self.config.check().context("the drive with a smaller namespace")?;
        (self.nsids, self.zones) = (&[1, 2], Some((zones, layout)));
        Ok(self)
    }

    /// Makes the drive long enough for the cache, if there is one. It lies whole on it, and not folded.
    fn caching(mut self, whole: &Config) -> Result<Self> {
        let Some(sizes) = self.behind.as_ref().and_then(|behind| behind.cache) else { return Ok(self) };
        let wanted = sizes.cache + sizes.metadata;
        let has = first(&self.config)?;
        if has < wanted {
            // The namespace keeps its share of the drive.
            let longer = u128::from(MIN_DRIVE_BYTES) * u128::from(wanted) * 11 / 10 / u128::from(has.max(1));
            let longer = u64::try_from(longer).unwrap_or(u64::MAX);
            self.config = whole.shortened(longer).unwrap_or_else(|| whole.clone());
        }
        let has = first(&self.config)?;
        if has < wanted {
            bail!(
                "the cache of {} does not fit on what holds data of the drive: name a smaller --cache-size, a larger --drive or more of --used",
                show_size(sizes.cache)
            );
        }
        Ok(self)
    }

    /// Gives a neighbour what the database does not take.
    fn shared(mut self, room: u64, share: u64, quota: bool, extras: &Extras) -> Result<Self> {
        let most = room / 4 * MAX_DATABASE_QUARTERS;
        if share > most {
            bail!(
                "it takes more than three quarters of what holds data: name a smaller --dataset, a larger --drive or more of --used"
            );
        }
        self.data = (self.data.min(most) >> 20 << 20).max(1 << 20);
        let [namespace, ..] = &mut self.config.namespaces[..] else { bail!("the drive has no namespace") };
        let mut other = *namespace;
        namespace.bytes = self.data;
        other.bytes = (room - self.data) >> 20 << 20;
        self.config.namespaces.push(other);
        self.config.check().context("the drive with two namespaces")?;
        let chips = self.config.ftl.sets.first().context("the drive has no NVM Set")?.properties();
        let nanos = u128::from(chips.overwrite_time.0.max(1));
        let programs = u128::from(chips.raw_pages) * 4096 * 1_000_000_000 / nanos;
        let usual = u64::try_from(programs / u128::from(SHARE)).unwrap_or(u64::MAX);
        let quota = quota.then(|| extras.quota.unwrap_or(usual).max(1));
        self.neighbour = Some(Guest { nsid: 2, load: extras.neighbour.clone(), quota });
        Ok(self)
    }
}

/// Bytes of the first namespace.
fn first(config: &Config) -> Result<u64> {
    Ok(config.namespaces.first().context("the drive has no namespace")?.bytes)
}
