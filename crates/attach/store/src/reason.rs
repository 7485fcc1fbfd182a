//! Why something failed, as another error or in words.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why something failed. It keeps the error that was the cause as its [`source`](Error::source), so that a caller can ask what kind of error it is. Two
/// reasons are equal if they say the same.
#[derive(Clone, Debug)]
pub struct Reason(Arc<dyn Error + Send + Sync>);

impl Reason {
    /// What an error says. It is the source of this one.
    #[must_use]
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl From<String> for Reason {
    fn from(words: String) -> Self {
        let error: Box<dyn Error + Send + Sync> = words.into();
        Self(error.into())
    }
}

impl From<&str> for Reason {
    fn from(words: &str) -> Self {
        words.to_owned().into()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Reason {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Reason {}
