//! What each block may hold.

use std::fmt::Write as _;

/// What a block holds, as the operation that made it so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// Zeros, since this operation; 0 is the beginning.
    Zeros(u64),
    /// What a write put into a block, or what was copied from there.
    Stamp { version: u64, space: u32, lba: usize },
    /// Nothing that can be read (Write Uncorrectable), since this operation.
    Bad(u64),
}

impl Value {
    /// Whether a reader sees no difference.
    fn same(self, other: Value) -> bool {
        match (self, other) {
            (Value::Zeros(_), Value::Zeros(_)) | (Value::Bad(_), Value::Bad(_)) => true,
            _ => self == other,
        }
    }
}

pub(super) const BLANK: Value = Value::Zeros(0);

/// One operation on a block that may still be what counts.
#[derive(Clone, Copy, Debug)]
struct Entry {
    value: Value,
    /// When it was acknowledged; never, or not yet.
    acknowledged: Option<u64>,
}

/// What happened to the drive before a block is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct After {
    /// The host went down, or its disk failed: what was not flushed may be gone.
    pub host: bool,
    /// Power was lost, and no capacitors save the write buffer: the same.
    pub cut: bool,
    /// Capacitors failed that should have: anything may be gone, but nothing is foreign.
    pub ruin: bool,
}

impl After {
    pub(super) fn and(self, other: After) -> After {
        After { host: self.host | other.host, cut: self.cut | other.cut, ruin: self.ruin | other.ruin }
    }

    fn is_loss(self) -> bool {
        self.host || self.cut || self.ruin
    }
}

/// How far what a look found is safe from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Safe {
    /// No further.
    No,
    /// From the host: the image was opened with it.
    FromHost,
    /// From a loss of power: all that is left is on the media.
    FromCut,
}

/// A block's history since what is promised of it.
#[derive(Clone, Debug)]
struct Block {
    /// From the newest that is safe from the host on, in the order of the operations.
    since: Vec<Entry>,
    /// The same for what is safe from a loss of power without capacitors.
    since_cut: Vec<Entry>,
    /// Its value before the last loss of power. If the host goes down, the image may go back there.
    before_cut: Vec<Entry>,
    /// What it may hold now, but for what is under way.
    now: Vec<Value>,
    /// The blocks whose stamps were put here. Copy brings stamps of other blocks.
    stamps: Vec<usize>,
    /// Commands under way to it.
    busy: u32,
}

/// The blocks of one namespace.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub nsid: u32,
    /// What its stamps say: a namespace that is made anew has another.
    pub id: u32,
    /// Bytes of a block, as a host sees it.
    pub size: usize,
    blocks: Vec<Block>,
    /// Since when the capacitors failed, nothing is promised but that nothing is foreign.
    ruined: bool,
}

const MAGIC: u64 = 0x7472_616E_6368_6521;

/// What a write of this version puts into a block.
pub(super) fn stamp(space: u32, lba: usize, version: u64, size: usize) -> Vec<u8> {
    let words = [MAGIC ^ u64::from(space), lba as u64, version, version.rotate_left(29) ^ lba as u64];
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    }
    bytes.truncate(size);
    bytes
}

impl Space {
    pub(super) fn new(nsid: u32, size: usize, blocks: usize) -> Self {
        let block = Block {
            since: vec![Entry { value: BLANK, acknowledged: Some(0) }],
            since_cut: vec![Entry { value: BLANK, acknowledged: Some(0) }],
            before_cut: Vec::new(),
            now: vec![BLANK],
            stamps: Vec::new(),
            busy: 0,
        };
        Space { nsid, id: nsid, size, blocks: vec![block; blocks], ruined: false }
    }

    /// What begins every block that was written to it.
    pub(super) fn mark(&self) -> [u8; 8] {
        (MAGIC ^ u64::from(self.id)).to_le_bytes()
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// What a block holds, if only one thing is possible.
    pub(super) fn known(&self, lba: usize) -> Option<Value> {
        match self.blocks[lba].now[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// Whether nothing is under way to any of these blocks.
    pub(super) fn is_idle(&self, first: usize, count: usize) -> bool {
        !self.blocks[first..first + count].iter().any(|block| block.busy > 0)
    }

    /// Something is under way that only looks.
    pub(super) fn hold(&mut self, first: usize, count: usize) {
        self.blocks[first..first + count].iter_mut().for_each(|block| block.busy += 1);
    }

    pub(super) fn let_go(&mut self, first: usize, count: usize) {
        for block in &mut self.blocks[first..first + count] {
            block.busy = block.busy.saturating_sub(1);
        }
    }

    /// An operation begins that gives each block of a range its value.
    pub(super) fn begin(&mut self, first: usize, values: &[Value]) {
        for (block, &value) in self.blocks[first..].iter_mut().zip(values) {
            for list in [&mut block.since, &mut block.since_cut] {
                list.push(Entry { value, acknowledged: None });
            }
            if let Value::Stamp { lba, .. } = value {
                block.stamps.push(lba);
            }
            block.busy += 1;
        }
    }

    /// It has ended at `at`.
    pub(super) fn end(&mut self, first: usize, values: &[Value], at: u64, well: bool, safe: bool) {
        for (block, &value) in self.blocks[first..].iter_mut().zip(values) {
            block.busy = block.busy.saturating_sub(1);
            if !well {
                block.now.push(value);
                continue;
            }
            block.now = vec![value];
            for list in [&mut block.since, &mut block.since_cut] {
                if let Some(place) = list.iter().rposition(|entry| entry.value == value) {
                    list[place].acknowledged = Some(at);
                    if safe {
                        list.drain(..place);
                    }
                }
            }
            if safe {
                block.before_cut.clear();
            }
        }
    }

    /// A Flush that began at `at` has ended.
    pub(super) fn flushed(&mut self, at: u64) {
        for block in &mut self.blocks {
            // What failed may have happened all the same, before or after.
            if block.now.len() > 1 {
                continue;
            }
            for list in [&mut block.since, &mut block.since_cut] {
                let safe = list.iter().rposition(|entry| entry.acknowledged.is_some_and(|ack| ack <= at));
                list.drain(..safe.unwrap_or(0));
            }
            block.before_cut.clear();
        }
    }

    /// What a block holds: a value that was written to some block once, or what is wrong.
    fn decode(&self, bytes: Option<&[u8]>) -> Result<Value, String> {
        let Some(bytes) = bytes else { return Ok(Value::Bad(0)) };
        if bytes.iter().all(|&b| b == 0) {
            return Ok(BLANK);
        }
        let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap_or_default());
        let (space, lba, version) = (word(0) ^ MAGIC, word(1), word(2));
        match u32::try_from(space) {
            Ok(space) if bytes == stamp(space, lba as usize, version, self.size) => {
                Ok(Value::Stamp { version, space, lba: lba as usize })
            }
            _ => Err(format!("namespace {space:#x}, block {lba}, version {version}, or a mixture")),
        }
    }

    /// Checks what a block holds; `None` for one that cannot be read. After a loss it counts from now on.
    pub(super) fn check(
        &mut self,
        lba: usize,
        bytes: Option<&[u8]>,
        after: After,
        safe: Safe,
    ) -> Result<(), String> {
        let decoded = self.decode(bytes);
        let ruined = self.ruined || after.ruin;
        let block = &mut self.blocks[lba];
        let wrong = |what: String, block: &Block| {
            let mut text = format!(
                "block {lba} of namespace {} holds {what}; {after:?}, now {:?}",
                self.nsid, block.now
            );
            let _ = write!(text, ", since what is safe {:?}", block.since);
            let _ = write!(text, ", from cuts {:?}", block.since_cut);
            Err(text)
        };
        let found = match decoded {
            Ok(found) => found,
            Err(what) => return wrong(what, block),
        };
        let under_way = block.since.last().filter(|entry| entry.acknowledged.is_none() && block.busy > 0);
        let among = |list: &[Entry]| list.iter().any(|entry| entry.value.same(found));
        // After a failure of the capacitors it is at least what was once put there.
        let own = match found {
            Value::Stamp { space, lba, .. } => space & 0xFF == self.nsid && block.stamps.contains(&lba),
            Value::Zeros(_) | Value::Bad(_) => true,
        };
        let allowed = (ruined && own)
            || block.now.iter().any(|value| value.same(found))
            || under_way.is_some_and(|entry| entry.value.same(found))
            || (after.host && among(&block.since))
            || (after.cut && among(&block.since_cut));
        if !allowed {
            return wrong(format!("{found:?}"), block);
        }
        // After a failure the drive may show what it will not keep.
        if after.is_loss() || safe != Safe::No {
            let entry = Entry { value: found, acknowledged: Some(0) };
            match safe {
                Safe::No => {}
                Safe::FromCut => block.before_cut.append(&mut block.since_cut),
                Safe::FromHost => {
                    block.since.clear();
                    let before = std::mem::take(&mut block.before_cut);
                    if after.host {
                        block.since_cut.splice(..0, before);
                    }
                }
            }
            block.since.push(entry);
            block.since_cut.push(entry);
            block.now = vec![found];
            block.busy = 0;
        }
        Ok(())
    }

    /// After a loss of DRAM nothing is there, as was just found.
    pub(super) fn check_empty(&self) -> Result<(), String> {
        let held = |block: &Block| !matches!(block.now[..], [Value::Zeros(_)]);
        match self.blocks.iter().position(held) {
            Some(lba) => Err(format!(
                "block {lba} of namespace {} is there, though DRAM has lost its power: {:?}",
                self.nsid, self.blocks[lba].now
            )),
            None => Ok(()),
        }
    }

    /// What was checked is what counts.
    pub(super) fn settle(&mut self, after: After, safe: Safe) {
        self.ruined = (self.ruined || after.ruin) && safe != Safe::FromHost;
    }
}
