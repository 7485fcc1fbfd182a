//! Zoned namespaces of the worlds: what hosts do with zones, and what the drive then says of them.

use super::oracle::{Space, Value, stamp};
use super::setup::NamespaceSpec;
use super::world::{World, WorldCommand};
use super::zone_oracle::{ReportedZone, ZONES, Zones, check_area, check_zone};
use nvme::admin::Identify;
use nvme::identify::{Cns, ZonedNamespace};
use nvme::zerocopy::FromBytes;
use nvme::zone::{
    ZoneManagementReceive, ZoneManagementSend, ZoneReceiveAction, ZoneReport, ZoneReportFilter,
    ZoneSendAction,
};
use nvme::{AdminCommand, Command, Csi};

impl World {
    /// Makes the zoned namespace of a world whose first NVM Set has zones.
    pub(super) fn make_zoned(&mut self) {
        let identify = |cns, nsid| Identify { nsid, cns, cntid: 0xFFFF, cnssid: 0, csi: Csi::ZONED, uidx: 0 };
        let (_, data) = self
            .call(0, AdminCommand::Identify(identify(Cns::IOCS_NAMESPACE, u32::MAX)).into(), vec![0; 4096])
            .unwrap();
        let (common, _) = ZonedNamespace::read_from_prefix(&data).unwrap();
        // The second LBA format has blocks of 4 KiB.
        let size = common.lbafe[1].zsze.get() as usize;
        let used = ZONES * size;
        self.setup.spaces.push(NamespaceSpec {
            set: 1,
            format: 1,
            all: used as u64,
            used,
            size: 4096,
            per_page: 1,
            zoned: true,
        });
        let index = self.spaces.len();
        self.spaces.push(Space::new(index as u32 + 1, 4096, used));
        self.create(index).unwrap();
        let capacity = self.report(index).unwrap()[0].capacity;
        self.zones = Some(Zones::new(size, capacity));
    }

    /// Hosts must ask the drive for all write pointers.
    pub(super) fn forget_write_pointers(&mut self) {
        if let Some(zones) = &mut self.zones {
            zones.next.fill(None);
        }
    }

    /// One thing that a host does with a zone.
    pub(super) fn access_zone(&mut self, index: usize) {
        let Some((size, capacity)) = self.zones.as_ref().map(|zones| (zones.size, zones.capacity)) else {
            return;
        };
        if self.commands.iter().all(Option::is_some) {
            return self.advance();
        }
        let (nsid, id) = (self.spaces[index].nsid, self.spaces[index].id);
        let zone = self.rng.below(ZONES as u64) as usize;
        let begin = zone * size;
        let kind = self.rng.below(40);
        if kind < 6 {
            let first = self.rng.below(size as u64) as usize;
            let count = (1 + self.rng.below(8) as usize).min(size - first);
            if !self.spaces[index].is_idle(begin + first, count) {
                return self.advance();
            }
            let what = WorldCommand::Read { space: index, first: begin + first, count };
            let command = Command::read(nsid, (begin + first) as u64, count as u32);
            return self.submit(1, command, vec![0; count * 4096], what);
        }
        let idle = self.spaces[index].is_idle(begin, size);
        let Some(next) = self.write_pointer(index, zone, idle) else { return self.advance() };
        if self.zones.as_ref().is_some_and(|zones| zones.zrwa[zone])
            && (6..34).contains(&kind)
            && next < capacity
        {
            return self.write_area(index, zone, next, kind);
        }
        let version = self.tick();
        match kind {
            // A full zone is reset before it is written.
            6..34 if next < capacity => {
                let most = [1, 2, 8, 32][self.rng.below(4) as usize];
                let count = (1 + self.rng.below(most) as usize).min(capacity - next);
                let first = begin + next;
                if !self.spaces[index].is_idle(first, count) {
                    // Somebody reads there.
                    return self.advance();
                }
                let append = idle && kind < 10;
                let durable = !append && kind < 12 && (self.setup.flushes || self.rng.below(32) == 0);
                let mut command = match append {
                    // Nothing else is under way to the zone, so this is where it goes.
                    true => Command::zone_append(nsid, begin as u64, count as u32),
                    false => Command::write(nsid, first as u64, count as u32),
                };
                if durable {
                    command.cdw12.set(command.cdw12.get() | 1 << 30);
                }
                let lbas = first..first + count;
                let data = lbas.clone().flat_map(|lba| stamp(id, lba, version, 4096)).collect();
                let values = lbas.map(|lba| Value::Stamp { version, space: id, lba }).collect();
                if let Some(zones) = &mut self.zones {
                    zones.next[zone] = Some(next + count);
                }
                let what = WorldCommand::Change { space: index, first, values, durable, source: None };
                self.submit(1, command, data, what);
            }
            6..36 if idle && next > 0 => {
                let values = vec![Value::Zeros(version); size];
                let what =
                    WorldCommand::Change { space: index, first: begin, values, durable: false, source: None };
                self.manage_zone(nsid, zone, ZoneSendAction::RESET, what);
            }
            36 if idle => {
                if let Some(zones) = &mut self.zones {
                    zones.finished[zone] = true;
                }
                self.manage_zone(nsid, zone, ZoneSendAction::FINISH, WorldCommand::Other);
            }
            37 if idle && next == 0 && self.setup.area[0] > 0 => {
                if let Some(zones) = &mut self.zones {
                    (zones.with_area[zone], zones.next[zone]) = (true, None);
                }
                let begin = (zone * size) as u64;
                let open = ZoneManagementSend::new(nsid, ZoneSendAction::OPEN, begin);
                let command = ZoneManagementSend { zrwa: true, ..open };
                self.submit(1, command.into(), Vec::new(), WorldCommand::Other);
            }
            37 => self.manage_zone(nsid, zone, ZoneSendAction::OPEN, WorldCommand::Other),
            38 => self.manage_zone(nsid, zone, ZoneSendAction::CLOSE, WorldCommand::Other),
            _ => self.advance(),
        }
    }

    /// Writes somewhere into the Zone Random Write Area of a zone, or behind it, or commits a part of it.
    fn write_area(&mut self, index: usize, zone: usize, next: usize, kind: u64) {
        let Some((size, capacity)) = self.zones.as_ref().map(|zones| (zones.size, zones.capacity)) else {
            return;
        };
        let [area, granularity] = self.setup.area;
        let (nsid, id) = (self.spaces[index].nsid, self.spaces[index].id);
        let commit = kind < 9;
        if commit {
            let steps = 1 + self.rng.below((area / granularity) as u64) as usize;
            let pointer = (next + steps * granularity).min(capacity);
            if let Some(zones) = &mut self.zones {
                // The area of a full zone is gone, and the host asks what is left.
                zones.next[zone] = Some(pointer).filter(|pointer| *pointer < capacity);
            }
            let last = (zone * size + pointer - 1) as u64;
            let command = ZoneManagementSend::new(nsid, ZoneSendAction::FLUSH_ZRWA, last);
            return self.submit(1, command.into(), Vec::new(), WorldCommand::Other);
        }
        let within = next + self.rng.below(2 * area as u64) as usize;
        let end = capacity.min(next + 2 * area);
        let count = (1 + self.rng.below(3) as usize).min(end.saturating_sub(within));
        let first = zone * size + within;
        if count == 0 || !self.spaces[index].is_idle(first, count) {
            return self.advance();
        }
        let version = self.tick();
        let behind = (within + count).saturating_sub(next + area);
        if let Some(zones) = &mut self.zones {
            zones.next[zone] = Some(next + behind.next_multiple_of(granularity));
        }
        let durable = kind < 12;
        let mut command = Command::write(nsid, first as u64, count as u32);
        if durable {
            command.cdw12.set(command.cdw12.get() | 1 << 30);
        }
        let lbas = first..first + count;
        let data = lbas.clone().flat_map(|lba| stamp(id, lba, version, 4096)).collect();
        let values = lbas.map(|lba| Value::Stamp { version, space: id, lba }).collect();
        let what = WorldCommand::Change { space: index, first, values, durable, source: None };
        self.submit(1, command, data, what);
    }

    fn manage_zone(&mut self, nsid: u32, zone: usize, action: ZoneSendAction, what: WorldCommand) {
        let Some(zones) = &mut self.zones else { return };
        if action == ZoneSendAction::RESET || action == ZoneSendAction::FINISH {
            zones.next[zone] = None;
        }
        let command = ZoneManagementSend::new(nsid, action, (zone * zones.size) as u64);
        self.submit(1, command.into(), Vec::new(), what);
    }

    /// Blocks of a zone that are written. `None` if the host does not know, and something is under way.
    fn write_pointer(&mut self, index: usize, zone: usize, idle: bool) -> Option<usize> {
        if let known @ Some(_) = self.zones.as_ref()?.next[zone] {
            return known;
        }
        let reported = if idle { self.report(index).ok()?[zone] } else { return None };
        let next = Some(reported.written.unwrap_or(reported.capacity));
        self.zones.as_mut()?.zrwa[zone] = reported.zrwa;
        self.zones.as_mut()?.next[zone] = next;
        next
    }

    /// The zones, as the drive reports them.
    fn report(&mut self, index: usize) -> Result<Vec<ReportedZone>, String> {
        let nsid = self.spaces[index].nsid;
        let receive = ZoneManagementReceive {
            nsid,
            slba: 0,
            dwords: 16 + 16 * ZONES as u64,
            action: ZoneReceiveAction::REPORT,
            filter: ZoneReportFilter::ALL,
            partial: false,
        };
        let command = Command::from(receive);
        let data = match self.call(1, command, vec![0; 64 + 64 * ZONES]) {
            Some((status, data)) if status.is_success() => data,
            Some((status, _)) => return Err(format!("namespace {nsid} does not report its zones: {status}")),
            None => return Err("a report of zones never ends".to_owned()),
        };
        let report = ZoneReport::parse(&data, 0).ok_or("a report of zones makes no sense")?;
        let zones = report.zones().map(|(zone, _)| ReportedZone {
            state: zone.state(),
            written: zone.write_pointer().map(|wp| (wp - zone.zslba.get()) as usize),
            capacity: zone.zcap.get() as usize,
            zrwa: zone.za.zrwav(),
        });
        Ok(zones.collect())
    }

    /// Holds zones against their blocks, which were just checked one by one.
    pub(super) fn check_zones(&mut self, index: usize) -> Result<(), String> {
        let reported = self.report(index)?;
        let Some(zones) = &mut self.zones else { return Ok(()) };
        zones.next.fill(None);
        for (number, zone) in reported.iter().enumerate() {
            let begin = number * zones.size;
            let blocks: Vec<Option<Value>> =
                (begin..begin + zones.size).map(|lba| self.spaces[index].known(lba)).collect();
            let sound = match zones.with_area[number] {
                true => check_area(&blocks, zone, self.setup.area[0]),
                false => check_zone(&blocks, zone, zones.finished[number]),
            };
            sound.map_err(|what| format!("zone {number} of namespace {}: {what}, {zone:?}", index + 1))?;
        }
        Ok(())
    }
}
