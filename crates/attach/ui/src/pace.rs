//! How fast a simulated run goes.

use serde::Deserialize;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The least and the greatest number of virtual seconds for each real one.
const SPEEDS: RangeInclusive<f64> = 0.000_001..=1_000_000.0;

/// Virtual seconds of a simulated run for each real one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Speed {
    /// So many: a millionth to a million.
    Times(f64),
    /// As many as the machine can.
    Max,
}

impl Speed {
    /// So many virtual seconds for each real one: a millionth to a million.
    ///
    /// # Errors
    /// It is another number, in words.
    pub fn times(number: f64) -> Result<Speed, String> {
        match SPEEDS.contains(&number) {
            true => Ok(Speed::Times(number)),
            false => Err(format!(
                "a speed is {} to {} virtual seconds for each real one, or max",
                SPEEDS.start(),
                SPEEDS.end()
            )),
        }
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        match text {
            "max" => Ok(Speed::Max),
            // No number is none of those that are allowed.
            _ => Speed::times(text.parse().unwrap_or(f64::NAN)),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speed::Times(number) => number.fmt(f),
            Speed::Max => f.write_str("max"),
        }
    }
}

/// A speed as a request has it: a number, or "max".
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(untagged)]
enum Asked {
    Times(f64),
    Named(String),
}

/// How a simulated run is to go on: what is not there stays.
#[derive(Clone, PartialEq, Default, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPace {
    speed: Option<Asked>,
    pub paused: Option<bool>,
}

impl NewPace {
    /// The speed, if one is asked for.
    ///
    /// # Errors
    /// It is none, in words.
    pub fn speed(&self) -> Result<Option<Speed>, String> {
        let speed = |asked: &Asked| match asked {
            Asked::Times(number) => Speed::times(*number),
            Asked::Named(text) => text.parse(),
        };
        self.speed.as_ref().map(speed).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_numbers_above_zero_or_max() {
        for (text, speed) in [
            ("max", Speed::Max),
            ("1", Speed::Times(1.0)),
            ("0.01", Speed::Times(0.01)),
            ("1e-6", Speed::Times(1e-6)),
            ("1000000", Speed::Times(1e6)),
        ] {
            assert_eq!(text.parse(), Ok(speed), "{text}");
            assert_eq!(speed.to_string().parse(), Ok(speed), "{text}");
        }
        for wrong in ["", "0", "-1", "1e7", "1e-7", "nan", "inf", "fast", "Max", "1x"] {
            let why = wrong.parse::<Speed>().unwrap_err();
            assert_eq!(
                why, "a speed is 0.000001 to 1000000 virtual seconds for each real one, or max",
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_request_changes_what_it_names() {
        let asked = |text: &str| serde_json::from_str::<NewPace>(text).unwrap();
        let is = |text: &str| (asked(text).speed(), asked(text).paused);
        assert_eq!(is("{}"), (Ok(None), None));
        assert_eq!(is(r#"{"speed":0.5}"#), (Ok(Some(Speed::Times(0.5))), None));
        assert_eq!(is(r#"{"speed":"max","paused":true}"#), (Ok(Some(Speed::Max)), Some(true)));
        for wrong in [r#"{"speed":0}"#, r#"{"speed":-1}"#, r#"{"speed":1e9}"#, r#"{"speed":"fast"}"#] {
            assert!(asked(wrong).speed().is_err(), "{wrong}");
        }
        for wrong in [r#"{"speed":[1]}"#, r#"{"paused":1}"#, r#"{"more":1}"#] {
            assert!(serde_json::from_str::<NewPace>(wrong).is_err(), "{wrong}");
        }
    }
}
