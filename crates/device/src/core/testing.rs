//! A small core for unit tests of components.

use super::controller::{Controller, ControllerId, Host, Origin};
use super::namespace::Namespaces;
use super::persistent_state::PersistentState;
use super::state::Core;
use crate::config::Config;
use ftl::Ftl;
use nvme::Nqn;

/// The core of the default drive with an administrator's controller, and without namespaces.
pub(crate) fn core() -> (Core, ControllerId) {
    core_of(Config::default_drive())
}

/// The same for another configuration.
pub(crate) fn core_of(config: Config) -> (Core, ControllerId) {
    let ftl = Ftl::new(config.effective_ftl()).expect("the configuration is right");
    let namespaces = Namespaces::new(config.max_namespaces);
    let max_namespaces = config.max_namespaces;
    let mut core = Core::new(config, ftl, namespaces, PersistentState::default());
    let host = Host::administrator(Nqn::new("nqn.2026-11.test:host").unwrap(), [1; 16], Origin::InProcess);
    let id = core.controllers.add(Controller::new(host, max_namespaces)).unwrap();
    (core, id)
}
