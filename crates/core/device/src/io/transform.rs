//! Commands on blocks that are more than plain bytes: what their fields say of protection information (NVM 5.2).

use crate::block_transform::{BlockAction, BlockError, BlockTransform};
use crate::contents::Contents;
use crate::core::{CommandKind, ControllerId, Core, Cx, Failure, Namespace, Token};
use drive_config::protection::{Check, Checks, Protection, Tags};
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
    action: BlockAction,
    cx: &mut Cx<'_, S>,
) -> Result<(), Failure> {
    let transform = for_command(core, id, blocks, action)?;
    cx.storage.set_transform(token.io(), &transform).map_err(|block_error| failure(core, token, block_error))
}

/// The transform of a command's blocks.
pub(crate) fn for_command(
    core: &Core,
    id: ControllerId,
    blocks: &Blocks,
    action: BlockAction,
) -> Result<BlockTransform, Failure> {
    let ns = core.attached(id, blocks.nsid)?;
    if ns.layout.extended && !core.controller(id)?.behavior.extended_formats() {
        return Err(Status::INVALID_NAMESPACE.into());
    }
    let mut transform = without_protection(ns, blocks, action);
    let Some(protection) = ns.layout.protection else { return Ok(transform) };
    let info = blocks.prinfo;
    let (storage, reference) = protection.split(blocks.lbtu, blocks.lbtl);
    // Tags of an append count from the zone's start.
    if let Some(zones) = ns.zones.filter(|_| blocks.piremap) {
        transform.remap = blocks.slba % (zones.size >> ns.shift);
    }
    check_reference(&protection, info.check_reference(), reference, blocks.slba - transform.remap)?;
    transform.tags = Tags { storage, reference, application: blocks.lbat, application_mask: blocks.lbatm };
    transform.checks = Checks {
        guard: info.check_guard(),
        application: info.check_application(),
        reference: info.check_reference(),
        storage: blocks.stc,
    };
    match action {
        // There is nothing to check (NVM 3.3.8).
        BlockAction::Zeroes if transform.checks.any() => return Err(invalid()),
        BlockAction::Write | BlockAction::Zeroes => transform.insert = info.pract(),
        BlockAction::Read | BlockAction::Compare | BlockAction::Verify | BlockAction::Mark => {}
    }
    Ok(transform)
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

/// How a namespace lies in its volume. What reads contents without commands needs it.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceLayout {
    /// Namespace Identifier.
    pub nsid: u32,
    /// Its pages.
    pub volume: ftl::VolumeId,
    /// Logical blocks.
    pub blocks: u64,
    /// Their transform in slots, from LBA 0 on.
    pub transform: BlockTransform,
    /// Its key cannot be opened.
    pub locked: bool,
}

impl NamespaceLayout {
    /// The present layout of a namespace.
    pub(crate) fn of(nsid: u32, ns: &Namespace) -> NamespaceLayout {
        let blocks = Blocks { nsid, ..Blocks::default() };
        let transform = BlockTransform {
            host_metadata: ns.layout.metadata,
            ..without_protection(ns, &blocks, BlockAction::Read)
        };
        NamespaceLayout { nsid, volume: ns.volume, blocks: ns.blocks(), transform, locked: ns.locked }
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

/// The transform of a namespace's blocks, without checks or insertion of protection information.
fn without_protection(ns: &Namespace, blocks: &Blocks, action: BlockAction) -> BlockTransform {
    BlockTransform {
        action,
        shift: ns.shift,
        metadata: ns.layout.metadata,
        host_metadata: ns.layout.host_metadata(blocks.prinfo.pract()),
        protection: ns.layout.protection,
        checks: Checks::default(),
        insert: false,
        tags: Tags::default(),
        remap: 0,
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
