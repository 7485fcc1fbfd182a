//! docs/features.md links what it says of this drive to tests: each link is defined, and names a test that exists.

use std::collections::BTreeMap;
use std::path::Path;

/// `[name]: path "title"`.
fn definition(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.strip_prefix('[')?.split_once("]: ")?;
    let (path, title) = rest.split_once(' ')?;
    Some((name, path, title.trim_matches('"')))
}

/// Names of the links `[text][name]` of a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("][").skip(1).filter_map(|rest| rest.split_once(']')).map(|(name, _)| name)
}

#[test]
fn every_feature_has_its_test() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    let page = std::fs::read_to_string(docs.join("features.md")).unwrap();
    let tests: BTreeMap<_, _> =
        page.lines().filter_map(definition).map(|(name, path, title)| (name, (path, title))).collect();
    let mut used: Vec<&str> = page.lines().flat_map(links).collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used, tests.keys().copied().collect::<Vec<_>>(), "links, and where they lead");
    for (name, (path, test)) in tests {
        let source =
            std::fs::read_to_string(docs.join(path)).unwrap_or_else(|e| panic!("[{name}]: {path}: {e}"));
        // A test, perhaps one of proptest's; attributes may come between.
        let found = source.match_indices(&format!("fn {test}(")).any(|(at, _)| {
            let before = &source[..at];
            before.rsplit_once("#[test]").is_some_and(|(_, between)| !between.contains('{'))
        });
        assert!(found, "[{name}]: {path} has no test {test}");
    }
}
