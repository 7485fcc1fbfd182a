//! Crashes of the real program, in every way and many in a row, under every kind of load; what is promised must be
//! there afterwards, and nothing else.
//!
//! `cargo test --profile suite -p tranche --test crashes -- [--rounds N] [--seed N] [--only NAME] [--dir DIR]
//! [--program PATH] [--list]`; without rounds a short slice of each. Needs root, FUSE and loop devices, for
//! databases and file systems their programs; says so where they are missing.
//!
//! A campaign that fails prints its seed and what was expected and found, and keeps its directory. The seed gives the same
//! load and the same crashes, though not at the same instruction.

#[path = "crashes/mod.rs"]
mod crashes;
use crashes::{ALL_PATHS, Case, DriveKind, Engine, FileSystem, Options, SOCKETS, Scene};
use std::path::PathBuf;

type Run = fn(&Scene, u32, &Options) -> Result<String, String>;

struct Campaign {
    name: &'static str,
    /// Rounds in the suite.
    slice: u32,
    programs: &'static [&'static str],
    run: Run,
}

const BLOCKS: Case = Case { drive: DriveKind::Mixed, paths: ALL_PATHS, no_host_sync: false, key: false };

const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "blocks",
        slice: 4,
        programs: &["losetup"],
        run: |scene, rounds, options| crashes::blocks(BLOCKS, scene, rounds, options),
    },
    Campaign {
        name: "blocks-no-host-sync",
        slice: 3,
        programs: &[],
        run: |scene, rounds, options| {
            crashes::blocks(Case { no_host_sync: true, paths: SOCKETS, ..BLOCKS }, scene, rounds, options)
        },
    },
    Campaign {
        name: "keys",
        slice: 3,
        programs: &["losetup"],
        run: |scene, rounds, options| crashes::blocks(Case { key: true, ..BLOCKS }, scene, rounds, options),
    },
    Campaign {
        name: "unreliable-capacitors",
        slice: 3,
        programs: &["losetup"],
        run: |scene, rounds, options| {
            crashes::blocks(Case { drive: DriveKind::Unreliable, ..BLOCKS }, scene, rounds, options)
        },
    },
    Campaign {
        name: "no-capacitors",
        slice: 5,
        programs: &["losetup"],
        run: |scene, rounds, options| {
            crashes::blocks(Case { drive: DriveKind::Unprotected, ..BLOCKS }, scene, rounds, options)
        },
    },
    Campaign {
        name: "worn",
        slice: 3,
        programs: &[],
        run: |scene, rounds, options| {
            crashes::blocks(Case { drive: DriveKind::Worn, paths: SOCKETS, ..BLOCKS }, scene, rounds, options)
        },
    },
    Campaign {
        name: "namespaces",
        slice: 3,
        programs: &[],
        run: |scene, rounds, options| {
            crashes::blocks(
                Case { drive: DriveKind::Shifting, paths: SOCKETS, ..BLOCKS },
                scene,
                rounds,
                options,
            )
        },
    },
    Campaign {
        name: "namespaces-with-keys",
        slice: 2,
        programs: &[],
        run: |scene, rounds, options| {
            let case = Case { drive: DriveKind::Shifting, paths: SOCKETS, key: true, ..BLOCKS };
            crashes::blocks(case, scene, rounds, options)
        },
    },
    Campaign {
        name: "ext4",
        slice: 2,
        programs: &["losetup", "mount", "umount", "mkfs.ext4", "e2fsck"],
        run: |scene, rounds, options| crashes::files((FileSystem::Ext4, true), scene, rounds, options),
    },
    Campaign {
        name: "xfs",
        slice: 1,
        programs: &["losetup", "mount", "umount", "mkfs.xfs", "xfs_repair"],
        run: |scene, rounds, options| crashes::files((FileSystem::Xfs, true), scene, rounds, options),
    },
    Campaign {
        name: "ext4-no-capacitors",
        slice: 1,
        programs: &["losetup", "mount", "umount", "mkfs.ext4", "e2fsck"],
        run: |scene, rounds, options| crashes::files((FileSystem::Ext4, false), scene, rounds, options),
    },
    Campaign {
        name: "xfs-no-capacitors",
        slice: 1,
        programs: &["losetup", "mount", "umount", "mkfs.xfs", "xfs_repair"],
        run: |scene, rounds, options| crashes::files((FileSystem::Xfs, false), scene, rounds, options),
    },
    Campaign {
        name: "sqlite-wal",
        slice: 1,
        programs: &["losetup", "mount", "umount", "mkfs.ext4", "e2fsck", "sqlite3"],
        run: |scene, rounds, options| {
            crashes::rows(Engine::SqliteWal, (FileSystem::Ext4, true), scene, rounds, options)
        },
    },
    Campaign {
        name: "sqlite-rollback-no-capacitors",
        slice: 1,
        programs: &["losetup", "mount", "umount", "mkfs.ext4", "e2fsck", "sqlite3"],
        run: |scene, rounds, options| {
            crashes::rows(Engine::SqliteRollback, (FileSystem::Ext4, false), scene, rounds, options)
        },
    },
    Campaign {
        name: "postgresql",
        slice: 1,
        programs: &["losetup", "mount", "umount", "mkfs.xfs", "xfs_repair", "psql"],
        run: |scene, rounds, options| {
            crashes::rows(Engine::PostgreSql, (FileSystem::Xfs, true), scene, rounds, options)
        },
    },
    Campaign {
        name: "postgresql-no-capacitors",
        slice: 1,
        programs: &["losetup", "mount", "umount", "mkfs.ext4", "e2fsck", "psql"],
        run: |scene, rounds, options| {
            crashes::rows(Engine::PostgreSql, (FileSystem::Ext4, false), scene, rounds, options)
        },
    },
    Campaign {
        name: "rocksdb",
        slice: 1,
        programs: &["losetup", "mount", "umount", "mkfs.xfs", "xfs_repair", "c++"],
        run: |scene, rounds, options| {
            crashes::rows(Engine::RocksDb, (FileSystem::Xfs, true), scene, rounds, options)
        },
    },
    Campaign {
        name: "mariadb",
        slice: 1,
        programs: &[
            "losetup",
            "mount",
            "umount",
            "mkfs.ext4",
            "e2fsck",
            "mariadbd",
            "mariadb-install-db",
            "mariadb",
        ],
        run: |scene, rounds, options| {
            crashes::rows(Engine::MariaDb, (FileSystem::Ext4, true), scene, rounds, options)
        },
    },
    Campaign {
        name: "mariadb-no-capacitors",
        slice: 1,
        programs: &[
            "losetup",
            "mount",
            "umount",
            "mkfs.xfs",
            "xfs_repair",
            "mariadbd",
            "mariadb-install-db",
            "mariadb",
        ],
        run: |scene, rounds, options| {
            crashes::rows(Engine::MariaDb, (FileSystem::Xfs, false), scene, rounds, options)
        },
    },
    Campaign {
        name: "mariadb-layouts",
        // crates/app/tranche/tests/powercut.rs is its slice.
        slice: 0,
        programs: &["losetup", "mkfs.xfs", "mkfs.ext4", "mariadbd", "mariadb-install-db", "innochecksum"],
        run: crashes::layouts,
    },
];

struct Arguments {
    rounds: Option<u32>,
    only: Option<String>,
    dir: PathBuf,
    options: Options,
}

/// None if there is nothing to run.
fn arguments() -> Option<Arguments> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_tranche"));
    let options = Options { seed: u64::from(std::process::id()), program };
    let mut all = Arguments { rounds: None, only: None, dir: std::env::temp_dir(), options };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--rounds" => all.rounds = Some(value().parse().expect("--rounds takes a number")),
            "--seed" => all.options.seed = value().parse().expect("--seed takes a number"),
            "--only" => all.only = Some(value()),
            "--dir" => all.dir = PathBuf::from(value()),
            "--program" => all.options.program = PathBuf::from(value()),
            "--list" => {
                CAMPAIGNS.iter().for_each(|campaign| println!("{}: test", campaign.name));
                return None;
            }
            // The runner's own options change nothing here; a name is that of a campaign.
            other if other.starts_with('-') => {}
            name => all.only = Some(name.to_owned()),
        }
    }
    Some(all)
}

fn main() {
    if crashes::watched() {
        return;
    }
    let Some(arguments) = arguments() else { return };
    let chosen = |campaign: &&Campaign| arguments.only.as_ref().is_none_or(|only| campaign.name == only);
    let seed = arguments.options.seed;
    let mut failed = Vec::new();
    for campaign in CAMPAIGNS.iter().filter(chosen) {
        let rounds = arguments.rounds.unwrap_or(campaign.slice);
        if !testkit::possible(campaign.name, campaign.programs) {
            continue;
        }
        if rounds == 0 {
            continue;
        }
        let mut scene = Scene::new(&arguments.dir);
        let start = std::time::Instant::now();
        let run = || (campaign.run)(&scene, rounds, &arguments.options);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let result = result.unwrap_or_else(|_| Err("the campaign panicked, see above".into()));
        let (name, seconds) = (campaign.name, start.elapsed().as_secs());
        match result {
            Ok(done) => println!("crashes {name} ... ok: {rounds} rounds, seed {seed}, {seconds} s: {done}"),
            Err(error) => {
                scene.keep();
                let kept = scene.dir.display();
                println!(
                    "crashes {name} ... FAILED: seed {seed}, --rounds {rounds}, kept in {kept}\n{error}"
                );
                failed.push(name);
            }
        }
    }
    if !failed.is_empty() {
        println!("crashes: failed with seed {seed}: {}", failed.join(", "));
        std::process::exit(1);
    }
}
