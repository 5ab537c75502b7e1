//! Every target for a moment: seeds from real files, changed as fuzzers do, and bytes from nowhere. The same each time.

use ladoga_env::Rng;
use ladoga_env::sim::SimRng;
use ladoga_fuzz::{
    answer, answer_seeds, batch, batch_seeds, block, certificate_seeds, certificates, credential_seeds,
    credentials, feed_token, feed_token_seeds, http1, http1_seeds, manifest, peer, peer_seeds, resp,
    resp_seeds, seeds, table_footer, token_seeds, tokens, wal,
};

const ROUNDS: u64 = 30_000;
/// Longer inputs take longer and find no more.
const INPUT_BYTES_MAX: usize = 8 << 10;

/// A piece of a seed with a few changes, or random bytes.
fn input(rng: &SimRng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let below = |bound: usize| rng.below(bound as u64) as usize;
    let mut bytes: Vec<u8> = match below(8) {
        0 => (0..below(200)).map(|_| rng.next_u64() as u8).collect(),
        _ => seeds[below(seeds.len())].clone(),
    };
    if below(3) == 0 && !bytes.is_empty() {
        bytes.drain(..below(bytes.len()));
    }
    if below(3) == 0 {
        bytes.truncate(below(bytes.len() + 1));
    }
    bytes.truncate(INPUT_BYTES_MAX);
    for _ in 0..below(6) {
        change(&mut bytes, &below);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, below: &dyn Fn(usize) -> usize) {
    const NUMBERS: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, u32::MAX as u64, i64::MAX as u64, u64::MAX];
    if bytes.is_empty() {
        return;
    }
    let at = below(bytes.len());
    match below(6) {
        0 => bytes[at] ^= 1 << below(8),
        1 => bytes[at] = below(256) as u8,
        2 => {
            // A length, a count or an offset that is none.
            let number = NUMBERS[below(NUMBERS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][below(4)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        3 => bytes.insert(at, below(256) as u8),
        4 => drop(bytes.remove(at)),
        _ => {
            // A piece of it at another place.
            let length = below(bytes.len() - at).min(64);
            let to = below(bytes.len() - length + 1);
            bytes.copy_within(at..at + length, to);
        }
    }
}

fn smoke(name: &str, target: fn(&[u8]), seeds: &[Vec<u8>]) {
    assert!(seeds.len() > 2, "{name} has {} seeds", seeds.len());
    seeds.iter().for_each(|seed| target(seed));
    for round in 0..ROUNDS {
        let bytes = input(&SimRng::new(round), seeds);
        let kept = bytes.clone();
        if std::panic::catch_unwind(move || target(&bytes)).is_err() {
            panic!("{name} panics on the input of round {round}: {kept:02x?}");
        }
    }
}

/// If the engine's file formats have changed, the stored seeds may be of no use.
#[test]
fn the_files_of_the_engine_are_seeds() {
    let seeds = seeds().unwrap_or_else(|error| panic!("the engine writes its files: {error}"));
    assert_eq!(seeds.blocks.len(), seeds.tables.len(), "one of each table");
    // Without its headers, and as it is.
    for pair in seeds.logs.chunks_exact(2).chain(seeds.manifests.chunks_exact(2)) {
        let [bare, whole] = pair else { unreachable!("chunks of two") };
        assert!(bare.len() * 4 > whole.len(), "{} bytes of {}", bare.len(), whole.len());
    }
}

#[test]
fn no_target_panics() {
    let seeds = seeds().unwrap_or_else(|error| panic!("the engine writes its files: {error}"));
    smoke("wal", wal, &seeds.logs);
    smoke("manifest", manifest, &seeds.manifests);
    smoke("peer", peer, &peer_seeds());
    smoke("answer", answer, &answer_seeds());
    smoke("http1", http1, &http1_seeds());
    smoke("resp", resp, &resp_seeds());
    smoke("batch", batch, &batch_seeds());
    smoke("tokens", tokens, &token_seeds());
    smoke("certificates", certificates, &certificate_seeds());
    smoke("credentials", credentials, &credential_seeds());
    smoke("feed_token", feed_token, &feed_token_seeds());
    smoke("block", block, &[seeds.blocks, seeds.tables.clone()].concat());
    let tails: Vec<Vec<u8>> = seeds.tables.iter().map(|table| table[table.len() - 600..].to_vec()).collect();
    smoke("table_footer", table_footer, &tails);
}
