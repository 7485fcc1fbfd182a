//! Who the programs of this machine are to a drive.

use nvme::Nqn;

use crate::Error;

/// Where Linux keeps the NQN of a machine.
const FILE: &str = "/etc/nvme/hostnqn";
/// The NQN of a machine that has none.
const DEFAULT_NQN: &str = "nqn.2026-11.io.tranche:cli";

/// The host NQN of this machine: that of `/etc/nvme/hostnqn`, or a fixed one if there is no such file. Drives remember attached namespaces by it.
///
/// # Errors
/// The file holds no NQN.
pub fn local_nqn() -> Result<Nqn, Error> {
    let text = std::fs::read_to_string(FILE);
    let (text, place) = text.as_deref().map_or((DEFAULT_NQN, "the fixed NQN"), |text| (text.trim(), FILE));
    text.parse().map_err(|error| Error::Usage(format!("{place}: {error}")))
}
