//! Admin commands that belong to the transport: queues, interrupts, doorbells. The controller never sees them.

use crate::interrupts::Interrupts;
use crate::memory::GuestMemory;
use crate::prp;
use crate::queue::{CQE_BYTES, CompletionQueue, QueueMemory, SQE_BYTES, SubmissionQueue};
use crate::queues::{Queues, ShadowDoorbells};
use crate::registers::Registers;
use crate::slots::Lesson;
use nvme::admin::{AdminCommand, CreateIoCq, CreateIoSq, DeleteQueue, GetFeatures, SetFeatures};
use nvme::command::FABRICS_OPCODE;
use nvme::feature::{
    FeatureCapabilities, FeatureId, InterruptCoalescing, InterruptVectorConfiguration, NumberOfQueues, Select,
};
use nvme::identify::Cns;
use nvme::{AdminOpcode, Command, NSID_ALL, Status};

/// CC.IOSQES: entries of 64 bytes.
const SQE_SHIFT: u8 = SQE_BYTES.trailing_zeros() as u8;
/// CC.IOCQES: entries of 16 bytes.
const CQE_SHIFT: u8 = CQE_BYTES.trailing_zeros() as u8;

/// I/O queues that the controller grants (feature 07h), of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GrantedQueues {
    /// Submission queues: identifiers 1 to this.
    pub submission: u16,
    /// Completion queues: identifiers 1 to this.
    pub completion: u16,
}

impl GrantedQueues {
    /// What the answer to Number of Queues grants, of at most this many pairs.
    pub(crate) fn new(dw0: u32, queue_pairs: u16) -> Self {
        let granted = NumberOfQueues::from_bits(dw0.into());
        let count = |zero_based: u16| zero_based.saturating_add(1).min(queue_pairs);
        GrantedQueues { submission: count(granted.nsq_z()), completion: count(granted.ncq_z()) }
    }
}

/// The parts of the function that admin commands use.
pub(crate) struct AdminParts<'a, M> {
    pub memory: &'a M,
    pub registers: &'a Registers,
    pub queues: &'a mut Queues,
    pub interrupts: &'a mut Interrupts,
    pub granted: GrantedQueues,
    pub is_msix_enabled: bool,
}

/// What becomes of a command of the admin queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AdminOutcome {
    /// It has ended, with dword 0 of its completion.
    Done(u32),
    /// It has ended: a completion queue exists.
    CompletionQueueCreated { qid: u16 },
    /// It has ended: a submission queue with this many entries exists.
    QueueCreated { qid: u16, entries: u32 },
    /// A submission queue is gone, or will be gone when its commands have ended. Then this command ends.
    QueueDeleted { qid: u16, is_empty: bool },
    /// It is the controller's.
    Forward(Lesson),
}

type Executed = Result<AdminOutcome, Status>;

const DONE: Executed = Ok(AdminOutcome::Done(0));

/// Executes a command of the admin queue, or finds that it is the controller's.
///
/// # Errors
/// The status that the command ends with.
pub(crate) fn execute<M: GuestMemory>(parts: &mut AdminParts<'_, M>, command: &Command) -> Executed {
    // PCIe transport 1.1: admin commands have PRPs, and there are no fabrics commands.
    if command.flags.psdt() != 0 {
        return Err(Status::INVALID_FIELD);
    }
    if command.opc == FABRICS_OPCODE {
        return Err(Status::INVALID_OPCODE);
    }
    let is_doorbell_buffer = command.opc == AdminOpcode::DOORBELL_BUFFER_CONFIG.0;
    let parsed = if is_doorbell_buffer { None } else { AdminCommand::parse(command).ok() };
    let is_own = is_doorbell_buffer
        || matches!(
            parsed,
            Some(
                AdminCommand::CreateIoSq(_)
                    | AdminCommand::CreateIoCq(_)
                    | AdminCommand::DeleteIoSq(_)
                    | AdminCommand::DeleteIoCq(_)
            )
        );
    if is_own && command.flags.fuse() != 0 {
        return Err(Status::INVALID_FIELD);
    }
    if is_own && parts.registers.is_shutting_down() {
        return Err(Status::COMMAND_SEQUENCE_ERROR);
    }
    let base = command.dptr.prps()[0];
    match parsed {
        None if is_doorbell_buffer => configure_doorbells(parts, command),
        Some(AdminCommand::CreateIoSq(c)) => create_submission(parts, c, base),
        Some(AdminCommand::CreateIoCq(c)) => create_completion(parts, c, base),
        Some(AdminCommand::DeleteIoSq(c)) => delete_submission(parts, c, command.cid.get()),
        Some(AdminCommand::DeleteIoCq(c)) => delete_completion(parts, c),
        Some(AdminCommand::SetFeatures(c)) => set_features(parts, c),
        Some(AdminCommand::GetFeatures(c)) => get_features(parts, c),
        Some(AdminCommand::Identify(c)) if c.cns == Cns::CONTROLLER => {
            Ok(AdminOutcome::Forward(Lesson::IdentifyController))
        }
        _ => Ok(AdminOutcome::Forward(Lesson::Nothing)),
    }
}

/// The entries of a queue with this size, and their place.
fn queue_memory<M: GuestMemory>(
    parts: &AdminParts<'_, M>,
    base: u64,
    qsize_z: u16,
    is_contiguous: bool,
    entry_bytes: u64,
) -> Result<(QueueMemory, u32), Status> {
    let cap = parts.registers.cap();
    if qsize_z == 0 || qsize_z > cap.mqes_z() {
        return Err(Status::INVALID_QUEUE_SIZE);
    }
    let entries = u32::from(qsize_z) + 1;
    let page = parts.registers.page_bytes();
    if !is_contiguous && cap.cqr() {
        return Err(Status::INVALID_FIELD);
    }
    if !base.is_multiple_of(page) {
        return Err(Status::PRP_OFFSET_INVALID);
    }
    if is_contiguous {
        return Ok((QueueMemory::Contiguous(base), entries));
    }
    let count = (u64::from(entries) * entry_bytes).div_ceil(page) as usize;
    let mut pages = Vec::with_capacity(count);
    prp::read_list(parts.memory, page, base, count, |page| pages.push(page))?;
    Ok((QueueMemory::Pages(pages.into(), page), entries))
}

/// Create I/O Completion Queue (Base 5.2.1).
fn create_completion<M: GuestMemory>(parts: &mut AdminParts<'_, M>, c: CreateIoCq, base: u64) -> Executed {
    let is_known = (1..=parts.granted.completion).contains(&c.qid);
    if !is_known || parts.queues.completion(c.qid).is_some() {
        return Err(Status::INVALID_QID);
    }
    if parts.registers.cc().iocqes() != CQE_SHIFT {
        return Err(Status::INVALID_QUEUE_SIZE);
    }
    let vectors = if parts.is_msix_enabled { parts.interrupts.count() } else { 1 };
    if c.ien && c.iv >= vectors {
        return Err(Status::INVALID_INTERRUPT_VECTOR);
    }
    let (memory, entries) = queue_memory(parts, base, c.qsize_z, c.pc, CQE_BYTES)?;
    let queue = CompletionQueue::new(memory, entries, c.ien.then_some(c.iv));
    parts.queues.add_completion(c.qid, queue);
    Ok(AdminOutcome::CompletionQueueCreated { qid: c.qid })
}

/// Create I/O Submission Queue (Base 5.2.2). A namespace's NVM Set says where it lies, so the command's NVM Set means nothing.
fn create_submission<M: GuestMemory>(parts: &mut AdminParts<'_, M>, c: CreateIoSq, base: u64) -> Executed {
    let is_known = (1..=parts.granted.submission).contains(&c.qid);
    if !is_known || parts.queues.submission(c.qid).is_some() {
        return Err(Status::INVALID_QID);
    }
    if !(1..=parts.granted.completion).contains(&c.cqid) {
        return Err(Status::INVALID_QID);
    }
    if parts.queues.completion(c.cqid).is_none() {
        return Err(Status::CQ_INVALID);
    }
    if parts.registers.cc().iosqes() != SQE_SHIFT {
        return Err(Status::INVALID_QUEUE_SIZE);
    }
    let (memory, entries) = queue_memory(parts, base, c.qsize_z, c.pc, SQE_BYTES)?;
    parts.queues.add_submission(c.qid, SubmissionQueue::new(memory, entries, c.cqid), Some(c.qprio));
    Ok(AdminOutcome::QueueCreated { qid: c.qid, entries })
}

/// Delete I/O Submission Queue (Base 5.2.4). It ends when all commands of the queue have ended. A queue that is being deleted is no
/// longer there for other commands.
fn delete_submission<M: GuestMemory>(parts: &mut AdminParts<'_, M>, c: DeleteQueue, cid: u16) -> Executed {
    let is_there = parts.queues.submission(c.qid).is_some_and(|queue| queue.deleted_by.is_none());
    if c.qid == 0 || !is_there {
        return Err(Status::INVALID_QID);
    }
    let is_empty = !parts.queues.stop_submission(c.qid, cid);
    if is_empty {
        parts.queues.remove_submission(c.qid);
    }
    Ok(AdminOutcome::QueueDeleted { qid: c.qid, is_empty })
}

/// Delete I/O Completion Queue (Base 5.2.3).
fn delete_completion<M: GuestMemory>(parts: &mut AdminParts<'_, M>, c: DeleteQueue) -> Executed {
    let users = parts.queues.completion(c.qid).filter(|_| c.qid != 0).ok_or(Status::INVALID_QID)?.users;
    if users != 0 {
        return Err(Status::INVALID_QUEUE_DELETION);
    }
    parts.queues.remove_completion(c.qid);
    DONE
}

/// Doorbell Buffer Config (Base 5.2.5). Each buffer is one memory page.
fn configure_doorbells<M: GuestMemory>(parts: &mut AdminParts<'_, M>, command: &Command) -> Executed {
    let [doorbells, events] = command.dptr.prps();
    let page = parts.registers.page_bytes();
    if doorbells % page != 0 || events % page != 0 || parts.queues.shadow_bytes() > page {
        return Err(Status::INVALID_FIELD);
    }
    parts.queues.set_shadow(ShadowDoorbells { doorbells, events });
    DONE
}

/// Whether a feature is the transport's.
fn is_of_transport(fid: FeatureId) -> bool {
    [FeatureId::INTERRUPT_COALESCING, FeatureId::INTERRUPT_VECTOR_CONFIGURATION].contains(&fid)
}

/// Checks what Set and Get Features of the transport's features share: they have no namespace.
fn check_namespace(nsid: u32) -> Result<(), Status> {
    if nsid == 0 || nsid == NSID_ALL { Ok(()) } else { Err(Status::FEATURE_NOT_NAMESPACE_SPECIFIC) }
}

fn set_features<M: GuestMemory>(parts: &mut AdminParts<'_, M>, c: SetFeatures) -> Executed {
    match c.fid {
        FeatureId::NUMBER_OF_QUEUES if parts.queues.has_io_queues() => {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        FeatureId::NUMBER_OF_QUEUES | FeatureId::ARBITRATION => {
            return Ok(AdminOutcome::Forward(Lesson::Feature(c.fid, c.cdw11)));
        }
        fid if !is_of_transport(fid) => return Ok(AdminOutcome::Forward(Lesson::Nothing)),
        _ => {}
    }
    check_namespace(c.nsid)?;
    if c.sv {
        return Err(Status::FEATURE_NOT_SAVEABLE);
    }
    if parts.registers.is_shutting_down() {
        return Err(Status::COMMAND_SEQUENCE_ERROR);
    }
    if c.fid == FeatureId::INTERRUPT_COALESCING {
        parts.interrupts.set_coalescing(InterruptCoalescing::from_bits(c.cdw11.into()));
    } else if !parts.interrupts.configure(InterruptVectorConfiguration::from_bits(c.cdw11.into())) {
        return Err(Status::INVALID_FIELD);
    }
    DONE
}

fn get_features<M: GuestMemory>(parts: &mut AdminParts<'_, M>, c: GetFeatures) -> Executed {
    if !is_of_transport(c.fid) {
        return Ok(AdminOutcome::Forward(Lesson::Nothing));
    }
    check_namespace(c.nsid)?;
    let is_current = match c.sel {
        Select::CURRENT => true,
        // They are not saveable, so the saved value is the default.
        Select::DEFAULT | Select::SAVED => false,
        Select::SUPPORTED_CAPABILITIES => {
            let capabilities = FeatureCapabilities::new().with_changeable(true);
            return Ok(AdminOutcome::Done(capabilities.into_bits().get()));
        }
        _ => return Err(Status::INVALID_FIELD),
    };
    let value = if c.fid == FeatureId::INTERRUPT_COALESCING {
        let coalescing = parts.interrupts.coalescing();
        if is_current { coalescing } else { InterruptCoalescing::new() }.into_bits().get()
    } else {
        let iv = InterruptVectorConfiguration::from_bits(c.cdw11.into()).iv();
        let configuration = parts.interrupts.configuration(iv).ok_or(Status::INVALID_FIELD)?;
        let cd = is_current && configuration.cd();
        configuration.with_cd(cd).into_bits().get()
    };
    Ok(AdminOutcome::Done(value))
}
