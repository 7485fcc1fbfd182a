//! The documents agree with the repository: links, headings, the book's summary, commands that are shown, messages that are quoted.
//!
//! Nothing here needs a network. The checker is tested on documents with mistakes first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Documents outside `docs`, which are no pages of the book by themselves.
const AT_ROOT: [&str; 4] = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"];

/// A Markdown document, as far as the checks look at it.
#[derive(Debug, Default)]
struct Document {
    /// Anchors of its headings.
    anchors: BTreeSet<String>,
    /// Targets of its links and images, with their lines.
    links: Vec<(usize, String)>,
    /// Lines of code blocks, continued lines joined, with the lines where they begin.
    code: Vec<(usize, String)>,
    /// Headings as written.
    headings: Vec<(usize, String)>,
}

impl Document {
    fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let (mut fence, mut indented, mut blank, mut list): (Option<String>, bool, bool, bool) =
            (None, false, true, false);
        let mut prose: Vec<(usize, &str)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let trimmed = line.trim_start();
            let is_fence = trimmed.starts_with("```");
            match &fence {
                Some(open) if is_fence && trimmed.trim_end() == open => fence = None,
                Some(_) => document.add_code(number, line),
                None if is_fence => fence = Some(trimmed.chars().take_while(|c| *c == '`').collect()),
                None => {
                    // Four spaces are code after a blank line; within a list they are code if there are more than the list has.
                    let depth = line.len() - trimmed.len();
                    let needed = if list { 6 } else { 4 };
                    indented = !trimmed.is_empty() && depth >= needed && (blank || indented);
                    if indented {
                        document.add_code(number, line);
                    } else if !trimmed.is_empty() {
                        list = item(trimmed) || list && depth > 0;
                        prose.push((number, line));
                    }
                    blank = trimmed.is_empty();
                }
            }
        }
        for (number, line) in prose {
            document.add_prose(number, line);
        }
        document
    }

    fn add_code(&mut self, number: usize, line: &str) {
        match self.code.last_mut() {
            Some((_, before)) if before.ends_with('\\') => {
                before.pop();
                before.push_str(line.trim_start());
            }
            _ => self.code.push((number, line.trim().to_owned())),
        }
    }

    fn add_prose(&mut self, number: usize, line: &str) {
        let level = line.chars().take_while(|c| *c == '#').count();
        if (1..=6).contains(&level) && line[level..].starts_with(' ') {
            let text = line[level..].trim().to_owned();
            let slug = slug(&text);
            let mut anchor = slug.clone();
            for n in 1.. {
                if self.anchors.insert(anchor.clone()) {
                    break;
                }
                anchor = format!("{slug}-{n}");
            }
            self.headings.push((number, text));
        }
        let line = without_code(line);
        if let Some(target) = line.strip_prefix('[').and_then(|l| l.split_once("]: ")).map(|(_, t)| t) {
            let target = target.split_whitespace().next().unwrap_or("");
            self.links.push((number, target.to_owned()));
        }
        for part in line.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or("");
            self.links.push((number, target.to_owned()));
        }
    }
}

/// Whether a line begins an item of a list.
fn item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || line.starts_with("* ") || number.len() < line.len() && number.starts_with(". ")
}

/// A line of prose without what is between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The anchor of a heading, where GitHub and mdBook agree: lower case, blanks to hyphens, only letters, digits, `-` and `_`.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    // A link counts with its text only.
    while let Some((before, behind)) = rest.split_once("](") {
        text.push_str(before);
        rest = behind.split_once(')').map_or("", |(_, r)| r);
    }
    text.push_str(rest);
    let keep = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    text.chars().filter_map(keep).collect()
}

/// Pages that `make book` makes. Only the summary links to them: they are not in the repository.
const GENERATED_PAGES: [&str; 3] = ["docs/cli.md", "docs/illegal.md", "docs/json.md"];

/// Documents by their paths in the repository, and what else there is.
struct Library {
    documents: BTreeMap<String, Document>,
    exists: Box<dyn Fn(&str) -> bool>,
}

impl Library {
    fn of(root: PathBuf) -> Self {
        let mut paths: Vec<String> = AT_ROOT.iter().map(ToString::to_string).collect();
        pages(&root, "docs", &mut paths);
        let read = |path: &String| {
            let text = std::fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
            (path.clone(), Document::parse(&included(&root, path, text)))
        };
        let documents = paths.iter().map(read).collect();
        Self { documents, exists: Box::new(move |path| root.join(path).exists()) }
    }

    /// Links that lead nowhere, each in words.
    fn broken_links(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (path, document) in &self.documents {
            // A page that includes a document of the root has its anchors; its links are checked there.
            if AT_ROOT.iter().any(|r| *path == page_of(r)) {
                continue;
            }
            for (line, target) in &document.links {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let there = if file.is_empty() { path.clone() } else { resolved(path, file) };
                if GENERATED_PAGES.contains(&there.as_str()) && path == "docs/SUMMARY.md" {
                    continue;
                }
                if !file.is_empty() && (GENERATED_PAGES.contains(&there.as_str()) || !(self.exists)(&there)) {
                    wrong.push(format!("{path}:{line}: {target}: there is no {there}"));
                } else if let Some(other) = self.documents.get(&there)
                    && !anchor.is_empty()
                    && !other.anchors.contains(anchor)
                {
                    wrong.push(format!("{path}:{line}: {target}: {there} has no such heading"));
                }
            }
        }
        wrong
    }

    /// Pages that are not in the summary, entries of it that are no pages, and pages that are in it twice.
    fn wrong_summary(&self) -> Vec<String> {
        const SUMMARY: &str = "docs/SUMMARY.md";
        let Some(summary) = self.documents.get(SUMMARY) else {
            return vec![format!("there is no {SUMMARY}")];
        };
        let mut wrong = Vec::new();
        let mut listed = BTreeSet::new();
        for (line, target) in &summary.links {
            let page = resolved(SUMMARY, target);
            if !self.documents.contains_key(&page) && !GENERATED_PAGES.contains(&page.as_str()) {
                wrong.push(format!("{SUMMARY}:{line}: {target} is no page"));
            }
            if !listed.insert(page) {
                wrong.push(format!("{SUMMARY}:{line}: {target} is there twice"));
            }
        }
        for path in self.documents.keys().filter(|p| p.starts_with("docs/") && *p != SUMMARY) {
            if !listed.contains(path) {
                wrong.push(format!("{path} is not in {SUMMARY}"));
            }
        }
        wrong
    }

    /// Commands of code blocks that the program does not have, each in words.
    fn wrong_commands(&self, program: &mut Program) -> Vec<String> {
        let mut wrong = Vec::new();
        for (path, document) in &self.documents {
            // The changelog lists commands of the past.
            if path == "CHANGELOG.md" || path == "docs/changelog.md" {
                continue;
            }
            for (line, code) in &document.code {
                for words in invocations(code) {
                    if let Err(what) = program.accepts(&words) {
                        wrong.push(format!("{path}:{line}: {what}: {code}"));
                    }
                }
            }
        }
        wrong
    }
}

/// The page of the book that includes a document of the root.
fn page_of(root: &str) -> String {
    format!("docs/{}", root.to_ascii_lowercase())
}

/// The text of a page, with a document of the root in place of a line that includes it.
fn included(root: &Path, path: &str, text: String) -> String {
    let Some(name) = text.trim().strip_prefix("{{#include ").and_then(|t| t.strip_suffix("}}")) else {
        return text;
    };
    let name = resolved(path, name);
    assert!(AT_ROOT.contains(&name.as_str()) && path == page_of(&name), "{path} includes {name}");
    std::fs::read_to_string(root.join(name)).unwrap()
}

/// All Markdown files below a directory.
fn pages(root: &Path, dir: &str, paths: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(dir)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{dir}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            pages(root, &path, paths);
        } else if path.ends_with(".md") && !GENERATED_PAGES.contains(&path.as_str()) {
            paths.push(path);
        }
    }
}

/// The path in the repository that a relative link of a document means.
fn resolved(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                // A link out of the repository stays wrong.
                if parts.pop().is_none() {
                    parts.push("..");
                }
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The words behind `tranche`, for each place of a line of a shell where it is a command.
fn invocations(line: &str) -> Vec<Vec<String>> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.replace("$(", "; ").replace(')', " ; ");
    let mut found = Vec::new();
    let (mut words, mut active, mut first) = (Vec::new(), false, true);
    for word in line.split_whitespace() {
        if word.starts_with('#') {
            break;
        }
        let (word, ends) = match word.strip_suffix(';') {
            Some(word) => (word, true),
            None => (word, matches!(word, "|" | "&&" | "||" | "&" | "--" | ">" | "2>" | "<")),
        };
        let name = word.rsplit('/').next().unwrap_or(word);
        if active && !ends {
            words.push(word.to_owned());
        } else if first && name == "tranche" && !word.contains("://") {
            active = true;
        } else if active
            && !word.is_empty()
            && !matches!(word, "|" | "&&" | "||" | "&" | "--" | ">" | "2>" | "<")
        {
            words.push(word.to_owned());
        }
        // What stands before a command without being one.
        first = ends && word != "--"
            || matches!(
                word,
                "sudo" | "time" | "exec" | "timeout" | "taskset" | "nohup" | "if" | "!" | "run:" | "-"
            )
            || first
                && (word.contains('=') || word.starts_with('-') || word.chars().all(|c| c.is_ascii_digit()));
        if ends && active {
            found.push(std::mem::take(&mut words));
            active = false;
        }
    }
    if active {
        found.push(words);
    }
    found
}

/// Lines of a page that use a drive which runs in the background since a line before, without waiting for it.
fn hasty(text: &str) -> Vec<usize> {
    const USES: [&str; 6] = ["tranche ", "nvme ", "mkfs", "mount ", "fio ", "ls "];
    let mut found = Vec::new();
    // How far the line that starts the drive is indented.
    let mut starts = None;
    for (number, line) in (1..).zip(text.lines()) {
        let command = line.split(" #").next().unwrap_or(line).trim();
        let indent = line.len() - line.trim_start().len();
        let ends = starts.is_some_and(|starts| indent < starts) && !line.is_empty();
        if command.contains("tranche ") && command.contains("serve ") && command.ends_with('&') {
            starts = Some(indent);
        } else if ends
            || line.starts_with("```")
            || command.contains("--wait")
            || command.starts_with("until ")
        {
            starts = None;
        } else if starts.is_some() && USES.iter().any(|word| command.starts_with(word)) {
            found.push(number);
            starts = None;
        }
    }
    found
}

/// What the program says of its commands.
#[derive(Default)]
struct Program {
    help: BTreeMap<Vec<String>, String>,
}

impl Program {
    fn help(&mut self, command: &[String]) -> &str {
        let ask = || {
            let output =
                Command::new(env!("CARGO_BIN_EXE_tranche")).args(command).arg("--help").output().unwrap();
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        self.help.entry(command.to_vec()).or_insert_with(ask)
    }

    /// The names in the list of subcommands.
    fn commands(&mut self, command: &[String]) -> Vec<String> {
        let help = self.help(command);
        let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
        let names = list
            .lines()
            .take_while(|l| !l.is_empty())
            .filter(|l| l.starts_with("  ") && !l.starts_with("   "));
        names.filter_map(|l| l.split_whitespace().next()).map(str::to_owned).collect()
    }

    /// Whether the program has the command and its options.
    fn accepts(&mut self, words: &[String]) -> Result<(), String> {
        let mut command: Vec<String> = Vec::new();
        for word in words {
            let names = self.commands(&command);
            if names.contains(word) {
                command.push(word.clone());
            } else if names.is_empty() || word.starts_with('-') || matches!(word.as_str(), "…" | "...") {
                // An argument, an option, or something left out.
                break;
            } else if word.contains('|') && word.split('|').all(|w| names.iter().any(|n| n == w)) {
                // `tranche id|smart`: several at once.
                return Ok(());
            } else {
                return Err(format!("`tranche {}` has no command `{word}`", command.join(" ")));
            }
        }
        let help = self.help(&command).to_owned();
        for word in words {
            let name = word.split('=').next().unwrap_or(word);
            let known =
                |name: &str| help.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|w| w == name);
            if name.len() > 2
                && name.starts_with("--")
                && name[2..].chars().all(|c| c.is_ascii_lowercase() || c == '-')
                && !known(name)
            {
                return Err(format!("`tranche {}` has no option `{name}`", command.join(" ")));
            }
        }
        Ok(())
    }
}

/// Messages that a page treats, in backticks as its headings, which occur in no source. `…` stands for what differs from time to time.
fn unknown_messages(page: &Document, sources: &[String]) -> Vec<String> {
    let quoted = |h: &String| h.strip_prefix('`').and_then(|h| h.strip_suffix('`')).map(str::to_owned);
    let mut wrong = Vec::new();
    for (line, message) in page.headings.iter().filter_map(|(l, h)| quoted(h).map(|m| (l, m))) {
        let parts: Vec<&str> = message.split('…').map(str::trim).filter(|p| !p.is_empty()).collect();
        if parts.iter().map(|p| p.len()).sum::<usize>() < 8
            || !sources.iter().any(|s| parts.iter().all(|p| s.contains(p)))
        {
            wrong.push(format!("line {line}: no source says `{message}`"));
        }
    }
    wrong
}

/// The sources of all crates, with string literals of several lines joined.
fn sources(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // What tests say, users do not see.
            if !path.ends_with("tests") && !path.ends_with("benches") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap().replace("\\\"", "\"");
            let mut joined = String::new();
            let mut rest = text.as_str();
            while let Some((before, behind)) = rest.split_once("\\\n") {
                joined.push_str(before);
                rest = behind.trim_start();
            }
            found.push(joined + rest);
        }
    }
}

/// Paths below `crates` that a text names.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    text.match_indices("crates/").filter(move |(at, _)| !text[..*at].ends_with(is_of_path)).map(
        move |(at, _)| {
            let path = &text[at..];
            path[..path.find(|c| !is_of_path(c)).unwrap_or(path.len())].trim_end_matches(['.', '/'])
        },
    )
}

/// The sources, documents and TOML files below a directory, with what they say.
fn texts(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !["node_modules", "target", "dist"].iter().any(|name| path.ends_with(name)) {
                texts(&path, found);
            }
        } else if path.extension().is_some_and(|e| ["rs", "md", "toml"].iter().any(|kind| e == *kind)) {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn library(documents: &[(&str, &str)]) -> Library {
    let names: Vec<String> = documents.iter().map(|(n, _)| n.to_string()).collect();
    let documents = documents.iter().map(|(n, t)| (n.to_string(), Document::parse(t))).collect();
    Library { documents, exists: Box::new(move |path| names.iter().any(|n| n == path)) }
}

fn nothing(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn broken_links_and_anchors_are_found() {
    let a = "# One\n\n[good](b.md#two-words) ![good](b.md) [code](x.rs)\n\n[gone](c.md) [no heading](b.md#three) [here](#one)\n\n\
             `[quoted](gone.md)`\n\n    [code](gone.md)\n\n```\n[code](gone.md)\n```\n\n[ref]: gone.rs \"title\"\n[web](https://x/y.md)\n";
    let b = "# Two `words`\n## Two words\n[out](../../README.md)\n[same](#two-words-1) [no](#two-words-2)\n";
    let wrong = library(&[("docs/a.md", a), ("docs/b.md", b), ("docs/x.rs", "")]).broken_links();
    let places: Vec<&str> = wrong.iter().map(|w| w.split(": there").next().unwrap()).collect();
    let expected = [
        "docs/a.md:5: c.md",
        "docs/a.md:5: b.md#three: docs/b.md has no such heading",
        "docs/a.md:15: gone.rs",
        "docs/b.md:3: ../../README.md",
        "docs/b.md:4: #two-words-2: docs/b.md has no such heading",
    ];
    assert_eq!(places, expected);
}

#[test]
fn anchors_are_those_of_github_and_mdbook() {
    assert_eq!(slug("Feature D8h: quota"), "feature-d8h-quota");
    assert_eq!(slug("`media = \"nand\"`"), "media--nand");
    assert_eq!(slug("`[[namespace]]`"), "namespace");
    assert_eq!(slug("The [list](x.md) of_hosts"), "the-list-of_hosts");
}

#[test]
fn a_wrong_summary_is_found() {
    let pages = [
        ("docs/SUMMARY.md", "[A](a.md)\n- [Gone](gone.md)\n- [A](a.md)\n"),
        ("docs/a.md", ""),
        ("docs/b/c.md", ""),
        ("README.md", ""),
    ];
    let wrong = library(&pages).wrong_summary();
    let expected = [
        "docs/SUMMARY.md:2: gone.md is no page",
        "docs/SUMMARY.md:3: a.md is there twice",
        "docs/b/c.md is not in docs/SUMMARY.md",
    ];
    assert_eq!(wrong, expected);
    assert_eq!(library(&[("docs/a.md", "")]).wrong_summary(), ["there is no docs/SUMMARY.md"]);
}

#[test]
fn commands_that_are_not_there_are_found() {
    let text = "```sh\ntranche serve --unix t.sock &\ntranche id --on unix:///x; sudo tranche nonsense\nA=b target/release/tranche ns \\\n  lst\n\
                nvme list\n```\n\n    tranche smart --nothing  # tranche nothing\n    $ tranche compare a.toml -- sh --any\n\nProse: tranche nothing.\n\n\
                - item\n\n      echo $(tranche nothing) | tranche sim - --fold=wrap && tranche key nothing\n    tranche: an error\n";
    let wrong = library(&[("docs/a.md", text)]).wrong_commands(&mut Program::default());
    let found: Vec<String> =
        wrong.iter().map(|w| w.split(": ").take(2).collect::<Vec<_>>().join(": ")).collect();
    let expected = [
        "docs/a.md:3: `tranche ` has no command `nonsense`",
        "docs/a.md:4: `tranche ns` has no command `lst`",
        "docs/a.md:9: `tranche smart` has no option `--nothing`",
        "docs/a.md:16: `tranche ` has no command `nothing`",
        "docs/a.md:16: `tranche key` has no command `nothing`",
    ];
    assert_eq!(found, expected);
}

#[test]
fn commands_wait_for_a_drive_that_is_started_before_them() {
    let text = "tranche serve &\ntranche ns list\n\ntranche serve &\nexport A=b\ntranche ns list --wait 30\ntranche ns list\n\n\
                    tranche serve --ublk &   # as root\n    mkfs.ext4 /dev/ublkb0\n\ntranche serve &\nuntil [ -e x ]; do sleep 1; done\nls x\n";
    assert_eq!(hasty(text), [2, 10]);
    let library = Library::of(root());
    let wrong: Vec<String> = library
        .documents
        .keys()
        .flat_map(|path| {
            let text = std::fs::read_to_string(root().join(path)).unwrap();
            hasty(&text)
                .into_iter()
                .map(move |line| format!("{path}:{line}: nothing waits for the drive (--wait 30)"))
        })
        .collect();
    nothing(&wrong);
}

#[test]
fn messages_that_nobody_says_are_found() {
    let page = Document::parse("## Prose\n### `cannot read …: no …`\n### `cannot write …`\n### `… ok`\n");
    let sources =
        [String::from("bail!(\"cannot read {x}: no file\")"), String::from("\"cannot\" \"write\" ok")];
    assert_eq!(
        unknown_messages(&page, &sources),
        ["line 3: no source says `cannot write …`", "line 4: no source says `… ok`"]
    );
}

#[test]
fn every_link_leads_somewhere() {
    nothing(&Library::of(root()).broken_links());
}

#[test]
fn every_path_that_is_named_exists() {
    let named: Vec<_> = named_paths("see `crates/a/b.rs`, crates/c. Not x/crates/d").collect();
    assert_eq!(named, ["crates/a/b.rs", "crates/c"]);
    let mut all = Vec::new();
    for dir in ["crates", "docs", "fuzz", "examples"] {
        texts(&root().join(dir), &mut all);
    }
    all.extend(AT_ROOT.map(|name| (root().join(name), std::fs::read_to_string(root().join(name)).unwrap())));
    // The test's own examples.
    all.retain(|(path, _)| !path.ends_with("tests/docs.rs"));
    let gone = all.iter().flat_map(|(file, text)| {
        let gone = named_paths(text).filter(|path| !root().join(path).exists());
        gone.map(|path| format!("{}: there is no {path}", file.display()))
    });
    nothing(&gone.collect::<Vec<_>>());
}

#[test]
fn every_page_is_in_the_book() {
    nothing(&Library::of(root()).wrong_summary());
}

#[test]
fn every_command_that_is_shown_exists() {
    let mut program = Program::default();
    nothing(&Library::of(root()).wrong_commands(&mut program));
    // That nothing is wrong must not be because nothing was looked at.
    assert!(program.help.len() > 20, "only {} commands are shown", program.help.len());
}

#[test]
fn every_message_of_the_troubleshooting_page_is_said() {
    let library = Library::of(root());
    let page = &library.documents["docs/troubleshooting.md"];
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    nothing(&unknown_messages(page, &all));
    let quoted = page.headings.iter().filter(|(_, h)| h.starts_with('`')).count();
    assert!(quoted >= 25, "the page treats {quoted} messages");
}

#[test]
fn drawings_are_used_and_harmless() {
    let library = Library::of(root());
    let used: BTreeSet<String> = library
        .documents
        .iter()
        .flat_map(|(path, d)| d.links.iter().map(move |(_, t)| resolved(path, t)))
        .collect();
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("docs/img")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let text = std::fs::read_to_string(root().join("docs/img").join(&name)).unwrap();
        assert!(used.contains(&format!("docs/img/{name}")), "no page shows {name}");
        assert!(text.contains("viewBox=") && text.contains("<title>"), "{name} lacks a view box or a title");
        assert!(text.contains("prefers-color-scheme: dark"), "{name} knows no dark mode");
        assert!(
            !text.contains("<script") && !text.contains("href=\"http"),
            "{name} does more than be looked at"
        );
        seen += 1;
    }
    assert!(seen > 0, "there are no drawings");
}
