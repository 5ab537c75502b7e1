//! The shipping node in simulation; `cargo xtask sim --shipping --seeds N` runs any number of seeds.

use ladoga_sim::{Bug, run_shipping};

/// Seeds in which a planted bug has to be found.
const CANARY_SEEDS: u64 = 8;

#[test]
fn the_same_seed_gives_the_same_run_of_shipping_nodes() {
    for seed in 1..4 {
        assert_eq!(run_shipping(seed, None, false), run_shipping(seed, None, false));
    }
}

#[test]
fn shipping_nodes_keep_their_promises() {
    for seed in 0..10 {
        match run_shipping(seed, None, false) {
            // A simulation in which nothing happens would pass too.
            Ok(summary) => {
                let is_busy = summary.succeeded > 50 && summary.faults > 20 && summary.messages > 1_000;
                assert!(is_busy, "{summary:?}");
            }
            Err(failure) => panic!("{failure}"),
        }
    }
}

/// A coordinator that could not apply its own part of a write kept a hint for itself. Nothing delivers that, and as long as
/// it waited (three hours) the node's write floor stood still: no tombstone went, and no pull brought the missed write.
#[test]
fn seed_1_a_coordinator_kept_a_hint_for_itself() {
    if let Err(failure) = run_shipping(1, None, false) {
        panic!("{failure}");
    }
}

fn assert_is_found(bug: Bug, text: &str) {
    let mut failures = (0..CANARY_SEEDS).filter_map(|seed| run_shipping(seed, Some(bug), false).err());
    assert!(
        failures.any(|failure| failure.reason.contains(text)),
        "{bug:?} is not found in {CANARY_SEEDS} seeds"
    );
}

#[test]
fn a_shipping_replica_that_acknowledges_without_writing_is_found() {
    assert_is_found(Bug::AckWithoutWriting, "was acknowledged with");
}

#[test]
fn copies_on_shipping_nodes_that_a_cell_is_not_for_are_found() {
    assert_is_found(Bug::ForgetCopies, "which is for");
}
