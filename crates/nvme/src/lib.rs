//! The NVMe specification as types
