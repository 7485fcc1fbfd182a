//! DH-HMAC-CHAP, host against controller, in memory.

use fabric::auth::{AuthStep, ChapKey, ChapKeys, Host, HostFailure, Methods, Parties, Target};
use nvme::auth::{
    AuthFailure, AuthId, AuthType, DhGroupId, Failure, HashId, MessageHeader, Negotiate, ProtocolDescriptor,
};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Nqn, Status};

fn parties() -> Parties {
    Parties {
        host: Nqn::new("nqn.2026-11.test:host").unwrap(),
        subsystem: Nqn::new("nqn.2026-11.test:drive").unwrap(),
    }
}

/// The same bytes in every run.
fn random() -> impl FnMut(&mut [u8]) {
    let mut state = 1u64;
    move |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = state.to_be_bytes()[0];
        }
    }
}

fn key(random: &mut impl FnMut(&mut [u8])) -> ChapKey {
    ChapKey::generate(Some(HashId::SHA256), None, random).unwrap()
}

fn only(hash: HashId, group: DhGroupId) -> Methods {
    Methods { hashes: vec![hash], dh_groups: vec![group] }
}

/// A pair that would succeed.
fn pair(methods: &Methods, bidirectional: bool, random: &mut impl FnMut(&mut [u8])) -> (Host, Target) {
    let host = key(random);
    let controller = bidirectional.then(|| key(random));
    let keys = ChapKeys { host, controller };
    (
        Host::new(parties(), keys.clone(), methods.clone(), 0x1234),
        Target::new(parties(), keys, methods.clone()),
    )
}

/// Runs an exchange; `change` may do what it likes to each message, numbered from 0.
fn run(
    host: &mut Host,
    target: &mut Target,
    random: &mut impl FnMut(&mut [u8]),
    mut change: impl FnMut(usize, &mut Vec<u8>),
) -> Result<(), HostFailure> {
    let mut answer: Option<Vec<u8>> = None;
    let mut number = 0;
    loop {
        match host.step(answer.take().as_deref(), random) {
            AuthStep::Send(mut message) => {
                change(number, &mut message);
                target.take(&message, random);
            }
            AuthStep::Receive => {
                let mut message = vec![0xEE; Host::ROOM];
                let len = target.give(&mut message).unwrap();
                message.truncate(len);
                change(number, &mut message);
                answer = Some(message);
            }
            AuthStep::Done => return Ok(()),
            AuthStep::Failed(why) => return Err(why),
        }
        number += 1;
        assert!(number < 10, "it does not end");
    }
}

#[test]
fn every_hash_group_and_direction() {
    let mut random = random();
    for hash in HashId::ALL {
        for group in DhGroupId::ALL {
            for bidirectional in [false, true] {
                let (mut host, mut target) = pair(&only(hash, group), bidirectional, &mut random);
                assert!(!target.is_authenticated());
                let mut messages = 0;
                let result = run(&mut host, &mut target, &mut random, |_, _| messages += 1);
                assert_eq!(result, Ok(()), "{hash} {group} {bidirectional}");
                assert!(target.is_authenticated() && target.failure().is_none());
                assert_eq!(messages, if bidirectional { 5 } else { 4 });
            }
        }
    }
}

#[test]
fn a_queue_is_authenticated_again() {
    let mut random = random();
    let keys = ChapKeys { host: key(&mut random), controller: Some(key(&mut random)) };
    let methods = only(HashId::SHA384, DhGroupId::FFDHE2048);
    let mut target = Target::new(parties(), keys.clone(), methods.clone());
    for t_id in 1..4 {
        let mut host = Host::new(parties(), keys.clone(), methods.clone(), t_id);
        let mut before = Vec::new();
        run(&mut host, &mut target, &mut random, |n, message| before.push((n, message.clone()))).unwrap();
        assert!(target.is_authenticated());
        // What was recorded is worth nothing the next time.
        let mut replayed = Host::new(parties(), keys.clone(), methods.clone(), t_id);
        let mut victim = Target::new(parties(), keys.clone(), methods.clone());
        let result = run(&mut replayed, &mut victim, &mut random, |n, message| {
            if n == 2 {
                message.clone_from(&before[2].1);
            }
        });
        assert_eq!(result, Err(HostFailure::ByController(AuthFailure::FAILED)));
        assert!(!victim.is_authenticated());
    }
    // A failure takes the authentication away.
    let wrong = ChapKeys { host: key(&mut random), ..keys };
    let mut host = Host::new(parties(), wrong, methods, 9);
    assert!(run(&mut host, &mut target, &mut random, |_, _| ()).is_err());
    assert!(!target.is_authenticated());
    assert_eq!(target.failure(), Some(AuthFailure::FAILED));
}

#[test]
fn keys_must_match() {
    let mut random = random();
    let methods = Methods::default();
    let (right, wrong) = (key(&mut random), key(&mut random));
    let keys = |host: &ChapKey, controller: Option<&ChapKey>| ChapKeys {
        host: host.clone(),
        controller: controller.cloned(),
    };
    let failed = AuthFailure::FAILED;
    for (mine, theirs, result, told) in [
        // The host's key is wrong.
        (keys(&right, None), keys(&wrong, None), Err(HostFailure::ByController(failed)), Some(failed)),
        // The controller's key is wrong.
        (
            keys(&right, Some(&right)),
            keys(&right, Some(&wrong)),
            Err(HostFailure::ByHost(failed)),
            Some(failed),
        ),
        // The host asks for what the controller cannot do.
        (
            keys(&right, None),
            keys(&right, Some(&wrong)),
            Err(HostFailure::ByController(failed)),
            Some(failed),
        ),
        // The controller could, but the host does not ask.
        (keys(&right, Some(&wrong)), keys(&right, None), Ok(()), None),
    ] {
        let mut target = Target::new(parties(), mine, methods.clone());
        let mut host = Host::new(parties(), theirs, methods.clone(), 1);
        assert_eq!(run(&mut host, &mut target, &mut random, |_, _| ()), result);
        assert_eq!(target.failure(), told);
        assert_eq!(target.is_authenticated(), result.is_ok());
    }
    // The keys are bound to the names.
    let mut target = Target::new(parties(), keys(&right, None), methods.clone());
    let other = Parties { host: Nqn::new("nqn.2026-11.test:other").unwrap(), ..parties() };
    let mut host = Host::new(other, keys(&right, None), methods, 1);
    assert!(run(&mut host, &mut target, &mut random, |_, _| ()).is_err());
}

#[test]
fn the_controller_chooses_its_favourite() {
    let mut random = random();
    let keys = ChapKeys { host: key(&mut random), controller: None };
    let accepts = Methods {
        hashes: vec![HashId::SHA512, HashId::SHA384],
        dh_groups: vec![DhGroupId::FFDHE3072, DhGroupId::NULL],
    };
    let chosen = |offers: Methods, random: &mut dyn FnMut(&mut [u8])| {
        let mut target = Target::new(parties(), keys.clone(), accepts.clone());
        let mut host = Host::new(parties(), keys.clone(), offers, 1);
        let mut chosen = None;
        let mut random = |bytes: &mut [u8]| random(bytes);
        let result = run(&mut host, &mut target, &mut random, |n, message| {
            if n == 1 {
                chosen = message.get(8..10).map(|ids| (ids[0], ids[1]));
            }
        });
        result.map(|()| chosen.unwrap())
    };
    assert_eq!(chosen(Methods::default(), &mut random), Ok((3, 2)));
    assert_eq!(chosen(only(HashId::SHA384, DhGroupId::NULL), &mut random), Ok((2, 0)));
    assert_eq!(
        chosen(only(HashId::SHA256, DhGroupId::NULL), &mut random),
        Err(HostFailure::ByController(AuthFailure::HASH_NOT_USABLE))
    );
    assert_eq!(
        chosen(only(HashId::SHA384, DhGroupId::FFDHE2048), &mut random),
        Err(HostFailure::ByController(AuthFailure::DH_GROUP_NOT_USABLE))
    );
}

#[test]
fn every_changed_byte_and_every_cut_is_noticed() {
    let mut random = random();
    for group in [DhGroupId::NULL, DhGroupId::FFDHE2048] {
        let methods = only(HashId::SHA256, group);
        let (mut host, mut target) = pair(&methods, true, &mut random);
        let mut lengths = Vec::new();
        run(&mut host, &mut target, &mut random, |_, message| lengths.push(message.len())).unwrap();
        for (which, len) in lengths.iter().enumerate() {
            // With a group there is much arithmetic for each; a sample does.
            let step = if group == DhGroupId::NULL { 1 } else { 11 };
            for at in (0..*len).step_by(step) {
                let (mut host, mut target) = pair(&methods, true, &mut random);
                let cut = run(&mut host, &mut target, &mut random, |n, message| {
                    if n == which {
                        message.truncate(at);
                    }
                });
                assert!(cut.is_err() || which == 4, "{which} cut to {at}");
                assert!(!target.is_authenticated(), "{which} cut to {at}");
                let (mut host, mut target) = pair(&methods, true, &mut random);
                let _ = run(&mut host, &mut target, &mut random, |n, message| {
                    if n == which {
                        message[at] ^= 0x20;
                    }
                });
                let ignored = match which {
                    // Reserved bytes, list entries behind the count, and the descriptor's reserved byte.
                    0 => matches!(at, 2 | 3 | 9) || at > 12 && !matches!(at, 42),
                    1 | 2 => matches!(at, 2 | 3 | 7) || which == 2 && matches!(at, 8 | 9),
                    3 => matches!(at, 2 | 3 | 7..16),
                    _ => matches!(at, 2 | 3 | 6..16),
                };
                assert_eq!(target.is_authenticated(), ignored, "message {which}, byte {at}");
            }
        }
    }
}

fn told(target: &mut Target) -> AuthFailure {
    let mut room = [0; 4096];
    let len = target.give(&mut room).unwrap();
    let failure = Failure::read_from_bytes(&room[..len]).unwrap();
    assert_eq!(failure.header.auth_id, AuthId::FAILURE1);
    assert_eq!(failure.rescode, 1);
    assert_eq!(target.failure(), Some(failure.rescodeexp));
    assert!(!target.is_authenticated());
    failure.rescodeexp
}

#[test]
fn what_does_not_fit_has_its_reason() {
    let mut random = random();
    let fresh = |random: &mut _| pair(&only(HashId::SHA256, DhGroupId::NULL), false, random).1;
    let header = |id| MessageHeader::new(AuthType::COMMON, id, 5);
    let negotiate = |sc_c, napd, descriptors: &[ProtocolDescriptor]| {
        [Negotiate { header: header(AuthId::NEGOTIATE), sc_c, napd }.as_bytes(), descriptors.as_bytes()]
            .concat()
    };
    let mut good = ProtocolDescriptor { authid: 1, halen: 1, dhlen: 1, ..ProtocolDescriptor::default() };
    good.hashes[0] = HashId::SHA256;
    let other = ProtocolDescriptor { authid: 2, ..good };
    for (message, reason) in [
        (vec![], AuthFailure::INCORRECT_PAYLOAD),
        (vec![0; 5], AuthFailure::INCORRECT_PAYLOAD),
        (negotiate(1, 1, &[good]), AuthFailure::CONCATENATION_MISMATCH),
        (negotiate(0, 0, &[good]), AuthFailure::INCORRECT_PAYLOAD),
        (negotiate(0, 2, &[good]), AuthFailure::INCORRECT_PAYLOAD),
        (negotiate(0, 1, &[other]), AuthFailure::PROTOCOL_NOT_USABLE),
        (negotiate(0, 1, &[ProtocolDescriptor { halen: 0, ..good }]), AuthFailure::INCORRECT_PAYLOAD),
        (negotiate(0, 1, &[ProtocolDescriptor { dhlen: 31, ..good }]), AuthFailure::INCORRECT_PAYLOAD),
        (
            negotiate(0, 1, &[ProtocolDescriptor { hashes: [HashId(9); 30], ..good }]),
            AuthFailure::HASH_NOT_USABLE,
        ),
        (
            negotiate(0, 1, &[ProtocolDescriptor { dh_groups: [DhGroupId(9); 30], ..good }]),
            AuthFailure::DH_GROUP_NOT_USABLE,
        ),
        (MessageHeader::chap(AuthId::REPLY, 5).as_bytes().to_vec(), AuthFailure::INCORRECT_MESSAGE),
        (MessageHeader::chap(AuthId::SUCCESS2, 5).as_bytes().to_vec(), AuthFailure::INCORRECT_MESSAGE),
        (MessageHeader::new(AuthType(7), AuthId(7), 5).as_bytes().to_vec(), AuthFailure::INCORRECT_MESSAGE),
        (header(AuthId::FAILURE2).as_bytes().to_vec(), AuthFailure::INCORRECT_PAYLOAD),
    ] {
        let mut target = fresh(&mut random);
        target.take(&message, &mut random);
        assert_eq!(told(&mut target), reason, "{message:02x?}");
    }
    // Two descriptors, one of which is ours.
    let mut target = fresh(&mut random);
    target.take(&negotiate(0, 2, &[other, good]), &mut random);
    let mut room = [0; 256];
    // Too little room: the message stays.
    assert!(target.give(&mut room[..16]).unwrap_err().is(Status::INVALID_FIELD));
    assert_eq!(target.give(&mut room), Ok(16 + 32));
    assert_eq!(room[1], AuthId::CHALLENGE.0);
    // To fetch twice, to negotiate twice, to fetch before anything.
    assert_eq!(told(&mut target), AuthFailure::INCORRECT_MESSAGE);
    let mut target = fresh(&mut random);
    target.take(&negotiate(0, 1, &[good]), &mut random);
    target.take(&negotiate(0, 1, &[good]), &mut random);
    assert_eq!(told(&mut target), AuthFailure::INCORRECT_MESSAGE);
    assert_eq!(told(&mut fresh(&mut random)), AuthFailure::INCORRECT_MESSAGE);
}

#[test]
fn a_host_believes_nothing() {
    let mut random = random();
    // A controller that claims success without an answer, or with another than the right one.
    for answer in [0u8, 1] {
        let (mut host, mut target) = pair(&only(HashId::SHA256, DhGroupId::NULL), true, &mut random);
        let result = run(&mut host, &mut target, &mut random, |n, message| {
            if n == 3 {
                message[8] = answer;
                message[20] ^= 1;
            }
        });
        assert_eq!(result, Err(HostFailure::ByHost(AuthFailure::FAILED)));
        assert_eq!(target.failure(), Some(AuthFailure::FAILED));
    }
    // A method that was not offered.
    let keys = ChapKeys { host: key(&mut random), controller: None };
    let mut host = Host::new(parties(), keys.clone(), only(HashId::SHA512, DhGroupId::FFDHE2048), 1);
    let mut target = Target::new(parties(), keys, Methods::default());
    let result = run(&mut host, &mut target, &mut random, |n, message| {
        if n == 1 {
            (message[6], message[8], message[9]) = (32, 1, 0);
        }
    });
    assert_eq!(result, Err(HostFailure::ByHost(AuthFailure::HASH_NOT_USABLE)));
}

/// A slice of the fuzz target's campaign.
#[test]
fn random_messages() {
    let seed = 42;
    println!("seed {seed}");
    let mut random = random();
    for round in 0..2000 {
        let mut bytes = vec![0; 4 + round % 300];
        random(&mut bytes);
        // Plausible headers now and then.
        if let Some(start) = bytes.get_mut(2..8).filter(|_| round % 2 == 0) {
            start.copy_from_slice(&[90, 1, 2 + (round % 3) as u8, 0, 0, 7]);
        }
        fabric::auth::fuzz(&bytes);
    }
}
