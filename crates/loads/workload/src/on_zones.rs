//! An actor whose logs lie on zones.
//!
//! The actor writes to one of its namespaces as if that were written in place: streams, each in a circle on blocks of its own. [`OnZones`] appends what it writes to zones.
//! Each stream has a ring of zones of its own. When a zone is full the stream goes on in the next of its ring, which holds the oldest, and was reset shortly before. What is
//! reset much earlier the drive lends to other data, and has to collect that again when the zone is opened.
//!
//! A block that is written again is appended again, so a stream wants a ring for more than its own blocks: [`ring`] says how many zones.

use std::collections::VecDeque;

use blockdev::ZoneAction;

use crate::{Actor, Nanos, Next, Request, Verb};

/// Blocks that a stream writes in a circle, as the actor counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The first one.
    pub first: u64,
    /// How many.
    pub blocks: u64,
}

/// Zones of a namespace, in its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zones {
    /// From the begin of one to the begin of the next.
    pub size: u64,
    /// How many of them can be written: 1 to `size`.
    pub capacity: u64,
}

/// A zone is nearly full when one part in so many is left of it.
const NEARLY_FULL_DIVISOR: u64 = 16;

/// Zones of a ring for a stream of so many blocks: room for twice as many, because blocks that are written again are appended again, and one zone that is reset.
#[must_use]
pub fn ring(blocks: u64, zones: Zones) -> u64 {
    (blocks.saturating_mul(2).div_ceil(zones.capacity.max(1)) + 1).max(3)
}

/// What a zone holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Empty,
    Used,
    /// It is being reset.
    Reset,
}

/// The zones of a stream.
#[derive(Debug)]
struct Ring {
    stream: Stream,
    /// The first of its zones, in the namespace.
    first: u64,
    /// Of each zone: what it holds, and appends under way.
    zones: Vec<(State, u32)>,
    /// The zone that is appended to, and blocks that it was given.
    open: usize,
    written: u64,
    /// Writes that wait for a zone, with the blocks that are left of them.
    held: VecDeque<(u32, u64)>,
}

/// What a request of its own is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Nothing,
    /// The actor's request of this tag.
    Same(u32),
    /// A part of a write, on a zone of a ring.
    Append {
        write: u32,
        ring: u32,
        zone: u32,
    },
    Reset {
        ring: u32,
        zone: u32,
    },
}

/// A write of the actor.
#[derive(Clone, Copy, Debug)]
struct Write {
    tag: u32,
    /// Parts under way, and one more while some wait.
    parts: u32,
    ok: bool,
}

/// An actor whose streams are appended to zones.
#[derive(Debug)]
pub struct OnZones<A> {
    actor: A,
    namespace: u16,
    layout: Zones,
    rings: Vec<Ring>,
    outgoing: VecDeque<Request>,
    purposes: Vec<Purpose>,
    spare: Vec<u32>,
    writes: Vec<Write>,
    spare_writes: Vec<u32>,
}

impl<A: Actor> OnZones<A> {
    /// An actor whose namespace of this index is zoned. The rings of its streams lie on that one after the other, from the first zone on. All of their zones are full, as if the
    /// streams had been round before.
    pub fn new(actor: A, namespace: u16, layout: Zones, streams: &[Stream]) -> Self {
        let mut first = 0;
        let mut rings = Vec::new();
        for &stream in streams {
            let count = ring(stream.blocks, layout);
            let zones: Vec<_> = (0..count).map(|_| (State::Used, 0)).collect();
            let (open, written) = (zones.len() - 1, layout.capacity);
            rings.push(Ring { stream, first, zones, open, written, held: VecDeque::new() });
            first += count;
        }
        Self {
            actor,
            namespace,
            layout,
            rings,
            outgoing: VecDeque::new(),
            purposes: Vec::new(),
            spare: Vec::new(),
            writes: Vec::new(),
            spare_writes: Vec::new(),
        }
    }

    /// The actor.
    pub fn actor(&self) -> &A {
        &self.actor
    }

    /// The actor, to be changed.
    pub fn actor_mut(&mut self) -> &mut A {
        &mut self.actor
    }

    fn tag(&mut self, purpose: Purpose) -> u32 {
        let tag = self.spare.pop().unwrap_or_else(|| {
            self.purposes.push(Purpose::Nothing);
            self.purposes.len() as u32 - 1
        });
        self.purposes[tag as usize] = purpose;
        tag
    }

    /// A write of the actor goes to its ring. False if it is in no stream.
    fn write(&mut self, request: &Request) -> bool {
        let end = request.lba.saturating_add(request.blocks.into());
        let has = |ring: &Ring| {
            let Stream { first, blocks } = ring.stream;
            request.lba >= first && end <= first + blocks
        };
        let Some(ring) = self.rings.iter().position(has) else { return false };
        let write = Write { tag: request.tag, parts: 1, ok: true };
        let number = match self.spare_writes.pop() {
            Some(number) => {
                self.writes[number as usize] = write;
                number
            }
            None => {
                self.writes.push(write);
                self.writes.len() as u32 - 1
            }
        };
        self.rings[ring].held.push_back((number, request.blocks.into()));
        self.append(ring);
        true
    }

    /// Appends what waits, as far as there are zones for it.
    fn append(&mut self, number: usize) {
        let Zones { size, capacity } = self.layout;
        loop {
            let ring = &mut self.rings[number];
            let Some(&mut (write, ref mut left)) = ring.held.front_mut() else { return };
            if ring.written >= capacity {
                let next = (ring.open + 1) % ring.zones.len();
                if ring.zones[next].0 != State::Empty {
                    return self.clear(number);
                }
                (ring.open, ring.written) = (next, 0);
            }
            let blocks = (*left).min(capacity - ring.written);
            let zone = ring.open;
            (*left, ring.written) = (*left - blocks, ring.written + blocks);
            ring.zones[zone] = (State::Used, ring.zones[zone].1 + 1);
            let lba = (ring.first + zone as u64) * size;
            let is_last = *left == 0;
            if is_last {
                ring.held.pop_front();
            }
            self.writes[write as usize].parts += u32::from(!is_last);
            let tag = self.tag(Purpose::Append { write, ring: number as u32, zone: zone as u32 });
            let namespace = self.namespace;
            self.outgoing.push_back(Request {
                tag,
                verb: Verb::Append,
                namespace,
                lba,
                blocks: blocks as u32,
            });
            self.clear(number);
        }
    }

    /// Resets the zone behind the open one when that is nearly full, if it holds the oldest and nothing is under way there.
    fn clear(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        let zone = (ring.open + 1) % ring.zones.len();
        let left = self.layout.capacity - ring.written;
        if left > self.layout.capacity / NEARLY_FULL_DIVISOR || ring.zones[zone] != (State::Used, 0) {
            return;
        }
        ring.zones[zone].0 = State::Reset;
        let lba = (ring.first + zone as u64) * self.layout.size;
        let tag = self.tag(Purpose::Reset { ring: number as u32, zone: zone as u32 });
        let verb = Verb::Zone(ZoneAction::Reset);
        self.outgoing.push_back(Request { tag, verb, namespace: self.namespace, lba, blocks: 0 });
    }

    /// A part of a write has ended.
    fn appended(&mut self, now: Nanos, number: u32, ok: bool) {
        let write = &mut self.writes[number as usize];
        (write.parts, write.ok) = (write.parts - 1, write.ok && ok);
        if write.parts == 0 {
            let Write { tag, ok, .. } = *write;
            self.spare_writes.push(number);
            self.actor.completed(now, tag, ok);
        }
    }
}

impl<A: Actor> Actor for OnZones<A> {
    fn next(&mut self, now: Nanos) -> Next {
        loop {
            if let Some(request) = self.outgoing.pop_front() {
                return Next::Submit(request);
            }
            let request = match self.actor.next(now) {
                Next::Submit(request) => request,
                other => return other,
            };
            let to_zones = request.namespace == self.namespace && request.verb != Verb::Flush;
            if !to_zones {
                let tag = self.tag(Purpose::Same(request.tag));
                return Next::Submit(Request { tag, ..request });
            }
            // Streams are written only: who reads them back has crashed before.
            if request.verb.plain() != Verb::Write || !self.write(&request) {
                self.actor.completed(now, request.tag, false);
            }
        }
    }

    fn completed(&mut self, now: Nanos, tag: u32, ok: bool) {
        let Some(place) = self.purposes.get_mut(tag as usize) else { return };
        let purpose = std::mem::replace(place, Purpose::Nothing);
        if purpose != Purpose::Nothing {
            self.spare.push(tag);
        }
        match purpose {
            Purpose::Nothing => {}
            Purpose::Same(tag) => self.actor.completed(now, tag, ok),
            Purpose::Append { write, ring, zone } => {
                self.rings[ring as usize].zones[zone as usize].1 -= 1;
                self.appended(now, write, ok);
                self.clear(ring as usize);
            }
            Purpose::Reset { ring, zone } => {
                // Of a zone that could not be reset the next append fails, and tells it.
                self.rings[ring as usize].zones[zone as usize].0 = State::Empty;
                self.append(ring as usize);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const ZONES: Zones = Zones { size: 64, capacity: 48 };

    /// Writes streams of 100 and of 30 blocks in a circle, in pieces of all lengths, and other namespaces between.
    struct Writer {
        count: u32,
        at: [u64; 2],
        ended: u32,
    }

    impl Actor for Writer {
        fn next(&mut self, _now: Nanos) -> Next {
            if self.count == 3000 {
                return Next::Done;
            }
            let tag = self.count;
            self.count += 1;
            let (namespace, verb) = match tag % 7 {
                0 => (0, Verb::Read),
                1 => (1, Verb::Flush),
                _ => (1, Verb::Write),
            };
            let stream = usize::from(tag.is_multiple_of(3));
            let (first, room) = [(0, 100), (100, 30)][stream];
            let blocks = 1 + tag % 23;
            let lba = first + self.at[stream] % (room - u64::from(blocks) + 1);
            self.at[stream] += u64::from(blocks);
            Next::Submit(Request {
                tag,
                verb,
                namespace,
                lba,
                blocks: if verb == Verb::Flush { 0 } else { blocks },
            })
        }

        fn completed(&mut self, _now: Nanos, _tag: u32, ok: bool) {
            assert!(ok);
            self.ended += 1;
        }
    }

    #[test]
    fn zones_are_written_in_order_and_reset_when_the_ring_comes_round() {
        let streams = [Stream { first: 0, blocks: 100 }, Stream { first: 100, blocks: 30 }];
        let rings = streams.map(|stream| ring(stream.blocks, ZONES));
        assert_eq!(rings, [6, 3]);
        let mut actor = OnZones::new(Writer { count: 0, at: [0; 2], ended: 0 }, 1, ZONES, &streams);
        let mut pointers: BTreeMap<u64, u64> =
            (0..9).map(|zone| (zone * ZONES.size, ZONES.capacity)).collect();
        let (mut under_way, mut resets) = (Vec::new(), 0);
        let (mut tags, mut over) = (BTreeSet::new(), false);
        let mut appended = 0;
        while !over || !under_way.is_empty() {
            match actor.next(0) {
                Next::Submit(request) => {
                    assert!(tags.insert(request.tag), "a tag that is in use");
                    match request.verb {
                        Verb::Append => {
                            let pointer = pointers.entry(request.lba).or_default();
                            *pointer += u64::from(request.blocks);
                            appended += u64::from(request.blocks);
                            assert!(*pointer <= ZONES.capacity && request.lba % ZONES.size == 0);
                            assert!(request.lba / ZONES.size < 9);
                        }
                        Verb::Zone(ZoneAction::Reset) => {
                            let busy =
                                |other: &Request| other.verb == Verb::Append && other.lba == request.lba;
                            assert!(!under_way.iter().any(busy), "appends are under way");
                            assert_eq!(pointers.insert(request.lba, 0), Some(ZONES.capacity));
                            resets += 1;
                        }
                        verb => assert!((request.namespace == 0) == (verb == Verb::Read), "{request:?}"),
                    }
                    under_way.push(request);
                    if under_way.len() < 5 {
                        continue;
                    }
                }
                Next::Done => over = true,
                other => assert!(other == Next::Wait, "{other:?}"),
            }
            if !under_way.is_empty() {
                let request = under_way.remove(under_way.len() / 2);
                tags.remove(&request.tag);
                actor.completed(0, request.tag, true);
            }
        }
        assert_eq!(actor.actor().ended, 3000);
        // As many are reset as are filled, and one of each ring ahead.
        let filled = appended / ZONES.capacity;
        assert!((filled..=filled + 3).contains(&resets) && resets > 100, "{resets} {appended}");
    }

    #[test]
    fn what_is_no_write_of_a_stream_fails() {
        struct Wrong(Vec<Request>, Vec<bool>);
        impl Actor for Wrong {
            fn next(&mut self, _now: Nanos) -> Next {
                self.0.pop().map_or(Next::Wait, Next::Submit)
            }
            fn completed(&mut self, _now: Nanos, _tag: u32, ok: bool) {
                self.1.push(ok);
            }
        }
        let of = |verb, lba, blocks| Request { tag: 0, verb, namespace: 1, lba, blocks };
        let wrong =
            vec![of(Verb::Read, 0, 1), of(Verb::Write, 100, 1), of(Verb::Write, 8, 3), of(Verb::Trim, 0, 1)];
        let streams = [Stream { first: 0, blocks: 10 }];
        let mut actor = OnZones::new(Wrong(wrong, Vec::new()), 1, ZONES, &streams);
        assert_eq!(actor.next(0), Next::Wait);
        assert_eq!(actor.actor().1, [false; 4]);
    }
}
