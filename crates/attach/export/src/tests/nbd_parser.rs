//! The protocol of NBD without sockets.

use crate::nbd::fuzz;
use proptest::prelude::*;

fn be(parts: &[(u64, usize)]) -> Vec<u8> {
    parts.iter().flat_map(|(value, bytes)| value.to_be_bytes()[8 - bytes..].to_vec()).collect()
}

fn text(name: &str) -> Vec<u8> {
    [be(&[(name.len() as u64, 4)]), name.as_bytes().to_vec()].concat()
}

/// An option with these data.
fn option(kind: u64, data: &[u8]) -> Vec<u8> {
    [be(&[(0x4948_4156_454F_5054, 8), (kind, 4), (data.len() as u64, 4)]), data.to_vec()].concat()
}

fn any_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["nvme0n1", "cache-a", "nvme0n3", "", "nvme0n9"])
}

/// Options that are almost always well-formed.
fn any_option() -> impl Strategy<Value = Vec<u8>> {
    let queries =
        prop::collection::vec(prop::sample::select(vec!["base:allocation", "base:", "x:y", ""]), 0..4);
    let infos = prop::collection::vec(0u64..6, 0..4);
    prop_oneof![
        any_name().prop_map(|name| option(1, name.as_bytes())),
        Just(option(3, &[])),
        Just(option(8, &[])),
        (6u64..8, any_name(), infos).prop_map(|(kind, name, infos)| {
            let list = infos.iter().flat_map(|info| be(&[(*info, 2)])).collect();
            option(kind, &[text(name), be(&[(infos.len() as u64, 2)]), list].concat())
        }),
        (9u64..11, any_name(), queries).prop_map(|(kind, name, queries)| {
            let list = queries.iter().flat_map(|query| text(query)).collect();
            option(kind, &[text(name), be(&[(queries.len() as u64, 4)]), list].concat())
        }),
        (0u64..12, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(kind, data)| option(kind, &data)),
        Just(option(2, b"bye")),
        (66_000usize..70_000).prop_map(|len| option(3, &vec![0; len])),
    ]
}

/// Requests that are almost always well-formed, with the data of writes.
fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let offset =
        prop_oneof![(0u64..260).prop_map(|n| n * 4096), any::<u64>(), (0u64..2100).prop_map(|n| n * 512)];
    let len = prop_oneof![(0u64..20).prop_map(|n| n * 4096), (0u64..140).prop_map(|n| n * 512), 0u64..70_000];
    (0u64..32, 0u64..9, any::<u64>(), offset, len).prop_map(|(flags, command, cookie, offset, len)| {
        let head = be(&[(0x2560_9513, 4), (flags, 2), (command, 2), (cookie, 8), (offset, 8), (len, 4)]);
        let data = vec![7; if command == 1 { len as usize } else { 0 }];
        [head, data].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_heard_alike_in_any_pieces(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz(&bytes);
    }

    #[test]
    fn any_client_is_heard_alike_in_any_pieces(
        cut in any::<u8>(),
        flags in 0u64..5,
        options in prop::collection::vec(any_option(), 0..6),
        go in any_name(),
        requests in prop::collection::vec(any_request(), 0..6),
        rest in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let go = option(7, &[text(go), be(&[(0, 2)])].concat());
        let all = [vec![cut], be(&[(flags, 4)]), options.concat(), go, requests.concat(), rest];
        fuzz(&all.concat());
    }
}
