//! Layouts of databases on drives that several studies use.

pub(crate) mod doublewrite;
pub(crate) mod zoned;
