//! Random writes of known distributions, and how much theory says that they are amplified.
//!
//! `n` pages are written with a share `r` of all writes; `T` pages there are on flash that are not open or kept free. If each page is written
//! with a probability of `p` by the next write, and a superblock is collected `t` writes after it was sealed, then it has kept a share of `e^(-pt)`
//! of such pages. So a page is programmed `1 / (1 - e^(-pt))` times for each time that it is written:
//!
//! - **least recently written first** (whatever a superblock holds, the oldest is collected): `A = Σ r / (1 - e^(-pt))` with `A t = T`. This
//!   is the model of P. Desnoyers, "Analytic Models of SSD Write Performance", ACM Transactions on Storage 10(2), 2014, for mixed
//!   traffic; of one class it is the formula of Xiang & Kurkoski (arXiv 1110.4245), `A = α / (α + W(-α e^-α))`, which holds for greedy collection of
//!   large superblocks, too.
//! - **kept apart**: each class in superblocks of its own, with a share of the spare that makes the sum smallest. Nothing that
//!   does not know what will be written next can do better than with a class for each page (the same paper on separate pools).

use ftl::{
    Answer, Config, Extent, Ftl, GcConfig, GcPolicy, Io, NoContents, PAGE, PlacementConfig, Policies,
    SetConfig, SetId, Source, VolumeId, Write, ZonesConfig,
};
use media::{Cell, FaultPlan, Geometry, NandConfig, NandTiming, Nanos, Rng};

/// A layer of one NAND set, without contents.
pub fn one_set(
    nand: NandConfig,
    capacity_pages: u32,
    buffer_pages: u32,
    gc: GcConfig,
    placement: PlacementConfig,
    policies: Policies,
) -> Ftl {
    let zones = ZonesConfig::default();
    Ftl::new(Config {
        sets: vec![SetConfig::Nand { nand, capacity_pages, gc, placement, policies, zones }],
        buffer_pages,
        protected: true,
        energy_bytes: 1 << 20,
        atomic_pages: 1,
        durable: false,
        faults: FaultPlan::default(),
    })
    .expect("a good configuration")
}

/// Pages that are written equally often.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Their share of all pages.
    pub size: f64,
    /// Their share of the writes.
    pub rate: f64,
}

/// All pages alike.
pub fn uniform() -> Vec<Class> {
    vec![Class { size: 1.0, rate: 1.0 }]
}

/// A share of the writes goes to a share of the pages, the rest to the rest.
#[allow(dead_code, reason = "not everybody needs it")]
pub fn hot_and_cold(rate: f64, size: f64) -> Vec<Class> {
    vec![Class { size, rate }, Class { size: 1.0 - size, rate: 1.0 - rate }]
}

/// Zipf's law in steps: classes of ranks that double, `rank^-exponent` integrated over each.
#[allow(dead_code, reason = "not everybody needs it")]
pub fn zipf(exponent: f64, pages: f64) -> Vec<Class> {
    let below = |rank: f64| match (exponent - 1.0).abs() < 1e-9 {
        true => rank.ln(),
        false => (rank.powf(1.0 - exponent) - 1.0) / (1.0 - exponent),
    };
    // The hottest few hundred in one class.
    let mut edges = vec![pages];
    while edges[edges.len() - 1] > 512.0 {
        edges.push(edges[edges.len() - 1] / 2.0);
    }
    edges.push(0.0);
    edges
        .windows(2)
        .map(|w| Class {
            size: (w[0] - w[1]) / pages,
            rate: (below(w[0] + 1.0) - below(w[1] + 1.0)) / below(pages + 1.0),
        })
        .collect()
}

/// Where an increasing function passes a value, between 0 and a lot.
fn solve(value: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (1e-12f64, 1e12f64);
    for _ in 0..300 {
        let middle = (low * high).sqrt();
        if f(middle) < value {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Write amplification with `alpha` = T / n, least recently written first.
pub fn oldest_first(classes: &[Class], alpha: f64) -> f64 {
    let amplification =
        |t: f64| classes.iter().map(|c| c.rate / -(-c.rate / c.size * t).exp_m1()).sum::<f64>();
    alpha / solve(alpha, |t| amplification(t) * t)
}

/// Write amplification with `alpha` = T / n, classes kept apart in the best way.
#[allow(dead_code, reason = "not everybody needs it")]
pub fn kept_apart(classes: &[Class], alpha: f64) -> f64 {
    kept_in_rooms(classes, alpha).0
}

/// The same, and what share of T each class has in this way.
#[allow(dead_code, reason = "not everybody needs it")]
pub fn kept_in_rooms(classes: &[Class], alpha: f64) -> (f64, Vec<f64>) {
    // Of one class with x = pt: A = 1 / (1 - e^-x), α = x A, -dA/dα = e^-x / (1 - e^-x - x e^-x), which is to be λ n / r in all.
    let x = |class: &Class, lambda: f64| {
        let wanted = class.rate / (lambda * class.size);
        solve(wanted, |x| (-(-x).exp_m1() - x * (-x).exp()) / (-x).exp())
    };
    let one = |x: f64| -1.0 / (-x).exp_m1();
    let room = |c: &Class, lambda: f64| c.size * x(c, lambda) * one(x(c, lambda));
    let all = |inverse: f64| classes.iter().map(|c| room(c, 1.0 / inverse)).sum::<f64>();
    let lambda = 1.0 / solve(alpha, all);
    let amplification = classes.iter().map(|c| c.rate * one(x(c, lambda))).sum();
    (amplification, classes.iter().map(|c| room(c, lambda) / alpha).collect())
}

/// A drive under such writes.
pub struct LoadedDrive {
    pub ftl: Ftl,
    pub volume: VolumeId,
    pub pages: u64,
    /// Raw pages over logical ones, without superblocks that are open or kept free.
    pub alpha: f64,
    classes: Vec<Class>,
    rng: Rng,
}

impl LoadedDrive {
    /// 512 superblocks of 1,024 pages, without timing.
    pub fn new(spare: f64, policy: GcPolicy, classes: Vec<Class>) -> LoadedDrive {
        LoadedDrive::with(spare, policy, Policies::default(), classes)
    }

    /// The same with policies of one's own.
    pub fn with(spare: f64, policy: GcPolicy, policies: Policies, classes: Vec<Class>) -> LoadedDrive {
        let gc = GcConfig { policy, wear_gap: 1000, ..GcConfig::default() };
        LoadedDrive::with_gc(spare, gc, policies, classes)
    }

    /// The same with other garbage collection.
    pub fn with_gc(spare: f64, gc: GcConfig, policies: Policies, classes: Vec<Class>) -> LoadedDrive {
        let geometry = Geometry {
            dies: 4,
            channels: 4,
            planes: 1,
            superblocks: 512,
            units_per_block: 256,
            unit_pages: 1,
            sense_pages: 1,
            in_place: false,
            rated_cycles: 1_000_000,
        };
        let raw = geometry.pages() as f64;
        let reserved = 3.0 * f64::from(geometry.pages_per_superblock());
        let pages = ((raw / (1.0 + spare)) as u32) / 256 * 256;
        let timing = NandTiming::default();
        let nand = NandConfig { geometry, cell: Cell::Slc, timing, durable: false };
        let mut ftl = one_set(nand, pages, 4, gc, Default::default(), policies);
        let bytes = u64::from(pages) * u64::from(PAGE);
        let volume = ftl.create(SetId(0), bytes, &mut NoContents).expect("space");
        let alpha = (raw - reserved) / f64::from(pages);
        LoadedDrive { ftl, volume, pages: pages.into(), alpha, classes, rng: Rng::new(7) }
    }

    pub fn write(&mut self, page: u64) {
        let extent = Extent { start: page * u64::from(PAGE), bytes: PAGE };
        let write = Write::new(Io(0), self.volume, extent, Source::Host);
        let answer = self.ftl.write(Nanos::ZERO, write, &mut NoContents);
        assert!(!matches!(answer, Answer::Failed(_)), "{answer:?}");
        if answer == Answer::Later {
            self.ftl.poll(Nanos::ZERO, &mut NoContents, &mut Vec::new());
        }
    }

    /// A page as the classes have it; they lie one after the other.
    fn draw(&mut self) -> u64 {
        let mut at = self.rng.below(1 << 53) as f64 / (1u64 << 53) as f64;
        let mut first = 0.0;
        for class in &self.classes {
            if at < class.rate {
                let page = (first + at / class.rate * class.size) * self.pages as f64;
                return (page as u64).min(self.pages - 1);
            }
            at -= class.rate;
            first += class.size;
        }
        self.pages - 1
    }

    /// Writes so many pages at random; how often each was programmed.
    pub fn overwrite(&mut self, count: u64) -> f64 {
        let before = self.ftl.set_stats(SetId(0));
        for _ in 0..count {
            let page = self.draw();
            self.write(page);
        }
        let after = self.ftl.set_stats(SetId(0));
        (after.media_written_bytes - before.media_written_bytes) as f64
            / (after.host_written_bytes - before.host_written_bytes) as f64
    }
}
