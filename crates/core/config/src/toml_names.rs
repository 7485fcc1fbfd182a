//! What is wrong with the media and the translation layer, in the words of a drive's TOML: they name the fields of their own configuration,
//! and count in pages and program units.

use crate::config_error::ConfigError;
use ftl::{PAGE, SetConfig};
use units::format_size;

fn size(pages: u64) -> String {
    format_size(pages.saturating_mul(PAGE.into()))
}

/// The error with keys and values as the TOML has them. `config` is what was checked.
pub(crate) fn in_toml(config: &ftl::Config, error: ftl::ConfigError) -> ConfigError {
    match error {
        ftl::ConfigError::Media { set, error } => of_medium(config, set, error),
        ftl::ConfigError::Range { what, value, rule } => of_layer(what, value, rule),
        ftl::ConfigError::Energy { needed, energy } => {
            let rule = format!(
                "the write buffer, the buffers of zones, DRAM sets and write caches of disks need {}: make one of them smaller, or this larger",
                format_size(needed)
            );
            ConfigError::value("drive.energy", format_size(energy), rule)
        }
        ftl::ConfigError::Spare { set, capacity, spare, needed } => {
            let least = u64::from(ftl::GRANULE_PAGES);
            if capacity < least {
                return ConfigError::value(key(set, "capacity"), size(capacity), "1MiB or more");
            }
            let rule = format!(
                "superblocks that are open or in reserve need {}: raise it, or make superblocks smaller (fewer dies or planes, smaller blocks)",
                size(needed)
            );
            ConfigError::value(key(set, "spare"), size(spare), rule)
        }
    }
}

fn key(set: u32, name: &str) -> String {
    format!("set.{set}.{name}")
}

/// What the translation layer says of a value.
fn of_layer(what: &'static str, value: u64, rule: &'static str) -> ConfigError {
    let (key, value) = match what {
        "number of NVM Sets" => ("number of [[set]] tables", value.to_string()),
        "atomic write unit in pages" => ("drive.atomic_write", size(value)),
        "write buffer in pages" => ("drive.write_buffer", size(value)),
        "placement handles" => ("placement.handles", value.to_string()),
        "zone buffer in pages" => ("zone.buffer", size(value)),
        "zone.size" => (what, format_size(value)),
        "Zone Random Write Area in pages" => ("zone.zrwa_size", size(value)),
        "zone.excursion_after in ns" => ("zone.excursion_after", format!("{}s", value / 1_000_000_000)),
        _ => (what, value.to_string()),
    };
    ConfigError::value(key, value, rule)
}

/// What a medium says of a value.
fn of_medium(config: &ftl::Config, set: u32, error: media::ConfigError) -> ConfigError {
    let nand = set.checked_sub(1).and_then(|at| match config.sets.get(at as usize)? {
        SetConfig::Nand { nand, .. } => Some(nand),
        SetConfig::Memory { .. } | SetConfig::Disk { .. } => None,
    });
    // NAND pages of a block for each program unit.
    let pages_of_unit = nand.map_or(1, |nand| {
        let page = nand.geometry.planes.saturating_mul(nand.geometry.sense_pages).max(1);
        u64::from(nand.geometry.unit_pages / page).max(1)
    });
    let one = |name: &str, value: String, rule: &str| ConfigError::value(key(set, name), value, rule);
    match error {
        media::ConfigError::Range { what, value, rule } => match what {
            "geometry.units_per_block" => {
                let rule = format!("{pages_of_unit} to {}", pages_of_unit << 20);
                one("pages_per_block", value.saturating_mul(pages_of_unit).to_string(), &rule)
            }
            "geometry.sense_pages" => one("nand_page", size(value), "4KiB to 256KiB"),
            "geometry.unit_pages" => {
                let rule = "all planes of a die together program 4KiB to 64MiB at once";
                one("planes", nand.map_or(0, |nand| nand.geometry.planes).to_string(), rule)
            }
            "pages" if value == 0 || value > 1 << 31 => one("capacity", size(value), "4KiB to 8TiB"),
            "pages" => one("capacity", size(value), "a multiple of banks × 4KiB"),
            "capacity of the disk in pages" => one("capacity", size(value), rule),
            "sectors of the write buffer" => one("buffer.write_size", format!("{value} sectors"), rule),
            _ if what.starts_with("pages of the medium") => {
                let rule = "at most 8TiB: dies, planes, superblocks and blocks together make too much flash";
                one("capacity with its spare", size(value), rule)
            }
            _ => one(what.strip_prefix("geometry.").unwrap_or(what), value.to_string(), rule),
        },
        media::ConfigError::Sense { given, bits, cell } => {
            let rule = format!("one time, or one for each of the {bits} bits of a cell of {cell}");
            one("timing.read", format!("a list of {given}"), &rule)
        }
        media::ConfigError::Unit { by_page, one_shot, unit_pages, .. } => {
            let rule = format!("a program writes {} (one_shot = false) or {}", size(by_page), size(one_shot));
            one("one_shot", format!("such that a program writes {}", size(unit_pages.into())), &rule)
        }
        disk @ media::ConfigError::Disk(_) => ConfigError::Ftl(ftl::ConfigError::Media { set, error: disk }),
    }
}
