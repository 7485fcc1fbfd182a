//! Ports of the subsystem, and Asymmetric Namespace Access (Base 8.1.1).
//!
//! The runner says which ports there are, and through which one a controller is reached. All namespaces belong to one
//! ANA group, whose state on a controller is its port's: what is asymmetric here are the ways to the drive, not its
//! namespaces. A controller without a port (the drive's own process) is always optimized.

use crate::contents::Contents;
use crate::core::{ANA_GROUP, Controller, ControllerId, Cx, Failure, Outcome, Output, PortId, Reply};
use crate::drive::Drive;
use media::Nanos;
use nvme::admin::{FaultInjection, FaultKind};
use nvme::log::{AnaGroup, AnaHeader, AnaState};
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
}

/// Ports that the runner has told of; a handful.
#[derive(Debug, Default)]
pub(crate) struct Ports(Vec<Port>);

impl Drive {
    /// Tells of a port, with its state.
    pub fn add_port(&mut self, id: PortId, state: AnaState) {
        self.ports.0.push(Port { id, initial: state, state });
    }

    /// The state of a port; `None` if there is no such port.
    pub fn port_state(&self, id: PortId) -> Option<AnaState> {
        self.ports.0.iter().find(|p| p.id == id).map(|p| p.state)
    }

    /// A controller that was just connected is reached through this port.
    pub fn arrive(&mut self, controller: ControllerId, port: PortId) {
        let state = self.port_state(port).unwrap_or(AnaState::OPTIMIZED);
        if let Some(controller) = self.core.controllers.get_mut(controller) {
            (controller.port, controller.ana) = (port, state);
        }
    }

    /// The port that a controller is reached through.
    pub fn port_of(&self, controller: ControllerId) -> Option<PortId> {
        self.core.controllers.get(controller).map(|c| c.port)
    }

    /// The Asymmetric Namespace Access log (Base 5.1.12.1.13).
    pub(crate) fn ana_log(&self, controller: &Controller, groups_only: bool) -> Vec<u8> {
        let mut nsids = Vec::new();
        if !groups_only {
            nsids = self
                .core
                .namespaces
                .iter()
                .map(|(nsid, _)| nsid)
                .filter(|n| controller.is_attached(*n))
                .collect();
        }
        let header = AnaHeader {
            chngcnt: U64::new(controller.ana_changes),
            nagd: U16::new(1),
            ..AnaHeader::default()
        };
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
        // As long as it can become, so that a host may read it in pieces whatever it has now.
        let full = log.len() + size_of::<u32>() * self.core.config.max_namespaces as usize;
        log.extend(nsids.into_iter().flat_map(u32::to_le_bytes));
        log.resize(full, 0);
        log
    }

    /// Fault injection: what happens to ports.
    pub(crate) fn port_fault<S: Contents>(&mut self, c: FaultInjection, cx: &mut Cx<'_, S>) -> Outcome {
        let port = PortId(c.nvmsetid);
        if c.kind == FaultKind::PORT_DOWN {
            if self.port_state(port).is_none() {
                return Err(Failure::field(42));
            }
            if c.param == 0 {
                return Err(Failure::field(52));
            }
            cx.out.push(Output::PortDown { port, span: Nanos(u64::from(c.param) * 1_000_000) });
            return Ok(Reply::Done(0));
        }
        let state = u8::try_from(c.param).map(AnaState).ok().filter(|state| state.name().is_some());
        let state = state.ok_or(Failure::field(52))?;
        let all = port == PortId::default();
        let chosen: Vec<PortId> = self.ports.0.iter().map(|p| p.id).filter(|id| all || *id == port).collect();
        if chosen.is_empty() {
            return Err(Failure::field(42));
        }
        for id in chosen {
            self.set_port_state(id, state, cx);
        }
        Ok(Reply::Done(0))
    }

    /// Injected faults end: every port is as it was at first.
    pub(crate) fn restore_ports<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let initial: Vec<_> = self.ports.0.iter().map(|p| (p.id, p.initial)).collect();
        for (id, state) in initial {
            self.set_port_state(id, state, cx);
        }
        cx.out.push(Output::PortsUp);
    }

    /// Sets the state of a port, and tells the hosts behind it.
    fn set_port_state<S: Contents>(&mut self, id: PortId, state: AnaState, cx: &mut Cx<'_, S>) {
        let Some(port) = self.ports.0.iter_mut().find(|p| p.id == id && p.state != state) else { return };
        port.state = state;
        let mut answers = Vec::new();
        for (_, controller) in self.core.controllers.iter_mut().filter(|(_, c)| c.port == id) {
            controller.ana = state;
            controller.ana_changes += 1;
            let configuration = controller.values.events();
            answers.extend(controller.events.raise(crate::core::AsyncEvent::Ana, configuration));
        }
        self.core.return_unreachable(cx.now);
        for answered in answers {
            self.core.answer_event(answered, cx);
        }
    }
}
