//! Block traces: what a host once did, read line by line and done again.
//!
//! [`Reader`] turns the text of a trace ([`Format`]) into [`Event`]s with bounded memory, [`Replay`] is the actor that does
//! them again: when they were due (open loop, at any speed) or as fast as a depth allows, on namespaces that may be
//! smaller than the devices were. [`recording`] is the format in which this drive writes down what its own hosts do.
//!
//! | [`Format`] | a line | time | source |
//! |---|---|---|---|
//! | `Blkparse` | `8,0 3 1 0.000000000 697 Q W 223490 + 8 [kjournald]` | seconds | blkparse's default output; one action of it (`Q` or `D`), the summary at its end is ignored |
//! | `Msr` | `128166372003061629,hm,1,Read,2096128,512,6151` | 100 ns | MSR Cambridge traces: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime |
//! | `Alibaba` | `0,R,126703661056,4096,1577808000000046` | µs | Alibaba block traces: device_id,opcode,offset,length,timestamp |
//! | `Tencent` | `1538323199,105352008,584,1,1576` | s | Tencent's block storage (SNIA IOTTA 27917): Timestamp,Offset,Size,IOType,VolumeID; sectors of 512 bytes, 0 reads and 1 writes |
//! | `Systor` | `1456135200.013118000,0.000806,R,4,899056122368,131072` | s | LUN traces of Systor '17 (SNIA IOTTA 4928): Timestamp,Response,IOType,LUN,Offset,Size |
//! | `Iolog2` | `/dev/sda write 4096 8192` | waits, µs | fio's iolog version 2 |
//! | `Iolog3` | `878 /dev/sda write 0 16384` | µs | fio's iolog version 3 |
//! | `Recording` | `1234,1,3,W,4096,8192` | ns | [`recording`] |
//!
//! Times that go back count as the latest one before them, and are counted. A last line that is cut off is left out and told.
//! Compressed data that end too early are an error: nobody knows how much is missing.

mod event;
mod formats;
mod reader;
pub mod recording;
mod replay;

pub use event::{Event, Format};
pub use reader::{DEVICES_MAX, LINE_MAX, Reader, TraceError};
pub use replay::{Fold, OUTSTANDING_MAX, Options, Pace, Replay, Space, Speed};

/// What a `fuzz` target calls: any bytes as a trace, which is replayed.
pub fn fuzz(bytes: &[u8]) {
    use crate::{Actor, Next};
    let spaces = [(1, 5000, 512), (2, 100, 4096)].map(|(nsid, blocks, block_bytes)| Space {
        nsid,
        blocks,
        block_bytes,
    });
    for (fold, pace) in [(Fold::Wrap, Pace::Recorded(Speed::ONE)), (Fold::Scatter, Pace::Depth(3))] {
        let Ok(reader) = Reader::new(bytes, None, None) else { return };
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
