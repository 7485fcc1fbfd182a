//! Random commands on namespaces of random formats against a plain model, with power cuts in between.

use crate::common::{Bench, bytes};
use device::LbaFormat;
use device::protection::{Protection, Tags};
use media::Rng;
use nvme::admin::{FormatNvm, SecureErase};
use nvme::copy::{Copy, CopySource};
use nvme::feature::{FeatureId, HostBehaviorSupport};
use nvme::io::{Blocks, PrInfo};
use nvme::{Command, IoOpcode, Status, U16};

/// Blocks of each namespace that are looked at.
const SPAN: u64 = 96;

/// What a block of the model holds: data and metadata, or nothing that can be read.
type Block = Option<Vec<u8>>;

struct Model {
    nsid: u32,
    format: LbaFormat,
    pi: Option<Protection>,
    blocks: Vec<Block>,
}

impl Model {
    fn size(&self) -> usize {
        self.format.data as usize
    }

    fn nothing(&self) -> Block {
        let mut block = vec![0; self.size() + usize::from(self.format.metadata)];
        if let Some(p) = self.pi {
            block[self.size()..][p.place(self.format.metadata.into())].fill(0xFF);
        }
        Some(block)
    }

    fn wire(&self, pract: bool) -> usize {
        let stripped = self.pi.is_some_and(|p| pract && p.guard.bytes() == usize::from(self.format.metadata));
        self.size() + if stripped { 0 } else { self.format.metadata.into() }
    }

    fn range(&self, slba: u64, nlb: u32, pract: bool) -> Blocks {
        let prinfo = PrInfo::new().with_pract(pract && self.pi.is_some());
        Blocks { prinfo, lbtl: slba as u32, ..Blocks::new(self.nsid, slba, nlb) }
    }

    /// The block that is stored when `host` sends this.
    fn stored(&self, host: &[u8], slba: u64, index: u32, pract: bool) -> Block {
        let mut block = host.to_vec();
        block.resize(self.size() + usize::from(self.format.metadata), 0);
        if let Some(p) = self.pi.filter(|_| pract) {
            let (data, metadata) = block.split_at_mut(self.size());
            let (storage, reference) = p.split(0, slba as u32);
            p.insert(data, metadata, &Tags { storage, reference, ..Tags::default() }, index);
        }
        Some(block)
    }

    fn check(&self, b: &mut Bench, slba: u64, nlb: u32, pract: bool, what: &str) {
        let (status, data) = b.io(self.range(slba, nlb, pract).encode(IoOpcode::READ), &[]);
        let expected = &self.blocks[slba as usize..(slba + u64::from(nlb)) as usize];
        if expected.iter().any(Option::is_none) {
            assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{what}: {status}");
            return;
        }
        assert_eq!(status, Status::SUCCESS, "{what}");
        for (i, (block, expected)) in data.chunks(self.wire(pract)).zip(expected).enumerate() {
            let expected = expected.as_ref().unwrap();
            assert!(
                block == &expected[..block.len()],
                "{what}: block {} of namespace {}",
                slba + i as u64,
                self.nsid
            );
        }
    }
}

fn play(seed: u64, steps: u32) {
    let mut rng = Rng::new(seed);
    let mut b = Bench::with_namespaces(&[]);
    let formats = b.drive.config().lba_formats.clone();
    let enable = |b: &mut Bench| {
        let behavior =
            HostBehaviorSupport { lbafee: 1, cdfe: U16::new(0xC), ..HostBehaviorSupport::default() };
        b.admin_ok(Command::set_features(FeatureId::HOST_BEHAVIOR_SUPPORT, 0, 0), &bytes(&behavior));
    };
    enable(&mut b);
    let mut models: Vec<Model> = [1, 2]
        .map(|nsid| Model {
            nsid,
            format: formats[0],
            pi: None,
            blocks: vec![Some(vec![0; 4096]); SPAN as usize],
        })
        .into();
    for step in 0..steps {
        let what = format!("seed {seed}, step {step}");
        let which = rng.below(2) as usize;
        let slba = rng.below(SPAN - 1);
        let nlb = 1 + rng.below((SPAN - slba).min(20)) as u32;
        let pract = rng.below(2) == 1;
        let m = &mut models[which];
        let at = slba as usize..slba as usize + nlb as usize;
        match rng.below(100) {
            0..40 => {
                let wire = m.wire(pract);
                let data: Vec<u8> = (0..nlb as usize * wire).map(|_| rng.below(256) as u8).collect();
                let (status, _) = b.io(m.range(slba, nlb, pract).encode(IoOpcode::WRITE), &data);
                assert_eq!(status, Status::SUCCESS, "{what}");
                for (i, host) in data.chunks(wire).enumerate() {
                    m.blocks[slba as usize + i] = m.stored(host, slba, i as u32, pract);
                }
            }
            40..65 => m.check(&mut b, slba, nlb, pract, &what),
            65..72 => {
                let (status, _) = b.io(m.range(slba, nlb, pract).encode(IoOpcode::WRITE_ZEROES), &[]);
                assert_eq!(status, Status::SUCCESS, "{what}");
                for i in 0..nlb {
                    let zeros = vec![0; m.size()];
                    m.blocks[(slba + u64::from(i)) as usize] = m.stored(&zeros, slba, i, pract);
                }
            }
            72..79 => {
                let (status, _) =
                    b.io(Blocks::new(m.nsid, slba, nlb).encode(IoOpcode::WRITE_UNCORRECTABLE), &[]);
                assert_eq!(status, Status::SUCCESS, "{what}");
                m.blocks[at].fill(None);
            }
            79..83 => {
                let range = nvme::io::DsmRange::new(slba, nlb);
                assert_eq!(b.io(Command::deallocate(m.nsid, 1), &bytes(&range)).0, Status::SUCCESS, "{what}");
                let per_page = 4096 / m.size();
                let pages = at.start.div_ceil(per_page)..at.end / per_page;
                if !pages.is_empty() {
                    let nothing = m.nothing();
                    m.blocks[pages.start * per_page..pages.end * per_page].fill(nothing);
                }
            }
            83..91 => {
                // To where it does not overlap, as it is.
                let to = (slba + u64::from(nlb) + rng.below(8)) % SPAN;
                let end = to + u64::from(nlb);
                if end > SPAN || (to < slba + u64::from(nlb) && slba < end) {
                    continue;
                }
                let wide = m.pi.is_some_and(|p| p.guard.bits() > 16);
                let copy = Copy { nsid: m.nsid, sdlba: to, nr: 1, desfmt: u8::from(wide), ..Copy::default() };
                let mut data = Vec::new();
                let source = CopySource { slba, nlb, ..CopySource::default() };
                source.write(copy.desfmt, |bytes| data.extend_from_slice(bytes));
                let (status, _) = b.io(Command::from(copy), &data);
                let copied = m.blocks[at].to_vec();
                if copied.iter().any(Option::is_none) {
                    assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{what}: {status}");
                } else {
                    assert_eq!(status, Status::SUCCESS, "{what}");
                    m.blocks[to as usize..end as usize].clone_from_slice(&copied);
                }
            }
            91..96 => {
                let index = rng.below(formats.len() as u64) as usize;
                m.format = formats[index];
                let pi = if m.format.can_protect() { rng.below(4) as u8 } else { 0 };
                let first = rng.below(2) == 1;
                m.pi = (pi > 0).then_some(Protection {
                    kind: pi,
                    guard: m.format.guard,
                    storage_bits: m.format.storage_bits,
                    storage_mask: u64::MAX,
                    first,
                });
                let (lbaf, ses) = (index as u8, SecureErase::NONE);
                b.admin_ok(FormatNvm { nsid: m.nsid, lbaf, mset: true, pi, pil: first, ses }, &[]);
                m.blocks.fill(None);
                let nothing = m.nothing();
                m.blocks.fill(nothing);
            }
            _ => {
                // The capacitors keep what was completed.
                b.cut(true);
                b.power_on();
                enable(&mut b);
            }
        }
    }
    for m in &models {
        for lba in 0..SPAN {
            m.check(&mut b, lba, 1, lba % 2 == 0, &format!("seed {seed}, the end"));
        }
    }
}

#[test]
fn formats_behave_as_the_model() {
    let rounds = std::env::var("TRANCHE_MODEL_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    for seed in 1..=rounds {
        play(seed, 400);
    }
}
