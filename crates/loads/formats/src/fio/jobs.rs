//! From sections to jobs: global options handed down, every option understood.

use super::file::{FileError, JobFile, Section};
use super::names::canonical;
use super::options::Options;
use super::value;

/// An option as text: for reports.
pub type NamedOption = (String, String);

/// One job of a file; with `numjobs` several run it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobSpec {
    /// Its name: that of the section, or the option `name`.
    pub name: String,
    /// Line of its section.
    pub line: u32,
    /// Its options, those of the global sections above it among them.
    pub options: Options,
    /// The options of its own section that have a value.
    pub own: Vec<NamedOption>,
    /// Jobs of a group are reported together: a new one starts with `stonewall` or `new_group`.
    pub group: u32,
    /// Jobs of a phase run at the same time: a new one starts with `stonewall`.
    pub phase: u32,
}

/// What a job file asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Jobs {
    /// The options of global sections that have a value.
    pub global: Vec<NamedOption>,
    /// The jobs, in order; never none.
    pub jobs: Vec<JobSpec>,
    /// Options that are accepted and change nothing, each said once.
    pub notes: Vec<String>,
}

/// Most jobs of a file, clones counted.
pub const JOBS_MAX: u64 = 1024;

impl JobFile {
    /// The jobs of the file.
    ///
    /// # Errors
    /// The line with an option that is unknown, not supported, or has a value that makes no sense.
    pub fn jobs(&self) -> Result<Jobs, FileError> {
        let mut jobs = Jobs::default();
        let mut global = Options::default();
        let (mut group, mut phase, mut count) = (0, 0, 0);
        for section in &self.sections {
            if section.is_global() {
                apply(section, &mut global, &mut jobs.notes)?;
                jobs.global.extend(given(section));
                continue;
            }
            // A stonewall of the global section stands before every job.
            let mut options = global.clone();
            apply(section, &mut options, &mut jobs.notes)?;
            let wrong = |problem| FileError { line: section.line, problem };
            count += u64::from(options.numjobs);
            if count > JOBS_MAX {
                return Err(wrong(format!("more than {JOBS_MAX} jobs")));
            }
            if options.time_based && options.runtime == 0 {
                return Err(wrong("time_based needs a runtime".to_owned()));
            }
            if options.verify == Some(super::Verify::Pattern) && options.verify_pattern.is_empty() {
                return Err(wrong("verify=pattern needs a verify_pattern".to_owned()));
            }
            if !jobs.jobs.is_empty() {
                group += u32::from(options.stonewall || options.new_group);
                phase += u32::from(options.stonewall);
            }
            let named = section.settings.iter().rev().find(|setting| setting.name == "name");
            let name =
                named.and_then(|setting| setting.value.clone()).unwrap_or_else(|| section.name.clone());
            jobs.jobs.push(JobSpec {
                name,
                line: section.line,
                options,
                own: given(section).collect(),
                group,
                phase,
            });
        }
        match jobs.jobs.is_empty() {
            true => {
                Err(FileError { line: 1, problem: "the file has no job: write a section [name]".to_owned() })
            }
            false => Ok(jobs),
        }
    }

    /// Bytes that `text` means as the value of an option that is one size: `bs`, `size`, `io_size`, `offset`. `None` for other options, for
    /// what is no single size, and where `kb_base` makes it mean different sizes in different jobs.
    pub fn bytes(&self, option: &str, text: &str) -> Option<u64> {
        if !matches!(canonical(option), "bs" | "size" | "io_size" | "offset") {
            return None;
        }
        let jobs = self.jobs().ok()?.jobs;
        let base = jobs.first()?.options.kb_base();
        let agreed = jobs.iter().all(|job| job.options.kb_base() == base);
        agreed.then(|| value::size(text, base).ok()).flatten()
    }
}

fn apply(section: &Section, options: &mut Options, notes: &mut Vec<String>) -> Result<(), FileError> {
    // Units first: they hold for the whole section.
    let order = |name: &str| u8::from(name != "kb_base");
    let mut settings: Vec<_> = section.settings.iter().collect();
    settings.sort_by_key(|setting| order(&setting.name));
    for setting in settings {
        if setting.name == "name" && !section.is_global() {
            continue;
        }
        match options.set(&setting.name, setting.value.as_deref()) {
            Ok(Some(note)) if !notes.contains(&note) => notes.push(note),
            Ok(_) => {}
            Err(problem) => return Err(FileError { line: setting.line, problem }),
        }
    }
    Ok(())
}

fn given(section: &Section) -> impl Iterator<Item = NamedOption> + '_ {
    section.settings.iter().filter_map(|setting| Some((setting.name.clone(), setting.value.clone()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_as_the_jobs_mean_them() {
        let file = |text: &str| JobFile::parse(text, &|_| None).unwrap();
        let plain = file("[a]\n[b]\n");
        for (option, text, bytes) in [
            ("bs", "4k", Some(4096)),
            ("blocksize", "4KiB", Some(4000)),
            ("size", "1g", Some(1 << 30)),
            ("size", "50%", None),
            ("bs", "4k,8k", None),
            ("runtime", "1m", None),
        ] {
            assert_eq!(plain.bytes(option, text), bytes, "{option}={text}");
        }
        assert_eq!(file("[global]\nkb_base=1000\n[a]\n[b]\n").bytes("bs", "4k"), Some(4000));
        assert_eq!(file("[a]\nkb_base=1000\n[b]\n").bytes("bs", "4k"), None, "the jobs mean different sizes");
        assert_eq!(file("[a]\nkb_base=1000\n[b]\nkb_base=1000\n").bytes("bs", "4k"), Some(4000));
    }
}
