//! A tier as a block device over three others.

use crate::config::Config;
use crate::error::{ControlError, OpenError};
use crate::open::Start;
use crate::shape::{Device, Geometries};
use crate::state::{Control, Core, Sub};
use blockdev::stack::{Above, Below, Composite, Done, Machine};
use blockdev::{BlockDevice, Geometry, Nanos, Operation, Status};

impl Above<Device> for Core {
    #[inline]
    fn complete(&mut self, now: Nanos, id: u32, status: Status, data: Vec<u8>, device: Device) {
        Core::complete(self, now, id, status, data, device);
    }

    fn device_failed(&mut self, now: Nanos, device: Device) {
        Core::device_failed(self, now, device);
    }
}

impl Machine for Core {
    type Device = Device;
    type Control = Control;
    type ControlError = ControlError;
    type OpenError = OpenError;

    fn geometry(&self) -> Geometry {
        Core::geometry(self)
    }

    fn opened(&self) -> Result<bool, OpenError> {
        Core::opened(self)
    }

    #[inline]
    fn poll(&mut self, now: Nanos) {
        Core::poll(self, now);
    }

    #[inline]
    fn next_event(&self) -> Nanos {
        Core::next_event(self)
    }

    #[inline]
    fn submit(&mut self, now: Nanos, tag: u32, operation: &Operation, data: Vec<u8>) {
        Core::submit(self, now, tag, operation, data);
    }

    #[inline]
    fn next_sub(&mut self) -> Option<Sub> {
        Core::next_sub(self)
    }

    #[inline]
    fn next_done(&mut self) -> Option<Done> {
        Core::next_done(self)
    }

    #[inline]
    fn has_done(&self) -> bool {
        Core::has_done(self)
    }

    #[inline]
    fn outstanding(&self) -> usize {
        Core::outstanding(self)
    }

    fn control(&mut self, now: Nanos, control: Control) -> Result<(), ControlError> {
        Core::control(self, now, control)
    }

    fn take_outcome(&mut self) -> Option<Result<(), ControlError>> {
        Core::take_outcome(self)
    }
}

/// A cache tier over an origin, a cache device and a metadata device, as a block device.
pub type TierDevice<O, C, M> = Composite<Core, (Below<O, Device>, Below<C, Device>, Below<M, Device>)>;

/// Begins to make or to open a tier. Requests wait until it is [open](Composite::opened).
///
/// # Errors
/// The devices and the configuration do not fit.
pub fn begin<O: BlockDevice, C: BlockDevice, M: BlockDevice>(
    config: Config,
    start: Start,
    (origin, cache, metadata): (O, C, M),
    now: Nanos,
) -> Result<TierDevice<O, C, M>, OpenError> {
    let geometries =
        Geometries { origin: origin.geometry(), cache: cache.geometry(), metadata: metadata.geometry() };
    let core = Core::new(config, &geometries, start, now)?;
    let devices = (
        Below::new(origin, Device::Origin),
        Below::new(cache, Device::Cache),
        Below::new(metadata, Device::Metadata),
    );
    Ok(Composite::begin(core, devices, now))
}

/// Makes or opens a tier, and waits until it is open. `wait` lets time pass until one of the devices has news, and returns the time.
///
/// # Errors
/// It cannot be made or opened.
pub fn open<O: BlockDevice, C: BlockDevice, M: BlockDevice>(
    config: Config,
    start: Start,
    devices: (O, C, M),
    now: Nanos,
    wait: impl FnMut(&TierDevice<O, C, M>) -> Nanos,
) -> Result<TierDevice<O, C, M>, OpenError> {
    begin(config, start, devices, now)?.until_open(wait)
}
