//! Commands that mean something, or nearly: numbers choose among what hosts do.

#![allow(clippy::precedence, reason = "fields are put together as in the specification's figures")]

use nvme::{Command, NSID_ALL, U32};

/// Admin opcodes; the more often one is here, the more often it is chosen.
const ADMIN: &[u8] = &[
    0x02, 0x02, 0x02, 0x06, 0x08, 0x08, 0x09, 0x09, 0x09, 0x0A, 0x0A, 0x0C, 0x0D, 0x0D, 0x10, 0x11, 0x14,
    0x14, 0x15, 0x15, 0x18, 0x19, 0x19, 0x1A, 0x80, 0x80, 0x80, 0x84, 0x86, 0xD0, 0xD1,
];

/// I/O opcodes likewise.
const IO: &[u8] = &[
    0x00, 0x01, 0x01, 0x01, 0x01, 0x01, 0x02, 0x02, 0x04, 0x05, 0x08, 0x09, 0x0C, 0x0D, 0x0D, 0x0E, 0x11,
    0x11, 0x11, 0x12, 0x15, 0x19, 0x19, 0x1D,
];

const LOGS: &[u32] = &[
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x11, 0x12,
    0x20, 0x21, 0x22, 0x23, 0x80, 0x81, 0xC0, 0xCA, 0xD8,
];

const FEATURES: &[u32] = &[
    0x01, 0x02, 0x04, 0x05, 0x06, 0x07, 0x0A, 0x0B, 0x0E, 0x0F, 0x13, 0x13, 0x14, 0x14, 0x15, 0x16, 0x16,
    0x18, 0x19, 0x1D, 0x1D, 0x1E, 0x80, 0x81, 0x82, 0x83, 0x84, 0xD8, 0xD8, 0xD8,
];

fn pick<T: Copy>(from: &[T], number: u32) -> T {
    from[number as usize % from.len()]
}

fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A command and its data. The same numbers make the same ones.
pub fn plausible(admin: bool, n: [u32; 12]) -> (Command, Vec<u8>) {
    let opcode = pick(if admin { ADMIN } else { IO }, n[0]);
    let nsid = pick(&[1, 1, 1, 2, 2, 3, 3, 4, NSID_ALL, 0], n[1]);
    let mut command = Command::new(opcode, nsid);
    let mut data = vec![0; 4096];
    let [d10, d11, d12, d13, d14] = if admin {
        admin_dwords(opcode, &n, &mut command, &mut data)
    } else {
        io_dwords(opcode, &n, &mut data)
    };
    for (field, value) in [
        (&mut command.cdw10, d10),
        (&mut command.cdw11, d11),
        (&mut command.cdw12, d12),
        (&mut command.cdw13, d13),
        (&mut command.cdw14, d14),
    ] {
        *field = U32::new(value);
    }
    // Some are of fused operations: Compare is the first, Write the second, and others are wrong.
    if n[11] % 16 < 4 && (!admin && (opcode == 0x01 || opcode == 0x05) || n[11].is_multiple_of(64)) {
        command.flags.set_fuse(if opcode == 0x05 { 1 } else { 2 });
    }
    (command, data)
}

fn admin_dwords(opcode: u8, n: &[u32; 12], command: &mut Command, data: &mut [u8]) -> [u32; 5] {
    let mut d = [0; 5];
    match opcode {
        // Get Log Page.
        0x02 => {
            d[0] = pick(LOGS, n[2]) | n[3] % 4 << 8 | n[4] % 2 << 15 | n[5] % 600 << 16;
            d[1] = n[6] % 4 << 16;
            d[2] = if n[7].is_multiple_of(4) { n[8] % 2048 * 4 } else { 0 };
            d[4] = n[9] % 4;
            if n[10].is_multiple_of(2) {
                command.nsid = U32::new(NSID_ALL);
            }
        }
        // Identify.
        0x06 => (d[0], d[1]) = (n[2] % 0x20 | n[3] % 4 << 16, n[4] % 4),
        // Abort.
        0x08 => d[0] = n[2] % 2 | n[3] % 32 << 16,
        // Set Features, Get Features.
        0x09 | 0x0A => {
            d[0] = pick(FEATURES, n[2]);
            d[0] |= if opcode == 0x09 { n[3] << 31 } else { n[3] % 4 << 8 };
            (d[1], d[2]) = (pick(&[0, 1, 2, 3, 1 << 16, n[4]], n[5]), n[6] % 8);
            if d[0] as u8 == 0xD8 {
                // A quota that holds something up, but not for ever.
                let limits = n[7] % 16;
                (data[0], data[1], data[2]) = (1, limits as u8, n[8] as u8);
                for i in (0..4).filter(|i| limits >> i & 1 != 0) {
                    let rate = if i < 2 { 1 << 20 } else { 100 };
                    put(data, 8 + 8 * i, &(rate * u64::from(1 + n[9] % 8)).to_le_bytes());
                }
            } else if d[0] as u8 == 0x16 {
                (data[2], data[4]) = (1, 0x0C);
            } else {
                put(data, 0, &n[9].to_le_bytes());
            }
        }
        // Namespace Management.
        0x0D => {
            d[0] = n[2] % 2;
            if d[0] == 0 {
                command.nsid = U32::new(0);
            }
            put(data, 0, &(1 + n[3] % 512).to_le_bytes());
            put(data, 8, &(1 + n[3] % 512).to_le_bytes());
            (data[26], data[29], data[30]) =
                ((n[4] % 8 | n[4] % 2 << 4) as u8, pick(&[0, 0, 1, 2, 9], n[5]), n[6] as u8 % 2);
            put(data, 100, &((n[7] % 3) as u16).to_le_bytes());
            put(data, 102, &pick(&[0u16, 0, 1, 2], n[8]).to_le_bytes());
        }
        // Firmware Commit, Firmware Image Download.
        0x10 => d[0] = n[2] % 5 | n[3] % 4 << 3,
        0x11 => {
            let mut image = device::firmware_image(pick(&["1", "2.0", "3.1"], n[2]), &[7; 100]).unwrap();
            image.resize(4096, 0);
            data.copy_from_slice(&image);
            (d[0], d[1]) = (1023, pick(&[0, 0, 0, 1024], n[3]));
        }
        // Device Self-test.
        0x14 => d[0] = pick(&[1, 2, 2, 0xF, n[3] % 16], n[2]),
        // Namespace Attachment.
        0x15 => {
            d[0] = pick(&[0, 0, 1], n[2]);
            (data[0], data[2]) = (1, n[3] as u8 % 8);
        }
        // Directive Send and Receive.
        0x19 | 0x1A => {
            d[0] = n[2] % 64;
            d[1] = pick(&[1, 1, 2, 3], n[3]) | pick(&[0, 1, 1, 1, 2], n[4]) << 8 | n[5] % 4 << 16;
            d[2] = pick(&[0x0101, 0x0101, 0x0100, 3, n[6] % 8], n[7]);
        }
        // Format NVM.
        0x80 => {
            d[0] = n[2] % 8 | n[3] % 2 << 4 | pick(&[0, 0, 1, 2, 3], n[4]) << 5 | n[5] % 2 << 8;
            d[0] |= pick(&[0, 0, 1, 2], n[6]) << 9;
        }
        // Sanitize.
        0x84 => {
            d[0] = pick(&[1, 2, 2, 3, 4, 5], n[2]) | n[3] % 2 << 3 | (1 + n[4] % 3) << 4;
            d[1] = n[5];
        }
        // Get LBA Status.
        0x86 => {
            (d[0], d[2]) = (n[2] % 1200, n[3] % 64);
            d[3] = n[4] % 70 | pick(&[0x10, 0x11], n[5]) << 24;
        }
        // A fault of the protocol. Its commands are others' affair: the drive counts them when it is asked.
        0xD1 if n[2].is_multiple_of(2) => {
            d[0] = 0x30 + n[3] % 10;
            (d[1], d[2]) = (n[4] % 3, pick(&[0, 1, 2, n[5]], n[6]));
            d[3] = pick(&[0, 0, 1, 0x281, u32::MAX], n[7]);
            put(data, 0, &[1, n[8] as u8 & 0xF, pick(&[0x06, 0x7F, 0x01, 0x02], n[9])]);
            put(data, 24, &[n[10] as u8 % 4]);
        }
        // Power Cut, Fault Injection.
        0xD0 | 0xD1 => (0..5).for_each(|i| d[i] = pick(&[0, 1, 2, n[2 + i] % 1000], n[7 + i % 5])),
        _ => {}
    }
    d
}

fn io_dwords(opcode: u8, n: &[u32; 12], data: &mut [u8]) -> [u32; 5] {
    let mut d = [0; 5];
    match opcode {
        // Commands on blocks.
        0x01 | 0x02 | 0x04 | 0x05 | 0x08 | 0x0C => {
            d[0] = n[2] % 1100;
            d[2] = n[3] % 64 | pick(&[0, 0, 0, 0x2000, 0x1C00, 0x3C00, 0x4000_0000], n[4]) << (n[5] % 2 * 16);
            d[2] = match opcode {
                0x01 => d[2] & 0x7C00_FFFF | pick(&[0, 0, 1, 2], n[6]) << 20,
                0x08 => d[2] | n[6] % 2 << 25,
                _ => d[2],
            };
            d[3] = n[7] % 6 << 16;
            d[4] = d[0];
        }
        // Dataset Management.
        0x09 => {
            (d[0], d[1]) = (n[2] % 4, pick(&[4, 4, 4, 3], n[3]));
            for i in 0..4 {
                put(data, 16 * i + 4, &(n[4 + i] % 256).to_le_bytes());
                put(data, 16 * i + 8, &(n[8 + i] % 1024).to_le_bytes());
            }
        }
        // Reservation Register, Report, Acquire, Release.
        0x0D => {
            d[0] = pick(&[0, 0, 1, 2], n[2]) | u32::from(n[3].is_multiple_of(4)) << 3 | n[4] % 4 << 30;
            (data[0], data[8]) = (n[5] as u8 % 3, n[6] as u8 % 3);
        }
        0x0E => (d[0], d[1]) = (n[2] % 256, 1),
        0x11 => {
            d[0] = n[2] % 3 | (1 + n[3] % 6) << 8;
            (data[0], data[8]) = (n[5] as u8 % 3, n[6] as u8 % 3);
        }
        0x15 => {
            d[0] = n[2] % 2 | (1 + n[3] % 6) << 8;
            data[0] = n[5] as u8 % 3;
        }
        // I/O Management Receive and Send.
        0x12 => (d[0], d[1]) = (1, n[2] % 64),
        0x1D => {
            d[0] = 1 | n[2] % 3 << 16;
            (data[0], data[2]) = (n[3] as u8 % 5, n[4] as u8 % 5);
        }
        // Copy: formats 0 and 2, and those for wide tags.
        0x19 => {
            d[0] = n[2] % 1024;
            d[2] = n[3] % 3 | pick(&[0, 0, 1, 2, 2, 3], n[4]) << 8;
            for i in 0..3 {
                let at = if d[2] >> 8 & 1 == 0 { 32 * i } else { 40 * i };
                put(data, at, &(1 + n[5 + i] % 3).to_le_bytes());
                put(data, at + 8, &(n[8] % 900 + n[6 + i] % 64).to_le_bytes());
                put(data, at + 16, &((n[9] % 32) as u16).to_le_bytes());
            }
        }
        _ => {}
    }
    d
}
