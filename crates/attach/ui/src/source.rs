//! What a view shows and changes, as its service sees it: something that answers questions, and tells watchers what is new.

use crate::ask::Ask;
use crate::refusal::Refusal;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;

/// What watchers are told. What is newer replaces what is older.
#[derive(Clone, Default, Debug)]
pub(crate) struct Feed {
    pub state: Option<Arc<str>>,
    pub sample: Option<Arc<str>>,
    /// Why the drive is away.
    pub gone: Option<Arc<str>>,
}

/// The answer to a question: a JSON document.
pub(crate) type Answer = Result<Value, Refusal>;

/// A drive or a run. Its clones are the same one.
pub(crate) trait Source: Clone + Send + Sync + 'static {
    /// What it answers.
    async fn ask(&self, ask: Ask) -> Answer;

    /// What watchers are told from now on.
    fn watch(&self) -> watch::Receiver<Feed>;

    /// Whether what watchers were told last is what is so now, however long ago that was. Otherwise it may be old.
    fn is_current(&self) -> bool;
}
