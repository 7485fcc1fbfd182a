//! Traces: read, refused, cut off, replayed.

use load_formats::trace::{
    Action, Event, Fold, Format, Options, Pace, Reader, Replay, Space, Speed, fuzz, recording,
};
use std::io::{BufRead, BufReader, Read};
use workload::{Actor, Nanos, Next, Request, Verb};

fn all(text: &[u8], format: Option<Format>) -> (Vec<Event>, Reader<&[u8]>) {
    let mut reader = Reader::new(text, format).unwrap();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    assert!(reader.next_event().unwrap().is_none(), "it stays at its end");
    (events, reader)
}

fn event(at: Nanos, device: u32, verb: Verb, offset: u64, bytes: u64) -> Event {
    Event { at, device, verb, offset, bytes }
}

const BLKPARSE: &str = "\
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  P   R [kjournald]
  8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]
  8,16   1        4     1.500000000   698  Q  RA 0 + 256 [a b]
  8,0    3        5     0.000005333   697  m   N cfq697 insert_request
  8,0    3        6     1.500000001   697  D   W 223490 + 8 [kjournald]
  8,0    3        7     1.600000000   697  Q  DS 16 + 8 [fstrim]
  8,0    3        8     1.600000000   697  Q FWS [sync]
  8,0    3        9     1.700000000   697  Q FWFS 8 + 8 [sync]
  8,0    3       10     1.400000000   697  C   W 223490 + 8 [0]
  8,0    3       11     1.650000000   697  Q   W 0 + 1 [x]
CPU3 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
Total (8,0):
";

#[test]
fn blkparse() {
    let (events, reader) = all(BLKPARSE.as_bytes(), None);
    assert_eq!(
        events,
        [
            event(2_197, 0, Verb::Write, 223_490 * 512, 4096),
            event(1_500_000_000, 1, Verb::Read, 0, 131_072),
            event(1_600_000_000, 0, Verb::Trim, 8192, 4096),
            event(1_600_000_000, 0, Verb::Flush, 0, 0),
            event(1_700_000_000, 0, Verb::Flush, 0, 0),
            event(1_700_000_000, 0, Verb::WriteFua, 4096, 4096),
            event(1_700_000_000, 0, Verb::Write, 0, 512),
        ]
    );
    assert_eq!(reader.devices(), ["8,0", "8,16"]);
    assert_eq!((reader.format(), reader.reordered(), reader.ignored()), (Format::Blkparse, 1, 5));
    assert_eq!(reader.of_other_action(), 1);
    let issued = Reader::new(BLKPARSE.as_bytes(), None).unwrap();
    let mut issued = issued.with_action(Some(Action::Issued));
    assert_eq!(issued.next_event().unwrap(), Some(event(1_500_000_001, 0, Verb::Write, 223_490 * 512, 4096)));
    assert_eq!(issued.next_event().unwrap(), None);
}

#[test]
fn csv() {
    let msr = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
               128166372003061629,hm,1,Read,2096128,512,6151\r\n128166372003061630,hm,0,Write,0,4096,1\n\n\
               128166372003061631,hm,1,Write,512,0,1\n";
    let (events, reader) = all(msr.as_bytes(), None);
    let second = event(12_816_637_200_306_163_000, 1, Verb::Write, 0, 4096);
    assert_eq!(events, [event(12_816_637_200_306_162_900, 0, Verb::Read, 2_096_128, 512), second]);
    assert_eq!(reader.devices(), ["hm.1", "hm.0"]);
    assert_eq!((reader.format(), reader.lines(), reader.ignored()), (Format::Msr, 5, 1));
    let alibaba = "0,R,126703661056,4096,1577808000000046\n1,W,19496058880,77824,1577808000000426\n";
    let (events, reader) = all(alibaba.as_bytes(), None);
    assert_eq!(events[0], event(1_577_808_000_000_046_000, 0, Verb::Read, 126_703_661_056, 4096));
    assert_eq!(events[1], event(1_577_808_000_000_426_000, 1, Verb::Write, 19_496_058_880, 77_824));
    assert_eq!((reader.format(), reader.cut()), (Format::Alibaba, None));
    let headed = format!("device_id,opcode,offset,length,timestamp\n{alibaba}");
    assert_eq!(all(headed.as_bytes(), None).0, events);
}

#[test]
fn tencent_and_systor() {
    let tencent = "1538323199,105352008,584,1,1576\n1538323199,8,8,0,1577\n1538323200,0,0,0,1576\n";
    let (events, reader) = all(tencent.as_bytes(), None);
    let second = 1_000_000_000;
    assert_eq!(
        events,
        [
            event(1_538_323_199 * second, 0, Verb::Write, 105_352_008 * 512, 584 * 512),
            event(1_538_323_199 * second, 1, Verb::Read, 4096, 4096),
        ]
    );
    assert_eq!(reader.devices(), ["1576", "1577"]);
    assert_eq!((reader.format(), reader.ignored(), reader.reordered()), (Format::Tencent, 1, 0));
    let headed = format!("Timestamp,Offset,Size,IOType,VolumeID\n{tencent}");
    assert_eq!(all(headed.as_bytes(), None).0, events);

    let systor = "Timestamp,Response,IOType,LUN,Offset,Size\n1456135200.013118000,0.000806,R,4,899056122368,131072\r\n\
                  1456135200.013120000,,,4,0,4096\n1456135200.5,0.1,W,6,512,1024\n";
    let (events, reader) = all(systor.as_bytes(), None);
    assert_eq!(
        events,
        [
            event(1_456_135_200_013_118_000, 0, Verb::Read, 899_056_122_368, 131_072),
            event(1_456_135_200_500_000_000, 1, Verb::Write, 512, 1024),
        ]
    );
    assert_eq!(reader.devices(), ["4", "6"]);
    assert_eq!((reader.format(), reader.ignored()), (Format::Systor, 1));
    let bare = systor.split_once('\n').unwrap().1;
    assert_eq!(all(bare.as_bytes(), None).0, events);
    assert_eq!(Format::detect("1456135200.013120000,,,4,0,4096"), Some(Format::Systor));
}

#[test]
fn a_format_is_known_by_what_only_it_has() {
    // Device 1 reads, and a volume's time is 1: neither is the other's.
    assert_eq!(Format::detect("1,R,0,1,1"), Some(Format::Alibaba));
    assert_eq!(Format::detect("1,0,8,1,1"), Some(Format::Tencent));
    assert_eq!(Format::detect("device_id,opcode,offset,length,timestamp"), Some(Format::Alibaba));
    for format in Format::ALL {
        assert_eq!(Format::named(format.name()), Some(format));
    }
    assert_eq!(Format::named("csv"), None);
    // Who says what it is gets that, or what is wrong with it.
    let mut forced = Reader::new(&b"1,0,8,1,1\n"[..], Some(Format::Alibaba)).unwrap();
    let error = forced.next_event().unwrap_err().to_string();
    assert!(error.contains("opcode is \"0\""), "{error}");
}

/// What `tranche.fleet.samples` of the Python package writes: the same events in four forms.
#[test]
fn the_samples_are_of_the_same_events() {
    let sample = |text: &str| {
        let (events, reader) = all(text.as_bytes(), None);
        (events, reader.format(), reader.devices().len())
    };
    let (alibaba, format, devices) = sample(include_str!("../traces/alibaba.csv"));
    assert_eq!((format, devices), (Format::Alibaba, 2));
    assert!(alibaba.len() > 50 && alibaba.iter().any(|e| e.verb == Verb::Read));
    // Each form has its own origin and unit of time.
    let same = |events: Vec<Event>, unit: Nanos| {
        assert_eq!(events.len(), alibaba.len());
        for (one, other) in events.iter().zip(&alibaba) {
            let since = other.at - alibaba[0].at;
            assert_eq!(*one, Event { at: events[0].at + since / unit * unit, ..*other });
        }
    };
    for (text, format, unit) in [
        (include_str!("../traces/msr.csv"), Format::Msr, 1),
        (include_str!("../traces/systor.csv"), Format::Systor, 1),
        (include_str!("../traces/tencent.csv"), Format::Tencent, 1_000_000_000),
    ] {
        let (events, found, devices) = sample(text);
        assert_eq!((found, devices), (format, 2));
        same(events, unit);
    }
}

#[test]
fn lttng() {
    let text = include_str!("../data/lttng.txt");
    let (events, reader) = all(text.as_bytes(), None);
    let at = |micros: u64| 86_399_000_000_000 + 999_000_000 + micros * 1000;
    assert_eq!(
        events,
        [
            event(at(0), 0, Verb::Write, 1 << 20, 4096),
            // Behind midnight.
            event(at(2000), 1, Verb::Read, 0, 131_072),
            event(at(3000), 0, Verb::Flush, 0, 0),
            event(at(3000), 0, Verb::WriteFua, 32_768, 4096),
            event(at(4000), 0, Verb::Trim, 65_536, 32_768),
            event(at(5000), 0, Verb::Flush, 0, 0),
        ]
    );
    assert_eq!((reader.format(), reader.devices().join(" ")), (Format::Lttng, "8,0 259,1".to_owned()));
    assert_eq!((reader.action(), reader.of_other_action()), (Some(Action::Issued), 1));
    let mut queued = Reader::new(text.as_bytes(), None).unwrap().with_action(Some(Action::Queued));
    assert_eq!(queued.next_event().unwrap(), Some(event(at(500), 0, Verb::Write, 1 << 20, 4096)));
    assert_eq!(queued.next_event().unwrap(), None);
    // Other clocks of babeltrace's.
    for (clock, nanos) in
        [("1698080324.850514000", 1_698_080_324_850_514_000), ("2026-11-29 00:00:01.5", 1_500_000_000)]
    {
        let line = format!(
            "[{clock}] (+0.1) h block_rq_issue: {{ cpu_id = 1 }}, {{ dev = 1, sector = 1, nr_sector = 1, rwbs = 4 }}\n"
        );
        assert_eq!(all(line.as_bytes(), None).0, [event(nanos, 0, Verb::Read, 512, 512)]);
    }
}

#[test]
fn dftracer() {
    let (events, reader) = all(include_str!("../data/dftracer.pfw").as_bytes(), None);
    let at = |n: u64| 1_698_080_324_850_000_000 + n * 100_000;
    // A hash is a name, too, and its file lies somewhere else than that of the file's name.
    let (one, other) = (events[0].offset, events[5].offset);
    assert_eq!(
        events,
        [
            event(at(2), 0, Verb::Read, one, 131_072),
            event(at(3), 0, Verb::Read, one + 131_072, 4096),
            event(at(6), 0, Verb::Write, one + 512, 512),
            event(at(7), 0, Verb::Read, one + 8192, 4096),
            event(at(8), 0, Verb::Flush, 0, 0),
            event(at(11), 0, Verb::Read, other, 4096),
            event(at(13), 0, Verb::Write, other + 4096 + 1024, 512),
        ]
    );
    assert!(one != other && one % 4096 == 0 && reader.devices() == ["files"]);
    assert_eq!((reader.format(), reader.unknown().0), (Format::DfTracer, 0));
}

#[test]
fn iologs() {
    let two = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 4096 8192\n/dev/sda wait 150 0\n\
               /dev/sda read 0 512\n/dev/sda datasync 0 0\n/dev/sda trim 512 512\n/dev/sda close\n";
    let (events, reader) = all(two.as_bytes(), None);
    let late = |verb, offset, bytes| event(150_000, 0, verb, offset, bytes);
    assert_eq!(
        events,
        [
            event(0, 0, Verb::Write, 4096, 8192),
            late(Verb::Read, 0, 512),
            late(Verb::Flush, 0, 0),
            late(Verb::Trim, 512, 512)
        ]
    );
    assert_eq!((reader.format(), reader.devices()), (Format::Iolog2, &["/dev/sda".to_owned()][..]));
    let three = "fio version 3 iolog\n2 a add\n872 a open\n878 a write 0 16384\n888 b sync 0 0\n";
    let (events, reader) = all(three.as_bytes(), None);
    assert_eq!(events, [event(878_000, 0, Verb::Write, 0, 16_384), event(888_000, 1, Verb::Flush, 0, 0)]);
    assert_eq!(reader.format(), Format::Iolog3);
}

#[test]
fn a_recording_reads_as_it_was_written() {
    let copy = |from, fua| Verb::Copy { from, fua };
    let verbs = [
        [Verb::Read, Verb::Write, Verb::Trim, Verb::Flush],
        [Verb::ReadFua, Verb::WriteFua, copy(4096, false), copy(u64::MAX / 2, true)],
    ];
    let entries: Vec<recording::Entry> = verbs
        .into_iter()
        .flatten()
        .zip(0..)
        .map(|(verb, n)| recording::Entry {
            at: n * 7,
            nsid: 3,
            queue: 1,
            verb,
            offset: n << 40,
            bytes: 512 * n,
        })
        .collect();
    let mut text = format!("{}\n", recording::HEAD).into_bytes();
    for entry in &entries {
        entry.write(&mut text).unwrap();
    }
    let (events, reader) = all(&text, None);
    let same = |(a, b): (&recording::Entry, &Event)| {
        (a.at, a.verb, a.offset, a.bytes) == (b.at, b.verb, b.offset, b.bytes)
    };
    assert!(events.len() == 8 && entries.iter().zip(&events).all(same), "{events:?}");
    assert_eq!((reader.format(), reader.devices()), (Format::Recording, &["3".to_owned()][..]));
    // The first four are what there was in version 1, and version 2 had no remarks.
    for head in [recording::HEAD_1, recording::HEAD_2] {
        let before = String::from_utf8(text.clone()).unwrap().replacen(recording::HEAD, head, 1);
        assert_eq!(all(before.as_bytes(), None).0, events);
    }
    // Remarks are no events.
    let of =
        |of, host| recording::Latencies { nsid: 3, of, host, count: 5, sum: 50, max: 30, p50: 9, p99: 31 };
    let latencies =
        [of(recording::CommandClass::Reads, false), of(recording::CommandClass::Deallocates, true)];
    let mut remarked = [&text[..], b"# whatever\n"].concat();
    latencies[0].write(&mut remarked).unwrap();
    remarked.extend(b"9000,3,1,R,0,512\n");
    latencies[1].write(&mut remarked).unwrap();
    let (more, reader) = all(&remarked, None);
    assert_eq!((more.len(), reader.latencies(), latencies[0].mean()), (9, &latencies[..], Some(10)));
    // Wherever it is cut, what came before is there.
    for end in recording::HEAD.len() + 1..text.len() {
        let (some, reader) = all(&text[..end], None);
        assert_eq!(some, events[..some.len()]);
        assert_eq!(reader.cut().is_some(), text[end - 1] != b'\n', "{end}");
        assert_eq!(some.len() + 1, text[..end].iter().filter(|&&b| b == b'\n').count());
    }
}

#[test]
fn what_is_wrong_and_where() {
    let wrong = |text: &str, what: &[&str]| {
        let error = match Reader::new(text.as_bytes(), None) {
            Err(error) => error,
            Ok(mut reader) => loop {
                match reader.next_event() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{text:?} is all right"),
                    Err(error) => break error,
                }
            },
        };
        let error = error.to_string();
        assert!(what.iter().all(|what| error.contains(what)), "{error}");
    };
    wrong("", &["line 1", "empty"]);
    wrong("\n\nwhat is this\n", &["line 3", "no trace that is known", "blkparse"]);
    let alibaba = |line: &str, what: &[&str]| wrong(&format!("0,R,0,4096,1\n{line}\n0,R,0,4096,1\n"), what);
    alibaba("0,X,0,4096,1", &["line 2", "opcode is \"X\"", "R or W"]);
    alibaba("0,R,0,4096", &["line 2", "4 fields", "must be 5", "device_id,opcode,offset"]);
    alibaba("0,R,-1,4096,1", &["line 2", "offset is \"-1\""]);
    alibaba("0,R,18446744073709551615,4096,1", &["line 2", "beyond the largest address"]);
    alibaba("0,R,0,4294967296,1", &["line 2", "4294967296 bytes"]);
    alibaba(&"9".repeat(5000), &["line 2", "longer than 4096"]);
    alibaba(&format!("{},R,0,4096,1", "1".repeat(300)), &["line 2", "the device"]);
    wrong("1,hm,1,Read,0,512,1\n1,hm,1,read,0,512,1\n", &["line 2", "Read or Write"]);
    let tencent = |line: &str, what: &[&str]| wrong(&format!("1,0,8,1,1\n{line}\n"), what);
    tencent("1,0,8,2,1", &["line 2", "IOType is \"2\"", "0 (read) or 1 (write)"]);
    tencent("1,0,8,R", &["line 2", "4 fields", "Timestamp,Offset,Size"]);
    tencent("1,99999999999999999,8,1,1", &["line 2", "more than there can be"]);
    tencent("x,0,8,1,1", &["line 2", "the time is \"x\""]);
    tencent("1,0,8,1,a", &["line 2", "the volume"]);
    let systor = |line: &str, what: &[&str]| wrong(&format!("1.5,0.1,R,4,0,512\n{line}\n"), what);
    systor("1.5,0.1,read,4,0,512", &["line 2", "R, W or empty"]);
    systor("1.5,0.1,R,4,0", &["line 2", "5 fields", "Timestamp,Response,IOType"]);
    systor("1.5,0.1,R,a,0,512", &["line 2", "the LUN"]);
    let blkparse = |line: &str, what: &[&str]| wrong(&format!("8,0 1 1 0.5 1 Q W 0 + 8 [x]\n{line}\n"), what);
    blkparse("8;0 1 1 0.5 1 Q W 0 + 8", &["line 2", "no device", "MAJOR,MINOR"]);
    blkparse("8,0 1 1 0.1234567890 1 Q W 0 + 8", &["line 2", "nine digits"]);
    blkparse("8,0 1 1 0.5 1 Q W 0 - 8", &["line 2", "no +"]);
    blkparse("8,0 1 1 0.5 1 Q W 99999999999999999 + 8", &["line 2", "more than there can be"]);
    blkparse("8,0 1 1 0.5", &["line 2", "process is missing"]);
    blkparse("8,0 1 1 0.5 1 Q w 0 + 8", &["line 2", "letters R, W"]);
    let lttng = |fields: &str, what: &[&str]| {
        let line = |at: &str, fields: &str| {
            format!("[{at}] (+0.1) h block_rq_issue: {{ cpu_id = 1 }}, {{ {fields} }}\n")
        };
        wrong(
            &(line("10:00:00.1", "dev = 1, sector = 1, nr_sector = 1, rwbs = 4")
                + &line("10:00:00.2", fields)),
            what,
        );
    };
    lttng("dev = 1, sector = 1, nr_sector = 1", &["line 2", "no rwbs"]);
    lttng("dev = 1, sector = -1, nr_sector = 1, rwbs = 4", &["line 2", "the sector is", "-1"]);
    wrong("[10:00:00.1] h e: { cpu_id = 1 }\n[10:61:00.1] h e: { cpu_id = 1 }\n", &["line 2", "HH:MM:SS"]);
    wrong("[10:00:00.1] h e: { cpu_id = 1 }\n[10:00:00.1] h\n", &["line 2", "no event"]);
    let read = |args: &str| {
        format!("[\n{{\"name\":\"read\",\"cat\":\"POSIX\",\"ts\":1,\"ph\":\"X\",\"args\":{{{args}}}}}\n")
    };
    wrong(&read(""), &["line 2", "fname or fhash"]);
    wrong(&read("\"fname\":\"/a\",\"fd\":1"), &["line 2", "no \"ret\"", "without its arguments"]);
    wrong(&read("\"fname\":\"/a\",\"fd\":1,\"ret\":\"x\""), &["line 2", "no number"]);
    wrong("fio version 2 iolog\na jump 0 0\n", &["line 2", "\"jump\"", "datasync"]);
    wrong("fio version 2 iolog\na sync_file_range 0 0\nb\n", &["line 3", "the action is \"\""]);
    wrong("fio version 3 iolog\n1 a wait 5\n", &["line 2", "\"wait\""]);
    wrong("fio version 3 iolog\n1 a read 5 x\n", &["line 2", "the length is \"x\""]);
    wrong(&format!("{}\n1,2,3,Q,0,0\n", recording::HEAD), &["line 2", "R, RF, W, WF, T, F, C or CF"]);
    wrong(&format!("{}\n1,2,3,R,0\n", recording::HEAD), &["line 2", "six fields"]);
    wrong(&format!("{}\n# latency,1,reads,drive,1,1,1,1\n", recording::HEAD), &["line 2", "eight fields"]);
    wrong(
        &format!("{}\n# latency,1,copies,drive,1,1,1,1,1\n", recording::HEAD),
        &["line 2", "reads, writes"],
    );
    wrong(&format!("{}\n1,2,3,C,0,512\n", recording::HEAD), &["line 2", "seventh field"]);
    wrong(&format!("{}\n1,2,3,W,0,512,0\n", recording::HEAD), &["line 2", "six fields"]);
    wrong(&format!("{}\n1,2,3,C,0,512,{}\n", recording::HEAD, u64::MAX), &["line 2", "largest address"]);
    wrong(&format!("{}\n1,2,3,C,0,2000000000,0\n", recording::HEAD), &["line 2", "more than"]);
    let other = Reader::new(&b"0,R,0,4096,1\n"[..], Some(Format::Iolog2)).unwrap_err().to_string();
    assert!(other.contains("starts with \"fio version 2 iolog\""), "{other}");
}

/// Ends as compressed data does that was cut.
#[derive(Debug)]
struct Cut<'a>(&'a [u8]);

impl Read for Cut<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => Ok(n),
        }
    }
}

#[test]
fn a_trace_that_is_cut_keeps_what_came_before() {
    let (events, reader) = all(b"0,R,0,4096,1\n0,W,8192,4096,2\n0,R,0,40", None);
    assert_eq!((events.len(), reader.cut()), (2, Some(3)));
    // One that may be whole is.
    let (events, reader) = all(b"0,R,0,4096,1\n0,W,8192,4096,2", None);
    assert_eq!((events.len(), reader.cut()), (2, None));
}

#[test]
fn compressed_data_that_end_too_early_are_an_error() {
    for text in ["0,R,0,4096,1\n0,W,8192,4096,2", "0,R,0,4096,1\n"] {
        let mut reader = Reader::new(BufReader::new(Cut(text.as_bytes())), None).unwrap();
        assert!(reader.next_event().unwrap().is_some(), "what came before counts");
        let error = reader.next_event().unwrap_err();
        assert!(error.line == 2 && error.problem.contains("a part of it is missing"), "{error}");
        // It is told once, and is no text that was cut.
        assert_eq!((reader.next_event(), reader.cut()), (Ok(None), None));
    }
    for text in ["", "0,R,0,40"] {
        let error = Reader::new(BufReader::new(Cut(text.as_bytes())), None).unwrap_err();
        assert!(error.line == 1 && error.problem.contains("the compressed data end here"), "{error}");
    }
}

struct ReplayRun {
    issued: Vec<(Nanos, Request)>,
    deepest: usize,
}

fn run<R: BufRead>(replay: &mut Replay<R>, latency: Nanos) -> ReplayRun {
    let mut outstanding = std::collections::VecDeque::new();
    let (mut now, mut issued, mut deepest) = (500, Vec::new(), 0);
    loop {
        let wake = match replay.next(now) {
            Next::Submit(request) => {
                assert!(outstanding.iter().all(|(_, tag)| *tag != request.tag));
                outstanding.push_back((now + latency, request.tag));
                deepest = deepest.max(outstanding.len());
                issued.push((now - 500, request));
                continue;
            }
            Next::Done => return ReplayRun { issued, deepest },
            Next::At(at) => at,
            Next::Wait => Nanos::MAX,
        };
        match outstanding.front().copied() {
            Some((done, tag)) if done <= wake => {
                outstanding.pop_front();
                now = now.max(done);
                replay.completed(now, tag, true);
            }
            _ => now = wake,
        }
    }
}

fn replay(text: &str, options: Options, spaces: &[Space]) -> Replay<BufReader<std::io::Cursor<Vec<u8>>>> {
    let input = BufReader::new(std::io::Cursor::new(text.as_bytes().to_vec()));
    Replay::new(Reader::new(input, None).unwrap(), options, spaces).unwrap()
}

const SPACES: [Space; 2] =
    [Space { nsid: 7, blocks: 1024, block_bytes: 4096 }, Space { nsid: 8, blocks: 64, block_bytes: 512 }];
const TRACE: &str =
    "5,R,0,4096,100\n6,W,512,1024,200\n5,W,4097,4096,300\n5,R,4194304,8192,400\n7,R,0,99999999,500\n";

fn options(pace: Pace) -> Options {
    Options { pace, fold: Fold::Wrap, devices: Vec::new(), powered: None }
}

#[test]
fn open_loop_at_any_speed() {
    for (millionths, scale) in [(1_000_000, 1000), (2_000_000, 500), (250_000, 4000)] {
        let speed = Speed::from_millionths(millionths).unwrap();
        let mut replay = replay(TRACE, options(Pace::Recorded(speed)), &SPACES);
        // However long requests take.
        let ran = run(&mut replay, 1_000_000);
        let at: Vec<Nanos> = ran.issued.iter().map(|(at, _)| *at).collect();
        assert_eq!(at, [0, 100, 200, 300, 400].map(|us| us * scale));
        let places: Vec<_> = ran.issued.iter().map(|(_, r)| (r.namespace, r.lba, r.blocks)).collect();
        // The third begins within a block, the fourth beyond the end, the last is larger than the namespace.
        assert_eq!(places, [(0, 0, 1), (1, 1, 2), (0, 1, 2), (0, 0, 2), (0, 0, 1024)]);
        assert_eq!((replay.events(), replay.folded(), replay.late()), (5, 2, 0));
    }
    assert_eq!(Speed::from_millionths(0), None);
}

#[test]
fn as_fast_as_a_depth_allows() {
    let ran = run(&mut replay(TRACE, options(Pace::Depth(2)), &SPACES), 1000);
    let at: Vec<Nanos> = ran.issued.iter().map(|(at, _)| *at).collect();
    assert_eq!((at, ran.deepest), (vec![0, 0, 1000, 1000, 2000], 2));
}

#[test]
fn named_devices_go_where_they_are_told() {
    let devices = vec![("5".to_owned(), 1), ("7".to_owned(), 0)];
    let mut replay = replay(TRACE, Options { devices, ..options(Pace::Depth(1)) }, &SPACES);
    let ran = run(&mut replay, 10);
    let namespaces: Vec<u16> = ran.issued.iter().map(|(_, r)| r.namespace).collect();
    assert_eq!((namespaces, replay.left_out()), (vec![1, 1, 1, 0], 1));
    let reader = || Reader::new(TRACE.as_bytes(), None).unwrap();
    let unknown = Options { devices: vec![("5".to_owned(), 2)], ..options(Pace::Depth(1)) };
    assert!(Replay::new(reader(), unknown, &SPACES).unwrap_err().contains("namespace 2"));
    assert!(Replay::new(reader(), options(Pace::Depth(1)), &[]).is_err());
    assert!(
        Replay::new(reader(), options(Pace::Depth(1)), &[Space { nsid: 1, blocks: 0, block_bytes: 512 }])
            .is_err()
    );
}

#[test]
fn scattered_extents_keep_their_insides() {
    let space = [Space { nsid: 1, blocks: 64 << 11, block_bytes: 512 }];
    let line =
        |device: u64, mib: u64, sector: u64| format!("{device},W,{},512,1\n", (mib << 20) + sector * 512);
    let text: String = (0..400).map(|n| line(n % 2, n / 4 * 1000, n % 4)).collect();
    let scattered = Options { fold: Fold::Scatter, ..options(Pace::Depth(1)) };
    let ran = run(&mut replay(&text, scattered, &space), 10);
    let lbas: Vec<u64> = ran.issued.iter().map(|(_, r)| r.lba).collect();
    for four in lbas.chunks(4) {
        assert_eq!((four[0] >> 11, four[1] >> 11), (four[2] >> 11, four[3] >> 11));
        assert_eq!([four[0] % 2048, four[1] % 2048, four[2] % 2048, four[3] % 2048], [0, 1, 2, 3]);
    }
    let extents: std::collections::BTreeSet<u64> = lbas.iter().map(|lba| lba >> 11).collect();
    // 200 draws of 64 leave 64 (63/64)^200 = 2.7 of them out on average.
    assert!(extents.len() > 52, "{}", extents.len());
}

#[test]
fn one_line_of_a_hundred_may_make_no_sense() {
    let line = "0,R,0,4096,1\n";
    let wrong = |text: String, events: usize, line: u64, what: &str| {
        let mut replay = replay(&text, options(Pace::Depth(1)), &SPACES);
        assert_eq!(run(&mut replay, 10).issued.len(), events);
        let error = replay.error().unwrap();
        assert!(error.line == line && error.problem.contains(what), "{error}");
    };
    wrong(format!("{line}nonsense\n{line}"), 2, 2, "there are 1 fields");
    wrong(format!("{}x\ny\n", line.repeat(100)), 100, 101, "2 lines of 102 make no sense");
    // The rest of a file that is something else is not read.
    wrong(format!("{line}{}{line}", "x\n".repeat(500)), 1, 2, "101 lines of 102");
    // Bytes that are no text make no sense, either.
    let text = [line.repeat(100).as_bytes(), b"\xFF\xFE\n", line.as_bytes()].concat();
    let (events, reader) = all(&text, None);
    let (unknown, first) = reader.unknown();
    assert_eq!((events.len(), unknown, first.map(|first| first.line)), (101, 1, Some(101)));
    // A recording of this program has none.
    let record = "1,1,1,R,0,4096\n";
    let text = format!("{}\n{}x\n{record}", recording::HEAD, record.repeat(200));
    wrong(text, 200, 202, "six fields");
}

/// What blkparse writes besides I/O: passthrough, summaries, names of processes that are bytes.
#[test]
fn blkparse_says_more_than_io() {
    let line = |rest: &str| format!("  8,0    0        1     0.000000000   697  {rest}\n");
    let mut text = Vec::new();
    for rest in
        ["D   R 512 (85 08) [smartd]", "D   N 0 [smartd]", "D   R 512 (85 08 ..) [a b]", "D   N 512 [x]"]
    {
        text.extend(line(rest).into_bytes());
    }
    for rest in ["D WFS 8 + 8 [x]", "D  FN [x]", "D  FF [x]", "D FWFSM 16 + 8 [x]", "D  DE 24 + 8 [x]"] {
        text.extend(line(rest).into_bytes());
    }
    text.extend(b"  8,0    0        1     0.000000000   697  D   R 32 + 8 [kj\xFFd (x]\n");
    text.extend(b"Bad fs action 1120101\nkj\xFFd (x (697)\n Reads Queued:           3,        8KiB\t Writes Queued: 4\n\n");
    text.extend(b"CPU0 (t):\n Read Dispatches:        1\nTotal (t):\n IO unplugs:             1\n\n");
    text.extend(
        b"Throughput (R/W): 0KiB/s / 0KiB/s\nEvents (t): 20 entries\nSkips: 0 forward (0 -   0.0%)\n",
    );
    // The output of a second device behind the first.
    text.extend(line("D   W 40 + 8 [x]").into_bytes());
    let mut reader = Reader::new(&text[..], None).unwrap().with_action(Some(Action::Issued));
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push((event.verb, event.offset, event.bytes));
    }
    assert_eq!(
        events,
        [
            (Verb::WriteFua, 4096, 4096),
            (Verb::Flush, 0, 0),
            (Verb::Flush, 0, 0),
            (Verb::Flush, 0, 0),
            (Verb::WriteFua, 8192, 4096),
            (Verb::Trim, 12_288, 4096),
            (Verb::Read, 16_384, 4096),
            (Verb::Write, 20_480, 4096),
        ]
    );
    assert_eq!((reader.ignored(), reader.unknown().0), (4, 0));
    // A line that is cut behind the sector is no passthrough.
    let cut = format!("{}{}", line("D   R 8 + 8 [x]"), line("D   R 512").trim_end());
    let mut reader = Reader::new(cut.as_bytes(), None).unwrap().with_action(Some(Action::Issued));
    while reader.next_event().unwrap().is_some() {}
    assert_eq!((reader.ignored(), reader.cut()), (0, Some(2)));
}

#[test]
fn events_of_the_kernel() {
    let text = "\
# tracer: nop
#
             fio-9     [003] .....   12.000001: block_bio_queue: 259,0 WFS 8 + 8 [fio]
             fio-9     [003] .....   12.000002: block_rq_issue: 259,0 WFS 4096 () 8 + 8 none,0,0 [fio]
             fio-9     [003] .....   12.000003: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=4, cmdid=12, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_write slba=1, len=0, ctrl=0x4000, dsmgmt=0, reftag=0)
    a: b 1.2: c-9      [003] d..1.   12.500000: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=4, cmdid=13, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=256, len=7, ctrl=0x0, dsmgmt=0, reftag=0)
             fio-9     [003] .....   12.600000: nvme_setup_cmd: nvme0: qid=0, cmdid=13, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_admin_get_features fid=0x7, sel=0x0, cdw11=0x0)
             fio 9 [003]   12.700000: nvme:nvme_setup_cmd: nvme0: disk=nvme0n2, qid=1, cmdid=1, nsid=2, flags=0x0, meta=0x0, cmd=(nvme_cmd_flush cdw10=00 00)
             fio-9     [003] .....   12.800000: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=1, cmdid=1, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_dsm nr=0, attributes=4)
             fio-9     [003] .....   12.900000: block_rq_issue: 259,0 FF 0 () 0 + 0 none,0,0 [fio]
             fio-9     [003] .....   12.950000: sched_switch: prev_comm=fio
";
    let events = |action: Option<Action>, block: Option<u32>| {
        let mut reader =
            Reader::new(text.as_bytes(), None).unwrap().with_action(action).with_block_bytes(block);
        let mut events = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            events.push(event);
        }
        assert_eq!((reader.format(), reader.unknown().0), (Format::Ftrace, 0));
        (events, reader.devices().join(" "))
    };
    let written = |at| event(at, 0, Verb::WriteFua, 4096, 4096);
    let queued = (vec![written(12_000_001_000)], "259,0".to_owned());
    assert_eq!(events(None, None), queued, "the first one counts");
    assert_eq!(events(Some(Action::Queued), None), queued);
    let (issued, _) = events(Some(Action::Issued), None);
    assert_eq!(issued, [written(12_000_002_000), event(12_900_000_000, 0, Verb::Flush, 0, 0)]);
    let commands = vec![
        written(12_000_003_000),
        event(12_500_000_000, 0, Verb::Read, 1 << 20, 32_768),
        event(12_700_000_000, 1, Verb::Flush, 0, 0),
    ];
    assert_eq!(events(Some(Action::Command), Some(4096)), (commands, "nvme0n1 nvme0n2".to_owned()));
}

/// What cannot be replayed on blocks, and what the tracer lost, is not passed over.
#[test]
fn what_a_trace_cannot_say_makes_no_sense() {
    for (line, what) in [
        ("8,0 0 1 0.0 1 Q ZAS 8 + 8 [x]\n", "a command of zones"),
        (
            "x-1 [0] 1.0: nvme_setup_cmd: nvme0: qid=1, cmd=(nvme_cmd_zone_append slba=0, len=0, ctrl=0)\n",
            "Zone Append",
        ),
    ] {
        let mut reader = Reader::new(line.as_bytes(), None).unwrap();
        let error = reader.next_event().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let text = "# tracer: nop\nCPU:1 [LOST 4500 EVENTS]\nx-1 [0] 1.0: block_bio_queue: 8,0 W 0 + 8 [x]\n";
    let mut reader = Reader::new(text.as_bytes(), None).unwrap();
    assert!(reader.next_event().unwrap().is_some());
    assert!(reader.next_event().unwrap_err().to_string().contains("lost events"));
}

#[test]
fn caches_of_keys_and_values() {
    let (events, reader) = all(
        b"0,nz:u:eeW511W3,17,423,12,get,0\n2,a,b,3,0,1,get,0\n3,a,b,3,5000,1,set,60\n4,a,b,3,0,1,delete,0\n",
        None,
    );
    assert_eq!(reader.format(), Format::Twitter);
    let place = events[1].offset;
    assert_eq!(
        events[1..],
        [event(3_000_000_000, 0, Verb::Write, place, 5000), event(4_000_000_000, 0, Verb::Trim, place, 4096)]
    );
    assert!(events[0].offset != place && place.is_multiple_of(4096) && reader.ignored() == 1);

    let (events, reader) = all(b"op_time,key,key_size,op,op_count,size,cache_hits,ttl\n7,k,1,GET,3,100,0,0\n8,k,1,SET,1,200,0,0\n9,k,1,GET,0,200,0,0\n", None);
    let place = events[0].offset;
    let get = event(7_000_000_000, 0, Verb::Read, place, 100);
    assert_eq!(events, [get, get, get, event(8_000_000_000, 0, Verb::Write, place, 200)]);
    assert_eq!((reader.format(), reader.ignored()), (Format::CacheLib, 1));
    let (events, _) = all(b"key,op,size,op_count,key_size\nk,GET,100,1,1\n", None);
    assert_eq!(events, [event(0, 0, Verb::Read, place, 100)], "the same key has the same place");
    let error = Reader::new(&b"1,2\n"[..], Some(Format::CacheLib)).unwrap_err().to_string();
    assert!(error.contains("key, op and size"), "{error}");
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        fuzz(&bytes);
    }

    #[test]
    fn no_trace_is_too_strange(
        head in "(fio version [23] iolog\n|# tranche recording 1\n|Timestamp,a,b,c,d,e,f\n|)",
        lines in proptest::collection::vec(
            "([0-9]{1,20},[a-z]{1,3},[0-9],(Read|Write),[0-9]{1,20},[0-9]{1,10},1|[0-9]{1,3},[RW],[0-9]{1,20},[0-9]{1,10},[0-9]{1,20}|\
             [0-9]{1,12},[0-9]{1,20},[0-9]{1,9},[01],[0-9]|[0-9]{1,12}\\.[0-9]{1,9},0,[RW]?,[0-9],[0-9]{1,20},[0-9]{1,10}|\
             8,[0-9] [0-9] [0-9] [0-9]{1,11}\\.[0-9]{1,9} 1 [QD] F?[RWDN]S? [0-9]{1,19} \\+ [0-9]{1,8} \\[x\\]|\
             ([0-9]{1,18} )?[ab] (read|write|trim|sync|wait|open) [0-9]{1,19} [0-9]{1,9}|[0-9]{1,18},[0-9],1,[RWTF],[0-9]{1,19},[0-9]{1,10})", 0..20),
        end in "(\n|)",
    ) {
        fuzz(format!("{head}{}{end}", lines.join("\n")).as_bytes());
    }
}

#[test]
fn a_copy_stays_on_its_namespace() {
    let text = format!(
        "{}\n0,1,1,C,4096,8192,40960\n1,1,1,CF,1048576,8192,0\n2,1,1,C,0,8192,404480\n",
        recording::HEAD
    );
    let options = Options { pace: Pace::Depth(4), fold: Fold::Wrap, devices: Vec::new(), powered: None };
    let reader = Reader::new(text.as_bytes(), None).unwrap();
    let mut replay =
        Replay::new(reader, options, &[Space { nsid: 1, blocks: 100, block_bytes: 4096 }]).unwrap();
    let mut next = || match replay.next(0) {
        Next::Submit(request) => (request.verb, request.lba, request.blocks),
        other => panic!("{other:?}"),
    };
    assert_eq!(next(), (Verb::Copy { from: 10, fua: false }, 1, 2));
    assert_eq!(next(), (Verb::Copy { from: 0, fua: true }, 56, 2));
    // From within block 98 on these are three blocks, and do not fit behind it.
    assert_eq!(next(), (Verb::Copy { from: 97, fua: false }, 0, 2));
}
