//! A typed NVMe host over any connection
