//! What an installed PostgreSQL makes of a configuration: `postgres -C NAME` says the value that it takes. It only reads files.

use std::{path::Path, process::Command};

use anyhow::{Result, bail};

use crate::{
    advise::{asked, settings::Settings},
    control::Cancel,
    postgresql::Server,
};

/// The settings of a file with the values that a server takes for `names`; none if it cannot say.
///
/// # Errors
/// It does not start with them; the work is to end.
pub fn settings(
    server: &Server,
    path: &Path,
    settings: &Settings,
    names: &[String],
    cancel: &Cancel,
) -> Result<Option<Settings>> {
    let Ok(path) = std::path::absolute(path) else { return Ok(None) };
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut settings = settings.clone();
    // The first question has the whole configuration checked, also where nothing of it matters.
    for name in std::iter::once("shared_buffers").chain(names.iter().map(String::as_str)) {
        let mut command = Command::new(server.programs.join("postgres"));
        // -C must be first: so the server lets root ask.
        command.args(["-C", name, "-D"]).arg(directory).arg("--config-file").arg(&path);
        let Some(said) = asked::run(&mut command, cancel)? else { return Ok(None) };
        if !said.success {
            let Some(refusal) = refusal(&said.messages, settings.files.iter().map(AsRef::as_ref)) else {
                return Ok(None);
            };
            bail!(
                "{} does not start with this configuration: {refusal} (--no-ask asks no server)",
                server.title
            );
        }
        let last = settings.all.iter_mut().rfind(|setting| setting.name == name);
        if let Some(setting) = last {
            setting.value = Some(said.list.trim_end_matches('\n').to_owned());
        }
    }
    Ok(Some(settings))
}

/// What a server objects to in these files; none if it objects to something else.
fn refusal<'a>(messages: &str, mut files: impl Iterator<Item = &'a Path>) -> Option<String> {
    if messages.contains("Permission denied")
        || !files.any(|file| messages.contains(&*file.to_string_lossy()))
    {
        return None;
    }
    let said = messages.lines().filter_map(|line| line.split_once(":  ").map(|(_, said)| said.trim()));
    let said: Vec<&str> = said.filter(|said| !said.starts_with("skipping missing")).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_of_the_files() {
        let said = "2026-11-29 16:11:03.671 GMT [9096] LOG:  unrecognized configuration parameter \"x\" in file \"/a/b.conf\" line 1\n\
                    2026-11-29 16:11:03.671 GMT [9096] FATAL:  configuration file \"/a/b.conf\" contains errors\n";
        let of = |file: &str, said: &str| refusal(said, [Path::new(file)].into_iter());
        let told = of("/a/b.conf", said).unwrap();
        assert!(told.starts_with(
            "unrecognized configuration parameter \"x\" in file \"/a/b.conf\" line 1; configuration"
        ));
        assert_eq!(of("/a/c.conf", said), None);
        assert_eq!(of("/a/b.conf", "LOG:  could not open file \"/a/b.conf\": Permission denied\n"), None);
    }
}
