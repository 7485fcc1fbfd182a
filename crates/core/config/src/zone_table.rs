//! The table `zone` of a NAND set in a drive's TOML.

use crate::config_error::ConfigError;
use crate::quantity::{Size, Time};
use ftl::{PAGE, ZoneAging, ZonesConfig, ZrwaLayout};
use media::Nanos;
use serde::Deserialize;
use units::format_size;

/// Most zones of a set that can be active at a time.
const MAX_ACTIVE: u32 = 4096;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The keys. Those that are left out have the defaults that `docs/drive-toml.md` names.
#[derive(Deserialize, Clone, Copy)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ZoneTable {
    dies: u32,
    active: u32,
    share: u32,
    size: Option<Size>,
    buffer: Option<Size>,
    zrwa: u32,
    zrwa_size: Size,
    zrwa_granularity: Size,
    finish_after: Option<Time>,
    excursion_after: Option<Time>,
    reset_after: Option<Time>,
    reset_limit: Option<Time>,
    finish_time: Option<Time>,
}

impl Default for ZoneTable {
    fn default() -> Self {
        // 14 is what the ZN540 allows, and what ZenFS needs.
        ZoneTable {
            dies: 0,
            active: 14,
            share: 14,
            size: None,
            buffer: None,
            zrwa: 0,
            zrwa_size: Size(256 << 10),
            zrwa_granularity: Size(4 << 10),
            finish_after: None,
            excursion_after: None,
            reset_after: None,
            reset_limit: None,
            finish_time: None,
        }
    }
}

impl ZoneTable {
    /// What a set without the table has: no zones.
    pub(crate) fn unset() -> ZoneTable {
        ZoneTable { active: 0, ..ZoneTable::default() }
    }

    /// The zones of a set of so many dies, with units of so many pages that are programmed in so much time.
    pub(crate) fn build(
        self,
        dies: u32,
        unit_pages: u32,
        program: Nanos,
        key: impl Fn(&str) -> String,
    ) -> Result<ZonesConfig, ConfigError> {
        if self.dies > 0 && !dies.is_multiple_of(self.dies) {
            let rule = format!("0 for all dies of the set, or a number that divides its {dies} dies");
            return Err(ConfigError::value(key("zone.dies"), self.dies, rule));
        }
        if self.active > MAX_ACTIVE {
            let rule = format!("0 to {MAX_ACTIVE} zones; 0 turns zones off");
            return Err(ConfigError::value(key("zone.active"), self.active, rule));
        }
        if self.active == 0 {
            return Ok(ZonesConfig { dies: self.dies, ..ZonesConfig::default() });
        }
        let (active, page) = (u64::from(self.active), u64::from(PAGE));
        let unit = u64::from(unit_pages) * page;
        let needed = active.saturating_mul(unit);
        let default = (active + 2 * u64::from(dies)).saturating_mul(unit);
        let bytes = self.buffer.map_or(default, |buffer| buffer.0);
        let pages =
            u32::try_from(bytes / page).ok().filter(|_| bytes.is_multiple_of(page) && bytes >= needed);
        // A default that is too large is of a set that cannot be, which is told elsewhere.
        let buffer_pages = match (pages, self.buffer) {
            (Some(pages), _) => pages,
            (None, None) => u32::MAX,
            (None, Some(_)) => {
                let rule = format!(
                    "a multiple of 4KiB, at least a program unit of {} for each of the {active} active zones: {}",
                    format_size(unit),
                    format_size(needed)
                );
                return Err(ConfigError::value(key("zone.buffer"), format_size(bytes), rule));
            }
        };
        let (share, size) = (self.share, self.distance(&key)?);
        let zrwa = self.areas(&key)?;
        let aging = self.aging(&key)?;
        let finish = self.finish_time.map_or(program, |time| time.0);
        Ok(ZonesConfig {
            dies: self.dies,
            active: self.active,
            share,
            size,
            buffer_pages,
            zrwa,
            aging,
            finish,
        })
    }

    /// What time does to zones.
    fn aging(&self, key: &impl Fn(&str) -> String) -> Result<ZoneAging, ConfigError> {
        let time = |name: &str, time: Option<Time>| match time.map(|time| time.0) {
            None => Ok(Nanos::ZERO),
            // NVMe counts these times in seconds, with 32 bits.
            Some(time)
                if time.0 > 0 && time.0.is_multiple_of(SECOND) && time.0 / SECOND <= u64::from(u32::MAX) =>
            {
                Ok(time)
            }
            Some(time) => Err(ConfigError::value(
                key(name),
                format!("{} ns", time.0),
                "whole seconds, from 1s to 2^32 s",
            )),
        };
        let aging = ZoneAging {
            finish_after: time("zone.finish_after", self.finish_after)?,
            excursion_after: time("zone.excursion_after", self.excursion_after)?,
            reset_after: time("zone.reset_after", self.reset_after)?,
            reset_limit: time("zone.reset_limit", self.reset_limit)?,
        };
        if aging.excursion_after.0 > 0 && aging.excursion_after < aging.finish_after {
            let given = format!("{} s", aging.excursion_after.0 / SECOND);
            let rule = format!("at least zone.finish_after, {} s", aging.finish_after.0 / SECOND);
            return Err(ConfigError::value(key("zone.excursion_after"), given, rule));
        }
        Ok(aging)
    }

    /// Bytes from one zone to the next; 0 if nothing is said.
    fn distance(&self, key: &impl Fn(&str) -> String) -> Result<u64, ConfigError> {
        let size = self.size.map_or(0, |size| size.0);
        match self.size.is_some() && (size == 0 || !size.is_multiple_of(PAGE.into())) {
            true => {
                Err(ConfigError::value(key("zone.size"), format_size(size), "a multiple of 4KiB, and not 0"))
            }
            false => Ok(size),
        }
    }

    /// The Zone Random Write Areas; `None` if there are none.
    fn areas(&self, key: &impl Fn(&str) -> String) -> Result<Option<ZrwaLayout>, ConfigError> {
        if self.zrwa == 0 {
            return Ok(None);
        }
        if self.zrwa > self.active {
            let rule = format!("at most the {} zones that can be active", self.active);
            return Err(ConfigError::value(key("zone.zrwa"), self.zrwa, rule));
        }
        let (page, size, granularity) = (u64::from(PAGE), self.zrwa_size.0, self.zrwa_granularity.0);
        // NVMe has 16 bits for each.
        let most = page * u64::from(u16::MAX);
        if granularity == 0 || granularity > most || !granularity.is_multiple_of(page) {
            let rule = "a multiple of 4KiB, and not 0";
            return Err(ConfigError::value(key("zone.zrwa_granularity"), format_size(granularity), rule));
        }
        if size == 0 || size > most || !size.is_multiple_of(granularity) {
            let rule = format!(
                "a multiple of zone.zrwa_granularity, {}, not 0 and at most {}",
                format_size(granularity),
                format_size(most / granularity * granularity)
            );
            return Err(ConfigError::value(key("zone.zrwa_size"), format_size(size), rule));
        }
        let (pages, granularity) = ((size / page) as u32, (granularity / page) as u32);
        Ok(Some(ZrwaLayout { pages, granularity, max: self.zrwa }))
    }
}

#[cfg(test)]
mod tests {
    use super::SECOND;
    use crate::Config;
    use ftl::{SetConfig, ZoneAging, ZonesConfig, ZrwaLayout};
    use media::Nanos;

    const DRIVE: &str = "[drive]\nwrite_buffer = \"1MiB\"\nDRIVE\n[[set]]\nmedia = \"nand\"\ncell = \"tlc\"\ncapacity = \"1GiB\"\n\
        spare = \"12.5%\"\nchannels = 1\ndies = 4\nplanes = 1\nnand_page = \"16KiB\"\npages_per_block = 24\nrated_cycles = 3000\nSET\n";

    /// The zones of a set with program units of 48 KiB on four dies, and the energy.
    fn zones(drive: &str, set: &str) -> Result<(ZonesConfig, u64), String> {
        let text = DRIVE.replace("DRIVE", drive).replace("SET", set);
        let config = Config::from_toml(&text).map_err(|e| e.to_string())?;
        let SetConfig::Nand { zones, .. } = config.ftl.sets[0] else { panic!("the set is NAND") };
        Ok((zones, config.ftl.energy_bytes))
    }

    #[test]
    fn zones_have_defaults_that_the_energy_includes() {
        let (unit, mib) = (48 << 10, 1 << 20);
        let share = |active| if active > 0 { 14 } else { 0 };
        let made = |dies, active, buffer_pages| ZonesConfig {
            dies,
            active,
            share: share(active),
            buffer_pages,
            ..ZonesConfig::default()
        };
        let of_units = |units: u32| units * 12;
        assert_eq!(zones("", ""), Ok((made(0, 0, 0), mib)));
        assert_eq!(zones("", "zone = {}"), Ok((made(0, 14, of_units(14 + 8)), mib + 22 * unit)));
        assert_eq!(zones("", "zone = { active = 0 }"), Ok((made(0, 0, 0), mib)));
        assert_eq!(
            zones("", "zone = { dies = 2, active = 3 }"),
            Ok((made(2, 3, of_units(11)), mib + 11 * unit))
        );
        assert_eq!(
            zones("", "zone = { active = 2, buffer = \"96KiB\" }"),
            Ok((made(0, 2, 24), mib + 2 * unit))
        );
        assert_eq!(zones("energy = \"1MiB\"", ""), Ok((made(0, 0, 0), mib)));
        // Areas take energy, too.
        let zrwa = ZrwaLayout { pages: 32, granularity: 4, max: 3 };
        let (with, energy) =
            zones("", "zone = { zrwa = 3, zrwa_size = \"128KiB\", zrwa_granularity = \"16KiB\" }").unwrap();
        assert_eq!(with, ZonesConfig { zrwa: Some(zrwa), ..made(0, 14, of_units(22)) });
        assert_eq!(energy, mib + 22 * unit + 3 * (128 << 10));
        let (with, _) =
            zones("", "zone = { zrwa = 14, share = 0, size = \"2MiB\", finish_after = \"60s\" }").unwrap();
        let aging = ZoneAging { finish_after: Nanos(60 * SECOND), ..ZoneAging::default() };
        let zrwa = Some(ZrwaLayout { pages: 64, granularity: 1, max: 14 });
        assert_eq!(with, ZonesConfig { share: 0, size: 2 << 20, zrwa, aging, ..made(0, 14, of_units(22)) });
        // A finish takes a program more, if nothing is said.
        let timed =
            |keys: &str| zones("", &format!("timing = {{ program = \"700us\" }}\n{keys}")).unwrap().0.finish;
        assert_eq!(timed("zone = {}"), Nanos(700_000));
        assert_eq!(timed("zone = { finish_time = \"3ms\" }"), Nanos(3_000_000));
        assert_eq!(timed("zone = { finish_time = \"0us\" }"), Nanos::ZERO);
        let unsafe_area = zones("power_loss_protection = false", "zone = { zrwa = 1 }").unwrap_err();
        assert!(unsafe_area.contains("0 without power-loss protection"), "{unsafe_area}");
        assert_eq!(zones("energy = \"8MiB\"", "zone = {}"), Ok((made(0, 14, of_units(22)), 8 * mib)));
        let short = zones("energy = \"1MiB\"", "zone = {}").unwrap_err();
        assert!(short.contains("buffers of zones") && short.contains("2080KiB"), "{short}");
    }

    #[test]
    fn a_dram_set_gets_what_zones_leave() {
        let dram = "zone = { active = 2, buffer = \"1MiB\" }\n[[set]]\nmedia = \"dram\"";
        let text = DRIVE.replace("DRIVE", "energy = \"8MiB\"").replace("SET", dram);
        assert_eq!(Config::from_toml(&text).unwrap().ftl.sets[1].capacity_pages(), (6 << 20) / 4096);
    }

    #[test]
    fn errors_name_key_value_and_what_is_allowed() {
        for (set, error) in [
            (
                "dies = 3",
                "set.1.zone.dies is 3: 0 for all dies of the set, or a number that divides its 4 dies",
            ),
            (
                "dies = 8",
                "set.1.zone.dies is 8: 0 for all dies of the set, or a number that divides its 4 dies",
            ),
            ("active = 4097", "set.1.zone.active is 4097: 0 to 4096 zones; 0 turns zones off"),
            ("size = \"1.5KiB\"", "set.1.zone.size is 1536B: a multiple of 4KiB, and not 0"),
            ("zrwa = 15", "set.1.zone.zrwa is 15: at most the 14 zones that can be active"),
            (
                "zrwa = 1, zrwa_granularity = \"6KiB\"",
                "set.1.zone.zrwa_granularity is 6KiB: a multiple of 4KiB, and not 0",
            ),
            (
                "zrwa = 1, zrwa_size = \"20KiB\", zrwa_granularity = \"8KiB\"",
                "set.1.zone.zrwa_size is 20KiB: a multiple of zone.zrwa_granularity, 8KiB, not 0 and at most 262136KiB",
            ),
            (
                "finish_after = \"1500ms\"",
                "set.1.zone.finish_after is 1500000000 ns: whole seconds, from 1s to 2^32 s",
            ),
            (
                "finish_after = \"20s\", excursion_after = \"10s\"",
                "set.1.zone.excursion_after is 10 s: at least zone.finish_after, 20 s",
            ),
            (
                "buffer = \"640KiB\"",
                "set.1.zone.buffer is 640KiB: a multiple of 4KiB, at least a program unit of 48KiB for each of the 14 active zones: 672KiB",
            ),
            (
                "active = 2, buffer = \"97KiB\"",
                "set.1.zone.buffer is 97KiB: a multiple of 4KiB, at least a program unit of 48KiB for each of the 2 active zones: 96KiB",
            ),
        ] {
            assert_eq!(zones("", &format!("zone = {{ {set} }}")), Err(error.to_owned()));
        }
    }
}
