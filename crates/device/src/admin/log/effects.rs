//! What commands and features there are, and what they change (Base 5.1.12.1.6, 5.1.12.1.18).

use crate::drive::Drive;
use crate::role::Role;
use nvme::admin::GetLogPage;
use nvme::command::{AdminOpcode, IoOpcode};
use nvme::feature::FeatureId;
use nvme::log::{CommandEffects, Effects};

impl Drive {
    pub(super) fn feature_effects(&self) -> Vec<u8> {
        let mut log = vec![0u8; 1024];
        for (fid, bytes) in (0..=255).zip(log.as_chunks_mut::<4>().0) {
            let fid = FeatureId(fid);
            if self.capabilities(fid).is_none() {
                continue;
            }
            // FID Supported; the scope is in bits 31:20.
            let scope: u32 = match fid {
                FeatureId::PREDICTABLE_LATENCY_CONFIG | FeatureId::PREDICTABLE_LATENCY_WINDOW => 1 << 2,
                FeatureId::FDP_EVENTS => 1,
                FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION | FeatureId::FDP => 1 << 3,
                FeatureId::TIMESTAMP => 1 << 5,
                FeatureId::QUOTA => 1,
                FeatureId::RESERVATION_NOTIFICATION_MASK | FeatureId::RESERVATION_PERSISTENCE => 1,
                _ => 1 << 1,
            };
            let changes = u32::from(fid == FeatureId::VOLATILE_WRITE_CACHE) << 4;
            *bytes = (1 | changes | scope << 20).to_le_bytes();
        }
        log
    }
}

/// The commands that a host of this role has, and what they change.
pub(super) fn command_effects(c: &GetLogPage, placement: bool, role: &Role) -> CommandEffects {
    let mut log = CommandEffects::default();
    let supported = Effects::new().with_csupp(true);
    // Scopes: namespace 1, controller 2, subsystem 32.
    let (namespace, controller, subsystem) = (1, 2, 32);
    let admin = [
        (AdminOpcode::GET_LOG_PAGE, supported.with_uss(true).with_csp(controller)),
        (AdminOpcode::IDENTIFY, supported.with_csp(controller)),
        (AdminOpcode::ABORT, supported.with_csp(controller)),
        (AdminOpcode::SET_FEATURES, supported.with_ccc(true).with_uss(true).with_csp(controller)),
        (AdminOpcode::GET_FEATURES, supported.with_uss(true).with_csp(controller)),
        (AdminOpcode::ASYNC_EVENT_REQUEST, supported.with_csp(controller)),
        (AdminOpcode::KEEP_ALIVE, supported.with_csp(controller)),
        (AdminOpcode::NAMESPACE_MANAGEMENT, supported.with_lbcc(true).with_nic(true).with_csp(subsystem)),
        (AdminOpcode::FIRMWARE_COMMIT, supported.with_ccc(true).with_csp(subsystem)),
        (AdminOpcode::FIRMWARE_IMAGE_DOWNLOAD, supported.with_csp(controller)),
        (AdminOpcode::DEVICE_SELF_TEST, supported.with_csp(subsystem)),
        (AdminOpcode::NAMESPACE_ATTACHMENT, supported.with_nic(true).with_csp(subsystem)),
        (AdminOpcode::FORMAT_NVM, supported.with_lbcc(true).with_ncc(true).with_cse(1).with_csp(namespace)),
        // One operation on the subsystem at a time.
        (AdminOpcode::SANITIZE, supported.with_lbcc(true).with_cse(2).with_csp(subsystem)),
        (AdminOpcode::GET_LBA_STATUS, supported.with_csp(namespace)),
        (AdminOpcode::POWER_CUT, supported.with_lbcc(true).with_csp(subsystem)),
        (AdminOpcode::FAULT_INJECTION, supported.with_lbcc(true).with_csp(subsystem)),
    ];
    for (opcode, effects) in admin.into_iter().filter(|(opcode, _)| role.has_command(*opcode)) {
        log.acs[usize::from(opcode.0)] = effects;
    }
    if placement {
        for opcode in [AdminOpcode::DIRECTIVE_SEND, AdminOpcode::DIRECTIVE_RECEIVE] {
            log.acs[usize::from(opcode.0)] = supported.with_csp(namespace);
        }
    }
    if c.csi == nvme::Csi::NVM {
        let scoped = supported.with_csp(namespace);
        for opcode in [
            IoOpcode::FLUSH,
            IoOpcode::READ,
            IoOpcode::COMPARE,
            IoOpcode::VERIFY,
            IoOpcode::RESERVATION_REGISTER,
            IoOpcode::RESERVATION_REPORT,
            IoOpcode::RESERVATION_ACQUIRE,
            IoOpcode::RESERVATION_RELEASE,
        ] {
            log.iocs[usize::from(opcode.0)] = scoped;
        }
        for opcode in [
            IoOpcode::WRITE,
            IoOpcode::WRITE_UNCORRECTABLE,
            IoOpcode::WRITE_ZEROES,
            IoOpcode::DATASET_MANAGEMENT,
            IoOpcode::COPY,
        ] {
            log.iocs[usize::from(opcode.0)] = scoped.with_lbcc(true);
        }
        if placement {
            for opcode in [IoOpcode::IO_MANAGEMENT_RECEIVE, IoOpcode::IO_MANAGEMENT_SEND] {
                log.iocs[usize::from(opcode.0)] = scoped;
            }
        }
    }
    log
}
