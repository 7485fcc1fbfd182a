//! What tests share: a small drive, a host without a connection, a disk that fails, and the inside of an image's files.

mod disk;

pub use crate::image::disk::{Disk, DiskFile, HostDisk, Open};
pub use crate::image::files::{
    CONFIG, CONTENTS, SPARES, checkpoint_name, generations, journal_name, rename_checkpoint, write_checkpoint,
};
pub use crate::image::format::{
    Frame, FrameKind, HEADER, Header, ImageFileKind, Salt, begin_frame, crc, end_frame, frame_at, unmasked,
};
pub use crate::image::sums::place;
pub use crate::image::{SteppedScrub, generation_of};
pub use crate::memory::SLOT;
pub use disk::{Damage, SimDisk};

use crate::Shape;
use crate::store::Store;
use device::{ControllerId, Drive, Host, Origin, Output};
use media::Nanos;
use nvme::CNTLID_DYNAMIC;
use nvme::property::{Cc, PropertyOffset};

/// A drive with one set of small flash, so that slots are used again soon: further keys of its `[drive]` table, capacity
/// of the set, and its namespaces by size and LBA format, which are attached to all controllers.
pub fn shape(drive: &str, capacity: &str, namespaces: &[(&str, &str)]) -> Shape {
    let namespaces: String = namespaces
        .iter()
        .map(|(size, lba)| format!("[[namespace]]\nsize = \"{size}\"\nlba = \"{lba}\"\nattach = \"all\"\n"))
        .collect();
    let toml = format!(
        r#"
[drive]
write_buffer = "128KiB"
{drive}
[[set]]
media = "nand"
cell = "slc"
capacity = "{capacity}"
spare = "200%"
channels = 2
dies = 2
planes = 1
nand_page = "4KiB"
pages_per_block = 16
rated_cycles = 1000000
{namespaces}"#
    );
    Shape { config: device::Config::from_toml(&toml).unwrap(), toml }
}

/// A host connects, enables its controller, and has one I/O queue.
///
/// # Panics
/// The drive refuses it.
pub fn connect(drive: &mut Drive, store: &mut Store, outputs: &mut Vec<Output>, now: Nanos) -> ControllerId {
    let nqn = nvme::Nqn::new("nqn.2026-11.test:host").unwrap();
    let id =
        drive.connect(now, Host::administrator(nqn, [1; 16], Origin::InProcess), CNTLID_DYNAMIC, 0).unwrap();
    let enable =
        Cc::new().with_en(true).with_css(Cc::CSS_SETS).with_iosqes(6).with_iocqes(4).into_bits().into();
    drive.property_set(now, id, PropertyOffset::CC, enable, store, outputs).unwrap();
    drive.add_queue(id, 1, 64).unwrap();
    id
}
