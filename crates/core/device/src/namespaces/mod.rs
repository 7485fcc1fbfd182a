//! Namespaces come, go and change: Namespace Management, Namespace Attachment, Format NVM.

pub(crate) mod attachment;
pub(crate) mod change;
pub(crate) mod format;
pub(crate) mod management;
