//! What an attack is, and all of them.

use crate::drive::World;
use crate::victim::Victim;
use crate::wire::{Stop, Tally};
use crate::{admin, connections, identities, io, logs, web};
use std::time::Duration;

/// Something that a hostile host does to its neighbour.
pub struct Attack {
    pub name: &'static str,
    /// Acts until the end. It notes promises that it sees broken.
    pub run: fn(&World, &Stop) -> Tally,
    /// Before it, and not measured.
    pub prepare: fn(&World, &mut Victim),
    /// After it: what of its preparation has to be there still.
    pub check: fn(&World, &mut Victim),
    /// How long the victim's latency is measured during it.
    pub slice: Duration,
    /// Whether it takes connections until it has all that it wants. Only then others try to connect.
    pub fills: bool,
}

impl Attack {
    pub const fn new(name: &'static str, run: fn(&World, &Stop) -> Tally) -> Attack {
        Attack {
            name,
            run,
            prepare: |_, _| {},
            check: |_, _| {},
            slice: Duration::from_millis(200),
            fills: false,
        }
    }

    pub const fn prepared_by(self, prepare: fn(&World, &mut Victim)) -> Attack {
        Attack { prepare, ..self }
    }

    pub const fn checked_by(self, check: fn(&World, &mut Victim)) -> Attack {
        Attack { check, ..self }
    }

    pub const fn filling(self) -> Attack {
        Attack { fills: true, slice: Duration::from_millis(400), ..self }
    }

    pub const fn lasting_ms(self, milliseconds: u64) -> Attack {
        Attack { slice: Duration::from_millis(milliseconds), ..self }
    }
}

pub fn all() -> impl Iterator<Item = &'static Attack> {
    [admin::ATTACKS, logs::ATTACKS, io::ATTACKS, identities::ATTACKS, connections::ATTACKS, web::ATTACKS]
        .into_iter()
        .flatten()
}
