//! TPC-C on MariaDB and MySQL.

use std::{io::Write, path::Path};

use anyhow::Context;
use mysql::{Conn, LocalInfileHandler, Params, Row, Statement, prelude::Queryable};

use super::{
    connection::{Connection, Error, Result, Rows, Value},
    schema::{Key, TABLES},
};
use crate::mariadb::connect;

impl From<mysql::Error> for Error {
    fn from(error: mysql::Error) -> Self {
        match error {
            mysql::Error::MySqlError(error) if is_conflict(error.code) => Self::Conflict(error.into()),
            error => Self::Other(error.into()),
        }
    }
}

/// Deadlock, lock wait timeout, and MariaDB's "record has changed since last read": the client is to try again.
fn is_conflict(code: u16) -> bool {
    matches!(code, 1213 | 1205 | 1020)
}

/// Makes the database anew, with its empty tables.
pub(super) fn create(socket: &Path) -> anyhow::Result<()> {
    let mut conn = connect(socket, "")?;
    conn.query_drop("DROP DATABASE IF EXISTS tpcc")?;
    conn.query_drop("CREATE DATABASE tpcc CHARACTER SET latin1 COLLATE latin1_bin")?;
    drop(conn);
    let mut conn = connect(socket, "tpcc")?;
    for table in &TABLES {
        let keys: String =
            table.keys.iter().map(|Key { name, columns }| format!(", KEY {name} ({columns})")).collect();
        let sql = format!("CREATE TABLE {} ({}{keys}) ENGINE=InnoDB", table.name, table.columns);
        conn.query_drop(sql).with_context(|| format!("making the TPC-C table {}", table.name))?;
    }
    Ok(())
}

/// A connection with its statements.
pub(super) struct MariaDb {
    conn: Conn,
    statements: Vec<Statement>,
}

impl MariaDb {
    pub(super) fn connect(socket: &Path) -> anyhow::Result<Self> {
        let mut conn = connect(socket, "tpcc")?;
        conn.query_drop("SET autocommit=0")?;
        Ok(Self { conn, statements: Vec::new() })
    }
}

fn to_server(value: &Value) -> mysql::Value {
    match value {
        Value::Null => mysql::Value::NULL,
        Value::Int(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
    }
}

fn from_server(value: mysql::Value) -> Value {
    match value {
        mysql::Value::Int(number) => Value::Int(number),
        mysql::Value::UInt(number) => i64::try_from(number).map_or(Value::Null, Value::Int),
        mysql::Value::Float(number) => Value::Real(number.into()),
        mysql::Value::Double(number) => Value::Real(number),
        mysql::Value::Bytes(bytes) => Value::Text(String::from_utf8_lossy(&bytes).into_owned()),
        _ => Value::Null,
    }
}

impl Connection for MariaDb {
    fn prepare(&mut self, sql: &str) -> Result<usize> {
        self.statements.push(self.conn.prep(sql)?);
        Ok(self.statements.len() - 1)
    }

    fn run(&mut self, statement: usize, values: &[Value]) -> Result<Vec<Vec<Value>>> {
        let values = values.iter().map(to_server).collect::<Vec<_>>();
        let values = if values.is_empty() { Params::Empty } else { Params::Positional(values) };
        let rows: Vec<Row> = self.conn.exec(&self.statements[statement], values)?;
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(from_server).collect()).collect())
    }

    /// The server begins one with the next statement.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    fn end(&mut self, commit: bool) -> Result<()> {
        Ok(self.conn.query_drop(if commit { "COMMIT" } else { "ROLLBACK" })?)
    }

    fn fill(&mut self, table: &str, columns: &str, mut rows: Rows) -> Result<()> {
        // The server accepts bulk filling only without these checks; the generator makes valid rows.
        self.conn.query_drop("SET unique_checks=0, foreign_key_checks=0, sql_log_bin=0")?;
        let handler = LocalInfileHandler::new(move |_, out| rows(out as &mut dyn Write));
        self.conn.set_local_infile_handler(Some(handler));
        self.conn.query_drop(format!("LOAD DATA LOCAL INFILE '{table}' INTO TABLE {table} ({columns})"))?;
        self.conn.set_local_infile_handler(None);
        self.end(true)
    }
}
