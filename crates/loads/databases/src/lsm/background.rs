//! Flushes, compactions, and what the file system moves.

use super::config::Config;
use super::engine::{Engine, Event, Purpose};
use super::job::{BLOCK, Chunk, Job, Kind, Output, Wait};
use super::keys::{self, Segment, scale};
use super::pick::{self, Pick};
use super::space::{DeviceIo, FileSpace, Hint};
use super::table::TableId;
use std::collections::VecDeque;
use workload::Verb;

const SECOND: u64 = 1_000_000_000;

impl<S: FileSpace> Engine<S> {
    fn add(&mut self, kind: Kind, output: Output) {
        let job = Job { kind, output, wait: Wait::None, allowed: None };
        // The place of the job that is being worked on only looks free.
        let free = |(number, job): (usize, &Option<Job>)| job.is_none() && self.current != Some(number);
        let number = match self.jobs.iter().enumerate().position(free) {
            Some(number) => {
                self.jobs[number] = Some(job);
                number
            }
            None => {
                self.jobs.push(Some(job));
                self.jobs.len() - 1
            }
        };
        self.at(self.now, Event::Job(number as u32));
    }

    /// Begins flushes and compactions, as many as there may be.
    pub(super) fn schedule_jobs(&mut self) {
        if !self.flushing
            && let Some(memtable) = self.full.front().copied()
        {
            self.flushing = true;
            let entries = keys::distinct(memtable.records, self.config.keys).max(1);
            let segment = Segment { from: 0, to: self.config.keys.max(1), entries };
            let bytes = entries * u64::from(self.config.table_record);
            self.add(Kind::Flush, Output::new(0, vec![(segment, bytes)]));
        }
        loop {
            let hurry = pick::hurry(&self.config, &self.levels, self.pending, self.stall);
            let most = if hurry { self.config.compactions as usize } else { 1 };
            if self.compacting >= most.max(1) {
                return;
            }
            let Some(pick) = pick::pick(&self.config, &self.levels, &self.targets, self.running) else {
                return;
            };
            if pick.moves {
                self.move_down(&pick);
            } else {
                self.compact(pick);
            }
        }
    }

    /// Tables that meet none in the next level go there as they are.
    fn move_down(&mut self, pick: &Pick) {
        self.counts.moves += 1;
        for (level, id) in &pick.inputs {
            self.levels.transfer(*level, pick.to, *id);
        }
        self.targets = pick::Targets::new(&self.config, &self.levels);
        self.pending = self.targets.pending(&self.config, &self.levels);
    }

    fn compact(&mut self, pick: Pick) {
        let Pick { from, to, inputs, .. } = pick;
        self.compacting += 1;
        self.running.zero |= from == 0 && to > 0;
        self.running.within_zero |= to == 0;
        let mut layers: Vec<Vec<Segment>> = Vec::new();
        let mut last = None;
        let (mut chunks, mut blocks): (Vec<Chunk>, u64) = (Vec::new(), 0);
        let each = u64::from(self.config.compaction_read).div_ceil(BLOCK);
        for (level, id) in &inputs {
            self.levels.claim(*level, *id, true);
            let table = self.levels.table(*id);
            // A table of level 0 is a layer of its own.
            match layers.last_mut() {
                Some(layer) if *level > 0 && last == Some(*level) => layer.push(table.segment),
                _ => layers.push(vec![table.segment]),
            }
            last = Some(*level);
            let all = table.bytes.div_ceil(BLOCK);
            blocks += all;
            let Segment { from, to, .. } = table.segment;
            chunks.extend((0..all).step_by(each as usize).map(|at| Chunk {
                key: from + scale(to - from, at, all),
                table: *id,
                at,
                blocks: each.min(all - at) as u32,
            }));
        }
        chunks.sort_by_key(|chunk| (chunk.key, chunk.table, chunk.at));
        let record = u64::from(self.config.table_record.max(1));
        // Within level 0 tables are not cut.
        let most = if to == 0 { u64::MAX } else { self.config.table / record };
        let tables = keys::cut(&keys::merge(&layers), most);
        let tables = tables.into_iter().map(|segment| (segment, segment.entries * record)).collect();
        let chunks = VecDeque::from(chunks);
        let kind = Kind::Compaction { from, inputs, chunks, blocks, worked: 0 };
        self.add(kind, Output::new(to, tables));
    }

    /// Looks whether the file system wants to empty a zone.
    pub(super) fn schedule_collection(&mut self) {
        let most = self.config.compaction_write / BLOCK as u32;
        if self.emptied.is_none()
            && !self.collecting
            && let Some(moves) = self.space.collect(most.max(1) * self.blocks_of_block())
        {
            self.collecting = true;
            self.add(Kind::Collection { moves: moves.into() }, Output::new(0, Vec::new()));
        }
    }

    /// Those that found no room try again.
    pub(super) fn wake_those_without_room(&mut self) {
        for number in 0..self.jobs.len() {
            if let Some(job) = &mut self.jobs[number]
                && job.wait == Wait::Room
            {
                job.wait = Wait::None;
                self.at(self.now, Event::Job(number as u32));
            }
        }
    }

    /// All requests that a job waited for have ended.
    pub(super) fn job_request_ended(&mut self, number: u32) {
        let Some(job) = &mut self.jobs[number as usize] else { return };
        match job.wait {
            Wait::Read(blocks) => {
                job.wait = Wait::Work(blocks);
                let collects = matches!(job.kind, Kind::Collection { .. });
                let work = if collects { 0 } else { self.work(blocks.into()) };
                self.at(self.now + work, Event::Job(number));
            }
            _ => {
                job.wait = Wait::None;
                self.job_goes_on(number);
            }
        }
    }

    /// Time of a processor for so many blocks.
    fn work(&self, blocks: u64) -> u64 {
        blocks * (BLOCK / 1024) * self.config.kilobyte
    }

    pub(super) fn job_goes_on(&mut self, number: u32) {
        let Some(mut job) = self.jobs[number as usize].take() else { return };
        let outer = self.current.replace(number as usize);
        let goes_on = self.advance(number, &mut job);
        self.current = outer;
        if goes_on {
            self.jobs[number as usize] = Some(job);
        } else {
            self.finish(job);
        }
    }

    /// Goes on with a job as far as it can. `false`: it is done.
    fn advance(&mut self, number: u32, job: &mut Job) -> bool {
        match (&mut job.kind, job.wait) {
            (_, Wait::None) => {}
            (Kind::Compaction { worked, blocks: all, .. }, Wait::Work(blocks)) => {
                *worked += u64::from(blocks);
                job.output.due = scale(job.output.all, *worked, *all);
            }
            (Kind::Flush, Wait::Work(blocks)) => job.output.due += u64::from(blocks),
            (Kind::Collection { .. }, Wait::Work(_)) => {}
            (_, Wait::Rate) => {}
            // An event of an earlier state.
            _ => return true,
        }
        let worked = matches!(job.wait, Wait::Work(_));
        job.wait = Wait::None;
        match job.kind {
            Kind::Collection { .. } => self.collect(number, job, worked),
            _ => self.write_tables(number, job),
        }
    }

    /// Writes what is due, and works on what comes next.
    fn write_tables(&mut self, number: u32, job: &mut Job) -> bool {
        let most = u64::from(self.config.compaction_write).div_ceil(BLOCK).max(1);
        loop {
            if let Some(blocks) = job.output.next(most) {
                if self.must_wait(number, job, blocks) {
                    return true;
                }
                let took = self.write_some(number, job, blocks);
                job.wait = if took == 0 { Wait::Room } else { Wait::Write };
                job.allowed = job.allowed.filter(|_| took == 0);
                return true;
            }
            self.end_table(job);
            match &mut job.kind {
                Kind::Compaction { chunks, .. } => match chunks.pop_front() {
                    Some(chunk) => {
                        job.wait = Wait::Read(chunk.blocks);
                        let file = self.levels.table(chunk.table).file;
                        self.counts.compaction_read += u64::from(chunk.blocks) * BLOCK;
                        self.read(file, chunk.at, chunk.blocks, Purpose::Job(number));
                        return true;
                    }
                    None if job.output.due < job.output.all => job.output.due = job.output.all,
                    None if job.output.tables.is_empty() => return false,
                    None => {}
                },
                Kind::Flush if job.output.due < job.output.all => {
                    let blocks = most.min(job.output.all - job.output.due);
                    job.wait = Wait::Work(blocks as u32);
                    self.at(self.now + self.work(blocks), Event::Job(number));
                    return true;
                }
                _ if job.output.tables.is_empty() => return false,
                _ => {}
            }
        }
    }

    /// Whether the limit of the rate lets a write wait.
    fn must_wait(&mut self, number: u32, job: &mut Job, blocks: u32) -> bool {
        if self.config.rate_limit == 0 {
            return false;
        }
        let at = match job.allowed {
            Some(at) => at,
            None => {
                let at = self.rate_free.max(self.now);
                self.rate_free = at + scale(u64::from(blocks) * BLOCK, SECOND, self.config.rate_limit);
                job.allowed = Some(at);
                at
            }
        };
        if at <= self.now {
            return false;
        }
        job.wait = Wait::Rate;
        self.at(at, Event::Job(number));
        true
    }

    fn write_some(&mut self, number: u32, job: &mut Job, blocks: u32) -> u32 {
        let Some((segment, bytes)) = job.output.tables.front().copied() else { return 0 };
        let file = match job.output.file {
            Some(file) => file,
            None => {
                let level = job.output.level;
                let lifetime = Config::lifetime(level, self.targets.base);
                let table = Some((level as u32, segment.from, segment.to));
                let file = self.space.create(Hint { lifetime, table, expected: bytes });
                job.output.file = Some(file);
                file
            }
        };
        let took = self.append(file, blocks, Purpose::Job(number));
        job.output.written += u64::from(took);
        job.output.sent += u64::from(took);
        let bytes = u64::from(took) * BLOCK;
        match job.kind {
            Kind::Flush => self.counts.flush_bytes += bytes,
            _ => self.counts.compaction_written += bytes,
        }
        self.counts.written_to[job.output.level.min(super::counts::LEVELS - 1)] += bytes;
        took
    }

    /// A table that is complete is closed.
    fn end_table(&mut self, job: &mut Job) {
        let output = &mut job.output;
        if let (Some(&(segment, bytes)), Some(file)) = (output.tables.front(), output.file)
            && output.written == bytes.div_ceil(BLOCK)
        {
            output.tables.pop_front();
            output.file = None;
            output.written = 0;
            output.done.push((segment, bytes, file));
            self.change(|space, out| space.close(file, out));
        }
    }

    fn finish(&mut self, job: Job) {
        match job.kind {
            Kind::Collection { .. } => {
                self.collecting = false;
                // Reads of what was there may be under way.
                self.epoch += 1;
                self.emptied = Some(self.epoch);
                self.reset_emptied();
                self.schedule_collection();
                return;
            }
            Kind::Flush => {
                self.counts.flushes += 1;
                self.flushing = false;
                self.flushed();
            }
            Kind::Compaction { from, inputs, .. } => {
                self.counts.compactions += 1;
                self.compacting -= 1;
                let to = job.output.level;
                if to == 0 {
                    self.counts.within_zero += 1;
                    self.running.within_zero = false;
                } else if from == 0 {
                    self.running.zero = false;
                }
                // Those that are newer than the inputs stay in front of what they became.
                let newest = inputs.first().map(|(_, id)| *id);
                let newer = self.levels.zero.iter().position(|id| Some(*id) == newest).unwrap_or(0);
                for (level, id) in inputs {
                    self.levels.remove(level, id);
                    self.drop_table(id);
                }
                for (segment, bytes, file) in job.output.done {
                    self.counts.tables_made += 1;
                    let id = self.levels.add(to, segment, bytes, file);
                    if to == 0 {
                        self.levels.settle(id, newer);
                    }
                }
                self.changed();
                return;
            }
        }
        for (segment, bytes, file) in job.output.done {
            self.counts.tables_made += 1;
            self.levels.add(job.output.level, segment, bytes, file);
        }
        self.changed();
    }

    /// The file of a table that is in no level goes when nobody reads it.
    pub(super) fn drop_table(&mut self, id: TableId) {
        if let Some(file) = self.levels.forget(id) {
            self.counts.tables_deleted += 1;
            self.change(|space, out| space.delete(file, out));
        }
    }

    /// Moves the next blocks of a zone that is emptied: a read, then a write. `read`: the blocks of the first move were read.
    fn collect(&mut self, number: u32, job: &mut Job, read: bool) -> bool {
        let Kind::Collection { moves } = &mut job.kind else { return false };
        let Some(next) = moves.front().copied() else { return false };
        if !read {
            let io = DeviceIo { verb: Verb::Read, lba: next.lba, blocks: next.blocks };
            job.wait = Wait::Read(next.blocks);
            self.raw(&[io], Purpose::Job(number));
            return true;
        }
        let mut ios = Vec::new();
        let took = self.space.relocate(&next, &mut ios);
        let (writes, own): (Vec<DeviceIo>, Vec<DeviceIo>) = ios.into_iter().partition(|io| io.verb.writes());
        for io in own {
            self.raw(&[io], Purpose::Space(io));
        }
        if took == next.blocks {
            moves.pop_front();
        } else if let Some(rest) = moves.front_mut() {
            rest.lba += u64::from(took);
            rest.blocks -= took;
        }
        if writes.is_empty() {
            // The file is gone, or there is no room: then it is read again later.
            job.wait = if took == 0 { Wait::Room } else { Wait::None };
            if took > 0 {
                self.at(self.now, Event::Job(number));
            }
            return true;
        }
        job.wait = Wait::Write;
        self.raw(&writes, Purpose::Job(number));
        true
    }
}
