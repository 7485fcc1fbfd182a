//! What commands and features there are, and what they change (Base 5.1.12.1.6, 5.1.12.1.18).

use crate::core::{Core, Role};
use crate::feature;
use nvme::admin::GetLogPage;
use nvme::command::AdminOpcode;
use nvme::command_table::{self, CommandInfo, Requirement};
use nvme::feature::FeatureId;
use nvme::log::CommandEffects;

/// The features that the drive has, and what they change.
pub(crate) fn feature_effects(core: &Core) -> Vec<u8> {
    let mut log = vec![0u8; 1024];
    for (fid, bytes) in (0..=255).zip(log.as_chunks_mut::<4>().0) {
        if let Some(info) = feature::info(core, FeatureId(fid)) {
            *bytes = info.effects().to_le_bytes();
        }
    }
    log
}

/// The commands that a host of this role has, and what they change. `placement` says whether the drive has placement handles, `zoned` whether it can have
/// zones.
pub(crate) fn command_effects(c: &GetLogPage, placement: bool, zoned: bool, role: &Role) -> CommandEffects {
    let mut log = CommandEffects::default();
    let has = |info: &&CommandInfo| match info.requires {
        Requirement::None => true,
        // Controllers over fabrics have no queues in a host's memory.
        Requirement::MemoryQueues => false,
        Requirement::Placement => placement,
    };
    for info in command_table::admin_commands().filter(has) {
        if role.has_command(AdminOpcode(info.opcode)) {
            log.acs[usize::from(info.opcode)] = info.effects;
        }
    }
    if c.csi == nvme::Csi::NVM || (c.csi == nvme::Csi::ZONED && zoned) {
        for info in command_table::io_commands().filter(has).filter(|info| info.is_of(c.csi)) {
            log.iocs[usize::from(info.opcode)] = info.effects;
        }
    }
    log
}
