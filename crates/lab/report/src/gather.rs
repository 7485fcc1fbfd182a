//! What came of the pieces of a study, by variant.

use anyhow::{Context, Result};

use crate::{
    control::Interrupted,
    results::{Run, Variant},
};

/// The variants of a study with their runs.
#[derive(Debug)]
pub struct Gathered {
    /// Never none; in the order in which their pieces come.
    pub variants: Vec<Variant>,
    /// Whether an interruption kept some pieces from running.
    pub interrupted: bool,
}

/// Gives the runs of each piece to its variant: `variant` is its name and what it is. `place` says of which piece an error is.
///
/// # Errors
/// A piece has failed, or none ran.
pub fn gather<'p, P: 'p>(
    done: impl IntoIterator<Item = (&'p P, Result<Vec<Run>>)>,
    variant: impl Fn(&P) -> (String, String),
    place: impl Fn(&P) -> String,
) -> Result<Gathered> {
    let mut variants: Vec<Variant> = Vec::new();
    let mut interrupted = false;
    for (piece, runs) in done {
        let runs = match runs {
            Ok(runs) => runs,
            Err(error) if error.is::<Interrupted>() => {
                interrupted = true;
                continue;
            }
            Err(error) => return Err(error).with_context(|| format!("in {}", place(piece))),
        };
        let (name, description) = variant(piece);
        match variants.iter_mut().find(|variant| variant.name == name) {
            Some(variant) => variant.runs.extend(runs),
            None => variants.push(Variant { name, description, runs }),
        }
    }
    match variants.is_empty() {
        true => Err(Interrupted.into()),
        false => Ok(Gathered { variants, interrupted }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    fn run(repetition: u32) -> Result<Vec<Run>> {
        Ok(vec![Run { repetition, ..Run::default() }])
    }

    fn gathered(done: Vec<(&&'static str, Result<Vec<Run>>)>) -> Result<Gathered> {
        gather(done, |name| ((*name).to_owned(), format!("about {name}")), |name| format!("piece {name}"))
    }

    #[test]
    fn runs_go_to_their_variants_in_order() {
        let pieces = ["b", "a", "b", "c"];
        let done = pieces.iter().zip([run(0), run(1), run(2), Err(Interrupted.into())]).collect();
        let Gathered { variants, interrupted } = gathered(done).unwrap();
        let found: Vec<_> = variants.iter().map(|of| (of.name.as_str(), of.runs.len())).collect();
        assert_eq!((found, interrupted), (vec![("b", 2), ("a", 1)], true));
        assert_eq!(variants[0].description, "about b");
    }

    #[test]
    fn errors_name_their_piece_and_nothing_is_an_interruption() {
        let error = format!("{:#}", gathered(vec![(&"x", Err(anyhow!("no room")))]).unwrap_err());
        assert_eq!(error, "in piece x: no room");
        let error = gathered(vec![(&"x", Err(Interrupted.into()))]).unwrap_err();
        assert!(error.is::<Interrupted>());
    }
}
