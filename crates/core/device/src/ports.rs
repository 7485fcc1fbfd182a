//! Ports of the subsystem, and Asymmetric Namespace Access (Base 8.1.1).
//!
//! The runner says which ports there are, and through which port it reaches a controller. All namespaces belong to one ANA
//! group. The group's state on a controller is that of the controller's port. A controller without a port (in the drive's own
//! process) is always optimized. The core keeps each controller's state and refuses what it closes.

use crate::contents::Contents;
use crate::core::{
    ANA_GROUP, AdminResult, AsyncEvent, Controller, ControllerId, Core, Cx, Failure, Output, PortId, Reply,
};
use crate::fault_injection::{CERTAINTY_PPB, entry};
use media::Nanos;
use nvme::admin::{FaultInjection, FaultKind};
use nvme::log::{AnaGroup, AnaHeader, AnaState, InjectedFault};
use nvme::zerocopy::IntoBytes;
use nvme::{U16, U32, U64};

/// ANATT: hosts wait no longer than this for the end of ANA Change. Here it lasts until the next state is set.
pub(crate) const ANA_TRANSITION_SECONDS: u8 = 10;

#[derive(Clone, Copy, Debug)]
struct Port {
    id: PortId,
    /// The state that it had at first.
    initial: AnaState,
    state: AnaState,
    /// It takes no connections before this time.
    down_until: Nanos,
}

/// Ports that the runner has told of; a handful.
#[derive(Debug, Default)]
pub(crate) struct Ports(Vec<Port>);

impl Ports {
    /// Adds a port with its state.
    pub fn add(&mut self, id: PortId, state: AnaState) {
        self.0.push(Port { id, initial: state, state, down_until: Nanos::ZERO });
    }

    /// The state of a port; `None` if there is no such port.
    pub fn state(&self, id: PortId) -> Option<AnaState> {
        self.0.iter().find(|p| p.id == id).map(|p| p.state)
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.0.len() as u16
    }

    /// The faults of ports that are active.
    pub fn faults(&self, now: Nanos) -> impl Iterator<Item = InjectedFault> {
        let ana = |port: &Port| InjectedFault {
            param: U32::new(port.state.0.into()),
            ..entry(FaultKind::PORT_ANA, port.id.0, CERTAINTY_PPB)
        };
        let down = |left: Nanos, port: &Port| InjectedFault {
            remaining: U64::new(left.0.div_ceil(1_000_000)),
            ..entry(FaultKind::PORT_DOWN, port.id.0, CERTAINTY_PPB)
        };
        self.0.iter().flat_map(move |port| {
            let left = port.down_until.since(now);
            let ana = (port.state != port.initial).then(|| ana(port));
            ana.into_iter().chain((left > Nanos::ZERO).then(|| down(left, port)))
        })
    }

    /// A controller that was just connected is reached through this port.
    pub fn arrive(&self, core: &mut Core, controller: ControllerId, port: PortId) {
        let state = self.state(port).unwrap_or(AnaState::OPTIMIZED);
        if let Some(controller) = core.controllers.get_mut(controller) {
            (controller.port, controller.ana) = (port, state);
        }
    }

    /// Fault injection: what happens to ports.
    pub fn fault<S: Contents>(
        &mut self,
        core: &mut Core,
        c: FaultInjection,
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        let port = PortId(c.nvmsetid);
        if c.kind == FaultKind::PORT_DOWN {
            let span = Nanos(u64::from(c.param) * 1_000_000);
            let found = self.0.iter_mut().find(|p| p.id == port).ok_or(Failure::field(42))?;
            if c.param == 0 {
                return Err(Failure::field(52));
            }
            found.down_until = cx.now + span;
            cx.out.push(Output::PortDown { port, span });
            return Ok(Reply::Done(0));
        }
        let state = u8::try_from(c.param).map(AnaState).ok().filter(|state| state.name().is_some());
        let state = state.ok_or(Failure::field(52))?;
        let all = port == PortId::default();
        let chosen: Vec<PortId> = self.0.iter().map(|p| p.id).filter(|id| all || *id == port).collect();
        if chosen.is_empty() {
            return Err(Failure::field(42));
        }
        for id in chosen {
            self.set_state(core, id, state, cx);
        }
        Ok(Reply::Done(0))
    }

    /// Injected faults end: every port is as it was at first.
    pub fn restore<S: Contents>(&mut self, core: &mut Core, cx: &mut Cx<'_, S>) {
        self.0.iter_mut().for_each(|port| port.down_until = Nanos::ZERO);
        let initial: Vec<_> = self.0.iter().map(|p| (p.id, p.initial)).collect();
        for (id, state) in initial {
            self.set_state(core, id, state, cx);
        }
        cx.out.push(Output::PortsUp);
    }

    /// Sets the state of a port, and tells the hosts behind it.
    fn set_state<S: Contents>(&mut self, core: &mut Core, id: PortId, state: AnaState, cx: &mut Cx<'_, S>) {
        let Some(port) = self.0.iter_mut().find(|p| p.id == id && p.state != state) else { return };
        port.state = state;
        let mut answers = Vec::new();
        for (_, controller) in core.controllers.iter_mut().filter(|(_, c)| c.port == id) {
            controller.ana = state;
            controller.ana_changes += 1;
            answers.extend(controller.raise(AsyncEvent::Ana));
        }
        core.return_unreachable(cx.now);
        for answered in answers {
            core.answer_event(answered, cx);
        }
    }
}

/// The Asymmetric Namespace Access log (Base 5.1.12.1.13).
pub(crate) fn ana_log(core: &Core, controller: &Controller, groups_only: bool) -> Vec<u8> {
    let mut nsids = Vec::new();
    if !groups_only {
        nsids = core.namespaces.ids().into_iter().filter(|n| controller.is_attached(*n)).collect();
    }
    let header =
        AnaHeader { chngcnt: U64::new(controller.ana_changes), nagd: U16::new(1), ..AnaHeader::default() };
    let group = AnaGroup {
        agid: U32::new(ANA_GROUP),
        nnv: U32::new(nsids.len() as u32),
        // There is one group, so every change is its own; its count starts at 1.
        chngcnt: U64::new(controller.ana_changes + 1),
        anas: controller.ana,
        ..AnaGroup::default()
    };
    let mut log = header.as_bytes().to_vec();
    log.extend_from_slice(group.as_bytes());
    // As long as it can become, so that a host may read it in pieces while it grows or shrinks.
    let full = log.len() + size_of::<u32>() * core.config.max_namespaces as usize;
    log.extend(nsids.into_iter().flat_map(u32::to_le_bytes));
    log.resize(full, 0);
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn fault(kind: FaultKind, port: u16, param: u32) -> FaultInjection {
        FaultInjection { nsid: 0, kind, nvmsetid: port, count: 0, one_in: 0, param, lba: None }
    }

    #[test]
    fn a_port_gives_its_state_to_its_controllers_alone() {
        let mut core = fixture::core();
        let (a, b) = (fixture::connect(&mut core, 1), fixture::connect(&mut core, 2));
        let mut ports = Ports::default();
        ports.add(PortId(1), AnaState::OPTIMIZED);
        ports.add(PortId(2), AnaState::NON_OPTIMIZED);
        ports.arrive(&mut core, a, PortId(1));
        ports.arrive(&mut core, b, PortId(2));
        let states = |core: &Core| [a, b].map(|id| core.controllers.get(id).unwrap().ana);
        assert_eq!(states(&core), [AnaState::OPTIMIZED, AnaState::NON_OPTIMIZED]);
        let inaccessible = fault(FaultKind::PORT_ANA, 1, AnaState::INACCESSIBLE.0.into());
        let (done, _) = fixture::call(|cx| ports.fault(&mut core, inaccessible, cx));
        assert!(done.is_ok() && core.check_access(a).is_err() && core.check_access(b).is_ok());
        let faults: Vec<_> =
            ports.faults(Nanos::ZERO).map(|f| (f.kind, f.nvmsetid.get(), f.param.get())).collect();
        assert_eq!(faults, [(FaultKind::PORT_ANA, 1, AnaState::INACCESSIBLE.0.into())]);
        let ((), out) = fixture::call(|cx| ports.restore(&mut core, cx));
        assert_eq!(ports.faults(Nanos::ZERO).count(), 0);
        assert_eq!(states(&core), [AnaState::OPTIMIZED, AnaState::NON_OPTIMIZED]);
        assert_eq!(out, [Output::PortsUp]);
    }

    #[test]
    fn a_port_that_goes_down_is_the_runners() {
        let (mut core, mut ports) = (fixture::core(), Ports::default());
        let mut down = |ports: &mut Ports, port, millis| {
            fixture::call(|cx| ports.fault(&mut core, fault(FaultKind::PORT_DOWN, port, millis), cx))
        };
        assert!(down(&mut ports, 1, 5).0.is_err(), "there is no such port");
        ports.add(PortId(1), AnaState::OPTIMIZED);
        assert!(down(&mut ports, 1, 0).0.is_err());
        let (done, out) = down(&mut ports, 1, 5);
        assert!(done.is_ok());
        assert_eq!(out, [Output::PortDown { port: PortId(1), span: Nanos(5_000_000) }]);
        let left = |now| ports.faults(now).map(|f| (f.kind, f.remaining.get())).collect::<Vec<_>>();
        assert_eq!(left(Nanos(1_500_000)), [(FaultKind::PORT_DOWN, 4)]);
        assert_eq!(left(Nanos(5_000_000)), []);
    }
}
