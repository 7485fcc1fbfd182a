//! Which layouts are simulated, and why the others are not.

use anyhow::{Result, bail};

use super::{
    database_model::Database,
    drive::Drive,
    layouts::{Arrangement, Excluded, Layout, Place, Plan},
    load::Load,
    server::Server,
    simulated_drive::{Extras, SimulatedDrive},
};
use lab_report::figure::show;

/// What is simulated, and what is not.
pub struct Chosen {
    /// The layouts, each with its drive; what is configured is the first.
    pub plans: Vec<(Plan, SimulatedDrive)>,
    /// What is not simulated, and why.
    pub excluded: Vec<Excluded>,
}

/// Chooses among the layouts of a database under a load. Without names all are taken that are no extras. What is configured is always there.
///
/// # Errors
/// A layout is not one of this server, or the drive cannot be as it is.
pub fn choose(
    database: &dyn Database,
    server: Server,
    drive: &Drive,
    load: &Load,
    asked: &[Layout],
    extras: &Extras,
) -> Result<Chosen> {
    let known = database.layouts();
    if let Some(other) = asked.iter().find(|layout| !known.contains(layout)) {
        let names: Vec<_> = known.iter().map(|layout| layout.name()).collect();
        lab_report::misuse!("--layouts: {other} is no layout of {server}: there are {}", names.join(", "));
    }
    let mut own = database.plans(drive);
    let mut excluded = database.excluded(drive);
    let Some(configured) = own.first().cloned() else { bail!("there is no layout") };
    let mut plans = Vec::new();
    for &layout in known {
        let name = layout.name();
        let wanted = match asked {
            [] => !layout.is_extra(),
            some => layout == Layout::Configured || some.contains(&layout),
        };
        let applies: Vec<Plan> = match layout {
            Layout::Zones => vec![zones(&configured, database, drive)],
            Layout::Cache => extras.disk.plans(&configured, load).into(),
            Layout::Quota => neighbours(&configured, extras).into(),
            _ => own.extract_if(.., |plan| plan.name == name).collect(),
        };
        if !wanted {
            let answered = applies.is_empty() || excluded.iter().any(|excluded| excluded.name == name);
            if !answered {
                excluded.push(Excluded {
                    name,
                    why: format!("it was not asked for: --layouts {name} simulates it"),
                });
            }
        } else if applies.is_empty() && !asked.is_empty() && !excluded.iter().any(|e| e.name == name) {
            excluded.push(Excluded { name, why: "it is what is configured".into() });
        }
        for mut plan in applies.into_iter().filter(|_| wanted) {
            match SimulatedDrive::new(drive, database, &plan, load, extras) {
                Ok(ground) => {
                    complete(&mut plan, &ground);
                    plans.push((plan, ground));
                }
                Err(error) if plans.is_empty() => return Err(error),
                Err(error) => excluded.push(Excluded { name: plan.name, why: format!("{error:#}") }),
            }
        }
    }
    Ok(Chosen { plans, excluded })
}

/// What is configured, with the logs on zones.
fn zones(configured: &Plan, database: &dyn Database, drive: &Drive) -> Plan {
    let has = drive.has_zones();
    let mut steps = vec!["On a real drive: a zoned namespace beside that of the data.".to_owned()];
    if !has {
        steps.push("To try it here, in the drive's TOML, in the [[set]] of NAND:\nzone = {}".into());
    }
    steps.push(
        "tranche ns create --zoned --size SIZE --attach, tranche store format, and tranche store mount /mnt/store: a file system for \
         zones (docs/howto/store.md). SIZE is twice that of the logs, and some zones."
            .into(),
    );
    steps.extend(database.moving("/mnt/store"));
    Plan {
        name: "zones",
        description:
            "As configured, with the logs on a zoned namespace of the drive and the data beside them.".into(),
        arrangement: Arrangement { logs: true, ..configured.arrangement },
        place: Place::Zones,
        needs: (!has).then(|| "a drive with zones (this one: none)".to_owned()),
        steps,
        ..configured.clone()
    }
}

/// What is configured, beside a neighbour without a quota and with one.
fn neighbours(configured: &Plan, extras: &Extras) -> [Plan; 2] {
    let who = &extras.neighbour.description;
    [("neighbour", false), ("quota", true)].map(|(name, quota)| Plan {
        name,
        description: match quota {
            false => format!("As configured, beside {who} on another namespace of the drive."),
            true => format!("As configured, beside {who} on another namespace of the drive, with a quota."),
        },
        place: Place::Shared { quota },
        warnings: Vec::new(),
        steps: match quota {
            false => Vec::new(),
            true => vec![
                "Here: tranche quota set NSID --read RATE --write RATE --save, with the neighbour's namespace and the rates above \
                 (docs/vendor.md)."
                    .into(),
                "On a drive without quotas Linux can hold the neighbour back: rbps and wbps in io.max of its cgroup.".into(),
            ],
        },
        ..configured.clone()
    })
}

/// Says what depends on the drive: the neighbour's quota.
fn complete(plan: &mut Plan, ground: &SimulatedDrive) {
    let Some(rate) = ground.neighbour.as_ref().and_then(|guest| guest.quota) else { return };
    let rate = format!("{} MB/s", show(rate as f64 / 1e6));
    plan.description =
        plan.description.replace("with a quota", &format!("with a quota of {rate} for reads and for writes"));
}
