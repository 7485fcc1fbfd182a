//! What to say when a drive refuses a command, beyond its status.

use crate::connect::{self, Connected};
use anyhow::Result;
use nvme::{NSID_ALL, Status};
use units::format_size;

/// Byte 384 of Identify Namespace, of one whose key the drive does not have.
pub const LOCKED_STATE: u8 = 2;

/// Why faults and power cuts are denied to hosts on the network, and what to do instead.
const NETWORK_REFUSAL: &str = "the drive refuses this to hosts on the network: use its Unix socket (serve --unix PATH, \
                               --on unix://PATH), or set allow_network_faults = true in its TOML";

fn is_denied(error: &host::Error) -> bool {
    error.status().is_some_and(|status| status.is(Status::OPERATION_DENIED))
}

/// Faults and power cuts are refused to administrators on the network; what to do instead.
pub fn network_refusal(host: &Connected, error: &host::Error) -> Option<&'static str> {
    (is_denied(error) && host.controller().oacs.nms()).then_some(NETWORK_REFUSAL)
}

/// What to say of an error beyond its words: that the drive is locked, or does not allow this to this host.
pub fn hint(error: &anyhow::Error, words: &str) -> Option<&'static str> {
    // What was below a load is there in words only.
    let denied = Status::ACCESS_DENIED.words().is_some_and(|denied| words.contains(denied));
    if denied { without_its_key(&mut connect::again()?) } else { denial(error) }
}

/// What to say when a drive denies a command to this host and nothing else was said of it.
fn denial(error: &anyhow::Error) -> Option<&'static str> {
    let host = error.chain().find_map(|cause| cause.downcast_ref::<host::Error>())?;
    let said = error.chain().any(|cause| cause.to_string() == NETWORK_REFUSAL);
    (is_denied(host) && !said).then_some(
        "the drive's list of hosts (serve --hosts) does not allow this: a tenant has only its namespaces and their limits, and no \
         other namespace can be attached to it; without a list, hosts administer a drive only from its own machine or through its \
         Unix socket (docs/access.md)",
    )
}

/// Adds to the error of a command for a namespace what its status does not say: that there is no such namespace.
pub fn about<T>(host: &mut Connected, nsid: u32, result: Result<T, host::Error>) -> Result<T> {
    result.map_err(|error| {
        let known = error.status().and_then(|_| host.allocated_namespaces().ok());
        let error = anyhow::Error::from(error);
        match known {
            Some(known) if nsid != NSID_ALL && !known.contains(&nsid) => {
                error.context(no_namespace(nsid, &known))
            }
            _ => error,
        }
    })
}

/// Looks at a namespace that was named, so that a command which is not for namespaces alone says of it what all others say.
pub fn must_be_there(host: &mut Connected, nsid: Option<u32>) -> Result<()> {
    let Some(nsid) = nsid else { return Ok(()) };
    let found = host.namespace(nsid);
    about(host, nsid, found).map(drop)
}

/// What to say of a namespace that is not there, and which are.
fn no_namespace(nsid: u32, known: &[u32]) -> String {
    format!("there is no namespace {nsid} (the drive has {})", host::nsid_list(known))
}

/// The error of a command for a namespace that is not there.
pub fn absent(host: &mut Connected, nsid: u32) -> host::Error {
    let known = host.allocated_namespaces().unwrap_or_default();
    host::Error::Absent(no_namespace(nsid, &known))
}

/// Adds to the error of a command for an NVM Set what its status does not say: that there is no such set.
pub fn about_set<T>(host: &mut Connected, set: u16, result: Result<T, host::Error>) -> Result<T> {
    result.map_err(|error| {
        let sets = error.status().and_then(|_| host.nvm_sets().ok()).unwrap_or_default();
        let error = anyhow::Error::from(error);
        match sets.len() {
            0 => error,
            _ if set == 0 || sets.iter().any(|s| s.nvmsetid.get() == set) => error,
            most => error.context(format!("there is no NVM Set {set} (the drive has 1 to {most})")),
        }
    })
}

/// What to say of a drive that is locked.
fn without_its_key(host: &mut Connected) -> Option<&'static str> {
    let nsids = host.allocated_namespaces().ok()?;
    let mut namespaces = nsids.into_iter().filter_map(|nsid| host.identify_allocated(nsid).ok());
    namespaces
        .any(|namespace| namespace.vs[0] == LOCKED_STATE)
        .then_some("the drive is LOCKED: it was started without its key (tranche serve --drive-key)")
}

/// What to say when a namespace could not be created.
pub fn not_created(host: &mut Connected, set: u16, error: &host::Error) -> String {
    let is = |status| error.status().is_some_and(|s| s.is(status));
    if is(Status::NAMESPACE_ID_UNAVAILABLE) {
        let most = host.controller().nn.get();
        return format!(
            "the drive has the {most} namespaces that it can have; `tranche ns delete` makes room"
        );
    }
    let sets = host.nvm_sets().unwrap_or_default();
    let each: Vec<String> = sets
        .iter()
        .filter(|s| set == 0 || s.nvmsetid.get() == set)
        .map(|s| {
            let free = u64::try_from(s.unvmsetcap.get()).unwrap_or(u64::MAX);
            format!("NVM Set {} has {} unallocated", s.nvmsetid.get(), format_size(free))
        })
        .collect();
    match (each.is_empty(), sets.len()) {
        (true, 0) => format!("there is no NVM Set {set}"),
        (true, most) => format!("there is no NVM Set {set} (the drive has 1 to {most})"),
        _ => each.join(", "),
    }
}
