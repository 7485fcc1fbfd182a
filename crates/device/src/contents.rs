//! What the controller asks of the owner of contents, beyond what the translation layer does.

use ftl::{NoContents, Storage};

/// Storage that knows what a controller does with contents on their way between host and medium. The drive decides, and
/// never touches a byte itself.
pub trait Contents: Storage {}

impl Contents for NoContents {}
