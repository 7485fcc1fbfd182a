//! A drive with an endpoint, a client, and a strict reader of both text formats.
#![allow(dead_code, reason = "each test takes what it needs")]

use host::{Host, Identity};
use live::{LocalTransport, Options, Running, Shape};
use metrics::{Endpoint, Listener};
use nvme::Nqn;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use testkit::http;
pub use testkit::http::Answer;

/// Flash with conventional namespaces, a zoned one and one with a quota; and DRAM.
pub fn drive() -> String {
    let flash = testkit::drives::flash("256MiB", "zone = { active = 14 }");
    format!(
        r#"
[drive]
timing = false
write_buffer = "1MiB"
{flash}
[[set]]
media = "dram"
capacity = "16MiB"

[[namespace]]
size = "176MiB"

[[namespace]]
size = "8MiB"
set = 2

[[namespace]]
size = "16MiB"
read = "1GiB/s"
write_iops = 100000

[[namespace]]
size = "32MiB"
lba = 4096
zoned = true
"#
    )
}

pub struct Drive {
    pub endpoint: Endpoint,
    pub running: Running,
}

impl Drive {
    pub fn start() -> Drive {
        Drive::with(&Options::default())
    }

    /// One that listens on a Unix socket in a directory.
    pub fn with_socket() -> (Drive, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let unix = Some(dir.path().join("socket"));
        (Drive::with(&Options { unix, ..Options::default() }), dir)
    }

    pub fn with(options: &Options) -> Drive {
        let shape = Shape { config: live::Config::from_toml(&drive()).unwrap(), toml: drive() };
        let running = live::start(Some(shape), options, &mut |_| ()).unwrap();
        let endpoint = Endpoint::start(Listener::bind("127.0.0.1:0").unwrap(), running.handle()).unwrap();
        Drive { endpoint, running }
    }

    pub fn host(&self, name: &str) -> Host<LocalTransport> {
        let nqn = Nqn::new(&format!("nqn.2026-11.test:{name}")).unwrap();
        Host::connect(LocalTransport::new(self.running.handle()), &Identity::new(nqn)).unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        http::connect(self.endpoint.address())
    }

    /// What comes until the connection ends, in answer to these bytes.
    pub fn send(&self, request: &[u8]) -> Answer {
        http::send(self.endpoint.address(), request)
    }

    pub fn get(&self, path: &str, headers: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes())
    }

    pub fn page(&self) -> Page {
        let answer = self.get("/metrics", "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        Page::parse(&answer.body, false)
    }
}

/// Labels with their values.
pub type Labels = BTreeMap<String, String>;

/// A metric as it was read.
#[derive(Debug, Default)]
pub struct Metric {
    pub kind: String,
    pub help: String,
    pub unit: Option<String>,
    /// Names, labels and values of its lines.
    pub lines: Vec<(String, Labels, f64)>,
}

/// All metrics of a scrape, by the names of their `TYPE` lines.
#[derive(Debug, Default)]
pub struct Page {
    pub metrics: BTreeMap<String, Metric>,
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// Labels, and what is left behind them.
fn labels(text: &str) -> (Labels, &str) {
    let Some(mut rest) = text.strip_prefix('{') else { return (Labels::new(), text) };
    let mut labels = Labels::new();
    loop {
        let (name, behind) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {text}"));
        assert!(is_name(name) && !name.starts_with("__"), "{text}");
        let mut value = String::new();
        let mut chars = behind.char_indices();
        let end = loop {
            match chars.next() {
                Some((at, '"')) => break at,
                Some((_, '\\')) => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, c @ ('"' | '\\'))) => value.push(c),
                    other => panic!("{other:?} is no escape: {text}"),
                },
                Some((_, c)) => value.push(c),
                None => panic!("a label does not end: {text}"),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} is there twice: {text}");
        rest = &behind[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return (labels, rest.strip_prefix('}').unwrap_or_else(|| panic!("no end: {text}"))),
        }
    }
}

impl Page {
    /// Reads Prometheus's text format, or OpenMetrics. Panics if a line is not in good form.
    pub fn parse(text: &str, open: bool) -> Page {
        let body = match open {
            true => text.strip_suffix("# EOF\n").expect("the end"),
            false => text,
        };
        assert!(
            body.ends_with('\n') && !body.contains("# EOF") && !body.contains("\n\n") && !body.contains('\r')
        );
        let mut page = Page::default();
        let mut series = BTreeSet::new();
        let mut current = String::new();
        for line in body.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let (what, rest) = comment.split_once(' ').unwrap();
                let (name, rest) = rest.split_once(' ').unwrap();
                assert!(is_name(name), "{line}");
                if what == "HELP" {
                    assert!(!page.metrics.contains_key(name), "{name} is there twice");
                    name.clone_into(&mut current);
                    page.metrics.entry(current.clone()).or_default().help = rest.to_owned();
                    continue;
                }
                assert_eq!(name, current, "{line}");
                let metric = page.metrics.get_mut(name).unwrap();
                assert!(metric.lines.is_empty(), "{line}");
                match what {
                    "TYPE" => metric.kind = rest.to_owned(),
                    "UNIT" if open => {
                        assert!(name.ends_with(&format!("_{rest}")), "{line}");
                        metric.unit = Some(rest.to_owned());
                    }
                    _ => panic!("{line}"),
                }
                continue;
            }
            let end = line.find(['{', ' ']).unwrap();
            let (labels, value) = labels(&line[end..]);
            let name = &line[..end];
            let value = value.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
            let number: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(series.insert((name.to_owned(), labels.clone())), "{line} is there twice");
            let metric = page.metrics.get_mut(&current).unwrap();
            metric.lines.push((name.to_owned(), labels, number));
        }
        page.metrics.iter().for_each(|(name, metric)| metric.check(name, open));
        page
    }

    /// The value of a line.
    pub fn value(&self, name: &str, wanted: &[(&str, &str)]) -> Option<f64> {
        let wanted: Labels = wanted.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let lines = self.metrics.values().flat_map(|metric| &metric.lines);
        lines.filter(|(of, labels, _)| of == name && *labels == wanted).map(|(_, _, value)| *value).next()
    }

    /// The same, of a line that must be there.
    pub fn get(&self, name: &str, wanted: &[(&str, &str)]) -> f64 {
        self.value(name, wanted).unwrap_or_else(|| panic!("{name} {wanted:?} is not there"))
    }

    /// Names of lines, and the labels that they have.
    pub fn names(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, labels, _) in self.metrics.values().flat_map(|metric| &metric.lines) {
            names.entry(name.clone()).or_default().extend(labels.keys().cloned());
        }
        names
    }
}

impl Metric {
    fn check(&self, name: &str, open: bool) {
        assert!(!self.help.is_empty(), "{name}");
        let suffixes: &[&str] = match (&*self.kind, open) {
            ("counter", true) => &["_total"],
            ("info", true) => &["_info"],
            ("counter" | "gauge", false) | ("gauge", true) => &[""],
            ("histogram", _) => &["_bucket", "_sum", "_count"],
            _ => panic!("{name} is a {}", self.kind),
        };
        assert!(self.kind != "counter" || open || name.ends_with("_total"), "{name}");
        for (line, labels, value) in &self.lines {
            let suffix = line.strip_prefix(name).unwrap_or_else(|| panic!("{line} is under {name}"));
            assert!(suffixes.contains(&suffix), "{line}");
            assert_eq!(labels.contains_key("le"), suffix == "_bucket", "{line}");
            assert!(value.is_finite() && *value >= 0.0, "{line} {value}");
        }
        if self.kind == "histogram" {
            self.check_buckets(name);
        }
    }

    fn check_buckets(&self, name: &str) {
        let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for (_, labels, value) in self.lines.iter().filter(|(line, ..)| line.ends_with("_bucket")) {
            let mut labels = labels.clone();
            let bound = labels.remove("le").unwrap().replace("+Inf", "inf").parse().unwrap();
            buckets.entry(labels).or_default().push((bound, *value));
        }
        for (labels, buckets) in buckets {
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name} {labels:?} {buckets:?}");
            let (last, all) = buckets[buckets.len() - 1];
            assert!(last.is_infinite(), "{name} {labels:?}");
            let count = format!("{name}_count");
            let count = self.lines.iter().find(|(line, of, _)| *line == count && *of == labels).unwrap().2;
            assert_eq!(all, count, "{name} {labels:?}");
        }
    }
}
