//! Flushes over several NAND sets without protection: one answer with the first fault.

use ftl::{Answer, CompletedIo, Config, Extent, Fault, Ftl, Io, NoContents, SetId, Source, VolumeId, Write};
use media::{FaultPlan, Nanos};

const SETS: u8 = 3;

fn config() -> Config {
    Config {
        sets: vec![crate::sets::nand([1, 12, 8, 4], 1000, 256); SETS.into()],
        buffer_pages: 16 * u32::from(SETS),
        protected: false,
        energy_bytes: 1 << 30,
        atomic_pages: 1,
        durable: true,
        faults: Default::default(),
    }
}

struct Bench {
    ftl: Ftl,
    volumes: Vec<VolumeId>,
    now: Nanos,
    done: Vec<CompletedIo>,
}

impl Bench {
    fn new() -> Bench {
        let mut ftl = Ftl::new(config()).unwrap();
        let create = |set| ftl.create(SetId(set), 256 * 4096, &mut NoContents).unwrap();
        let volumes = (0..SETS).map(create).collect();
        Bench { ftl, volumes, now: Nanos::ZERO, done: Vec::new() }
    }

    fn write(&mut self, set: u8, page: u64, io: u32) -> Answer {
        let extent = Extent { start: page * 4096, bytes: 4096 };
        let volume = self.volumes[usize::from(set)];
        self.ftl.write(self.now, Write::new(Io(io), volume, extent, Source::Host), &mut NoContents)
    }

    /// Runs until nothing is under way.
    fn settle(&mut self) {
        while let Some(at) = self.ftl.next_event() {
            self.now = self.now.max(at);
            self.ftl.poll(self.now, &mut NoContents, &mut self.done);
        }
    }

    /// A set that can only be read and has something in its buffer.
    fn wear_out(&mut self, set: u8) {
        self.ftl
            .set_faults(SetId(set), FaultPlan { program_failures: 1_000_000_000, ..FaultPlan::default() });
        for page in 0..200 {
            if self.write(set, page % 16, 1000) == Answer::Failed(Fault::ReadOnly) {
                break;
            }
            self.settle();
        }
        self.done.clear();
        assert!(self.ftl.set_info(SetId(set)).unwrap().read_only);
    }

    fn answers(&self, io: u32) -> Vec<Result<(), Fault>> {
        self.done.iter().filter(|d| d.io == Io(io)).map(|d| d.result).collect()
    }
}

#[test]
fn a_set_that_fails_at_once_fails_the_flush_when_the_others_have_answered() {
    for worn_out in 0..SETS {
        let mut b = Bench::new();
        b.wear_out(worn_out);
        for set in (0..SETS).filter(|&set| set != worn_out) {
            assert!(matches!(b.write(set, 7, 1), Answer::At(_)));
        }
        let answer = b.ftl.flush(b.now, Io(5), &mut NoContents);
        b.settle();
        match answer {
            Answer::Failed(fault) => assert_eq!((fault, b.answers(5)), (Fault::ReadOnly, vec![])),
            Answer::Later => assert_eq!(b.answers(5), [Err(Fault::ReadOnly)], "set {worn_out}"),
            Answer::At(_) => panic!("a set has not written what it accepted"),
        }
        // The number is another command's now.
        b.done.clear();
        assert!(matches!(b.write(u8::from(worn_out == 0), 8, 5), Answer::At(_)));
        b.settle();
        assert_eq!(b.answers(5), []);
    }
}

#[test]
fn a_set_that_fails_while_others_go_on_fails_the_flush() {
    for worn_out in 0..SETS {
        let mut b = Bench::new();
        for set in 0..SETS {
            assert!(matches!(b.write(set, 7, 1), Answer::At(_)));
        }
        b.ftl
            .set_faults(SetId(worn_out), FaultPlan { program_failures: 1_000_000_000, ..Default::default() });
        // The one that fails answers before the others.
        let slow = FaultPlan { slow_operations: 1_000_000_000, slow_factor: 1000, ..Default::default() };
        for set in (0..SETS).filter(|&set| set != worn_out) {
            b.ftl.set_faults(SetId(set), slow.clone());
        }
        assert_eq!(b.ftl.flush(b.now, Io(5), &mut NoContents), Answer::Later);
        b.settle();
        assert_eq!(b.answers(5), [Err(Fault::ReadOnly)], "set {worn_out}");
    }
}

#[test]
fn a_power_cut_forgets_the_flush() {
    let mut b = Bench::new();
    for set in 0..SETS {
        assert!(matches!(b.write(set, 7, 1), Answer::At(_)));
    }
    assert_eq!(b.ftl.flush(b.now, Io(5), &mut NoContents), Answer::Later);
    b.ftl.power_cut(b.now, false, &mut NoContents);
    b.ftl.recover(b.now, &mut NoContents);
    assert!(matches!(b.write(0, 9, 5), Answer::At(_)));
    b.settle();
    assert_eq!(b.answers(5), []);
}
