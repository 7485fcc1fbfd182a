//! The function: configuration space, BAR0 and queues of one controller.

use crate::admin::{self, AdminOutcome, AdminParts, GrantedQueues};
use crate::arbitration::Arbiter;
use crate::config_space::{ConfigEffect, ConfigSpace, PciIdentity};
use crate::data;
use crate::identify;
use crate::interrupts::Interrupts;
use crate::layout::{BarLayout, DOORBELLS_OFFSET, Doorbell, MAX_QUEUE_PAIRS, MAX_STRIDE};
use crate::memory::{Bus, GuestMemory, Unmapped};
use crate::msix::{MsixMessage, MsixTable, MsixTableOwner};
use crate::queue::{CompletionQueue, QueueMemory, SubmissionQueue};
use crate::queues::{Fetched, Queues};
use crate::registers::{Phase, RegisterEffect, Registers, ResetScope};
use crate::slots::{CommandTag, DataPart, Lesson, Slots, StaleTag};
use nvme::aer::AsyncEvent;
use nvme::command::FABRICS_OPCODE;
use nvme::feature::{Arbitration, FeatureId};
use nvme::property::{Cap, Cc, Shn};
use nvme::protocol_fault::CompletionFault;
use nvme::{Command, Completion, SeparateBlock, Status, Transfer};
use std::collections::VecDeque;

/// The configuration of a function. Values out of range are brought into it.
#[derive(Clone, Debug)]
pub struct FunctionConfig {
    /// Who it says that it is.
    pub identity: PciIdentity,
    /// Capabilities of the controller: timeout, command sets, subsystem reset, ready modes. The function sets the fields of queues
    /// and memory pages: MQES, CQR, AMS, DSTRD, MPSMIN, MPSMAX.
    pub capabilities: Cap,
    /// I/O queue pairs: 1 to [`MAX_QUEUE_PAIRS`](crate::MAX_QUEUE_PAIRS).
    pub queue_pairs: u16,
    /// Entries of an I/O queue, at most: 2 to 65,536.
    pub max_entries: u32,
    /// Interrupt vectors: 1 to [`MAX_VECTORS`](crate::MAX_VECTORS).
    pub vectors: u16,
    /// Doorbell Stride (CAP.DSTRD): doorbells are 4 << this bytes apart.
    pub doorbell_stride: u8,
    /// Whether I/O queues must be physically contiguous (CAP.CQR).
    pub requires_contiguous: bool,
    /// Data of one command in bytes, at most: MDTS.
    pub max_transfer: u32,
    /// Commands in flight, at most: 2 to 65,535.
    pub max_commands: u16,
    /// Who keeps the MSI-X table.
    pub msix_table: MsixTableOwner,
}

/// Something for the owner to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Enable the controller with these settings; answer with [`Function::enabled`]. The arbitration and the sizes of pages and entries
    /// are the function's.
    Enable(Cc),
    /// Reset the controller in any state. It is reset when [`Function::poll`] is called again; its commands still come back by
    /// [`Function::respond`].
    Reset,
    /// Shut the controller down; answer with [`Function::shut_down`].
    Shutdown(Shn),
    /// Reset the NVM subsystem: [`Function::subsystem_reset`] for each of its functions.
    SubsystemReset,
    /// A submission queue exists, with this many entries.
    AddQueue {
        /// Its identifier.
        qid: u16,
        /// Its entries.
        entries: u32,
    },
    /// A submission queue gives no more commands. Those that have not started are to come back.
    RemoveQueue {
        /// Its identifier.
        qid: u16,
    },
    /// Report an event to the host.
    Event(AsyncEvent),
}

/// A command for the controller.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// What to answer it with.
    pub tag: CommandTag,
    /// Its submission queue; 0 is the admin queue.
    pub qid: u16,
    /// The submission queue entry.
    pub sqe: Command,
    /// It is the first command of a fused operation, and the command behind it in the queue is not the second. Otherwise the second is
    /// what comes next.
    pub alone: bool,
}

/// The next step of a function.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A command for the controller.
    Command(Incoming),
    /// Something else for the owner.
    Request(Request),
    /// The function has executed a command itself.
    Handled,
}

/// Values of features that a controller has when it is enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EnabledValues {
    /// Arbitration (feature 01h).
    pub arbitration: u32,
}

/// One PCI Express function with an NVMe controller.
#[derive(Debug)]
pub struct Function {
    config: FunctionConfig,
    layout: BarLayout,
    space: ConfigSpace,
    registers: Registers,
    msix: MsixTable,
    interrupts: Interrupts,
    queues: Queues,
    granted: GrantedQueues,
    slots: Slots,
    /// Requests that the owner has not taken.
    requests: VecDeque<Request>,
}

impl Function {
    /// A function after power-on.
    #[must_use]
    pub fn new(mut config: FunctionConfig) -> Self {
        config.queue_pairs = config.queue_pairs.clamp(1, MAX_QUEUE_PAIRS);
        config.max_entries = config.max_entries.clamp(2, 1 << 16);
        config.max_commands = config.max_commands.max(2);
        config.doorbell_stride = config.doorbell_stride.min(MAX_STRIDE);
        let layout = BarLayout::new(config.queue_pairs, config.doorbell_stride, config.vectors);
        let cap = config
            .capabilities
            .with_mqes_z((config.max_entries - 1) as u16)
            .with_cqr(config.requires_contiguous)
            .with_ams(1)
            .with_dstrd(config.doorbell_stride)
            .with_mpsmin(0)
            .with_mpsmax(4);
        Function {
            space: ConfigSpace::new(config.identity, &layout),
            registers: Registers::new(cap),
            msix: MsixTable::new(config.msix_table, layout.vectors),
            interrupts: Interrupts::new(layout.vectors),
            queues: Queues::new(layout, config.queue_pairs + 1),
            granted: GrantedQueues { submission: config.queue_pairs, completion: config.queue_pairs },
            slots: Slots::new(config.max_commands),
            requests: VecDeque::new(),
            layout,
            config,
        }
    }

    /// The layout of BAR0.
    #[must_use]
    pub fn layout(&self) -> &BarLayout {
        &self.layout
    }

    /// Commands that were passed on and not answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.used()
    }

    /// Reads the configuration space.
    pub fn read_config(&self, offset: u64, bytes: &mut [u8]) {
        self.space.read(offset, bytes);
    }

    /// Writes the configuration space.
    pub fn write_config<M: GuestMemory>(&mut self, offset: u64, bytes: &[u8], bus: Bus<'_, M>) {
        match self.space.write(offset, bytes) {
            ConfigEffect::FunctionLevelReset => self.function_reset(),
            ConfigEffect::Registers => self.post_all(bus),
        }
        self.show_pin();
    }

    /// Reads BAR0. Doorbells and bytes outside are zero.
    pub fn read_bar(&self, offset: u64, bytes: &mut [u8]) {
        for (byte, index) in bytes.iter_mut().zip(0..) {
            let at = offset.checked_add(index).and_then(|at| u32::try_from(at).ok());
            let Some(at) = at else { break };
            *byte = if at < DOORBELLS_OFFSET {
                self.registers.read(at & !3).to_le_bytes()[(at & 3) as usize]
            } else if let Some(at) = at.checked_sub(self.layout.pending_bits) {
                self.msix.pending_byte(at as usize)
            } else {
                at.checked_sub(self.layout.msix_table).map_or(0, |at| self.msix.byte(at as usize))
            };
        }
    }

    /// Writes BAR0: one or two dwords at a multiple of 4. Other accesses are ignored.
    pub fn write_bar<M: GuestMemory>(&mut self, offset: u64, bytes: &[u8], bus: Bus<'_, M>) {
        let (dwords, []) = bytes.as_chunks() else { return };
        let Ok(offset) = u32::try_from(offset) else { return };
        if !offset.is_multiple_of(4) || dwords.len() > 2 {
            return;
        }
        for (dword, index) in dwords.iter().zip(0..) {
            let Some(at) = offset.checked_add(4 * index) else { return };
            self.write_dword(at, u32::from_le_bytes(*dword), bus);
        }
        self.show_pin();
    }

    fn write_dword<M: GuestMemory>(&mut self, at: u32, value: u32, bus: Bus<'_, M>) {
        if at < DOORBELLS_OFFSET {
            let effect = self.registers.write(at, value);
            self.follow(effect);
        } else if self.layout.doorbells().contains(&at) {
            self.ring(at, value, bus);
        } else if at < self.layout.pending_bits {
            self.msix.write((at - self.layout.msix_table) as usize, value);
        }
    }

    /// Writes a doorbell of BAR0.
    fn ring<M: GuestMemory>(&mut self, at: u32, value: u32, bus: Bus<'_, M>) {
        // Doorbells of a disabled controller mean nothing.
        if !self.registers.is_ready() {
            return;
        }
        let doorbell = self.layout.doorbell(at);
        if let (Some(doorbell), Some(mapped)) = (doorbell, bus.doorbells)
            && self.queues.set_mapped(doorbell, value, mapped).is_err()
        {
            return self.registers.fail();
        }
        self.ring_doorbell(doorbell, value, bus);
    }

    fn ring_doorbell<M: GuestMemory>(&mut self, doorbell: Option<Doorbell>, value: u32, bus: Bus<'_, M>) {
        match self.queues.ring(doorbell, value, bus.memory) {
            Ok(Some(cqid)) => {
                self.post(cqid, bus);
                let vector = self.queues.completion(cqid).and_then(|queue| queue.vector);
                if let Some(vector) = vector.filter(|vector| self.queues.is_vector_empty(*vector)) {
                    self.interrupts.withdraw(vector);
                }
            }
            Ok(None) => {}
            Err(Unmapped) => self.registers.fail(),
        }
    }

    /// Takes over the doorbells that the host has written in mapped memory. To be called before [`poll`](Function::poll).
    pub fn follow_doorbells<M: GuestMemory>(&mut self, bus: Bus<'_, M>) {
        let Some(mapped) = bus.doorbells else { return };
        let mut index = 0;
        while self.registers.is_ready() {
            match self.queues.next_mapped(&mut index, mapped) {
                Ok(Some((doorbell, value))) => self.ring_doorbell(Some(doorbell), value, bus),
                Ok(None) => break,
                Err(Unmapped) => self.registers.fail(),
            }
        }
        self.show_pin();
    }

    /// Whether the host can ring doorbells in memory.
    #[must_use]
    pub fn has_doorbells_in_memory<M: GuestMemory>(&self, bus: Bus<'_, M>) -> bool {
        self.registers.is_ready() && (bus.doorbells.is_some() || self.queues.has_shadow())
    }

    /// Whether the host has rung a doorbell in memory since the last [`poll`](Function::poll).
    #[must_use]
    pub fn has_news<M: GuestMemory>(&self, bus: Bus<'_, M>) -> bool {
        self.can_fetch() && self.queues.has_news(bus.memory, bus.doorbells)
    }

    /// Whether [`poll`](Function::poll) looks at the queues.
    fn can_fetch(&self) -> bool {
        // Both commands of a fused operation find a place.
        self.registers.is_ready() && self.space.is_bus_master() && self.slots.room() >= 2
    }

    /// The owner begins to call [`has_news`](Function::has_news) again and again, or ends it, and sleeps. While it looks, hosts write the tails of
    /// shadow doorbells to memory alone. Before it sleeps, it asks hosts to write the next ones to BAR0, too. Whether there is something to do
    /// instead of sleep. Doorbells of BAR0 that hosts map have no such way: an owner that lends them never sleeps.
    pub fn watch<M: GuestMemory>(&mut self, is_watched: bool, bus: Bus<'_, M>) -> bool {
        let has_commands = self.queues.watch(is_watched, bus.memory);
        if has_commands.is_err() {
            self.registers.fail();
        }
        self.can_fetch() && has_commands.unwrap_or(false) || self.has_news(bus)
    }

    /// Does what follows from a write to a register.
    fn follow(&mut self, effect: RegisterEffect) {
        match effect {
            RegisterEffect::Nothing => {}
            RegisterEffect::Enable => self.requests.push_back(Request::Enable(self.registers.cc())),
            RegisterEffect::Reset => self.begin_reset(),
            RegisterEffect::Shutdown(shn) => self.requests.push_back(Request::Shutdown(shn)),
            RegisterEffect::SubsystemReset => {
                if !self.requests.contains(&Request::SubsystemReset) {
                    self.requests.push_back(Request::SubsystemReset);
                }
            }
        }
    }

    /// Nothing of the guest's memory is used any more.
    fn stop(&mut self) {
        self.queues.clear();
        self.interrupts.reset();
        self.granted =
            GrantedQueues { submission: self.config.queue_pairs, completion: self.config.queue_pairs };
    }

    fn begin_reset(&mut self) {
        self.stop();
        self.requests.retain(|request| *request == Request::SubsystemReset);
        self.requests.push_back(Request::Reset);
    }

    /// Function Level Reset, or a reset of the device by its client. It ends as [`Request::Reset`] does.
    pub fn function_reset(&mut self) {
        self.space.reset();
        self.msix.reset();
        let effect = self.registers.begin_reset(ResetScope::Function);
        self.follow(effect);
    }

    /// The NVM subsystem is being reset, and the controller with it. The owner has already done so.
    pub fn subsystem_reset(&mut self) {
        self.requests.clear();
        self.stop();
        self.registers.begin_reset(ResetScope::Subsystem);
    }

    /// The controller can do nothing more: CSTS.CFS, until the host resets it.
    pub fn fail(&mut self) {
        self.registers.fail();
    }

    /// The drive has lost its power. All registers read as ones. Commands in flight still come back.
    pub fn power_lost(&mut self) {
        self.requests.clear();
        self.stop();
        self.registers.power_off();
    }

    /// The drive has power again.
    pub fn power_returned(&mut self) {
        self.space.reset();
        self.msix.reset();
        self.registers.power_on();
        if self.slots.used() > 0 {
            // It is there when the last of them is back.
            self.registers.begin_reset(ResetScope::Function);
        }
    }

    /// The owner has enabled the controller, or could not.
    pub fn enabled<M: GuestMemory>(&mut self, values: Option<EnabledValues>, bus: Bus<'_, M>) {
        if !self.registers.end_enable(values.is_some()) {
            return;
        }
        for doorbell in [Doorbell::Tail(0), Doorbell::Head(0)] {
            self.clear_doorbell(doorbell, bus);
        }
        let [(asq, submission), (acq, completion)] = self.registers.admin_queues();
        let submission = SubmissionQueue::new(QueueMemory::Contiguous(asq), submission, 0);
        let completion = CompletionQueue::new(QueueMemory::Contiguous(acq), completion, Some(0));
        let arbitration = Arbitration::from_bits(values.unwrap_or_default().arbitration.into());
        self.queues.start((submission, completion), Arbiter::new(self.registers.is_weighted(), arbitration));
    }

    /// A new queue begins with mapped doorbells of zero, and the host may have left another value.
    fn clear_doorbell<M: GuestMemory>(&mut self, doorbell: Doorbell, bus: Bus<'_, M>) {
        if let Some(mapped) = bus.doorbells
            && self.queues.set_mapped(doorbell, 0, mapped).is_err()
        {
            self.registers.fail();
        }
    }

    /// The owner has shut the controller down.
    pub fn shut_down(&mut self) {
        self.registers.end_shutdown();
    }

    /// Ends a reset whose commands have all come back.
    fn end_reset_if_idle(&mut self) {
        let is_resetting = matches!(self.registers.phase(), Phase::Resetting { .. });
        if is_resetting && self.slots.used() == 0 && !self.requests.contains(&Request::Reset) {
            let effect = self.registers.end_reset();
            self.follow(effect);
        }
    }

    /// The next step; `None` when there is nothing to do before the host, or a command, says something. The owner
    /// has done every step before. It reads at most a few entries of guest memory.
    pub fn poll<M: GuestMemory>(&mut self, bus: Bus<'_, M>) -> Option<Step> {
        self.end_reset_if_idle();
        if let Some(request) = self.requests.pop_front() {
            return Some(Step::Request(request));
        }
        if !self.registers.is_ready() || !self.space.is_bus_master() {
            return None;
        }
        if let Some(error) = self.queues.take_error() {
            return Some(Step::Request(Request::Event(AsyncEvent::error(error))));
        }
        if !self.can_fetch() {
            return None;
        }
        let step = match self.queues.fetch(bus.memory) {
            Ok(Some(fetched)) if fetched.command.opc == FABRICS_OPCODE => {
                Some(self.conclude(fetched, Err(Status::INVALID_OPCODE), bus))
            }
            Ok(Some(fetched)) if fetched.qid == 0 => Some(self.execute(fetched, bus)),
            Ok(Some(fetched)) => self.pass_on(fetched, Lesson::Nothing),
            Ok(None) => None,
            Err(Unmapped) => {
                self.registers.fail();
                None
            }
        };
        self.show_pin();
        step
    }

    /// Executes a command of the admin queue, or passes it on.
    fn execute<M: GuestMemory>(&mut self, fetched: Fetched, bus: Bus<'_, M>) -> Step {
        let mut parts = AdminParts {
            memory: bus.memory,
            registers: &self.registers,
            queues: &mut self.queues,
            interrupts: &mut self.interrupts,
            granted: self.granted,
            is_msix_enabled: self.space.is_msix_enabled(),
        };
        let executed = admin::execute(&mut parts, &fetched.command);
        match executed {
            Ok(AdminOutcome::Forward(lesson)) => self.pass_on(fetched, lesson).unwrap_or(Step::Handled),
            Ok(AdminOutcome::CompletionQueueCreated { qid }) => {
                self.clear_doorbell(Doorbell::Head(qid), bus);
                self.conclude(fetched, Ok(0), bus)
            }
            Ok(AdminOutcome::QueueCreated { qid, entries }) => {
                self.clear_doorbell(Doorbell::Tail(qid), bus);
                self.conclude(fetched, Ok(0), bus);
                Step::Request(Request::AddQueue { qid, entries })
            }
            Ok(AdminOutcome::QueueDeleted { qid, is_empty }) => {
                if is_empty {
                    self.conclude(fetched, Ok(0), bus);
                }
                Step::Request(Request::RemoveQueue { qid })
            }
            Ok(AdminOutcome::Done(dw0)) => self.conclude(fetched, Ok(dw0), bus),
            Err(status) => self.conclude(fetched, Err(status), bus),
        }
    }

    /// Answers a command that the controller never sees.
    fn conclude<M: GuestMemory>(
        &mut self,
        fetched: Fetched,
        result: Result<u32, Status>,
        bus: Bus<'_, M>,
    ) -> Step {
        let cid = fetched.command.cid.get();
        let completion = match result {
            Ok(dw0) => Completion::success(cid, dw0),
            Err(status) => Completion::new(cid, status.with_dnr()),
        };
        self.answer(fetched.qid, completion, bus);
        Step::Handled
    }

    fn pass_on(&mut self, fetched: Fetched, lesson: Lesson) -> Option<Step> {
        let Fetched { qid, command, is_alone } = fetched;
        let (tag, slot) = self.slots.take()?;
        (slot.qid, slot.cid, slot.lesson, slot.command) = (qid, command.cid.get(), lesson, command);
        self.queues.begin(qid);
        Some(Step::Command(Incoming { tag, qid, sqe: command, alone: is_alone }))
    }

    /// Finds the data of a command in guest memory, as its pointers say. `transfer` is what the command moves: whole blocks with their
    /// metadata, if `separate` says that the host has the metadata elsewhere.
    ///
    /// # Errors
    /// The status that the command is to be answered with: Invalid Field in Command for more data than a command may
    /// have, or a status of PRPs and SGLs. Internal Error for a stale tag.
    pub fn map<M: GuestMemory>(
        &mut self,
        tag: CommandTag,
        transfer: Transfer,
        separate: Option<SeparateBlock>,
        memory: &M,
    ) -> Result<(), Status> {
        let Some(block) = separate else { return self.map_part(tag, DataPart::Data, transfer, memory) };
        let [data, metadata] = block.split(transfer);
        self.map_part(tag, DataPart::Data, data, memory)?;
        self.map_part(tag, DataPart::Metadata, metadata, memory)?;
        self.slots.get(tag).map_err(|StaleTag| Status::INTERNAL_ERROR)?.separate = Some(block);
        Ok(())
    }

    /// Copies the data of a [mapped](Function::map) command from the guest, each byte once, with the metadata behind each block's data.
    ///
    /// # Errors
    /// Data Transfer Error if guest memory is not mapped; Internal Error for a stale tag.
    pub fn read<M: GuestMemory>(
        &mut self,
        tag: CommandTag,
        bytes: &mut [u8],
        memory: &M,
    ) -> Result<(), Status> {
        let separate = self.slots.get(tag).map_err(|StaleTag| Status::INTERNAL_ERROR)?.separate;
        let Some(block) = separate else { return self.read_part(tag, DataPart::Data, bytes, memory) };
        let [mut data, mut metadata] = data::room(block, bytes.len());
        self.read_part(tag, DataPart::Data, &mut data, memory)?;
        self.read_part(tag, DataPart::Metadata, &mut metadata, memory)?;
        data::join(block, [&data, &metadata], bytes);
        Ok(())
    }

    /// Copies the data of a [mapped](Function::map) command to the guest; metadata is behind each block's data. If guest memory is not
    /// mapped, the command fails with Data Transfer Error.
    pub fn write<M: GuestMemory>(&mut self, tag: CommandTag, bytes: &[u8], memory: &M) {
        let Ok(slot) = self.slots.get(tag) else { return };
        let Some(block) = slot.separate else {
            return self.write_part(tag, DataPart::Data, 0, bytes, memory);
        };
        let [data, metadata] = data::split(block, bytes);
        self.write_part(tag, DataPart::Data, 0, &data, memory);
        self.write_part(tag, DataPart::Metadata, 0, &metadata, memory);
    }

    /// Finds a part of a command in guest memory. It fails as [`map`](Function::map) does.
    pub(crate) fn map_part<M: GuestMemory>(
        &mut self,
        tag: CommandTag,
        part: DataPart,
        transfer: Transfer,
        memory: &M,
    ) -> Result<(), Status> {
        let page = self.registers.page_bytes();
        let slot = self.slots.get(tag).map_err(|StaleTag| Status::INTERNAL_ERROR)?;
        let segments = &mut slot.segments[part as usize];
        segments.clear();
        if transfer.bytes() > self.config.max_transfer.into() {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        // After a reset nothing of the guest's memory is touched.
        match part {
            _ if !self.registers.is_ready() => Ok(()),
            DataPart::Data => data::map(memory, page, &slot.command, transfer, segments),
            DataPart::Metadata => data::map_metadata(memory, &slot.command, transfer, segments),
        }
    }

    /// Copies a part of a command from the guest, each byte once. It is mapped. It fails as [`read`](Function::read) does.
    pub(crate) fn read_part<M: GuestMemory>(
        &mut self,
        tag: CommandTag,
        part: DataPart,
        bytes: &mut [u8],
        memory: &M,
    ) -> Result<(), Status> {
        let slot = self.slots.get(tag).map_err(|StaleTag| Status::INTERNAL_ERROR)?;
        let segments = &slot.segments[part as usize];
        if self.registers.is_ready() { data::read(memory, segments, bytes) } else { Ok(()) }
    }

    /// Copies bytes to the guest, as a part of a command from byte `start` on. It is mapped. If guest memory is not mapped, the command
    /// fails with Data Transfer Error.
    pub(crate) fn write_part<M: GuestMemory>(
        &mut self,
        tag: CommandTag,
        part: DataPart,
        start: usize,
        bytes: &[u8],
        memory: &M,
    ) {
        let Ok(slot) = self.slots.get(tag) else { return };
        if self.registers.is_ready() {
            slot.is_damaged |= data::write(memory, &slot.segments[part as usize], start, bytes).is_err();
        }
    }

    /// Writes into a command's data what this transport is, where the controller cannot know it: a few fields of Identify Controller. To be
    /// called with all data of an admin command, before [`write`](Function::write).
    pub fn describe_transport(&mut self, tag: CommandTag, bytes: &mut [u8]) {
        if self.slots.get(tag).is_ok_and(|slot| slot.lesson == Lesson::IdentifyController) {
            identify::describe(bytes);
        }
    }

    /// Answers a command. Its data was written before. CID, SQHD, SQID and Phase Tag are filled in here. Interrupts wait for
    /// [`take_interrupts`](Function::take_interrupts).
    ///
    /// # Errors
    /// The tag is stale.
    pub fn respond<M: GuestMemory>(
        &mut self,
        tag: CommandTag,
        completion: Completion,
        bus: Bus<'_, M>,
    ) -> Result<(), StaleTag> {
        self.respond_with(tag, completion, CompletionFault::None, bus)
    }

    /// The same, with a fault.
    ///
    /// # Errors
    /// The tag is stale.
    pub fn respond_with<M: GuestMemory>(
        &mut self,
        tag: CommandTag,
        completion: Completion,
        fault: CompletionFault,
        bus: Bus<'_, M>,
    ) -> Result<(), StaleTag> {
        let slot = self.slots.get(tag)?;
        let (qid, lesson) = (slot.qid, slot.lesson);
        let mut completion = completion.with_cid(slot.cid);
        if slot.is_damaged && completion.status().is_success() {
            completion = completion.with_status(Status::DATA_TRANSFER_ERROR.with_dnr());
        }
        self.slots.end(tag);
        // After a reset, hosts get no answers. A controller that has failed writes nothing.
        if self.registers.is_ready() {
            if completion.status().is_success() {
                self.learn(lesson, completion.dw0.get());
            }
            match fault {
                CompletionFault::None => self.answer(qid, completion, bus),
                CompletionFault::Duplicate => (0..2).for_each(|_| self.answer(qid, completion, bus)),
                CompletionFault::LostInterrupt => {
                    if let Some(cqid) = self.queues.answer(qid, completion) {
                        self.write_entries(cqid, bus);
                    }
                }
            }
            if let Some(cid) = self.queues.end(qid) {
                self.queues.remove_submission(qid);
                self.answer(0, Completion::success(cid, 0), bus);
            }
        }
        self.show_pin();
        Ok(())
    }

    fn learn(&mut self, lesson: Lesson, dw0: u32) {
        match lesson {
            Lesson::Feature(FeatureId::NUMBER_OF_QUEUES, _) => {
                self.granted = GrantedQueues::new(dw0, self.config.queue_pairs);
            }
            Lesson::Feature(FeatureId::ARBITRATION, value) => {
                self.queues.set_arbitration(Arbitration::from_bits(value.into()));
            }
            Lesson::Feature(..) | Lesson::IdentifyController | Lesson::Nothing => {}
        }
    }

    fn answer<M: GuestMemory>(&mut self, qid: u16, completion: Completion, bus: Bus<'_, M>) {
        if let Some(cqid) = self.queues.answer(qid, completion) {
            self.post(cqid, bus);
        }
    }

    /// Writes the entries of a completion queue, if the function may.
    fn post<M: GuestMemory>(&mut self, cqid: u16, bus: Bus<'_, M>) {
        let entries = self.write_entries(cqid, bus);
        if entries > 0
            && let Some(vector) = self.queues.completion(cqid).and_then(|queue| queue.vector)
        {
            self.interrupts.posted(vector, entries, cqid == 0, bus.now_ns);
        }
    }

    /// The same without an interrupt. Returns how many entries were written.
    fn write_entries<M: GuestMemory>(&mut self, cqid: u16, bus: Bus<'_, M>) -> u32 {
        if !self.registers.is_ready() || !self.space.is_bus_master() {
            return 0;
        }
        self.queues.post(cqid, bus.memory).unwrap_or_else(|Unmapped| {
            self.registers.fail();
            0
        })
    }

    /// Raises the interrupt of a command's queue, which is in flight, without an entry: a fault. Only messages (MSI-X) can do so: a pin
    /// shows whether there are entries.
    pub fn raise_spurious(&mut self, tag: CommandTag) {
        let Ok(slot) = self.slots.get(tag) else { return };
        let cqid = self.queues.submission(slot.qid).map(|queue| queue.cqid);
        let vector = cqid.and_then(|cqid| self.queues.completion(cqid)).and_then(|queue| queue.vector);
        if let Some(vector) = vector {
            self.interrupts.raise(vector);
        }
    }

    /// Writes the entries of all completion queues: the function may again.
    fn post_all<M: GuestMemory>(&mut self, bus: Bus<'_, M>) {
        for cqid in 0..=self.config.queue_pairs {
            if self.queues.completion(cqid).is_some_and(CompletionQueue::has_waiting) {
                self.post(cqid, bus);
            }
        }
    }

    /// Takes the vectors whose interrupts are due as messages. Without MSI-X, [`is_pin_asserted`](Function::is_pin_asserted) tells.
    pub fn take_interrupts(&mut self, now_ns: u64, mut raise: impl FnMut(u16)) {
        if !self.space.is_bus_master() {
            return;
        }
        if !self.space.is_msix_enabled() {
            return self.interrupts.take_due(now_ns, |_| {});
        }
        let is_masked = self.space.is_function_masked();
        self.msix.take_unmasked(is_masked, &mut raise);
        self.interrupts.take_due(now_ns, |vector| {
            if self.msix.raise(vector, is_masked) {
                raise(vector);
            }
        });
    }

    /// When [`take_interrupts`](Function::take_interrupts) has something next, in nanoseconds; `u64::MAX` if nothing waits.
    #[must_use]
    pub fn deadline_ns(&self) -> u64 {
        if self.space.is_bus_master() { self.interrupts.deadline_ns() } else { u64::MAX }
    }

    /// The message of a vector, from the function's own table.
    #[must_use]
    pub fn message(&self, vector: u16) -> Option<MsixMessage> {
        self.msix.message(vector)
    }

    /// Whether the interrupt pin is asserted: there are entries that the host has not taken.
    #[must_use]
    pub fn is_pin_asserted(&self) -> bool {
        self.space.is_pin_enabled() && self.wants_pin()
    }

    fn wants_pin(&self) -> bool {
        let waits = |vector: u16| !self.registers.is_masked(vector);
        self.queues.completions().any(|(_, queue)| !queue.is_empty() && queue.vector.is_some_and(waits))
    }

    fn show_pin(&mut self) {
        if !self.space.is_msix_enabled() {
            let wants_pin = self.wants_pin();
            self.space.show_pin(wants_pin);
        }
    }

    /// What holds at any time.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let count = |qid| self.slots.queues().filter(|queue| *queue == qid).count() as u32;
        if self.registers.is_ready() {
            self.queues.check(count);
        }
        assert!(self.requests.len() <= 3, "{:?}", self.requests);
    }
}
