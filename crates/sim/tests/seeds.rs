//! As many seeds as an ordinary test may take; `cargo xtask sim --seeds N` runs any number.

use ladoga_sim::{Bug, Failure, Load, Settings, Summary, run, run_with};

const SEEDS: u64 = 24;
/// Seeds with scenes, which have one for each bug that is looked for by them: so most of these find it.
const TARGETED_SEEDS: u64 = 6;
/// Seeds in which a planted bug has to be found: at least five times as many as it takes by the rate at which it is.
const CANARY_SEEDS: u64 = 100;

/// The run of a node that has no bug, which has to keep all promises.
fn kept(seed: u64) -> Summary {
    let repeat = || format!("cargo xtask sim --first {seed} --seeds 1 --trace");
    run(seed, None).unwrap_or_else(|failure| panic!("{failure}\n  {}", repeat()))
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..5 {
        let (first, second, other) = (kept(seed), kept(seed), kept(seed + 4));
        assert_eq!(first, second, "seed {seed}");
        assert_ne!(first.trace, other.trace, "a trace in which nothing stands");
    }
}

#[test]
fn a_planted_bug_leaves_nothing_behind_for_the_next_run() {
    let before = kept(2);
    let _ = run(2, Some(Bug::AckWithoutWriting));
    assert_eq!(kept(2), before);
}

#[test]
fn no_seed_breaks_a_promise() {
    let mut total = Summary::default();
    (0..SEEDS).map(kept).for_each(|summary| total += summary);
    // A simulation in which nothing happens would pass too.
    assert!(total.succeeded > 200 * SEEDS, "{total:?}");
    assert!(total.faults > 20 * SEEDS, "{total:?}");
    assert!(total.messages > 5_000 * SEEDS, "{total:?}");
    assert!(total.clocks_wrong > SEEDS, "{total:?}");
    assert!(total.disks_lost > SEEDS / 4, "{total:?}");
    assert!(total.backups_restored > SEEDS / 8, "{total:?}");
    assert!(total.tombstones_dropped > SEEDS, "{total:?}");
    assert!(total.large_stored > 20 * SEEDS, "{total:?}");
    assert!(total.told_expired > SEEDS, "{total:?}");
    assert!(total.changes_told > 100 * SEEDS, "{total:?}");
    assert_eq!(total.histories_cut_short, 0, "{total:?}");
}

/// A coordinator that could not apply its own part of a write kept a hint for itself. Nothing delivers that, and as long as
/// it waited (three hours) the node's write floor stood still: no tombstone went, and no pull brought the missed write. (With
/// the workload of that time, seed 1 was the first to show it.)
#[test]
fn seed_1_a_coordinator_kept_a_hint_for_itself() {
    kept(1);
}

/// What a peer sent in a turn was stored as one batch, which was too large for the memtable: hints were refused, and sent again
/// in the same turn, for as long as they were kept. Until then nothing was stable. (Seed 1001 showed it until quorum reads began
/// to have a majority hold what they answer; the tests of the commit queue show it always.)
#[test]
fn seed_1001_hints_that_came_together_were_too_large_for_a_batch() {
    kept(1001);
}

/// A write that a read had spread met a newer version, and was written again under one newer than that: between the two, readers
/// saw what it overwrites now (decision 0048). Every other seed showed it.
#[test]
fn seed_2_a_write_took_effect_twice() {
    (0..8).for_each(|seed| _ = kept(seed));
}

/// A hint of a large value was kept out by a promise to a conditional write whose coordinator was gone. Nobody ended that: hints of
/// small values told who was in their way, and those of large ones only that they had not arrived. The hint waited for as long as
/// hints are kept, and no tombstone went.
#[test]
fn seed_2036_a_promise_of_nobody_kept_the_hint_of_a_large_value_out() {
    assert_kept_with_conditions(2036);
}

/// A disk failed to read what a repair of an old version would replace, so that the repair counted as newest, and who followed changes
/// was told an older version after a newer one.
#[test]
fn seed_3770_who_followed_was_told_an_old_version_after_a_read_that_failed() {
    assert_kept_with_conditions(3770);
}

/// Its clock was set back by a day, its volume rolled back, and it heard nobody: it went on from the versions of the older volume.
#[test]
fn seed_8021_a_node_alone_with_an_older_volume_and_time_gave_a_version_out_twice() {
    assert_kept_with_conditions(8021);
}

#[track_caller]
fn assert_kept_with_conditions(seed: u64) {
    let settings = Settings { load: Load::Conditional, ..Settings::default() };
    if let Err(failure) = run_with(seed, settings) {
        panic!("seed {seed}: {}", failure.reason);
    }
}

/// Looks for a seed in which a promise is broken in one of these ways, and none is without the bug.
fn assert_is_found(bug: Bug, ways: &[&str]) {
    let is_it = |reason: &str| ways.iter().any(|way| reason.contains(way));
    let found = (0..CANARY_SEEDS).find(|&seed| run(seed, Some(bug)).is_err_and(|found| is_it(&found.reason)));
    let seed = found.unwrap_or_else(|| panic!("{bug:?} is not found in {CANARY_SEEDS} seeds"));
    kept(seed);
}

#[test]
fn a_replica_that_acknowledges_without_writing_is_found() {
    assert_is_found(Bug::AckWithoutWriting, &["was acknowledged with"]);
}

#[test]
fn tombstones_that_go_by_the_clock_are_found() {
    assert_is_found(Bug::DropTombstonesByTime, &["was known before it began", "do not converge"]);
}

#[test]
fn a_node_that_vouches_for_what_it_lost_is_found() {
    assert_is_found(Bug::VouchWhileRebuilding, &["was known before it began"]);
}

#[test]
fn a_coordinator_that_ignores_newer_versions_is_found() {
    assert_is_found(Bug::IgnoreNewerVersions, &["was known before it began"]);
}

/// Once the node did so: a node whose clock was wrong kept what the others had refused as too far ahead, spread it when its
/// time had come, and it won over what had been acknowledged in between; and nothing was stable until then. Soonest it shows by a
/// value that is gone a day before it expires, or a day after: that takes one read of it.
#[test]
fn a_node_that_trusts_a_clock_that_is_wrong_is_found() {
    assert_is_found(Bug::TrustOwnClock, &["and loses to", "was decided as of"]);
}

#[test]
fn copies_on_nodes_that_a_cell_is_not_for_are_found() {
    assert_is_found(Bug::ForgetCopies, &["which is for"]);
}

/// Once the node did so if too few replicas could tell what was newest: it wrote all the same, and acknowledged although one of
/// them then had something newer, which had been acknowledged before.
#[test]
fn a_large_value_that_is_acknowledged_and_loses_is_found() {
    assert_is_found(Bug::AcknowledgeStaleLarge, &["was known before it began"]);
}

#[test]
fn a_node_that_does_not_care_for_what_its_peers_remember_is_found() {
    let ways = ["was known before it began", "given out twice", "do not converge"];
    assert_is_found(Bug::IgnoreRegressions, &ways);
}

/// Others have it, as a rule: so nobody reads anything wrong.
#[test]
fn a_node_that_says_too_early_that_a_write_is_on_its_disk_is_found() {
    assert_is_found(Bug::NeverSync, &["when it starts"]);
}

/// Runs a seed with scenes, in which faults meet requests between two steps of a protocol.
fn run_targeted(seed: u64, bug: Option<Bug>) -> Result<Summary, Failure> {
    run_with(seed, Settings { bug, load: Load::Targeted, ..Settings::default() })
}

/// Looks for seeds in which a promise is broken in one of these ways. A third of them at least has to find it, so that a change of what
/// happens when does not hide it; that none is broken without it is looked at below.
fn assert_is_targeted(bug: Bug, ways: &[&str]) {
    let is_it = |reason: &str| ways.iter().any(|way| reason.contains(way));
    let reasons =
        (0..TARGETED_SEEDS).map(|seed| run_targeted(seed, Some(bug)).err().map(|found| found.reason));
    let reasons: Vec<Option<String>> = reasons.collect();
    let found = reasons.iter().flatten().filter(|reason| is_it(reason)).count() as u64;
    eprintln!("{bug:?} is found in {found} of {TARGETED_SEEDS} seeds");
    assert!(
        found * 3 >= TARGETED_SEEDS,
        "{bug:?} is found in {found} of {TARGETED_SEEDS} seeds: {reasons:#?}"
    );
}

/// What clients were told has no order.
const DISORDER: [&str; 2] = ["is not linearizable", "were added"];

#[test]
fn no_scene_breaks_a_promise() {
    let mut total = Summary::default();
    for seed in 0..4 * TARGETED_SEEDS {
        let repeat = || format!("cargo xtask sim --first {seed} --seeds 1 --trace --targeted");
        total += run_targeted(seed, None).unwrap_or_else(|failure| panic!("{failure}\n  {}", repeat()));
    }
    // A scene that nobody plays would pass too.
    assert!(total.succeeded > 4 * 60 * TARGETED_SEEDS, "{total:?}");
    assert!(total.faults >= 4 * 20 * TARGETED_SEEDS, "{total:?}");
    assert_eq!(total.disks_lost, 4 * 2 * TARGETED_SEEDS, "{total:?}");
    assert_eq!(total.histories_cut_short, 0, "{total:?}");
}

/// A coordinator did so: a read had the first version spread, another write took its place, and then the first came again.
#[test]
fn a_write_that_was_seen_and_is_written_again_is_found() {
    assert_is_targeted(Bug::RestampAfterExposure, &["written again under another version"]);
}

/// A node that lost its disk pulled what the trees of the others told, which was all but what expires.
#[test]
fn what_expires_and_is_not_in_the_trees_is_found() {
    assert_is_targeted(Bug::ExpiryNotInTrees, &["was known before it began"]);
}

#[test]
fn a_promise_that_a_restart_forgets_is_found() {
    assert_is_targeted(Bug::ForgottenFence, &DISORDER);
}

#[test]
fn a_promise_that_times_out_is_found() {
    assert_is_targeted(Bug::FenceTimesOut, &DISORDER);
}

/// No answer is wrong then: there is none. A third of the seeds has a promise that stays.
#[test]
fn a_key_that_nobody_can_read_any_more_is_found() {
    let is_it = |seed| {
        let found = run_targeted(seed, Some(Bug::LeavePromises));
        found.is_err_and(|found| found.reason.contains("does not answer"))
    };
    assert!((0..4 * TARGETED_SEEDS).any(is_it));
}

#[test]
fn a_repair_that_goes_through_a_promise_is_found() {
    assert_is_targeted(Bug::RepairThroughFence, &DISORDER);
}

#[test]
fn a_promise_by_a_node_that_lost_its_disk_is_found() {
    assert_is_targeted(Bug::PromiseByLostDisk, &DISORDER);
}

#[test]
fn a_refusal_because_of_what_one_node_has_is_found() {
    let ways = ["was known before it began", DISORDER[0]];
    assert_is_targeted(Bug::RefuseOnUnstableState, &ways);
}

/// Runs a seed in which the list of nodes changes.
fn run_relisted(seed: u64, bug: Option<Bug>) -> Result<Summary, Failure> {
    run_with(seed, Settings { bug, load: Load::Relisted, ..Settings::default() })
}

fn kept_relisted(seed: u64) -> Summary {
    let repeat = || format!("cargo xtask sim --first {seed} --seeds 1 --trace --relisted");
    run_relisted(seed, None).unwrap_or_else(|failure| panic!("{failure}\n  {}", repeat()))
}

#[test]
fn no_change_of_the_list_of_nodes_breaks_a_promise() {
    let mut total = Summary::default();
    (0..SEEDS).map(kept_relisted).for_each(|summary| total += summary);
    assert!(total.succeeded > 200 * SEEDS, "{total:?}");
    assert!(total.lists_changed > SEEDS, "{total:?}");
    assert!(total.disks_lost > SEEDS / 2, "{total:?}");
    assert!(total.clocks_wrong > SEEDS / 2, "{total:?}");
    assert!(total.tombstones_dropped > SEEDS, "{total:?}");
    assert_eq!(total.histories_cut_short, 0, "{total:?}");
}

/// Old nodes waited for floors of writes before they let a new node copy their data. Floors wait for hints, and a hint of a large value
/// was delivered only once the answers of all nodes counted, also those of the new one: so that never came. (Of the
/// first eight seeds, all six that add a node showed it.)
#[test]
fn seed_4_a_hint_kept_a_new_node_from_counting() {
    kept_relisted(4);
}

/// Of three nodes that were made four, one lost its disk before the new one counted. A promise of a coordinator that was gone kept a
/// cell out of an old node, nobody could end it without a majority, and the others waited for that cell.
#[test]
fn seed_752_a_promise_kept_a_new_node_from_counting() {
    kept_relisted(752);
}

/// Looks for a seed with another list of nodes in which a promise is broken in one of these ways, and none is without the bug.
fn assert_is_found_relisted(bug: Bug, ways: &[&str]) {
    let is_it = |reason: &str| ways.iter().any(|way| reason.contains(way));
    let finds = |&seed: &u64| run_relisted(seed, Some(bug)).is_err_and(|found| is_it(&found.reason));
    let seed = (0..CANARY_SEEDS).find(finds);
    kept_relisted(seed.unwrap_or_else(|| panic!("{bug:?} is not found in {CANARY_SEEDS} seeds")));
}

#[test]
fn a_new_node_that_counts_at_once_is_found() {
    assert_is_found_relisted(Bug::CountNewNodes, &["was known before it began"]);
}

#[test]
fn what_is_known_of_nodes_by_their_places_is_found() {
    assert_is_found_relisted(Bug::KnowByPlace, &["because the list was changed", "is not whole"]);
}
