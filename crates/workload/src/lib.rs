//! What a host asks for, as state machines without I/O
