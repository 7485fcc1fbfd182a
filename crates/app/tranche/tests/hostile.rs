//! A hostile tenant against its neighbour on one drive: what it does slows only itself, and it neither sees, changes nor locks out anybody else.
//!
//! The program is the real one, with a list of hosts, timing and quotas. A victim reads and writes at a low rate, an administrator and the victim come anew during each attack, and
//! everything that the hostile tenant may not change is compared. `hostile/judge.rs` says how slices are compared, and why noise does not decide.
//!
//!     TRANCHE_HOSTILE_ROUNDS=N cargo test --profile suite --locked -p tranche --test hostile -- --nocapture
//!
//! N pairs of slices for each attack (1 in the suite); `TRANCHE_HOSTILE_ONLY=NAME` for those whose name has this in it, `TRANCHE_HOSTILE_SEED` for another order,
//! `TRANCHE_HOSTILE_PROGRAM` for another build of the program.

#[path = "hostile/admin.rs"]
mod admin;
#[path = "hostile/attack.rs"]
mod attack;
mod common;
#[path = "hostile/connections.rs"]
mod connections;
#[path = "hostile/drive.rs"]
mod drive;
#[path = "hostile/identities.rs"]
mod identities;
#[path = "hostile/io.rs"]
mod io;
#[path = "hostile/judge.rs"]
mod judge;
#[path = "hostile/logs.rs"]
mod logs;
#[path = "hostile/victim.rs"]
mod victim;
#[path = "hostile/web.rs"]
mod web;
#[path = "hostile/wire.rs"]
mod wire;

use judge::{DRIVE_NICENESS, HEAD, Judge};
use rng::Rng;
use wire::set_niceness;

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
fn a_hostile_tenant_slows_and_reaches_only_itself() {
    let number = |name: &str, default: u64| setting(name).map_or(default, |text| text.parse().expect(name));
    let (rounds, seed) = (number("TRANCHE_HOSTILE_ROUNDS", 1), number("TRANCHE_HOSTILE_SEED", 1));
    let only = setting("TRANCHE_HOSTILE_ONLY").unwrap_or_default();
    println!("TRANCHE_HOSTILE_ROUNDS={rounds} TRANCHE_HOSTILE_SEED={seed} TRANCHE_HOSTILE_ONLY={only}");
    let mut attacks: Vec<_> = attack::all().filter(|attack| attack.name.contains(&only)).collect();
    assert!(!attacks.is_empty(), "no attack has '{only}' in its name");
    // Another order for each seed: an attack may prepare another one.
    let mut rng = Rng::new(seed);
    for place in (1..attacks.len()).rev() {
        attacks.swap(place, rng.below(place as u64 + 1) as usize);
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all).unwrap();
    set_niceness(DRIVE_NICENESS);
    let mut judge = Judge::new(seed);
    println!("{HEAD}");
    let mut broken = Vec::new();
    // Those that are slow at first are judged once more at the end.
    for is_second in [false, true] {
        for attack in std::mem::take(&mut attacks) {
            let verdict = judge.judge(attack, rounds as usize);
            println!("{verdict}");
            if verdict.is_only_slow() && !is_second {
                attacks.push(attack);
            } else if !verdict.holds() {
                broken.push(verdict.to_string());
            }
        }
    }
    assert!(
        broken.is_empty(),
        "{} attacks succeed (seed {seed}):\n{HEAD}\n{}",
        broken.len(),
        broken.join("\n")
    );
}
