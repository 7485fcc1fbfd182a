//! Commands on blocks that are more than plain bytes: what their fields say of protection information (NVM 5.2).

use crate::contents::Contents;
use crate::core::{CommandKind, ControllerId, Core, Cx, Failure, Namespace, Token};
use crate::protection::{Check, Checks, Protection, Tags};
use crate::treatment::{Action, BlockError, Treatment};
use ftl::Fault;
use nvme::Status;
use nvme::io::Blocks;

/// PRINFO or the tags do not fit the namespace's protection information.
fn invalid() -> Failure {
    Failure { location: 51, ..Status::INVALID_PROTECTION_INFORMATION.into() }
}

/// Begins a command on blocks of a namespace whose layout asks for it.
#[inline(never)]
pub(crate) fn begin<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    action: Action,
    cx: &mut Cx<'_, S>,
) -> Result<(), Failure> {
    let treatment = of(core, id, blocks, action)?;
    cx.storage.begin(token.io(), &treatment).map_err(|block_error| failure(core, token, block_error))
}

/// How the blocks of a command are treated.
pub(crate) fn of(
    core: &Core,
    id: ControllerId,
    blocks: &Blocks,
    action: Action,
) -> Result<Treatment, Failure> {
    let ns = core.attached(id, blocks.nsid)?;
    if ns.layout.extended && !core.controller(id)?.behavior.extended_formats() {
        return Err(Status::INVALID_NAMESPACE.into());
    }
    let mut treatment = plain(ns, blocks, action);
    let Some(protection) = ns.layout.protection else { return Ok(treatment) };
    let info = blocks.prinfo;
    let (storage, reference) = protection.split(blocks.lbtu, blocks.lbtl);
    check_reference(&protection, info.check_reference(), reference, blocks.slba)?;
    treatment.tags = Tags { storage, reference, application: blocks.lbat, application_mask: blocks.lbatm };
    treatment.checks = Checks {
        guard: info.check_guard(),
        application: info.check_application(),
        reference: info.check_reference(),
        storage: blocks.stc,
    };
    match action {
        // There is nothing to check (NVM 3.3.8).
        Action::Zeroes if treatment.checks.any() => return Err(invalid()),
        Action::Write | Action::Zeroes => treatment.insert = info.pract(),
        Action::Read | Action::Compare | Action::Verify | Action::Mark => {}
    }
    Ok(treatment)
}

/// Why a command that reads fails: for what the storage found in a block, or for what the medium did.
pub(crate) fn read_failure<S: Contents>(
    core: &mut Core,
    token: &Token,
    fault: Fault,
    kind: CommandKind,
    cx: &mut Cx<'_, S>,
) -> Failure {
    let block_error = if fault == Fault::Storage { cx.storage.block_error(token.io()) } else { None };
    match block_error {
        Some(block_error) => failure(core, token, block_error),
        None => Failure::of_fault(fault, kind),
    }
}

/// The error log shows the block that did not pass.
pub(crate) fn failure(core: &mut Core, token: &Token, block_error: BlockError) -> Failure {
    core.commands.get_mut(token).lba = block_error.lba;
    status_of(block_error.check).into()
}

/// A namespace as it lies in its volume. Readers of contents that use no commands need it.
#[derive(Clone, Copy, Debug)]
pub struct Laid {
    /// Namespace Identifier.
    pub nsid: u32,
    /// Its pages.
    pub volume: ftl::VolumeId,
    /// Logical blocks.
    pub blocks: u64,
    /// How they lie in slots, from LBA 0 on.
    pub treatment: Treatment,
    /// Its key cannot be opened.
    pub locked: bool,
}

impl Laid {
    /// A namespace as it lies now.
    pub(crate) fn of(nsid: u32, ns: &Namespace) -> Laid {
        let blocks = Blocks { nsid, ..Blocks::default() };
        let treatment = Treatment { wire: ns.layout.metadata, ..plain(ns, &blocks, Action::Read) };
        Laid { nsid, volume: ns.volume, blocks: ns.blocks(), treatment, locked: ns.locked }
    }
}

/// The status of a command with a block that does not pass a check.
fn status_of(check: Check) -> Status {
    match check {
        Check::Guard => Status::GUARD_CHECK_ERROR,
        Check::Application => Status::APPLICATION_TAG_CHECK_ERROR,
        Check::Reference => Status::REFERENCE_TAG_CHECK_ERROR,
        Check::Storage => Status::STORAGE_TAG_CHECK_ERROR,
        Check::Uncorrectable => Status::UNRECOVERED_READ_ERROR,
    }
}

/// The treatment of a namespace's blocks without anything of protection information.
fn plain(ns: &Namespace, blocks: &Blocks, action: Action) -> Treatment {
    Treatment {
        action,
        shift: ns.shift,
        metadata: ns.layout.metadata,
        wire: ns.layout.wire(blocks.prinfo.pract()),
        protection: ns.layout.protection,
        checks: Checks::default(),
        insert: false,
        tags: Tags::default(),
        stamp: ns.stamp,
        gathered: false,
        offset: 0,
        encrypted: ns.key.is_some(),
        nsid: blocks.nsid,
        slba: blocks.slba,
    }
}

/// Whether a reference tag may be checked against what the command expects (NVM 5.2.1.5).
fn check_reference(protection: &Protection, check: bool, reference: u64, slba: u64) -> Result<(), Failure> {
    if check && !protection.may_expect(reference, slba) { Err(invalid()) } else { Ok(()) }
}
