//! Job files, ACT and traces, from outside: one program, which compiles faster than one for each file.

mod act;
mod blktrace;
mod common;
mod fio_file;
mod fio_jobs;
mod fio_offsets;
mod fio_parse;
mod fio_same;
mod fio_verify;
mod fio_zones;
mod trace;
