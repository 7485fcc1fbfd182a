//! Real databases and file systems on drives.
//!
//! - A [`layout`] says which namespaces a drive has and what is on them. [`drive`] serves it, and [`mounted_drive`] brings it up and takes it down.
//! - [`mariadb`] and [`postgresql`] are the servers; [`database`] is what they share. [`tpcc`] and [`sysbench`] are loads on them.
//! - [`process`] and [`scratch`] are programs that this process starts, and the directory of a run.
//! - [`mod@compare`] runs a command of the user's on several layouts. [`doctor`] says what this machine lacks.

pub mod compare;
pub mod database;
mod descendants;
pub mod doctor;
pub mod drive;
pub mod layout;
pub mod mariadb;
pub mod mounted_drive;
pub mod postgresql;
pub mod process;
pub mod scratch;
pub mod sysbench;
pub mod tpcc;
