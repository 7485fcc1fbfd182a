//! What tests run a server on.

use std::collections::{BTreeMap, BTreeSet};
use workload::{Actor, Nanos, Next, Request, Verb};

/// A drive that answers each request after 100 us, flushes after 10. `look` sees what is submitted and what is done, and the model after that.
pub(crate) fn run<A: Actor>(model: &mut A, until: Nanos, mut look: impl FnMut(Nanos, &A, bool, &Request)) {
    let mut under_way: BTreeMap<(Nanos, u64), Request> = BTreeMap::new();
    let (mut now, mut serial) = (0, 0);
    let mut tags = BTreeSet::new();
    while now < until {
        let wake = match model.next(now) {
            Next::Submit(request) => {
                assert!(tags.insert(request.tag), "a tag that is in use");
                look(now, model, false, &request);
                serial += 1;
                let took = if request.verb == Verb::Flush { 10_000 } else { 100_000 };
                under_way.insert((now + took, serial), request);
                continue;
            }
            Next::At(at) => at,
            Next::Wait => Nanos::MAX,
            Next::Done => break,
        };
        match under_way.first_key_value() {
            Some((&(at, _), _)) if at <= wake => {
                now = at;
                let (_, request) = under_way.pop_first().unwrap();
                tags.remove(&request.tag);
                model.completed(now, request.tag, true);
                look(now, model, true, &request);
            }
            _ => now = wake,
        }
    }
}

/// A digest (FNV-1a) of what is submitted and what is done until then.
pub(crate) fn digest(model: &mut impl Actor, until: Nanos) -> u64 {
    let mut digest = 0xCBF2_9CE4_8422_2325;
    run(model, until, |now, _, done, &Request { tag, verb, namespace, lba, blocks }| {
        let verb = [Verb::Read, Verb::Write, Verb::Flush].iter().position(|one| *one == verb).unwrap() as u64;
        let fields = [now, done.into(), tag.into(), verb, namespace.into(), lba, blocks.into()];
        for byte in fields.into_iter().flat_map(u64::to_le_bytes) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
    });
    digest
}
