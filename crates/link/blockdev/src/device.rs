//! The contract.

use crate::{Limits, Nanos, Operation, Status};

/// A part that has ended.
#[derive(Debug)]
pub struct Completed {
    /// What it was submitted with.
    pub tag: u32,
    /// How it ended: a failure is a status and no error.
    pub status: Status,
    /// The buffer that was lent with it: of a successful read, filled.
    pub data: Vec<u8>,
}

/// What cutting requests on a device takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes per logical block: a power of two, 512 or more.
    pub block_size: u32,
    /// Size in logical blocks.
    pub blocks: u64,
    /// How long a part may be.
    pub limits: Limits,
}

/// A device with logical blocks: a namespace, a file, or what is made of several of them.
///
/// It is a state machine. Its caller says what time it is, of whichever clock, and asks again when something may have happened.
///
/// **Durability.** A successful flush makes every part durable that ended before the flush was submitted. After a failed flush, everything since the last
/// good one is in doubt, for good: it may be lost, and reads may find what was there before. So every later flush fails, too, until the
/// device is opened anew ([`Flushes`](crate::Flushes) keeps count). A caller that relied on the data passes the failure on. A part with Force Unit Access
/// vouches for its own blocks only, and its failure puts only these in doubt.
pub trait BlockDevice {
    /// Why it is of no more use, where that can happen. What is outstanding then may or may not have been done.
    type Error;

    /// Its blocks, and how many of them go into a part. It stays the same.
    fn geometry(&self) -> Geometry;

    /// Bytes per logical block.
    #[inline]
    fn block_size(&self) -> u32 {
        self.geometry().block_size
    }

    /// Size in logical blocks.
    #[inline]
    fn blocks(&self) -> u64 {
        self.geometry().blocks
    }

    /// How long a part may be.
    #[inline]
    fn limits(&self) -> Limits {
        self.geometry().limits
    }

    /// How many parts it takes now.
    fn room(&self) -> usize;

    /// Begins a part at `now`. `tag` names it until it has [completed](BlockDevice::poll) and is unique until then.
    /// The part keeps to [`limits`](BlockDevice::limits), and there is [room](BlockDevice::room) for it. `data` has the length of the
    /// blocks: of a write their contents, of a read room for them. It is empty with every other verb.
    ///
    /// # Errors
    /// The device is of no more use.
    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), Self::Error>;

    /// A part that has ended by `now`, if one has. Parts end in any order.
    ///
    /// # Errors
    /// The device is of no more use.
    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, Self::Error>;

    /// When it is to be polled next: `Nanos::MAX` while nothing is outstanding. A device that is told from outside when a part ends
    /// cannot know, and says 0: at any time.
    fn next_event(&self) -> Nanos;

    /// When it is to be polled so that what it does by itself goes on, too, such as copies of a cache: `Nanos::MAX` if it has nothing to do.
    /// It is never later than [`next_event`](BlockDevice::next_event). Who never does loses nothing: it goes on with the next request.
    fn next_work(&self) -> Nanos {
        self.next_event()
    }
}

/// A reference to a device, and a box with one, are devices.
macro_rules! forward {
    ($($place:ty),+) => { $(
        impl<D: BlockDevice + ?Sized> BlockDevice for $place {
            type Error = D::Error;

            #[inline]
            fn geometry(&self) -> Geometry {
                (**self).geometry()
            }

            #[inline]
            fn room(&self) -> usize {
                (**self).room()
            }

            #[inline]
            fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), D::Error> {
                (**self).submit(now, tag, part, data)
            }

            #[inline]
            fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, D::Error> {
                (**self).poll(now)
            }

            #[inline]
            fn next_event(&self) -> Nanos {
                (**self).next_event()
            }

            #[inline]
            fn next_work(&self) -> Nanos {
                (**self).next_work()
            }
        }
    )+ };
}
forward!(&mut D, Box<D>);
