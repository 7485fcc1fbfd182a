//! Block traces: what a host once did, read line by line and done again.
//!
//! [`Reader`] turns the text of a trace ([`Format`]) into [`Event`]s with bounded memory, [`Replay`] is the actor that does
//! them again: when they were due (open loop, at any speed) or as fast as a depth allows, on namespaces that may be
//! smaller than the devices were. [`recording`] is the format in which this drive writes down what its own hosts do.
//!
//! | [`Format`] | a line | time | source |
//! |---|---|---|---|
//! | `Blktrace` | records of 48 bytes, a file for each processor | ns | blktrace's own files (`linux/blktrace_api.h`, version 7) |
//! | `Blkparse` | `8,0 3 1 0.000000000 697 Q W 223490 + 8 [kjournald]` | seconds | blkparse's default output; one action of it (`Q` or `D`), summaries are ignored |
//! | `Msr` | `128166372003061629,hm,1,Read,2096128,512,6151` | 100 ns | MSR Cambridge traces: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime |
//! | `Alibaba` | `0,R,126703661056,4096,1577808000000046` | µs | Alibaba block traces: device_id,opcode,offset,length,timestamp |
//! | `Tencent` | `1538323199,105352008,584,1,1576` | s | Tencent's block storage (SNIA IOTTA 27917): Timestamp,Offset,Size,IOType,VolumeID; sectors of 512 bytes, 0 reads and 1 writes |
//! | `Systor` | `1456135200.013118000,0.000806,R,4,899056122368,131072` | s | LUN traces of Systor '17 (SNIA IOTTA 4928): Timestamp,Response,IOType,LUN,Offset,Size |
//! | `Ftrace` | `fio-9 [003] ..... 12.345678: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=4, …` | s | `trace_pipe`, `trace-cmd report`, `perf script`: `block_bio_queue`, `block_rq_issue` or `nvme_setup_cmd` |
//! | `Lttng` | `[11:04:05.1] (+0.1) host block_rq_issue: { cpu_id = 1 }, { dev = 8388608, sector = 8, …` | s | `babeltrace`, `babeltrace2`: `block_bio_queue` or `block_rq_issue` |
//! | `DfTracer` | `{"name":"read","cat":"POSIX","ts":1698080324850514,…,"args":{"fname":"/a","ret":4096,…}}` | µs | DFTracer's traces of files, as of MLPerf Storage (DLIO) |
//! | `Twitter` | `0,nz:u:eeW511W3,17,423,12,get,0` | s | Twitter's cache traces: timestamp,key,key size,value size,client,operation,TTL |
//! | `CacheLib` | `op_time,key,op,size,op_count` in the first line, in any order and among others | s | the traces of Meta's CacheLib |
//! | `Iolog2` | `/dev/sda write 4096 8192` | waits, µs | fio's iolog version 2 |
//! | `Iolog3` | `878 /dev/sda write 0 16384` | µs | fio's iolog version 3 |
//! | `Recording` | `1234,1,3,W,4096,8192` | ns | [`recording`] |
//!
//! Times that go back count as the latest one before them, and are counted. A last line that is cut off is left out and told. So are lines
//! that make no sense, up to one in a hundred; in a recording there is none. Compressed data that end too early are an error: nobody knows how much is missing.

mod blkparse;
mod blktrace;
mod dftracer;
mod event;
mod formats;
mod ftrace;
mod keys;
mod line;
mod lttng;
mod reader;
pub mod recording;
mod replay;
mod rwbs;

pub use blktrace::begins as begins_as_blktrace;
pub use event::{Event, Format};
pub use line::Action;
pub use reader::{DEVICES_MAX, LINE_MAX, Reader, TraceError};
pub use replay::{Fold, OUTSTANDING_MAX, Options, Pace, Replay, Space, Speed};

/// What a `fuzz` target calls: any bytes as a trace, which is replayed.
pub fn fuzz(bytes: &[u8]) {
    use workload::{Actor, Next};
    let spaces = [(1, 5000, 512), (2, 100, 4096)].map(|(nsid, blocks, block_bytes)| Space {
        nsid,
        blocks,
        block_bytes,
    });
    for (fold, pace) in [(Fold::Wrap, Pace::Recorded(Speed::ONE)), (Fold::Scatter, Pace::Depth(3))] {
        let Ok(reader) = Reader::new(bytes, None) else { return };
        let Ok(mut replay) =
            Replay::new(reader, Options { pace, fold, devices: Vec::new(), powered: None }, &spaces)
        else {
            return;
        };
        let mut outstanding = std::collections::VecDeque::new();
        let mut now = 0;
        loop {
            match replay.next(now) {
                Next::Submit(request) => {
                    let space = &spaces[usize::from(request.namespace)];
                    let end = request.lba + u64::from(request.blocks);
                    assert!(end <= space.blocks, "beyond the end of the namespace");
                    outstanding.push_back(request.tag);
                    continue;
                }
                Next::At(at) => now = at,
                Next::Wait => assert!(!outstanding.is_empty(), "it waits for nothing"),
                Next::Done => break,
            }
            if let Some(tag) = outstanding.pop_front() {
                replay.completed(now, tag, true);
            }
        }
    }
}
