//! What `fuzz` targets call.

use crate::{host, target};
use nvme::{Command, Completion};

/// What a `fuzz` target calls: any bytes, fed in pieces to a target connection that has been set up and to
/// one that has not, and to a host connection with commands outstanding.
pub fn fuzz(bytes: &[u8]) {
    fuzz_target(bytes);
    fuzz_host(bytes);
}

/// Any bytes, at once, in pieces, and behind a proper start.
fn fuzz_target(bytes: &[u8]) {
    let config = target::Config {
        max_r2t: 2,
        r2t_bytes: 4096,
        max_depth: 4,
        max_transfer: 65536,
        data_memory: 65536,
        ..target::Config::default()
    };
    for start in [false, true] {
        for piece in [1, 7, bytes.len().max(1)] {
            let mut controller = target::Connection::new(config.clone());
            if start {
                let mut peer = host::Connection::new(host::Config::default());
                let hello: Vec<u8> = peer.transmit().flatten().copied().collect();
                peer.sent(hello.len());
                let _ = controller.receive(&hello);
            }
            for part in bytes.chunks(piece) {
                if controller.receive(part).is_err() {
                    break;
                }
                while let Some(incoming) = controller.next() {
                    let filled = controller.data(incoming.tag).map_or(0, |data| data.len());
                    let _ = controller.respond(incoming.tag, Completion::success(0, 0), filled);
                }
                let len = controller.transmit().map(<[u8]>::len).sum();
                controller.sent(len);
            }
        }
    }
}

/// Any bytes, at once, in pieces, and behind a proper start with commands outstanding.
fn fuzz_host(bytes: &[u8]) {
    for start in [false, true] {
        for piece in [1, 7, bytes.len().max(1)] {
            let mut connection = host::Connection::new(host::Config { depth: 4, ..host::Config::default() });
            if start {
                let mut peer = target::Connection::new(target::Config::default());
                let hello: Vec<u8> = connection.transmit().flatten().copied().collect();
                connection.sent(hello.len());
                let _ = peer.receive(&hello);
                let answer: Vec<u8> = peer.transmit().flatten().copied().collect();
                let _ = connection.receive(&answer);
                let _ = connection.submit(Command::read(1, 0, 8), host::Data::In(vec![0; 4096]));
                let _ = connection.submit(Command::write(1, 0, 8), host::Data::Out(vec![0; 16384]));
            }
            for part in bytes.chunks(piece) {
                if connection.receive(part).is_err() {
                    break;
                }
                while connection.next().is_some() {}
                let len = connection.transmit().map(<[u8]>::len).sum();
                connection.sent(len);
            }
        }
    }
}
