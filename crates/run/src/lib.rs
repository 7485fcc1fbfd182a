//! Owns a drive at run time
