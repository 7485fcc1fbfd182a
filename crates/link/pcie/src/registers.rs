//! Controller registers, and the states of the controller (Base 3.1.4, 3.5, 3.6, 3.7).
//!
//! | state | CSTS | leaves it when |
//! |---|---|---|
//! | Disabled | RDY 0 | the host sets CC.EN: Enabling, or Failed for settings that are not valid |
//! | Enabling | RDY 0 | the owner has enabled the controller: Ready, or Failed |
//! | Ready | RDY 1 | the host clears CC.EN: Resetting; a queue is not mapped: Failed |
//! | Failed | CFS 1 | the host clears CC.EN: Resetting |
//! | Resetting | RDY as before | the owner has reset the controller, and no command is outstanding: Disabled |
//! | PoweredOff | all ones | power returns: Disabled |
//!
//! A shutdown has states of its own (CSTS.SHST), beside these.

use nvme::property::{Aqa, Cap, Cc, Crto, Csts, NSSR_NVME, PropertyOffset, Shn, Shst};
use nvme::{U32, Version};

/// Bytes of a memory page with CC.MPS of 0.
const MIN_PAGE_BYTES: u64 = 4096;
/// AQA: entries of the admin queues, without reserved bits.
const AQA_MASK: u32 = 0x0FFF_0FFF;
/// ASQ, ACQ: addresses of pages of 4 KiB.
const QUEUE_BASE_MASK: u64 = !0xFFF;
/// CC.AMS: weighted round robin with urgent priority class.
const WEIGHTED: u8 = 1;

/// How far the controller is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Disabled,
    Enabling,
    Ready,
    /// Whether it was ready before: CSTS.RDY stays.
    Failed {
        was_ready: bool,
    },
    Resetting {
        was_ready: bool,
    },
    PoweredOff,
}

/// The scope of a reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResetScope {
    /// The addresses of the admin queues stay: CC.EN was cleared.
    Controller,
    /// CSTS.NSSRO reports an NVM Subsystem Reset.
    Subsystem,
    /// Nothing stays: Function Level Reset.
    Function,
}

/// What follows from a write to a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegisterEffect {
    Nothing,
    /// Enabling has begun.
    Enable,
    /// Resetting has begun.
    Reset,
    /// A shutdown has begun.
    Shutdown(Shn),
    /// NVM Subsystem Reset is requested.
    SubsystemReset,
}

/// Registers of a controller.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    cap: Cap,
    cc: Cc,
    aqa: u32,
    asq: u64,
    acq: u64,
    /// Vectors that INTMS masks.
    interrupt_mask: u32,
    nssro: bool,
    shst: Shst,
    phase: Phase,
    scope: ResetScope,
}

impl Registers {
    /// A disabled controller.
    pub(crate) fn new(cap: Cap) -> Self {
        Registers {
            cap,
            cc: Cc::new(),
            aqa: 0,
            asq: 0,
            acq: 0,
            interrupt_mask: 0,
            nssro: false,
            shst: Shst::NORMAL,
            phase: Phase::Disabled,
            scope: ResetScope::Controller,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Whether a shutdown has begun.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shst != Shst::NORMAL
    }

    pub(crate) fn cc(&self) -> Cc {
        self.cc
    }

    pub(crate) fn cap(&self) -> Cap {
        self.cap
    }

    pub(crate) fn is_weighted(&self) -> bool {
        self.cc.ams() == WEIGHTED
    }

    /// Bytes of a memory page.
    pub(crate) fn page_bytes(&self) -> u64 {
        MIN_PAGE_BYTES << self.cc.mps()
    }

    /// Whether INTMS masks a vector.
    pub(crate) fn is_masked(&self, vector: u16) -> bool {
        vector < 32 && self.interrupt_mask >> vector & 1 != 0
    }

    /// Addresses and entries of the admin queues: submission, completion.
    pub(crate) fn admin_queues(&self) -> [(u64, u32); 2] {
        let aqa = Aqa::from_bits(self.aqa.into());
        [(self.asq, u32::from(aqa.asqs_z()) + 1), (self.acq, u32::from(aqa.acqs_z()) + 1)]
    }

    fn csts(&self) -> Csts {
        let was_ready = match self.phase {
            Phase::Ready => true,
            Phase::Failed { was_ready } | Phase::Resetting { was_ready } => was_ready,
            Phase::Disabled | Phase::Enabling | Phase::PoweredOff => false,
        };
        Csts::new()
            .with_rdy(was_ready)
            .with_cfs(matches!(self.phase, Phase::Failed { .. }))
            .with_shst(self.shst)
            .with_nssro(self.nssro)
    }

    /// A dword of the registers. Offsets that have no register are reserved and read as zero.
    pub(crate) fn read(&self, offset: u32) -> u32 {
        if self.phase == Phase::PoweredOff {
            return u32::MAX;
        }
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        // The upper half of a register of 8 bytes has an offset of its own.
        let is_upper = [PropertyOffset::CAP, PropertyOffset::ASQ, PropertyOffset::ACQ]
            .contains(&PropertyOffset(offset.wrapping_sub(4)));
        let half = usize::from(is_upper);
        match PropertyOffset(if is_upper { offset - 4 } else { offset }) {
            PropertyOffset::CAP => halves(self.cap.into_bits().get())[half],
            PropertyOffset::VS => Version::V2_1.0,
            PropertyOffset::INTMS | PropertyOffset::INTMC => self.interrupt_mask,
            PropertyOffset::CC => self.cc.into_bits().get(),
            PropertyOffset::CSTS => self.csts().into_bits().get(),
            PropertyOffset::AQA => self.aqa,
            PropertyOffset::ASQ => halves(self.asq)[half],
            PropertyOffset::ACQ => halves(self.acq)[half],
            PropertyOffset::CRTO => Crto::new().with_crwmt(self.cap.to().into()).into_bits().get(),
            _ => 0,
        }
    }

    /// The host writes a dword. Registers that are read-only stay.
    pub(crate) fn write(&mut self, offset: u32, value: u32) -> RegisterEffect {
        let lower = |old: u64| old & !0xFFFF_FFFF | u64::from(value);
        let upper = |old: u64| old & 0xFFFF_FFFF | u64::from(value) << 32;
        if self.phase == Phase::PoweredOff {
            return RegisterEffect::Nothing;
        }
        match PropertyOffset(offset) {
            PropertyOffset::INTMS => self.interrupt_mask |= value,
            PropertyOffset::INTMC => self.interrupt_mask &= !value,
            PropertyOffset::CC => return self.configure(Cc::from_bits(U32::new(value))),
            PropertyOffset::CSTS => self.nssro &= !Csts::from_bits(U32::new(value)).nssro(),
            PropertyOffset::NSSR if value == NSSR_NVME && self.cap.nssrs() => {
                return RegisterEffect::SubsystemReset;
            }
            // They stay while the controller is enabled.
            _ if self.cc.en() => {}
            PropertyOffset::AQA => self.aqa = value & AQA_MASK,
            PropertyOffset::ASQ => self.asq = lower(self.asq) & QUEUE_BASE_MASK,
            PropertyOffset(at) if at == PropertyOffset::ASQ.0 + 4 => self.asq = upper(self.asq),
            PropertyOffset::ACQ => self.acq = lower(self.acq) & QUEUE_BASE_MASK,
            PropertyOffset(at) if at == PropertyOffset::ACQ.0 + 4 => self.acq = upper(self.acq),
            _ => {}
        }
        RegisterEffect::Nothing
    }

    fn configure(&mut self, mut new: Cc) -> RegisterEffect {
        let old = self.cc;
        if self.cap.crms() & 2 == 0 {
            new.set_crime(false);
        }
        if old.en() {
            // These mean something at the moment of enabling only.
            new = new.with_css(old.css()).with_mps(old.mps()).with_ams(old.ams()).with_crime(old.crime());
        }
        self.cc = new;
        match (old.en(), new.en()) {
            // While a reset is under way, the host waits: it is enabled afterwards.
            (false, true) if self.phase == Phase::Disabled => return self.begin_enable(),
            (true, false) => return self.begin_reset(ResetScope::Controller),
            _ => {}
        }
        let is_request = [Shn::NORMAL, Shn::ABRUPT].contains(&new.shn());
        let may_stop = matches!(self.phase, Phase::Disabled | Phase::Ready | Phase::Failed { .. });
        if is_request && may_stop && self.shst == Shst::NORMAL {
            self.shst = Shst::OCCURRING;
            return RegisterEffect::Shutdown(new.shn());
        }
        RegisterEffect::Nothing
    }

    /// Whether a controller with these settings can be enabled.
    fn is_valid(&self) -> bool {
        let (cap, cc) = (self.cap, self.cc);
        let command_sets = match cc.css() {
            Cc::CSS_NVM => cap.css() & Cap::CSS_NVM != 0,
            Cc::CSS_SETS => cap.css() & Cap::CSS_SETS != 0,
            Cc::CSS_ADMIN_ONLY => cap.css() & Cap::CSS_ADMIN_ONLY != 0,
            _ => false,
        };
        let arbitration = cc.ams() == 0 || cc.ams() == WEIGHTED && cap.ams() & 1 != 0;
        command_sets
            && arbitration
            && (cap.mpsmin()..=cap.mpsmax()).contains(&cc.mps())
            && self
                .admin_queues()
                .iter()
                .all(|(base, entries)| base % self.page_bytes() == 0 && *entries >= 2)
    }

    fn begin_enable(&mut self) -> RegisterEffect {
        if !self.is_valid() {
            self.phase = Phase::Failed { was_ready: false };
            return RegisterEffect::Nothing;
        }
        self.phase = Phase::Enabling;
        RegisterEffect::Enable
    }

    /// The owner has enabled the controller, or could not. Whether it is ready now.
    pub(crate) fn end_enable(&mut self, is_enabled: bool) -> bool {
        if self.phase != Phase::Enabling {
            return false;
        }
        self.phase = if is_enabled { Phase::Ready } else { Phase::Failed { was_ready: false } };
        is_enabled
    }

    /// Controller Fatal Status.
    pub(crate) fn fail(&mut self) {
        self.phase = match self.phase {
            Phase::Enabling => Phase::Failed { was_ready: false },
            Phase::Ready => Phase::Failed { was_ready: true },
            other => other,
        };
    }

    /// A reset begins.
    pub(crate) fn begin_reset(&mut self, scope: ResetScope) -> RegisterEffect {
        if self.phase == Phase::PoweredOff {
            return RegisterEffect::Nothing;
        }
        if let Phase::Resetting { .. } = self.phase {
            // The farther one counts.
            if self.scope == ResetScope::Controller {
                self.scope = scope;
            }
        } else {
            let was_ready = self.csts().rdy();
            (self.phase, self.scope) = (Phase::Resetting { was_ready }, scope);
        }
        if scope != ResetScope::Controller {
            self.cc = Cc::new();
        }
        RegisterEffect::Reset
    }

    /// The owner has reset the controller, and no command is outstanding. A host that has set CC.EN meanwhile has it enabled.
    pub(crate) fn end_reset(&mut self) -> RegisterEffect {
        let fresh = Registers { cc: self.cc, ..Registers::new(self.cap) };
        *self = match self.scope {
            ResetScope::Controller => {
                Registers { aqa: self.aqa, asq: self.asq, acq: self.acq, nssro: self.nssro, ..fresh }
            }
            ResetScope::Subsystem => Registers { nssro: true, ..fresh },
            ResetScope::Function => fresh,
        };
        self.cc.set_shn(Shn::NONE);
        if self.cc.en() { self.begin_enable() } else { RegisterEffect::Nothing }
    }

    /// The owner has shut the controller down.
    pub(crate) fn end_shutdown(&mut self) {
        if self.shst == Shst::OCCURRING {
            self.shst = Shst::COMPLETE;
        }
    }

    /// Power is lost.
    pub(crate) fn power_off(&mut self) {
        *self = Registers { phase: Phase::PoweredOff, ..Registers::new(self.cap) };
    }

    /// Power is back.
    pub(crate) fn power_on(&mut self) {
        if self.phase == Phase::PoweredOff {
            *self = Registers::new(self.cap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> Registers {
        let cap =
            Cap::new().with_css(0x41).with_ams(1).with_mpsmax(4).with_to(20).with_nssrs(true).with_crms(1);
        let mut registers = Registers::new(cap);
        registers.write(PropertyOffset::AQA.0, 0xF01F_F01F);
        registers.write(PropertyOffset::ASQ.0, 0x1_1FFF);
        registers.write(PropertyOffset::ASQ.0 + 4, 5);
        registers.write(PropertyOffset::ACQ.0, 0x2_2000);
        registers
    }

    fn cc(cc: Cc) -> u32 {
        cc.into_bits().get()
    }

    fn csts(registers: &Registers) -> Csts {
        Csts::from_bits(U32::new(registers.read(PropertyOffset::CSTS.0)))
    }

    fn configure(registers: &mut Registers, value: Cc) -> RegisterEffect {
        registers.write(PropertyOffset::CC.0, cc(value))
    }

    const ENABLED: Cc = Cc::new().with_en(true).with_css(6).with_iosqes(6).with_iocqes(4);

    #[test]
    fn registers_of_eight_bytes_are_read_in_halves() {
        let registers = registers();
        assert_eq!(registers.admin_queues(), [(0x5_0001_1000, 32), (0x2_2000, 32)]);
        let read = |offset| registers.read(offset);
        assert_eq!((read(0x28), read(0x2C), read(0x30), read(0x34)), (0x1_1000, 5, 0x2_2000, 0));
        assert_eq!((read(0x24), read(8), read(0x68), read(0xFFC)), (0x001F_001F, 0x2_0100, 20, 0));
        assert_eq!(u64::from(read(4)) << 32 | u64::from(read(0)), registers.cap.into_bits().get());
    }

    #[test]
    fn a_controller_is_enabled_reset_and_enabled_again() {
        let mut registers = registers();
        assert_eq!(configure(&mut registers, ENABLED), RegisterEffect::Enable);
        assert!(!csts(&registers).rdy() && registers.end_enable(true) && csts(&registers).rdy());
        registers.write(PropertyOffset::AQA.0, 0);
        assert_eq!(registers.read(PropertyOffset::AQA.0), 0x001F_001F, "it stays while enabled");
        assert_eq!(configure(&mut registers, ENABLED.with_mps(3)), RegisterEffect::Nothing);
        assert_eq!(registers.page_bytes(), 4096);
        assert_eq!(configure(&mut registers, Cc::new()), RegisterEffect::Reset);
        assert!(csts(&registers).rdy(), "until the reset has ended");
        assert_eq!(configure(&mut registers, ENABLED), RegisterEffect::Nothing);
        assert_eq!(registers.end_reset(), RegisterEffect::Enable);
        assert!(!csts(&registers).rdy());
        assert!(!registers.end_enable(false) && csts(&registers).cfs());
        assert_eq!(configure(&mut registers, Cc::new()), RegisterEffect::Reset);
        assert_eq!(registers.end_reset(), RegisterEffect::Nothing);
        assert_eq!((csts(&registers), registers.asq), (Csts::new(), 0x5_0001_1000));
    }

    #[test]
    fn settings_that_are_not_valid_are_fatal() {
        let valid = [
            ENABLED,
            ENABLED.with_css(0),
            ENABLED.with_ams(1),
            ENABLED.with_iosqes(0).with_iocqes(0),
            // CRIME is read-only without CAP.CRMS.
            ENABLED.with_crime(true),
        ];
        let invalid = [
            ENABLED.with_css(7),
            ENABLED.with_css(1),
            ENABLED.with_ams(2),
            ENABLED.with_mps(5),
            // The queues lie at 4 KiB.
            ENABLED.with_mps(1),
        ];
        for (value, is_valid) in valid.map(|cc| (cc, true)).into_iter().chain(invalid.map(|cc| (cc, false))) {
            let mut registers = registers();
            let effect = configure(&mut registers, value);
            assert_eq!(effect == RegisterEffect::Enable, is_valid, "{value:?}");
            assert_eq!(csts(&registers).cfs(), !is_valid);
        }
        let mut registers = registers();
        registers.write(PropertyOffset::AQA.0, 31);
        assert_eq!(configure(&mut registers, ENABLED), RegisterEffect::Nothing, "one entry");
        assert!(csts(&registers).cfs());
    }

    #[test]
    fn shutdowns_happen_once_and_end_with_a_reset() {
        let mut registers = registers();
        configure(&mut registers, ENABLED);
        registers.end_enable(true);
        let abrupt = ENABLED.with_shn(Shn::ABRUPT);
        assert_eq!(configure(&mut registers, abrupt), RegisterEffect::Shutdown(Shn::ABRUPT));
        assert_eq!(csts(&registers).shst(), Shst::OCCURRING);
        assert_eq!(configure(&mut registers, abrupt), RegisterEffect::Nothing);
        registers.end_shutdown();
        assert_eq!((csts(&registers).shst(), csts(&registers).rdy()), (Shst::COMPLETE, true));
        assert_eq!(configure(&mut registers, Cc::new()), RegisterEffect::Reset);
        registers.end_reset();
        assert_eq!(csts(&registers).shst(), Shst::NORMAL);
    }

    #[test]
    fn resets_of_subsystem_and_function_and_power() {
        let mut registers = registers();
        assert_eq!(registers.write(PropertyOffset::NSSR.0, 1), RegisterEffect::Nothing);
        assert_eq!(registers.write(PropertyOffset::NSSR.0, NSSR_NVME), RegisterEffect::SubsystemReset);
        configure(&mut registers, ENABLED);
        registers.end_enable(true);
        registers.begin_reset(ResetScope::Subsystem);
        assert_eq!(registers.end_reset(), RegisterEffect::Nothing, "CC is reset, too");
        assert!(csts(&registers).nssro() && registers.asq == 0);
        registers.write(PropertyOffset::CSTS.0, Csts::new().with_nssro(true).into_bits().get());
        assert!(!csts(&registers).nssro());
        registers.write(PropertyOffset::INTMS.0, 5);
        registers.write(PropertyOffset::INTMC.0, 1);
        assert!(!registers.is_masked(0) && registers.is_masked(2) && !registers.is_masked(34));
        registers.begin_reset(ResetScope::Controller);
        registers.begin_reset(ResetScope::Function);
        registers.end_reset();
        assert!(!registers.is_masked(2));
        registers.power_off();
        assert_eq!(registers.read(0), u32::MAX);
        assert_eq!(configure(&mut registers, ENABLED), RegisterEffect::Nothing);
        registers.power_on();
        assert_eq!(csts(&registers), Csts::new());
    }
}
