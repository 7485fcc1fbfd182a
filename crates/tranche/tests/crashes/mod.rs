//! What the campaigns consist of.

mod blocks;
mod disk;
mod drive;
mod drives;
mod events;
mod load;
mod model;
mod reshape;
mod scene;
mod stamp;

pub use blocks::{Case, EVERY_WAY, SOCKETS};
pub use drives::Kind;
pub use scene::{Scene, watched};

use std::path::PathBuf;

/// What the command line says.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// Cases that are switched on though they wait for a mend.
    pub with: Vec<String>,
    /// The program under test.
    pub program: PathBuf,
}

impl Options {
    fn with(&self, name: &str) -> bool {
        self.with.iter().any(|with| with == name || with == "all")
    }
}

/// Stamped blocks on one kind of drive.
pub fn blocks(case: Case, scene: &Scene, rounds: u32, options: &Options) -> Result<String, String> {
    blocks::campaign(case, scene, rounds, options)
}
