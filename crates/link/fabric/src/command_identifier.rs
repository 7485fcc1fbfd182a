//! Identifiers of a host's commands: the place of a command in its queue, and how many had the place before.

/// Bits for the place, in queues with no more places than these name. The bits above count: a second completion never ends the next command.
const PLACE_BITS: u32 = 12;

/// The identifier of a command in a place of its queue, which has `places`. `generation` counts the earlier commands of the place.
#[must_use]
pub fn command_identifier(place: u16, generation: u16, places: usize) -> u16 {
    if places <= 1 << PLACE_BITS { place | generation << PLACE_BITS } else { place }
}

/// The place that an identifier names. Its command is there only if it has this very identifier.
#[must_use]
pub fn place_of(identifier: u16, places: usize) -> u16 {
    if places <= 1 << PLACE_BITS { identifier & ((1 << PLACE_BITS) - 1) } else { identifier }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_place_have_identifiers_of_their_own() {
        let of = |generation, places| command_identifier(5, generation, places);
        assert_eq!((of(0, 32), of(1, 32), of(16, 32)), (5, 0x1005, 5));
        assert_eq!((of(3, 4096), of(3, 4097)), (0x3005, 5));
        assert_eq!((place_of(0x3005, 4096), place_of(0x3005, 4097)), (5, 0x3005));
    }
}
