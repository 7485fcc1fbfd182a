//! Options of studies in virtual time, for programs that have them by name: what each takes, read from the definition of the command line.

use clap::{Arg, ArgAction, Command, Subcommand, builder::ValueParser};

use crate::StudyCommand;

/// What an option takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing: it is given or not.
    Flag,
    /// A whole number.
    Number,
    /// Bytes.
    Size,
    /// Bytes per second.
    Rate,
    /// A time of a processor, in nanoseconds.
    Time,
    /// Whole seconds.
    Seconds,
    /// A drive: a profile or a TOML file.
    Drive,
    /// One of some names.
    Name,
}

/// An option of a study in virtual time.
pub struct SimOption<'a> {
    /// Its definition.
    pub arg: &'a Arg,
    /// Its name, with underscores.
    pub name: String,
    /// Other names.
    pub aliases: Vec<&'a str>,
    /// What it takes.
    pub kind: Kind,
    /// Whether it takes several.
    pub is_list: bool,
}

/// Options that are for live studies or for other studies than one, and those that a program has in its own form.
const ELSEWHERE: [&str; 12] = [
    "help",
    "live",
    "sim",
    "like_live",
    "db_bench",
    "slow_motion",
    "mysqld",
    "scratch",
    "set",
    "out",
    "force",
    "seed",
];

/// The group in which clap has the options of a struct `Live`.
const LIVE_GROUP: &str = "Live";

/// The studies that can be in virtual time, with their options.
pub fn simulated() -> impl Iterator<Item = Command> {
    let mut command = StudyCommand::augment_subcommands(Command::new("study"));
    command.build();
    let has_sim = |study: &Command| study.get_arguments().any(|arg| arg.get_id() == "sim");
    command.get_subcommands().filter(|study| has_sim(study)).cloned().collect::<Vec<_>>().into_iter()
}

/// The options of a study in virtual time.
pub fn options(study: &Command) -> Vec<SimOption<'_>> {
    let live = study.get_groups().find(|group| group.get_id() == LIVE_GROUP);
    let is_live = |arg: &Arg| live.is_some_and(|group| group.get_args().any(|id| id == arg.get_id()));
    let is_elsewhere = |arg: &Arg| ELSEWHERE.contains(&arg.get_id().as_str());
    study.get_arguments().filter(|arg| !is_live(arg) && !is_elsewhere(arg)).map(SimOption::new).collect()
}

impl<'a> SimOption<'a> {
    fn new(arg: &'a Arg) -> Self {
        Self {
            arg,
            name: arg.get_long().unwrap_or_default().replace('-', "_"),
            aliases: arg.get_all_aliases().unwrap_or_default(),
            kind: kind(arg),
            is_list: arg.get_value_delimiter().is_some(),
        }
    }

    /// Whether this is its name, or another of its names.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

fn kind(arg: &Arg) -> Kind {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return Kind::Flag;
    }
    match arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str()) {
        "SIZE" => Kind::Size,
        "RATE" => Kind::Rate,
        "TIME" if accepts(arg.get_value_parser(), "1ns") => Kind::Time,
        "TIME" => Kind::Seconds,
        "NAME|FILE" => Kind::Drive,
        _ if arg.get_possible_values().is_empty() => Kind::Number,
        _ => Kind::Name,
    }
}

fn accepts(parser: &ValueParser, text: &str) -> bool {
    let probe =
        Command::new("probe").no_binary_name(true).arg(Arg::new("value").value_parser(parser.clone()));
    probe.try_get_matches_from([text]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(study: &str) -> Vec<String> {
        let study = simulated().find(|command| command.get_name() == study).unwrap();
        let describe = |option: SimOption<'_>| {
            let several = if option.is_list { " several" } else { "" };
            format!("{} {:?}{several}", option.name, option.kind)
        };
        options(&study).into_iter().map(describe).collect()
    }

    #[test]
    fn defaults_are_those_of_the_models() {
        use lab_engines::machine::HostPath;
        assert_eq!(crate::filesystem::Options::default().path, HostPath::PUBLISHED);
        let zoned = crate::zoned::Options::default();
        assert_eq!(zoned.compaction_ns, crate::zoned::DEFAULT_COMPACTION_NS);
        // Options that a library makes are those of a command line without arguments.
        assert_eq!((zoned.drive, zoned.repeat, zoned.real.threads), (None, None, vec![16]));
    }

    #[test]
    fn studies_have_options_for_programs() {
        let names: Vec<String> = simulated().map(|study| study.get_name().to_owned()).collect();
        assert_eq!(names, ["doublewrite", "quota", "namespaces", "zoned", "filesystem", "cache", "oltp"]);
        let zoned =
            ["parts Name several", "drive Drive", "scale Number", "compaction_time Time", "repeat Number"];
        assert_eq!(described("zoned"), [&zoned[..], &["quick Flag"]].concat());
        let namespaces =
            ["counts Number several", "of Number", "drive Drive", "window Seconds", "host_time Name"];
        assert_eq!(described("namespaces"), [&namespaces[..], &["repeat Number", "quick Flag"]].concat());
        for (study, option) in [
            ("oltp", "buffer_pool Size"),
            ("oltp", "seconds Seconds"),
            ("cache", "sas_rate Rate"),
            ("filesystem", "submission Time"),
        ] {
            assert!(described(study).contains(&option.to_owned()), "{option}");
        }
    }
}
