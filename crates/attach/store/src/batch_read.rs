//! Several reads at once.

use crate::device::ZoneDevice;
use crate::error::Error;
use crate::files::{Read, ReadPlan};
use crate::record::Ino;
use crate::store::Store;

/// The parts of a buffer of whole blocks that come from the device, with their places there.
fn places<'a>(plan: &ReadPlan, mut rest: &'a mut [u8], block: usize, found: &mut Vec<(u64, &'a mut [u8])>) {
    let mut start = 0;
    for (at, run) in &plan.runs {
        let bytes = usize::try_from(run.blocks).unwrap_or(usize::MAX).saturating_mul(block);
        let (piece, behind) = std::mem::take(&mut rest)[*at - start..].split_at_mut(bytes);
        found.push((run.lba, piece));
        (rest, start) = (behind, at + bytes);
    }
}

impl<D: ZoneDevice> Store<D> {
    /// Does several reads of a file at once: the device has all of them at the same time, if it can. They see one state of the file.
    ///
    /// # Errors
    /// There is no such file, or the device failed.
    pub fn read_many(&self, ino: Ino, reads: &mut [Read<'_>]) -> Result<(), Error> {
        let block = self.device.shape().block;
        loop {
            let plans = {
                let mut state = self.lock();
                let under_way = |read: &Read<'_>| {
                    let end = read.offset.saturating_add(read.buffer.len() as u64);
                    state.is_under_way(ino, read.offset / block as u64, end.div_ceil(block as u64))
                };
                if reads.iter().any(under_way) {
                    state = self.land(state, |data| data.ino == ino)?;
                }
                let plan =
                    |read: &Read<'_>| state.plan_read(ino, read.offset, read.buffer.len(), block as u64);
                reads.iter().map(plan).collect::<Result<Vec<_>, _>>()?
            };
            // Whole blocks go straight to where they are wanted.
            let is_whole = |plan: &ReadPlan, room: usize| plan.skip == 0 && plan.bytes <= room;
            let own = plans
                .iter()
                .zip(reads.iter())
                .map(|(plan, read)| vec![0; if is_whole(plan, read.buffer.len()) { 0 } else { plan.bytes }]);
            let mut own: Vec<Vec<u8>> = own.collect();
            let mut all = Vec::new();
            for ((plan, read), own) in plans.iter().zip(reads.iter_mut()).zip(&mut own) {
                if own.is_empty() {
                    let blocks = &mut read.buffer[..plan.bytes];
                    if plan.has_holes(block as u64) {
                        blocks.fill(0);
                    }
                    places(plan, blocks, block, &mut all);
                } else {
                    places(plan, own, block, &mut all);
                }
            }
            let read = self.device.read_many(&mut all);
            // A zone that was reset meanwhile has other contents now. The file has its own elsewhere.
            let mut state = self.lock();
            if plans.iter().any(|plan| state.lives(&plan.runs) != plan.lives) {
                continue;
            }
            // What a store that stopped has in memory lacks what it could not write.
            if !all.is_empty() || state.stopped.is_some() {
                state.hold(&self.device)?;
            }
            drop(state);
            read?;
            for ((read, plan), own) in reads.iter_mut().zip(&plans).zip(&mut own) {
                let blocks = if own.is_empty() { &mut *read.buffer } else { own.as_mut_slice() };
                for (at, bytes) in &plan.overlays {
                    blocks[*at..*at + bytes.len()].copy_from_slice(bytes);
                }
                if !own.is_empty() {
                    read.buffer[..plan.length].copy_from_slice(&own[plan.skip..plan.skip + plan.length]);
                }
                read.length = plan.length;
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use rng::Rng;

    use super::*;
    use crate::device::Shape;
    use crate::simulated::Simulated;
    use crate::{Attributes, FormatOptions, NewKind, Placement};

    #[test]
    fn they_say_what_was_written() {
        let shape = Shape { block: 512, zone_blocks: 64, zones: 64, open: 6, append_blocks: 16 };
        let device = Simulated::new(shape, 48, 1);
        Store::format(&device, &FormatOptions::default(), [1; 16], 0).unwrap();
        let store = Store::open(&device, Placement::default()).unwrap();
        let file = store.create(Ino::ROOT, b"file", NewKind::File, Attributes::default()).unwrap().ino;
        let mut contents = Vec::new();
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let data: Vec<u8> = (0..1 + rng.below(40_000)).map(|_| rng.below(256) as u8).collect();
            let offset = rng.below(200_000);
            store.write(file, offset, &data, 1).unwrap();
            let at = offset as usize;
            contents.resize(contents.len().max(at + data.len()), 0);
            contents[at..at + data.len()].copy_from_slice(&data);
            if seed % 3 == 0 {
                store.sync(file).unwrap();
            }
            let mut buffers: Vec<(u64, Vec<u8>)> =
                (0..rng.below(6)).map(|_| (rng.below(260_000), vec![7; rng.below(9_000) as usize])).collect();
            let mut reads: Vec<Read<'_>> = buffers
                .iter_mut()
                .map(|(offset, buffer)| Read { offset: *offset, buffer, length: 0 })
                .collect();
            store.read_many(file, &mut reads).unwrap();
            for read in reads {
                let from = contents.len().min(read.offset as usize);
                let expected = &contents[from..contents.len().min(from + read.buffer.len())];
                assert_eq!(&read.buffer[..read.length], expected, "seed {seed}");
                let mut alone = vec![7; read.buffer.len()];
                let length = store.read(file, read.offset, &mut alone).unwrap();
                assert_eq!((length, alone.as_slice()), (read.length, &*read.buffer), "seed {seed}");
            }
        }
    }
}
