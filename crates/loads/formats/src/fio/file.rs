//! The text of a job file: sections, and options with the line on which they stand.

use std::fmt;

/// What is wrong with a job file, and on which line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// Line, counted from 1.
    pub line: u32,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for FileError {}

/// One option as it stands in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its line, counted from 1.
    pub line: u32,
    /// Its name, as written.
    pub name: String,
    /// What follows the equals sign; `None` without one.
    pub value: Option<String>,
}

/// One section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// Line of its head, counted from 1.
    pub line: u32,
    /// What stands between the brackets.
    pub name: String,
    /// Its options, in order.
    pub settings: Vec<Setting>,
}

impl Section {
    /// Whether its options are for all jobs that follow.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.name == "global"
    }
}

/// A job file, read but not yet understood. Written out (with `to_string`) it reads the same again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobFile {
    /// Its sections, in order.
    pub sections: Vec<Section>,
}

/// Longest job file that is read, in bytes.
pub const FILE_MAX: usize = 1 << 20;

impl JobFile {
    /// Reads the text of a job file. `variable` gives the value of an environment variable, for `${NAME}` in
    /// the options; one that is not set is left empty, as fio leaves it, where that leaves a value.
    ///
    /// # Errors
    /// The line that makes no sense.
    pub fn parse(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, FileError> {
        let mut file = Self::default();
        let wrong = |line, problem: &str| Err(FileError { line, problem: problem.to_owned() });
        if text.len() > FILE_MAX {
            return wrong(1, "a job file has at most 1 MiB");
        }
        for (line, content) in (1..).zip(text.lines()) {
            // A remark, wherever it begins.
            let content = content.split([';', '#']).next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            if content == "include" || content.starts_with("include ") {
                return wrong(line, "include is not supported: put the other file's lines here");
            }
            if let Some(head) = content.strip_prefix('[') {
                let Some((name, rest)) = head.split_once(']') else {
                    return wrong(line, "the section's name has no closing bracket: write [name]");
                };
                if !rest.trim().is_empty() {
                    return wrong(
                        line,
                        "something follows the section's name: put options on lines of their own",
                    );
                }
                if name.trim().is_empty() {
                    return wrong(line, "the section has no name: write [name]");
                }
                file.sections.push(Section { line, name: name.trim().to_owned(), settings: Vec::new() });
                continue;
            }
            let Some(section) = file.sections.last_mut() else {
                return wrong(line, "an option before the first section: put [global] or [name] above it");
            };
            let written = content;
            let content = expand(content, variable).map_err(|problem| FileError { line, problem })?;
            if content.contains([';', '#']) {
                return wrong(
                    line,
                    &format!("{written}: a variable has {content:?} here; ; and # begin a remark"),
                );
            }
            if let Some(keyword) = KEYWORDS.iter().find(|keyword| content.contains(*keyword)) {
                let problem = "another load on another machine: write the number, or an environment variable";
                return wrong(line, &format!("{keyword} is not supported, because it means {problem}"));
            }
            let (name, value) = match content.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim().to_owned())),
                None => (content.trim(), None),
            };
            if name.is_empty() {
                return wrong(line, "a value without an option's name before the equals sign");
            }
            if value.as_deref() == Some("") && written.contains("${") {
                return wrong(
                    line,
                    &format!("{written}: nothing is left of the value: set the environment variable"),
                );
            }
            section.settings.push(Setting { line, name: name.to_owned(), value });
        }
        Ok(file)
    }
}

/// What fio replaces by facts of the machine that it runs on, wherever it stands.
const KEYWORDS: [&str; 3] = ["$mb_memory", "$pagesize", "$ncpus"];

/// Longest line after its variables have their values.
const LINE_MAX: usize = 64 << 10;

fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            return Err("a variable has no closing brace: write ${NAME}".to_owned());
        };
        out.push_str(before);
        out.push_str(&variable(name).unwrap_or_default().replace(['\n', '\r'], " "));
        if out.len() > LINE_MAX {
            return Err("the line is too long once its variables have their values".to_owned());
        }
        rest = after;
    }
    Ok(out + rest)
}

impl fmt::Display for JobFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, section) in self.sections.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            writeln!(f, "[{}]", section.name)?;
            for setting in &section.settings {
                match &setting.value {
                    Some(value) => writeln!(f, "{}={value}", setting.name)?,
                    None => writeln!(f, "{}", setting.name)?,
                }
            }
        }
        Ok(())
    }
}
