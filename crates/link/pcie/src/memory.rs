//! Guest memory as the function sees it.

/// A range of addresses is not mapped, or not for this access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the address is not mapped")]
pub struct Unmapped;

/// Memory of a guest, by guest-physical (or I/O virtual) address. A guest may change it at any time, and chooses every address.
///
/// A range that is not mapped from its first to its last byte, or that wraps, is [`Unmapped`]; a write to it changes nothing. An
/// empty range is mapped.
pub trait GuestMemory {
    /// Copies bytes from the guest. Each byte is read once.
    ///
    /// # Errors
    /// The range is not mapped for reading.
    fn read(&self, addr: u64, bytes: &mut [u8]) -> Result<(), Unmapped>;

    /// Copies bytes to the guest.
    ///
    /// # Errors
    /// The range is not mapped for writing.
    fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Unmapped>;

    /// Reads a dword at a multiple of 4, in one piece. Later reads do not pass it, and it passes no earlier
    /// [`store`](GuestMemory::store).
    ///
    /// # Errors
    /// The range is not mapped for reading.
    fn load(&self, addr: u64) -> Result<u32, Unmapped>;

    /// Writes a dword at a multiple of 4, in one piece. A guest that sees it sees all earlier writes.
    ///
    /// # Errors
    /// The range is not mapped for writing.
    fn store(&self, addr: u64, value: u32) -> Result<(), Unmapped>;
}

/// The tools of a call: guest memory, and the time.
#[derive(Debug)]
pub struct Bus<'a, M> {
    /// The guest's memory.
    pub memory: &'a M,
    /// Doorbells that the host writes in memory instead of BAR0, if it maps them: the first one is at address 0.
    pub doorbells: Option<&'a M>,
    /// The time in nanoseconds, which never goes back. Interrupt coalescing counts it.
    pub now_ns: u64,
}

impl<M> Clone for Bus<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Bus<'_, M> {}
