//! What a reader of a run should know before it believes the figures.

use live::FlashSpace;
use sim::Precondition;

use super::{
    case::{Case, RunResult, Settled},
    settling::Moving,
};
use lab_report::{counters::total_on_flash, figure::show_size};

/// So many times their size must be written to namespaces that were not preconditioned to the steady state, before write amplification
/// tells anything: once to fill them, and once to wear in what is collected.
const SETTLING_OVERWRITES: u64 = 2;

/// Bytes of a page of the write buffer.
const PAGE_BYTES: u64 = 4096;

/// Bytes of flash for each byte of its namespaces, minus one; `None` if no namespace is there.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn over_provisioning(raw: u64, allocated: u64) -> Option<f64> {
    (allocated > 0).then(|| raw as f64 / allocated as f64 - 1.0)
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

impl Case {
    /// NVM Sets on flash that have namespaces.
    fn flash(&self) -> impl Iterator<Item = FlashSpace> {
        self.config.flash_space().filter(|space| space.allocated > 0)
    }

    /// Effective over-provisioning: raw bytes of the flash that has namespaces over the bytes of these, minus one. What no namespace has
    /// is spare as well.
    pub(super) fn over_provisioning(&self) -> Option<f64> {
        let sum = |of: fn(FlashSpace) -> u64| self.flash().map(of).sum();
        over_provisioning(sum(|space| space.raw), sum(|space| space.allocated))
    }

    /// How the flash is given away, for people: a line for each NVM Set.
    pub(super) fn space(&self) -> Vec<String> {
        let one = |space: FlashSpace| {
            let effective = over_provisioning(space.raw, space.allocated)?;
            Some(format!(
                "NVM Set {}: {} of flash, {} offered, {} in namespaces: effective over-provisioning {}",
                space.set,
                show_size(space.raw),
                show_size(space.offered),
                show_size(space.allocated),
                percent(effective)
            ))
        };
        self.flash().filter_map(one).collect()
    }

    /// Why the figures of a run may not mean what they seem to mean.
    pub(super) fn doubts(&self, ran: &RunResult) -> Vec<String> {
        let mut doubts = ran.played.doubts.clone();
        if ran.played.interrupted {
            doubts.push("the run was interrupted: its figures are those of the part that ran".to_owned());
        }
        if self.tiers {
            doubts.push(
                "the drive's cache tiers ([[cache]]) were not simulated: the figures are those of its namespaces alone"
                    .to_owned(),
            );
        }
        let flash = total_on_flash(&ran.namespaces);
        let (written, read) = (flash.host_bytes_written, flash.host_bytes_read);
        let used: u64 = self.flash().map(|space| space.allocated).sum();
        // Spare counts where garbage was collected: not on zones, for reads, or before everything was written.
        let settled = written > 0
            && (self.precondition == Precondition::Steady || written >= SETTLING_OVERWRITES * used);
        for space in self.flash().filter(|space| settled && space.collects) {
            let unallocated = space.offered.saturating_sub(space.allocated);
            let ratio = |bytes| over_provisioning(space.raw, bytes).map(percent).unwrap_or_default();
            if unallocated > space.raw.saturating_sub(space.offered) {
                doubts.push(format!(
                    "{} of NVM Set {} are in no namespace, which is more than its spare: over-provisioning is {} in effect, not {} \
                     (namespace.N.size=rest gives a namespace all of its set)",
                    show_size(unallocated),
                    space.set,
                    ratio(space.allocated),
                    ratio(space.offered),
                ));
            }
        }
        let is_settled = written > 0 && ran.settled.is_some_and(|settled| settled.is_steady);
        match self.precondition {
            _ if is_settled => {}
            Precondition::None if written + read > 0 => doubts.push(
                "the drive was new: reads of what was never written cost the media nothing, and there is little to collect \
                 (--precondition fill or steady)"
                    .to_owned(),
            ),
            Precondition::Fill if written > 0 && written < SETTLING_OVERWRITES * used => doubts.push(format!(
                "the load wrote {} to namespaces of {}: write amplification has not settled before {} times as much (--precondition \
                 steady, or a longer load)",
                show_size(written),
                show_size(used),
                SETTLING_OVERWRITES
            )),
            // Steady is steady under uniform writes.
            Precondition::Steady
                if written > 0
                    && written < SETTLING_OVERWRITES * used
                    && self.flash().all(|space| space.collects)
                    && !self.load.writes_everywhere_alike() =>
            {
                doubts.push(format!(
                    "the drive was preconditioned with uniform writes, and this load wrote less than {SETTLING_OVERWRITES} times the size of its \
                     namespaces: write amplification has not settled (a longer load)"
                ));
            }
            _ => {}
        }
        if let Some(Settled { rounds, .. }) = ran.settled.filter(|settled| !settled.is_steady) {
            doubts.push(format!("write amplification still changed after {rounds} rounds of the load"));
        }
        if let Some(Moving { third, last }) = ran.moving {
            doubts.push(format!(
                "write amplification still moves: {third:.2} in the third quarter of what was written, {last:.2} in the last (a longer \
                 load, or --until-steady)"
            ));
        }
        let buffer = u64::from(self.config.ftl.buffer_pages) * PAGE_BYTES;
        if written > 0 && written <= buffer {
            doubts.push(format!(
                "the load wrote {}, and the write buffer holds {}: its writes hardly waited for flash (a longer load)",
                show_size(written),
                show_size(buffer)
            ));
        } else if let Some(ratio) = ran.write_amplification().filter(|ratio| *ratio < 0.9995) {
            doubts.push(format!(
                "write amplification is {ratio:.3}, below 1: part of what the load wrote was still in the write buffer at its end, or \
                 was overwritten there"
            ));
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::load::LoadFile;
    use lab_report::counters::{Counters, NamespaceCounts};
    use live::Config;
    use sim::Contents;

    const SET_TOML: &str = "[[set]]\nmedia = \"nand\"\ncell = \"tlc\"\ncapacity = \"2GiB\"\nspare = \"12.5%\"\nchannels = 4\ndies = 8\n\
                       planes = 1\nnand_page = \"16KiB\"\npages_per_block = 96\nrated_cycles = 3000\n";

    fn case(size: &str, precondition: Precondition) -> Case {
        let toml = format!("{SET_TOML}[[namespace]]\nset = 1\nsize = \"{size}\"\n");
        Case {
            parameters: Vec::new(),
            config: Config::from_toml(&toml).unwrap(),
            tiers: false,
            media: vec!["nand".to_owned()],
            load: LoadFile::fio("x", "[a]\nrw=randwrite\n").unwrap(),
            nsid: None,
            precondition,
            contents: Contents::None,
            seed: 1,
            until_steady: false,
            interval: None,
        }
    }

    fn ran(written: u64, nand: u64) -> RunResult {
        let counted = Counters { host_bytes_written: written, ..Counters::default() };
        let counts = NamespaceCounts { medium: "nand".into(), counted, ..Default::default() };
        RunResult { nand_bytes_written: nand, namespaces: vec![counts], ..RunResult::default() }
    }

    #[test]
    fn what_nobody_has_is_spare() {
        let all = case("rest", Precondition::Steady);
        let half = case("1GiB", Precondition::Steady);
        let (all_op, half_op) = (all.over_provisioning().unwrap(), half.over_provisioning().unwrap());
        assert!(
            (0.12..0.2).contains(&all_op) && (half_op - (2.0 * all_op + 1.0)).abs() < 0.01,
            "{all_op} {half_op}"
        );
        assert!(all.doubts(&ran(1 << 40, 3 << 40)).is_empty());
        let doubts = half.doubts(&ran(1 << 40, 3 << 40));
        assert!(doubts.len() == 1 && doubts[0].contains("in no namespace"), "{doubts:?}");
        // It is not told where nothing was collected: of a short run, of reads, and of zones.
        let told = |case: &Case, bytes: u64| {
            case.doubts(&ran(bytes, bytes)).iter().any(|doubt| doubt.contains("in no namespace"))
        };
        assert!(told(&half, 4096) && !told(&half, 0));
        let new = case("1GiB", Precondition::None);
        assert!(told(&new, 2 << 30) && !told(&new, 1 << 30));
        let mut zoned = case("1GiB", Precondition::Steady);
        let zones = "zone = {}\n[[namespace]]\nset = 1\nzoned = true\nsize = \"64MiB\"\n";
        zoned.config = Config::from_toml(&format!("{SET_TOML}{zones}")).unwrap();
        assert!(!told(&zoned, 4 << 30));
        assert!(all.space()[0].contains("effective over-provisioning"), "{:?}", all.space());
    }

    #[test]
    fn new_short_and_impossible_runs_are_told() {
        const GIB: u64 = 1 << 30;
        for (precondition, written, nand, word) in [
            (Precondition::None, 9 * GIB, 9 * GIB, Some("the drive was new")),
            (Precondition::None, 0, 0, None),
            (Precondition::Fill, GIB, GIB, Some("has not settled")),
            (Precondition::Fill, 9 * GIB, 9 * GIB, None),
            (Precondition::Steady, GIB, GIB, None),
            (Precondition::Steady, GIB, GIB / 2, Some("below 1")),
        ] {
            let doubts = case("rest", precondition).doubts(&ran(written, nand));
            assert_eq!(doubts.len(), usize::from(word.is_some()), "{doubts:?}");
            assert!(word.is_none_or(|word| doubts[0].contains(word)), "{doubts:?}");
        }
        // Another load than uniform writes has to settle, too.
        let skewed = "[a]\nrw=randwrite\nrandom_distribution=zipf:0.9\n";
        let mut case = case("rest", Precondition::Steady);
        case.load = LoadFile::fio("x", skewed).unwrap();
        assert!(case.doubts(&ran(GIB, GIB))[0].contains("uniform writes"));
        assert!(case.doubts(&ran(9 * GIB, 9 * GIB)).is_empty());
        let settled = |is_steady| Some(Settled { rounds: 9, is_steady, simulated: Default::default() });
        assert!(case.doubts(&RunResult { settled: settled(true), ..ran(GIB, 3 * GIB) }).is_empty());
        let restless = case.doubts(&RunResult { settled: settled(false), ..ran(9 * GIB, 27 * GIB) });
        assert!(restless[0].contains("after 9 rounds"), "{restless:?}");
        let short = case.doubts(&ran(16 << 20, 1 << 20));
        assert!(short.iter().any(|doubt| doubt.contains("the write buffer holds 16")), "{short:?}");
        let mut cut = ran(9 * GIB, 27 * GIB);
        cut.played.interrupted = true;
        assert!(case.doubts(&cut)[0].contains("was interrupted"));
        let moving = RunResult { moving: Some(Moving { third: 3.0, last: 3.5 }), ..ran(9 * GIB, 27 * GIB) };
        assert!(case.doubts(&moving)[0].contains("still moves: 3.00 in the third quarter"));
    }
}
