//! Seek times: measured curves in files, and the equations of the parameter files.

use std::path::Path;

use anyhow::{Result, bail};

use super::params::Block;
use lab_report::input;

/// Longest seek that is taken for one, in milliseconds.
const MAX_SEEK_MS: f64 = 1000.0;

/// Times in milliseconds for each distance from 0 to `cylinders - 1`, for reads.
///
/// # Errors
/// A parameter is missing or impossible, or the file of the curve cannot be read.
pub fn times(mech: &Block, cylinders: u32, notes: &mut Vec<String>) -> Result<Vec<f64>> {
    let kind = mech.word("Seek type")?;
    let of = |time: &dyn Fn(f64) -> f64| -> Vec<f64> {
        (0..cylinders).map(|d| if d == 0 { 0.0 } else { time(f64::from(d)) }).collect()
    };
    let last = f64::from(cylinders.max(2) - 1);
    let times = match kind {
        "constant" => {
            let time = mech.required_number("Constant seek time")?;
            of(&|_| time)
        }
        "linear" => {
            let (one, average, full) = three_points(mech)?;
            let third = (f64::from(cylinders) / 3.0).max(1.0);
            of(&|d| match d <= third {
                true => one + (average - one) * (d - 1.0) / (third - 1.0).max(1.0),
                false => average + (full - average) * (d - third) / (last - third).max(1.0),
            })
        }
        "curve" => {
            // Lee and Katz, "An Analytic Performance Model of Disk Arrays", SIGMETRICS 1993, equation 1.
            let (one, average, full) = three_points(mech)?;
            let n = f64::from(cylinders);
            let a = (-10.0 * one + 15.0 * average - 5.0 * full) / (3.0 * n.sqrt());
            let b = (7.0 * one - 15.0 * average + 8.0 * full) / (3.0 * n);
            of(&|d| a * (d - 1.0).sqrt() + b * (d - 1.0) + one)
        }
        "hpl" | "hplplus10" => {
            let equation = hpl(mech)?;
            let first = match kind {
                "hplplus10" => first_ten(mech)?,
                _ => Vec::new(),
            };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a distance of at most ten"
            )]
            of(&|d| match first.get(d as usize - 1) {
                Some(&time) => time,
                None => equation.time(d),
            })
        }
        "extracted" => {
            let file = mech.file("Full seek curve")?;
            let curve = read_curve(&file, notes)?;
            of(&|d| interpolate(&curve, d))
        }
        other => bail!(
            "{}: seek type '{other}' is not known: expected constant, linear, curve, hpl, hplplus10 or extracted",
            mech.place("Seek type")
        ),
    };
    if let Some((d, t)) = times.iter().enumerate().find(|(_, t)| !(0.0..=MAX_SEEK_MS).contains(*t)) {
        bail!("{}: a seek over {d} cylinders takes {t} ms", mech.place("Seek type"));
    }
    Ok(times)
}

fn three_points(mech: &Block) -> Result<(f64, f64, f64)> {
    Ok((
        mech.required_number("Single cylinder seek time")?,
        mech.required_number("Average seek time")?,
        mech.required_number("Full strobe seek time")?,
    ))
}

fn first_ten(mech: &Block) -> Result<Vec<f64>> {
    let first = mech.numbers("First ten seek times")?;
    if first.len() != 10 {
        bail!("{}: ten times are expected, not {}", mech.place("First ten seek times"), first.len());
    }
    Ok(first)
}

/// Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994: a square root, then a line.
struct Hpl {
    divide: f64,
    root: (f64, f64),
    line: (f64, f64),
    one: Option<f64>,
}

impl Hpl {
    fn time(&self, d: f64) -> f64 {
        match self.one {
            Some(one) if d == 1.0 => one,
            _ if d < self.divide => self.root.0 + self.root.1 * d.sqrt(),
            _ => self.line.0 + self.line.1 * d,
        }
    }
}

fn hpl(mech: &Block) -> Result<Hpl> {
    let name = "HPL seek equation values";
    match mech.numbers(name)?[..] {
        [divide, c1, m1, c2, m2, one] => {
            Ok(Hpl { divide, root: (c1, m1), line: (c2, m2), one: (one >= 0.0).then_some(one) })
        }
        ref other => bail!("{}: six values are expected, not {}", mech.place(name), other.len()),
    }
}

/// Reads a curve: lines of a distance in cylinders and a time in milliseconds. What else stands on a line, such as a deviation, is left out. The
/// first line may say how many follow. As in DiskSim, other lines say nothing: `notes` has the first of them.
///
/// # Errors
/// It cannot be read, has fewer times than it says, or none.
fn read_curve(path: &Path, notes: &mut Vec<String>) -> Result<Vec<(f64, f64)>> {
    let text = input::read_text(path)?;
    let mut curve: Vec<(f64, f64)> = Vec::new();
    let (mut stated, mut other, mut lines) = (0, None, 0usize);
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(count) = line.strip_prefix("Seek distances measured:") {
            stated = count.trim().parse().unwrap_or(0);
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut fields = line.split(|c: char| c == ',' || c.is_whitespace()).filter(|f| !f.is_empty());
        let distance = fields.next().and_then(|f| f.parse::<u32>().ok());
        let time =
            fields.next().and_then(|f| f.parse::<f64>().ok()).filter(|t| (0.0..=MAX_SEEK_MS).contains(t));
        let (Some(distance), Some(time)) = (distance, time) else {
            other = other.or(Some((i + 1, line.to_owned())));
            continue;
        };
        lines += 1;
        if distance > 0 {
            curve.push((f64::from(distance), time));
        }
    }
    if let Some((line, text)) = other {
        notes.push(format!(
            "{}:{line}: '{text}' is no seek time (CYLINDERS, MILLISECONDS): left out",
            path.display()
        ));
    }
    if lines < stated {
        bail!("{}: {lines} seek times of the {stated} that its first line states", path.display());
    }
    if curve.is_empty() {
        bail!("{}: no seek time in it: expected lines of CYLINDERS, MILLISECONDS", path.display());
    }
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    curve.dedup_by_key(|point| point.0);
    Ok(curve)
}

/// Between two points a line, before the first its time, behind the last the line of the last two.
fn interpolate(curve: &[(f64, f64)], d: f64) -> f64 {
    let after = curve.partition_point(|p| p.0 < d);
    if after == 0 || curve.len() == 1 {
        return curve[0].1;
    }
    let after = after.min(curve.len() - 1);
    let (a, b) = (curve[after - 1], curve[after]);
    (a.1 + (b.1 - a.1) * (d - a.0) / (b.0 - a.0)).max(0.0)
}
