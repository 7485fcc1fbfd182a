//! The pieces of a study in virtual time: their work on all processors, and their runs by variant.

use std::cmp::Reverse;

use anyhow::{Context, Result};

use crate::{
    control::{Control, Interrupted, Steps},
    parallel,
    results::{Run, Variant},
};

/// A piece of work that needs no other one. `S` is what the pieces of a study share.
pub trait Piece<S>: Sync {
    /// Name and description of the variant that its runs belong to.
    fn variant(&self) -> (String, String);

    /// Name for progress and for errors.
    fn name(&self) -> String;

    /// Work relative to other pieces. The most comes first, so that no processor is idle at the end.
    fn work(&self) -> u32 {
        0
    }

    /// Does the work.
    ///
    /// # Errors
    /// Those of the study, and an interruption.
    fn run(&self, study: &S, control: &Control) -> Result<Vec<Run>>;

    /// The runs in a few words, for progress.
    fn summary(&self, runs: &[Run]) -> String;
}

/// The variants of a study with their runs.
#[derive(Debug)]
pub struct Gathered {
    /// Never none; in the order of their pieces.
    pub variants: Vec<Variant>,
    /// Whether an interruption kept some pieces from running.
    pub interrupted: bool,
}

/// Runs all pieces, and gives their runs to their variants.
///
/// # Errors
/// A piece has failed, or none ran.
pub fn run_pieces<S: Sync, P: Piece<S>>(study: &S, pieces: &[P], control: &Control) -> Result<Gathered> {
    let progress = Steps::new(control, pieces.len() as u64);
    let mut done = parallel::map(control, &most_work_first(pieces), |&(place, piece)| {
        let runs = piece.run(study, control);
        if let Ok(runs) = &runs {
            progress.done(&piece.name(), &piece.summary(runs));
        }
        (place, runs)
    });
    drop(progress);
    done.sort_by_key(|(place, _)| *place);
    let mut variants: Vec<Variant> = Vec::new();
    let mut interrupted = false;
    for (piece, (_, runs)) in pieces.iter().zip(done) {
        let runs = match runs {
            Ok(runs) => runs,
            Err(error) if error.is::<Interrupted>() => {
                interrupted = true;
                continue;
            }
            Err(error) => return Err(error).with_context(|| format!("in {}", piece.name())),
        };
        let (name, description) = piece.variant();
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

/// The pieces with their places.
fn most_work_first<S, P: Piece<S>>(pieces: &[P]) -> Vec<(usize, &P)> {
    let mut order: Vec<(usize, &P)> = pieces.iter().enumerate().collect();
    order.sort_by_key(|(_, piece)| Reverse(piece.work()));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    /// A variant, its work, and its repetition or error.
    struct Test(&'static str, u32, Result<u32, &'static str>);

    const INTERRUPTION: &str = "interrupted";

    impl Piece<()> for Test {
        fn variant(&self) -> (String, String) {
            (self.0.to_owned(), format!("about {}", self.0))
        }

        fn name(&self) -> String {
            format!("piece {}", self.0)
        }

        fn work(&self) -> u32 {
            self.1
        }

        fn run(&self, (): &(), _: &Control) -> Result<Vec<Run>> {
            match self.2 {
                Ok(repetition) => Ok(vec![Run { repetition, ..Run::default() }]),
                Err(INTERRUPTION) => Err(Interrupted.into()),
                Err(error) => Err(anyhow!(error)),
            }
        }

        fn summary(&self, runs: &[Run]) -> String {
            format!("{} runs", runs.len())
        }
    }

    fn gathered(pieces: &[Test]) -> Result<Gathered> {
        run_pieces(&(), pieces, &Control::default())
    }

    #[test]
    fn runs_go_to_their_variants_in_order() {
        let pieces =
            [Test("b", 1, Ok(0)), Test("a", 2, Ok(0)), Test("b", 3, Ok(1)), Test("c", 0, Err(INTERRUPTION))];
        let Gathered { variants, interrupted } = gathered(&pieces).unwrap();
        let repetitions = |of: &Variant| of.runs.iter().map(|run| run.repetition).collect::<Vec<_>>();
        let found: Vec<_> = variants.iter().map(|of| (of.name.as_str(), repetitions(of))).collect();
        assert_eq!((found, interrupted), (vec![("b", vec![0, 1]), ("a", vec![0])], true));
        assert_eq!(variants[0].description, "about b");
    }

    #[test]
    fn the_most_work_comes_first_and_equal_pieces_stay_in_order() {
        let pieces = [Test("a", 1, Ok(0)), Test("b", 1, Ok(0)), Test("c", 9, Ok(0))];
        let order: Vec<usize> = most_work_first(&pieces).into_iter().map(|(place, _)| place).collect();
        assert_eq!(order, [2, 0, 1]);
    }

    #[test]
    fn errors_name_their_piece_and_nothing_is_an_interruption() {
        let error = format!("{:#}", gathered(&[Test("x", 0, Err("no room"))]).unwrap_err());
        assert_eq!(error, "in piece x: no room");
        assert!(gathered(&[Test("x", 0, Err(INTERRUPTION))]).unwrap_err().is::<Interrupted>());
    }
}
