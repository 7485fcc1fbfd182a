//! Non-volatile state as bytes.
//!
//! Everything is little endian and made of flat arrays, copied in bulk: 16 M pages with spare areas are
//! 256 MiB and take a fraction of a second.

/// Why saved state, or a replayed change, does not fit the medium.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StateError {
    /// The bytes are not such a state at all.
    #[error(
        "saved state of the medium: expected {expected}, found {found:#x} (another kind of medium, or not one)"
    )]
    Kind {
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: u64,
    },
    /// Made by another version.
    #[error("saved state of the medium has version {0}, this program reads version {VERSION}")]
    Version(u32),
    /// The shape differs from the configuration's.
    #[error(
        "saved state of the medium has {what} = {saved}, the configuration says {configured}: open it with the configuration it was made with"
    )]
    Shape {
        /// Which number.
        what: &'static str,
        /// In the saved state.
        saved: u64,
        /// In the configuration.
        configured: u64,
    },
    /// Too short, or more follows.
    #[error("saved state of the medium is {found} bytes long, expected {expected}: truncated or damaged")]
    Length {
        /// Bytes there should be.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// A number out of range.
    #[error("saved state or journal: {what} is {value}, the medium has {limit}")]
    Range {
        /// Which number.
        what: &'static str,
        /// What it is.
        value: u64,
        /// How many there are.
        limit: u64,
    },
    /// The medium that a fault wrapper holds cannot be built.
    #[error(transparent)]
    Config(#[from] crate::ConfigError),
}

/// Version of the saved states of this crate.
pub(crate) const VERSION: u32 = 1;

/// Numbers that are copied as little endian.
pub(crate) trait Word: Copy {
    const BYTES: usize;
    fn put(self, to: &mut [u8]);
    fn get(from: &[u8]) -> Self;
}

macro_rules! word {
    ($t:ty, $raw:ty, $wrap:expr, $unwrap:expr) => {
        impl Word for $t {
            const BYTES: usize = size_of::<$raw>();
            #[inline]
            fn put(self, to: &mut [u8]) {
                to.copy_from_slice(&<$raw>::to_le_bytes($unwrap(self)));
            }
            #[inline]
            fn get(from: &[u8]) -> Self {
                let mut raw = [0; size_of::<$raw>()];
                raw.copy_from_slice(from);
                $wrap(<$raw>::from_le_bytes(raw))
            }
        }
    };
}
word!(u32, u32, |v| v, |v| v);
word!(u64, u64, |v| v, |v| v);
word!(crate::LogicalPage, u32, crate::LogicalPage, |v: crate::LogicalPage| v.0);
word!(crate::Slot, u32, crate::Slot, |v: crate::Slot| v.0);

/// Appends an array. The small buffer keeps it to one pass that the compiler turns into wide copies.
pub(crate) fn put<W: Word>(out: &mut Vec<u8>, words: &[W]) {
    out.reserve(words.len() * W::BYTES);
    let mut buffer = [0u8; 4096];
    for chunk in words.chunks(4096 / W::BYTES) {
        let bytes = &mut buffer[..chunk.len() * W::BYTES];
        for (to, &word) in bytes.chunks_exact_mut(W::BYTES).zip(chunk) {
            word.put(to);
        }
        out.extend_from_slice(bytes);
    }
}

/// Takes arrays off the front of saved bytes.
pub(crate) struct Reader<'a> {
    all: u64,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts with the header that [`header`] wrote.
    pub(crate) fn new(
        bytes: &'a [u8],
        magic: u32,
        expected: &'static str,
        shape: &[(&'static str, u64)],
    ) -> Result<Self, StateError> {
        let mut reader = Reader { all: bytes.len() as u64, rest: bytes };
        let found: u32 = reader.one()?;
        if found != magic {
            return Err(StateError::Kind { expected, found: found.into() });
        }
        match reader.one()? {
            VERSION => {}
            other => return Err(StateError::Version(other)),
        }
        for &(what, configured) in shape {
            let saved: u64 = reader.one()?;
            if saved != configured {
                return Err(StateError::Shape { what, saved, configured });
            }
        }
        Ok(reader)
    }

    /// One number.
    pub(crate) fn one<W: Word>(&mut self) -> Result<W, StateError> {
        Ok(W::get(self.take(W::BYTES as u64)?))
    }

    /// `into.len()` numbers.
    pub(crate) fn fill<W: Word>(&mut self, into: &mut [W]) -> Result<(), StateError> {
        let bytes = self.take(into.len() as u64 * W::BYTES as u64)?;
        for (to, from) in into.iter_mut().zip(bytes.chunks_exact(W::BYTES)) {
            *to = W::get(from);
        }
        Ok(())
    }

    fn take(&mut self, bytes: u64) -> Result<&'a [u8], StateError> {
        let missing = bytes.saturating_sub(self.rest.len() as u64);
        if missing > 0 {
            return Err(StateError::Length { expected: self.all + missing, found: self.all });
        }
        let (taken, rest) = self.rest.split_at(bytes as usize);
        self.rest = rest;
        Ok(taken)
    }

    /// What is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), StateError> {
        match self.rest.len() as u64 {
            0 => Ok(()),
            more => Err(StateError::Length { expected: self.all - more, found: self.all }),
        }
    }
}

/// Writes what [`Reader::new`] checks.
pub(crate) fn header(out: &mut Vec<u8>, magic: u32, shape: &[(&'static str, u64)]) {
    put(out, &[magic, VERSION]);
    for &(_, value) in shape {
        put(out, &[value]);
    }
}
