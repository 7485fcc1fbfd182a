//! The documents have what the code has: every key of a drive's TOML, and every field of what is vendor specific.

use crate::common::Bench;
use device::Config;
use ftl::{SetConfig, ZonesConfig};
use media::{MemoryConfig, NandConfig, Nanos, Sense};
use nvme::admin::FaultKind;
use nvme::identify::{Cns, UuidList};
use nvme::log::{
    ControllerEntry, DieTimesEntry, DieTimesHeader, InjectedFault, InjectedFaultsHeader, LogId,
    NamespaceStatistics, SetMapEntry, SetMapHeader, SupportedLogPages,
};
use nvme::protocol_fault::FaultSelector;
use nvme::quota::Quota;
use nvme::zerocopy::FromZeros;
use nvme::{Command, NSID_ALL};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of a row of a table; none of any other line.
fn cells(line: &str) -> Vec<&str> {
    let row = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|'));
    row.into_iter().flat_map(|row| row.split('|')).map(str::trim).collect()
}

/// Keys of a drive's TOML by their table, each with the names that its value may have.
type Keys = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// What a drive's TOML may have where a text has a `?`, from the message about it.
fn expected(text: &str, what: &str) -> Option<BTreeSet<String>> {
    let error = Config::from_toml(text).unwrap_err().to_string();
    let (_, names) = error.split_once(&format!("unknown {what} `?`, expected "))?;
    Some(quoted(names).map(str::to_owned).collect())
}

/// Finds the keys of a table, and of the tables in it. `file` makes a file with this in the table.
fn accepted(table: &str, file: &dyn Fn(&str) -> String, keys: &mut Keys) {
    let Some(names) = expected(&file("'?' = 1"), "field") else { return };
    for name in &names {
        let inner = if table.is_empty() { name.clone() } else { format!("{table}.{name}") };
        if inner == "set" {
            for media in expected(&file("set = [{ media = '?' }]"), "variant").unwrap() {
                let set = |keys: &str| file(&format!("set = [{{ media = '{media}', {keys} }}]"));
                accepted(&format!("set {media}"), &set, keys);
            }
            continue;
        }
        accepted(&inner, &|keys| file(&format!("{name} = {{ {keys} }}")), keys);
        accepted(&inner, &|keys| file(&format!("{name} = [{{ {keys} }}]")), keys);
        let values = expected(&file(&format!("{name} = '?'")), "variant").unwrap_or_default();
        keys.entry(table.to_owned()).or_default().insert(name.clone(), values);
    }
}

/// The keys that `docs/drive-toml.md` has, each with what stands in quotes beside it.
fn documented() -> Keys {
    let mut keys = Keys::new();
    let (mut sections, mut inner) = (Vec::new(), String::new());
    for line in read("docs/drive-toml.md").lines() {
        if line.starts_with('#') {
            let title: Vec<&str> = quoted(line).collect();
            let media = title.iter().filter_map(|title| title.strip_prefix("media = "));
            sections = media.map(|media| format!("set {}", media.trim_matches('"'))).collect();
            sections.extend(
                title.iter().filter(|t| t.starts_with('[')).map(|t| t.trim_matches(['[', ']']).to_owned()),
            );
            inner.clear();
        } else if line.starts_with('`') && line.ends_with(':') {
            inner = format!(".{}", quoted(line).next().unwrap());
        } else if let [names, .., meaning] = cells(line)[..] {
            let beside: BTreeSet<String> = quoted(meaning)
                .filter_map(|q| Some(q.strip_prefix('"')?.strip_suffix('"')?.to_owned()))
                .collect();
            for section in &sections {
                for name in quoted(names) {
                    keys.entry(format!("{section}{inner}"))
                        .or_default()
                        .insert(name.to_owned(), beside.clone());
                    let word = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
                    for key in meaning.strip_prefix("table: ").into_iter().flat_map(quoted).filter(word) {
                        let table = format!("{section}{inner}.{name}");
                        keys.entry(table).or_default().insert(key.to_owned(), BTreeSet::new());
                    }
                }
            }
        }
    }
    keys
}

#[test]
fn every_key_of_a_drives_toml_is_documented_and_every_documented_key_is_one() {
    let mut accepted_keys = Keys::new();
    accepted("", &str::to_owned, &mut accepted_keys);
    let documented = documented();
    // Tables at the top have a heading each.
    let top = accepted_keys.remove("").unwrap();
    assert!(top.keys().all(|table| documented.contains_key(table)), "{top:?}");
    let tables = |keys: &Keys| keys.keys().cloned().collect::<Vec<_>>();
    assert_eq!(tables(&documented), tables(&accepted_keys));
    assert!(accepted_keys["set nand"].len() > 15 && accepted_keys["set nand.gc"].contains_key("policy"));
    for (table, keys) in &accepted_keys {
        let names = |keys: &BTreeMap<String, BTreeSet<String>>| keys.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&documented[table]), names(keys), "keys of {table}");
        for (key, values) in keys {
            let beside = &documented[table][key];
            assert!(values.is_subset(beside), "{table}.{key} may be {values:?}, and its row has {beside:?}");
        }
    }
    assert_eq!(accepted_keys["set nand.gc"]["policy"].len(), ftl::GcPolicy::ALL.len());
}

/// The chips of the first NVM Set.
fn chips(config: &mut Config) -> &mut NandConfig {
    let SetConfig::Nand { nand, .. } = &mut config.ftl.sets[0] else { panic!("set 1 is NAND") };
    nand
}

/// The zones of the first NVM Set.
fn zones(config: &mut Config) -> &mut ZonesConfig {
    let SetConfig::Nand { zones, .. } = &mut config.ftl.sets[0] else { panic!("set 1 is NAND") };
    zones
}

/// The modules of the second NVM Set.
fn modules(config: &mut Config) -> &mut MemoryConfig {
    let SetConfig::Memory { memory, .. } = &mut config.ftl.sets[1] else { panic!("set 2 is memory") };
    memory
}

/// The key of the drive's TOML that a message begins with, without the number of the set, and without what is said of it.
fn named(message: &str) -> String {
    let (key, rule) = message.split_once(" is ").unwrap_or_else(|| panic!("no key: {message}"));
    assert!(rule.contains(": "), "no rule: {message}");
    let key = key.split(' ').next().unwrap();
    match key.strip_prefix("set.").and_then(|rest| rest.split_once('.')) {
        Some((number, key)) if number.bytes().all(|byte| byte.is_ascii_digit()) => key.to_owned(),
        _ => key.to_owned(),
    }
}

type Broken = (&'static str, &'static str, fn(&mut Config));

/// For each value that the media and the translation layer refuse: what it is called there, the key of the TOML, and how it comes about.
const REFUSED: [Broken; 30] = [
    ("geometry.dies", "dies", |c| chips(c).geometry.dies = 1 << 17),
    ("geometry.channels", "channels", |c| chips(c).geometry.channels = 1000),
    ("geometry.planes", "planes", |c| chips(c).geometry.planes = 65),
    ("geometry.superblocks", "superblocks", |c| chips(c).geometry.superblocks = 1 << 25),
    ("geometry.units_per_block", "pages_per_block", |c| chips(c).geometry.units_per_block = 1 << 21),
    ("geometry.sense_pages", "nand_page", |c| chips(c).geometry.sense_pages = 65),
    ("geometry.unit_pages", "planes", |c| chips(c).geometry.unit_pages = 1 << 15),
    ("geometry.unit_pages", "one_shot", |c| chips(c).geometry.unit_pages = 7),
    ("geometry.rated_cycles", "rated_cycles", |c| chips(c).geometry.rated_cycles = 0),
    ("timing.sense", "timing.read", |c| chips(c).timing.sense = Sense::ByPageType(vec![Nanos(1); 2])),
    ("pages of the medium", "capacity", |c| chips(c).geometry.superblocks = 1 << 24),
    ("banks", "banks", |c| modules(c).banks = 0),
    ("pages", "capacity", |c| modules(c).pages = 0),
    ("pages", "capacity", |c| modules(c).pages = 17),
    ("rated_cycles", "rated_cycles", |c| modules(c).rated_cycles = 0),
    ("atomic write unit in pages", "drive.atomic_write", |c| c.ftl.atomic_pages = 3),
    ("gc.low", "gc.low", |c| {
        let SetConfig::Nand { gc, .. } = &mut c.ftl.sets[0] else { panic!("set 1 is NAND") };
        gc.low = 1;
    }),
    ("gc.idle_share", "gc.idle_share", |c| {
        let SetConfig::Nand { gc, .. } = &mut c.ftl.sets[0] else { panic!("set 1 is NAND") };
        gc.idle_share = 0;
    }),
    ("gc.window", "gc.window", |c| {
        let SetConfig::Nand { gc, .. } = &mut c.ftl.sets[0] else { panic!("set 1 is NAND") };
        gc.window = 0;
    }),
    ("gc.together", "gc.together", |c| {
        let SetConfig::Nand { gc, .. } = &mut c.ftl.sets[0] else { panic!("set 1 is NAND") };
        gc.together = 101;
    }),
    ("gc.wear_stop", "gc.wear_stop", |c| {
        let SetConfig::Nand { gc, .. } = &mut c.ftl.sets[0] else { panic!("set 1 is NAND") };
        gc.wear_stop = Some(1000);
    }),
    ("placement handles", "placement.handles", |c| {
        let SetConfig::Nand { placement, .. } = &mut c.ftl.sets[0] else { panic!("set 1 is NAND") };
        placement.handles = 65;
    }),
    ("write buffer in pages", "drive.write_buffer", |c| c.ftl.buffer_pages = 1),
    ("zone.dies", "zone.dies", |c| zones(c).dies = 3),
    ("zone buffer in pages", "zone.buffer", |c| zones(c).buffer_pages = 1),
    ("zone.size", "zone.size", |c| zones(c).size = 4096),
    ("zone.zrwa", "zone.zrwa", |c| zones(c).zrwa.as_mut().unwrap().max = 1000),
    ("Zone Random Write Area in pages", "zone.zrwa_size", |c| zones(c).zrwa.as_mut().unwrap().pages = 0),
    ("energy", "drive.energy", |c| c.ftl.energy_bytes = 1),
    ("spare", "spare", |c| {
        let SetConfig::Nand { nand, capacity_pages, .. } = &mut c.ftl.sets[0] else {
            panic!("set 1 is NAND")
        };
        *capacity_pages = u32::try_from(nand.geometry.pages()).unwrap();
    }),
];

#[test]
fn what_the_media_refuse_is_said_with_keys_that_a_drives_toml_has() {
    let documented = documented();
    let known = |key: &str| match key.rsplit_once('.') {
        Some((table, key)) => {
            let table =
                if documented.contains_key(table) { table.to_owned() } else { format!("set nand.{table}") };
            documented.get(&table).is_some_and(|keys| keys.contains_key(key))
        }
        None => documented["set nand"].contains_key(key) || documented["set dram"].contains_key(key),
    };
    assert!(
        known("drive.energy")
            && known("gc.low")
            && known("banks")
            && !known("geometry.dies")
            && !known("sense")
    );
    for (inner, key, change) in REFUSED {
        let mut config = Config::default_drive();
        config.ftl.check().unwrap();
        change(&mut config);
        let message = config.check().expect_err(inner).to_string();
        assert_eq!(named(&message), key, "{message}");
        assert!(known(key), "{key} is no key of a drive's TOML");
    }
    // Nothing that the chips check is missing above.
    let source = read("crates/core/media/src/nand/config.rs");
    let source = source.split("mod tests").next().unwrap();
    let checked = source.split("positive(\"").skip(1).filter_map(|rest| rest.split('"').next());
    let checked: Vec<&str> = checked.collect();
    assert!(checked.len() >= 8, "{checked:?}");
    for what in checked {
        assert!(REFUSED.iter().any(|(inner, ..)| *inner == what), "{what} is not looked at");
    }
}

#[test]
fn a_drives_toml_is_refused_with_its_own_keys() {
    let default = include_str!("../../../config/src/default_drive.toml");
    for (from, to, begin) in [
        ("channels = ", "channels = 1000\n# ", "set.1.channels is 1000: from 1 to the number of dies"),
        ("rated_cycles = ", "rated_cycles = 0\n# ", "set.1.rated_cycles is 0: at least 1"),
        ("nand_page = ", "nand_page = \"512KiB\"\n# ", "set.1.nand_page is 512KiB: 4KiB to 256KiB"),
        ("[drive]", "[drive]\nenergy = \"1MiB\"", "drive.energy is 1MiB: the write buffer, "),
        ("[drive]", "[drive]\nwrite_buffer = \"4KiB\"", "drive.write_buffer is 4KiB: "),
        ("[drive]", "[drive]\natomic_write = \"12KiB\"", "drive.atomic_write is 12KiB: a power of two"),
        ("spare = ", "spare = \"1%\"\n# ", "set.1.spare is "),
        (
            "read = \"60us\"",
            "read = [\"1us\", \"2us\"]",
            "set.1.timing.read is a list of 2: one time, or one",
        ),
    ] {
        assert!(default.contains(from), "{from}");
        let text = default.replacen(from, to, 1);
        let error = Config::from_toml(&text).expect_err(begin).to_string();
        assert!(error.starts_with(begin), "{error}");
    }
}

/// Offsets and sizes of all fields of a structure; those behind the semicolon are reserved.
macro_rules! fields {
    ($structure:ident { $($field:ident),* $(; $($reserved:ident),*)? }) => {{
        // A field that is not listed does not compile.
        let $structure { $($field,)* $($($reserved: _,)*)? } = &$structure::new_zeroed();
        vec![$((std::mem::offset_of!($structure, $field), size_of_val($field))),*]
    }};
}

/// Tables of offsets and sizes of a document, each with the heading above it. A size is a number, or one number times another.
fn layouts(text: &str, comment: &str) -> Vec<(String, Vec<(usize, usize)>)> {
    let mut all: Vec<(String, Vec<(usize, usize)>)> = Vec::new();
    let mut heading = "";
    for line in text.lines() {
        let line = line.strip_prefix(comment).unwrap_or(line).trim();
        if let Some(title) = line.strip_prefix("## ") {
            heading = title;
        }
        match cells(line)[..] {
            ["offset", "size", ..] => all.push((heading.to_owned(), Vec::new())),
            [offset, size, _] if offset.parse::<usize>().is_ok() => {
                let factors = size.split('×').map(|factor| factor.trim().parse::<usize>());
                let size = factors.product::<Result<usize, _>>().unwrap_or(0);
                let rows = &mut all.last_mut().expect("a head").1;
                rows.push((offset.parse().unwrap(), size));
            }
            _ => {}
        }
    }
    all
}

#[test]
fn vendor_specific_structures_are_documented_as_they_are() {
    let text = read("docs/vendor.md");
    let layouts = layouts(&text, "");
    let of = |title: &str, number: usize| {
        let mut all = layouts.iter().filter(|(heading, _)| heading.starts_with(title));
        all.nth(number).unwrap_or_else(|| panic!("no table {number} of {title}")).1.clone()
    };
    assert_eq!(layouts.len(), 11, "a table that is not looked at: {layouts:?}");
    let quota = fields!(Quota {
        version, limits, weight, burst_us, read_bandwidth, write_bandwidth, read_commands, write_commands; rsvd40
    });
    assert_eq!(of("Feature D8h", 0), quota);
    assert!(text.contains(&format!("a structure of {} bytes", size_of::<Quota>())));

    let entry = fields!(ControllerEntry { cntlid, origin, flags, portid, anas, hostnqn; rsvd7 });
    assert_eq!(of("Log D9h", 1), entry);
    let mut b = Bench::with_namespaces(&[]);
    let (_, log) = b.admin_ok(Command::get_log_page(LogId::CONTROLLERS, NSID_ALL, 0, 0, 4096), &[]);
    let header = of("Log D9h", 0);
    let field = |(offset, size): (usize, usize)| log[offset..offset + size].to_vec();
    let count = b.drive.controllers().count();
    assert_eq!(header.iter().map(|at| field(*at)).collect::<Vec<_>>(), [vec![1], vec![count as u8, 0]]);
    let sizes = format!("A header of 16 bytes, then one entry of {} bytes", size_of::<ControllerEntry>());
    assert!(text.contains(&sizes), "{sizes}");

    let header = fields!(SetMapHeader {
        version, nvmsetid, header_bytes, entry_bytes, entries, medium, flags, time_ns, units, planes, superblock_pages,
        block_pages, page_bytes, rated_cycles, bad_blocks, free_superblocks, zone_size, zone_capacity, zones_active_left,
        erases, collections, collected_pages, collecting_ns, media_written, media_moved, media_read, media_failures,
        uncorrectable; rsvd14, rsvd76, rsvd152
    });
    assert_eq!(of("Log DAh", 0), header);
    let entry = fields!(SetMapEntry {
        state, zone_state, zones, usable_pages, written_pages, valid_pages, erases, nsid, zone; rsvd28
    });
    assert_eq!(of("Log DAh", 1), entry);
    let (header, entry) = (size_of::<SetMapHeader>(), size_of::<SetMapEntry>());
    assert!(text.contains(&format!("A header of {header} bytes, then one entry of {entry} bytes")));
    assert!(text.contains(&format!("| bytes of this header: {header} |")));
    assert!(text.contains(&format!("| bytes of an entry: {entry} |")));

    let header = fields!(DieTimesHeader {
        version, nvmsetid, header_bytes, entry_bytes, entries, time_ns; rsvd12, rsvd24
    });
    assert_eq!(of("Log DBh", 0), header);
    let entry = fields!(DieTimesEntry { read_ns, program_ns, erase_ns; rsvd24 });
    assert_eq!(of("Log DBh", 1), entry);
    let (header, entry) = (size_of::<DieTimesHeader>(), size_of::<DieTimesEntry>());
    assert!(
        text.contains(&format!("A header of {header} bytes, then one entry of {entry} bytes for each die"))
    );

    let header = fields!(InjectedFaultsHeader { version, ports, header_bytes, entry_bytes, entries; rsvd12 });
    assert_eq!(of("Log DCh", 0), header);
    let entry =
        fields!(InjectedFault { kind, nvmsetid, chance, param, nsid, remaining, strikes, selector; rsvd1 });
    assert_eq!(of("Log DCh", 1), entry);
    let selector = fields!(FaultSelector { version, flags, opcode, cntlid, slba, blocks, after, every; rsvd3, rsvd6, rsvd32 });
    assert_eq!(of("Commands that", 0), selector);
    assert!(text.contains(&format!("[{} bytes of data]", size_of::<FaultSelector>())));
    let (header, entry) = (size_of::<InjectedFaultsHeader>(), size_of::<InjectedFault>());
    assert!(
        text.contains(&format!("A header of {header} bytes, then one entry of {entry} bytes for each fault"))
    );

    let contents = [7; 5];
    let image = device::firmware_image("ABCDEFGH", &contents).unwrap();
    let mut parts = of("Firmware images", 0).into_iter();
    let known: [&[u8]; 5] = [b"TRANCHFW", &[1, 0, 0, 0], &[5, 0, 0, 0], b"ABCDEFGH", &[0; 8]];
    let found = parts.by_ref().take(5).map(|(offset, size)| &image[offset..offset + size]);
    assert!(found.eq(known));
    assert_eq!(parts.collect::<Vec<_>>(), [(32, 32), (64, 0)]);
    assert_eq!((image.len(), &image[64..69]), (72, &contents[..]));
    let most = device::MAX_FIRMWARE_IMAGE - 64;
    assert!(device::firmware_image("1", &vec![0; most]).is_ok());
    assert!(text.contains(&format!(
        "at most {},{:03},{:03} bytes",
        most / 1_000_000,
        most / 1000 % 1000,
        most % 1000
    )));
}

#[test]
fn the_statistics_log_is_documented_as_it_is() {
    let source = read("crates/core/nvme/src/log/statistics.rs");
    let [(_, rows)] = &layouts(&source, "//!")[..] else { panic!("one table") };
    let fields = fields!(NamespaceStatistics {
        version,
        buckets,
        nsid,
        nvmsetid,
        endgid,
        histogram_offset,
        time_ns,
        rsvd24,
        host_bytes_read,
        host_bytes_written,
        host_read_commands,
        host_write_commands,
        host_flush_commands,
        host_deallocate_commands,
        host_other_commands,
        host_bytes_deallocated,
        media_bytes_written_host,
        media_bytes_written_gc,
        media_bytes_written_metadata,
        media_bytes_read_host,
        media_bytes_read_gc,
        buffer_bytes_read,
        buffer_bytes_absorbed,
        whole_writes,
        split_writes,
        stalled_write_commands,
        stalled_write_ns,
        throttled_read_commands,
        throttled_read_ns,
        throttled_write_commands,
        throttled_write_ns,
        failed_commands,
        aligned_writes,
        shared_read_commands,
        shared_read_ns,
        shared_write_commands,
        shared_write_ns,
        in_flight,
        held_reads,
        held_writes,
        rsvd288,
        quota,
        rsvd384,
        read_latency,
        write_latency,
        flush_latency,
        deallocate_latency,
        read_latency_sum,
        write_latency_sum,
        flush_latency_sum,
        deallocate_latency_sum,
        rsvd6784
    });
    // The four sums share a row.
    let sums = fields.len() - 5;
    let all = size_of::<NamespaceStatistics>();
    let together = (fields[sums].0, fields[sums..sums + 4].iter().map(|field| field.1).sum());
    assert_eq!(*rows, [&fields[..sums], &[together], &fields[sums + 4..]].concat());
    assert!(read("docs/vendor.md").contains(&format!(
        "{},{:03} bytes; the table of\noffsets",
        all / 1000,
        all % 1000
    )));
}

#[test]
fn the_kinds_of_faults_are_those_that_there_are() {
    let text = read("docs/vendor.md");
    let (_, text) = text.split_once("| kind | what happens |").unwrap();
    let rows = text.lines().skip(2).map(cells).take_while(|cells| !cells.is_empty());
    let documented: Vec<u8> =
        rows.map(|row| u8::from_str_radix(row[0].trim_end_matches('h'), 16).unwrap()).collect();
    // A planned power cut is another command.
    let is_ordered = |kind: FaultKind| kind.name().is_some() && kind != FaultKind::POWER_CUT;
    let known: Vec<u8> = (0..=255).filter(|kind| is_ordered(FaultKind(*kind))).collect();
    assert_eq!(documented, known);
}

#[test]
fn the_list_of_uuids_is_the_drives() {
    let mut b = Bench::with_namespaces(&[]);
    let uuids: UuidList = b.ask(Command::identify(Cns::UUIDS, 0));
    let uuids: Vec<[u8; 16]> =
        uuids.entry.iter().map(|e| e.uuid).take_while(|uuid| *uuid != [0; 16]).collect();
    let text = read("docs/vendor.md");
    let rows = text.lines().map(cells).skip_while(|row| row.first() != Some(&"UUID Index")).skip(2);
    let rows: Vec<_> = rows.take_while(|row| !row.is_empty()).collect();
    assert_eq!(rows.len(), uuids.len());
    for (index, (row, uuid)) in (1..).zip(rows.iter().zip(&uuids)) {
        assert_eq!(row[0], index.to_string());
        let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(row[1].replace('-', "").starts_with(&hex), "{}", row[1]);
        let log = nvme::admin::GetLogPage {
            nsid: NSID_ALL,
            lid: LogId::SUPPORTED,
            lsp: 0,
            lsi: 0,
            rae: true,
            dwords: 256,
            offset: 0,
            ot: false,
            csi: nvme::Csi::NVM,
            uidx: index,
        };
        let supported: SupportedLogPages = b.ask(log);
        let own = (0xC0..=0xFFu8).filter(|lid| supported.lid[usize::from(*lid)].lsupp());
        let own: Vec<String> = own.map(|lid| format!("{lid:02X}h")).collect();
        let ids = row[2].split([' ', ',']).filter(|word| word.len() == 3 && word.ends_with('h'));
        assert_eq!(ids.collect::<Vec<_>>(), own, "logs of {}", row[1]);
    }
}
