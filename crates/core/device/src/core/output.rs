//! What the drive asks of its owner.

use super::controller::{ControllerId, PortId};
use ftl::Io;
use media::Nanos;
use nvme::Completion;
use nvme::admin::FaultKind;

/// One thing to do, in the order in which they were given.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a completion that is not delivered hangs its host"]
pub enum Output {
    /// The command is complete and its time has come: deliver the entry now. The number of the command is free
    /// again. If the controller has gone meanwhile, only the number matters.
    Complete {
        /// The controller that the command came to.
        controller: ControllerId,
        /// The queue that the command came on.
        qid: u16,
        /// The runner's number of the command.
        io: Io,
        /// The entry: result, status and command identifier. SQ head and identifier are the transport's.
        completion: Completion,
    },
    /// Data for the host's buffer of a command that the controller itself answers (Identify, logs,
    /// features), exactly as long as [`Drive::transfer`](crate::Drive::transfer) said. It comes before the command's `Complete`.
    /// What is read from namespaces does not come here: [`ftl::Storage::load`] puts it into the buffer.
    Data {
        /// The command.
        io: Io,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Everything that was stored and recorded so far must be durable on the host's disk before this
    /// command completes; answer with [`Drive::synced`](crate::Drive::synced).
    Sync {
        /// The command.
        io: Io,
    },
    /// Earlier contents must not be found any more. First everything that was stored and recorded so far must be durable, as for
    /// [`Sync`](Output::Sync). Then no older state may be kept, nor contents of slots without references. Answer with
    /// [`Drive::synced`](crate::Drive::synced) when that is done.
    Forget {
        /// The command, or a number of the drive's own.
        io: Io,
        /// Contents of all slots go, also of those that blocks which went bad still refer to.
        all: bool,
    },
    /// The controller is gone (keep-alive timeout, subsystem reset): close its connections. All its commands
    /// come back as `Complete` nevertheless.
    Disconnect {
        /// Which controller.
        controller: ControllerId,
    },
    /// The drive lost its power: every controller is gone, every command in flight is forgotten and
    /// gets no `Complete`, and answers to `Sync` are no longer expected. Close all connections, then
    /// call [`Drive::power_on`](crate::Drive::power_on) no earlier than after `off`.
    PowerCut {
        /// How long the power stays off.
        off: Nanos,
        /// Whether completed writes may be lost: capacitors saved nothing, and a set needed them.
        lossy: bool,
    },
    /// The orderly shutdown that [`Drive::shut_down`](crate::Drive::shut_down) began is complete.
    ShutDown,
    /// A fault was injected, or all were cleared: for the owner's log.
    FaultInjected {
        /// Its kind.
        kind: FaultKind,
        /// NVM Set, 0 for all; or port.
        nvmsetid: u16,
    },
    /// A fault to inject below the drive, into the host's disk that keeps its contents.
    HostDiskFault {
        /// The disk is full; else it fails.
        full: bool,
        /// Operations that fail; 0 until cleared.
        count: u32,
    },
    /// A fault to inject above the drive: every connection of this port ends, after the answers that are there were
    /// offered to its socket, and new ones are refused for a time.
    PortDown {
        /// Which port.
        port: PortId,
        /// For how long from now.
        span: Nanos,
    },
    /// Ports that are down come back.
    PortsUp,
    /// Injected faults of the host's disk end.
    ClearHostDiskFaults,
}
