//! Namespace Management: create and delete (Base 5.1.21, NVM 4.1.6).

use crate::config::{Attach, ConfigError, GRANULE_BYTES};
use crate::contents::Contents;
use crate::core::{
    ControllerId, Cx, Failure, Lanes, Layout, Namespace, Outcome, Policy, Reply, Token, identifiers,
};
use crate::drive::Drive;
use crate::fdp;
use crate::keys;
use crate::ports::ANA_GROUP;
use crate::quota::limits::Quotas;
use crate::stats;
use crate::stats::counts::Traffic;
use ftl::{Fault, NoContents, SetId};
use media::Nanos;
use nvme::admin::{AdminCommand, NamespaceManagement, NamespaceManagementSelect};
use nvme::identify::NamespaceCreate;
use nvme::log::SelfTestOutcome;
use nvme::zerocopy::FromBytes;
use nvme::{Csi, NSID_ALL, Status};

impl Drive {
    pub(super) fn namespace_management<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        c: NamespaceManagement,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        if c.sel == NamespaceManagementSelect::CREATE {
            return self.create_namespace(id, c, data, cx);
        }
        let targets = if c.nsid == NSID_ALL {
            self.core.namespaces.ids()
        } else if self.core.namespaces.get(c.nsid).is_some() {
            vec![c.nsid]
        } else {
            return Err(self.core.no_namespace(c.nsid));
        };
        keys::refuse_locked(&self.core, &targets)?;
        let idle = self.core.claim(&targets, cx.now);
        if !idle {
            return self.core.wait_for_idle(token, id, AdminCommand::NamespaceManagement(c));
        }
        let keyed =
            targets.iter().any(|nsid| self.core.namespaces.get(*nsid).is_some_and(|ns| ns.key.is_some()));
        for nsid in targets {
            self.remember_namespace(id, nsid, c.sel, cx.now);
            self.delete_namespace(nsid, cx);
        }
        self.core.record(cx.storage);
        // Without its key nobody can read what the namespace held: it must be gone when the host is told.
        let entry = self.core.commands.get_mut(token);
        (entry.forget, entry.sync) = (keyed, keyed);
        Ok(Reply::Done(0))
    }

    fn create_namespace<S: Contents>(
        &mut self,
        id: ControllerId,
        c: NamespaceManagement,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        if self.core.drive_key.locked {
            // It would hold plain data, on a drive that has a key.
            return Err(Status::ACCESS_DENIED.into());
        }
        if c.csi != Csi::NVM {
            return Err(Failure { location: 47, ..Status::IOCS_NOT_SUPPORTED.into() });
        }
        if c.nsid != 0 {
            return Err(Failure::field(4));
        }
        let (new, _) = NamespaceCreate::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
        let index = new.flbas.format_index();
        let format = self.check_format(id, index, new.flbas.mtelba(), new.dps.pit())?;
        let shift = format.shift();
        let (nsze, ncap) = (new.nsze.get(), new.ncap.get());
        let nmic = new.nmic.into_bits();
        if nsze == 0 || ncap == 0 || ncap > nsze || nmic > 1 {
            return Err(Status::INVALID_FIELD.into());
        }
        // Bits of the mask that have no bit of the tag.
        if new.lbstm.get().checked_shr(format.storage_bits.into()).unwrap_or(0) != 0 {
            return Err(Status::INVALID_FIELD.into());
        }
        if ncap < nsze {
            return Err(Status::THIN_PROVISIONING_NOT_SUPPORTED.into());
        }
        if ![0, ANA_GROUP].contains(&new.anagrpid.get()) {
            return Err(Status::ANA_GROUP_ID_INVALID.into());
        }
        let set = self.choose_set(new.nvmsetid.get(), new.endgid.get())?;
        let (handles, by_controller) = fdp::choose_handles(&self.core, set, new)?;
        // What would not even be counted in bytes is more than any set has.
        let bytes =
            nsze.checked_shl(shift.into()).filter(|b| b >> shift == nsze && *b <= u64::MAX - GRANULE_BYTES);
        let insufficient = Failure::from(Status::NAMESPACE_INSUFFICIENT_CAPACITY);
        let bytes = bytes.ok_or(insufficient.with_information(u64::MAX))?;
        // The error log tells the capacity that would have been needed (Base 5.1.21).
        let needed = bytes.next_multiple_of(GRANULE_BYTES);
        let nsid = self.core.namespaces.free().ok_or(Status::NAMESPACE_ID_UNAVAILABLE)?;
        let volume =
            self.core.ftl.create(set, bytes.next_multiple_of(ftl::PAGE.into()), cx.storage).map_err(
                |fault| match fault {
                    Fault::NoSpace => insufficient.with_information(needed),
                    other => Failure::of_fault(other, crate::core::CommandKind::Admin),
                },
            )?;
        let mut namespace = self.new_namespace(volume, set, bytes, nmic & 1 != 0, Policy::default());
        namespace.protection_type = new.dps.pit();
        namespace.protection_first = new.dps.pip() && new.dps.pit() != 0;
        namespace.storage_mask = new.lbstm.get();
        namespace.set_format(index, format);
        (namespace.handles, namespace.handles_by_controller) = (handles, by_controller);
        self.core.namespaces.insert(nsid, namespace);
        if let Err(failure) = keys::renew(&mut self.core, nsid, cx.storage) {
            self.core.namespaces.remove(nsid);
            self.core.ftl.delete(cx.now, volume, cx.storage);
            return Err(failure);
        }
        self.remember_namespace(id, nsid, c.sel, cx.now);
        self.core.count_sharers();
        self.core.record(cx.storage);
        Ok(Reply::Done(nsid))
    }

    /// Each NVM Set is an Endurance Group of its own, so their identifiers are the same.
    fn choose_set(&self, nvmsetid: u16, endgid: u16) -> Result<SetId, Failure> {
        let chosen = match (nvmsetid, endgid) {
            (0, 0) => self.core.config.default_set,
            (0, group) => group,
            (set, 0) => set,
            (set, group) if set == group => set,
            _ => return Err(Status::INVALID_FIELD.into()),
        };
        let index = usize::from(chosen).checked_sub(1).filter(|i| *i < self.core.ftl.set_count());
        let index = index.and_then(|i| u8::try_from(i).ok()).ok_or(Status::INVALID_FIELD)?;
        Ok(SetId(index))
    }

    /// A namespace that has no format yet.
    fn new_namespace(
        &mut self,
        volume: ftl::VolumeId,
        set: SetId,
        bytes: u64,
        shared: bool,
        policy: Policy,
    ) -> Namespace {
        let id = identifiers(&self.core.config.identity.serial, self.core.persistent.namespaces_made);
        self.core.persistent.namespaces_made += 1;
        Namespace {
            volume,
            set,
            bytes,
            format: 0,
            shift: 0,
            shared,
            nguid: id,
            uuid: id,
            policy,
            before: Traffic::default(),
            quota: Quotas::default(),
            lanes: Lanes::default(),
            protection_type: 0,
            protection_first: false,
            storage_mask: 0,
            stamp: 0,
            key: None,
            locked: false,
            layout: Layout::default(),
            reservations: None,
            handles: Vec::new(),
            handles_by_controller: false,
            stats: Box::default(),
            losses: 0,
            in_flight: 0,
            closing: false,
        }
    }

    fn delete_namespace<S: Contents>(&mut self, nsid: u32, cx: &mut Cx<'_, S>) {
        self.end_self_test_of(nsid, SelfTestOutcome::NAMESPACE_REMOVED, cx);
        let affected = self.core.attached_controllers(nsid);
        let Some(namespace) = self.core.namespaces.remove(nsid) else { return };
        cx.storage.drop_key(nsid);
        self.deleted.add(&namespace.stats, &stats::media_stats(&self.core, &namespace));
        self.core.ftl.delete(cx.now, namespace.volume, cx.storage);
        self.core.count_sharers();
        for id in &affected {
            if let Some(controller) = self.core.controllers.get_mut(*id) {
                controller.attach(nsid, false);
            }
        }
        self.core.namespace_changed(nsid, &affected, cx);
    }

    /// The namespaces of a new drive.
    pub(crate) fn create_initial_namespaces(&mut self) -> Result<(), ConfigError> {
        for (i, initial) in self.core.config.namespaces.clone().into_iter().enumerate() {
            let set = SetId(u8::try_from(initial.set - 1).unwrap_or(u8::MAX));
            let format = self.core.config.lba_formats.iter().position(|f| *f == initial.format).unwrap_or(0);
            let bytes = initial.bytes.next_multiple_of(ftl::PAGE.into());
            // That there is room was checked with the rest of the configuration.
            let volume = self.core.ftl.create(set, bytes, &mut NoContents).map_err(|fault| {
                let size = units::format_size(initial.bytes);
                ConfigError::value(format!("namespace.{}.size", i + 1), size, fault.to_string())
            })?;
            let policy = Policy { all: initial.attach == Attach::All, ..Policy::default() };
            let mut namespace = self.new_namespace(volume, set, initial.bytes, true, policy);
            namespace.protection_type = initial.protection;
            namespace.storage_mask = u64::MAX;
            namespace.set_format(format as u8, initial.format);
            namespace.quota = Quotas::new(initial.limits);
            if self.core.is_placing(set) {
                // Whoever configures a drive, and not a namespace, wants to use all of it.
                namespace.handles = (0..self.core.ftl.handles(set) as u8).collect();
            }
            // The configuration was checked: there are no more of them than identifiers.
            if let Some(nsid) = self.core.namespaces.free() {
                self.core.namespaces.insert(nsid, namespace);
                self.core.apply_quota(nsid, Nanos::ZERO);
            }
        }
        self.core.count_sharers();
        Ok(())
    }
}
