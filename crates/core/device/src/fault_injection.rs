//! Fault injection (vendor specific command D1h), and power cuts that a host plans (D0h).

use crate::contents::Contents;
use crate::core::{ControllerId, Core, Cx, Failure, Origin, Output};
use ftl::SetId;
use media::{FaultPlan, Nanos};
use nvme::admin::{FaultInjection, FaultKind, PowerCut};
use nvme::log::InjectedFault;
use nvme::{NSID_ALL, Status, U16, U32, U64};

/// Probabilities of [`FaultPlan`] are in billionths.
pub(crate) const CERTAINTY_PPB: u32 = InjectedFault::CERTAINTY_PPB;

/// Hosts on the network may not harm the drive unless its configuration lets them.
pub(crate) fn check_origin(core: &Core, id: ControllerId) -> Result<(), Failure> {
    let origin = core.controller(id)?.origin;
    if origin == Origin::Network && !core.config.allow_fault_commands_from_network {
        return Err(Status::OPERATION_DENIED.into());
    }
    Ok(())
}

/// A planned power cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedPowerCut {
    /// As soon as its command is complete; else when the media have counted down.
    pub at_once: bool,
    /// Whether the capacitors work.
    pub energy: bool,
    pub off: Nanos,
}

/// All NVM Sets. The medium of each has its plan of faults, which counts down there.
fn sets(core: &Core) -> impl Iterator<Item = SetId> + use<> {
    (0..core.ftl.set_count()).map(|set| SetId(set as u8))
}

/// Plans a power cut, for which the media may have to count down.
///
/// # Errors
/// If the host may not harm the drive.
pub(crate) fn plan_cut(core: &mut Core, id: ControllerId, c: &PowerCut) -> Result<PlannedPowerCut, Failure> {
    check_origin(core, id)?;
    plan_media(core, c);
    let at_once = c.after_media_ops == 0;
    Ok(PlannedPowerCut { at_once, energy: !c.no_plp, off: Nanos(u64::from(c.off_ms) * 1_000_000) })
}

/// The media count down to the cut, unless it comes at once, and draw their faults from its seed.
fn plan_media(core: &mut Core, c: &PowerCut) {
    for set in sets(core) {
        let Some(mut plan) = core.ftl.faults(set).cloned() else { continue };
        plan.cut_after = (c.after_media_ops != 0).then_some(c.after_media_ops.into());
        if c.seed != 0 {
            plan.seed = c.seed.into();
        }
        core.ftl.set_faults(set, plan);
    }
}

/// Plans a fault of the media or of the host's disk, or ends them all. Faults of ports are not for here.
pub(crate) fn inject<S: Contents>(
    core: &mut Core,
    c: &FaultInjection,
    cx: &mut Cx<'_, S>,
) -> Result<(), Failure> {
    let count = core.ftl.set_count();
    let chosen = match usize::from(c.nvmsetid) {
        0 => 0..count,
        set if set <= count => set - 1..set,
        _ => return Err(Failure::field(42)),
    };
    if c.one_in > CERTAINTY_PPB {
        // Plans have no smaller chance.
        return Err(Failure::field(48));
    }
    if c.kind.is_of_host_disk() {
        let full = c.kind == FaultKind::HOST_DISK_FULL;
        cx.out.push(Output::HostDiskFault { full, count: c.count });
        return Ok(());
    }
    if c.kind != FaultKind::CLEAR && c.nsid != 0 && c.nsid != NSID_ALL {
        // Faults belong to media, not to logical blocks.
        return Err(Failure::field(4));
    }
    if c.kind != FaultKind::CLEAR && c.lba.is_some() {
        return Err(Failure::field(56));
    }
    let mut plans = Vec::new();
    for set in chosen.map(|set| SetId(set as u8)) {
        let Some(plan) = core.ftl.faults(set) else { continue };
        plans.push((set, planned(core, set, c, plan)?));
    }
    for (set, plan) in plans {
        core.ftl.set_faults(set, plan);
    }
    Ok(())
}

/// The plan of a set with one fault more, or without any. Faults and a planned power cut that are there go on counting down.
fn planned(core: &Core, set: SetId, c: &FaultInjection, plan: &FaultPlan) -> Result<FaultPlan, Failure> {
    if c.kind == FaultKind::CLEAR {
        // What is weak or lost already stays so: the medium was damaged.
        return Ok(plan.cleared());
    }
    if c.count != 0 && (c.one_in > 1 || !c.kind.is_counted()) {
        // A number of faults is had from the next operations in a row, and only of these kinds.
        return Err(Failure::field(44));
    }
    let chance = CERTAINTY_PPB / c.one_in.max(1);
    let mut plan = plan.clone();
    match (c.kind, c.count) {
        (FaultKind::BIT_ERRORS, _) => plan.corrected_reads = chance,
        (FaultKind::UNCORRECTABLE, 0) => plan.uncorrectable_reads = chance,
        (FaultKind::UNCORRECTABLE, count) => plan.fail_reads = count,
        (FaultKind::PROGRAM_FAILURE, 0) => plan.program_failures = chance,
        (FaultKind::PROGRAM_FAILURE, count) => plan.fail_programs = count,
        (FaultKind::ERASE_FAILURE, 0) => plan.erase_failures = chance,
        (FaultKind::ERASE_FAILURE, count) => plan.fail_erases = count,
        (FaultKind::STUCK_DIE, _) => {
            let units = core.set_properties(set).units;
            if c.param >= units {
                return Err(Failure::field(52));
            }
            if !plan.stuck_dies.contains(&c.param) {
                plan.stuck_dies.push(c.param);
            }
        }
        (FaultKind::LOST_WRITE, _) => plan.lost_writes = chance,
        (FaultKind::MISDIRECTED_WRITE, _) => plan.misdirected_writes = chance,
        (FaultKind::WEAK_PAGE, _) => plan.weak_pages = chance,
        (FaultKind::SLOW, _) => {
            if c.param < 2 {
                return Err(Failure::field(52));
            }
            plan.slow_operations = chance;
            plan.slow_factor = c.param;
        }
        _ => return Err(Failure::field(40)),
    }
    Ok(plan)
}

/// The faults of the media that are active, in the order of the sets, and last a planned power cut.
pub(crate) fn active(core: &Core) -> Vec<InjectedFault> {
    let plans = || sets(core).filter_map(|set| Some((u16::from(set.0) + 1, core.ftl.faults(set)?)));
    let mut all: Vec<InjectedFault> = plans().flat_map(|(set, plan)| of_plan(set, plan)).collect();
    // The set that gets there first cuts the power of all.
    if let Some(left) = plans().filter_map(|(_, plan)| plan.cut_after).min() {
        all.push(InjectedFault {
            remaining: U64::new(left.max(1)),
            ..entry(FaultKind::POWER_CUT, 0, CERTAINTY_PPB)
        });
    }
    all
}

fn of_plan(set: u16, plan: &FaultPlan) -> Vec<InjectedFault> {
    let by_chance = [
        (FaultKind::BIT_ERRORS, plan.corrected_reads),
        (FaultKind::UNCORRECTABLE, plan.uncorrectable_reads),
        (FaultKind::PROGRAM_FAILURE, plan.program_failures),
        (FaultKind::ERASE_FAILURE, plan.erase_failures),
        (FaultKind::LOST_WRITE, plan.lost_writes),
        (FaultKind::MISDIRECTED_WRITE, plan.misdirected_writes),
        (FaultKind::WEAK_PAGE, plan.weak_pages),
    ];
    let counted = [
        (FaultKind::UNCORRECTABLE, plan.fail_reads),
        (FaultKind::PROGRAM_FAILURE, plan.fail_programs),
        (FaultKind::ERASE_FAILURE, plan.fail_erases),
    ];
    let with =
        |kind, chance, param: u32| InjectedFault { param: U32::new(param), ..entry(kind, set, chance) };
    let left = |(kind, left): (FaultKind, u32)| InjectedFault {
        remaining: U64::new(left.into()),
        ..entry(kind, set, CERTAINTY_PPB)
    };
    by_chance
        .into_iter()
        .filter(|(_, chance)| *chance > 0)
        .map(|(kind, chance)| entry(kind, set, chance))
        .chain(counted.into_iter().filter(|(_, left)| *left > 0).map(left))
        .chain(plan.stuck_dies.iter().map(|die| with(FaultKind::STUCK_DIE, CERTAINTY_PPB, *die)))
        .chain(
            (plan.slow_operations > 0).then(|| with(FaultKind::SLOW, plan.slow_operations, plan.slow_factor)),
        )
        .collect()
}

/// A fault of a set or a port in the log, without a parameter, until it is cleared.
pub(crate) fn entry(kind: FaultKind, nvmsetid: u16, chance: u32) -> InjectedFault {
    InjectedFault { kind, nvmsetid: U16::new(nvmsetid), chance: U32::new(chance), ..InjectedFault::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Drive};
    use ftl::NoContents;

    fn fault(kind: FaultKind) -> FaultInjection {
        FaultInjection { nsid: 0, kind, nvmsetid: 0, count: 0, one_in: 2, param: 0, lba: None }
    }

    fn ordered(core: &mut Core, c: FaultInjection) -> Result<(), Failure> {
        let mut out = Vec::new();
        inject(core, &c, &mut Cx { now: Nanos::ZERO, storage: &mut NoContents, out: &mut out })
    }

    fn listed(core: &Core) -> Vec<(FaultKind, u16, u32, u32, u64)> {
        let all = active(core).into_iter();
        all.map(|f| (f.kind, f.nvmsetid.get(), f.chance.get(), f.param.get(), f.remaining.get())).collect()
    }

    #[test]
    fn faults_belong_to_sets() {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        let sets = core.ftl.set_count();
        let lost = fault(FaultKind::LOST_WRITE);
        for (field, wrong) in [
            (42, FaultInjection { nvmsetid: sets as u16 + 1, ..lost }),
            (4, FaultInjection { nsid: 1, ..lost }),
            (56, FaultInjection { lba: Some(0), ..lost }),
            (44, FaultInjection { count: 1, ..lost }),
            (48, FaultInjection { one_in: CERTAINTY_PPB + 1, ..lost }),
            (52, FaultInjection { param: u32::MAX, ..fault(FaultKind::STUCK_DIE) }),
            (40, fault(FaultKind::POWER_CUT)),
        ] {
            assert_eq!(ordered(&mut core, wrong), Err(Failure::field(field)));
        }
        assert_eq!(listed(&core), []);
        let second = FaultInjection { nvmsetid: 2, ..lost };
        assert_eq!(ordered(&mut core, second), Ok(()));
        assert_eq!(listed(&core), [(FaultKind::LOST_WRITE, 2, CERTAINTY_PPB / 2, 0, 0)]);
        assert_eq!(ordered(&mut core, fault(FaultKind::CLEAR)), Ok(()));
        assert_eq!(listed(&core), []);
    }

    #[test]
    fn every_fault_of_media_is_listed_until_it_is_cleared() {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        let made_with = core.ftl.faults(SetId(0)).cloned();
        let mut expected = Vec::new();
        let media = FaultKind::NAMES.into_iter().map(|(_, kind)| kind).filter(|kind| {
            let others = [FaultKind::CLEAR, FaultKind::POWER_CUT];
            !others.contains(kind) && !kind.is_of_port() && !kind.is_of_host_disk() && !kind.is_of_protocol()
        });
        for kind in media {
            let param = if [FaultKind::STUCK_DIE, FaultKind::SLOW].contains(&kind) { 3 } else { 0 };
            let one = FaultInjection { nvmsetid: 1, param, ..fault(kind) };
            let chance = if kind == FaultKind::STUCK_DIE { CERTAINTY_PPB } else { CERTAINTY_PPB / 2 };
            let counted = FaultInjection { count: 7, one_in: 0, ..one };
            assert_eq!(ordered(&mut core, one), Ok(()), "{kind}");
            expected.push((kind, 1, chance, param, 0));
            assert_eq!(ordered(&mut core, counted).is_ok(), kind.is_counted(), "{kind}");
            if kind.is_counted() {
                expected.push((kind, 1, CERTAINTY_PPB, 0, 7));
            }
        }
        let cut = PowerCut { after_media_ops: 9, ..PowerCut::default() };
        plan_media(&mut core, &cut);
        expected.push((FaultKind::POWER_CUT, 0, CERTAINTY_PPB, 0, 9));
        let mut found = listed(&core);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(ordered(&mut core, fault(FaultKind::CLEAR)), Ok(()));
        assert_eq!(listed(&core), []);
        assert_eq!(
            core.ftl.faults(SetId(0)).cloned(),
            made_with,
            "bad blocks and wear-out are no injected faults"
        );
    }

    #[test]
    fn a_cut_gives_the_media_its_seed_and_0_keeps_theirs() {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        let seeds = |core: &Core| -> Vec<u64> {
            sets(core).filter_map(|set| core.ftl.faults(set).map(|plan| plan.seed)).collect()
        };
        let of_the_drive = seeds(&core);
        assert!(!of_the_drive.is_empty());
        for (after_media_ops, seed) in [(0, 0), (5, 0), (0, 42), (5, 43)] {
            plan_media(&mut core, &PowerCut { after_media_ops, seed, ..PowerCut::default() });
            let expected = match seed {
                0 => of_the_drive.clone(),
                _ => vec![seed.into(); of_the_drive.len()],
            };
            assert_eq!(seeds(&core), expected, "after {after_media_ops}, seed {seed}");
        }
    }

    #[test]
    fn a_loss_of_power_ends_the_count_down_to_another() {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        let cut = PowerCut { after_media_ops: 7, off_ms: 0, seed: 0, no_plp: false };
        plan_media(&mut core, &cut);
        assert_eq!(listed(&core), [(FaultKind::POWER_CUT, 0, CERTAINTY_PPB, 0, 7)]);
        core.power_lost(Nanos::ZERO, true, &mut NoContents);
        assert_eq!(listed(&core), []);
    }
}
