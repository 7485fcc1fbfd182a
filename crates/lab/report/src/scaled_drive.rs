//! Drives of live studies: those of a profile with less capacity, in slow motion, so that they and not this machine are what a load waits for.

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

/// Pages of a block that a shortened set has at least. Dies wait where one superblock ends and the next begins, so blocks cannot shrink at will.
const LEAST_PAGES: i64 = 16;
/// Cylinders that a shortened disk has at least.
const LEAST_CYLINDERS: i64 = 64;

/// How much less a drive is than its profile says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// It has the capacity divided by this.
    pub capacity: u32,
    /// Its times take so many times as long, and its rates are divided by this.
    pub slow_motion: u32,
}

impl Scale {
    /// Bytes of what has `bytes` beside the whole drive, in whole MiB, one at least.
    pub fn bytes(self, bytes: u64) -> u64 {
        ((bytes / u64::from(self.capacity.max(1))) >> 20).max(1) << 20
    }

    /// The drive with less capacity and in slow motion. It has no namespaces of its own.
    ///
    /// - NAND sets have blocks with fewer pages, 16 at least, then fewer superblocks. An erase is shorter as the block is. Channels, dies and planes stay.
    /// - The write buffer is smaller, but holds a program unit for each die. Otherwise it would take all that a short run in slow motion writes.
    /// - Disks have fewer cylinders. Their seeks take as long as before, over fewer cylinders: to the next track, average, and over all.
    /// - Every time takes `slow_motion` times as long; every rate is divided by that.
    ///
    /// # Errors
    /// The drive has no NVM Set, a set of another medium, or a value that is no quantity.
    pub fn of(self, drive: &Table) -> Result<Table> {
        let mut scaled = drive.clone();
        scaled.remove("datasheet");
        scaled.insert("namespace".into(), Value::Array(Vec::new()));
        if let Some(Value::Table(link)) = scaled.get_mut("link") {
            self.slow_each(link).context("in [link]")?;
        }
        let mut least = 0;
        let sets = scaled.get_mut("set").and_then(Value::as_array_mut).context("the drive has no NVM Set")?;
        for set in sets {
            let set = set.as_table_mut().context("an NVM Set is no table")?;
            match set.get("media").and_then(Value::as_str) {
                Some("nand") => {
                    self.nand(set)?;
                    least += unit_of_each_die(set)?;
                }
                Some("disk") => self.disk(set)?,
                other => bail!("an NVM Set has the medium {other:?}: only nand and disk can be scaled"),
            }
        }
        if let Some(Value::Table(drive)) = scaled.get_mut("drive") {
            drive.insert("timing".into(), true.into());
            if let Some(buffer) = drive.get("write_buffer").and_then(Value::as_str) {
                let buffer =
                    units::parse_size(buffer).map_err(|wrong| anyhow::anyhow!("write_buffer: {wrong}"))?;
                let smaller = (buffer / u64::from(self.capacity)).max(least).min(buffer);
                drive.insert("write_buffer".into(), format!("{}KiB", smaller >> 10).into());
            }
        }
        Ok(scaled)
    }

    fn nand(self, set: &mut Table) -> Result<()> {
        self.shorten(set)?;
        let pages = integer(set, "pages_per_block")?;
        let fewer = (pages / i64::from(self.capacity)).max(LEAST_PAGES).min(pages);
        set.insert("pages_per_block".into(), fewer.into());
        if let Some(superblocks) = set.get("superblocks").and_then(Value::as_integer) {
            let whole = superblocks * pages / fewer / i64::from(self.capacity);
            set.insert("superblocks".into(), whole.into());
        }
        let timing =
            set.get_mut("timing").and_then(Value::as_table_mut).context("the NVM Set has no timing")?;
        self.slow_each(timing).context("in timing")?;
        if let Some(erase) = timing.get_mut("erase") {
            *erase = time(erase, |nanos| {
                nanos * u128::from(fewer.unsigned_abs()) / u128::from(pages.max(1).unsigned_abs())
            })?;
        }
        Ok(())
    }

    fn disk(self, set: &mut Table) -> Result<()> {
        self.shorten(set)?;
        let cylinders = integer(set, "cylinders")?;
        let fewer = (cylinders / i64::from(self.capacity)).max(LEAST_CYLINDERS).min(cylinders);
        // A few more than the capacity needs: those of the outer zones hold more.
        set.insert("cylinders".into(), (fewer + fewer / 16 + 1).min(cylinders).into());
        let rpm = integer(set, "rpm")? / i64::from(self.slow_motion);
        set.insert("rpm".into(), rpm.into());
        for key in ["read_seek", "write_seek", "head_switch", "write_head_switch", "overhead", "link"] {
            if let Some(value) = set.get_mut(key) {
                *value = self.slow(value).with_context(|| format!("{key} of a disk"))?;
            }
        }
        Ok(())
    }

    fn shorten(self, set: &mut Table) -> Result<()> {
        let capacity = set.get("capacity").and_then(Value::as_str).context("the NVM Set has no capacity")?;
        let bytes = units::parse_size(capacity).map_err(|wrong| anyhow::anyhow!("capacity: {wrong}"))?;
        set.insert("capacity".into(), format!("{}MiB", self.bytes(bytes) >> 20).into());
        Ok(())
    }

    fn slow_each(self, table: &mut Table) -> Result<()> {
        for (key, value) in table.iter_mut().filter(|(_, value)| !value.is_integer()) {
            *value = self.slow(value).with_context(|| format!("{key} = {value}"))?;
        }
        Ok(())
    }

    /// A time, a rate, or a list of times.
    fn slow(self, value: &Value) -> Result<Value> {
        match value {
            Value::Array(times) => {
                Ok(Value::Array(times.iter().map(|time| self.slow(time)).collect::<Result<_>>()?))
            }
            Value::String(text) if text.ends_with("/s") => {
                let rate = units::parse_rate(text).map_err(|wrong| anyhow::anyhow!("{wrong}"))?;
                Ok(format!("{}B/s", (rate / u64::from(self.slow_motion)).max(1)).into())
            }
            value => time(value, |nanos| nanos * u128::from(self.slow_motion)),
        }
    }
}

/// Bytes of a program unit on every die: a page of each plane, with all bits of its cells.
fn unit_of_each_die(set: &Table) -> Result<u64> {
    let bits = match set.get("cell").and_then(Value::as_str) {
        Some("slc") => 1,
        Some("mlc") => 2,
        Some("qlc") => 4,
        _ => 3,
    };
    let page = set.get("nand_page").and_then(Value::as_str).context("the NVM Set has no nand_page")?;
    let page = units::parse_size(page).map_err(|wrong| anyhow::anyhow!("nand_page: {wrong}"))?;
    Ok((integer(set, "dies")? * integer(set, "planes")?).unsigned_abs() * page * bits)
}

fn integer(set: &Table, key: &str) -> Result<i64> {
    set.get(key).and_then(Value::as_integer).with_context(|| format!("the NVM Set has no {key}"))
}

fn time(value: &Value, change: impl Fn(u128) -> u128) -> Result<Value> {
    let text = value.as_str().with_context(|| format!("{value} is no time"))?;
    let nanos = units::parse_time(text).map_err(|wrong| anyhow::anyhow!("{wrong}"))?;
    Ok(format!("{}ns", change(nanos.into())).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    fn config(drive: &Table) -> live::Config {
        live::Config::from_toml(&toml::to_string(drive).unwrap()).unwrap()
    }

    #[test]
    fn published_drives_can_be_scaled() {
        for name in
            ["xs1715-400g", "px02sm-400g", "savvio-15k3-300g", "constellation2-1t", "pblaze5-910-3.84t"]
        {
            for scale in [Scale { capacity: 256, slow_motion: 120 }, Scale { capacity: 64, slow_motion: 8 }] {
                let whole = profile::table(name).unwrap();
                let mut whole_sets = config(&whole).ftl.sets;
                if name.starts_with("pblaze5") {
                    // It has memory beside its NAND.
                    assert!(scale.of(&whole).unwrap_err().to_string().contains("nand and disk"));
                    continue;
                }
                let small = config(&scale.of(&whole).unwrap());
                assert!(small.namespaces.is_empty());
                let (whole, small) =
                    (whole_sets.remove(0).capacity_pages(), small.ftl.sets[0].capacity_pages());
                let ratio = whole / small;
                let wanted = scale.capacity;
                assert!((wanted..=wanted + wanted / 50 + 1).contains(&ratio), "{name}: {ratio}");
            }
        }
    }

    #[test]
    fn each_time_is_longer_and_each_rate_less() {
        let drive: Table = toml::from_str(
            r#"
            [drive]
            timing = false
            write_buffer = "16MiB"
            [link]
            read = "3GB/s"
            command_interval = "1.351us"
            [[set]]
            media = "nand"
            cell = "mlc"
            dies = 64
            planes = 2
            nand_page = "8KiB"
            capacity = "400GB"
            pages_per_block = 256
            timing = { read = ["45us", "65us"], erase = "3ms", channel = "400MB/s", max_suspends = 8 }
            [[set]]
            media = "disk"
            capacity = "300GB"
            cylinders = 96700
            rpm = 15000
            read_seek = ["0.2ms", "2.6ms", "4.9ms"]
            [[namespace]]
            size = "1GiB"
            [datasheet]
            source = "a page"
            "#,
        )
        .unwrap();
        let scaled = Scale { capacity: 16, slow_motion: 10 }.of(&drive).unwrap();
        let expected: Table = toml::from_str(
            r#"
            namespace = []
            [drive]
            timing = true
            write_buffer = "2048KiB"
            [link]
            read = "300000000B/s"
            command_interval = "13510ns"
            [[set]]
            media = "nand"
            cell = "mlc"
            dies = 64
            planes = 2
            nand_page = "8KiB"
            capacity = "23841MiB"
            pages_per_block = 16
            timing = { read = ["450000ns", "650000ns"], erase = "1875000ns", channel = "40000000B/s", max_suspends = 8 }
            [[set]]
            media = "disk"
            capacity = "17881MiB"
            cylinders = 6421
            rpm = 1500
            read_seek = ["2000000ns", "26000000ns", "49000000ns"]
            "#,
        )
        .unwrap();
        assert_eq!(scaled, expected);
    }

    #[test]
    fn parts_of_a_drive_are_scaled_with_it() {
        let scale = Scale { capacity: 256, slow_motion: 1 };
        assert_eq!((scale.bytes(4 << 30), scale.bytes(1)), (16 << 20, 1 << 20));
    }
}
