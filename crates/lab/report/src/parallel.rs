//! Pieces of a study on as many processors as there are.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{control::Control, processors};

/// Does all pieces, each on one processor, begun in their order. What came of them is in their order, too. Pieces of all calls with the
/// same control are done on as many processors as there are, so that studies may run at the same time ([`together`]).
pub fn map<'p, P: Sync, R: Send>(
    control: &Control,
    pieces: &'p [P],
    work: impl Fn(&'p P) -> R + Sync,
) -> Vec<R> {
    spread(pieces, |piece| {
        let _processor = control.processors().wait();
        work(piece)
    })
}

/// Does work at the same time that waits for pieces of its own ([`map`]): so much of it that no processor is idle.
pub fn together<'p, P: Sync, R: Send>(work: &'p [P], one: impl Fn(&'p P) -> R + Sync) -> Vec<R> {
    spread(work, one)
}

/// How many of so many pieces are done at the same time at most.
pub fn width(pieces: usize) -> u64 {
    processors::available().min(pieces).max(1) as u64
}

fn spread<'p, P: Sync, R: Send>(pieces: &'p [P], work: impl Fn(&'p P) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let places: Vec<Mutex<Option<R>>> = pieces.iter().map(|_| Mutex::new(None)).collect();
    let worker = || {
        while let Some((piece, place)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            pieces.get(index).zip(places.get(index))
        } {
            let result = work(piece);
            if let Ok(mut place) = place.lock() {
                *place = Some(result);
            }
        }
    };
    // A piece that panics brings the panic here, so that none is missing behind it.
    thread::scope(|scope| {
        for _ in 1..width(pieces.len()) {
            scope.spawn(worker);
        }
        worker();
    });
    places.into_iter().filter_map(|place| place.into_inner().ok().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_pieces() {
        let pieces: Vec<u64> = (0..1000).collect();
        let squares: Vec<u64> = pieces.iter().map(|n| n * n).collect();
        let control = Control::default();
        assert_eq!(map(&control, &pieces, |n| n * n), squares);
        assert!(map(&control, &[], |n: &u64| *n).is_empty());
    }

    #[test]
    fn pieces_of_all_studies_share_the_processors() {
        let control = Control::default();
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let sums = together(&[1u64, 2, 3, 4], |study| {
            let pieces: Vec<u64> = (0..20).collect();
            let done = map(&control, &pieces, |n| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                n * study
            });
            done.into_iter().sum::<u64>()
        });
        assert_eq!(sums, [190, 380, 570, 760]);
        assert!((1..=processors::available()).contains(&most.into_inner()));
    }
}
