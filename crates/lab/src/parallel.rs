//! Pieces of a study on as many processors as there are.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Does all pieces, each on one processor, begun in their order; what came of them is in their order, too.
pub(crate) fn map<P: Sync, R: Send>(pieces: &[P], work: impl Fn(&P) -> R + Sync) -> Vec<R> {
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
    let processors = thread::available_parallelism().map_or(1, Into::into);
    // A piece that panics brings the panic here, so that none is missing behind it.
    thread::scope(|scope| {
        for _ in 1..processors.min(pieces.len()) {
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
        assert_eq!(map(&pieces, |n| n * n), squares);
        assert!(map(&[], |n: &u64| *n).is_empty());
    }
}
