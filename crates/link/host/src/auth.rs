//! In-band authentication of a queue, right after its Connect (Base 8.3.5).

use std::time::{Duration, Instant};

use fabric::auth::{AuthStep, ChapKeys, Host, HostFailure, Methods, Parties};
use nvme::Command;
use nvme::auth::SECP_NVME;
use nvme::fabrics::{Authentication, FabricsCommand};

use crate::queue::{Data, Queue};
use crate::{Error, call, fill_random};

/// Authenticates this host, and the controller if its key is known, within the time.
pub(crate) fn authenticate<Q: Queue>(
    queue: &mut Q,
    parties: Parties,
    keys: &ChapKeys,
    timeout: Duration,
) -> Result<(), Error> {
    let what = || format!("authenticating {} to {}", parties.host, parties.subsystem);
    let deadline = Instant::now() + timeout;
    let mut t_id = [0; 2];
    fill_random(&mut t_id);
    let mut host = Host::new(parties, keys.clone(), Methods::default(), u16::from_le_bytes(t_id));
    let mut answer: Option<Vec<u8>> = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match host.step(answer.take().as_deref(), &mut fill_random) {
            AuthStep::Send(message) => {
                let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
                let send = FabricsCommand::AuthenticationSend(parameters(length));
                let sent = call(queue, Command::from(send), Data::Out(message), left, what);
                // Why this host gives up matters more than whether the drive heard of it.
                if let AuthStep::Failed(why) = host.step(None, &mut fill_random) {
                    return Err(failed(what(), why));
                }
                sent?;
            }
            AuthStep::Receive => {
                let receive = FabricsCommand::AuthenticationReceive(parameters(Host::ROOM as u32));
                let done = call(queue, Command::from(receive), Data::room(Host::ROOM), left, what)?;
                answer = Some(done.data.into_buffer());
            }
            AuthStep::Done => return Ok(()),
            AuthStep::Failed(why) => return Err(failed(what(), why)),
        }
    }
}

fn parameters(length: u32) -> Authentication {
    Authentication { spsp0: 1, spsp1: 1, secp: SECP_NVME, length }
}

fn failed(what: String, why: HostFailure) -> Error {
    Error::Authentication { what, why }
}
