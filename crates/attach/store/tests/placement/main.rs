//! What placement is worth: how often garbage collection writes a block again, under loads that are the same for each placement.
//!
//! `cargo test --profile suite --locked -p store --test placement -- --nocapture` prints the figures of `docs/benchmarks.md`.

mod lsm;
mod mixed;

use store::device::Shape;
use store::simulated::Simulated;
use store::{
    Attributes, FormatOptions, Ino, KeyRange, Lifetime, NewKind, Placement, Store, Usage, ZoneState,
};

/// Bytes of a block.
const BLOCK: usize = 512;

/// A store on a device in memory, and files in it by name.
struct Files {
    store: Store<Simulated>,
    made: u64,
}

impl Files {
    /// An empty store on zones of so many blocks, of which so many may be open at once.
    fn new(zones: u32, zone: u64, open: u32, placement: Placement) -> Self {
        let shape = Shape { block: BLOCK, zone_blocks: zone, zones, open, append_blocks: 128 };
        let device = Simulated::new(shape, zone, 1);
        let options = FormatOptions {
            log_zones: Some((2560 / zone as u32).max(8)),
            placement: Some(placement),
            ..FormatOptions::default()
        };
        Store::format(&device, &options, [1; 16], 0).unwrap();
        Self { store: Store::open(device, None).unwrap(), made: 0 }
    }

    fn create(&mut self) -> (String, Ino) {
        self.made += 1;
        let name = format!("{:08}", self.made);
        let made = self.store.create(Ino::ROOT, name.as_bytes(), NewKind::File, Attributes::default());
        (name, made.unwrap().ino)
    }

    fn hint(&self, ino: Ino, lifetime: &str) {
        self.store.set_xattr(ino, Lifetime::XATTR, Some(lifetime.as_bytes())).unwrap();
    }

    fn keys(&self, ino: Ino, range: &KeyRange) {
        self.store.set_xattr(ino, KeyRange::XATTR, Some(&range.attribute())).unwrap();
    }

    /// Writes blocks of a file, so that they are in a zone.
    fn write(&self, ino: Ino, block: u64, blocks: u64) {
        let data = vec![7; blocks as usize * BLOCK];
        self.store.write(ino, block * BLOCK as u64, &data, 1).unwrap();
        self.store.sync(ino).unwrap();
    }

    fn delete(&self, name: &str) {
        self.store.unlink(Ino::ROOT, name.as_bytes(), 1).unwrap();
    }
}

/// Blocks that were written for each block that programs wrote, in thousandths.
fn amplification(before: &Usage, after: &Usage) -> u64 {
    let written = after.written_blocks - before.written_blocks;
    (written + after.moved_blocks - before.moved_blocks) * 1000 / written
}

/// How many seeds each load has: `TRANCHE_PLACEMENT_SEEDS`, or 1.
fn seeds() -> u64 {
    std::env::var("TRANCHE_PLACEMENT_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1)
}

/// The amplification of each placement under a load.
fn measure(load: &str, seed: u64, run: impl Fn(Placement) -> u64) -> [u64; 3] {
    Placement::ALL.map(|placement| {
        let found = run(placement);
        println!("{load}, seed {seed}, {}: {}.{:03}", placement.name(), found / 1000, found % 1000);
        found
    })
}

#[test]
fn tables_lie_beside_those_whose_keys_are_near() {
    let mut files = Files::new(96, 64, 14, Placement::Overlap);
    // Two compactions of level 1, and one of level 2, write one table after the other.
    let mut made = Vec::new();
    for table in 0..4u8 {
        for (level, from) in [(1, b'a'), (1, b'p'), (2, b'a')] {
            let (_, ino) = files.create();
            files.keys(ino, &KeyRange::new(level, &[from + table], &[from + table, 0xFF]).unwrap());
            files.write(ino, 0, 10);
            made.push((level, from, ino));
        }
    }
    let groups = |zones: Vec<store::ZoneUse>| {
        let open = zones.into_iter().filter(|zone| zone.state == ZoneState::Open);
        open.map(|zone| (zone.files, zone.live, zone.levels.into_iter().collect())).collect::<Vec<_>>()
    };
    let expected = [(4, 40, vec![1]), (4, 40, vec![1]), (4, 40, vec![2])];
    assert_eq!(groups(files.store.zones()), expected);
    // It goes on where it was after an opening.
    files.store.sync_all().unwrap();
    files.store = Store::open(files.store.close().unwrap(), None).unwrap();
    let (_, ino) = files.create();
    files.keys(ino, &KeyRange::new(1, b"q", b"r").unwrap());
    files.write(ino, 0, 10);
    let expected = [(4, 40, vec![1]), (5, 50, vec![1]), (4, 40, vec![2])];
    assert_eq!(groups(files.store.zones()), expected);
}

#[test]
fn a_store_keeps_its_placement_and_counts_on() {
    let mut files = Files::new(96, 64, 14, Placement::Lifetime);
    assert_eq!(files.store.placement(), Placement::Lifetime);
    let (_, ino) = files.create();
    files.write(ino, 0, 100);
    files.write(ino, 0, 20);
    assert_eq!((files.store.usage().written_blocks, files.store.usage().moved_blocks), (120, 0));
    for _ in 0..3 {
        let device = files.store.close().unwrap();
        assert_eq!(Store::open_read_only(&device).unwrap().usage().written_blocks, 120);
        files.store = Store::open(device, None).unwrap();
        assert_eq!(files.store.usage().written_blocks, 120);
    }
    assert_eq!(files.store.placement(), Placement::Lifetime);
    files.store.set_xattr(Ino::ROOT, Placement::XATTR, Some(b"none")).unwrap();
    let device = files.store.close().unwrap();
    let store = Store::open(&device, None).unwrap();
    assert_eq!(store.placement(), Placement::None);
    store.set_xattr(Ino::ROOT, Placement::XATTR, None).unwrap();
    store.close().unwrap();
    assert_eq!(
        Store::open(&device, None).unwrap().placement(),
        Placement::Overlap,
        "an old store says nothing"
    );
    assert_eq!(Store::open(&device, Placement::Lifetime).unwrap().placement(), Placement::Lifetime);
}
