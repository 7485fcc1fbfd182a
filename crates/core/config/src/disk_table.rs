//! A hard disk in a drive's TOML: `[[set]]` with `media = "disk"`.

use crate::config_error::ConfigError;
use crate::quantity::{Rate, Size, Time};
use ftl::{GRANULE_PAGES, PAGE, SetConfig};
use media::Nanos;
use media::disk::cache::{CacheConfig, Extent, ReadAhead};
use media::disk::drive::Scheduling;
use media::disk::shape::{DiskShape, SeekTimes};
use serde::Deserialize;
use units::format_size;

/// The keys. Those that are left out have the defaults that `docs/drive-toml.md` names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiskTable {
    capacity: Option<Size>,
    rpm: u32,
    heads: u32,
    cylinders: u32,
    #[serde(default = "default_zones")]
    zones: u32,
    outer_sectors: u32,
    inner_sectors: u32,
    #[serde(default = "default_sector")]
    sector: Size,
    read_seek: [Time; 3],
    write_seek: Option<[Time; 3]>,
    head_switch: Option<Time>,
    write_head_switch: Option<Time>,
    #[serde(default = "no_time")]
    overhead: Time,
    link: Option<Rate>,
    #[serde(default)]
    buffer: BufferTable,
    #[serde(default)]
    queue: Queue,
    #[serde(default = "default_age")]
    age: u32,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BufferTable {
    segments: u32,
    read_ahead: Ahead,
    extent: Reach,
    write_cache: bool,
    write_size: Size,
}

impl Default for BufferTable {
    fn default() -> Self {
        BufferTable {
            segments: 16,
            read_ahead: Ahead::Sequential,
            extent: Reach::Track,
            write_cache: false,
            write_size: Size(1 << 20),
        }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Ahead {
    Off,
    Always,
    Sequential,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Reach {
    Track,
    NextTrack,
    Cylinder,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "lowercase")]
enum Queue {
    Fcfs,
    #[default]
    Sptf,
}

fn default_zones() -> u32 {
    16
}

fn default_sector() -> Size {
    Size(512)
}

fn no_time() -> Time {
    Time(Nanos::ZERO)
}

/// A 64th of the wait: with more, a long queue is served in the order in which it came.
fn default_age() -> u32 {
    4
}

fn seek([track, average, full]: [Time; 3]) -> SeekTimes {
    SeekTimes { track: track.0, average: average.0, full: full.0 }
}

impl DiskTable {
    /// Bytes of writes that capacitors save.
    pub(crate) fn volatile_bytes(&self) -> u64 {
        if self.buffer.write_cache { self.buffer.write_size.0 } else { 0 }
    }

    /// The set.
    pub(crate) fn build(&self, key: impl Fn(&str) -> String) -> Result<SetConfig, ConfigError> {
        let sector_bytes = u32::try_from(self.sector.0).unwrap_or(u32::MAX);
        if ![512, 4096].contains(&sector_bytes) {
            return Err(ConfigError::value(key("sector"), format_size(self.sector.0), "512 or 4096"));
        }
        let write = self.buffer.write_size.0;
        if !write.is_multiple_of(sector_bytes.into()) || write == 0 {
            let rule = "a multiple of the sector, and not 0";
            return Err(ConfigError::value(key("buffer.write_size"), format_size(write), rule));
        }
        let head_switch = self.head_switch.map_or(self.read_seek[0].0, |t| t.0);
        let shape = DiskShape {
            rpm: self.rpm,
            heads: self.heads,
            cylinders: self.cylinders,
            zones: self.zones,
            outer_sectors: self.outer_sectors,
            inner_sectors: self.inner_sectors,
            sector_bytes,
            read_seek: seek(self.read_seek),
            write_seek: seek(self.write_seek.unwrap_or(self.read_seek)),
            head_switch: [head_switch, self.write_head_switch.map_or(head_switch, |t| t.0)],
            overhead: self.overhead.0,
            link: self.link.map_or(0, |rate| rate.0),
            cache: self.cache(),
            write_cache: self.buffer.write_cache,
            write_buffer: write / u64::from(sector_bytes),
            scheduling: match self.queue {
                Queue::Fcfs => Scheduling::Fcfs,
                Queue::Sptf => Scheduling::Sptf { age: self.age },
            },
        };
        if shape.check().is_err() {
            // Told where the set is checked.
            return Ok(SetConfig::Disk { shape, capacity_pages: GRANULE_PAGES, timed: true });
        }
        let bytes = shape.sectors().saturating_mul(sector_bytes.into());
        let granule = u64::from(GRANULE_PAGES) * u64::from(PAGE);
        let capacity = self.capacity.map_or(bytes, |size| size.0);
        if capacity > bytes {
            let rule =
                format!("at most {}, which these heads, cylinders and sectors make", format_size(bytes));
            return Err(ConfigError::value(key("capacity"), format_size(capacity), rule));
        }
        let pages = capacity / granule * u64::from(GRANULE_PAGES);
        let capacity_pages = u32::try_from(pages)
            .ok()
            .filter(|&pages| pages > 0)
            .ok_or_else(|| ConfigError::value(key("capacity"), format_size(capacity), "1MiB to 16TiB"))?;
        Ok(SetConfig::Disk { shape, capacity_pages, timed: true })
    }

    fn cache(&self) -> CacheConfig {
        CacheConfig {
            segments: self.buffer.segments,
            read_ahead: match self.buffer.read_ahead {
                Ahead::Off => ReadAhead::Off,
                Ahead::Always => ReadAhead::Always,
                Ahead::Sequential => ReadAhead::Sequential,
            },
            extent: match self.buffer.extent {
                Reach::Track => Extent::Track,
                Reach::NextTrack => Extent::NextTrack,
                Reach::Cylinder => Extent::Cylinder,
            },
            ..CacheConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use ftl::SetConfig;

    const DISK: &str = r#"
[drive]
power_loss_protection = false
timing = true

[[set]]
media = "disk"
rpm = 15000
heads = 4
cylinders = 50000
outer_sectors = 1200
inner_sectors = 700
read_seek = ["0.2ms", "2.6ms", "5ms"]
"#;

    fn wrong(change: &str) -> String {
        Config::from_toml(&format!("{DISK}{change}\n")).expect_err("it cannot be").to_string()
    }

    #[test]
    fn a_disk_is_as_large_as_its_tracks() {
        let config = Config::from_toml(DISK).expect("a disk");
        let SetConfig::Disk { shape, capacity_pages, timed } = &config.ftl.sets[0] else { panic!("a disk") };
        let bytes = shape.sectors() * 512;
        assert!(*timed && bytes - u64::from(*capacity_pages) * 4096 < 1 << 20);
        assert_eq!(shape.write_seek, shape.read_seek);
        let smaller = Config::from_toml(&format!("{DISK}capacity = \"10GB\"\n")).expect("a smaller disk");
        assert_eq!(smaller.ftl.sets[0].capacity_pages(), 9536 * 256);
    }

    #[test]
    fn what_cannot_be_is_told_with_its_key() {
        assert!(wrong("capacity = \"1TB\"").contains("set.1.capacity"));
        assert!(wrong("capacity = \"10kB\"").contains("1MiB"));
        assert!(wrong("sector = 520").contains("set.1.sector"));
        assert!(wrong("write_seek = [\"3ms\", \"2ms\", \"9ms\"]").contains("write seeks"));
        assert!(wrong("zones = 0").contains("zones"));
        assert!(wrong("buffer = { write_cache = true, write_size = 100 }").contains("buffer.write_size"));
        assert!(wrong("queue = \"elevator\"").contains("sptf"));
        let torn = DISK.replace("timing = true", "timing = true\natomic_write = \"16KiB\"");
        let error = Config::from_toml(&torn).expect_err("a disk tears").to_string();
        assert!(error.contains("sector by sector"), "{error}");
    }
}
