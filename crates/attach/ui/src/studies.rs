//! Reports of studies: `NAME/report.html` in a directory.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Most bytes of a report.
const MAX_REPORT_BYTES: u64 = 64 << 20;
/// Bytes at the begin of a report in which its title is looked for.
const HEAD: u64 = 8 << 10;
/// Most reports in the list.
const REPORTS: usize = 1000;

/// A directory of reports.
#[derive(Clone, Debug)]
pub(crate) struct Studies(Option<PathBuf>);

/// Whether a name is one of a directory beside others.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.bytes().all(fits)
}

/// A report, if it lies in the directory itself: what a symbolic link leads to elsewhere does not count.
fn open(dir: &Path, name: &str) -> io::Result<File> {
    let dir = dir.canonicalize()?;
    let path = dir.join(name).join("report.html").canonicalize()?;
    // Only a file is opened: a pipe would wait for a writer.
    let meta = path.metadata()?;
    if !path.starts_with(&dir) || !meta.is_file() || meta.len() > MAX_REPORT_BYTES {
        return Err(io::ErrorKind::NotFound.into());
    }
    File::open(&path)
}

fn read(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The title of a report, as it is in its source.
fn title(file: File) -> Option<String> {
    let head = read(file, HEAD).ok()?;
    let text = String::from_utf8_lossy(&head);
    let title = text.split_once("<title>")?.1.split_once("</title>")?.0.trim();
    let plain = title.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    Some(plain.replace("&amp;", "&")).filter(|title| !title.is_empty())
}

impl Studies {
    pub fn new(dir: Option<PathBuf>) -> Studies {
        Studies(dir)
    }

    /// All reports, by name. Without a directory there are none.
    pub fn list(&self) -> Value {
        let Some(dir) = &self.0 else { return json!([]) };
        let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| is_name(name));
        names.sort();
        let report = |name: String| {
            let title = title(open(dir, &name).ok()?).unwrap_or_else(|| name.clone());
            Some(json!({ "name": name, "title": title, "url": format!("/studies/{name}/report.html") }))
        };
        names.into_iter().filter_map(report).take(REPORTS).collect()
    }

    /// A report.
    pub fn report(&self, name: &str) -> Option<Vec<u8>> {
        let dir = self.0.as_ref().filter(|_| is_name(name))?;
        read(open(dir, name).ok()?, MAX_REPORT_BYTES).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, write};
    use std::os::unix::fs::symlink;

    #[test]
    fn only_reports_in_the_directory_are_found() {
        let outside = tempfile::tempdir().unwrap();
        write(outside.path().join("report.html"), "secret").unwrap();
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in
            [("quota", "<title>Quota &amp; more</title>x"), ("untitled", "y"), (".hidden", "z")]
        {
            create_dir(dir.path().join(name)).unwrap();
            write(dir.path().join(name).join("report.html"), text).unwrap();
        }
        create_dir(dir.path().join("empty")).unwrap();
        symlink(outside.path(), dir.path().join("linked")).unwrap();
        create_dir(dir.path().join("file")).unwrap();
        symlink(outside.path().join("report.html"), dir.path().join("file/report.html")).unwrap();
        create_dir(dir.path().join("socket")).unwrap();
        // No more a file than a pipe is, and it does not wait if it is opened.
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket/report.html")).unwrap();
        let studies = Studies::new(Some(dir.path().to_owned()));
        let found = |name: &str, title: &str| json!({ "name": name, "title": title, "url": format!("/studies/{name}/report.html") });
        assert_eq!(studies.list(), json!([found("quota", "Quota & more"), found("untitled", "untitled")]));
        assert_eq!(studies.report("untitled").as_deref(), Some(&b"y"[..]));
        for name in [
            "", ".", "..", ".hidden", "empty", "linked", "file", "socket", "quota/..", "../quota", "quota\0",
            "%2e%2e",
        ] {
            assert_eq!(studies.report(name), None, "{name:?}");
        }
        let none = Studies::new(None);
        assert_eq!((none.list(), none.report("quota")), (json!([]), None));
        assert_eq!(Studies::new(Some(dir.path().join("nowhere"))).list(), json!([]));
    }
}
