//! The fields of each command. The command table names these functions.

use super::*;
use crate::command::Command;

type Parsed = Result<AdminCommand, Status>;

const fn bits(value: u32, width: u32, shift: u32) -> u8 {
    (value >> shift & ((1 << width) - 1)).to_le_bytes()[0]
}

/// Refuses values that have no name.
fn known<T: Copy>(value: T, name: impl Fn(T) -> Option<&'static str>) -> Result<T, Status> {
    name(value).map(|_| value).ok_or(Status::INVALID_FIELD.with_dnr())
}

/// UUID Index.
fn uidx(cmd: &Command) -> u8 {
    bits(cmd.cdw14.get(), 7, 0)
}

pub(crate) fn delete_io_sq(cmd: &Command) -> Parsed {
    Ok(AdminCommand::DeleteIoSq(DeleteQueue { qid: halves(cmd.cdw10).0 }))
}

pub(crate) fn delete_io_cq(cmd: &Command) -> Parsed {
    Ok(AdminCommand::DeleteIoCq(DeleteQueue { qid: halves(cmd.cdw10).0 }))
}

pub(crate) fn create_io_sq(cmd: &Command) -> Parsed {
    let (qid, qsize_z) = halves(cmd.cdw10);
    let d = SqCdw11(cmd.cdw11);
    let nvmsetid = halves(cmd.cdw12).0;
    Ok(AdminCommand::CreateIoSq(CreateIoSq {
        qid,
        qsize_z,
        pc: d.pc(),
        qprio: d.qprio(),
        cqid: d.cqid(),
        nvmsetid,
    }))
}

pub(crate) fn create_io_cq(cmd: &Command) -> Parsed {
    let (qid, qsize_z) = halves(cmd.cdw10);
    let d = CqCdw11(cmd.cdw11);
    Ok(AdminCommand::CreateIoCq(CreateIoCq { qid, qsize_z, pc: d.pc(), ien: d.ien(), iv: d.iv() }))
}

pub(crate) fn get_log_page(cmd: &Command) -> Parsed {
    let (d10, d11, d14) = (LogCdw10(cmd.cdw10), LogCdw11(cmd.cdw11), LogCdw14(cmd.cdw14));
    Ok(AdminCommand::GetLogPage(GetLogPage {
        nsid: cmd.nsid.get(),
        lid: d10.lid(),
        lsp: d10.lsp(),
        lsi: d11.lsi(),
        rae: d10.rae(),
        dwords: (u64::from(d11.numdu()) << 16 | u64::from(d10.numdl())) + 1,
        offset: u64::from(cmd.cdw12.get()) | u64::from(cmd.cdw13.get()) << 32,
        ot: d14.ot(),
        csi: d14.csi(),
        uidx: d14.uidx(),
    }))
}

pub(crate) fn identify(cmd: &Command) -> Parsed {
    let (d10, d11) = (IdentifyCdw10(cmd.cdw10), IdentifyCdw11(cmd.cdw11));
    Ok(AdminCommand::Identify(Identify {
        nsid: cmd.nsid.get(),
        cns: d10.cns(),
        cntid: d10.cntid(),
        cnssid: d11.cnssid(),
        csi: d11.csi(),
        uidx: uidx(cmd),
    }))
}

pub(crate) fn abort(cmd: &Command) -> Parsed {
    let (sqid, cid) = halves(cmd.cdw10);
    Ok(AdminCommand::Abort(Abort { sqid, cid }))
}

pub(crate) fn set_features(cmd: &Command) -> Parsed {
    let d10 = SetFeaturesCdw10(cmd.cdw10);
    Ok(AdminCommand::SetFeatures(SetFeatures {
        nsid: cmd.nsid.get(),
        fid: d10.fid(),
        sv: d10.sv(),
        uidx: uidx(cmd),
        cdw11: cmd.cdw11.get(),
        cdw12: cmd.cdw12.get(),
        cdw13: cmd.cdw13.get(),
        cdw15: cmd.cdw15.get(),
    }))
}

pub(crate) fn get_features(cmd: &Command) -> Parsed {
    let d10 = GetFeaturesCdw10(cmd.cdw10);
    Ok(AdminCommand::GetFeatures(GetFeatures {
        nsid: cmd.nsid.get(),
        fid: d10.fid(),
        sel: known(d10.sel(), Select::name)?,
        uidx: uidx(cmd),
        cdw11: cmd.cdw11.get(),
    }))
}

pub(crate) fn namespace_management(cmd: &Command) -> Parsed {
    let sel = NamespaceManagementSelect(bits(cmd.cdw10.get(), 4, 0));
    Ok(AdminCommand::NamespaceManagement(NamespaceManagement {
        nsid: cmd.nsid.get(),
        sel: known(sel, NamespaceManagementSelect::name)?,
        csi: Csi(bits(cmd.cdw11.get(), 8, 24)),
    }))
}

pub(crate) fn firmware_commit(cmd: &Command) -> Parsed {
    let cdw10 = cmd.cdw10.get();
    Ok(AdminCommand::FirmwareCommit(FirmwareCommit {
        fs: bits(cdw10, 3, 0),
        ca: CommitAction(bits(cdw10, 3, 3)),
        bpid: cdw10 >> 31 != 0,
    }))
}

pub(crate) fn firmware_image_download(cmd: &Command) -> Parsed {
    Ok(AdminCommand::FirmwareImageDownload(FirmwareImageDownload {
        dwords: u64::from(cmd.cdw10.get()) + 1,
        offset: cmd.cdw11.get(),
    }))
}

pub(crate) fn device_self_test(cmd: &Command) -> Parsed {
    let stc = bits(cmd.cdw10.get(), 4, 0);
    Ok(AdminCommand::DeviceSelfTest(DeviceSelfTest { nsid: cmd.nsid.get(), stc }))
}

pub(crate) fn namespace_attachment(cmd: &Command) -> Parsed {
    let sel = NamespaceAttachmentSelect(bits(cmd.cdw10.get(), 4, 0));
    Ok(AdminCommand::NamespaceAttachment(NamespaceAttachment {
        nsid: cmd.nsid.get(),
        sel: known(sel, NamespaceAttachmentSelect::name)?,
    }))
}

pub(crate) fn directive_send(cmd: &Command) -> Parsed {
    Ok(AdminCommand::DirectiveSend(directive(cmd)))
}

pub(crate) fn directive_receive(cmd: &Command) -> Parsed {
    Ok(AdminCommand::DirectiveReceive(directive(cmd)))
}

fn directive(cmd: &Command) -> Directive {
    let d11 = DirectiveCdw11(cmd.cdw11);
    Directive {
        nsid: cmd.nsid.get(),
        dwords: u64::from(cmd.cdw10.get()) + 1,
        doper: d11.doper(),
        dtype: d11.dtype(),
        dspec: d11.dspec(),
        cdw12: cmd.cdw12.get(),
    }
}

pub(crate) fn format_nvm(cmd: &Command) -> Parsed {
    let d = FormatCdw10(cmd.cdw10);
    Ok(AdminCommand::FormatNvm(FormatNvm {
        nsid: cmd.nsid.get(),
        lbaf: d.lbafu() << 4 | d.lbafl(),
        mset: d.mset(),
        pi: d.pi(),
        pil: d.pil(),
        ses: known(d.ses(), SecureErase::name)?,
    }))
}

pub(crate) fn sanitize(cmd: &Command) -> Parsed {
    let d = SanitizeCdw10(cmd.cdw10);
    Ok(AdminCommand::Sanitize(Sanitize {
        sanact: known(d.sanact(), SanitizeAction::name)?,
        ause: d.ause(),
        owpass: d.owpass(),
        oipbp: d.oipbp(),
        ndas: d.ndas(),
        emvs: d.emvs(),
        ovrpat: cmd.cdw11.get(),
    }))
}

pub(crate) fn get_lba_status(cmd: &Command) -> Parsed {
    Ok(AdminCommand::GetLbaStatus(GetLbaStatus {
        nsid: cmd.nsid.get(),
        slba: cmd.cdw10_11(),
        dwords: u64::from(cmd.cdw12.get()) + 1,
        range: halves(cmd.cdw13).0,
        atype: known(LbaStatusAction(bits(cmd.cdw13.get(), 8, 24)), LbaStatusAction::name)?,
    }))
}

pub(crate) fn power_cut(cmd: &Command) -> Parsed {
    Ok(AdminCommand::PowerCut(PowerCut {
        after_media_ops: cmd.cdw10.get(),
        off_ms: cmd.cdw11.get(),
        seed: cmd.cdw12.get(),
        no_plp: cmd.cdw13.get() & 1 != 0,
    }))
}

pub(crate) fn fault_injection(cmd: &Command) -> Parsed {
    let d = FaultCdw10(cmd.cdw10);
    let kind = known(d.kind(), FaultKind::name)?;
    if kind.is_of_protocol() {
        return Ok(AdminCommand::ProtocolFault(ProtocolFaultInjection {
            nsid: cmd.nsid.get(),
            kind,
            port: d.nvmsetid(),
            count: cmd.cdw11.get(),
            one_in: cmd.cdw12.get(),
            param: cmd.cdw13.get(),
        }));
    }
    let lba = u64::from(cmd.cdw14.get()) | u64::from(cmd.cdw15.get()) << 32;
    Ok(AdminCommand::FaultInjection(FaultInjection {
        nsid: cmd.nsid.get(),
        kind,
        nvmsetid: d.nvmsetid(),
        count: cmd.cdw11.get(),
        one_in: cmd.cdw12.get(),
        param: cmd.cdw13.get(),
        lba: (lba != u64::MAX).then_some(lba),
    }))
}
