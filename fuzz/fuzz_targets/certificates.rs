#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ladoga_fuzz::certificates(bytes));
