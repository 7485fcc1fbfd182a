//! What TPC-C asks of a database server of any kind.

use std::{fmt, io};

/// What goes into a statement and comes out of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing; also what comes of a type that no transaction reads.
    Null,
    /// A whole number.
    Int(i64),
    /// Another number.
    Real(f64),
    /// Text; also a decimal number.
    Text(String),
}

impl Value {
    /// As a whole number that is not negative.
    pub fn number(&self) -> Option<u32> {
        match self {
            Self::Int(number) => u32::try_from(*number).ok(),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Null | Self::Real(_) => None,
        }
    }

    /// As a number with decimals.
    pub fn real(&self) -> Option<f64> {
        match self {
            Self::Real(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Null | Self::Int(_) => None,
        }
    }

    /// As text.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Int(truth.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Why a statement failed.
#[derive(Debug)]
pub enum Error {
    /// Transactions were in each other's way, by a deadlock, say: roll back, and run it again.
    Conflict(anyhow::Error),
    /// Anything else.
    Other(anyhow::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(error) | Self::Other(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for Error {}

/// Of a call on a connection.
pub type Result<T> = std::result::Result<T, Error>;

/// Writes rows, a line each, with tabs between columns and `\N` for NULL.
pub type Rows = Box<dyn FnMut(&mut dyn io::Write) -> io::Result<()> + Send>;

/// A connection to the database of TPC-C. Its SQL has `?` for each value.
pub trait Connection: Send {
    /// Prepares a statement, and returns its number on this connection.
    ///
    /// # Errors
    /// The server refuses.
    fn prepare(&mut self, sql: &str) -> Result<usize>;

    /// Runs a prepared statement, and returns its rows.
    ///
    /// # Errors
    /// The server refuses, or goes away.
    fn run(&mut self, statement: usize, values: &[Value]) -> Result<Vec<Vec<Value>>>;

    /// Runs a statement without values, and returns its rows.
    ///
    /// # Errors
    /// The server refuses, or goes away.
    fn query(&mut self, sql: &str) -> Result<Vec<Vec<Value>>> {
        let statement = self.prepare(sql)?;
        self.run(statement, &[])
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// The server goes away.
    fn begin(&mut self) -> Result<()>;

    /// Ends the transaction, and with `commit` makes it last.
    ///
    /// # Errors
    /// The server cannot, or goes away.
    fn end(&mut self, commit: bool) -> Result<()>;

    /// Fills an empty table.
    ///
    /// # Errors
    /// The server refuses a row, or `rows` fails.
    fn fill(&mut self, table: &str, columns: &str, rows: Rows) -> Result<()>;
}
