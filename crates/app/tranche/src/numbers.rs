//! What an option says of a number that is none.

use clap::builder::ValueParser;
use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, Command, Error};
use std::error::Error as _;
use std::ffi::OsString;
use std::num::ParseIntError;

/// An error of a command line. If the value of an option is no number, it says which numbers the option takes. Clap's own words
/// then tell of a digit, and of no range.
pub fn explain(error: Error, mut command: Command, line: &[OsString]) -> Error {
    if !error.source().is_some_and(|source| source.is::<ParseIntError>()) {
        return error;
    }
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (name, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
    command.build();
    let command = asked(&command, line);
    let option = command.get_arguments().find(|option| option.to_string() == name);
    let range = option.and_then(|option| range(option.get_value_parser()));
    let range = range.unwrap_or_else(|| format!("0..={}", u64::MAX));
    let words = format!(
        "invalid value '{value}' for '{name}': expected a whole number in {range}\n\nFor more information, try '--help'.\n"
    );
    Error::raw(ErrorKind::ValueValidation, words)
}

/// The command that a command line names.
fn asked<'a>(command: &'a Command, line: &[OsString]) -> &'a Command {
    let names = line.iter().filter_map(|word| word.to_str());
    names.fold(command, |command, word| command.find_subcommand(word).unwrap_or(command))
}

/// The range of the numbers that a parser takes, in clap's words: those for a number out of range. `None` if it takes all.
fn range(parser: &ValueParser) -> Option<String> {
    let probe =
        Command::new("probe").no_binary_name(true).arg(Arg::new("number").value_parser(parser.clone()));
    let says = |number: i64| {
        let error = probe.clone().try_get_matches_from([number.to_string()]).err()?;
        Some(error.source()?.to_string().split_once(" is not in ")?.1.to_owned())
    };
    says(i64::MAX).or_else(|| says(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;
    use std::any::TypeId;

    /// What a command line says that makes no sense.
    fn says(line: &[String]) -> String {
        let line: Vec<OsString> = line.iter().map(Into::into).collect();
        let error = Cli::command().try_get_matches_from(&line).expect_err("it makes no sense");
        explain(error, Cli::command(), &line).to_string()
    }

    /// Puts texts that are no numbers into all options of a command whose values are numbers. How many there are.
    fn check(command: &Command, path: &[String]) -> usize {
        let numbers = [TypeId::of::<u8>(), TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>()];
        let mut count = 0;
        let mut positions = Vec::new();
        for option in command.get_arguments() {
            let number = numbers.iter().any(|number| option.get_value_parser().type_id() == *number);
            let takes = option.get_num_args().is_some_and(|values| values.takes_values());
            for text in ["x", "-1", "99999999999999999999"] {
                let line = match option.get_long() {
                    _ if !number || !takes => continue,
                    Some(long) => [path, &[format!("--{long}={text}")]].concat(),
                    None => [path, &positions, &["--".to_owned(), text.to_owned()]].concat(),
                };
                let said = says(&line);
                assert!(said.contains(&format!("'{text}' for '{option}'")), "{line:?}: {said}");
                for raw in ["digit found", "too large to fit", "too small to fit", "empty string"] {
                    assert!(!said.contains(raw), "{line:?}: {said}");
                }
                count += 1;
            }
            if option.is_positional() {
                positions.push("1".to_owned());
            }
        }
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            count += check(sub, &[path, &[sub.get_name().to_owned()]].concat());
        }
        count
    }

    #[test]
    fn no_option_tells_of_digits() {
        let mut command = Cli::command();
        command.build();
        assert!(check(&command, &["tranche".to_owned()]) > 100);
    }

    #[test]
    fn the_option_the_value_and_the_range_are_named() {
        for (line, said) in [
            (
                "tranche ns delete one",
                "invalid value 'one' for '<NSID>': expected a whole number in 0..=4294967295",
            ),
            (
                "tranche serve --fuse d --fuse-threads two",
                "'two' for '--fuse-threads <N>': expected a whole number in 1..=64",
            ),
            (
                "tranche serve --fuse d --fuse-threads 65",
                "invalid value '65' for '--fuse-threads <N>': 65 is not in 1..=64",
            ),
            (
                "tranche serve --seed 1.5",
                "'1.5' for '--seed <N>': expected a whole number in 0..=18446744073709551615",
            ),
            (
                "tranche serve --seed=-1",
                "'-1' for '--seed <N>': expected a whole number in 0..=18446744073709551615",
            ),
            (
                "tranche ns create --size 1MiB --nvm-set 70000",
                "'70000' for '--nvm-set <N>': 70000 is not in 0..=65535",
            ),
            (
                "tranche sanitize overwrite --passes many",
                "'many' for '--passes <N>': expected a whole number in 1..=16",
            ),
            (
                "tranche sanitize overwrite --pattern xyz",
                "'xyz' for '--pattern <HEX>': expected up to eight hexadecimal",
            ),
        ] {
            let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let error = says(&line);
            assert!(error.contains(said), "{error}");
            assert!(error.ends_with("For more information, try '--help'.\n"), "{error}");
        }
    }
}
