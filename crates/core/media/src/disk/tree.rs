//! Layouts that are given as a tree of repeated patterns.
//!
//! A node has entries. Each covers blocks and cylinders by repeating its child, and says how far and by which angle one repetition lies behind the one
//! before. A leaf is a pattern of a track. Source: layouts of the kind g4 in DiskSim 4.0's diskmodel.

use super::spindle::Angle;
use super::types::{DiskError, MOST_CYLINDERS};

/// A pattern of a track: its blocks lie on consecutive sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Track {
    /// First sector.
    pub low: u32,
    /// Last sector.
    pub high: u32,
    /// Sectors of the track.
    pub sectors: u32,
}

/// What an entry repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Child {
    /// A node, by its index.
    Node(usize),
    /// A track pattern, by its index, on a head.
    Track(usize, u32),
}

/// A child that is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First block, counted from that of the node.
    pub block: u64,
    /// First cylinder, counted from that of the node.
    pub cylinder: i64,
    /// Angle of the first repetition, counted from that of the node.
    pub angle: Angle,
    /// Blocks of a repetition.
    pub blocks: u64,
    /// Cylinders of a repetition.
    pub cylinders: i64,
    /// Angle from one repetition to the next.
    pub turn: Angle,
    /// Blocks of all repetitions.
    pub all_blocks: u64,
    /// Cylinders descend from one repetition to the next.
    pub descends: bool,
    /// What is repeated.
    pub child: Child,
}

/// Blocks that lie somewhere else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// First block.
    pub block: u64,
    /// Number of blocks.
    pub count: u64,
    /// Cylinder, head and first sector, and the sectors of that track.
    pub place: (u32, u32, u32, u32),
}

/// A layout as a tree. The last node is the root.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TreeConfig {
    /// Track patterns.
    pub tracks: Vec<Track>,
    /// Nodes: their entries, in the order of their blocks.
    pub nodes: Vec<Vec<Entry>>,
    /// Slips: from which position on so many more are slipped (or fewer, if negative).
    pub slips: Vec<(u64, i64)>,
    /// Remapped blocks.
    pub remaps: Vec<Elsewhere>,
}

/// Where a block lies in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// Cylinder.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// Sector.
    pub sector: u32,
    /// Sectors of its track.
    pub sectors: u32,
    /// Angle of its start.
    pub angle: Angle,
    /// Blocks from it to the end of the pattern.
    pub left: u64,
}

/// A checked tree.
#[derive(Clone, Debug)]
pub struct Tree {
    config: TreeConfig,
    /// For each slip: the block from which on it counts, and how many are slipped then.
    shifts: Vec<(u64, i64)>,
}

/// How deep a tree may be.
const MAX_DEPTH: usize = 16;

impl Tree {
    /// A tree.
    ///
    /// # Errors
    /// If it is empty, refers to what is not there or to itself, or its entries are in no order.
    pub fn new(config: TreeConfig) -> Result<Tree, DiskError> {
        let error = |text: String| Err(DiskError::new(text));
        for (i, track) in config.tracks.iter().enumerate() {
            if track.high < track.low || track.high >= track.sectors || track.sectors > 1 << 20 {
                return error(format!(
                    "track pattern {i}: sectors {} to {} of {}",
                    track.low, track.high, track.sectors
                ));
            }
        }
        for (i, node) in config.nodes.iter().enumerate() {
            if node.first().is_none_or(|e| e.block != 0) {
                return error(format!("node {i}: its first entry begins with its first block"));
            }
            if !node.is_sorted_by(|a, b| a.block < b.block) {
                return error(format!("node {i}: entries are in the order of their blocks"));
            }
            for entry in node {
                let there = match entry.child {
                    Child::Node(n) => n < config.nodes.len(),
                    Child::Track(t, head) => t < config.tracks.len() && head < 1024,
                };
                if !there || entry.blocks == 0 || entry.all_blocks == 0 {
                    return error(format!("node {i}: an entry repeats what is not there, or nothing"));
                }
            }
        }
        if config.nodes.is_empty() {
            return error("a layout needs a node".to_owned());
        }
        let root = config.nodes.len() - 1;
        if depth(&config, root, 0, &mut vec![None; root + 1]).is_none() {
            return error(format!("nodes are nested more than {MAX_DEPTH} deep"));
        }
        let mut shifts: Vec<(u64, i64)> = Vec::with_capacity(config.slips.len());
        let mut slipped = 0i64;
        for &(position, count) in &config.slips {
            let from = position.saturating_add_signed(-slipped);
            let Some(sum) = slipped.checked_add(count).filter(|s| (0..1 << 40).contains(s)) else {
                return error(format!("slips at {position} add up to less than nothing, or too many"));
            };
            slipped = sum;
            let last = shifts.last().map_or(0, |s| s.0);
            shifts.push((from.max(last), slipped));
        }
        Ok(Tree { config, shifts })
    }

    /// Blocks that the root covers.
    pub fn blocks(&self) -> u64 {
        let root = &self.config.nodes[self.config.nodes.len() - 1];
        let slipped = self.shifts.last().map_or(0, |s| s.1).unsigned_abs();
        root.last().map_or(0, |e| e.block.saturating_add(e.all_blocks)).saturating_sub(slipped)
    }

    /// Whether blocks lie elsewhere.
    pub fn has_remaps(&self) -> bool {
        !self.config.remaps.is_empty()
    }

    /// Where a block lies. Beyond the last one: where the last one of its pattern lies.
    pub fn spot(&self, block: u64) -> Spot {
        let inside = |r: &&Elsewhere| block >= r.block && block - r.block < r.count;
        if let Some(r) = self.config.remaps.iter().find(inside) {
            let (cylinder, head, first, sectors) = r.place;
            let sector = first.saturating_add((block - r.block) as u32).min(sectors.max(1) - 1);
            // Nothing says at which angle the other track starts: that of its cylinder's place in the tree is as good as any.
            let angle = Angle::of(sector.into(), sectors.max(1).into());
            return Spot { cylinder, head, sector, sectors, angle, left: 1 };
        }
        let before = self.shifts.partition_point(|s| s.0 <= block);
        let slipped = before.checked_sub(1).map_or(0, |i| self.shifts[i].1);
        let mut rest = block.saturating_add_signed(slipped);
        let (mut node, mut cylinder, mut angle) = (self.config.nodes.len() - 1, 0i64, Angle::ZERO);
        loop {
            let entries = &self.config.nodes[node];
            let entry = &entries[entries.partition_point(|e| e.block <= rest) - 1];
            let inside = (rest - entry.block).min(entry.all_blocks - 1);
            let repetition = inside / entry.blocks;
            rest = inside % entry.blocks;
            let along = repetition.cast_signed().wrapping_mul(entry.cylinders);
            let along = if entry.descends { along.wrapping_neg() } else { along };
            cylinder = cylinder.wrapping_add(entry.cylinder).wrapping_add(along);
            angle = angle + entry.angle + entry.turn.times(repetition);
            match entry.child {
                Child::Node(child) => node = child,
                Child::Track(track, head) => {
                    let track = &self.config.tracks[track];
                    let offset = rest.min(u64::from(track.high - track.low)) as u32;
                    let cylinder = cylinder.clamp(0, i64::from(MOST_CYLINDERS) - 1) as u32;
                    let angle = angle + Angle::of(offset.into(), track.sectors.into());
                    let left = u64::from(track.high - track.low - offset) + 1;
                    let sector = track.low + offset;
                    return Spot { cylinder, head, sector, sectors: track.sectors, angle, left };
                }
            }
        }
    }
}

/// The depth below a node; none if it is too deep, as it is if it contains itself. `known` has that of nodes that were looked at.
fn depth(config: &TreeConfig, node: usize, above: usize, known: &mut [Option<usize>]) -> Option<usize> {
    if above > MAX_DEPTH {
        return None;
    }
    if known[node].is_none() {
        let mut below = 0;
        for entry in &config.nodes[node] {
            if let Child::Node(child) = entry.child {
                below = below.max(depth(config, child, above + 1, known)? + 1);
            }
        }
        known[node] = Some(below);
    }
    known[node].filter(|below| above + below <= MAX_DEPTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::geometry::Geometry;

    fn entry(block: u64, child: Child) -> Entry {
        Entry {
            block,
            cylinder: 0,
            angle: Angle::ZERO,
            blocks: 10,
            cylinders: 1,
            turn: Angle::of(1, 10),
            all_blocks: 10,
            descends: false,
            child,
        }
    }

    /// Two heads in turn over three cylinders each, the second one backwards; then a zone of shorter tracks.
    fn serpentine() -> TreeConfig {
        let up = Entry { all_blocks: 30, ..entry(0, Child::Track(0, 0)) };
        let down = Entry { cylinder: 2, descends: true, angle: Angle::of(3, 10), block: 30, ..up };
        let down = Entry { child: Child::Track(0, 1), ..down };
        let short = Entry { cylinder: 3, blocks: 5, all_blocks: 10, ..entry(60, Child::Track(1, 0)) };
        let whole = Entry { blocks: 60, cylinders: 3, all_blocks: 60, ..entry(0, Child::Node(0)) };
        let track = |sectors| Track { low: 0, high: sectors - 1, sectors };
        TreeConfig {
            tracks: vec![track(10), track(5)],
            nodes: vec![vec![up, down], vec![whole, short]],
            slips: vec![(2, 1)],
            remaps: vec![],
        }
    }

    #[test]
    fn patterns_repeat_and_descend() {
        let tree = Tree::new(serpentine()).unwrap();
        assert_eq!(tree.blocks(), 69);
        let spot = |block| {
            let s = tree.spot(block);
            (s.cylinder, s.head, s.sector, s.angle)
        };
        assert_eq!(spot(1), (0, 0, 1, Angle::of(1, 10)));
        assert_eq!(spot(2).2, 3, "behind the slip");
        assert_eq!((spot(9).0, spot(9).2), (1, 0));
        let back = spot(29);
        assert_eq!((back.0, back.1, back.2), (2, 1, 0));
        assert_eq!((spot(39).0, spot(49).0), (1, 0));
        assert_eq!((spot(59).0, tree.spot(59).sectors, tree.spot(64).cylinder), (3, 5, 4));
    }

    #[test]
    fn a_tree_is_a_geometry() {
        let geometry = Geometry::of_tree(2, serpentine(), 0).unwrap();
        assert_eq!((geometry.blocks(), geometry.zones()), (69, 2));
        assert_eq!((geometry.track_sectors(0), geometry.track_sectors(1)), (10, 5));
        assert_eq!(geometry.zone_cylinders(1), (3, 2));
        assert_eq!(geometry.run(0, 100).count, 9, "a slip on the first track");
        assert_eq!(geometry.run(59, 100).count, 5);
        let place = geometry.place(39);
        assert_eq!((place.cylinder, place.head), (1, 1));
        assert_eq!((geometry.track_end(39), geometry.cylinder_end(64)), (49, 69));
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let refused = |change: fn(&mut TreeConfig)| {
            let mut config = serpentine();
            change(&mut config);
            Geometry::of_tree(2, config, 0).unwrap_err().to_string()
        };
        assert!(refused(|c| c.nodes[1][0].child = Child::Node(1)).contains("nested"));
        assert!(refused(|c| c.nodes[1][0].child = Child::Node(7)).contains("not there"));
        assert!(refused(|c| c.nodes[0][0].blocks = 0).contains("nothing"));
        assert!(refused(|c| c.nodes[1][1].block = 0).contains("order"));
        assert!(refused(|c| c.nodes.clear()).contains("needs a node"));
        assert!(refused(|c| c.tracks[0].high = 10).contains("track pattern 0"));
        assert!(refused(|c| c.slips = vec![(5, -1)]).contains("slips"));
        assert!(refused(|c| c.slips = vec![(0, 70)]).contains("no block"));
    }
}
