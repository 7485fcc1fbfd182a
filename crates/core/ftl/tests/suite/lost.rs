//! Writes that are lost or go elsewhere though the medium reports them good. What they should have replaced may be read again, or
//! cannot be read, but never is another page's data returned.
//!
//!     TRANCHE_MODEL_ROUNDS=2000 cargo test -p ftl --release --test suite lost::      (a campaign)

use crate::support::{Store, for_seeds};
use ftl::{Answer, Config, Extent, Fault, Ftl, Io, PageState, SetId, Source, VolumeId, Write};
use media::{FaultPlan, Nanos, Rng};

const PAGES: u32 = 512;
/// The number in a sector is that of the write, times this, and the page.
const PAGES_NUMBER: u32 = 1024;

fn config(rng: &mut Rng) -> Config {
    Config {
        sets: vec![crate::sets::nand([1, 20, 8, 4], 100_000, PAGES)],
        buffer_pages: 16,
        protected: rng.below(2) == 0,
        energy_bytes: 1 << 30,
        atomic_pages: 1,
        durable: true,
        faults: FaultPlan {
            seed: rng.next_u64(),
            lost_writes: 20_000_000,
            misdirected_writes: 5_000_000,
            uncorrectable_reads: 1_000_000,
            ..FaultPlan::default()
        },
    }
}

struct Run {
    seed: u64,
    rng: Rng,
    config: Config,
    ftl: Ftl,
    store: Store,
    volume: VolumeId,
    now: Nanos,
    saved: Vec<u8>,
    lost: u32,
    /// Most pages that were known to be lost at a time.
    known: usize,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let config = config(&mut rng);
        let mut store = Store::new(2 * PAGES);
        let mut ftl = Ftl::new(config.clone()).unwrap();
        let volume = ftl.create(SetId(0), u64::from(PAGES) * 4096, &mut store).unwrap();
        let mut run = Run {
            seed,
            rng,
            config,
            ftl,
            store,
            volume,
            now: Nanos::ZERO,
            saved: Vec::new(),
            lost: 0,
            known: 0,
        };
        run.save();
        run
    }

    fn save(&mut self) {
        self.saved.clear();
        self.ftl.save(&mut self.saved);
        self.store.journal.clear();
    }

    fn write(&mut self, number: u32) {
        let page = self.rng.below(u64::from(PAGES)) as u32;
        self.store.host_writes(Io(number), number * PAGES_NUMBER + page);
        let extent = Extent { start: u64::from(page) * 4096, bytes: 4096 };
        self.ftl.write(self.now, Write::new(Io(number), self.volume, extent, Source::Host), &mut self.store);
    }

    fn trim(&mut self) {
        let (page, pages) = (self.rng.below(u64::from(PAGES) - 8), self.rng.below(8));
        self.ftl.trim(self.now, self.volume, page * 4096, pages * 4096, &mut self.store).unwrap();
    }

    fn pass_time(&mut self) {
        let mut done = Vec::new();
        for _ in 0..self.rng.below(8) {
            let Some(at) = self.ftl.next_event() else { break };
            self.now = self.now.max(at);
            self.ftl.poll(self.now, &mut self.store, &mut done);
        }
    }

    fn cut(&mut self) {
        match self.rng.below(3) {
            0 => {
                let restorer = Ftl::restore(self.config.clone(), &self.saved);
                let mut restorer = restorer.unwrap();
                for record in &self.store.journal {
                    restorer.apply(&record.borrowed()).unwrap();
                }
                self.ftl = restorer.finish(self.now, &mut self.store).unwrap();
                self.save();
            }
            energy => {
                self.ftl.power_cut(self.now, energy == 1, &mut self.store);
                self.ftl.recover(self.now, &mut self.store);
            }
        }
        self.check();
    }

    fn check(&mut self) {
        let sound = self.ftl.audit(SetId(0)).and_then(|()| self.store.audit(self.ftl.references()));
        sound.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        let lost = |page: &u64| self.ftl.page_state(self.volume, *page) == Some(PageState::Lost);
        let found: Vec<_> = (0..u64::from(PAGES)).filter(lost).map(|page| (self.volume, page)).collect();
        assert_eq!(self.ftl.lost_pages(), found, "seed {}", self.seed);
        assert!(self.ftl.losses() >= found.len() as u64);
        self.known = self.known.max(found.len());
        for page in 0..PAGES {
            self.store.host_reads(8);
            let extent = Extent { start: u64::from(page) * 4096, bytes: 4096 };
            match self.ftl.read(self.now, Io(u32::MAX), self.volume, extent, &mut self.store) {
                Answer::At(_) => {
                    let value = self.store.host[0];
                    let own = value == 0 || value % PAGES_NUMBER == page;
                    assert!(own, "seed {}: page {page} reads {value}", self.seed);
                }
                answer => {
                    assert_eq!(answer, Answer::Failed(Fault::Unrecovered));
                    self.lost += 1;
                }
            }
        }
    }
}

#[test]
fn what_is_lost_is_never_another_pages_data() {
    let (mut lost, mut known) = (0, 0);
    let rounds = for_seeds(40, |seed| {
        let mut run = Run::new(seed);
        for number in 1..3000 {
            match run.rng.below(100) {
                0..80 => run.write(number),
                80..83 => run.trim(),
                83..98 => run.pass_time(),
                98 => run.save(),
                _ => run.cut(),
            }
        }
        lost += run.lost;
        known += run.known;
    });
    assert!(rounds < 40 || lost > 0 && known > 0);
    println!("{rounds} drives, {lost} reads of what was lost");
}
