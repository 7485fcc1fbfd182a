//! Attacks by commands of I/O queues: as long as can be, as many as can be, and on what is not its own.

use crate::attack::Attack;
use crate::drive::{
    FOREIGN_NSIDS, FORMATTED_NSID, FULL_NSID, PLACED_NSID, SHARED_NSID, VICTIM_NSID, World, ZONED_NSID,
};
use crate::logs::update_handles;
use crate::wire::{Stop, Tally, flood, persist, persist_on_queues, succeeds};
use host::Data;
use nvme::admin::SetFeatures;
use nvme::command::IoOpcode;
use nvme::copy::{COPY_RANGES_MAX, Copy, CopySource};
use nvme::feature::{FeatureId, HostBehaviorSupport};
use nvme::io::{Blocks, DSM_RANGES_MAX, DatasetManagement, DsmRange, IoManagementReceive};
use nvme::zerocopy::IntoBytes;
use nvme::zone::{
    ZoneManagementReceive, ZoneManagementSend, ZoneReceiveAction, ZoneReportFilter, ZoneSendAction,
};
use nvme::{Command, NSID_ALL, Nsid, U16};

pub const ATTACKS: &[Attack] = &[
    Attack::new("reads", |world, stop| {
        on_queues(world, stop, 64, |n| blocks(IoOpcode::READ, FULL_NSID, n * 32, 32))
    }),
    Attack::new("writes", |world, stop| {
        on_queues(world, stop, 64, |n| blocks(IoOpcode::WRITE, FULL_NSID, n * 7919, 1))
    }),
    Attack::new("compares", |world, stop| {
        on_queues(world, stop, 64, |n| blocks(IoOpcode::COMPARE, FULL_NSID, n * 32, 32))
    }),
    Attack::new("verify-longest", |world, stop| {
        on_queues(world, stop, 8, |_| blocks(IoOpcode::VERIFY, FULL_NSID, 0, 65_536))
    }),
    Attack::new("write-zeroes-longest", |world, stop| on_queues(world, stop, 8, |n| zeroes(n % 2 == 0))),
    Attack::new("write-zeroes-deallocating", |world, stop| on_queues(world, stop, 16, |_| zeroes(true))),
    Attack::new("write-uncorrectable-longest", |world, stop| {
        on_queues(world, stop, 8, |n| {
            blocks(IoOpcode::WRITE_UNCORRECTABLE, FORMATTED_NSID, n % 16, 16_384 - 16)
        })
    }),
    Attack::new("deallocate-256-ranges", |world, stop| on_queues(world, stop, 16, deallocate)),
    Attack::new("deallocate-and-write", deallocate_and_write),
    Attack::new("copy-longest", |world, stop| on_queues(world, stop, 8, |n| copy(FULL_NSID, n))),
    Attack::new("flushes", |world, stop| {
        on_queues(world, stop, 64, |n| {
            (Command::flush([FULL_NSID, NSID_ALL, FORMATTED_NSID][(n % 3) as usize]), Data::None)
        })
    }),
    Attack::new("zones-select-all", zones_select_all),
    Attack::new("zones-finish", zones_finish),
    Attack::new("zone-appends", |world, stop| {
        on_queues(world, stop, 64, |n| {
            (Command::zone_append(ZONED_NSID, n % 16 * ZONE_BLOCKS, 32), Data::Out(vec![1; 131_072]))
        })
    }),
    Attack::new("zone-reports", |world, stop| on_queues(world, stop, 64, report)),
    Attack::new("placement-updates", placement_updates),
    Attack::new("placement-status", |world, stop| {
        on_queues(world, stop, 64, |_| {
            let receive =
                IoManagementReceive { nsid: PLACED_NSID, mo: nvme::fdp::RUH_STATUS, mos: 0, dwords: 32_768 };
            (receive.into(), Data::room(131_072))
        })
    }),
    Attack::new("commands-that-fail", |world, stop| on_queues(world, stop, 127, invalid)),
    Attack::new("fused-halves", |world, stop| on_queues(world, stop, 64, fused)),
    Attack::new("foreign-blocks", foreign_blocks),
];

const QUEUES: u16 = 4;
/// Blocks from one zone to the next.
const ZONE_BLOCKS: u64 = 2048;
/// Blocks of the namespace that is full of data.
const FULL_BLOCKS: u64 = 65_536;

fn on_queues(
    world: &World,
    stop: &Stop,
    depth: usize,
    command: impl Fn(u64) -> (Command, Data) + Sync,
) -> Tally {
    persist_on_queues(world, stop, QUEUES, |queue, number| {
        let first = u64::from(number) << 16;
        flood(queue, depth, (first..).map(&command), stop)
    })
}

/// A command on blocks, with the data that it has.
fn blocks(opcode: IoOpcode, nsid: Nsid, lba: u64, count: u32) -> (Command, Data) {
    let command = Blocks::new(nsid, lba % (FULL_BLOCKS - u64::from(count)).max(1), count).encode(opcode);
    let data = match opcode {
        IoOpcode::READ => Data::room(count as usize * 4096),
        IoOpcode::WRITE | IoOpcode::COMPARE => Data::Out(vec![7; count as usize * 4096]),
        _ => Data::None,
    };
    (command, data)
}

fn zeroes(deac: bool) -> (Command, Data) {
    let blocks = Blocks { deac, ..Blocks::new(FULL_NSID, 0, 65_536) };
    (blocks.encode(IoOpcode::WRITE_ZEROES), Data::None)
}

/// Each of the ranges is as long as the namespace, or a part of it.
fn deallocate(n: u64) -> (Command, Data) {
    let (nsid, length) = [(FULL_NSID, 65_536), (FULL_NSID, 4096), (FORMATTED_NSID, 16_384)][(n % 3) as usize];
    let ranges = vec![DsmRange::new(0, length); DSM_RANGES_MAX];
    let command = DatasetManagement { nsid, nr: DSM_RANGES_MAX as u16, idr: false, idw: false, ad: true };
    (command.into(), Data::Out(ranges.as_bytes().to_vec()))
}

/// Every second block is given up and written anew, so that garbage collection has most to do.
fn deallocate_and_write(world: &World, stop: &Stop) -> Tally {
    on_queues(world, stop, 32, |n| match n % 2 {
        0 => {
            let ranges: Vec<_> =
                (0..256).map(|r| DsmRange::new((n * 512 + r * 2) % FULL_BLOCKS, 1)).collect();
            let command = DatasetManagement { nsid: FULL_NSID, nr: 256, idr: false, idw: false, ad: true };
            (command.into(), Data::Out(ranges.as_bytes().to_vec()))
        }
        _ => blocks(IoOpcode::WRITE, FULL_NSID, n * 7919 * 2, 1),
    })
}

/// As many ranges and blocks as a Copy takes, and more: ranges, and blocks of each.
fn copy(nsid: Nsid, n: u64) -> (Command, Data) {
    const SIZES: [(usize, u32); 5] =
        [(COPY_RANGES_MAX, 1), (1, 256), (128, 2), (COPY_RANGES_MAX, 256), (1, 65_536)];
    let (ranges, length) = SIZES[(n % 5) as usize];
    let mut data = Vec::new();
    for range in 0..ranges as u64 {
        let slba = range * u64::from(length) % (FULL_BLOCKS / 2);
        let source = CopySource { slba, nlb: length, ..CopySource::default() };
        source.write(0, |bytes| data.extend_from_slice(bytes));
    }
    let copy = Copy { nsid, sdlba: FULL_BLOCKS / 2, nr: ranges as u16, ..Copy::default() };
    (copy.into(), Data::Out(data))
}

fn manage(action: ZoneSendAction, select_all: bool, zone: u64) -> (Command, Data) {
    let send =
        ZoneManagementSend { select_all, ..ZoneManagementSend::new(ZONED_NSID, action, zone * ZONE_BLOCKS) };
    (send.into(), Data::None)
}

/// Writes a block to each zone, and then acts on all of them.
fn zones_select_all(world: &World, stop: &Stop) -> Tally {
    const ACTIONS: [ZoneSendAction; 4] =
        [ZoneSendAction::CLOSE, ZoneSendAction::OPEN, ZoneSendAction::FINISH, ZoneSendAction::RESET];
    on_queues(world, stop, 32, |n| match n % 8 {
        half @ 0..4 => {
            (Command::zone_append(ZONED_NSID, (n / 2 + half) % 16 * ZONE_BLOCKS, 1), Data::Out(vec![1; 4096]))
        }
        action => manage(ACTIONS[action as usize - 4], true, 0),
    })
}

/// Finishes zones that hold one block, and resets them: each Finish may pad a zone.
fn zones_finish(world: &World, stop: &Stop) -> Tally {
    persist_on_queues(world, stop, 1, |queue, _| {
        let commands = (0..).map(|n| match n % 3 {
            0 => (Command::zone_append(ZONED_NSID, n / 3 % 14 * ZONE_BLOCKS, 1), Data::Out(vec![1; 4096])),
            1 => manage(ZoneSendAction::FINISH, false, n / 3 % 14),
            _ => manage(ZoneSendAction::RESET, false, n / 3 % 14),
        });
        flood(queue, 1, commands, stop)
    })
}

fn report(n: u64) -> (Command, Data) {
    let action = [ZoneReceiveAction::REPORT, ZoneReceiveAction::EXTENDED_REPORT][(n % 2) as usize];
    let receive = ZoneManagementReceive {
        nsid: ZONED_NSID,
        slba: 0,
        dwords: 32_768,
        action,
        filter: ZoneReportFilter((n / 2 % 8) as u8),
        partial: n.is_multiple_of(3),
    };
    (receive.into(), Data::room(131_072))
}

/// Every handle is updated as soon as a block was written with it: each update pads a reclaim unit.
fn placement_updates(world: &World, stop: &Stop) -> Tally {
    on_queues(world, stop, 16, |n| match n % 5 {
        0 => update_handles(PLACED_NSID, &[0, 1, 2, 3]),
        pid => {
            let (mut write, data) = blocks(IoOpcode::WRITE, PLACED_NSID, n % 8192, 1);
            write.cdw12.set(write.cdw12.get() | u32::from(nvme::fdp::DATA_PLACEMENT) << 20);
            write.cdw13.set((pid as u32 - 1) << 16);
            (write, data)
        }
    })
}

/// Commands that fail before any quota counts them.
fn invalid(n: u64) -> (Command, Data) {
    match n % 4 {
        0 => (Command::read(VICTIM_NSID, 0, 1), Data::room(4096)),
        1 => (Command::read(FULL_NSID, u64::MAX, 1), Data::room(4096)),
        2 => (Command::new(0xC7, FULL_NSID), Data::None),
        _ => (Command::flush(77), Data::None),
    }
}

/// First halves of fused commands without a second, and second halves without a first.
fn fused(n: u64) -> (Command, Data) {
    let (mut command, data) =
        blocks(if n.is_multiple_of(2) { IoOpcode::COMPARE } else { IoOpcode::WRITE }, FULL_NSID, n % 64, 1);
    command.flags.set_fuse([1, 2, 1, 1, 2][(n % 5) as usize]);
    (command, data)
}

/// Every command of the command sets on namespaces that do not exist for it, and on the one that the victim has reserved.
fn foreign_blocks(world: &World, stop: &Stop) -> Tally {
    persist(world, stop, |tenant| {
        // Copy from other namespaces is for hosts that say that they know it.
        let behavior =
            HostBehaviorSupport { lbafee: 1, cdfe: U16::new(0xC), ..HostBehaviorSupport::default() };
        let fid = FeatureId::HOST_BEHAVIOR_SUPPORT;
        let set = SetFeatures { nsid: 0, fid, sv: false, uidx: 0, cdw11: 0, cdw12: 0, cdw13: 0, cdw15: 0 };
        succeeds(&mut tenant.admin, set, Data::Out(behavior.as_bytes().to_vec()), stop);
        let mut queue = tenant.queue(world, 8)?;
        let mut tally = Tally::default();
        for nsid in FOREIGN_NSIDS.into_iter().chain([SHARED_NSID]) {
            for opcode in 0..0x7F {
                let (mut command, data) = blocks(IoOpcode(opcode), nsid, 0, 1);
                let data = match (opcode & 3, data) {
                    (1, Data::None) => Data::Out(vec![0; 4096]),
                    (2, Data::None) => Data::room(4096),
                    (_, data) => data,
                };
                // Registering and asking who is registered is what a shared namespace is for.
                let allowed = [IoOpcode::RESERVATION_REGISTER, IoOpcode::RESERVATION_REPORT];
                if nsid == SHARED_NSID
                    && (allowed.contains(&IoOpcode(opcode))
                        || IoOpcode(opcode) == IoOpcode::IO_MANAGEMENT_RECEIVE)
                {
                    continue;
                }
                command.nsid.set(nsid);
                let passed = succeeds(&mut queue, command, data, stop);
                if passed {
                    world.violation(format!("{} of namespace {nsid} was carried out", IoOpcode(opcode)));
                }
                tally.count(passed);
            }
            let mut one = Copy { nsid: FORMATTED_NSID, sdlba: 0, nr: 1, desfmt: 2, ..Copy::default() };
            let mut source = Vec::new();
            CopySource { snsid: Some(nsid), slba: 0, nlb: 1, ..CopySource::default() }
                .write(2, |bytes| source.extend_from_slice(bytes));
            for desfmt in [2, 3] {
                one.desfmt = desfmt;
                let passed = succeeds(&mut queue, one, Data::Out(source.clone()), stop);
                if passed {
                    world.violation(format!("a Copy read from namespace {nsid}"));
                }
                tally.count(passed);
            }
        }
        Ok(tally)
    })
}
