//! Any bytes as a client, for a fuzzer and for tests: what must hold for every input.

use super::negotiation::{ExportInfo, Exports, Negotiation, Progress, Session};
use super::requests::{Action, Incoming, Requests};
use super::wire::{OPTION_REPLY_MAGIC, Take};

/// Exports of all kinds.
struct Few;

impl Exports for Few {
    fn list(&self) -> Vec<ExportInfo> {
        let export = ExportInfo {
            id: 2,
            name: "nvme0n1".into(),
            description: "of a test".into(),
            bytes: 1 << 20,
            minimum: 512,
            preferred: 4096,
            maximum: 65536,
            read_only: false,
            fast_zeroes: true,
            allocation: true,
        };
        let plain = ExportInfo {
            id: 3,
            name: "cache-a".into(),
            fast_zeroes: false,
            allocation: false,
            ..export.clone()
        };
        let read_only =
            ExportInfo { id: 4, name: "nvme0n3".into(), read_only: true, minimum: 4096, ..export.clone() };
        vec![export, plain, read_only]
    }
}

/// What a server made of a client: its replies to options, the session if there was one, the requests in it, and whether it has ended the
/// connection.
#[derive(PartialEq, Eq, Debug, Default)]
struct Heard {
    replies: Vec<u8>,
    session: Option<Session>,
    requests: Vec<Incoming>,
    ended: bool,
}

/// Hears a client that sends `bytes` in pieces of `cut` bytes.
fn hear(bytes: &[u8], cut: usize) -> Heard {
    let mut heard = Heard::default();
    let mut negotiation = Negotiation::default();
    let mut requests: Option<Requests> = None;
    let mut unread: Vec<u8> = Vec::new();
    for piece in bytes.chunks(cut.max(1)) {
        unread.extend_from_slice(piece);
        while requests.is_none() {
            let (taken, progress) = negotiation.advance(&unread, &Few, &mut heard.replies);
            assert!(taken <= unread.len() || progress == Progress::End, "more than there is");
            unread.drain(..taken.min(unread.len()));
            match progress {
                Progress::More if taken == 0 => break,
                Progress::More => {}
                Progress::End => return Heard { ended: true, ..heard },
                Progress::Enter(session) => {
                    heard.session = Some((*session).clone());
                    requests = Some(Requests::new(*session));
                }
            }
        }
        let Some(requests) = &mut requests else { continue };
        let mut rest = &unread[..];
        loop {
            match requests.next(&mut rest) {
                Ok(Some(incoming)) => {
                    check(requests.session(), &incoming);
                    heard.requests.push(incoming);
                }
                Ok(None) => break,
                Err(_) => return Heard { ended: true, ..heard },
            }
        }
        let taken = unread.len() - rest.len();
        unread.drain(..taken);
    }
    heard
}

/// What is let through can be carried out.
fn check(session: &Session, incoming: &Incoming) {
    let export = &session.export;
    let within = |offset: u64, len: u64| {
        let minimum = u64::from(export.minimum);
        assert!(len > 0 && offset.is_multiple_of(minimum) && len.is_multiple_of(minimum), "{incoming:?}");
        assert!(offset + len <= export.bytes, "{incoming:?}");
    };
    match &incoming.action {
        Ok(Action::Read { offset, len }) => {
            within(*offset, (*len).into());
            assert!(*len <= export.maximum);
        }
        Ok(Action::Write { offset, data, .. }) => {
            within(*offset, data.len() as u64);
            assert!(!export.read_only && data.len() <= export.maximum as usize);
        }
        Ok(Action::Zero { offset, len, .. }) => {
            within(*offset, (*len).into());
            assert!(!export.read_only);
        }
        Ok(Action::Status { offset, len, .. }) => {
            within(*offset, (*len).into());
            assert!(session.allocation && session.structured);
        }
        Ok(Action::Flush | Action::Disconnect) | Err(_) => {}
    }
}

/// Replies to options are whole. Behind them comes what `NBD_OPT_EXPORT_NAME` is answered with: nothing has a length there.
fn check_replies(heard: &Heard) {
    let mut take = Take(&heard.replies);
    while take.0.starts_with(&OPTION_REPLY_MAGIC.to_be_bytes()) {
        let whole = take.u64().and(take.u32()).and(take.u32()).and(take.u32());
        let len = whole.expect("the head of a reply") as usize;
        take.bytes(len).expect("its data");
    }
    assert!([0, 10, 134].contains(&take.0.len()), "{} bytes are no reply", take.0.len());
    assert!(take.0.is_empty() || heard.session.is_some());
}

/// Hears a client that sends these bytes, in pieces of any size: the first byte says of which. All sizes give the same.
///
/// # Panics
/// If something does not hold that must.
pub fn fuzz(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let heard = hear(bytes, usize::from(*cut) + 1);
    check_replies(&heard);
    assert_eq!(heard, hear(bytes, usize::MAX), "the same in one piece");
}
