//! What the models of database servers share: the [`Server`], whose own parts are an [`Engine`], and what it is made of. It runs TPC-C's or sysbench's transactions as
//! uses of pages, which lie on namespaces.

mod clients;
mod counts;
#[cfg(test)]
pub(crate) mod drive;
mod frames;
mod load;
mod log;
mod server;
mod space;
mod sysbench;
mod tables;
mod tpcc;

pub(crate) use clients::Clients;
pub use counts::Counts;
pub(crate) use frames::{Frames, NONE};
pub(crate) use load::Load;
pub(crate) use log::{Log, Step};
pub use server::Server;
pub(crate) use server::{Engine, LoadOn};
pub(crate) use space::Pages;
pub use space::{Area, Volume};
pub use tables::Schema;
pub(crate) use tables::{Storage, TABLESPACES, Tables};
pub use tpcc::TransactionKind;
pub(crate) use tpcc::{Mixture, TransactionPlan};
