#![no_main]

#[path = "../../tests/common/mod.rs"]
#[allow(dead_code)] // shared with the tests, which use all of it
mod common;
#[path = "../../tests/common/trial.rs"]
#[allow(dead_code)]
mod trial;

libfuzzer_sys::fuzz_target!(|data: &[u8]| trial::text("JSONEachRow", data));
