//! Crashes of a drive in an image, on a simulated disk: the whole of engine, drive and image, deterministic by its seed.
//!
//! `TRANCHE_CRASHES=1000000 cargo test --release -p run --lib crash -- --nocapture` is the campaign; the suite has a slice
//! of it. `TRANCHE_CRASH_SEED=N` repeats the world of one seed.

mod disk;
mod oracle;
mod world;

use crate::image::ImageOptions;
use media::Rng;
use oracle::{After, Safe};
use world::{Manner, World};

/// Crashes of one world.
const ROUNDS: u64 = 8;

/// A drive that seed chooses.
fn manner(rng: &mut Rng) -> Manner {
    let protected = rng.below(3) > 0;
    let timing = rng.below(3) == 0;
    // An atomic write must fit into a program unit.
    let (atomic, nand_page) =
        [("4KiB", "4KiB"), ("4KiB", "16KiB"), ("16KiB", "16KiB")][rng.below(3) as usize];
    let handles = ["", "placement = { handles = 3 }"][rng.below(2) as usize];
    let second = match rng.below(4) {
        0 => "media = \"dram\"\ncapacity = \"1MiB\"".to_owned(),
        1 => "media = \"pmem\"\ncapacity = \"1MiB\"".to_owned(),
        _ => nand(rng, nand_page, ""),
    };
    let volatile = second.starts_with("media = \"dram");
    let one_set = rng.below(3) == 0;
    let (first_size, second_size) = ([4096, 512][rng.below(2) as usize], [512, 4096][rng.below(2) as usize]);
    let toml = format!(
        "[drive]\ntiming = {timing}\nwrite_buffer = \"{}\"\natomic_write = \"{atomic}\"\npower_loss_protection = {protected}\n\
         lba_formats = [\"512\", \"4096\"]\n\
         [[set]]\n{}\n[[set]]\n{second}\n\
         [[namespace]]\nset = 1\nsize = \"1MiB\"\nlba = {first_size}\nattach = \"all\"\n\
         [[namespace]]\nset = {}\nsize = \"1MiB\"\nlba = {second_size}\nattach = \"all\"\n",
        ["256KiB", "512KiB"][rng.below(2) as usize],
        nand(rng, nand_page, handles),
        if one_set { 1 } else { 2 },
    );
    let options = ImageOptions {
        host_sync: rng.below(4) > 0,
        checkpoint_bytes: [2048, 16 << 10, 64 << 10, 1 << 20][rng.below(4) as usize],
        margin_slots: [64, 128, 1024][rng.below(3) as usize],
    };
    let blocks = |size: usize, rng: &mut Rng| {
        (size, [(48 << 10) / size, (160 << 10) / size, (1 << 20) / size][rng.below(3) as usize])
    };
    let spaces = vec![blocks(first_size, rng), blocks(second_size, rng)];
    Manner { toml, options, protected, volatile, spaces }
}

fn nand(rng: &mut Rng, nand_page: &str, handles: &str) -> String {
    format!(
        "media = \"nand\"\ncell = \"slc\"\ncapacity = \"2MiB\"\nspare = \"{}\"\nchannels = {}\ndies = 2\nplanes = 1\n\
         nand_page = \"{nand_page}\"\npages_per_block = {}\nrated_cycles = 1000000\n{handles}",
        ["350%", "450%"][rng.below(2) as usize],
        1 + rng.below(2),
        [8, 16][rng.below(2) as usize],
    )
}

/// What the worlds went through.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    kills: u64,
    host_crashes: u64,
    in_recovery: u64,
    power_cuts: u64,
    failed_syncs: u64,
    stops: u64,
    formats: u64,
}

impl Tally {
    fn crashes(&self) -> u64 {
        self.kills + self.host_crashes
    }
}

/// Plays one world; its crashes are counted in `tally`.
fn play(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let manner = manner(&mut rng);
    let host_sync = manner.options.host_sync;
    let mut world = World::make(manner, seed);
    for round in 0..ROUNDS {
        let told = |what: String| format!("round {round}: {what}");
        if rng.below(3) == 0 {
            world.disk.die_in(1 + rng.below(400));
        }
        if host_sync && rng.below(8) == 0 {
            world.disk.fail_syncs(2 + rng.below(6));
        }
        let mut steps = rng.below(400);
        while steps > 0 && !world.is_over() {
            world.act();
            steps -= 1;
            let cut = world.cut.is_some();
            world.look_after_cut().map_err(|e| format!("round {round}, after a cut: {e}"))?;
            tally.power_cuts += u64::from(cut && world.cut.is_none());
        }
        if !world.is_over() && rng.below(12) == 0 {
            world.disk.set_full(false);
            world.stop();
            tally.stops += 1;
        }
        if world.disk.is_unmarked() {
            break;
        }
        let failed = world.disk.has_failed();
        tally.failed_syncs += u64::from(failed);
        crash_and_return(&mut world, &mut rng, failed, tally).map_err(told)?;
        // Idle or not, what is there stays.
        for _ in 0..rng.below(60) {
            world.act();
            world.look_after_cut().map_err(told)?;
        }
    }
    tally.formats += world.formats;
    Ok(())
}

/// The process dies, with the host or without; others die while they open the image; the last one finds what may be there.
fn crash_and_return(world: &mut World, rng: &mut Rng, failed: bool, tally: &mut Tally) -> Result<(), String> {
    let host_sync = world.manner.options.host_sync;
    let mut after = world.cut.take().unwrap_or_default().and(After { host: failed, ..After::default() });
    loop {
        world.disk.die();
        let host = host_sync && rng.below(2) == 0;
        match host {
            true => tally.host_crashes += 1,
            false => tally.kills += 1,
        }
        after.host |= host;
        world.disk.restart(host);
        if rng.below(4) == 0 {
            world.disk.die_in(1 + rng.below(30));
        }
        match world.reopen() {
            Ok(()) if !world.disk.is_dead() => break,
            Ok(()) => tally.in_recovery += 1,
            Err(e) if !world.disk.is_dead() => return Err(format!("the image does not open: {e}")),
            Err(_) => tally.in_recovery += 1,
        }
    }
    world.disk.die_in(u64::MAX);
    world.verify(after, Safe::FromHost)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn crashes_lose_nothing() {
    let mut tally = Tally::default();
    if let Some(seed) = number("TRANCHE_CRASH_SEED") {
        play(seed, &mut tally).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        return;
    }
    let wanted = number("TRANCHE_CRASHES").unwrap_or(2000);
    let first = u64::from_le_bytes(super::disk::random()) >> 16;
    println!("worlds from seed {first} on");
    let mut seed = first;
    while tally.crashes() < wanted {
        let result = std::panic::catch_unwind(|| {
            let mut tally = Tally::default();
            play(seed, &mut tally).map(|()| tally)
        });
        match result {
            Ok(Ok(world)) => {
                tally.kills += world.kills;
                tally.host_crashes += world.host_crashes;
                tally.in_recovery += world.in_recovery;
                tally.power_cuts += world.power_cuts;
                tally.failed_syncs += world.failed_syncs;
                tally.stops += world.stops;
                tally.formats += world.formats;
            }
            Ok(Err(what)) => panic!("TRANCHE_CRASH_SEED={seed}: {what}"),
            Err(_) => panic!("TRANCHE_CRASH_SEED={seed}: panicked, see above"),
        }
        seed += 1;
    }
    println!("{} worlds, {tally:?}", seed - first);
}
