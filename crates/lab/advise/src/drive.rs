//! The drive that is modelled.

use anyhow::{Context, Result};
use live::Config;
use toml::{Table, Value};

use lab_models::innodb::{Variant, drive as study_drive};

/// A zone of a drive whose TOML has none lies on one die of so many.
const SHARE_OF_DIES: i64 = 8;

/// What a simulated drive has beside the namespace of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// A namespace of so many bytes in memory.
    Memory(u64),
    /// Zoned namespaces, which are made later.
    Zones,
}

/// The drive that is modelled.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Its name, or file.
    pub name: String,
    /// Its TOML.
    pub profile: Table,
    /// Percent of it that hold data.
    pub full: u32,
}

impl Drive {
    /// The drive of a layout, which may write so many bytes atomically. All else is the same.
    ///
    /// # Errors
    /// It has no NAND, or cannot be as its TOML says.
    pub fn config(&self, atomic: Option<u64>, beside: Beside) -> Result<Config> {
        let memory = if let Beside::Memory(bytes) = beside { bytes } else { 0 };
        let variant = match (atomic, beside) {
            (Some(_), _) => Variant::Atomic,
            (None, Beside::Memory(_)) => Variant::Dram,
            (None, _) => Variant::Nand,
        };
        let mut table = study_drive::toml(&self.profile, variant, &self.name)?;
        if let Some(bytes) = atomic {
            let drive =
                table.get_mut("drive").and_then(Value::as_table_mut).context("there is no [drive]")?;
            drive.insert("atomic_write".into(), format!("{}KiB", bytes >> 10).into());
        }
        let sets = table.get_mut("set").and_then(Value::as_array_mut).context("the drive has no NVM Set")?;
        if let (Beside::Zones, Some(Value::Table(nand))) = (beside, sets.get_mut(0))
            && !nand.contains_key("zone")
        {
            // Smaller zones than those of all dies, so that each log has some: a real drive's are not known.
            let dies = nand.get("dies").and_then(Value::as_integer).unwrap_or(0);
            let of_zone = if dies > 0 && dies % SHARE_OF_DIES == 0 { dies / SHARE_OF_DIES } else { 0 };
            let zone = Table::from_iter([("dies".to_owned(), Value::from(of_zone))]);
            nand.insert("zone".into(), zone.into());
        }
        if let Some(Value::Table(dram)) = sets.get_mut(1) {
            dram.insert("capacity".into(), format!("{}MiB", memory.max(64 << 20) >> 20).into());
        }
        let namespaces =
            table.get_mut("namespace").and_then(Value::as_array_mut).context("the drive has no namespace")?;
        for (namespace, bytes) in namespaces.iter_mut().zip([None, Some(memory)]) {
            let namespace = namespace.as_table_mut().context("a namespace is no table")?;
            let size = namespace.get("size").and_then(Value::as_str).context("a namespace has no size")?;
            let whole = units::parse_size(size)
                .map_err(|wrong| anyhow::anyhow!("the size of a namespace: {wrong}"))?;
            let bytes = bytes.unwrap_or(whole / 100 * u64::from(self.full));
            namespace.insert("size".into(), format!("{}MiB", (bytes >> 20).max(1)).into());
        }
        Ok(Config::from_toml(&toml::to_string(&table)?)?)
    }

    /// Bytes of its first namespace, and that its flash can take: rated cycles times raw capacity. None if cycles are not said.
    ///
    /// # Errors
    /// Like [`Drive::config`].
    pub fn sizes(&self) -> Result<(u64, Option<u128>)> {
        let config = self.config(None, Beside::Memory(1 << 20))?;
        let raw = config.ftl.sets.first().context("the drive has no NVM Set")?.properties().raw_pages;
        let sets = self.profile.get("set").and_then(Value::as_array);
        let cycles = sets.and_then(|sets| sets.first()?.get("rated_cycles")?.as_integer());
        let endurance = cycles
            .and_then(|cycles| u128::try_from(cycles).ok())
            .map(|cycles| u128::from(raw) * 4096 * cycles);
        Ok((config.namespaces.first().context("the drive has no namespace")?.bytes, endurance))
    }

    /// Bytes of memory that namespaces can have.
    pub fn memory(&self) -> u64 {
        let text = toml::to_string(&self.profile).unwrap_or_default();
        let Ok(config) = Config::from_toml(&text) else { return 0 };
        let memory =
            config.ftl.sets.iter().filter(|set| ["dram", "pmem"].contains(&set.properties().media.name()));
        memory.map(|set| u64::from(set.capacity_pages()) * 4096).sum()
    }

    /// Whether its NAND can have zones.
    pub fn has_zones(&self) -> bool {
        let sets = self.profile.get("set").and_then(Value::as_array);
        sets.and_then(|sets| sets.first()?.get("zone")).is_some()
    }

    /// What it writes atomically, as its TOML says it.
    pub fn atomic_write(&self) -> &str {
        let drive = self.profile.get("drive").and_then(Value::as_table);
        drive.and_then(|drive| drive.get("atomic_write")?.as_str()).unwrap_or("4KiB")
    }

    /// Whether so many bytes are written atomically.
    pub fn is_atomic(&self, page: u64) -> bool {
        units::parse_size(self.atomic_write()).is_ok_and(|unit| unit >= page)
    }

    /// Whether memory keeps its content in a power cut.
    pub fn is_protected(&self) -> bool {
        let drive = self.profile.get("drive").and_then(Value::as_table);
        drive.and_then(|drive| drive.get("power_loss_protection")?.as_bool()).unwrap_or(true)
    }
}

#[cfg(test)]
pub mod tests {
    use super::Drive;
    use lab_report::profile;

    /// A drive that writes so much atomically, with or without capacitors.
    pub fn drive(atomic: &str, protected: bool) -> Drive {
        let mut profile = profile::table("pblaze5-910-short").unwrap();
        let table = profile["drive"].as_table_mut().unwrap();
        table.insert("atomic_write".into(), atomic.into());
        table.insert("power_loss_protection".into(), protected.into());
        Drive { name: "own.toml".into(), profile, full: 90 }
    }
}
