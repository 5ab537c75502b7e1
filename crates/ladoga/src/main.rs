//! A persistent key-value store that speaks plain HTTP.

fn main() {}
