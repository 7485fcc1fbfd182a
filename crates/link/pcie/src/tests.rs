//! Scenarios.

use crate::function::{EnabledValues, Incoming, Request, Step};
use crate::fuzz::{bus, config, fuzz};
use crate::memory::GuestMemory;
use crate::msix::MsixMessage;
use crate::rig::{ENABLED, HostQueue, Rig, with_prp};
use crate::slots::DataPart;
use nvme::admin::{AdminCommand, CreateIoCq, CreateIoSq, DeleteQueue, GetFeatures, SetFeatures};
use nvme::aer::ErrorInfo;
use nvme::feature::{FeatureId, Select};
use nvme::property::{Cc, Csts, NSSR_NVME, PropertyOffset, Shn, Shst};
use nvme::protocol_fault::CompletionFault;
use nvme::{AdminOpcode, Command, Completion, IoOpcode, SglDescriptor, Status, Transfer};

/// An address that is not mapped.
const UNMAPPED_BASE: u64 = 0x8_1000;

fn io(cid: u16) -> Command {
    with_prp(Command::new(IoOpcode::FLUSH.0, 1).with_cid(cid), 0)
}

fn fused(cid: u16, fuse: u8) -> Command {
    let mut command = io(cid);
    command.flags.set_fuse(fuse);
    command
}

fn done(dw0: u32) -> Completion {
    Completion::success(0, dw0)
}

fn admin(command: impl Into<Command>) -> Command {
    with_prp(command.into(), 0)
}

#[test]
fn queues_are_created_as_the_specification_says() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 8, 1);
    rig.create_sq(1, 0x1_1000, 8, 1);
    let cq = CreateIoCq { qid: 2, qsize_z: 7, pc: true, ien: true, iv: 2 };
    let sq = CreateIoSq { qid: 2, qsize_z: 7, pc: true, qprio: 0, cqid: 1, nvmsetid: 0 };
    let base = 0x2_0000;
    let completion_queues: [(CreateIoCq, u64, Status); 9] = [
        (CreateIoCq { qid: 0, ..cq }, base, Status::INVALID_QID),
        (CreateIoCq { qid: 1, ..cq }, base, Status::INVALID_QID),
        (CreateIoCq { qid: 5, ..cq }, base, Status::INVALID_QID),
        (CreateIoCq { qsize_z: 0, ..cq }, base, Status::INVALID_QUEUE_SIZE),
        (CreateIoCq { qsize_z: 256, ..cq }, base, Status::INVALID_QUEUE_SIZE),
        (CreateIoCq { iv: 5, ..cq }, base, Status::INVALID_INTERRUPT_VECTOR),
        (cq, base + 4, Status::PRP_OFFSET_INVALID),
        (CreateIoCq { pc: false, ..cq }, base + 8, Status::PRP_OFFSET_INVALID),
        (CreateIoCq { pc: false, ..cq }, UNMAPPED_BASE & !0xFFF, Status::DATA_TRANSFER_ERROR),
    ];
    for (c, base, status) in completion_queues {
        assert_eq!(rig.admin(with_prp(c.into(), base)).status(), status.with_dnr(), "{c:?}");
    }
    let submission_queues: [(CreateIoSq, u64, Status); 8] = [
        (CreateIoSq { qid: 0, ..sq }, base, Status::INVALID_QID),
        (CreateIoSq { qid: 1, ..sq }, base, Status::INVALID_QID),
        (CreateIoSq { qid: 5, ..sq }, base, Status::INVALID_QID),
        (CreateIoSq { cqid: 0, ..sq }, base, Status::INVALID_QID),
        (CreateIoSq { cqid: 5, ..sq }, base, Status::INVALID_QID),
        (CreateIoSq { cqid: 3, ..sq }, base, Status::CQ_INVALID),
        (CreateIoSq { qsize_z: 0, ..sq }, base, Status::INVALID_QUEUE_SIZE),
        (sq, base + 0x800, Status::PRP_OFFSET_INVALID),
    ];
    for (c, base, status) in submission_queues {
        assert_eq!(rig.admin(with_prp(c.into(), base)).status(), status.with_dnr(), "{c:?}");
    }
}

#[test]
fn commands_that_are_not_for_this_transport_are_refused() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 8, 1);
    rig.create_sq(1, 0x1_1000, 8, 1);
    let cq = CreateIoCq { qid: 2, qsize_z: 7, pc: true, ien: true, iv: 2 };
    for (command, status) in [
        (admin(AdminCommand::DeleteIoCq(DeleteQueue { qid: 1 })), Status::INVALID_QUEUE_DELETION),
        (admin(AdminCommand::DeleteIoCq(DeleteQueue { qid: 0 })), Status::INVALID_QID),
        (admin(AdminCommand::DeleteIoCq(DeleteQueue { qid: 2 })), Status::INVALID_QID),
        (admin(AdminCommand::DeleteIoSq(DeleteQueue { qid: 0 })), Status::INVALID_QID),
        (admin(AdminCommand::DeleteIoSq(DeleteQueue { qid: 2 })), Status::INVALID_QID),
    ] {
        assert_eq!(rig.admin(command).status(), status.with_dnr());
    }
    let mut with_sgl = admin(CreateIoCq { ..cq });
    with_sgl.flags.set_psdt(1);
    assert_eq!(rig.admin(with_sgl).status(), Status::INVALID_FIELD.with_dnr());
    let property = Command { opc: 0x7F, ..admin(AdminCommand::KeepAlive) };
    assert_eq!(rig.admin(property).status(), Status::INVALID_OPCODE.with_dnr());
    rig.submit(1, Command { opc: 0x7F, ..io(1) });
    assert!(matches!(rig.poll(), Some(Step::Handled)));
    assert_eq!(rig.take(1).unwrap().status(), Status::INVALID_OPCODE.with_dnr());
    rig.set_cc(ENABLED.with_iocqes(0));
    assert_eq!(rig.admin(with_prp(cq.into(), 0x2_0000)).status(), Status::INVALID_QUEUE_SIZE.with_dnr());
}

#[test]
fn vectors_without_messages_are_one_pin() {
    let mut rig = Rig::new(config(2));
    rig.enable(ENABLED);
    let cq = CreateIoCq { qid: 1, qsize_z: 7, pc: true, ien: true, iv: 1 };
    assert_eq!(
        rig.admin(with_prp(cq.into(), 0x1_0000)).status(),
        Status::INVALID_INTERRUPT_VECTOR.with_dnr()
    );
    rig.create_cq(1, 0x1_0000, 8, 0);
    rig.create_sq(1, 0x1_1000, 8, 1);
    assert!(!rig.function.is_pin_asserted());
    rig.submit(1, io(3));
    let incoming = rig.command();
    rig.respond(incoming, done(0));
    let status = |rig: &Rig| {
        let mut bytes = [0; 1];
        rig.function.read_config(6, &mut bytes);
        bytes[0] >> 3 & 1
    };
    assert_eq!((rig.function.is_pin_asserted(), status(&rig), rig.interrupts()), (true, 1, vec![]));
    rig.write(PropertyOffset::INTMS.0, 1);
    assert_eq!((rig.function.is_pin_asserted(), status(&rig)), (false, 0));
    rig.write(PropertyOffset::INTMC.0, 1);
    rig.config(5, &[0x04]);
    assert_eq!((rig.function.is_pin_asserted(), status(&rig)), (false, 1), "Interrupt Disable");
    rig.config(5, &[0]);
    assert!(rig.function.is_pin_asserted());
    rig.take(1).unwrap();
    rig.ring_head(1);
    assert_eq!((rig.function.is_pin_asserted(), status(&rig)), (false, 0));
}

#[test]
fn a_queue_of_pages_is_a_queue() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 256, 1);
    // The list has two entries and the address of its next page.
    let pages = [0x3_0000u64, 0x2_0000, 0x4_0000, 0x2_8000];
    for (at, entry) in [(0x1_5FF0, pages[0]), (0x1_5FF8, 0x1_7000), (0x1_7000, pages[1])] {
        rig.memory.write(at, &entry.to_le_bytes()).unwrap();
    }
    for (at, entry) in [(0x1_7008, pages[2]), (0x1_7010, pages[3])] {
        rig.memory.write(at, &entry.to_le_bytes()).unwrap();
    }
    let c = CreateIoSq { qid: 1, qsize_z: 249, pc: false, qprio: 0, cqid: 1, nvmsetid: 0 };
    let refused = rig.admin(with_prp(c.into(), 0x1_5FF0)).status();
    assert_eq!(refused, Status::PRP_OFFSET_INVALID.with_dnr(), "a queue's list starts at a page");
    for (at, entry) in pages.iter().enumerate() {
        rig.memory.write(0x1_7000 + 8 * at as u64, &entry.to_le_bytes()).unwrap();
    }
    let created = rig.admin(with_prp(c.into(), 0x1_7000)).status();
    assert_eq!(created, Status::SUCCESS);
    let queue = HostQueue { pages: pages.to_vec(), size: 250, index: 0, phase: true };
    rig.submission.insert(1, queue);
    for cid in 0..500 {
        rig.submit(1, io(cid));
        let incoming = rig.command();
        assert_eq!((incoming.sqe.cid.get(), incoming.qid, incoming.alone), (cid, 1, false));
        rig.respond(incoming, done(u32::from(cid)));
        let completion = rig.take(1).unwrap();
        let head = (u32::from(cid) + 1) % 250;
        let found = (completion.cid.get(), completion.sqid.get(), completion.dw0.get());
        assert_eq!((found, u32::from(completion.sqhd.get())), ((cid, 1, u32::from(cid)), head));
        rig.ring_head(1);
    }
}

#[test]
fn a_queue_is_deleted_when_its_commands_have_ended() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 8, 1);
    rig.create_sq(1, 0x1_1000, 8, 1);
    (0..3).for_each(|cid| rig.put(1, io(cid)));
    rig.ring(1);
    let (first, second) = (rig.command(), rig.command());
    rig.submit(0, admin(AdminCommand::DeleteIoSq(DeleteQueue { qid: 1 })).with_cid(77));
    let step = rig.poll();
    // Round robin: the third command may come before.
    let third = if let Some(Step::Command(third)) = step { Some(third) } else { None };
    let step = if third.is_some() { rig.poll() } else { step };
    assert!(matches!(step, Some(Step::Request(Request::RemoveQueue { qid: 1 }))), "{step:?}");
    assert!(rig.poll().is_none() && rig.take(0).is_none());
    let again = rig.admin(admin(AdminCommand::DeleteIoSq(DeleteQueue { qid: 1 })));
    assert_eq!(again.status(), Status::INVALID_QID.with_dnr());
    let delete_cq = admin(AdminCommand::DeleteIoCq(DeleteQueue { qid: 1 }));
    assert_eq!(rig.admin(delete_cq).status(), Status::INVALID_QUEUE_DELETION.with_dnr());
    rig.respond(first, Completion::new(0, Status::ABORTED_SQ_DELETION));
    third.into_iter().for_each(|third| rig.respond(third, done(0)));
    assert!(rig.take(0).is_none());
    rig.respond(second, done(0));
    let deleted = rig.take(0).unwrap();
    assert_eq!((deleted.cid.get(), deleted.status()), (77, Status::SUCCESS));
    assert_eq!(rig.take(1).unwrap().status(), Status::ABORTED_SQ_DELETION);
    rig.ring_head(0);
    assert_eq!(rig.admin(delete_cq).status(), Status::SUCCESS);
    rig.ring(1);
    assert_eq!(rig.event(), Some(ErrorInfo::INVALID_DOORBELL));
}

#[test]
fn fused_commands_come_one_behind_the_other() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 16, 1);
    rig.create_sq(1, 0x1_1000, 3, 1);
    rig.create_sq(2, 0x1_2000, 8, 1);
    rig.put(2, io(50));
    rig.put(1, fused(1, 1));
    rig.put(1, fused(2, 2));
    rig.ring(1);
    rig.ring(2);
    let mut found: Vec<Incoming> = (0..3).map(|_| rig.command()).collect();
    let at = found.iter().position(|incoming| incoming.sqe.cid.get() == 1).unwrap();
    assert_eq!(found[at + 1].sqe.cid.get(), 2, "nothing comes between them");
    assert!(found.iter().all(|incoming| !incoming.alone));
    found.drain(..).for_each(|incoming| rig.respond(incoming, done(0)));
    // The second one is in the first entry of the queue.
    rig.put(1, fused(3, 1));
    rig.put(1, fused(4, 2));
    rig.ring(1);
    let (first, second) = (rig.command(), rig.command());
    assert_eq!((first.sqe.cid.get(), first.alone, second.sqe.cid.get()), (3, false, 4));
    [first, second].into_iter().for_each(|incoming| rig.respond(incoming, done(0)));
    rig.submit(1, fused(5, 1));
    assert!(rig.command().alone, "there is no other one");
    rig.put(2, fused(6, 1));
    rig.put(2, io(7));
    rig.ring(2);
    assert!(rig.command().alone);
    assert!(!rig.command().alone);
}

#[test]
fn doorbells_that_are_not_valid_are_reported() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 4, 1);
    rig.create_sq(1, 0x1_1000, 4, 1);
    for (offset, value, error) in [
        (0x1008, 4, ErrorInfo::INVALID_DOORBELL_VALUE),
        (0x1008, u32::MAX, ErrorInfo::INVALID_DOORBELL_VALUE),
        (0x100C, 1, ErrorInfo::INVALID_DOORBELL_VALUE),
        (0x1010, 1, ErrorInfo::INVALID_DOORBELL),
        (0x1014, 1, ErrorInfo::INVALID_DOORBELL),
        (0x1FFC, 1, ErrorInfo::INVALID_DOORBELL),
    ] {
        rig.write(offset, value);
        assert_eq!(rig.event(), Some(error), "{offset:x} {value}");
        assert!(rig.poll().is_none());
    }
    // Two of a kind are reported once.
    (0..9).for_each(|_| rig.write(0x1008, 99));
    assert_eq!((rig.event(), rig.event()), (Some(ErrorInfo::INVALID_DOORBELL_VALUE), None));
    (0..3).for_each(|cid| rig.put(1, io(cid)));
    rig.ring(1);
    rig.write(0x1008, 0);
    assert_eq!(rig.event(), Some(ErrorInfo::INVALID_DOORBELL_VALUE), "the queue is full");
    assert_eq!((0..3).map(|_| rig.command().sqe.cid.get()).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn shadow_doorbells_are_followed() {
    let mut rig = Rig::enabled();
    let (shadow, events) = (0x5_0000u64, 0x5_1000);
    let configure = |shadow, events| {
        let dptr = SglDescriptor::of_prps([shadow, events]);
        let command = Command::new(AdminOpcode::DOORBELL_BUFFER_CONFIG.0, 0).with_dptr(dptr);
        Command { flags: nvme::command::CommandFlags::new(), ..command }
    };
    assert_eq!(rig.admin(configure(shadow, events + 8)).status(), Status::INVALID_FIELD.with_dnr());
    assert_eq!(rig.admin(configure(shadow, events)).status(), Status::SUCCESS);
    rig.create_cq(1, 0x1_0000, 4, 1);
    rig.create_sq(1, 0x1_1000, 8, 1);
    (0..2).for_each(|cid| rig.put(1, io(cid)));
    rig.memory.store(shadow + 8, 2).unwrap();
    let mut found = vec![rig.command(), rig.command()];
    assert!(rig.poll().is_none());
    assert_eq!(rig.memory.load(events + 8), Ok(2), "the next change is to ring the doorbell");
    // What the register says may be older than the memory.
    (2..6).for_each(|cid| rig.put(1, io(cid)));
    rig.memory.store(shadow + 8, 6).unwrap();
    rig.write(0x1008, 4);
    found.extend((0..4).map(|_| rig.command()));
    found.drain(..).for_each(|incoming| rig.respond(incoming, done(0)));
    assert_eq!((0..3).map(|_| rig.take(1).unwrap().cid.get()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(rig.take(1).is_none(), "three fit");
    assert_eq!(rig.memory.load(events + 12), Ok(0), "the head that would make room is awaited");
    rig.memory.store(shadow + 12, 2).unwrap();
    rig.write(0x100C, 1);
    assert_eq!((0..2).map(|_| rig.take(1).unwrap().cid.get()).collect::<Vec<_>>(), [3, 4]);
    rig.memory.store(shadow + 8, 77).unwrap();
    rig.memory.store(shadow + 12, rig.completion[&1].index).unwrap();
    rig.write(0x100C, 0);
    assert!(rig.poll().is_none(), "the error is found first");
    assert_eq!(rig.event(), Some(ErrorInfo::INVALID_DOORBELL_VALUE));
    // The admin queue has none.
    assert_eq!(rig.admin(configure(UNMAPPED_BASE, events)).status(), Status::SUCCESS);
    assert!(rig.poll().is_none() && rig.csts().cfs(), "it is not mapped");
}

#[test]
fn queues_that_are_not_mapped_are_fatal() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 4, 1);
    rig.create_sq(1, UNMAPPED_BASE, 4, 1);
    rig.write(0x1008, 1);
    assert!(rig.poll().is_none());
    assert!(rig.csts().cfs() && rig.csts().rdy());
    rig.set_cc(Cc::new());
    assert!(matches!(rig.poll(), Some(Step::Request(Request::Reset))));
    assert!(rig.poll().is_none());
    assert_eq!(rig.csts(), Csts::new());
    rig.enable(ENABLED);
    rig.config(0x52, &[0, 0x80]);
    let c = CreateIoCq { qid: 1, qsize_z: 7, pc: true, ien: true, iv: 1 };
    assert_eq!(rig.admin(with_prp(c.into(), UNMAPPED_BASE)).status(), Status::SUCCESS);
    rig.create_sq(1, 0x1_1000, 4, 1);
    rig.submit(1, io(1));
    let incoming = rig.command();
    rig.respond(incoming, done(0));
    assert!(rig.csts().cfs());
    rig.write(PropertyOffset::CC.0, 0);
    rig.poll();
    rig.poll();
    rig.write(PropertyOffset::ASQ.0, UNMAPPED_BASE as u32);
    rig.set_cc(ENABLED);
    rig.poll();
    rig.function.enabled(Some(EnabledValues::default()), bus!(rig));
    rig.write(0x1000, 1);
    assert!(rig.poll().is_none() && rig.csts().cfs());
}

#[test]
fn a_reset_waits_for_commands_and_touches_nothing() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 8, 1);
    rig.create_sq(1, 0x1_1000, 8, 1);
    rig.submit(1, with_prp(Command::read(1, 0, 8).with_cid(9), 0x3_0000));
    let incoming = rig.command();
    rig.function.map_part(incoming.tag, DataPart::Data, Transfer::ToHost(4096), &rig.memory).unwrap();
    rig.set_cc(ENABLED.with_en(false));
    assert!(matches!(rig.poll(), Some(Step::Request(Request::Reset))));
    assert!(rig.poll().is_none() && rig.csts().rdy());
    rig.function.write_part(incoming.tag, DataPart::Data, 0, &[7; 4096], &rig.memory);
    let bus = bus!(rig);
    rig.function.respond(incoming.tag, done(0), bus).unwrap();
    assert!(rig.function.respond(incoming.tag, done(0), bus).is_err(), "it is stale");
    assert!(rig.poll().is_none() && !rig.csts().rdy());
    let mut bytes = [1; 4096];
    rig.memory.read(0x3_0000, &mut bytes).unwrap();
    assert!(bytes == [0; 4096] && rig.take(1).is_none() && rig.interrupts().is_empty());
    rig.enable(ENABLED);
    rig.create_cq(1, 0x1_0000, 8, 0);
}

#[test]
fn shutdowns_subsystem_resets_function_resets_and_power() {
    let mut rig = Rig::enabled();
    rig.set_cc(ENABLED.with_shn(Shn::ABRUPT));
    assert!(matches!(rig.poll(), Some(Step::Request(Request::Shutdown(Shn::ABRUPT)))));
    assert_eq!(rig.csts().shst(), Shst::OCCURRING);
    rig.function.shut_down();
    assert_eq!(rig.csts().shst(), Shst::COMPLETE);
    let c = CreateIoCq { qid: 1, qsize_z: 7, pc: true, ien: true, iv: 0 };
    assert_eq!(rig.admin(with_prp(c.into(), 0x1_0000)).status(), Status::COMMAND_SEQUENCE_ERROR.with_dnr());
    rig.write(PropertyOffset::NSSR.0, NSSR_NVME);
    rig.write(PropertyOffset::NSSR.0, NSSR_NVME);
    assert!(matches!(rig.poll(), Some(Step::Request(Request::SubsystemReset))));
    rig.function.subsystem_reset();
    assert!(rig.poll().is_none());
    assert!(rig.csts().nssro() && !rig.csts().rdy() && rig.csts().shst() == Shst::NORMAL);
    rig.enable(ENABLED);
    rig.config(0x69, &[0x80]);
    assert!(matches!(rig.poll(), Some(Step::Request(Request::Reset))));
    assert!(rig.poll().is_none());
    assert_eq!((rig.csts(), rig.register(PropertyOffset::ASQ)), (Csts::new(), 0));
    let mut command = [0; 2];
    rig.function.read_config(4, &mut command);
    assert_eq!(command, [0; 2]);
    rig.config(4, &[6, 0]);
    rig.enable(ENABLED);
    rig.submit(0, admin(AdminCommand::KeepAlive));
    let incoming = rig.command();
    rig.function.power_lost();
    assert_eq!(rig.register(PropertyOffset::VS), u32::MAX);
    rig.function.power_returned();
    assert!(rig.csts() == Csts::new() && rig.poll().is_none());
    rig.config(4, &[6, 0]);
    rig.set_cc(ENABLED);
    assert!(rig.poll().is_none(), "a command of the life before is still on its way");
    rig.respond(incoming, done(0));
    assert!(rig.poll().is_none());
    assert!(rig.csts().cfs(), "the host has set no admin queues");
}

#[test]
fn interrupts_are_masked() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 16, 1);
    rig.create_sq(1, 0x1_1000, 16, 1);
    rig.interrupts();
    end_one(&mut rig, 1);
    end_one(&mut rig, 2);
    assert_eq!((rig.interrupts(), rig.interrupts()), (vec![1], vec![]));
    let (table, pending) = (rig.function.layout().msix_table, rig.function.layout().pending_bits);
    rig.write(table + 16, 0xFEE0_0000);
    rig.write(table + 24, 0x42);
    rig.write(table + 28, 1);
    end_one(&mut rig, 3);
    let mut bits = [0; 1];
    assert_eq!(rig.interrupts(), []);
    rig.function.read_bar(pending.into(), &mut bits);
    assert_eq!(bits, [2]);
    rig.write(table + 28, 0);
    assert_eq!(
        (rig.interrupts(), rig.function.message(1)),
        (vec![1], Some(MsixMessage { addr: 0xFEE0_0000, data: 0x42 }))
    );
}

fn set(fid: FeatureId, cdw11: u32) -> Command {
    admin(SetFeatures { nsid: 0, fid, sv: false, uidx: 0, cdw11, cdw12: 0, cdw13: 0, cdw15: 0 })
}

fn end_one(rig: &mut Rig, cid: u16) {
    rig.submit(1, io(cid));
    let incoming = rig.command();
    rig.respond(incoming, done(0));
}

#[test]
fn interrupts_are_coalesced() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 16, 1);
    rig.create_sq(1, 0x1_1000, 16, 1);
    let get = |fid, sel, cdw11| admin(GetFeatures { nsid: 0, fid, sel, uidx: 0, cdw11 });
    let (coalescing, vector) = (FeatureId::INTERRUPT_COALESCING, FeatureId::INTERRUPT_VECTOR_CONFIGURATION);
    assert_eq!(rig.admin(set(coalescing, 0x0201)).status(), Status::SUCCESS);
    assert_eq!(rig.admin(set(vector, 9)).status(), Status::INVALID_FIELD.with_dnr());
    for (fid, sel, cdw11, value) in [
        (coalescing, Select::CURRENT, 0, 0x0201),
        (coalescing, Select::DEFAULT, 0, 0),
        (coalescing, Select::SUPPORTED_CAPABILITIES, 0, 4),
        (vector, Select::CURRENT, 1, 1),
    ] {
        let completion = rig.admin(get(fid, sel, cdw11));
        assert_eq!((completion.status(), completion.dw0.get()), (Status::SUCCESS, value));
    }
    let mut saved = set(coalescing, 0);
    saved.cdw10.set(saved.cdw10.get() | 1 << 31);
    assert_eq!(rig.admin(saved).status(), Status::FEATURE_NOT_SAVEABLE.with_dnr());
    let mut of_namespace = set(coalescing, 0);
    of_namespace.nsid.set(1);
    assert_eq!(rig.admin(of_namespace).status(), Status::FEATURE_NOT_NAMESPACE_SPECIFIC.with_dnr());
    rig.interrupts();
    end_one(&mut rig, 4);
    assert_eq!((rig.interrupts(), rig.function.deadline_ns()), (vec![], 200_000));
    end_one(&mut rig, 5);
    assert_eq!(rig.interrupts(), [1]);
    end_one(&mut rig, 6);
    (0..3).for_each(|_| assert!(rig.take(1).is_some()));
    rig.ring_head(1);
    assert_eq!(rig.function.deadline_ns(), u64::MAX, "the host has them already");
    assert_eq!(rig.admin(set(vector, 1 | 1 << 16)).status(), Status::SUCCESS);
    end_one(&mut rig, 7);
    rig.config(4, &[0x02]);
    assert_eq!(
        (rig.interrupts(), rig.function.deadline_ns()),
        (vec![], u64::MAX),
        "it may not send messages"
    );
    rig.config(4, &[0x06]);
    assert!(rig.interrupts().contains(&1));
}

#[test]
fn a_full_completion_queue_stops_its_submission_queues() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 3, 1);
    rig.create_sq(1, 0x1_1000, 8, 1);
    (0..6).for_each(|cid| rig.put(1, io(cid)));
    rig.ring(1);
    let found: Vec<Incoming> = (0..4).map(|_| rig.command()).collect();
    found.into_iter().for_each(|incoming| rig.respond(incoming, done(0)));
    assert!(rig.poll().is_none(), "two entries wait for room");
    assert_eq!([rig.take(1), rig.take(1)].map(|taken| taken.unwrap().cid.get()), [0, 1]);
    rig.ring_head(1);
    assert_eq!([rig.take(1), rig.take(1)].map(|taken| taken.unwrap().cid.get()), [2, 3]);
    // The function may not write: answers wait.
    let incoming = rig.command();
    rig.ring_head(1);
    rig.config(4, &[0x02]);
    rig.respond(incoming, done(0));
    assert!(rig.take(1).is_none() && rig.poll().is_none());
    rig.config(4, &[0x06]);
    assert_eq!(rig.take(1).unwrap().cid.get(), 4);
    assert_eq!(rig.command().sqe.cid.get(), 5);
}

#[test]
fn the_function_learns_from_answers() {
    let mut rig = Rig::enabled();
    rig.submit(0, set(FeatureId::NUMBER_OF_QUEUES, 0x0001_0000));
    let incoming = rig.command();
    rig.respond(incoming, done(0x0001_0000));
    assert_eq!(rig.take(0).unwrap().dw0.get(), 0x0001_0000);
    rig.ring_head(0);
    let cq = CreateIoCq { qid: 3, qsize_z: 7, pc: true, ien: false, iv: 0 };
    assert_eq!(rig.admin(with_prp(cq.into(), 0x1_0000)).status(), Status::INVALID_QID.with_dnr());
    rig.create_cq(2, 0x1_0000, 8, 0);
    let sq = CreateIoSq { qid: 2, qsize_z: 7, pc: true, qprio: 0, cqid: 2, nvmsetid: 0 };
    assert_eq!(rig.admin(with_prp(sq.into(), 0x1_1000)).status(), Status::INVALID_QID.with_dnr());
    let late = rig.admin(set(FeatureId::NUMBER_OF_QUEUES, 0));
    assert_eq!(late.status(), Status::COMMAND_SEQUENCE_ERROR.with_dnr());
    rig.create_sq(1, 0x1_1000, 8, 2);
    // Bursts of two.
    rig.submit(0, set(FeatureId::ARBITRATION, 1));
    let incoming = rig.command();
    rig.respond(incoming, done(0));
    (0..4).for_each(|cid| rig.put(1, io(cid)));
    (0..4).for_each(|_| rig.put(0, admin(AdminCommand::KeepAlive)));
    rig.ring(1);
    rig.ring(0);
    let order: Vec<u16> = (0..8).map(|_| rig.command().qid).collect();
    assert!(
        order == [1, 1, 0, 0, 1, 1, 0, 0]
            || order == [0, 0, 1, 1, 0, 0, 1, 1]
            || order == [0, 1, 1, 0, 0, 1, 1, 0],
        "{order:?}"
    );
}

#[test]
fn data_reaches_the_guest_or_the_command_fails() {
    let mut rig = Rig::enabled();
    let identify = nvme::admin::Identify {
        nsid: 0,
        cns: nvme::identify::Cns::CONTROLLER,
        cntid: 0,
        cnssid: 0,
        csi: nvme::Csi::NVM,
        uidx: 0,
    };
    for (base, status) in
        [(0x3_0800, Status::SUCCESS), (UNMAPPED_BASE, Status::DATA_TRANSFER_ERROR.with_dnr())]
    {
        let command = Command::from(identify).with_dptr(SglDescriptor::of_prps([base, 0x3_2000]));
        rig.submit(0, Command { flags: nvme::command::CommandFlags::new(), ..command });
        let incoming = rig.command();
        rig.function.map_part(incoming.tag, DataPart::Data, Transfer::ToHost(4096), &rig.memory).unwrap();
        let mut bytes = vec![0xFF; 4096];
        rig.function.describe_transport(incoming.tag, &mut bytes);
        rig.function.write_part(incoming.tag, DataPart::Data, 0, &bytes, &rig.memory);
        rig.respond(incoming, done(0));
        assert_eq!(rig.take(0).unwrap().status(), status);
        rig.ring_head(0);
    }
    let mut msdbd = [9; 1];
    rig.memory.read(0x3_0800 + 1803, &mut msdbd).unwrap();
    assert_eq!(msdbd, [0], "no fabric");
    rig.submit(0, admin(AdminCommand::KeepAlive));
    let incoming = rig.command();
    let too_long =
        rig.function.map_part(incoming.tag, DataPart::Data, Transfer::ToHost(1 << 40), &rig.memory);
    assert_eq!(too_long, Err(Status::INVALID_FIELD.with_dnr()));
    let unmapped =
        rig.function.map_part(incoming.tag, DataPart::Data, Transfer::ToController(1 << 17), &rig.memory);
    assert_eq!(unmapped, Ok(()), "the list of zeros is mapped");
    rig.respond(incoming, done(0));
    assert_eq!(
        rig.function.map_part(incoming.tag, DataPart::Data, Transfer::None, &rig.memory),
        Err(Status::INTERNAL_ERROR)
    );
}

#[test]
fn any_bytes_are_taken() {
    let mut rng = rng::Rng::new(1);
    for length in 0..400u64 {
        let bytes: Vec<u8> = (0..length * 3).map(|_| rng.next_u64() as u8).collect();
        fuzz(&bytes);
    }
}

#[test]
fn an_answer_comes_twice_or_without_its_interrupt() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 8, 1);
    rig.create_sq(1, 0x1_1000, 8, 1);
    rig.interrupts();
    let answer = |rig: &mut Rig, fault| {
        rig.submit(1, io(3));
        let incoming = rig.command();
        let bus = bus!(rig);
        rig.function.respond_with(incoming.tag, done(9), fault, bus).unwrap();
        rig.function.check();
        let entries: Vec<_> =
            std::iter::from_fn(|| rig.take(1)).map(|entry| (entry.cid.get(), entry.dw0.get())).collect();
        let interrupts = rig.interrupts();
        rig.ring_head(1);
        (entries, interrupts)
    };
    assert_eq!(answer(&mut rig, CompletionFault::None), (vec![(3, 9)], vec![1]));
    assert_eq!(answer(&mut rig, CompletionFault::Duplicate), (vec![(3, 9); 2], vec![1]));
    assert_eq!(answer(&mut rig, CompletionFault::LostInterrupt), (vec![(3, 9)], vec![]));
    // What the host did not take is told with the next one.
    rig.submit(1, io(4));
    let incoming = rig.command();
    rig.respond(incoming, done(0));
    assert_eq!((rig.take(1).unwrap().cid.get(), rig.interrupts()), (4, vec![1]));
}

#[test]
fn duplicates_wait_for_room_as_other_entries_do() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 2, 1);
    rig.create_sq(1, 0x1_1000, 8, 1);
    rig.submit(1, io(3));
    let incoming = rig.command();
    let bus = bus!(rig);
    rig.function.respond_with(incoming.tag, done(0), CompletionFault::Duplicate, bus).unwrap();
    rig.function.check();
    assert_eq!((rig.take(1).unwrap().cid.get(), rig.sees_entry(1)), (3, false), "the queue has one place");
    rig.ring_head(1);
    assert_eq!(rig.take(1).unwrap().cid.get(), 3);
}

#[test]
fn an_interrupt_comes_without_an_entry() {
    let mut rig = Rig::enabled();
    rig.create_cq(1, 0x1_0000, 8, 1);
    rig.create_sq(1, 0x1_1000, 8, 1);
    rig.submit(1, io(3));
    let incoming = rig.command();
    rig.interrupts();
    rig.function.raise_spurious(incoming.tag);
    assert_eq!((rig.interrupts(), rig.interrupts(), rig.sees_entry(1)), (vec![1], vec![], false));
    rig.respond(incoming, done(0));
    assert_eq!((rig.interrupts(), rig.sees_entry(1)), (vec![1], true));
    // The command has ended.
    rig.function.raise_spurious(incoming.tag);
    assert_eq!(rig.interrupts(), []);
}

/// The owner takes its time, or never enables the controller.
#[test]
fn a_controller_that_is_not_ready_can_be_reset() {
    let mut rig = Rig::new(config(2));
    rig.write(PropertyOffset::AQA.0, 0xF_000F);
    rig.write(PropertyOffset::ASQ.0, 0x1000);
    rig.write(PropertyOffset::ACQ.0, 0x2000);
    rig.set_cc(ENABLED);
    assert!(matches!(rig.poll(), Some(Step::Request(Request::Enable(_)))));
    assert!(!rig.csts().rdy() && !rig.csts().cfs() && rig.poll().is_none());
    rig.write(0x1000, 1);
    assert!(rig.poll().is_none(), "its doorbells mean nothing");
    rig.set_cc(Cc::new());
    assert!(matches!(rig.poll(), Some(Step::Request(Request::Reset))));
    // What was meant for before comes too late.
    rig.function.enabled(Some(EnabledValues::default()), bus!(rig));
    assert!(!rig.csts().rdy());
    rig.enable(ENABLED);
}
