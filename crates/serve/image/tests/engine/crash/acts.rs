//! What hosts and their drive do.

use super::erasure::Remains;
use super::oracle::{After, Value, stamp};
use super::world::{World, WorldCommand};
use media::Nanos;
use nvme::admin::{
    AdminCommand, FaultInjection, FaultKind, FormatNvm, GetLogPage, NamespaceAttachment,
    NamespaceAttachmentSelect, NamespaceManagement, NamespaceManagementSelect, PowerCut, Sanitize,
    SanitizeAction, SecureErase,
};
use nvme::copy::{Copy, CopySource};
use nvme::identify::{ControllerList, Flbas, NamespaceCreate, Znsco, ZonedCreate};
use nvme::io::Blocks;
use nvme::log::{LogId, OcpSmart, SanitizeOperationStatus, SanitizeStatus};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Command, IoCommand, Status, U16};

impl World {
    /// Does one thing at random.
    pub(super) fn act(&mut self) {
        self.acts += 1;
        if self.without.contains(&self.acts) {
            return;
        }
        self.rng = self.draw(self.acts);
        let flushes = self.setup.flushes || self.rng.below(32) == 0;
        match self.rng.below(100) {
            0..62 if self.powered && self.setup.in_turn && self.acts.is_multiple_of(2) => self.flush(),
            0..62 if self.powered => self.access(),
            62..70 if self.powered && flushes => self.flush(),
            0..90 => {
                let steps = 1 + self.rng.below(4);
                self.step_aside(steps);
            }
            90..98 => self.advance(),
            98 => self.idle(),
            _ if self.powered => self.rare(),
            _ => self.advance(),
        }
    }

    /// No new commands. All that is under way ends.
    fn idle(&mut self) {
        for _ in 0..200 {
            let next = self.engine.deadline();
            if next == Nanos::MAX {
                break;
            }
            self.now = self.now.max(next);
            let steps = 1 + self.rng.below(4);
            self.step_aside(steps);
        }
        for _ in 0..100 {
            self.step_aside(4);
        }
        self.note_bad_blocks();
    }

    fn flush(&mut self) {
        let begun = self.tick() - 1;
        let nsid = 1 + self.rng.below(self.spaces.len() as u64) as u32;
        self.submit(1, Command::flush(nsid), Vec::new(), WorldCommand::Flush { begun });
    }

    fn access(&mut self) {
        let index = self.rng.below(self.spaces.len() as u64) as usize;
        if self.setup.spaces[index].zoned {
            return self.access_zone(index);
        }
        let (len, size) = (self.spaces[index].len(), self.spaces[index].size);
        let (nsid, id) = (self.spaces[index].nsid, self.spaces[index].id);
        let most = if self.setup.in_turn { 0 } else { self.rng.below(5) };
        let most = (1 << most).min(len as u64);
        let count = 1 + self.rng.below(most) as usize;
        // A few places are written again and again.
        let within = if self.rng.below(2) == 0 { len } else { len / 8 };
        let first = (self.rng.below(within as u64) as usize).min(len - count);
        let kind = self.rng.below(40);
        // Blocks of a page that is deallocated in part may stay as they are.
        let page = self.setup.spaces[index].per_page;
        let (first, count) = match kind {
            36..40 => (first / page * page, count.next_multiple_of(page)),
            _ => (first, count),
        };
        let (slba, blocks) = (first as u64, count as u32);
        if first + count > len || !self.spaces[index].is_idle(first, count) {
            return self.advance();
        }
        if kind < 6 {
            let what = WorldCommand::Read { space: index, first, count };
            return self.submit(1, Command::read(nsid, slba, blocks), vec![0; count * size], what);
        }
        let version = self.tick();
        let change =
            |values, durable| WorldCommand::Change { space: index, first, values, durable, source: None };
        match kind {
            6..31 => {
                let durable = kind < 8 && (self.setup.flushes || self.rng.below(32) == 0);
                let mut command = Command::write(nsid, slba, blocks);
                if durable {
                    command.cdw12.set(command.cdw12.get() | 1 << 30);
                }
                let lbas = first..first + count;
                let data = lbas.clone().flat_map(|lba| stamp(id, lba, version, size)).collect();
                let values = lbas.map(|lba| Value::Stamp { version, space: id, lba }).collect();
                self.submit(1, command, data, change(values, durable));
            }
            31..34 => {
                let command = Command::write_zeroes(nsid, slba, blocks, kind == 31);
                self.submit(1, command, Vec::new(), change(vec![Value::Zeros(version); count], false));
            }
            34 => {
                let blocks = Blocks { nsid, slba, nlb: blocks, ..Blocks::default() };
                let command = IoCommand::WriteUncorrectable(blocks).into();
                self.submit(1, command, Vec::new(), change(vec![Value::Bad(version); count], false));
            }
            35 => self.copy(index, first, count, version),
            _ => {
                let mut range = vec![0; 4];
                range.extend_from_slice(&blocks.to_le_bytes());
                range.extend_from_slice(&slba.to_le_bytes());
                let values = vec![Value::Zeros(version); count];
                self.submit(1, Command::deallocate(nsid, 1), range, change(values, false));
            }
        }
    }

    /// Copies blocks within a namespace.
    fn copy(&mut self, index: usize, first: usize, count: usize, version: u64) {
        let space = &self.spaces[index];
        let source = self.rng.below((space.len() - count + 1) as u64) as usize;
        let apart = source + count <= first || first + count <= source;
        if !apart || !space.is_idle(source, count) {
            return;
        }
        let values: Option<Vec<Value>> = (source..source + count)
            .map(|lba| match space.known(lba)? {
                Value::Zeros(_) => Some(Value::Zeros(version)),
                Value::Bad(_) => None,
                stamp @ Value::Stamp { .. } => Some(stamp),
            })
            .collect();
        let Some(values) = values else { return };
        let command = Copy { nsid: space.nsid, sdlba: first as u64, nr: 1, ..Copy::default() };
        let mut data = Vec::new();
        let from = CopySource { slba: source as u64, nlb: count as u32, ..CopySource::default() };
        from.write(0, |bytes| data.extend_from_slice(bytes));
        let what = WorldCommand::Change { space: index, first, values, durable: false, source: Some(source) };
        self.submit(1, command.into(), data, what);
    }

    /// What happens now and then.
    fn rare(&mut self) {
        let fault = |kind, count| FaultInjection {
            nsid: 0,
            kind,
            // A program that fails in place takes what was there along.
            nvmsetid: 1,
            count,
            one_in: 1,
            param: 0,
            lba: None,
        };
        let index = self.rng.below(self.spaces.len() as u64) as usize;
        match self.rng.below(40) {
            0..12 => self.format(index),
            12..28 => {
                let no_plp = self.rng.below(3) == 0 && !self.setup.tears;
                let after_media_ops = self.rng.below(6) as u32;
                let cut = PowerCut {
                    after_media_ops,
                    off_ms: [1, 1, 50, 2000][self.rng.below(4) as usize],
                    seed: self.rng.next_u64() as u32,
                    no_plp,
                };
                let (protected, volatile) = (self.setup.protected, self.setup.volatile);
                let ruin = if protected { no_plp } else { volatile };
                let after = After { cut: !protected, ruin, ..After::default() };
                // An earlier one may still come.
                self.cut = Some(self.cut.unwrap_or_default().and(after));
                self.submit(0, cut.into(), Vec::new(), WorldCommand::Other);
            }
            28..31 => {
                let count = 1 + self.rng.below(2) as u32;
                self.submit(
                    0,
                    fault(FaultKind::PROGRAM_FAILURE, count).into(),
                    Vec::new(),
                    WorldCommand::Other,
                );
            }
            31..34 => {
                self.submit(0, fault(FaultKind::ERASE_FAILURE, 1).into(), Vec::new(), WorldCommand::Other)
            }
            34..36 => {
                let full = self.rng.below(3) == 0;
                if self.told {
                    println!("  act {}: the disk is full: {full}", self.acts);
                }
                self.disk.set_full(full);
            }
            36..38 => self.sanitize(),
            _ => self.make_anew(index),
        }
    }

    /// Waits until nothing is under way to a namespace; whether that is so. Programs may be.
    fn is_idle(&mut self, index: usize) -> bool {
        for _ in 0..100 {
            let space = &self.spaces[index];
            if space.is_idle(0, space.len()) {
                return self.powered;
            }
            self.advance();
            self.step_aside(1);
        }
        false
    }

    fn format(&mut self, index: usize) {
        let ses = match self.rng.below(4) {
            0..2 => SecureErase::NONE,
            2 if self.setup.key.is_some() => SecureErase::CRYPTOGRAPHIC,
            _ => SecureErase::USER_DATA,
        };
        if !self.is_idle(index) {
            return;
        }
        self.forget_write_pointers();
        let values = vec![Value::Zeros(self.tick()); self.spaces[index].len()];
        let remains = (ses != SecureErase::NONE).then(|| self.remains(index));
        if remains.is_some() {
            self.begin_missed_reads(index);
        }
        let made = self.setup.spaces[index];
        let mset = made.size > 4096;
        let nsid = self.spaces[index].nsid;
        let format = FormatNvm { nsid, lbaf: made.format, mset, pi: 0, pil: false, ses };
        self.submit(0, format.into(), Vec::new(), WorldCommand::Format { space: index, values, remains });
    }

    /// Deletes a namespace and makes one in its place.
    fn make_anew(&mut self, index: usize) {
        if !self.is_idle(index) {
            return;
        }
        self.forget_write_pointers();
        let version = self.tick();
        let values = vec![Value::Zeros(version); self.spaces[index].len()];
        self.spaces[index].begin(0, &values);
        if self.told {
            println!("  act {}: namespace {} is made anew", self.acts, self.spaces[index].nsid);
        }
        let nsid = self.spaces[index].nsid;
        let delete =
            NamespaceManagement { nsid, sel: NamespaceManagementSelect::DELETE, csi: nvme::Csi::NVM };
        let done = self.call(0, AdminCommand::NamespaceManagement(delete).into(), Vec::new());
        let well = matches!(done, Some((status, _)) if status.is_success()) && self.create(index).is_ok();
        // What was written to the old one is none of the new one's.
        self.spaces[index].id += 1 << 8;
        let at = self.tick();
        self.spaces[index].end(0, &values, at, well, false);
        self.made_anew += u64::from(well);
    }

    /// Makes a namespace and attaches it.
    pub(super) fn create(&mut self, index: usize) -> Result<(), String> {
        let made = self.setup.spaces[index];
        let mut new = NamespaceCreate::default();
        new.nsze.set(made.all);
        new.ncap.set(made.all);
        new.flbas = Flbas::from_format_index(made.format).with_mtelba(made.size > 4096);
        new.nmic.set_shrns(true);
        new.nvmsetid.set(made.set);
        if made.zoned && self.setup.area[0] > 0 {
            new.set_zoned(&ZonedCreate { znsco: Znsco::new().with_azr(true), ..ZonedCreate::default() });
        }
        let csi = if made.zoned { nvme::Csi::ZONED } else { nvme::Csi::NVM };
        let create = NamespaceManagement { nsid: 0, sel: NamespaceManagementSelect::CREATE, csi };
        let command = AdminCommand::NamespaceManagement(create).into();
        match self.call(0, command, new.as_bytes().to_vec()) {
            Some((status, _)) if status.is_success() => self.attach(index),
            Some((status, _)) => Err(format!("a namespace cannot be made: {status}")),
            None => Err("a namespace cannot be made: no answer".to_owned()),
        }
    }

    fn attach(&mut self, index: usize) -> Result<(), String> {
        let mut list = ControllerList::default();
        list.num.set(1);
        list.cntlid[0] = U16::new(self.controller.0);
        let nsid = self.spaces[index].nsid;
        let attach = NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH };
        let command = AdminCommand::NamespaceAttachment(attach).into();
        match self.call(0, command, list.as_bytes().to_vec()) {
            Some((status, _)) if status.is_success() || status.is(Status::NAMESPACE_ALREADY_ATTACHED) => {
                Ok(())
            }
            Some((status, _)) => Err(format!("namespace {nsid} cannot be attached: {status}")),
            None => Err("a namespace cannot be attached: no answer".to_owned()),
        }
    }

    /// Erases everything.
    fn sanitize(&mut self) {
        if !(0..self.spaces.len()).all(|index| self.is_idle(index)) {
            return;
        }
        self.forget_write_pointers();
        let remains: Vec<Remains> = (0..self.spaces.len()).map(|index| self.remains(index)).collect();
        (0..self.spaces.len()).for_each(|index| self.begin_missed_reads(index));
        let version = self.tick();
        for space in &mut self.spaces {
            space.begin(0, &vec![Value::Zeros(version); space.len()]);
        }
        let sanact = match self.rng.below(3) {
            0 => SanitizeAction::BLOCK_ERASE,
            1 if self.setup.key.is_some() => SanitizeAction::CRYPTO_ERASE,
            _ => SanitizeAction::OVERWRITE,
        };
        if self.told {
            println!("  act {}: sanitize {sanact:?}, {remains:?}", self.acts);
        }
        let sanitize = Sanitize { sanact, ause: true, owpass: 1, ..Sanitize::default() };
        match self.call(0, AdminCommand::Sanitize(sanitize).into(), Vec::new()) {
            Some((status, _)) if status.is_success() => {
                self.sanitizing = Some((version, remains));
                let _ = self.end_sanitize();
            }
            _ => self.sanitized((version, remains), false),
        }
    }

    fn sanitized(&mut self, (version, remains): (u64, Vec<Remains>), well: bool) {
        let at = self.tick();
        for (index, remains) in remains.iter().enumerate() {
            let values = vec![Value::Zeros(version); self.spaces[index].len()];
            self.spaces[index].end(0, &values, at, well, well);
            if well {
                self.nothing_is_left(index, remains, true);
            }
        }
        self.sanitizes += u64::from(well);
    }

    /// Waits for the end of a sanitize operation. Neither a crash nor a power cut ends it.
    fn end_sanitize(&mut self) -> Result<(), String> {
        loop {
            let Some((status, data)) = self.call(0, log(LogId::SANITIZE_STATUS), vec![0; 512]) else {
                return Ok(());
            };
            let read = SanitizeStatus::ref_from_prefix(&data);
            let Ok((log, _)) = read else { return Err(format!("no sanitize log: {status}")) };
            match log.sstat.sos() {
                SanitizeOperationStatus::IN_PROGRESS if !self.is_over() => {
                    self.advance();
                    self.step_aside(1);
                }
                SanitizeOperationStatus::IN_PROGRESS => return Ok(()),
                SanitizeOperationStatus::COMPLETED => {
                    if let Some(operation) = self.sanitizing.take() {
                        self.sanitized(operation, true);
                    }
                    return Ok(());
                }
                SanitizeOperationStatus::FAILED => {
                    if let Some(operation) = self.sanitizing.take() {
                        self.sanitized(operation, false);
                    }
                    let mut exit = Command::new(nvme::AdminOpcode::SANITIZE.0, 0);
                    exit.cdw10.set(1);
                    let _ = self.call(0, exit, Vec::new());
                    return Ok(());
                }
                _ if self.sanitizing.is_some() => {
                    return Err("a sanitize that had begun is forgotten".to_owned());
                }
                _ => return Ok(()),
            }
        }
    }

    /// After a crash or a power cut: ends a sanitize operation, and makes and attaches the namespaces that are missing.
    pub(super) fn restore(&mut self) -> Result<(), String> {
        self.end_sanitize()?;
        for index in 0..self.spaces.len() {
            let result = match self.engine.drive.geometry(self.spaces[index].nsid) {
                Some(_) => self.attach(index),
                None => {
                    self.disk.set_full(false);
                    self.create(index)
                }
            };
            if result.is_err() && (self.is_over() || !self.powered) {
                return Ok(());
            }
            result?;
        }
        Ok(())
    }

    /// How many blocks of flash are bad; `None` if the drive does not say.
    pub(super) fn bad_blocks(&mut self) -> Option<u64> {
        let (status, data) = self.call(0, log(LogId::OCP_SMART), vec![0; 512])?;
        let (log, _) = OcpSmart::ref_from_prefix(&data).ok()?;
        let [a, b, c, d, e, f] = log.bad_user_nand_blocks.raw;
        status.is_success().then(|| u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }
}

/// Reads the first 512 bytes of a log.
fn log(lid: LogId) -> Command {
    let csi = nvme::Csi::NVM;
    let log = GetLogPage {
        nsid: 0,
        lid,
        lsp: 0,
        lsi: 0,
        rae: true,
        dwords: 128,
        offset: 0,
        ot: false,
        csi,
        uidx: 0,
    };
    AdminCommand::GetLogPage(log).into()
}
