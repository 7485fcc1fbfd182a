//! Vendor specific log D9h: the controllers and their hosts.

use crate::core::{Core, Origin};

/// The log, for administrators.
pub(crate) fn controllers(core: &Core) -> Vec<u8> {
    let entries = core.controllers.iter().filter(|(_, c)| c.proven);
    let mut log = vec![0; 16];
    let mut count = 0u16;
    for (id, controller) in entries {
        count += 1;
        let origin = match controller.origin {
            Origin::InProcess => 0,
            Origin::Unix => 1,
            Origin::Network => 2,
        };
        log.extend_from_slice(&id.0.to_le_bytes());
        log.push(origin);
        log.push(u8::from(controller.is_ready()));
        log.extend_from_slice(&controller.port.0.to_le_bytes());
        log.push(controller.ana.0);
        log.extend_from_slice(&[0; 9]);
        log.extend_from_slice(&controller.host.to_field());
    }
    log[0] = 1;
    log[2..4].copy_from_slice(&count.to_le_bytes());
    log
}
