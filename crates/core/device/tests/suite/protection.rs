//! Protection information against an implementation that is as simple as the specification's words, over random blocks.

use device::protection::{Check, Checks, Guard, Protection, Tags};
use proptest::prelude::*;

/// A reflected or plain CRC, bit by bit.
fn crc(data: &[u8], width: u32, polynomial: u64, start: u64, reflect: bool, end: u64) -> u64 {
    let top = 1u64 << (width - 1);
    let mask = top | (top - 1);
    let mut register = start;
    for byte in data {
        for bit in 0..8 {
            let bit = if reflect { byte >> bit & 1 } else { byte >> (7 - bit) & 1 };
            let feedback = (register & top != 0) ^ (bit != 0);
            register = register << 1 & mask;
            if feedback {
                register ^= polynomial;
            }
        }
    }
    let register = if reflect { register.reverse_bits() >> (64 - width) } else { register };
    register ^ end
}

fn guard(kind: Guard, data: &[u8]) -> u64 {
    match kind {
        Guard::Crc16 => crc(data, 16, 0x8BB7, 0, false, 0),
        Guard::Crc32 => crc(data, 32, 0x1EDC_6F41, 0xFFFF_FFFF, true, 0xFFFF_FFFF),
        Guard::Crc64 => crc(data, 64, 0xAD93_D235_94C9_3659, u64::MAX, true, u64::MAX),
    }
}

/// The protection information of a block, put together bit by bit as NVM 5.2.1 draws it.
fn expected(p: &Protection, data: &[u8], before: &[u8], tags: &Tags, reference: u64) -> Vec<u8> {
    let (guard_bytes, space) = match p.guard {
        Guard::Crc16 => (2, 32),
        Guard::Crc32 => (4, 80),
        Guard::Crc64 => (8, 48),
    };
    let value = guard(p.guard, &[data, before].concat());
    let mut bits: Vec<bool> = (0..guard_bytes * 8).rev().map(|i| value >> i & 1 != 0).collect();
    bits.extend((0..16).rev().map(|i| tags.application >> i & 1 != 0));
    bits.extend((0..p.storage_bits).rev().map(|i| tags.storage >> i & 1 != 0));
    bits.extend((0..space - p.storage_bits).rev().map(|i| reference >> i & 1 != 0));
    bits.chunks(8).map(|byte| byte.iter().fold(0, |all, bit| all << 1 | u8::from(*bit))).collect()
}

fn protections() -> impl Strategy<Value = Protection> {
    let guards = prop_oneof![Just(Guard::Crc16), Just(Guard::Crc32), Just(Guard::Crc64)];
    (guards, 1u8..=3, any::<u8>(), any::<u64>(), any::<bool>()).prop_map(
        |(guard, kind, bits, mask, first)| {
            let range = guard.storage_bits();
            let storage_bits = range.start() + bits % (range.end() - range.start() + 1);
            Protection { kind, guard, storage_bits, storage_mask: mask, first }
        },
    )
}

fn tags() -> impl Strategy<Value = Tags> {
    (any::<u64>(), any::<u64>(), any::<u16>(), any::<u16>()).prop_map(
        |(storage, reference, application, application_mask)| Tags {
            storage,
            reference,
            application,
            application_mask,
        },
    )
}

const ALL: Checks = Checks { guard: true, application: true, reference: true, storage: true };

proptest! {
    #[test]
    fn what_is_inserted_is_what_the_specification_draws(
        p in protections(), tags in tags(), seed: u8, index in 0u32..70_000, large: bool, more in 0usize..48,
    ) {
        let data: Vec<u8> = (0..if large { 4096u32 } else { 512 }).map(|i| (i * 7 + u32::from(seed)) as u8).collect();
        let mut metadata: Vec<u8> = (0..p.guard.bytes() + more).map(|i| i as u8 ^ seed).collect();
        let before = metadata.clone();
        p.insert(&data, &mut metadata, &tags, index);
        let place = p.place(metadata.len());
        prop_assert_eq!(place.start, if p.first { 0 } else { more });
        let width = p.reference_bits();
        let low = |value: u64, bits: u8| if bits == 64 { value } else { value & ((1 << bits) - 1) };
        let reference = low(tags.reference.wrapping_add(if p.kind == 3 { 0 } else { index.into() }), width);
        let masked = Tags { storage: low(tags.storage, p.storage_bits), ..tags };
        prop_assert_eq!(&metadata[place.clone()], expected(&p, &data, &before[..place.start], &masked, reference));
        // Nothing else is touched.
        prop_assert_eq!(&metadata[..place.start], &before[..place.start]);
        prop_assert_eq!(&metadata[place.end..], &before[place.end..]);

        prop_assert_eq!(p.check(&data, &metadata, &tags, ALL, index), Ok(()));
        // Any byte of the data, of what lies before the tuple, and of the guard is guarded.
        let escape = tags.application == 0xFFFF && (p.kind != 3 || reference == low(u64::MAX, width));
        let flipped = usize::from(seed) * 13 % data.len();
        let mut wrong = data.clone();
        wrong[flipped] ^= 1 << (index % 8);
        let found = p.check(&wrong, &metadata, &tags, ALL, index);
        prop_assert_eq!(found, if escape { Ok(()) } else { Err(Check::Guard) });
        let unchecked = Checks { guard: false, ..ALL };
        prop_assert_eq!(p.check(&wrong, &metadata, &tags, unchecked, index), Ok(()));
        if escape {
            return Ok(());
        }
        let application = Tags { application: tags.application ^ 0x0101, ..tags };
        let same = tags.application_mask & 0x0101 == 0;
        prop_assert_eq!(p.check(&data, &metadata, &application, ALL, index), if same { Ok(()) } else { Err(Check::Application) });
        let other = Tags { reference: tags.reference ^ 1, ..tags };
        let same = width == 0;
        prop_assert_eq!(p.check(&data, &metadata, &other, ALL, index), if same { Ok(()) } else { Err(Check::Reference) });
        let storage = Tags { storage: tags.storage ^ 1, ..tags };
        let same = p.storage_bits == 0 || p.storage_mask & 1 == 0;
        prop_assert_eq!(p.check(&data, &metadata, &storage, ALL, index), if same { Ok(()) } else { Err(Check::Storage) });
    }

    /// What a host put into the metadata of an append becomes what it had put in if it had known the place.
    #[test]
    fn a_moved_reference_tag_is_that_of_the_place(
        p in protections(), tags in tags(), by: u64, index in 0u32..70_000, more in 0usize..48,
    ) {
        let data = [index as u8; 512];
        let mut metadata: Vec<u8> = (0..p.guard.bytes() + more).map(|i| i as u8).collect();
        let mut placed = metadata.clone();
        p.insert(&data, &mut metadata, &tags, index);
        p.add_to_reference(&mut metadata, by);
        let there = Tags { reference: tags.reference.wrapping_add(by), ..tags };
        p.insert(&data, &mut placed, &there, index);
        prop_assert_eq!(metadata, placed);
    }

    #[test]
    fn tags_of_a_command_are_split_where_the_format_says(p in protections(), tags in tags()) {
        // As hosts put them together: the storage tag above the reference tag, in the lowest bits of LBTU and LBTL.
        let low = |value: u64, bits: u8| if bits >= 64 { value } else { value & ((1 << bits) - 1) };
        let (storage, reference) = (low(tags.storage, p.storage_bits), low(tags.reference, p.reference_bits()));
        let all = u128::from(storage) << p.reference_bits() | u128::from(reference);
        prop_assert_eq!(p.split((all >> 32) as u64, all as u32), (storage, reference));
    }
}

#[test]
fn the_guards_are_those_of_the_specification() {
    // NVM 5.2.1.1 to 5.2.1.3: test cases of 4 KiB.
    let zeros = [0; 4096];
    let ones = [0xFF; 4096];
    let rising: Vec<u8> = (0..4096).map(|i| i as u8).collect();
    for (data, crc32, crc64) in [
        (&zeros[..], 0x98F9_4189, 0x6482_D367_EB22_B64E),
        (&ones[..], 0x25C1_FE13, 0xC0DD_BA73_02EC_A3AC),
        (&rising[..], 0x9C71_FE32, 0x3E72_9F5F_6750_449C),
    ] {
        assert_eq!(guard(Guard::Crc32, data), crc32);
        assert_eq!(guard(Guard::Crc64, data), crc64);
        let p = Protection { kind: 1, guard: Guard::Crc64, storage_bits: 0, storage_mask: 0, first: false };
        let mut metadata = [0; 16];
        p.insert(data, &mut metadata, &Tags::default(), 0);
        assert_eq!(metadata[..8], crc64.to_be_bytes());
    }
    assert_eq!(guard(Guard::Crc16, b"123456789"), 0xD0DB);
}
