//! PCI configuration space: header, capabilities, and Advanced Error Reporting.
//!
//! Sources: *PCI Express Base Specification, Revision 5.0* ("PCIe") 7.5 to 7.8; *NVM Express NVMe over PCIe Transport Specification,
//! Revision 1.1*, section 3.8 ("PCI Header" to "PCI Express Capability").

use crate::layout::{BarLayout, MAX_VECTORS};

/// Bytes of the configuration space of a PCI Express function.
pub const CONFIG_SPACE_BYTES: usize = 4096;

/// Offset of the Command register.
const COMMAND_OFFSET: usize = 0x04;
/// Offset of the Status register.
const STATUS_OFFSET: usize = 0x06;
/// Offset of BAR0, whose upper half is BAR1.
const BAR0_OFFSET: usize = 0x10;
/// Offset of Capabilities Pointer.
const CAPABILITIES_OFFSET: usize = 0x34;
/// Offset of Interrupt Line, before Interrupt Pin.
const INTERRUPT_LINE_OFFSET: usize = 0x3C;
/// Offset of the Power Management capability.
const POWER_MANAGEMENT_OFFSET: usize = 0x40;
/// Offset of the MSI-X capability.
const MSIX_OFFSET: usize = 0x50;
/// Offset of the PCI Express capability.
const EXPRESS_OFFSET: usize = 0x60;
/// Offset of the Advanced Error Reporting extended capability.
const ERROR_REPORTING_OFFSET: usize = 0x100;

/// Command register: Bus Master Enable (bit 2).
const BUS_MASTER_MASK: u16 = 1 << 2;
/// Command register: Interrupt Disable (bit 10).
const INTERRUPT_DISABLE_MASK: u16 = 1 << 10;
/// Command register: I/O and memory space, bus master, parity and SERR, interrupt disable.
const COMMAND_MASK: u16 = 0b0000_0101_0100_0110;
/// Status register: Interrupt Status (bit 3).
const INTERRUPT_STATUS_MASK: u8 = 1 << 3;
/// Status register: Capabilities List (bit 4).
const CAPABILITIES_LIST_MASK: u16 = 1 << 4;
/// Message Control of MSI-X: MSI-X Enable (bit 15).
const MSIX_ENABLE_MASK: u16 = 1 << 15;
/// Message Control of MSI-X: Function Mask (bit 14).
const MSIX_FUNCTION_MASK: u16 = 1 << 14;
/// Device Control: Initiate Function Level Reset (bit 15).
const FUNCTION_LEVEL_RESET_MASK: u16 = 1 << 15;
/// Device Capabilities: Function Level Reset (bit 28), Role-Based Error Reporting (bit 15), payloads of 256 bytes.
const DEVICE_CAPABILITIES: u32 = 1 << 28 | 1 << 15 | 1;
/// Link Capabilities and Status: 16 GT/s (4), four lanes.
const LINK: u32 = 4 << 4 | 4;

/// Who a function says that it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciIdentity {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Subsystem Vendor ID.
    pub subsystem_vendor: u16,
    /// Subsystem ID.
    pub subsystem: u16,
    /// Revision ID.
    pub revision: u8,
}

/// What follows from a write to the configuration space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConfigEffect {
    /// Nothing beyond the registers themselves.
    Registers,
    /// Initiate Function Level Reset.
    FunctionLevelReset,
}

/// The configuration space of a function.
#[derive(Clone, Debug)]
pub(crate) struct ConfigSpace {
    /// Its bytes.
    bytes: Box<[u8]>,
    /// Bits that a write changes.
    writable: Box<[u8]>,
    /// Bits that a write of 1 clears.
    cleared: Box<[u8]>,
    /// Its bytes at the start.
    initial: Box<[u8]>,
}

impl ConfigSpace {
    /// The configuration space of an NVMe controller with this BAR0, which holds the tables of MSI-X.
    pub(crate) fn new(identity: PciIdentity, layout: &BarLayout) -> Self {
        let zeros = || vec![0; CONFIG_SPACE_BYTES].into_boxed_slice();
        let mut space = ConfigSpace { bytes: zeros(), writable: zeros(), cleared: zeros(), initial: zeros() };
        space.set_header(identity, layout);
        space.set_power_management();
        space.set_msix(layout);
        space.set_express();
        space.set_error_reporting();
        space.initial = space.bytes.clone();
        space
    }

    /// Type 0 header (PCIe 7.5.1): class 01h mass storage, 08h non-volatile memory, 02h NVM Express.
    fn set_header(&mut self, identity: PciIdentity, layout: &BarLayout) {
        self.put16(0x00, identity.vendor);
        self.put16(0x02, identity.device);
        self.put16(STATUS_OFFSET, CAPABILITIES_LIST_MASK);
        self.put(0x08, &[identity.revision, 0x02, 0x08, 0x01]);
        self.put16(0x2C, identity.subsystem_vendor);
        self.put16(0x2E, identity.subsystem);
        self.put(CAPABILITIES_OFFSET, &[POWER_MANAGEMENT_OFFSET as u8]);
        // Interrupt Pin: INTA.
        self.put(INTERRUPT_LINE_OFFSET, &[0, 1]);
        // Type: memory, 64 bits, not prefetchable.
        self.put(BAR0_OFFSET, &[0b100]);
        self.let_write(COMMAND_OFFSET, &COMMAND_MASK.to_le_bytes());
        self.let_write(0x0C, &[0xFF]);
        self.let_write(BAR0_OFFSET, &(!(u64::from(layout.bytes) - 1)).to_le_bytes());
        self.let_write(INTERRUPT_LINE_OFFSET, &[0xFF]);
        self.let_clear(STATUS_OFFSET, &[0, 0b1111_1001]);
    }

    /// PCI Power Management Capability (PCIe 7.5.2): D0 and D3hot, without a reset between them.
    fn set_power_management(&mut self) {
        self.put(POWER_MANAGEMENT_OFFSET, &[0x01, MSIX_OFFSET as u8]);
        self.put16(POWER_MANAGEMENT_OFFSET + 2, 3);
        self.put16(POWER_MANAGEMENT_OFFSET + 4, 1 << 3);
        self.let_write(POWER_MANAGEMENT_OFFSET + 4, &[0b11]);
    }

    /// MSI-X Capability (PCIe 7.7.2).
    fn set_msix(&mut self, layout: &BarLayout) {
        self.put(MSIX_OFFSET, &[0x11, EXPRESS_OFFSET as u8]);
        self.put16(MSIX_OFFSET + 2, layout.vectors - 1);
        // Both in BAR0.
        self.put32(MSIX_OFFSET + 4, layout.msix_table);
        self.put32(MSIX_OFFSET + 8, layout.pending_bits);
        self.let_write(MSIX_OFFSET + 2, &(MSIX_ENABLE_MASK | MSIX_FUNCTION_MASK).to_le_bytes());
    }

    /// PCI Express Capability (PCIe 7.5.3), version 2, of an endpoint.
    fn set_express(&mut self) {
        self.put(EXPRESS_OFFSET, &[0x10, 0]);
        self.put16(EXPRESS_OFFSET + 2, 2);
        self.put32(EXPRESS_OFFSET + 4, DEVICE_CAPABILITIES);
        // Relaxed Ordering and No Snoop are on at first; maximum read requests of 512 bytes.
        self.put16(EXPRESS_OFFSET + 8, 0x2810);
        self.put32(EXPRESS_OFFSET + 0x0C, LINK);
        self.put16(EXPRESS_OFFSET + 0x12, LINK as u16);
        self.put32(EXPRESS_OFFSET + 0x2C, 0b1_1110);
        self.put16(EXPRESS_OFFSET + 0x30, 4);
        self.let_write(EXPRESS_OFFSET + 8, &0x7FFFu16.to_le_bytes());
        self.let_clear(EXPRESS_OFFSET + 0x0A, &[0b1111]);
        self.let_write(EXPRESS_OFFSET + 0x10, &[0b1101_1011, 0b11]);
        self.let_write(EXPRESS_OFFSET + 0x28, &0x040Fu16.to_le_bytes());
    }

    /// Advanced Error Reporting (PCIe 7.8.4), version 2. A function over vfio-user sees no errors of a link, so the registers only
    /// keep what the host writes.
    fn set_error_reporting(&mut self) {
        self.put32(ERROR_REPORTING_OFFSET, 0x0002_0001);
        // Uncorrectable Error Severity and Correctable Error Mask as PCIe has them at first.
        self.put32(ERROR_REPORTING_OFFSET + 0x0C, 0x0046_2030);
        self.put32(ERROR_REPORTING_OFFSET + 0x14, 0x0000_2000);
        let (uncorrectable, correctable) = (0x03FF_F030u32.to_le_bytes(), 0x0000_F1C1u32.to_le_bytes());
        self.let_clear(ERROR_REPORTING_OFFSET + 0x04, &uncorrectable);
        self.let_write(ERROR_REPORTING_OFFSET + 0x08, &uncorrectable);
        self.let_write(ERROR_REPORTING_OFFSET + 0x0C, &uncorrectable);
        self.let_clear(ERROR_REPORTING_OFFSET + 0x10, &correctable);
        self.let_write(ERROR_REPORTING_OFFSET + 0x14, &correctable);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn let_write(&mut self, at: usize, mask: &[u8]) {
        self.writable[at..at + mask.len()].copy_from_slice(mask);
    }

    fn let_clear(&mut self, at: usize, mask: &[u8]) {
        self.cleared[at..at + mask.len()].copy_from_slice(mask);
    }

    fn get16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// Reads. Bytes outside are FFh.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) {
        for (byte, index) in bytes.iter_mut().zip(0..) {
            *byte = place(offset, index).map_or(0xFF, |at| self.bytes[at]);
        }
    }

    /// Writes. Bytes outside, and bits that are read-only, stay.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> ConfigEffect {
        let mut effect = ConfigEffect::Registers;
        let power = POWER_MANAGEMENT_OFFSET + 4;
        let reset = EXPRESS_OFFSET + 9;
        let state = self.bytes[power];
        for (value, index) in bytes.iter().zip(0..) {
            let Some(at) = place(offset, index) else { break };
            let (writable, cleared) = (self.writable[at], self.cleared[at]);
            self.bytes[at] = (self.bytes[at] & !writable | value & writable) & !(value & cleared);
            if at == reset && value & (FUNCTION_LEVEL_RESET_MASK >> 8) as u8 != 0 {
                effect = ConfigEffect::FunctionLevelReset;
            }
        }
        // There is neither D1 nor D2.
        if [1, 2].contains(&(self.bytes[power] & 0b11)) {
            self.bytes[power] = state;
        }
        effect
    }

    /// Everything is as at the start.
    pub(crate) fn reset(&mut self) {
        self.bytes.copy_from_slice(&self.initial);
    }

    /// Whether the function may access memory and send messages: Bus Master Enable, in D0.
    pub(crate) fn is_bus_master(&self) -> bool {
        self.get16(COMMAND_OFFSET) & BUS_MASTER_MASK != 0
            && self.bytes[POWER_MANAGEMENT_OFFSET + 4] & 0b11 == 0
    }

    /// Whether interrupts are messages.
    pub(crate) fn is_msix_enabled(&self) -> bool {
        self.get16(MSIX_OFFSET + 2) & MSIX_ENABLE_MASK != 0
    }

    /// Whether all messages are masked.
    pub(crate) fn is_function_masked(&self) -> bool {
        self.get16(MSIX_OFFSET + 2) & MSIX_FUNCTION_MASK != 0
    }

    /// Whether the interrupt pin is used.
    pub(crate) fn is_pin_enabled(&self) -> bool {
        !self.is_msix_enabled() && self.get16(COMMAND_OFFSET) & INTERRUPT_DISABLE_MASK == 0
    }

    /// Shows the state of the interrupt pin, before Interrupt Disable.
    pub(crate) fn show_pin(&mut self, is_asserted: bool) {
        let status = &mut self.bytes[STATUS_OFFSET];
        *status = *status & !INTERRUPT_STATUS_MASK | if is_asserted { INTERRUPT_STATUS_MASK } else { 0 };
    }
}

/// The place of a byte of an access; `None` outside.
fn place(offset: u64, index: u64) -> Option<usize> {
    let at = usize::try_from(offset.checked_add(index)?).ok()?;
    (at < CONFIG_SPACE_BYTES).then_some(at)
}

const _: () = assert!(MAX_VECTORS <= 2048, "Table Size of MSI-X");

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> ConfigSpace {
        let identity = PciIdentity {
            vendor: 0x1234,
            device: 0x5678,
            subsystem_vendor: 0x9ABC,
            subsystem: 0xDEF0,
            revision: 7,
        };
        ConfigSpace::new(identity, &BarLayout::new(4, 0, 5))
    }

    fn get(space: &ConfigSpace, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        space.read(offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn it_is_an_nvme_controller_with_its_capabilities() {
        let space = space();
        assert_eq!(
            (get(&space, 0), get(&space, 8), get(&space, 0x2C)),
            (0x5678_1234, 0x0108_0207, 0xDEF0_9ABC)
        );
        let mut found = Vec::new();
        let mut at = u64::from(space.bytes[CAPABILITIES_OFFSET]);
        while at != 0 {
            let header = get(&space, at);
            found.push(header & 0xFF);
            at = u64::from(header >> 8 & 0xFF);
        }
        assert_eq!(found, [0x01, 0x11, 0x10]);
        assert_eq!(get(&space, MSIX_OFFSET as u64) >> 16, 4, "five vectors");
        assert_eq!(get(&space, 0x100) & 0xFFFF, 1);
        assert_eq!(get(&space, u64::MAX - 1), u32::MAX);
    }

    #[test]
    fn bar0_tells_its_size() {
        let mut space = space();
        space.write(BAR0_OFFSET as u64, &[0xFF; 8]);
        let bar = u64::from(get(&space, 0x14)) << 32 | u64::from(get(&space, 0x10));
        assert_eq!(bar & 0xF, 0b100);
        assert_eq!(!(bar & !0xF) + 1, BarLayout::new(4, 0, 5).bytes.into());
        space.write(0, &[0xFF; 8]);
        assert_eq!((get(&space, 0), space.get16(COMMAND_OFFSET)), (0x5678_1234, COMMAND_MASK));
    }

    #[test]
    fn control_registers_have_their_effects() {
        let mut space = space();
        assert!(!space.is_bus_master() && space.is_pin_enabled() && !space.is_msix_enabled());
        space.write(COMMAND_OFFSET as u64, &BUS_MASTER_MASK.to_le_bytes());
        assert!(space.is_bus_master());
        space.write(POWER_MANAGEMENT_OFFSET as u64 + 4, &[0b11]);
        assert!(!space.is_bus_master(), "D3hot");
        space.write(POWER_MANAGEMENT_OFFSET as u64 + 4, &[0b01]);
        assert!(!space.is_bus_master(), "there is no D1");
        space.write(POWER_MANAGEMENT_OFFSET as u64 + 4, &[0]);
        assert!(space.is_bus_master());
        space.write(MSIX_OFFSET as u64 + 2, &0xFFFFu16.to_le_bytes());
        assert!(space.is_msix_enabled() && space.is_function_masked() && !space.is_pin_enabled());
        assert_eq!(get(&space, MSIX_OFFSET as u64) >> 16, 0xC004);
        let effect = space.write(EXPRESS_OFFSET as u64 + 8, &0x8810u16.to_le_bytes());
        assert_eq!(effect, ConfigEffect::FunctionLevelReset);
        assert_eq!(space.get16(EXPRESS_OFFSET + 8), 0x0810, "the bit reads as zero");
        space.show_pin(true);
        assert_eq!(space.get16(STATUS_OFFSET), 0x18);
        space.reset();
        assert!(!space.is_bus_master() && !space.is_msix_enabled());
    }
}
