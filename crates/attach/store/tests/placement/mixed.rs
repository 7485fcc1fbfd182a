//! Files without a hint: a large one that is overwritten at random, small ones that come and go, large ones that stay.

use rng::Rng;
use store::Placement;

use crate::{Files, amplification, measure, seeds};

fn run(placement: Placement, seed: u64) -> u64 {
    let mut files = Files::new(270, 64, 14, placement);
    let mut rng = Rng::new(seed);
    let database = files.create().1;
    for block in (0..5_000).step_by(50) {
        files.write(database, block, 50);
    }
    let mut small = Vec::new();
    let mut large = Vec::new();
    let mut before = files.store.usage();
    for step in 0..60_000u64 {
        if step == 20_000 {
            before = files.store.usage();
        }
        match rng.below(10) {
            // Nine of ten writes go to a tenth of the blocks.
            0..6 => {
                let blocks = if rng.below(10) == 0 { 4_990 } else { 500 };
                files.write(database, rng.below(blocks), 1 + rng.below(4));
            }
            6..9 => {
                let (name, ino) = files.create();
                files.write(ino, 0, 1 + rng.below(12));
                small.push(name);
                if small.len() > 250 {
                    let name = small.swap_remove(rng.below(250) as usize);
                    files.delete(&name);
                }
            }
            _ if step % 100 == 0 => {
                let (name, ino) = files.create();
                for piece in 0..40 {
                    files.write(ino, piece * 16, 16);
                }
                large.push(name);
                if large.len() > 4 {
                    let name = large.remove(0);
                    files.delete(&name);
                }
            }
            _ => {}
        }
    }
    let after = files.store.usage();
    amplification(&before, &after)
}

#[test]
fn size_and_age_save_where_nobody_gives_hints() {
    for seed in 0..seeds() {
        let [none, lifetime, overlap] =
            measure("files without hints", seed, |placement| run(placement, seed));
        assert!(lifetime * 115 < none * 100, "seed {seed}");
        assert_eq!(lifetime, overlap, "nobody gives keys");
    }
}
