//! Write amplification of random writes beside theory, by spare and by policy of collection.
//!
//!     cargo bench -p ftl --bench amplification
//!
//! Prints the rows of a table like that in docs/benchmarks.md.

#[path = "../tests/suite/support/load.rs"]
mod load;

use ftl::GcPolicy;
use load::{Class, LoadedDrive, hot_and_cold, kept_apart, oldest_first, uniform, zipf};

/// Writes in capacities before those that count, and those.
const SETTLING_CAPACITIES: u64 = 8;
const COUNT: u64 = 4;

fn main() {
    let loads: [(&str, Vec<Class>); 5] = [
        ("uniform", uniform()),
        ("80 % of the writes to 20 %", hot_and_cold(0.8, 0.2)),
        ("90 % to 10 %", hot_and_cold(0.9, 0.1)),
        ("Zipf, 0.8", zipf(0.8, 450_000.0)),
        ("Zipf, 1.0", zipf(1.0, 450_000.0)),
    ];
    println!("| load | spare | greedy | cost-benefit | oldest first | kept apart |");
    println!("|---|---|---|---|---|---|");
    for (name, classes) in loads {
        for spare in [7.0, 12.5, 28.0] {
            let mut alpha = 0.0;
            let measured = [GcPolicy::Greedy, GcPolicy::CostBenefit].map(|policy| {
                let mut load = LoadedDrive::new(spare / 100.0, policy, classes.clone());
                alpha = load.alpha;
                (0..load.pages).for_each(|page| load.write(page));
                load.overwrite(SETTLING_CAPACITIES * load.pages);
                load.overwrite(COUNT * load.pages)
            });
            println!(
                "| {name} | {} % | {:.2} | {:.2} | {:.2} | {:.2} |",
                spare,
                measured[0],
                measured[1],
                oldest_first(&classes, alpha),
                kept_apart(&classes, alpha),
            );
        }
    }
}
