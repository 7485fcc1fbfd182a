//! Namespaces that come and go: whoever gets one sees zeros, whatever was there before.

use super::drive::{Drive, HOST_NQN};
use super::load::Space;
use super::scene::{command, run};
use super::stamp::Random;
use nvme::admin::{FormatNvm, SecureErase};
use std::path::Path;

/// Formats by size of a block, the `--lba` of each, and its protection information.
const FORMATS: &[(u32, &str, &str)] =
    &[(4096, "4096", "0"), (512, "512", "0"), (4096, "4096+8", "1"), (512, "512+8", "1")];
const MIB: u64 = 1 << 20;
/// Of one namespace.
const MAX_NAMESPACE_MIB: u64 = 12;

/// A namespace of which nothing is expected.
const UNUSED: u32 = 4;

/// Formats a namespace, or deletes it and creates another; what is there afterwards, of the incarnation given.
pub fn reshape(
    drive: &Drive,
    program: &Path,
    space: &Space,
    incarnation: u64,
    random: &mut Random,
) -> Result<Space, String> {
    let (sector, lba, pi) = FORMATS[random.below(FORMATS.len() as u64) as usize];
    let bytes = space.sectors * u64::from(space.sector);
    let nsid = space.nsid.to_string();
    let on = drive.unix();
    let to = ["--on", &on, "--hostnqn", HOST_NQN, "--output", "json"];
    let ns = |args: &[&str]| run(command(drive.dir(), program).arg("ns").args(args).args(to));
    let mut next = match random.below(4) {
        // As it is.
        0 => {
            erase(drive, space, random)?;
            Space::new(space.nsid, space.sector, bytes)
        }
        1 => {
            ns(&["format", &nsid, "--lba", lba, "--pi", pi])?;
            Space::new(space.nsid, sector, bytes)
        }
        _ => {
            ns(&["delete", &nsid, "--force"])?;
            let bytes = (1 + random.below(MAX_NAMESPACE_MIB)) * MIB;
            let size = bytes.to_string();
            let said =
                ns(&["create", "--nvm-set", "1", "--size", &size, "--lba", lba, "--pi", pi, "--attach"])?;
            let said: serde_json::Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
            let nsid = said["nsid"].as_u64().ok_or_else(|| format!("no identifier in {said}"))?;
            Space::new(u32::try_from(nsid).unwrap(), sector, bytes)
        }
    };
    next.owner = u64::from(next.nsid) << 32 | incarnation;
    Ok(next)
}

/// Erases the namespace that nobody writes to, while others are written.
pub fn erase_unused(drive: &Drive) -> Result<(), String> {
    let ses = SecureErase::USER_DATA;
    let format = FormatNvm { nsid: UNUSED, lbaf: 0, mset: false, pi: 0, pil: false, ses };
    drive.host()?.format(format).map_err(|error| error.to_string())
}

fn erase(drive: &Drive, space: &Space, random: &mut Random) -> Result<(), String> {
    let ses = match random.one_in(2) {
        true => SecureErase::USER_DATA,
        false => SecureErase::NONE,
    };
    let mut host = drive.host()?;
    let identified = host.identify_namespace(space.nsid).map_err(|error| error.to_string())?;
    let lbaf = identified.flbas.format_index();
    let pi = identified.dps.pit();
    let format = FormatNvm { nsid: space.nsid, lbaf, mset: pi != 0, pi, pil: false, ses };
    host.format(format).map_err(|error| error.to_string())
}
