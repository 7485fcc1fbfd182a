//! "Did you mean".

/// Letters of a word that are looked at.
const MAX_LETTERS: usize = 40;

/// Which of the known words was meant: the one that differs in the fewest letters, if that is near enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_few(word, known).first().copied()
}

/// The three known words that are nearest to it, the nearest first, of those that are near enough to be meant.
pub fn nearest_few<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word: String = word.chars().take(MAX_LETTERS).collect();
    let most = 3.min(word.chars().count() / 2);
    let distances = known.into_iter().map(|known| (strsim::damerau_levenshtein(&word, known), known));
    let mut near: Vec<(usize, &str)> = distances.filter(|(distance, _)| *distance <= most).collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, known)| known).collect()
}

/// What a message says of the word that was meant, in brackets behind it; nothing if no known word is near enough.
pub fn did_you_mean(word: &str, known: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let known: Vec<_> = known.into_iter().collect();
    nearest(word, known.iter().map(AsRef::as_ref))
        .map(|near| format!(" (did you mean {near}?)"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_nearly_known_is_named() {
        let known = ["spare", "channels", "dies"];
        assert_eq!(nearest("spair", known), Some("spare"));
        assert_eq!(nearest("chanels", known), Some("channels"));
        assert_eq!(did_you_mean("spair", known), " (did you mean spare?)");
        assert_eq!(did_you_mean("x", known), "");
        assert_eq!(
            nearest_few("spair", ["stair", "spare", "repair", "spain", "dies"]),
            ["spain", "stair", "repair"]
        );
        assert!(nearest_few("x", known).is_empty());
        assert_eq!(nearest("x", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"ü".repeat(10_000), known), None);
    }
}
