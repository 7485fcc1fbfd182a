//! Beside blkparse itself: it turns random files of blktrace into text. The text and the files have the same I/O.
//!
//!     TRANCHE_BLKTRACE_ROUNDS=2000 cargo test -p load-formats --test suite blktrace::   (a campaign)

#![expect(clippy::disallowed_methods, reason = "blkparse reads files")]

use load_formats::trace::{Action, Event, Format, Reader};
use rng::Rng;
use std::path::Path;
use std::process::Command;
use testkit::skipped;

const CATEGORY: u32 = 16;
const NOTIFY: u32 = 1 << 10;

/// A record of version 7 in this byte order.
fn record(
    time: u64,
    (sector, bytes): (u64, u32),
    action: u32,
    (device, cpu): (u32, u32),
    follows: &[u8],
    big: bool,
) -> Vec<u8> {
    let mut record = Vec::new();
    let mut put = |value: u64, length: usize| {
        let little = value.to_le_bytes();
        let bytes = &little[..length];
        if big { record.extend(bytes.iter().rev()) } else { record.extend(bytes) }
    };
    let fields =
        [(0x6561_7407, 4), (1, 4), (time, 8), (sector, 8), (bytes.into(), 4), (action.into(), 4), (697, 4)];
    fields.into_iter().for_each(|(value, length)| put(value, length));
    let fields = [(device.into(), 4), (cpu.into(), 4), (0, 2), (follows.len() as u64, 2)];
    fields.into_iter().for_each(|(value, length)| put(value, length));
    record.extend(follows);
    record
}

/// One file for each processor: names of processes and messages, I/O of all kinds, passthrough, other actions.
fn files(rng: &mut Rng, big: bool) -> Vec<Vec<u8>> {
    let count = 1 + rng.below(3) as usize;
    let mut files = vec![Vec::new(); count];
    // Without one the first time is that of the trace's beginning.
    files[0].extend(record(0, (0, 0), NOTIFY << CATEGORY | 1, (8 << 20, 0), &[0; 8], big));
    let name: &[u8] = [&b"fio\0"[..], b"a b\0", b"k\xFFd (x)\0"][rng.below(3) as usize];
    files[0].extend(record(0, (0, 0), NOTIFY << CATEGORY, (0, 0), name, big));
    for time in 1..2 + rng.below(60) {
        let cpu = rng.below(count as u64) as usize;
        let device = [8 << 20, 8 << 20 | 16, 259 << 20 | 300_000][rng.below(3) as usize];
        let place = (rng.below(1 << 40), [0, 512, 4096, 4096, 131_072, 1 << 20][rng.below(6) as usize]);
        // Read, write, sync, readahead, metadata, discard, FUA and flush, as the kernel combines them.
        let kind =
            [1, 2, 2 | 8, 1 | 1 << 11, 2 | 1 << 12, 2 | 1 << 13, 2 | 1 << 15, 2 | 4, 2 | 4 | 1 << 15, 4]
                [rng.below(10) as usize];
        let (action, category) =
            [(1, 1 << 4), (7, 1 << 6), (8, 1 << 7), (4, 1 << 4), (2, 1 << 4)][rng.below(5) as usize];
        let passthrough = rng.below(8) == 0 && matches!(action, 1 | 7 | 8);
        let command: &[u8] = if passthrough && rng.below(2) == 0 { &[0x85, 8, 0x2E] } else { &[] };
        let class = if passthrough { 1 << 9 } else { 1 << 8 };
        let action = (kind | category | class) << CATEGORY | action;
        files[cpu].extend(record(time * 1000, place, action, (device, cpu as u32), command, big));
        if rng.below(10) == 0 {
            files[cpu].extend(record(
                time * 1000,
                (0, 0),
                NOTIFY << CATEGORY | 2,
                (device, cpu as u32),
                b"cfq say 8,0 Q",
                big,
            ));
        }
    }
    files
}

fn events(mut reader: Reader<&[u8]>, action: Action) -> (Vec<(String, Event)>, u64) {
    reader = reader.with_action(Some(action));
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push((reader.devices()[event.device as usize].clone(), Event { device: 0, ..event }));
    }
    (events, reader.unknown().0)
}

/// What blkparse writes of these files.
fn parsed(dir: &Path, files: &[Vec<u8>], options: &[&str]) -> Vec<u8> {
    for (cpu, file) in files.iter().enumerate() {
        std::fs::write(dir.join(format!("t.blktrace.{cpu}")), file).unwrap();
    }
    let output = Command::new("blkparse").args(["-i", "t"]).args(options).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (0..files.len()).for_each(|cpu| std::fs::remove_file(dir.join(format!("t.blktrace.{cpu}"))).unwrap());
    output.stdout
}

#[test]
fn files_and_text_of_blktrace_are_the_same() {
    if Command::new("blkparse").arg("-V").output().is_err() {
        skipped("blkparse", "there is no blkparse (Debian: blktrace)");
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TRANCHE_BLKTRACE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRANCHE_BLKTRACE_ROUNDS").unwrap_or(60),
    };
    let dir = tempfile::tempdir().unwrap();
    let mut all = 0;
    for seed in seeds {
        let rng = &mut Rng::new(seed);
        let big = rng.below(2) == 0;
        let written = files(rng, big);
        let options: &[&str] = [&[][..], &["-q"], &["-s"], &["-t"]][rng.below(4) as usize];
        // blkparse 1.2 reads the sizes of what follows in the other byte order wrongly.
        let native = if big {
            files(
                &mut {
                    let mut rng = Rng::new(seed);
                    rng.below(2);
                    rng
                },
                false,
            )
        } else {
            written.clone()
        };
        let text = parsed(dir.path(), &native, options);
        for action in [Action::Queued, Action::Issued] {
            let inputs = written.iter().map(|file| &file[..]).collect();
            let (ours, _) = events(Reader::of_processors(inputs).unwrap(), action);
            let first = ours.first().map_or(0, |(_, event)| event.at);
            let lines = Reader::new(&text[..], Some(Format::Blkparse)).unwrap();
            let (theirs, unknown) = events(lines, action);
            let zero = theirs.first().map_or(0, |(_, event)| event.at);
            let shift =
                |(device, event): (String, Event), zero| (device, Event { at: event.at - zero, ..event });
            let ours: Vec<_> = ours.into_iter().map(|event| shift(event, first)).collect();
            let theirs: Vec<_> = theirs.into_iter().map(|event| shift(event, zero)).collect();
            assert_eq!(
                ours,
                theirs,
                "TRANCHE_BLKTRACE_SEED={seed} {options:?}: {}",
                String::from_utf8_lossy(&text)
            );
            assert_eq!(unknown, 0, "TRANCHE_BLKTRACE_SEED={seed}");
            all += ours.len();
        }
    }
    assert!(all > 0);
}

/// The kernel numbers the records of each processor. It drops records that no program takes in time.
#[test]
fn missing_records_are_told() {
    let numbered = |sequence: u8, note: bool| {
        let class = if note { NOTIFY } else { 2 | 1 << 4 | 1 << 8 };
        let mut record = record(1, (8, 4096), class << CATEGORY | 1, (8 << 20, 0), &[], false);
        record[4] = sequence;
        record
    };
    let missing = |files: &[&[Vec<u8>]]| {
        let files: Vec<Vec<u8>> = files.iter().map(|records| records.concat()).collect();
        let mut reader = Reader::of_processors(files.iter().map(|file| &file[..]).collect()).unwrap();
        while reader.next_event().unwrap().is_some() {}
        reader.missing()
    };
    let [one, two, five] = [1, 2, 5].map(|sequence| numbered(sequence, false));
    assert_eq!(missing(&[&[one.clone(), numbered(0, true), two.clone()], std::slice::from_ref(&five)]), 0);
    assert_eq!(missing(&[&[one.clone(), five.clone()], &[two, five]]), 3 + 2);
}

#[test]
fn damaged_files_are_told() {
    let good = record(1, (8, 4096), (2 | 1 << 4 | 1 << 8) << CATEGORY | 1, (8 << 20, 0), &[], false);
    let wrong = |bytes: &[u8]| {
        let reader = Reader::new(bytes, None).and_then(|mut reader| {
            while reader.next_event()?.is_some() {}
            Ok(reader)
        });
        reader.map(|reader| reader.cut()).map_err(|error| error.to_string())
    };
    assert_eq!(wrong(&good), Ok(None));
    // The middle of a record, or of what follows it.
    assert_eq!(wrong(&[&good[..], &good[..30]].concat()), Ok(Some(1)));
    let named = record(1, (0, 0), NOTIFY << CATEGORY, (0, 0), b"fio", false);
    assert_eq!(wrong(&[&good[..], &named[..named.len() - 1]].concat()), Ok(Some(2)));
    let error = wrong(&[&good[..], &[b'x'; 48]].concat()).unwrap_err();
    assert!(error.contains("no record of blktrace"), "{error}");
    let mut newer = good.clone();
    newer[0] = 8;
    let error = wrong(&newer).unwrap_err();
    assert!(error.contains("version 8") && error.contains("version 7"), "{error}");
    let error =
        Reader::new(&b"8,0 1 1 0.5 1 Q W 0 + 8 [x]\n"[..], Some(Format::Blktrace)).unwrap_err().to_string();
    assert!(error.contains("no file of blktrace"), "{error}");
}
