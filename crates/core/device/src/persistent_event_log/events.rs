//! The events that the log holds, over power cycles.

use nvme::log::{PersistentEvent, PersistentEventHeader};
use nvme::zerocopy::FromBytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of events that are kept. If there are more, the oldest event goes of the kind that takes the most room: no host can push
/// events of other kinds out of the log, however often it does something.
const MAX_BYTES: usize = 24 << 10;

/// Largest size of the log in units of 64 KiB (PELS).
pub(crate) const LOG_UNITS: u32 = 1;
const _: () = assert!(MAX_BYTES + size_of::<PersistentEventHeader>() < (LOG_UNITS as usize) << 16);

/// The events, encoded as in the log, newest first.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PersistentEvents {
    #[serde(with = "hexadecimal")]
    events: VecDeque<Vec<u8>>,
    /// Generation of the last report.
    generation: u16,
    /// Whether there were events since.
    changed: bool,
}

impl PersistentEvents {
    /// Adds an event, encoded as in the log.
    pub fn push(&mut self, event: Vec<u8>) {
        self.events.push_front(event);
        let mut bytes: usize = self.events.iter().map(Vec::len).sum();
        while bytes > MAX_BYTES {
            bytes -= self.drop_oldest_of_largest().unwrap_or(bytes);
        }
        self.changed = true;
    }

    /// Drops the oldest event of the kind that takes the most room. Returns its bytes.
    fn drop_oldest_of_largest(&mut self) -> Option<usize> {
        let mut room: BTreeMap<(u8, bool), usize> = BTreeMap::new();
        for event in &self.events {
            *room.entry(kind(event)?).or_default() += event.len();
        }
        let (largest, _) = room.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        let oldest = self.events.iter().rposition(|event| kind(event) == Some(largest))?;
        self.events.remove(oldest).map(|event| event.len())
    }

    /// How many events there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.events.len()).unwrap_or(u32::MAX)
    }

    /// All events, newest first, one after the other.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.events.iter().flatten().copied().collect()
    }

    /// Generation of a new report: the next one if there were events since the last report.
    pub(super) fn next_generation(&mut self) -> u16 {
        if std::mem::take(&mut self.changed) {
            self.generation = self.generation.wrapping_add(1);
        }
        self.generation
    }
}

/// The type of an event, and whether a controller's host caused it or the drive.
fn kind(event: &[u8]) -> Option<(u8, bool)> {
    let (header, _) = PersistentEvent::ref_from_prefix(event).ok()?;
    Some((header.etype.0, header.cntlid.get() != u16::MAX))
}

/// Events as text in the saved state.
mod hexadecimal {
    use super::{PersistentEvent, VecDeque};
    use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
    use nvme::zerocopy::FromBytes;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(events: &VecDeque<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(events.iter().map(|event| HEXLOWER.encode(event)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VecDeque<Vec<u8>>, D::Error> {
        let texts: Vec<String> = Vec::deserialize(deserializer)?;
        texts.iter().map(|text| event(text).ok_or_else(|| D::Error::custom("a persistent event"))).collect()
    }

    /// An event whose header tells its length.
    fn event(text: &str) -> Option<Vec<u8>> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        let (header, data) = PersistentEvent::ref_from_prefix(&bytes).ok()?;
        (data.len() == usize::from(header.el.get())).then_some(())?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::log::PersistentEventType;
    use nvme::zerocopy::IntoBytes;

    fn event(bytes: u16) -> Vec<u8> {
        let mut event = PersistentEvent::new(PersistentEventType::SET_FEATURE, bytes).as_bytes().to_vec();
        event.resize(event.len() + usize::from(bytes), 7);
        event
    }

    #[test]
    fn the_oldest_events_go() {
        let mut events = PersistentEvents::default();
        for i in 0..1000 {
            events.push(event(i));
        }
        assert_eq!(events.events[0], event(999));
        let bytes: usize = events.events.iter().map(Vec::len).sum();
        assert!(bytes <= MAX_BYTES && bytes + 1024 > MAX_BYTES, "{bytes}");
    }

    #[test]
    fn many_events_of_one_kind_push_none_of_another_out() {
        let mut events = PersistentEvents::default();
        let of = |kind| PersistentEvent::new(kind, 0).as_bytes().to_vec();
        let rare = of(PersistentEventType::SANITIZE_START);
        events.push(rare.clone());
        for _ in 0..10_000 {
            events.push(of(PersistentEventType::FORMAT_START));
            events.push(of(PersistentEventType::FORMAT_COMPLETION));
        }
        assert_eq!(events.events.back(), Some(&rare));
        // Those of hosts and the drive's own are different kinds.
        let own = PersistentEvent::new(PersistentEventType::POWER_ON_OR_RESET, 0);
        let own = PersistentEvent { cntlid: u16::MAX.into(), ..own }.as_bytes().to_vec();
        events.push(own.clone());
        (0..10_000).for_each(|_| events.push(of(PersistentEventType::POWER_ON_OR_RESET)));
        assert!(events.events.contains(&own) && events.events.contains(&rare));
    }

    #[test]
    fn saved_events_are_read_back_or_refused() {
        let mut events = PersistentEvents::default();
        events.push(event(3));
        events.push(event(0));
        let text = serde_json::to_string(&events).unwrap();
        assert_eq!(serde_json::from_str::<PersistentEvents>(&text).unwrap(), events);
        let short = text.replacen("07\"", "\"", 1);
        assert_ne!(short, text);
        for bad in [short, text.replacen("07", "0x", 1), text.replacen("070707", "07070", 1)] {
            assert!(serde_json::from_str::<PersistentEvents>(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_generation_moves_with_events_only() {
        let mut events = PersistentEvents::default();
        assert_eq!(events.next_generation(), 0);
        events.push(event(0));
        events.push(event(1));
        assert_eq!((events.next_generation(), events.next_generation()), (1, 1));
        assert_eq!((events.count(), events.bytes()), (2, [event(1), event(0)].concat()));
    }
}
