//! Policies of one's own: which superblock of an NVM Set on flash is collected next, and where data go. `Config::ftl.set_policies` gives
//! them to a drive, before it starts. `examples/own-policies` has two, and docs/howto/policies.md says how to write one.

pub use ftl::{Candidate, HostWrite, PlacementPolicy, Policies, VictimPolicy, Writer};
