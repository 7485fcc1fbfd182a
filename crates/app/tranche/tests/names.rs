//! Names of constants: each is a noun that says what it is, and a number has its unit in its name, its type or a comment.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Adjectives, adverbs, verbs, and nouns of a mood: alone they do not say what a constant is. Bits, states and sentinels that a specification names (`READ`,
/// `DIRTY`, `LOST`) are no part of the list.
const VAGUE_WORDS: &str = "ABOVE AFTERWARDS AGAIN AGED AHEAD ALONE ALWAYS AMPLE APART ASKED AWAY BAD BEFORE BEGINS BEHIND BESIDE BIG CHEAP \
    COLLECTED COMPRESSED COMPUTED COPIED COVERED DEEP DEEPEST EARLIER ENOUGH EXACT FAINT FAIR FAR FAST FEW FILLED FILLS FIXED FOREVER \
    FRESH GENERATED GONE GOOD HEAVIER HELD HUGE IDLE INTERRUPTED KEEP KEPT KNOWN LARGE LARGEST LATE LATELY LATER LEAST LEFT LINGER \
    LINGERING LISTED LONG LONGER LONGEST LOOK LOOKS MANY MEASURED MOST MOVES NAMED NARROW NEAR NEARLY NEVER NICE NOBODY NOTHING NOWHERE \
    OFFERED OFTEN OLD OLDEST OTHERS OUTSTANDING OVER OVERTAKEN PASSING PATIENCE PERHAPS PLAIN POSSIBLE QUICK QUIET RECORDED REMAINING \
    RIGHT SAID SETTLE SETTLED SETTLES SHORT SHORTEST SHOWN SHOWS SILENT SIMULATED SKEWED SLOW SLOWER SLOWEST SMALL SMALLEST SOON SPOILED \
    STICKY STILL TIMED TIMELESS TINY TOGETHER TOLD UNADJUSTED UNUSABLE UNUSUAL WARMER WATCHED WIDE WITHIN WITHOUT WORTH";

/// Units, and words for what a number is that has none. A name that has one of them needs no comment.
const UNITS: &str = "BIT BITS BLOCKS BYTES CHARACTERS CNTLID COMMANDS CONNECTIONS COUNT DAY DIVISOR ENTRIES ERRNO FACTOR FLAG GIB HOUR ID \
    INDEX KIB LBAS LEN LENGTH LIMIT MAGIC MASK MAX MIB MICROSECONDS MILLISECONDS MIN MINUTE MS NANOS NS NSID NUMBER OFFSET OPCODE PAGES \
    PERCENT PERMILLE PORT PPB PPM QUEUES RATE RATIO REQUESTS SECOND SECONDS SECTORS SEED SHARE SHIFT SIZE SLOTS STATE SUPERBLOCKS THREADS \
    UNITS US VERSION YEAR ZONES";

/// Types that do not tell a unit.
const NUMBERS: &str = "u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64";

fn is_in(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

/// A file of Rust with its text.
struct Source {
    /// Its path in the repository.
    path: PathBuf,
    text: String,
}

fn read(root: &Path, folder: &str, found: &mut Vec<Source>) {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return };
    for name in entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let path = PathBuf::from(format!("{folder}/{name}"));
        if root.join(&path).is_dir() {
            if !["target", "node_modules"].contains(&&*name) {
                read(root, path.to_str().unwrap(), found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(Source { text: std::fs::read_to_string(root.join(&path)).unwrap(), path });
        }
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut found = Vec::new();
    for folder in ["crates", "examples", "fuzz", "plugins"] {
        read(&root, folder, &mut found);
    }
    assert!(found.len() > 800, "{} files", found.len());
    found
}

/// The name and the type of the constant that a line declares.
fn declared(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let (before, rest) = line.split_once("const ").or_else(|| line.split_once("static "))?;
    let (name, rest) = rest.split_once(": ")?;
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let is_item = before.is_empty() || before.starts_with("pub");
    (is_name && is_item).then(|| (name, rest.split([' ', ';']).next().unwrap()))
}

/// Whether a comment stands on the line, or before it or the group of constants that it is in.
fn has_comment(lines: &[&str], at: usize) -> bool {
    let is_of_group = |line: &&str| {
        declared(line).is_some() || line.starts_with("#[") || (line.contains("mod ") && line.ends_with('{'))
    };
    let before = lines[..at].iter().rev().map(|line| line.trim_start()).find(|line| !is_of_group(line));
    lines[at].contains("//") || before.is_some_and(|line| line.starts_with("//"))
}

/// Modules of tests in files of their own, as paths without an extension.
fn test_modules(sources: &[Source]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for Source { path, text } in sources {
        let is_root =
            ["mod", "lib", "main"].iter().any(|root| path.file_stem().is_some_and(|stem| stem == *root));
        let folder = if is_root { path.parent().unwrap().to_owned() } else { path.with_extension("") };
        for item in text.split("#[cfg(test)]").skip(1) {
            let item = item.split([';', '{']).next().unwrap();
            if let Some((_, name)) = item.rsplit_once("mod ") {
                found.insert(folder.join(name.trim()));
            }
        }
    }
    found
}

#[test]
fn a_constant_is_not_named_by_an_adjective_or_a_verb() {
    let mut wrong = Vec::new();
    for Source { path, text } in sources() {
        for (number, line) in text.lines().enumerate() {
            if let Some((name, _)) = declared(line).filter(|(name, _)| is_in(VAGUE_WORDS, name)) {
                wrong.push(format!("{}:{}: {name}", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "name what it is, with its unit:\n{}", wrong.join("\n"));
}

#[test]
fn a_number_has_its_unit_or_a_comment() {
    let sources = sources();
    let of_tests = test_modules(&sources);
    let folders = ["tests", "benches"];
    let (mut wrong, mut all) = (Vec::new(), 0);
    for Source { path, text } in &sources {
        let is_test = path.components().any(|part| folders.iter().any(|folder| part.as_os_str() == *folder))
            || path.with_extension("").ancestors().any(|module| of_tests.contains(module));
        if is_test {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        let end = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].ends_with('{'));
        for (at, line) in lines[..end.unwrap_or(lines.len())].iter().enumerate() {
            let Some((name, _)) = declared(line).filter(|(_, kind)| is_in(NUMBERS, kind)) else { continue };
            all += 1;
            if !name.split('_').any(|word| is_in(UNITS, word)) && !has_comment(&lines, at) {
                wrong.push(format!("{}:{}: {name}", path.display(), at + 1));
            }
        }
    }
    assert!(all > 800, "{all} constants");
    assert!(
        wrong.is_empty(),
        "no unit in the name, and no comment that says what it is:\n{}",
        wrong.join("\n")
    );
}
