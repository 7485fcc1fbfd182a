//! Tables of what is refused: each test has one, checks its rows, and makes its section of the page `illegal.md` of the book.

use nvme::command::{AdminOpcode, IoOpcode};
use nvme::feature::FeatureId;
use nvme::log::LogId;
use nvme::{Command, Status};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

const HEAD: &str = "# What is refused, and how

The drive answers these commands, property writes and connections with an error status. Tests try each case, and neighbouring cases that succeed. Status names are
those of NVM Express Base 2.1, figures \"Status Code\". Status code type and status code follow the name.

Sections of the specifications that define the commands and their statuses:

| specification | commands and sections |
|---|---|
| Base 2.1 | Abort 5.1.1, Asynchronous Event Request 5.1.2, Device Self-test 5.1.5, Directive Receive 5.1.6, Directive Send 5.1.7, Firmware Commit 5.1.8, Firmware Image Download 5.1.9, Format NVM 5.1.10, Get Features 5.1.11, Get Log Page 5.1.12, Identify 5.1.13, Keep Alive 5.1.14, Namespace Attachment 5.1.20, Namespace Management 5.1.21, Sanitize 5.1.22, Set Features 5.1.25, Connect 6.3, Property Get 6.5, Property Set 6.6, Flush 7.2, I/O Management Receive 7.3, I/O Management Send 7.4, Reservation Acquire 7.5, Reservation Register 7.6, Reservation Release 7.7, Reservation Report 7.8, unknown opcodes: 4.2.3.1 |
| NVM Command Set 1.1 | Compare 3.3.1, Copy 3.3.2, Dataset Management 3.3.3, Read 3.3.4, Verify 3.3.5, Write 3.3.6, Write Uncorrectable 3.3.7, Write Zeroes 3.3.8, Get LBA Status 4.2.1 |
| Zoned Namespace Command Set 1.2 | Zone Append 3.4.1, Zone Management Receive 3.4.2, Zone Management Send 3.4.3, statuses of zones for other commands: 3.3 |
| vendor specific | Fault Injection, Power Cut, quotas: [vendor.md](vendor.md) |
";

/// Sources that are not the section of a command: unknown opcodes, statuses of zones for other commands, and what is vendor specific.
const OTHER_SOURCES: [&str; 3] = ["Base 4.2.3.1", "ZNS 3.3", "[vendor.md](vendor.md)"];

/// Statuses of the Zoned Namespace Command Set, with which commands of the NVM Command Set may end.
const ZONE_STATUSES: [Status; 7] = [
    Status::ZONE_BOUNDARY_ERROR,
    Status::ZONE_IS_FULL,
    Status::ZONE_IS_READ_ONLY,
    Status::ZONE_IS_OFFLINE,
    Status::ZONE_INVALID_WRITE,
    Status::TOO_MANY_ACTIVE_ZONES,
    Status::TOO_MANY_OPEN_ZONES,
];

/// The sections so far: other tests of this process add theirs.
static SECTIONS: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());

#[must_use = "only `finish` adds it to the page"]
pub struct Table {
    title: &'static str,
    /// Test file and function.
    test: (&'static str, &'static str),
    /// Refused commands by status, in the order of the test.
    statuses: Vec<(String, Vec<Case>)>,
}

/// A command, and when it gets its status.
struct Case {
    command: String,
    when: Vec<String>,
}

impl Table {
    /// A table for a test: its file and function are named in the document.
    pub fn new(title: &'static str, file: &'static str, function: &'static str) -> Table {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/").to_owned() + file;
        let text = std::fs::read_to_string(&source).unwrap();
        assert!(text.contains(&format!("fn {function}()")), "{source} has no test {function}");
        assert!(function.contains("refuse"), "`make book` does not run {function}");
        Table { title, test: (file, function), statuses: Vec::new() }
    }

    /// Checks the status of a command. The document lists it if it is refused.
    pub fn check(&mut self, what: &str, admin: bool, command: &Command, got: Status, expected: Status) {
        let (name, source) = if admin { admin_command(command) } else { io_command(command) };
        let unknown = expected.is(Status::INVALID_OPCODE);
        let source = match &name[..] {
            _ if unknown => "Base 4.2.3.1",
            // What a state of a zone refuses is told by the command set of zones.
            _ if ZONE_STATUSES.iter().any(|status| expected.is(*status)) && source.starts_with("NVM") => {
                "ZNS 3.3"
            }
            _ => source,
        };
        self.check_other(what, &name, source, got, expected);
    }

    /// Checks the status of an operation that is no command of a queue: Connect, or access to a property.
    pub fn check_other(&mut self, what: &str, of: &str, source: &str, got: Status, expected: Status) {
        assert!(got.is(expected), "{}, {what}: {got}, not {expected}", self.title);
        if expected.is_success() {
            return;
        }
        let number = source.rsplit(' ').next().unwrap_or(source);
        let cited = format!("{} {number}", of.split(": ").next().unwrap_or(of));
        assert!(OTHER_SOURCES.contains(&source) || HEAD.contains(&cited), "the head does not cite {cited}");
        let status = status(expected, of == "Connect");
        let at = self.statuses.iter().position(|(known, _)| *known == status);
        let at = at.unwrap_or_else(|| {
            self.statuses.push((status, Vec::new()));
            self.statuses.len() - 1
        });
        let cases = &mut self.statuses[at].1;
        match cases.iter_mut().find(|case| case.command == of) {
            Some(case) if case.when.iter().any(|when| when == what) => {}
            Some(case) => case.when.push(what.to_owned()),
            None => cases.push(Case { command: of.to_owned(), when: vec![what.to_owned()] }),
        }
    }

    /// The lists of the section. Commands that are refused in the same cases share a line.
    fn lists(&self) -> String {
        let mut text = String::new();
        for (status, cases) in &self.statuses {
            let _ = write!(text, "**{status}**\n\n");
            let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
            for case in cases {
                let when = case.when.join("; ");
                match lines.iter_mut().find(|(_, known)| *known == when) {
                    Some((commands, _)) => commands.push(case.command.as_str()),
                    None => lines.push((vec![case.command.as_str()], when)),
                }
            }
            for (commands, when) in lines {
                let _ = writeln!(text, "- `{}`: {when}", commands.join("`, `"));
            }
            text.push('\n');
        }
        text
    }

    /// Adds the section to the page, and writes the page into the directory that `make book` names.
    pub fn finish(self) {
        let (file, function) = self.test;
        let lists = self.lists();
        let test = format!("Test: `{function}` in `crates/core/device/tests/suite/{file}`.");
        let mut sections = SECTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        sections.insert(self.title, format!("## {}\n\n{lists}{test}\n", self.title));
        if let Some(directory) = std::env::var_os("TRANCHE_REFERENCE") {
            let page = format!("{HEAD}\n{}", sections.values().cloned().collect::<Vec<_>>().join("\n"));
            #[allow(clippy::disallowed_methods, reason = "the core has no files; its tests write a page")]
            std::fs::write(std::path::Path::new(&directory).join("illegal.md"), page).unwrap();
        }
    }
}

/// Words, type and code. Codes that Connect uses for something else have both words.
fn status(status: Status, connect: bool) -> String {
    let words = status.words().unwrap_or("?");
    let words = match words.split_once(", or ") {
        Some((_, words)) if connect => words,
        Some((words, _)) => words,
        None => words,
    };
    format!("{words} ({:X}h/{:02X}h)", status.sct().0, status.sc())
}

fn io_command(command: &Command) -> (String, &'static str) {
    let opcode = IoOpcode(command.opc);
    let source = match opcode {
        IoOpcode::COMPARE => "NVM 3.3.1",
        IoOpcode::COPY => "NVM 3.3.2",
        IoOpcode::DATASET_MANAGEMENT => "NVM 3.3.3",
        IoOpcode::READ => "NVM 3.3.4",
        IoOpcode::VERIFY => "NVM 3.3.5",
        IoOpcode::WRITE => "NVM 3.3.6",
        IoOpcode::WRITE_UNCORRECTABLE => "NVM 3.3.7",
        IoOpcode::WRITE_ZEROES => "NVM 3.3.8",
        IoOpcode::FLUSH => "Base 7.2",
        IoOpcode::IO_MANAGEMENT_RECEIVE => "Base 7.3",
        IoOpcode::IO_MANAGEMENT_SEND => "Base 7.4",
        IoOpcode::RESERVATION_ACQUIRE => "Base 7.5",
        IoOpcode::RESERVATION_REGISTER => "Base 7.6",
        IoOpcode::RESERVATION_RELEASE => "Base 7.7",
        IoOpcode::RESERVATION_REPORT => "Base 7.8",
        IoOpcode::ZONE_APPEND => "ZNS 3.4.1",
        IoOpcode::ZONE_MANAGEMENT_RECEIVE => "ZNS 3.4.2",
        IoOpcode::ZONE_MANAGEMENT_SEND => "ZNS 3.4.3",
        _ => "Base 4.2.3.1",
    };
    (opcode.to_string(), source)
}

fn admin_command(command: &Command) -> (String, &'static str) {
    let opcode = AdminOpcode(command.opc);
    let low = command.cdw10.get() as u8;
    let of = |what: &dyn std::fmt::Display| format!("{opcode}: {what}");
    match opcode {
        AdminOpcode::ABORT => (opcode.to_string(), "Base 5.1.1"),
        AdminOpcode::ASYNC_EVENT_REQUEST => (opcode.to_string(), "Base 5.1.2"),
        AdminOpcode::DEVICE_SELF_TEST => (opcode.to_string(), "Base 5.1.5"),
        AdminOpcode::DIRECTIVE_RECEIVE => (opcode.to_string(), "Base 5.1.6"),
        AdminOpcode::DIRECTIVE_SEND => (opcode.to_string(), "Base 5.1.7"),
        AdminOpcode::FIRMWARE_COMMIT => (opcode.to_string(), "Base 5.1.8"),
        AdminOpcode::FIRMWARE_IMAGE_DOWNLOAD => (opcode.to_string(), "Base 5.1.9"),
        AdminOpcode::FORMAT_NVM => (opcode.to_string(), "Base 5.1.10"),
        AdminOpcode::GET_FEATURES => (of(&FeatureId(low)), "Base 5.1.11"),
        AdminOpcode::GET_LOG_PAGE => (of(&LogId(low)), "Base 5.1.12"),
        AdminOpcode::IDENTIFY => (of(&format_args!("CNS {low:02X}h")), "Base 5.1.13"),
        AdminOpcode::KEEP_ALIVE => (opcode.to_string(), "Base 5.1.14"),
        AdminOpcode::NAMESPACE_ATTACHMENT => (opcode.to_string(), "Base 5.1.20"),
        AdminOpcode::NAMESPACE_MANAGEMENT => (opcode.to_string(), "Base 5.1.21"),
        AdminOpcode::SANITIZE => (opcode.to_string(), "Base 5.1.22"),
        AdminOpcode::SET_FEATURES if FeatureId(low) == FeatureId::QUOTA => {
            (of(&FeatureId(low)), "[vendor.md](vendor.md)")
        }
        AdminOpcode::SET_FEATURES => (of(&FeatureId(low)), "Base 5.1.25"),
        AdminOpcode::GET_LBA_STATUS => (opcode.to_string(), "NVM 4.2.1"),
        AdminOpcode::POWER_CUT | AdminOpcode::FAULT_INJECTION => {
            (opcode.to_string(), "[vendor.md](vendor.md)")
        }
        _ => (opcode.to_string(), "Base 4.2.3.1"),
    }
}
