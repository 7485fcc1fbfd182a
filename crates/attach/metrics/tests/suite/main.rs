//! Metrics, from outside: one program, which compiles faster than one for each file.

mod documented;
mod endpoint;
mod scrape;
mod support;
