//! The page for users, and the dashboard, know the metrics that there are.

use crate::support::Drive;
use metrics::families::{self, Kind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use testkit::skipped;

const BEGIN: &str =
    "<!-- The table is made by UPDATE=1 cargo test -p metrics --test suite documented:: -->\n";
const END: &str = "<!-- end of the table -->\n";

fn at_root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)
}

fn table() -> String {
    let mut table = "| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for family in families::all() {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (family.name(), family.kind.name(), labels.join(", "));
        table += &format!("| `{name}` | {kind} | {labels} | {} |\n", family.help);
    }
    table
}

#[test]
fn the_page_has_the_table() {
    let path = at_root("docs/howto/metrics.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the begin of the table");
    let (_, after) = rest.split_once(END).expect("its end");
    let wanted = format!("{before}{BEGIN}\n{}\n{END}{after}", table());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    } else {
        assert!(
            page == wanted,
            "docs/howto/metrics.md is out of date; run: UPDATE=1 cargo test -p metrics --test suite documented::"
        );
    }
}

#[test]
fn names_and_helps_are_in_good_form() {
    let mut seen = BTreeSet::new();
    for family in families::all() {
        let name = family.name();
        assert!(seen.insert(name.clone()), "{name} is there twice");
        assert!(family.help.starts_with(|c: char| c.is_uppercase()) && !family.help.ends_with('.'), "{name}");
        assert!(!family.help.contains(['\n', '\\', '|', '"']), "{name}");
        assert!(!name.contains("total_") && !name.contains("__"), "{name}");
        assert!(!family.labels.contains(&"le") && !family.labels.contains(&"instance"), "{name}");
    }
    assert!(families::all().any(|family| family.kind == Kind::Histogram));
}

/// What a PromQL expression asks for: selectors with the labels that they match, and labels that it groups by.
#[derive(Debug, Default, PartialEq)]
struct Query {
    selectors: Vec<(String, Vec<String>)>,
    grouped: Vec<String>,
}

impl Query {
    /// Reads names and labels. Everything else of an expression is promtool's to judge.
    fn parse(expression: &str) -> Query {
        let mut query = Query::default();
        let mut rest = expression;
        while let Some(start) =
            rest.find(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '"' || c == '$' || c == '[')
        {
            rest = &rest[start..];
            if let Some(string) = rest.strip_prefix('"') {
                rest = string.split_once('"').expect("the end of a string").1;
                continue;
            }
            if let Some(range) = rest.strip_prefix('[') {
                rest = range.split_once(']').expect("the end of a range").1;
                continue;
            }
            let end = rest[1..]
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .map_or(rest.len(), |end| end + 1);
            let (word, behind) = rest.split_at(end);
            rest = behind;
            if ["by", "without", "on", "ignoring", "group_left", "group_right"].contains(&word) {
                let (list, behind) =
                    rest.trim_start().strip_prefix('(').expect("a list").split_once(')').unwrap();
                query
                    .grouped
                    .extend(list.split(',').map(|label| label.trim().to_owned()).filter(|l| !l.is_empty()));
                rest = behind;
            } else if word.starts_with("tranche_") {
                let mut labels = Vec::new();
                if let Some(list) = rest.strip_prefix('{') {
                    let (list, behind) = list.split_once('}').expect("the end of a selector");
                    for matcher in list.split(',').filter(|matcher| !matcher.trim().is_empty()) {
                        let end = matcher.find(['=', '!']).expect("a matcher");
                        labels.push(matcher[..end].trim().to_owned());
                    }
                    rest = behind;
                }
                query.selectors.push((word.to_owned(), labels));
            }
        }
        query
    }
}

#[test]
fn expressions_are_read() {
    let query = Query::parse(
        "histogram_quantile(0.99, sum by (le, nsid) (rate(tranche_a_bucket{instance=\"$i\",nsid=~\"$n\"}[5m]))) / \
         on (nsid) tranche_b",
    );
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(query.selectors.len(), 2);
    assert_eq!(query.selectors[0], ("tranche_a_bucket".to_owned(), names(&["instance", "nsid"])));
    assert_eq!(query.grouped, names(&["le", "nsid", "nsid"]));
}

/// Every string of this key, wherever it is.
fn strings<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str().filter(|_| name == key) {
                    Some(text) => found.push(text),
                    None => strings(member, key, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|member| strings(member, key, found)),
        _ => {}
    }
}

fn dashboard() -> Value {
    let text = std::fs::read_to_string(at_root("dashboards/tranche.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Labels that Prometheus itself adds.
const TARGET: [&str; 2] = ["instance", "job"];

#[test]
fn the_dashboard_asks_for_what_a_drive_serves() {
    let (drive, _dir) = Drive::with_socket();
    let mut host = drive.host("dashboard");
    let mut queue = host.io_queue(4).unwrap();
    for nsid in [1, 2, 3] {
        let ns = host.namespace(nsid).unwrap();
        queue.write(&ns, 0, &[1; 4096], false).unwrap();
    }
    let served: BTreeMap<String, BTreeSet<String>> = drive.page().names();
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut used = BTreeSet::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && panel["description"].is_string(), "{title}");
        for target in targets {
            let query = Query::parse(target["expr"].as_str().unwrap());
            assert!(!query.selectors.is_empty(), "{title}: {target}");
            let mut known: BTreeSet<&str> = TARGET.into();
            for (name, labels) in &query.selectors {
                let of = served.get(name).unwrap_or_else(|| panic!("{title}: no drive serves {name}"));
                known.extend(of.iter().map(|label| &**label));
                for label in labels {
                    assert!(
                        of.contains(label) || TARGET.contains(&&**label),
                        "{title}: {name} has no label {label}"
                    );
                }
                used.insert(name.clone());
            }
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            let shown = legend.split("{{").skip(1).map(|rest| rest.split_once("}}").unwrap().0.trim());
            for label in query.grouped.iter().map(|label| &**label).chain(shown) {
                assert!(known.contains(label), "{title}: no metric of {target} has the label {label}");
            }
        }
    }
    for part in [
        "_written_bytes",
        "_latency_",
        "amplification",
        "spare",
        "wear",
        "flight",
        "throttled",
        "collect",
        "zones",
        "errors",
    ] {
        let part = if part == "wear" { "set_used" } else { part };
        assert!(used.iter().any(|name| name.contains(part)), "no panel shows {part}: {used:?}");
    }
}

#[test]
fn the_dashboards_variables_are_of_metrics_that_are_there() {
    let served = Drive::start().page();
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let mut defined = BTreeSet::from(["datasource".to_owned(), "__rate_interval".to_owned()]);
    for variable in variables {
        defined.insert(variable["name"].as_str().unwrap().to_owned());
        let Some(query) = variable["query"].as_str().filter(|_| variable["type"] == "query") else {
            continue;
        };
        let (selector, label) =
            query.strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap().rsplit_once(',').unwrap();
        let selected = Query::parse(selector);
        let names = served.names();
        let labels: &BTreeSet<String> = &names[&selected.selectors[0].0];
        assert!(TARGET.contains(&label.trim()) || labels.contains(label.trim()), "{query}");
    }
    let mut expressions = Vec::new();
    strings(&dashboard, "expr", &mut expressions);
    for name in expressions.iter().flat_map(|expression| expression.split('$').skip(1)) {
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
        assert!(defined.contains(&name[..end]), "${}", &name[..end]);
    }
    // No panel covers another.
    let mut cells: BTreeSet<(u64, u64)> = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for cell in
            (at("y")..at("y") + at("h")).flat_map(|y| (at("x")..at("x") + at("w")).map(move |x| (x, y)))
        {
            assert!(cell.0 < 24 && cells.insert(cell), "{}", panel["title"]);
        }
    }
}

#[test]
fn prometheus_reads_the_expressions_and_the_configuration() {
    let test = "prometheus_reads_the_expressions_and_the_configuration";
    if Command::new("promtool").arg("--version").output().is_err() {
        return skipped(test, "promtool is not installed (scripts/setup-debian.sh)");
    }
    let dashboard = dashboard();
    let mut expressions = Vec::new();
    strings(&dashboard, "expr", &mut expressions);
    assert!(expressions.len() > 15, "{}", expressions.len());
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (number, expression) in expressions.iter().enumerate() {
        let expression = expression.replace("$__rate_interval", "1m").replace('\'', "''");
        rules += &format!("  - record: expression:{number}\n    expr: '{expression}'\n");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.yml");
    std::fs::write(&file, rules).unwrap();
    for (what, path) in [("rules", file), ("config", at_root("dashboards/prometheus.yml"))] {
        let checked = Command::new("promtool").arg("check").arg(what).arg(&path).output().unwrap();
        let said =
            [checked.stdout, checked.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        assert!(checked.status.success(), "{what}: {said}");
    }
}
