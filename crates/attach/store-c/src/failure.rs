//! What goes wrong, as C sees it: a code, and a text.

use store::Error;

/// Kinds of failures. Their numbers are those of `enum tranche_code` of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Code {
    /// There is no such file or directory.
    NotFound = 1,
    /// The name is taken.
    Exists = 2,
    /// A directory is needed, and this is none.
    NotDirectory = 3,
    /// This cannot be done with a directory.
    IsDirectory = 4,
    /// The directory has contents.
    NotEmpty = 5,
    /// The request makes no sense.
    Invalid = 6,
    /// There is no space.
    NoSpace = 7,
    /// Somebody else has it.
    Busy = 8,
    /// The drive cannot be reached, it failed, or the store takes no changes any more.
    Failed = 9,
}

/// Why something was not done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// Its kind.
    pub code: Code,
    /// What people read.
    pub text: String,
}

impl Failure {
    /// A failure with a text.
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The caller asked for what makes no sense.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Code::Invalid, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::NotFound | Error::NoAttribute => Code::NotFound,
            Error::Exists => Code::Exists,
            Error::NotDirectory => Code::NotDirectory,
            Error::IsDirectory => Code::IsDirectory,
            Error::NotEmpty => Code::NotEmpty,
            Error::NameTooLong | Error::Invalid(_) | Error::FileTooLong => Code::Invalid,
            Error::NoSpace => Code::NoSpace,
            Error::InUse | Error::Taken => Code::Busy,
            _ => Code::Failed,
        };
        Self::new(code, error.to_string())
    }
}

impl From<host::Error> for Failure {
    fn from(error: host::Error) -> Self {
        let code = match &error {
            host::Error::Usage(_) => Code::Invalid,
            host::Error::Absent(_) => Code::NotFound,
            _ => Code::Failed,
        };
        Self::new(code, error.to_string())
    }
}
