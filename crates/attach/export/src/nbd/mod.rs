//! Namespaces over NBD (Network Block Device), for kernels and programs without an NVMe host.
//!
//! The protocol is that of <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>, in its fixed newstyle. Each conventional
//! namespace is an export with the name of its block file. `docs/howto/nbd.md` says what clients can expect.
//!
//! How a request travels:
//! 1. A thread per connection reads bytes. [`Negotiation`] and then [`Requests`] say what they mean; neither knows a socket.
//! 2. The request queue of the block files turns requests into commands.
//! 3. The thread that delivers the drive's completion puts the reply into the connection's outbox (`outbox`), and sends it if it can without
//!    waiting.
//!
//! Not here:
//! - TLS and any other authentication,
//! - zoned namespaces: NBD has no zones,
//! - the commands CACHE (there is nothing to be read ahead into) and RESIZE, and extended headers, which are experimental.

mod connection;
mod exports;
mod fuzz;
mod negotiation;
mod outbox;
mod replies;
mod requests;
mod server;
mod wire;

pub use fuzz::fuzz;
pub use negotiation::{ExportInfo, Exports, Negotiation, Progress, Session};
pub use outbox::Reply;
pub use requests::{Action, Incoming, NotNbd, Requests};
pub use server::{CONNECTIONS, Listener, Place, Server};
pub use wire::{MAX_PAYLOAD_BYTES, NbdError, greeting};
