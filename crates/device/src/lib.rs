//! The NVMe controller as a state machine
