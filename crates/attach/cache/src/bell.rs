//! How devices tell that they have news.

use std::cell::Cell;
use std::sync::{Arc, OnceLock, Weak};

/// Who is told.
pub trait Ring: Send + Sync + 'static {
    /// A device has news. Must not block.
    fn ring(&self);
}

thread_local! {
    /// Who looks at its devices in this thread anyhow.
    static ACTIVE_LISTENER: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
}

/// Does something after which the listener looks at its devices by itself: what they do meanwhile in this thread is not rung.
pub fn without<L: Ring>(listener: &L, act: impl FnOnce()) {
    let outer = ACTIVE_LISTENER.replace(std::ptr::from_ref(listener).cast());
    act();
    ACTIVE_LISTENER.set(outer);
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
        let Some(listener) = self.0.get() else { return };
        if listener.as_ptr().cast() == ACTIVE_LISTENER.get() {
            return;
        }
        if let Some(listener) = listener.upgrade() {
            listener.ring();
        }
    }
}
