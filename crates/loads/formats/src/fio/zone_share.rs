//! Jobs that are on the zones of one namespace at the same time.
//!
//! Each job is a state machine of its own and knows nothing of the others. So every job that writes has its own zones, and its own share of
//! the zones that may be open. fio has a table of zones that its jobs share.

use super::job::Job;
use super::plan::Plan;
use super::zones::{Zone, Zones};

/// Whether jobs that run at the same time on one namespace leave each other's zones alone: no two write or reset the same. A job that only
/// reads may be anywhere.
///
/// # Errors
/// The index of a job that does not, and what is wrong.
pub fn check_zones(plans: &[&Plan]) -> Result<(), (usize, String)> {
    let mut regions: Vec<(u64, u64, usize)> = (0..)
        .zip(plans)
        .filter(|(_, plan)| plan.zones.is_some() && changes(plan))
        .map(|(index, plan)| (plan.start, plan.start + plan.size, index))
        .collect();
    regions.sort_unstable();
    for pair in regions.windows(2) {
        let [(_, end, _), (start, _, index)] = pair else { continue };
        if start < end {
            return Err((
                *index,
                "another job writes in the same zones at the same time: give each its own region with size and offset, or \
                 clones with offset_increment (size=8z, offset_increment=8z), or let one wait for the other (stonewall)"
                    .to_owned(),
            ));
        }
    }
    Ok(())
}

/// Tells jobs that begin at the same time on one namespace what its zones hold. `zones` are all zones of the namespace. Those that may be
/// open are shared among the jobs that write, equally; zones outside their regions that are active already are taken off.
///
/// A job that can do nothing with its zones ends at once, and [says why](Job::problem).
pub fn begin_zones(jobs: &mut [&mut Job], zones: &[Zone]) {
    let writers = jobs.iter().filter(|job| writes(job.plan())).count();
    let elsewhere = |zone: &&Zone| {
        let is_in = |plan: &Plan| {
            let first = plan.blocks(plan.start);
            writes(plan) && (first..first + plan.blocks(plan.size)).contains(&zone.start)
        };
        zone.active && !jobs.iter().any(|job| is_in(job.plan()))
    };
    let taken = zones.iter().filter(elsewhere).count();
    let mut number = 0;
    for job in jobs {
        let share = match writes(job.plan()) {
            true => {
                number += 1;
                share(job.plan(), taken, writers, number - 1)
            }
            false => Ok(usize::MAX),
        };
        let begun = share.and_then(|open| Zones::new(job.plan(), zones, open));
        job.begin_zones(begun);
    }
}

/// How many zones a writing job may have open, the `number`-th from 0 of so many; `taken` are active for others.
fn share(plan: &Plan, taken: usize, writers: usize, number: usize) -> Result<usize, String> {
    let options = &plan.options.zones;
    let count = |limit: u32| limit as usize;
    let wanted = Some(count(options.max_open)).filter(|most| *most > 0);
    let allowed = plan.zones.filter(|_| !options.ignore_limits).and_then(|zones| {
        let active = zones.max_active.map(|most| count(most).saturating_sub(taken));
        zones.max_open.map(count).into_iter().chain(active).min()
    });
    let own = Some(count(options.job_max_open)).filter(|most| *most > 0);
    let part = match wanted.into_iter().chain(allowed).min() {
        None => usize::MAX,
        Some(all) => all / writers + usize::from(number < all % writers),
    };
    match own.map_or(part, |own| own.min(part)) {
        0 => Err(format!(
            "{writers} jobs write at the same time, and they may have {} zones open together ({taken} are active outside their \
             regions): reduce numjobs, or finish zones (tranche zone finish)",
            wanted.into_iter().chain(allowed).min().unwrap_or(0)
        )),
        open => Ok(open),
    }
}

fn writes(plan: &Plan) -> bool {
    plan.options.rw.does[1] && !plan.options.verify_only
}

fn changes(plan: &Plan) -> bool {
    writes(plan) || plan.options.rw.does[2]
}
