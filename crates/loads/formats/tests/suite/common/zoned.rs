//! Jobs on a zoned drive in memory that holds them to the rules of zones, on a virtual clock.

#![allow(dead_code, reason = "not every test needs all of it")]

use load_formats::fio::{Job, JobFile, Space, Zone, ZoneAccess, ZoneGeometry, begin_zones, check_zones};
use std::collections::BTreeMap;
use workload::{Actor, Nanos, Next, Request, Rng, Verb, ZoneAction};

/// Bytes of a logical block.
pub const BLOCK: u64 = 512;
/// Logical blocks of a zone, and how many of them can be written.
pub const ZONE: u64 = 128;
pub const CAPACITY: u64 = 96;
/// How many zones there are.
pub const ZONES: u64 = 12;

/// What the drive says of its zones.
pub const GEOMETRY: ZoneGeometry = ZoneGeometry {
    zone_blocks: ZONE,
    max_open: Some(6),
    max_active: Some(8),
    write_blocks: 64,
    append_blocks: 32,
};

/// The drive as a job's space.
pub const fn space(geometry: ZoneGeometry) -> Space {
    Space { blocks: ZONES * ZONE, block_bytes: BLOCK as u32, zones: Some(geometry) }
}

/// All zones empty.
pub fn empty() -> Vec<Zone> {
    let zone = |index| Zone {
        start: index * ZONE,
        capacity: CAPACITY,
        written: 0,
        active: false,
        access: ZoneAccess::All,
    };
    (0..ZONES).map(zone).collect()
}

/// A command under way: when it ends, of which job.
struct UnderWay {
    ends: Nanos,
    job: usize,
    request: Request,
    data: Vec<u8>,
}

/// What the jobs did.
#[derive(Default)]
pub struct Counts {
    /// Requests by job, in the order of their issue.
    pub issued: Vec<(usize, Request)>,
    pub resets: u64,
    pub finishes: u64,
    /// Resets of zones that were neither full nor finished.
    pub early_resets: u64,
    /// The most zones that were open or had a write under way at once.
    pub most_open: usize,
    /// The most appends under way in one zone.
    pub most_appends: usize,
}

/// The drive, with its jobs.
pub struct ZonedDrive {
    pub zones: Vec<Zone>,
    pub contents: Vec<u8>,
    pub counts: Counts,
    /// Open zones that the jobs may have.
    pub limit: usize,
    /// Written share in millionths below which no zone is reset early.
    pub threshold: u64,
    /// Reads may go beyond write pointers.
    pub beyond: bool,
    under_way: Vec<UnderWay>,
    rng: Rng,
}

impl ZonedDrive {
    pub fn new(zones: Vec<Zone>, limit: usize, seed: u64) -> Self {
        Self {
            contents: vec![0; (ZONES * ZONE * BLOCK) as usize],
            counts: Counts::default(),
            threshold: 1_000_000,
            beyond: false,
            under_way: Vec::new(),
            rng: Rng::new(seed),
            zones,
            limit,
        }
    }

    /// Runs jobs until all have ended.
    pub fn run(&mut self, jobs: &mut [Job]) {
        let mut now = 1;
        for _ in 0..2_000_000 {
            let mut wake = Nanos::MAX;
            let mut done = 0;
            for (number, job) in jobs.iter_mut().enumerate() {
                loop {
                    match job.next(now) {
                        Next::Submit(request) => self.submit(now, number, request, job),
                        Next::At(at) => {
                            wake = wake.min(at);
                            break;
                        }
                        Next::Wait => {
                            let own = self.under_way.iter().filter(|one| one.job == number).count();
                            assert!(own > 0, "job {number} waits for nothing");
                            break;
                        }
                        Next::Done => {
                            done += 1;
                            break;
                        }
                    }
                }
            }
            if done == jobs.len() {
                assert!(self.under_way.is_empty());
                return;
            }
            let first = self.under_way.iter().map(|one| one.ends).min().unwrap_or(Nanos::MAX);
            now = first.min(wake).max(now);
            while let Some(at) = self.under_way.iter().position(|one| one.ends <= now) {
                let UnderWay { job, request, data, .. } = self.under_way.swap_remove(at);
                self.execute(&request, &data, &mut jobs[job]);
                jobs[job].completed(now, request.tag, true);
            }
        }
        panic!("the jobs do not end");
    }

    fn index(lba: u64) -> usize {
        (lba / ZONE) as usize
    }

    /// Writes and appends under way in a zone, and their blocks.
    fn writes_in(&self, index: usize) -> (usize, u64) {
        let writes = self.under_way.iter().filter(|one| {
            matches!(one.request.verb, Verb::Write | Verb::Append) && Self::index(one.request.lba) == index
        });
        writes.fold((0, 0), |(count, blocks), one| (count + 1, blocks + u64::from(one.request.blocks)))
    }

    fn changes(&self, index: usize) -> bool {
        let is_change = |one: &UnderWay| matches!(one.request.verb, Verb::Zone(_));
        self.under_way.iter().any(|one| is_change(one) && Self::index(one.request.lba) == index)
    }

    /// How much of a job's region is written, or given to writes: in millionths.
    fn written_share(&self, job: &Job) -> u64 {
        let plan = job.plan();
        let region = plan.start / (ZONE * BLOCK)..(plan.start + plan.size) / (ZONE * BLOCK);
        let all = (region.end - region.start) * CAPACITY;
        let blocks =
            region.map(|index| self.zones[index as usize].written + self.writes_in(index as usize).1);
        blocks.sum::<u64>() * 1_000_000 / all
    }

    /// Holds a request to the rules, as it is issued.
    fn submit(&mut self, now: Nanos, job: usize, request: Request, of: &mut Job) {
        let Request { tag, verb, lba, blocks, .. } = request;
        let index = Self::index(lba);
        let zone = self.zones[index.min(ZONES as usize - 1)];
        let (writes, pending) = self.writes_in(index);
        let free = zone.capacity.saturating_sub(zone.written + pending);
        let mut data = Vec::new();
        assert!(!self.under_way.iter().any(|one| one.job == job && one.request.tag == tag));
        match verb {
            Verb::Read => {
                let end = if self.beyond { zone.start + zone.capacity } else { zone.start + zone.written };
                assert!(zone.access != ZoneAccess::None, "reads an offline zone");
                // A zone that is being reset was read before, as far as the job knows.
                assert!(lba + u64::from(blocks) <= end, "reads beyond the write pointer");
            }
            Verb::Write => {
                assert_eq!((writes, lba), (0, zone.start + zone.written), "not at the write pointer");
                assert!(blocks <= GEOMETRY.write_blocks && u64::from(blocks) <= free);
            }
            Verb::Append => {
                assert_eq!(lba, zone.start, "an append names its zone");
                assert!(blocks <= GEOMETRY.append_blocks && u64::from(blocks) <= free);
            }
            Verb::Zone(_) => assert_eq!((writes, blocks, lba), (0, 0, zone.start)),
            Verb::Flush => {}
            other => panic!("{other:?}"),
        }
        if matches!(verb, Verb::Write | Verb::Append | Verb::Zone(_)) {
            assert_eq!(zone.access, ZoneAccess::All);
            assert!(!self.changes(index), "its state changes");
        }
        if matches!(verb, Verb::Write | Verb::Append) {
            data = vec![0xA5; u64::from(blocks) as usize * BLOCK as usize];
            Job::fill(of, tag, 0, &mut data);
        }
        if verb == Verb::Zone(ZoneAction::Reset) && zone.active {
            self.counts.early_resets += 1;
            let share = self.written_share(of);
            assert!(share >= self.threshold, "a reset at {share} millionths");
        }
        let ends = now + 1 + self.rng.below(10_000);
        self.counts.issued.push((job, request));
        self.under_way.push(UnderWay { ends, job, request, data });
        let open = |index: usize| self.zones[index].active || self.writes_in(index).0 > 0;
        let open = (0..ZONES as usize).filter(|index| open(*index)).count();
        assert!(open <= self.limit, "{open} zones are open, {} may be", self.limit);
        self.counts.most_open = self.counts.most_open.max(open);
        if verb == Verb::Append {
            self.counts.most_appends = self.counts.most_appends.max(self.writes_in(index).0);
        }
    }

    fn execute(&mut self, request: &Request, data: &[u8], job: &mut Job) {
        let index = Self::index(request.lba);
        let bytes = u64::from(request.blocks) * BLOCK;
        match request.verb {
            Verb::Read => {
                let at = (request.lba * BLOCK) as usize;
                job.check(request.tag, 0, &self.contents[at..at + bytes as usize]);
            }
            Verb::Write | Verb::Append => {
                let zone = &mut self.zones[index];
                let at = ((zone.start + zone.written) * BLOCK) as usize;
                self.contents[at..at + bytes as usize].copy_from_slice(data);
                zone.written += u64::from(request.blocks);
                zone.active = zone.written < zone.capacity;
            }
            Verb::Zone(ZoneAction::Finish) => {
                self.counts.finishes += 1;
                self.zones[index].active = false;
                self.zones[index].written = CAPACITY;
            }
            Verb::Zone(ZoneAction::Reset) => {
                self.counts.resets += 1;
                let zone = &mut self.zones[index];
                (zone.written, zone.active) = (0, false);
                let at = (zone.start * BLOCK) as usize;
                self.contents[at..at + (ZONE * BLOCK) as usize].fill(0);
            }
            _ => {}
        }
    }
}

/// The clones of a job of one section with these lines.
///
/// # Errors
/// They do not fit the drive.
pub fn jobs(lines: &str, geometry: ZoneGeometry) -> Result<Vec<Job>, String> {
    let file = JobFile::parse(&format!("[x]\nzonemode=zbd\n{lines}\n"), &|_| None).unwrap();
    let spec = file.jobs().map_err(|error| error.problem)?.jobs.remove(0);
    let clone = |clone| Job::of(&spec, space(geometry), clone, clone, 0);
    let jobs = (0..spec.options.numjobs).map(clone).collect::<Result<Vec<_>, _>>()?;
    let plans: Vec<_> = jobs.iter().map(Job::plan).collect();
    check_zones(&plans).map_err(|(_, problem)| problem)?;
    Ok(jobs)
}

/// Runs the clones of a job on a drive; they know its zones.
///
/// # Errors
/// They do not fit the drive.
pub fn run(lines: &str, drive: &mut ZonedDrive) -> Result<Vec<Job>, String> {
    let mut jobs = jobs(lines, GEOMETRY)?;
    begin_zones(&mut jobs.iter_mut().collect::<Vec<_>>(), &drive.zones);
    drive.run(&mut jobs);
    Ok(jobs)
}

/// How many bytes of each verb a drive was asked for.
pub fn bytes(counts: &Counts) -> BTreeMap<String, u64> {
    let mut bytes = BTreeMap::new();
    for (_, request) in &counts.issued {
        *bytes.entry(format!("{:?}", request.verb)).or_insert(0) += u64::from(request.blocks) * BLOCK;
    }
    bytes
}
