//! Images with an engine above them: hosts that write, crashes, damage.

mod crash;
mod examine;
mod host_crash;
mod hostile_files;
mod marks;
mod scrub;
mod wrong_contents;

use device::ControllerId;
use image::testing;
use live::engine::Engine;
use media::Nanos;

/// A host connects to the drive of an engine.
fn connect(engine: &mut Engine, now: Nanos) -> ControllerId {
    testing::connect(&mut engine.drive, &mut engine.store, &mut engine.outputs, now)
}
