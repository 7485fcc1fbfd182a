//! How devices tell that they have news.

use std::sync::{Arc, OnceLock, Weak};

/// Who is told.
pub trait Ring: Send + Sync + 'static {
    /// A device has news. Must not block.
    fn ring(&self);
}

/// What a device rings. It may be made before there is anybody to hear it.
#[derive(Clone, Default)]
pub struct Bell(Arc<OnceLock<Weak<dyn Ring>>>);

impl Bell {
    /// Says who hears it; the first one stays.
    pub fn hang(&self, listener: Weak<dyn Ring>) {
        let _ = self.0.set(listener);
    }

    /// Rings it, from any thread.
    pub fn ring(&self) {
        if let Some(listener) = self.0.get().and_then(Weak::upgrade) {
            listener.ring();
        }
    }
}
