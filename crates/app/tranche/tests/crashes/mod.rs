//! What the campaigns consist of.

mod blocks;
mod databases;
mod disk;
mod drive;
mod drives;
mod events;
mod files;
mod innodb_log;
mod load;
mod model;
mod mounted;
mod reshape;
mod rows;
mod scene;
mod stamp;

pub use blocks::{ALL_PATHS, Case, SOCKETS};
pub use databases::Engine;
pub use drives::DriveKind;
pub use mounted::FileSystem;
pub use scene::{Scene, watched};

use std::path::PathBuf;

/// What the command line says.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// The program under test.
    pub program: PathBuf,
}

/// The numbers of the rounds. A long campaign says how far it is, so that one that is stopped counts, too.
fn rounds(count: u32) -> impl Iterator<Item = u32> {
    (1..=count).inspect(|round| {
        if *round > 1 && round % 100 == 1 {
            eprintln!("{} rounds are through", round - 1);
        }
    })
}

/// Stamped blocks on one kind of drive.
pub fn blocks(case: Case, scene: &Scene, rounds: u32, options: &Options) -> Result<String, String> {
    blocks::campaign(case, scene, rounds, options)
}

/// Files on a file system.
pub fn files(
    kind: mounted::MountSetup,
    scene: &Scene,
    rounds: u32,
    options: &Options,
) -> Result<String, String> {
    files::campaign(kind, scene, rounds, options)
}

/// Rows of a database on a file system.
pub fn rows(
    engine: Engine,
    kind: mounted::MountSetup,
    scene: &Scene,
    rounds: u32,
    options: &Options,
) -> Result<String, String> {
    rows::campaign(engine, kind, scene, rounds, options)
}

/// Power cuts under MariaDB's layouts, as the study makes them.
pub fn layouts(scene: &Scene, rounds: u32, options: &Options) -> Result<String, String> {
    let mut study = scene::command(&scene.dir, &options.program);
    let (rounds, seed) = (rounds.to_string(), options.seed.to_string());
    study.args(["study", "powercut", "--variants", "nand,dram,atomic", "--rounds", &rounds, "--seed", &seed]);
    study.arg("--out").arg(scene.dir.join("out")).arg("--scratch").arg(&scene.dir);
    study.env("TRANCHE", &options.program);
    scene::run(&mut study).map(|_| "as the study says".into())
}
