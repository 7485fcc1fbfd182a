//! The events that the log holds, over power cycles.

use nvme::log::{PersistentEvent, PersistentEventHeader};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Bytes of events that are kept; the oldest go.
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
            bytes -= self.events.pop_back().map_or(bytes, |e| e.len());
        }
        self.changed = true;
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

/// Events as text in the saved state.
mod hexadecimal {
    use super::{PersistentEvent, VecDeque};
    use nvme::zerocopy::FromBytes;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(events: &VecDeque<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |event: &Vec<u8>| event.iter().map(|b| format!("{b:02x}")).collect::<String>();
        serializer.collect_seq(events.iter().map(text))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VecDeque<Vec<u8>>, D::Error> {
        let texts: Vec<String> = Vec::deserialize(deserializer)?;
        texts.iter().map(|text| event(text).ok_or_else(|| D::Error::custom("a persistent event"))).collect()
    }

    /// An event whose header tells its length.
    fn event(text: &str) -> Option<Vec<u8>> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let bytes: Option<Vec<u8>> = pairs.iter().map(|[a, b]| Some(digit(*a)? << 4 | digit(*b)?)).collect();
        let bytes = bytes.filter(|_| rest.is_empty())?;
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
