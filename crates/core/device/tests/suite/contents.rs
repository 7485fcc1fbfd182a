//! What is written is read, in both logical block sizes, on both media.

use crate::common::{Bench, bytes, pattern, small};
use nvme::admin::{FormatNvm, SecureErase};
use nvme::identify::{Cns, IdentifyController, NvmController};
use nvme::io::{Blocks, DsmRange};
use nvme::{Command, IoCommand, IoOpcode, Status};

fn format(nsid: u32, lbaf: u8) -> FormatNvm {
    FormatNvm { nsid, lbaf, mset: false, pi: 0, pil: false, ses: SecureErase::NONE }
}

#[test]
fn blocks_of_512_bytes_share_pages() {
    for nsid in [1, 2] {
        let mut b = Bench::with_namespaces(&[]);
        b.write(nsid, 0, 2, &pattern(1, 8192));
        b.admin_ok(format(nsid, 1), &[]);
        assert_eq!(b.read(nsid, 0, 16), vec![0; 8192], "formatting gives everything up");
        let whole = pattern(2, 8192);
        b.write(nsid, 0, 16, &whole);
        let part = pattern(3, 1536);
        b.write(nsid, 6, 3, &part);
        let mut expected = whole;
        expected[6 * 512..9 * 512].copy_from_slice(&part);
        assert_eq!(b.read(nsid, 0, 16), expected);
        assert_eq!(b.read(nsid, 7, 1), expected[7 * 512..8 * 512]);
        b.admin_ok(format(nsid, 0), &[]);
        assert_eq!(b.read(nsid, 0, 1), vec![0; 4096]);
    }
}

#[test]
fn zeroes_and_deallocation() {
    for nsid in [1, 2] {
        let mut b = Bench::with_namespaces(&[]);
        b.admin_ok(format(nsid, 1), &[]);
        let mut expected = pattern(4, 32768);
        b.write(nsid, 0, 64, &expected);
        // Without DEAC, within pages.
        assert_eq!(b.io(Command::write_zeroes(nsid, 3, 2, false), &[]).0, Status::SUCCESS);
        expected[3 * 512..5 * 512].fill(0);
        // With DEAC: whole pages go, their neighbours in the first and last page become zeros.
        assert_eq!(b.io(Command::write_zeroes(nsid, 13, 20, true), &[]).0, Status::SUCCESS);
        expected[13 * 512..33 * 512].fill(0);
        assert_eq!(b.read(nsid, 0, 64), expected);
        // Dataset Management deallocates whole pages and leaves parts of pages alone.
        let ranges = [DsmRange::new(47, 10), DsmRange::new(0, 8), DsmRange::new(5, 0)];
        let data: Vec<u8> = ranges.iter().flat_map(bytes).collect();
        assert_eq!(b.io(Command::deallocate(nsid, 3), &data).0, Status::SUCCESS);
        expected[48 * 512..56 * 512].fill(0);
        expected[..8 * 512].fill(0);
        assert_eq!(b.read(nsid, 0, 64), expected);
    }
}

#[test]
fn compare_and_verify() {
    let mut b = Bench::with_namespaces(&[]);
    let data = pattern(5, 8192);
    b.write(1, 4, 2, &data);
    let blocks = Blocks::new(1, 4, 2);
    assert_eq!(b.io(blocks.encode(IoOpcode::COMPARE), &data).0, Status::SUCCESS);
    let (status, _) = b.io(blocks.encode(IoOpcode::COMPARE), &pattern(6, 8192));
    assert!(status.is(Status::COMPARE_FAILURE) && status.more());
    assert_eq!(b.io(IoCommand::Verify(blocks), &[]).0, Status::SUCCESS);
}

#[test]
fn writes_survive_garbage_collection() {
    let mut b = Bench::with_namespaces(&[]);
    let mut expected = vec![0u32; 1024];
    let mut seed = 1u32;
    for round in 1..20_000u32 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let block = seed >> 22;
        expected[block as usize] = round;
        let mut data = vec![0; 4096];
        data[..4].copy_from_slice(&round.to_le_bytes());
        b.write(1, block.into(), 1, &data);
    }
    for (block, round) in expected.into_iter().enumerate() {
        assert_eq!(b.read(1, block as u64, 1)[..4], round.to_le_bytes(), "block {block}");
    }
}

#[test]
fn a_failing_host_disk_fails_commands_and_nothing_else() {
    let mut b = Bench::with_namespaces(&[]);
    b.write(1, 0, 1, &pattern(1, 4096));
    b.disk = false;
    let (status, _) = b.io(Command::flush(1), &[]);
    assert!(status.is(Status::INTERNAL_ERROR) && !status.dnr());
    b.disk = true;
    assert_eq!(b.io(Command::flush(1), &[]).0, Status::SUCCESS);
    b.memory.fail = true;
    assert!(b.io(Command::write(1, 0, 1), &pattern(2, 4096)).0.is(Status::INTERNAL_ERROR));
    b.memory.fail = false;
    assert_eq!(b.io(Command::write(1, 0, 1), &pattern(3, 4096)).0, Status::SUCCESS);
    assert_eq!(b.read(1, 0, 1), pattern(3, 4096));
}

/// What is beyond the limits of one command stays as it is (NVM 3.3.3, with ONCS.NVMDSMSV).
#[test]
fn dataset_management_has_limits() {
    let mut b = Bench::new(small(&[("capacity = \"64MiB\"", "capacity = \"2304MiB\"")]));
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    let limits: NvmController = b.ask(Command::identify(Cns::IOCS_CONTROLLER, 0));
    let (each, all) = (limits.dmrsl.get(), limits.dmsl.get());
    assert!(id.oncs.nvmdsmsv() && limits.dmrl > 0 && each > 0 && all >= each.into());
    let nsid = b.create_attached(1, (all + 1024) / 8);
    b.admin_ok(format(nsid, 1), &[]);
    let deallocate = |b: &mut Bench, ranges: &[DsmRange]| {
        let data: Vec<u8> = ranges.iter().flat_map(bytes).collect();
        assert_eq!(b.io(Command::deallocate(nsid, ranges.len() as u16), &data).0, Status::SUCCESS);
    };
    let (page, zeros) = (pattern(5, 4096), vec![0; 4096]);
    // More ranges: a page for each.
    for i in 0..256 {
        b.write(nsid, i * 8, 8, &page);
    }
    let ranges: Vec<_> = (0..256).map(|i| DsmRange::new(i * 8, 8)).collect();
    deallocate(&mut b, &ranges);
    for i in 0..256 {
        let gone = i < u64::from(limits.dmrl);
        assert_eq!(b.read(nsid, i * 8, 8), if gone { &zeros[..] } else { &page[..] }, "range {i}");
    }
    // A longer range, and more blocks in all.
    let beyond = u64::from(each);
    for (first, second) in [((0, each + 16), None), ((8, each), Some((beyond + 8, 8)))] {
        for lba in [8, beyond - 8, beyond + 8] {
            b.write(nsid, lba, 8, &page);
        }
        let ranges: Vec<_> =
            [Some(first), second].into_iter().flatten().map(|(s, n)| DsmRange::new(s, n)).collect();
        deallocate(&mut b, &ranges);
        assert_eq!(b.read(nsid, 8, 8), zeros);
        assert_eq!(b.read(nsid, beyond - 8, 8), zeros);
        assert_eq!(b.read(nsid, beyond + 8, 8), page);
    }
}
