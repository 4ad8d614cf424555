#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/common/trial.rs"]
#[allow(dead_code)] // this target tries one of its kinds of file
mod trial;

libfuzzer_sys::fuzz_target!(|data: &[u8]| trial::part("TSV", data));
