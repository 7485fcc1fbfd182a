//! Mapping, write buffer, placement, garbage collection, recovery
