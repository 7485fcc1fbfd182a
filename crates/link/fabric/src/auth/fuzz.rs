//! What a `fuzz` target calls.

use super::{AuthStep, ChapKey, ChapKeys, Host, Methods, Parties, Target};
use nvme::Nqn;
use nvme::auth::{DhGroupId, HashId};

/// What a `fuzz` target calls: any bytes as messages, to both sides, fresh and in the middle of an exchange.
pub fn fuzz(bytes: &[u8]) {
    let mut state = 0x9E37_79B9u32;
    let mut random = |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = state.to_be_bytes()[0];
        }
    };
    // The first two bytes choose how far a proper exchange goes before the rest comes, and its method.
    let [steps, method, rest @ ..] = bytes else { return };
    let (Ok(a), Ok(b)) = (Nqn::new("nqn.2026-11.test:host"), Nqn::new("nqn.2026-11.test:drive")) else {
        return;
    };
    let parties = Parties { host: a, subsystem: b };
    let (Ok(host), Ok(controller)) =
        (ChapKey::generate(None, None, &mut random), ChapKey::generate(None, None, &mut random))
    else {
        return;
    };
    let keys = ChapKeys { host, controller: (method & 1 != 0).then_some(controller) };
    // The larger groups behave the same, and take long.
    let group = if method & 2 != 0 { DhGroupId::FFDHE2048 } else { DhGroupId::NULL };
    let methods = Methods { hashes: vec![HashId(1 + (method >> 2) % 3)], dh_groups: vec![group] };
    let mut target = Target::new(parties, keys.clone(), methods.clone());
    let mut host = Host::new(parties, keys, methods, 7);
    let mut room = [0; Host::ROOM];
    let mut answer: Option<Vec<u8>> = None;
    for _ in 0..*steps % 6 {
        match host.step(answer.take().as_deref(), &mut random) {
            AuthStep::Send(message) => target.take(&message, &mut random),
            AuthStep::Receive => {
                let filled = target.give(&mut room).unwrap_or(0);
                answer = Some(room[..filled].to_vec());
            }
            AuthStep::Done | AuthStep::Failed(_) => break,
        }
    }
    // Messages with a length before each.
    let mut rest = rest;
    while let [len, tail @ ..] = rest {
        let (message, next) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = next;
        target.take(message, &mut random);
        let filled = target.give(&mut room).unwrap_or(0);
        assert!(filled <= room.len());
        let _ = host.step(Some(message), &mut random);
    }
}
