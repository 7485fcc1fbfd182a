//! Studies and comparisons with real databases
