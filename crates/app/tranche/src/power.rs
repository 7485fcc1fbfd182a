//! `tranche power-cut`.

use crate::args::PowerCut;
use crate::connect::{CONNECT_TIMEOUT, connect};
use crate::options::Output;
use crate::refusal::network_refusal;
use crate::{print_json, print_text};
use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The cut.
#[derive(Serialize, JsonSchema)]
pub struct Cut {
    /// Media operations that pass first; 0: it is over.
    after_media_ops: u32,
    /// Time without power.
    #[schemars(extend("unit" = "ms"))]
    off_ms: u32,
}

/// Waits until the drive takes hosts again: after its time without power, and while it recovers.
fn wait_for_power(cut: &PowerCut) -> Result<()> {
    let deadline = Instant::now() + Duration::from_millis(cut.off.into()) + CONNECT_TIMEOUT;
    loop {
        std::thread::sleep(Duration::from_millis(20));
        match connect(&cut.target) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context("the drive has not come back"));
            }
            Err(_) => {}
        }
    }
}

/// `tranche power-cut`.
///
/// A cut that comes at once is over when this returns: the next command finds the drive with power.
pub fn power_cut(cut: &PowerCut, output: Output) -> Result<()> {
    let mut host = connect(&cut.target)?;
    let asked = host.power_cut(nvme::admin::PowerCut {
        after_media_ops: cut.after,
        off_ms: cut.off,
        seed: cut.seed,
        no_plp: cut.no_plp,
    });
    asked.map_err(|error| match network_refusal(&host, &error) {
        Some(why) => anyhow::Error::from(error).context(why),
        None => error.into(),
    })?;
    drop(host);
    if cut.after == 0 {
        wait_for_power(cut)?;
    }
    match output {
        Output::Json => print_json(&Cut { after_media_ops: cut.after, off_ms: cut.off }),
        Output::Text if cut.after > 0 => {
            print_text(&format!("power goes off after {} media operations, for {} ms", cut.after, cut.off))
        }
        Output::Text => print_text(&format!("power was off for {} ms; the drive is back", cut.off)),
    }
}
