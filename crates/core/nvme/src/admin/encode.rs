//! Admin commands, constructed: the inverse of parsing, and shorthands for hosts.

use super::*;

fn low_high(value: u64) -> (U32, U32) {
    let b = value.to_le_bytes();
    (U32::from_bytes([b[0], b[1], b[2], b[3]]), U32::from_bytes([b[4], b[5], b[6], b[7]]))
}

/// The way back: each parsed command as the entry that parses to it. Values too wide for their field lose
/// their upper bits.
impl From<AdminCommand> for Command {
    fn from(command: AdminCommand) -> Self {
        match command {
            AdminCommand::DeleteIoSq(c) => c.encode(AdminOpcode::DELETE_IO_SQ),
            AdminCommand::CreateIoSq(c) => c.into(),
            AdminCommand::GetLogPage(c) => c.into(),
            AdminCommand::DeleteIoCq(c) => c.encode(AdminOpcode::DELETE_IO_CQ),
            AdminCommand::CreateIoCq(c) => c.into(),
            AdminCommand::Identify(c) => c.into(),
            AdminCommand::Abort(c) => c.into(),
            AdminCommand::SetFeatures(c) => c.into(),
            AdminCommand::GetFeatures(c) => c.into(),
            AdminCommand::AsyncEventRequest => Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0),
            AdminCommand::NamespaceManagement(c) => c.into(),
            AdminCommand::FirmwareCommit(c) => Command {
                cdw10: U32::new(u32::from(c.fs & 7) | u32::from(c.ca.0 & 7) << 3 | u32::from(c.bpid) << 31),
                ..Command::new(AdminOpcode::FIRMWARE_COMMIT.0, 0)
            },
            AdminCommand::FirmwareImageDownload(c) => Command {
                cdw10: low_high(c.dwords.saturating_sub(1)).0,
                cdw11: U32::new(c.offset),
                ..Command::new(AdminOpcode::FIRMWARE_IMAGE_DOWNLOAD.0, 0)
            },
            AdminCommand::DeviceSelfTest(c) => Command {
                cdw10: U32::new(u32::from(c.stc & 0xF)),
                ..Command::new(AdminOpcode::DEVICE_SELF_TEST.0, c.nsid)
            },
            AdminCommand::NamespaceAttachment(c) => c.into(),
            AdminCommand::KeepAlive => Command::new(AdminOpcode::KEEP_ALIVE.0, 0),
            AdminCommand::DirectiveSend(c) => c.encode(AdminOpcode::DIRECTIVE_SEND),
            AdminCommand::DirectiveReceive(c) => c.encode(AdminOpcode::DIRECTIVE_RECEIVE),
            AdminCommand::FormatNvm(c) => c.into(),
            AdminCommand::Sanitize(c) => c.into(),
            AdminCommand::GetLbaStatus(c) => c.into(),
            AdminCommand::PowerCut(c) => c.into(),
            AdminCommand::FaultInjection(c) => c.into(),
            AdminCommand::ProtocolFault(c) => c.into(),
            AdminCommand::Fabrics(c) => c.into(),
        }
    }
}

impl DeleteQueue {
    fn encode(self, opcode: AdminOpcode) -> Command {
        Command { cdw10: U32::new(u32::from(self.qid)), ..Command::new(opcode.0, 0) }
    }
}

impl Directive {
    fn encode(self, opcode: AdminOpcode) -> Command {
        let cdw11 =
            DirectiveCdw11::new().with_doper(self.doper).with_dtype(self.dtype).with_dspec(self.dspec);
        Command {
            cdw10: low_high(self.dwords.saturating_sub(1)).0,
            cdw11: cdw11.0,
            cdw12: U32::new(self.cdw12),
            ..Command::new(opcode.0, self.nsid)
        }
    }
}

impl From<CreateIoCq> for Command {
    fn from(c: CreateIoCq) -> Self {
        Self {
            cdw10: Halves::new().with_low(c.qid).with_high(c.qsize_z).0,
            cdw11: CqCdw11::new().with_pc(c.pc).with_ien(c.ien).with_iv(c.iv).0,
            ..Self::new(AdminOpcode::CREATE_IO_CQ.0, 0)
        }
    }
}

impl From<CreateIoSq> for Command {
    fn from(c: CreateIoSq) -> Self {
        Self {
            cdw10: Halves::new().with_low(c.qid).with_high(c.qsize_z).0,
            cdw11: SqCdw11::new().with_pc(c.pc).with_qprio(c.qprio & 3).with_cqid(c.cqid).0,
            cdw12: U32::new(u32::from(c.nvmsetid)),
            ..Self::new(AdminOpcode::CREATE_IO_SQ.0, 0)
        }
    }
}

impl From<GetLogPage> for Command {
    fn from(c: GetLogPage) -> Self {
        // One more than 32 bits can count is 0 after the subtraction has wrapped: never produced by parsing.
        let numd = low_high(c.dwords.saturating_sub(1)).0;
        let (numdl, numdu) = halves(numd);
        let (cdw12, cdw13) = low_high(c.offset);
        Self {
            cdw10: LogCdw10::new().with_lid(c.lid).with_lsp(c.lsp & 0x7F).with_rae(c.rae).with_numdl(numdl).0,
            cdw11: LogCdw11::new().with_numdu(numdu).with_lsi(c.lsi).0,
            cdw12,
            cdw13,
            cdw14: LogCdw14::new().with_uidx(c.uidx & 0x7F).with_ot(c.ot).with_csi(c.csi).0,
            ..Self::new(AdminOpcode::GET_LOG_PAGE.0, c.nsid)
        }
    }
}

impl From<Identify> for Command {
    fn from(c: Identify) -> Self {
        Self {
            cdw10: IdentifyCdw10::new().with_cns(c.cns).with_cntid(c.cntid).0,
            cdw11: IdentifyCdw11::new().with_cnssid(c.cnssid).with_csi(c.csi).0,
            cdw14: U32::new(u32::from(c.uidx & 0x7F)),
            ..Self::new(AdminOpcode::IDENTIFY.0, c.nsid)
        }
    }
}

impl From<GetLbaStatus> for Command {
    fn from(c: GetLbaStatus) -> Self {
        let (cdw10, cdw11) = low_high(c.slba);
        // As many dwords as 32 bits can count, zero-based.
        let dwords = u32::try_from(c.dwords.saturating_sub(1)).unwrap_or(u32::MAX);
        Self {
            cdw10,
            cdw11,
            cdw12: U32::new(dwords),
            cdw13: U32::new(u32::from(c.range) | u32::from(c.atype.0) << 24),
            ..Self::new(AdminOpcode::GET_LBA_STATUS.0, c.nsid)
        }
    }
}

impl From<Abort> for Command {
    fn from(c: Abort) -> Self {
        Self {
            cdw10: Halves::new().with_low(c.sqid).with_high(c.cid).0,
            ..Self::new(AdminOpcode::ABORT.0, 0)
        }
    }
}

impl From<SetFeatures> for Command {
    fn from(c: SetFeatures) -> Self {
        Self {
            cdw10: SetFeaturesCdw10::new().with_fid(c.fid).with_sv(c.sv).0,
            cdw11: U32::new(c.cdw11),
            cdw12: U32::new(c.cdw12),
            cdw13: U32::new(c.cdw13),
            cdw14: U32::new(u32::from(c.uidx & 0x7F)),
            cdw15: U32::new(c.cdw15),
            ..Self::new(AdminOpcode::SET_FEATURES.0, c.nsid)
        }
    }
}

impl From<GetFeatures> for Command {
    fn from(c: GetFeatures) -> Self {
        Self {
            cdw10: GetFeaturesCdw10::new().with_fid(c.fid).with_sel(Select(c.sel.0 & 7)).0,
            cdw11: U32::new(c.cdw11),
            cdw14: U32::new(u32::from(c.uidx & 0x7F)),
            ..Self::new(AdminOpcode::GET_FEATURES.0, c.nsid)
        }
    }
}

impl From<NamespaceManagement> for Command {
    fn from(c: NamespaceManagement) -> Self {
        Self {
            cdw10: U32::new(u32::from(c.sel.0 & 0xF)),
            cdw11: U32::new(u32::from(c.csi.0) << 24),
            ..Self::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, c.nsid)
        }
    }
}

impl From<NamespaceAttachment> for Command {
    fn from(c: NamespaceAttachment) -> Self {
        Self {
            cdw10: U32::new(u32::from(c.sel.0 & 0xF)),
            ..Self::new(AdminOpcode::NAMESPACE_ATTACHMENT.0, c.nsid)
        }
    }
}

impl From<FormatNvm> for Command {
    fn from(c: FormatNvm) -> Self {
        Self {
            cdw10: FormatCdw10::new()
                .with_lbafl(c.lbaf & 0xF)
                .with_lbafu(c.lbaf >> 4 & 3)
                .with_mset(c.mset)
                .with_pi(c.pi & 7)
                .with_pil(c.pil)
                .with_ses(SecureErase(c.ses.0 & 7))
                .0,
            ..Self::new(AdminOpcode::FORMAT_NVM.0, c.nsid)
        }
    }
}

impl From<Sanitize> for Command {
    fn from(c: Sanitize) -> Self {
        Self {
            cdw10: SanitizeCdw10::new()
                .with_sanact(SanitizeAction(c.sanact.0 & 7))
                .with_ause(c.ause)
                .with_owpass(c.owpass & 0xF)
                .with_oipbp(c.oipbp)
                .with_ndas(c.ndas)
                .with_emvs(c.emvs)
                .0,
            cdw11: U32::new(c.ovrpat),
            ..Self::new(AdminOpcode::SANITIZE.0, 0)
        }
    }
}

impl From<PowerCut> for Command {
    fn from(c: PowerCut) -> Self {
        Self {
            cdw10: U32::new(c.after_media_ops),
            cdw11: U32::new(c.off_ms),
            cdw12: U32::new(c.seed),
            cdw13: U32::new(u32::from(c.no_plp)),
            ..Self::new(AdminOpcode::POWER_CUT.0, 0)
        }
    }
}

impl From<FaultInjection> for Command {
    fn from(c: FaultInjection) -> Self {
        let (cdw14, cdw15) = low_high(c.lba.unwrap_or(u64::MAX));
        Self {
            cdw10: FaultCdw10::new().with_kind(c.kind).with_nvmsetid(c.nvmsetid).0,
            cdw11: U32::new(c.count),
            cdw12: U32::new(c.one_in),
            cdw13: U32::new(c.param),
            cdw14,
            cdw15,
            ..Self::new(AdminOpcode::FAULT_INJECTION.0, c.nsid)
        }
    }
}

impl From<ProtocolFaultInjection> for Command {
    fn from(c: ProtocolFaultInjection) -> Self {
        let ProtocolFaultInjection { nsid, kind, port, count, one_in, param } = c;
        FaultInjection { nsid, kind, nvmsetid: port, count, one_in, param, lba: None }.into()
    }
}

/// Shorthands for what hosts ask most.
impl Command {
    /// Identify with this CNS and namespace, NVM Command Set, everything else zero.
    #[must_use]
    pub fn identify(cns: Cns, nsid: Nsid) -> Self {
        Identify { nsid, cns, cntid: 0, cnssid: 0, csi: Csi::NVM, uidx: 0 }.into()
    }

    /// Get Log Page: `bytes` (rounded up to dwords, at least one) of a log from `offset`, events retained.
    #[must_use]
    pub fn get_log_page(lid: LogId, nsid: Nsid, lsi: u16, offset: u64, bytes: u32) -> Self {
        GetLogPage {
            nsid,
            lid,
            lsp: 0,
            lsi,
            rae: true,
            dwords: u64::from(bytes.div_ceil(4).max(1)),
            offset,
            ot: false,
            csi: Csi::NVM,
            uidx: 0,
        }
        .into()
    }

    /// Set Features with one dword of value, not saved.
    #[must_use]
    pub fn set_features(fid: FeatureId, nsid: Nsid, cdw11: u32) -> Self {
        SetFeatures { nsid, fid, sv: false, uidx: 0, cdw11, cdw12: 0, cdw13: 0, cdw15: 0 }.into()
    }

    /// Get Features: the current value.
    #[must_use]
    pub fn get_features(fid: FeatureId, nsid: Nsid, sel: Select) -> Self {
        GetFeatures { nsid, fid, sel, uidx: 0, cdw11: 0 }.into()
    }
}
