//! What the models of database servers share: the namespaces that their files lie on, TPC-C's tables as pages, and TPC-C's transactions as
//! uses of these pages.

mod space;
mod tables;
mod tpcc;

pub(crate) use space::BlockRange;
pub use space::{Area, Volume};
pub use tables::Schema;
pub(crate) use tables::{Storage, TABLESPACES, Tables, Tree};
pub use tpcc::TransactionKind;
pub(crate) use tpcc::{LeafUse, Mixture, Terminals, TransactionPlan};
