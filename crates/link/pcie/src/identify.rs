//! Fields of Identify Controller that describe the transport.

use nvme::identify::{IdentifyController, Sgls};
use nvme::zerocopy::FromBytes;
use nvme::{U16, U32};

/// Writes them into the data structure. It has SGLs with bit buckets, byte-aligned metadata and metadata SGLs, Doorbell Buffer Config, and
/// nothing of fabrics.
pub(crate) fn describe(bytes: &mut [u8]) {
    let Ok((controller, _)) = IdentifyController::mut_from_prefix(bytes) else { return };
    controller.sgls = Sgls::new().with_sgls(1).with_bbd(true).with_mptr_aligned(true).with_mptr_sgl(true);
    controller.oacs.set_dbcs(true);
    (controller.ioccsz, controller.iorcsz) = (U32::ZERO, U32::ZERO);
    (controller.icdoff, controller.ofcs) = (U16::ZERO, U16::ZERO);
    (controller.fcatt, controller.msdbd) = (0, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::IDENTIFY_SIZE;

    #[test]
    fn a_controller_of_a_fabric_becomes_one_of_memory() {
        let mut bytes = vec![0xFF; IDENTIFY_SIZE];
        describe(&mut bytes);
        assert_eq!((&bytes[536..540], &bytes[1792..1806]), (&[1u8, 0, 0b1011, 0][..], &[0u8; 14][..]));
        describe(&mut bytes[..100]);
    }
}
