//! The drives and the images of the worlds.

use super::zone_oracle::ZONES;
use image::{DriveKey, ImageOptions};
use media::Rng;

/// A namespace as it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamespaceSpec {
    /// Of its NVM Set, from one on.
    pub set: u16,
    /// Its LBA format's place in the drive's list.
    pub format: u8,
    /// Blocks that there are, and that are used here.
    pub all: u64,
    pub used: usize,
    /// Bytes of a block, as a host sees it.
    pub size: usize,
    /// Blocks of a page.
    pub per_page: usize,
    /// Whether it has zones.
    pub zoned: bool,
}

/// How a world is made.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub toml: String,
    pub options: ImageOptions,
    pub protected: bool,
    /// A set loses its contents with its power if the capacitors do nothing.
    pub volatile: bool,
    /// A power cut tears writes of it if the capacitors fail.
    pub tears: bool,
    /// Hosts ask for a Flush now and then, or hardly ever.
    pub flushes: bool,
    /// They write a page and ask for a Flush in turn.
    pub in_turn: bool,
    /// Bytes that are written as a whole or not at all.
    pub atomic: usize,
    pub spaces: Vec<NamespaceSpec>,
    /// Whether the first set has zones, and there is a zoned namespace.
    pub zoned: bool,
    /// Pages of a Zone Random Write Area, and those that are committed together; 0 without areas.
    pub area: [usize; 2],
    /// What the keys of namespaces are wrapped with; they are stored in the clear without.
    pub key: Option<DriveKey>,
}

const SPACE_BYTES: usize = 1 << 20;

/// LBA formats: name, bytes of a block in its page, bytes that a host sees.
const FORMATS: [(&str, usize, usize); 3] = [("512", 512, 512), ("4096", 4096, 4096), ("4096+8", 4096, 4104)];

fn made(set: u16, rng: &mut Rng) -> NamespaceSpec {
    let format = rng.below(FORMATS.len() as u64) as u8;
    let (_, data, size) = FORMATS[usize::from(format)];
    let used = [48 << 10, 160 << 10, SPACE_BYTES][rng.below(3) as usize] / data;
    NamespaceSpec {
        set,
        format,
        all: (SPACE_BYTES / data) as u64,
        used,
        size,
        per_page: 4096 / data,
        zoned: false,
    }
}

/// A drive that seed chooses.
pub(super) fn setup(rng: &mut Rng) -> Setup {
    let protected = rng.below(3) > 0;
    let timing = rng.below(3) == 0;
    // An atomic write must fit into a program unit.
    let (atomic, nand_page) =
        [("4KiB", "4KiB"), ("4KiB", "16KiB"), ("16KiB", "16KiB")][rng.below(3) as usize];
    let handles = ["", "placement = { handles = 3 }"][rng.below(2) as usize];
    let second = match rng.below(5) {
        // What a disk tears without capacitors is for the model of its set: no command says it here.
        4 if protected || (!timing && atomic == "4KiB") => disk(rng),
        0 => "media = \"dram\"\ncapacity = \"1MiB\"".to_owned(),
        1 => "media = \"pmem\"\ncapacity = \"1MiB\"".to_owned(),
        _ => nand(rng, nand_page, ""),
    };
    let volatile = second.starts_with("media = \"dram");
    let tears = timing && second.starts_with("media = \"disk");
    let zoned = rng.below(3) == 0;
    let one_set = rng.below(3) == 0;
    let spaces = vec![made(1, rng), made(if one_set { 1 } else { 2 }, rng)];
    let namespaces: String = spaces
        .iter()
        .map(|made| {
            let lba = FORMATS[usize::from(made.format)].0;
            format!("[[namespace]]\nset = {}\nsize = \"1MiB\"\nlba = \"{lba}\"\nattach = \"all\"\n", made.set)
        })
        .collect();
    let formats = FORMATS.map(|(name, ..)| format!("\"{name}\"")).join(", ");
    let toml = format!(
        "[drive]\ntiming = {timing}\nwrite_buffer = \"{}\"\natomic_write = \"{atomic}\"\npower_loss_protection = {protected}\n\
         lba_formats = [{formats}]\n\
         [[set]]\n{}\n[[set]]\n{second}\n{namespaces}",
        ["256KiB", "512KiB"][rng.below(2) as usize],
        nand(rng, nand_page, handles),
    );
    // What is in an area must outlive power.
    let area = match zoned && protected && rng.below(3) > 0 {
        true => [[2, 1], [4, 1], [4, 2]][rng.below(3) as usize],
        false => [0, 0],
    };
    let toml = if zoned { with_zones(&toml, area, rng) } else { toml };
    let options = ImageOptions {
        host_sync: rng.below(4) > 0,
        checkpoint_bytes: [2048, 16 << 10, 64 << 10, 1 << 20][rng.below(4) as usize],
        margin_slots: [64, 128, 1024][rng.below(3) as usize],
    };
    let flushes = rng.below(4) > 0;
    let in_turn = flushes && rng.below(3) == 0;
    let atomic = if atomic == "16KiB" { 16 << 10 } else { 4096 };
    let key = (rng.below(4) == 0).then(|| DriveKey::generate(&mut |bytes| bytes.fill(7)));
    Setup { toml, options, protected, volatile, tears, flushes, in_turn, atomic, spaces, zoned, area, key }
}

/// A hard disk of a few MiB.
fn disk(rng: &mut Rng) -> String {
    format!(
        "media = \"disk\"\nrpm = 15000\nheads = 2\ncylinders = 100\nzones = 2\nouter_sectors = {outer}\ninner_sectors = {inner}\n\
         sector = {}\nread_seek = [\"50us\", \"200us\", \"400us\"]\nbuffer = {{ write_cache = {}, write_size = \"64KiB\" }}",
        [512, 4096][rng.below(2) as usize],
        rng.below(2) == 0,
        outer = 100,
        inner = 60,
    )
}

/// The first set gets zones, and the room for them.
fn with_zones(toml: &str, [pages, granularity]: [usize; 2], rng: &mut Rng) -> String {
    let dies = rng.below(3);
    let areas = match pages {
        0 => String::new(),
        _ => format!(
            ", zrwa = 2, zrwa_size = \"{}KiB\", zrwa_granularity = \"{}KiB\"",
            pages * 4,
            granularity * 4
        ),
    };
    let room = format!("capacity = \"8MiB\"\nzone = {{ active = {ZONES}, dies = {dies}{areas} }}");
    toml.replacen("capacity = \"2MiB\"", &room, 1)
}

fn nand(rng: &mut Rng, nand_page: &str, handles: &str) -> String {
    format!(
        "media = \"nand\"\ncell = \"slc\"\ncapacity = \"2MiB\"\nspare = \"{}\"\nchannels = {}\ndies = 2\nplanes = 1\n\
         nand_page = \"{nand_page}\"\npages_per_block = {}\nrated_cycles = 1000000\n\
         timing = {{ program = \"{}\" }}\n{handles}",
        ["350%", "450%"][rng.below(2) as usize],
        1 + rng.below(2),
        [8, 16][rng.below(2) as usize],
        // Slow ones are still under way when other things are asked for.
        ["200us", "200us", "20ms"][rng.below(3) as usize],
    )
}
