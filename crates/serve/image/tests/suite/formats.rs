//! Metadata and protection information over TCP, in memory and in an image that is closed and opened again.

use crate::common::shape_with;
use host::{Data, Host, Identity, IoQueue, SocketQueue, SocketTransport};
use live::{Options, Running, Shape};
use nvme::copy::{Copy, CopySource};
use nvme::io::{Blocks, PrInfo};
use nvme::{Command, IoCommand, IoOpcode, Status};
use std::path::Path;
use std::time::Duration;

/// Beside namespace 1, without metadata: 2 with protection information, 3 with metadata in small blocks.
fn shape() -> Shape {
    let mut shape = shape_with("");
    shape.toml.push_str(
        r#"
[[namespace]]
size = "8MiB"
lba = "4096+8"
pi = 1

[[namespace]]
set = 2
size = "2MiB"
lba = "512+8"
"#,
    );
    shape.config = device::Config::from_toml(&shape.toml).unwrap();
    shape
}

struct Bench {
    running: Running,
    host: Host<SocketTransport>,
    queue: IoQueue<SocketQueue>,
}

fn start(shape: Shape) -> Bench {
    bench(Some(shape), None)
}

fn open(image: Option<&Path>) -> Bench {
    let fresh = image.is_none_or(|dir| !dir.exists());
    bench(fresh.then(shape), image)
}

fn bench(shape: Option<Shape>, image: Option<&Path>) -> Bench {
    let tcp = vec!["127.0.0.1:0".into()];
    let options = Options { image: image.map(Path::to_owned), tcp, ..Options::default() };
    let running = live::start(shape, &options, &mut |_| ()).unwrap();
    let addr = format!("tcp://{}", running.tcp().unwrap());
    // Digests cover the metadata, which is in each block's data.
    let digests = image.is_none();
    let transport = SocketTransport::new(addr.parse().unwrap(), Duration::from_secs(20));
    let transport = transport.with_digests(digests, digests);
    let mut identity = Identity::new("nqn.2026-11.test:formats".parse().unwrap());
    identity.subnqn = Some(running.handle().subsystem_nqn().parse().unwrap());
    let mut host = Host::connect(transport, &identity).unwrap();
    let queue = host.io_queue(32).unwrap();
    Bench { running, host, queue }
}

impl Bench {
    fn call(&mut self, command: Command, data: Data) -> (Status, Vec<u8>) {
        let done = self.queue.call(command, data).unwrap();
        (done.completion.status(), done.data.into_buffer())
    }

    fn write(&mut self, blocks: Blocks, data: &[u8]) -> Status {
        self.call(blocks.encode(IoOpcode::WRITE), Data::Out(data.to_vec())).0
    }

    fn read(&mut self, blocks: Blocks, bytes: usize) -> (Status, Vec<u8>) {
        self.call(blocks.encode(IoOpcode::READ), Data::In(vec![0xEE; bytes]))
    }

    /// Everything that [`fill`](Bench::fill) wrote.
    fn look(&mut self) {
        // Stripped, and whole.
        let (status, data) = self.read(protected(3, 40, 8 | 7), 40 * 4096);
        assert!(status.is_success() && data == pattern(1, 40 * 4096), "{status}");
        let (status, data) = self.read(protected(3, 40, 7), 40 * 4104);
        assert!(status.is_success(), "{status}");
        for (i, block) in data.chunks(4104).enumerate() {
            assert_eq!(block[..4096], pattern(1, 40 * 4096)[i * 4096..(i + 1) * 4096]);
            assert_eq!(block[4100..], (3 + i as u32).to_be_bytes());
        }
        // Some that hold nothing among others.
        let (status, data) = self.read(protected(0, 6, 7), 6 * 4104);
        assert!(status.is_success() && data[4096..4104] == [0xFF; 8], "{status}");
        let wrong = Blocks { lbat: 1, lbatm: 1, ..protected(5, 1, 8 | 2) };
        assert!(self.read(wrong, 4096).0.is(Status::APPLICATION_TAG_CHECK_ERROR));
        let (status, data) = self.read(Blocks::new(3, 5, 20), 20 * 520);
        assert!(status.is_success() && data == pattern(2, 20 * 520), "{status}");
        // Marks, in a namespace that had nothing beside its pages.
        assert!(self.read(Blocks::new(1, 9, 1), 4096).0.is(Status::UNRECOVERED_READ_ERROR));
        assert_eq!(self.read(Blocks::new(1, 8, 1), 4096), (Status::SUCCESS, pattern(3, 4096)));
        let (status, data) = self.read(protected(100, 4, 8 | 7), 4 * 4096);
        assert!(status.is_success() && data == pattern(1, 40 * 4096)[4096..5 * 4096], "{status}");
    }

    fn fill(&mut self) {
        assert_eq!(self.write(protected(3, 40, 8), &pattern(1, 40 * 4096)), Status::SUCCESS);
        assert_eq!(self.write(Blocks::new(3, 5, 20), &pattern(2, 20 * 520)), Status::SUCCESS);
        for lba in 8..11 {
            assert_eq!(self.write(Blocks::new(1, lba, 1), &pattern(3, 4096)), Status::SUCCESS);
        }
        let mark = IoCommand::WriteUncorrectable(Blocks::new(1, 9, 1));
        assert_eq!(self.call(mark.into(), Data::None).0, Status::SUCCESS);
        let mut source = Vec::new();
        let range = CopySource { slba: 4, nlb: 4, lbtl: 4, ..CopySource::default() };
        range.write(0, |bytes| source.extend_from_slice(bytes));
        let (prinfor, prinfow) = (PrInfo::from_nibble(8 | 5), PrInfo::from_nibble(8));
        let copy = Copy { nsid: 2, sdlba: 100, nr: 1, prinfor, prinfow, lbtl: 100, ..Copy::default() };
        assert_eq!(self.call(copy.into(), Data::Out(source)).0, Status::SUCCESS);
        // What does not fit is refused, and changes nothing.
        let (_, mut data) = self.read(protected(3, 40, 0), 40 * 4104);
        data[30 * 4104 + 100] ^= 1;
        assert!(self.write(protected(3, 40, 7), &data).is(Status::GUARD_CHECK_ERROR));
    }
}

fn protected(slba: u64, nlb: u32, prinfo: u8) -> Blocks {
    Blocks { prinfo: PrInfo::from_nibble(prinfo), lbtl: slba as u32, ..Blocks::new(2, slba, nlb) }
}

fn pattern(seed: u32, bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed as u8).collect()
}

#[test]
fn ahost_that_leaves_protection_information_to_the_drive() {
    let mut bench = open(None);
    let namespace = bench.host.namespace(2).unwrap();
    assert_eq!((namespace.block_size, namespace.protection), (4096, 1));
    let data = pattern(7, 3 << 20);
    bench.queue.write(&namespace, 5, &data, false).unwrap();
    bench.queue.compare(&namespace, 5, &data).unwrap();
    let mut back = vec![0; data.len()];
    bench.queue.read(&namespace, 5, &mut back).unwrap();
    assert!(back == data);
    bench.queue.write_zeroes(&namespace, 5, 1, false).unwrap();
    bench.queue.read(&namespace, 5, &mut back[..4096]).unwrap();
    assert!(back[..4096].iter().all(|&b| b == 0));
    let other = bench.host.namespace(3).unwrap_err();
    assert!(other.to_string().contains("metadata"), "{other}");
}

#[test]
fn in_memory() {
    let mut bench = open(None);
    bench.fill();
    bench.look();
    // What was written in part.
    assert_eq!(bench.write(Blocks::new(3, 10, 1), &pattern(2, 20 * 520)[5 * 520..6 * 520]), Status::SUCCESS);
    bench.look();
}

#[test]
fn in_an_image() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("image");
    let mut bench = open(Some(&dir));
    bench.fill();
    bench.look();
    let Bench { running, .. } = bench;
    running.stop();
    let mut bench = open(Some(&dir));
    bench.look();
    bench.running.stop();
    // Images of version 1 have no spare bytes.
    std::fs::remove_file(dir.join("spares")).unwrap();
    let mut bench = open(Some(&dir));
    assert_eq!(bench.read(Blocks::new(1, 8, 1), 4096), (Status::SUCCESS, pattern(3, 4096)));
}

/// Zeros with deallocation that begin and end within pages, in namespaces of small blocks: plain, with metadata, and with protection
/// information that the drive inserts.
#[test]
fn deallocated_parts_of_pages_keep_their_neighbours() {
    for (lba, pi) in [("512", 0), ("512+8", 0), ("512+8", 1), ("512+8", 2), ("512+8", 3)] {
        let mut shape = shape_with("");
        shape.toml.push_str(&format!("\n[[namespace]]\nsize = \"8MiB\"\nlba = \"{lba}\"\npi = {pi}\n"));
        shape.config = device::Config::from_toml(&shape.toml).unwrap();
        let mut bench = start(shape);
        // The drive inserts protection information, and checks and strips it; other metadata is the host's.
        let pract = if pi > 0 { 8 } else { 0 };
        let size = if lba == "512+8" && pi == 0 { 520 } else { 512 };
        for (first, count) in [(3, 8), (3, 13), (3, 26), (8, 13), (5, 11), (7, 1), (0, 16), (15, 34)] {
            let data = pattern(first as u32, 64 * size);
            assert_eq!(bench.write(protected(0, 64, pract), &data), Status::SUCCESS);
            let zeroes = Blocks { deac: true, ..protected(first, count, pract) };
            assert_eq!(bench.call(zeroes.encode(IoOpcode::WRITE_ZEROES), Data::None).0, Status::SUCCESS);
            let check = if pi > 0 { pract | 7 & !u8::from(pi == 3) } else { 0 };
            for block in 0..64 {
                let (status, read) = bench.read(protected(block, 1, check), size);
                let inside = (first..first + u64::from(count)).contains(&block);
                let at = block as usize * size;
                assert!(status.is_success(), "{lba}, type {pi}, {first}+{count}, block {block}: {status}");
                let expected = if inside { vec![0; size] } else { data[at..at + size].to_vec() };
                assert!(read == expected, "{lba}, type {pi}, {first}+{count}, block {block}");
            }
        }
    }
}
