//! Tokens of the feed of changes.

/// What tokens stand for, and the text of some: of a node on its own, of a cluster, and with a key up to which tables were read.
pub fn feed_token_seeds() -> Vec<Vec<u8>> {
    let numbers = |format: u8, count: u64, key: &[u8]| {
        let numbers = (1..=count).flat_map(|number| (number << 40).to_be_bytes());
        [format].into_iter().chain(numbers).chain(key.iter().copied()).collect::<Vec<u8>>()
    };
    let bare = [(1, 2, &b""[..]), (1, 3, b"key"), (2, 4, b""), (2, 5, b"key"), (2, 5, b"")];
    let mut seeds: Vec<Vec<u8>> = bare.map(|(format, count, key)| numbers(format, count, key)).into();
    let texts = seeds.iter().map(|seed| ladoga_local::fuzzing::text_of(seed));
    seeds.extend(texts.collect::<Vec<_>>());
    seeds
}
