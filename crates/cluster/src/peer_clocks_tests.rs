use super::*;

#[path = "peer_clocks_expiry_tests.rs"]
mod expiry_tests;

const DAY_MS: u64 = 86_400_000;
const NOW_MS: u64 = 1_700_000_000_000;
const AHEAD_MS_MAX: u64 = 60_000;
/// On another scale than the wall clock.
const STARTED_MS: u64 = 5_000;

fn at(ms: u64) -> u64 {
    HybridClock::at_wall_ms(ms)
}

/// Node 0 of so many, after it has heard these wall clocks (none for a silent peer), all at `STARTED_MS`.
fn heard(nodes: usize, walls: &[Option<u64>]) -> PeerClocks {
    let mut clocks = PeerClocks::new(NodeId(0), nodes, AHEAD_MS_MAX, STARTED_MS);
    for (peer, wall_ms) in walls.iter().enumerate() {
        if let Some(wall_ms) = *wall_ms {
            says(&mut clocks, peer + 1, wall_ms, 0, Some(0));
        }
    }
    clocks
}

fn says(clocks: &mut PeerClocks, peer: usize, wall_ms: u64, version_ms: u64, round_trip_ms: Option<u64>) {
    let reading = ClockReading { wall_ms, version_clock: at(version_ms) };
    clocks.heard(NodeId(peer as u16), reading, STARTED_MS, round_trip_ms);
}

fn time_ms(clocks: &PeerClocks, wall_ms: u64, passed_ms: u64) -> u64 {
    clocks.bounds(STARTED_MS + passed_ms).time_ms(wall_ms, STARTED_MS + passed_ms)
}

fn takes(clocks: &PeerClocks, version_ms: u64, wall_ms: u64) -> bool {
    clocks.bounds(STARTED_MS).check_ahead(at(version_ms), (wall_ms, STARTED_MS), AHEAD_MS_MAX).is_ok()
}

#[test]
fn a_clock_that_is_ahead_of_a_majority_counts_as_theirs() {
    let three = heard(3, &[Some(NOW_MS), Some(NOW_MS - 40_000)]);
    assert_eq!(time_ms(&three, NOW_MS + DAY_MS, 0), NOW_MS + CLOCK_MARGIN_MS);
    assert_eq!(time_ms(&three, NOW_MS + 700, 0), NOW_MS + 700, "it agrees");
    let two = heard(2, &[Some(NOW_MS)]);
    assert_eq!(time_ms(&two, NOW_MS + DAY_MS, 0), NOW_MS + CLOCK_MARGIN_MS);
    let five = heard(5, &[Some(NOW_MS + DAY_MS), Some(NOW_MS), Some(NOW_MS - 1), Some(NOW_MS - 2)]);
    assert_eq!(time_ms(&five, NOW_MS + DAY_MS, 0), NOW_MS + CLOCK_MARGIN_MS);
}

#[test]
fn a_clock_that_is_right_counts_as_it_is_whatever_a_minority_shows() {
    for wrong_ms in [0, NOW_MS - DAY_MS, NOW_MS + DAY_MS, u64::MAX] {
        for walls in [vec![wrong_ms, NOW_MS], vec![wrong_ms, wrong_ms, NOW_MS, NOW_MS]] {
            let walls: Vec<_> = walls.into_iter().map(Some).collect();
            assert_eq!(time_ms(&heard(walls.len() + 1, &walls), NOW_MS, 0), NOW_MS, "{walls:?}");
        }
    }
}

#[test]
fn a_clock_that_is_behind_a_majority_counts_as_theirs() {
    let three = heard(3, &[Some(NOW_MS), Some(NOW_MS + 40_000)]);
    assert_eq!(time_ms(&three, 0, 0), NOW_MS - CLOCK_MARGIN_MS);
    // One of two nodes may be the wrong one; and so may both of the others if they are only half of all.
    assert_eq!(time_ms(&heard(2, &[Some(NOW_MS + DAY_MS)]), NOW_MS, 0), NOW_MS);
    let half = heard(4, &[Some(NOW_MS + DAY_MS), Some(NOW_MS + DAY_MS), Some(NOW_MS)]);
    assert_eq!(time_ms(&half, NOW_MS, 0), NOW_MS);
}

#[test]
fn a_node_that_is_cut_off_goes_on_by_what_was_agreed_on() {
    // Its peers' clocks were right and wrong; that of this node was right, and is a day ahead now.
    let mut clocks = heard(3, &[Some(NOW_MS), Some(NOW_MS + 600_000)]);
    clocks.tick(NOW_MS + 10, STARTED_MS);
    for passed_ms in [LATELY_MS + 1, 3 * DAY_MS] {
        clocks.tick(NOW_MS + 5 * DAY_MS, STARTED_MS + passed_ms);
        let latest_ms = NOW_MS + 10 + passed_ms + CLOCK_MARGIN_MS;
        assert_eq!(time_ms(&clocks, NOW_MS + 5 * DAY_MS, passed_ms), latest_ms);
        assert_eq!(time_ms(&clocks, NOW_MS, passed_ms), NOW_MS);
        let bounds = clocks.bounds(STARTED_MS + passed_ms);
        let takes =
            |ms| bounds.check_ahead(at(ms), (NOW_MS + 5 * DAY_MS, STARTED_MS + passed_ms), AHEAD_MS_MAX);
        assert!(takes(latest_ms + AHEAD_MS_MAX).is_ok() && takes(latest_ms + AHEAD_MS_MAX + 1).is_err());
    }
}

/// (A node whose clock was wrong had died, another one's went wrong, and a third node followed the nearer of the two.)
#[test]
fn what_a_node_showed_that_is_away_by_now_moves_nobody_ahead() {
    let far_ms = NOW_MS + DAY_MS;
    let mut clocks = heard(3, &[Some(NOW_MS + 600_000), None]);
    let later_ms = LATELY_MS + 1;
    let reading = |wall_ms: u64| ClockReading { wall_ms: wall_ms + later_ms, version_clock: 0 };
    clocks.heard(NodeId(2), reading(far_ms), STARTED_MS + later_ms, Some(0));
    assert_eq!(time_ms(&clocks, NOW_MS + later_ms, later_ms), NOW_MS + later_ms);
    // Nor does it permit to be as far ahead, as long as others are there.
    clocks.heard(NodeId(2), reading(NOW_MS), STARTED_MS + later_ms, Some(0));
    assert_eq!(time_ms(&clocks, far_ms + later_ms, later_ms), NOW_MS + later_ms + CLOCK_MARGIN_MS);
}

#[test]
fn before_enough_was_heard_only_as_much_time_has_passed_as_is_certain() {
    for walls in [vec![], vec![Some(NOW_MS)]] {
        let mut clocks = heard(5, &walls);
        clocks.starts_after(at(NOW_MS));
        assert_eq!(time_ms(&clocks, NOW_MS + DAY_MS, 70), NOW_MS + 70);
        assert_eq!(time_ms(&clocks, NOW_MS + 30, 70), NOW_MS + 30, "nor is it later than the clock shows");
        assert_eq!(clocks.bounds(STARTED_MS).correction_ms(NOW_MS + DAY_MS, STARTED_MS), None);
        // Until it knows better, it accepts others' timestamps up to its own wall clock: they may know better.
        assert!(takes(&clocks, NOW_MS + DAY_MS, NOW_MS + DAY_MS));
    }
    let mut clocks = heard(5, &[Some(NOW_MS), Some(NOW_MS)]);
    clocks.starts_after(at(NOW_MS - 30 * DAY_MS));
    assert_eq!(time_ms(&clocks, NOW_MS, 0), NOW_MS, "a cluster that was stopped for a month");
    assert!(!takes(&clocks, NOW_MS + DAY_MS, NOW_MS + DAY_MS));
}

#[test]
fn a_node_on_its_own_goes_by_its_clock() {
    let alone = heard(1, &[]);
    assert_eq!(time_ms(&alone, NOW_MS + DAY_MS, 0), NOW_MS + DAY_MS);
    assert_eq!(alone.bounds(STARTED_MS).correction_ms(NOW_MS, STARTED_MS), Some(0));
}

#[test]
fn what_was_under_way_for_long_says_less_than_what_was_not() {
    let mut clocks = heard(3, &[]);
    says(&mut clocks, 1, NOW_MS - 9_000, 0, None);
    assert_eq!(clocks.offset_ms(NodeId(1), NOW_MS, STARTED_MS), Some(-9_000), "better than nothing");
    says(&mut clocks, 1, NOW_MS, 0, Some(3));
    for round_trip_ms in [None, Some(ROUND_TRIP_MS_MAX + 1)] {
        says(&mut clocks, 1, NOW_MS - 9_000, 0, round_trip_ms);
        assert_eq!(clocks.offset_ms(NodeId(1), NOW_MS, STARTED_MS), Some(0));
    }
    says(&mut clocks, 1, NOW_MS + DAY_MS, 0, Some(3));
    assert_eq!(clocks.offset_ms(NodeId(1), NOW_MS, STARTED_MS), Some(DAY_MS as i64), "it was set");
    assert_eq!(clocks.offset_ms(NodeId(2), NOW_MS, STARTED_MS), None);
}

#[test]
fn versions_are_taken_within_the_bound_of_what_time_it_is() {
    let clocks = heard(3, &[Some(NOW_MS), Some(NOW_MS)]);
    for wall_ms in [NOW_MS - DAY_MS, NOW_MS, NOW_MS + DAY_MS] {
        let latest_ms = time_ms(&clocks, wall_ms, 0) + AHEAD_MS_MAX;
        assert!(takes(&clocks, latest_ms, wall_ms) && !takes(&clocks, latest_ms + 1, wall_ms));
        let cut = clocks.bounds(STARTED_MS).cut(at(NOW_MS + DAY_MS), (wall_ms, STARTED_MS), AHEAD_MS_MAX);
        assert_eq!(HybridClock::wall_ms(cut), latest_ms);
        assert!(HybridClock::wall_ms(cut + 1) == latest_ms + 1, "the last one of its millisecond");
    }
    let near = at(NOW_MS + 7) + 7;
    assert_eq!(clocks.bounds(STARTED_MS).cut(near, (NOW_MS, STARTED_MS), AHEAD_MS_MAX), near);
}

/// All are set back by two minutes, one after another; their versions stay where they are.
#[test]
fn nodes_whose_clocks_are_all_set_back_take_what_the_others_write() {
    let (back_ms, version_ms) = (NOW_MS - 120_000, NOW_MS + 5);
    let mut clocks = heard(3, &[Some(NOW_MS), Some(NOW_MS)]);
    clocks.tick(NOW_MS, STARTED_MS);
    for peer in [1, 2] {
        says(&mut clocks, peer, back_ms, version_ms, Some(0));
        assert!(takes(&clocks, version_ms, back_ms));
    }
    assert_eq!(time_ms(&clocks, back_ms, 0), back_ms);
    // The same after a restart, which knows only its own store and what the others report.
    for walls in [vec![], vec![Some(back_ms)], vec![Some(back_ms); 2]] {
        let mut clocks = heard(3, &[]);
        clocks.starts_after(at(version_ms));
        for (n, wall_ms) in walls.iter().enumerate() {
            says(&mut clocks, n + 1, wall_ms.expect("a clock"), version_ms - 3, Some(0));
        }
        assert!(takes(&clocks, version_ms + 1, back_ms), "{walls:?}");
    }
    // A node whose disk is new takes what a majority of the others has.
    let mut new = heard(3, &[]);
    says(&mut new, 1, back_ms, version_ms, Some(0));
    assert!(!takes(&new, version_ms, back_ms), "one may be wrong");
    says(&mut new, 2, back_ms, version_ms, Some(0));
    assert!(takes(&new, version_ms, back_ms));
}

#[test]
fn one_node_that_was_far_ahead_moves_nobody() {
    let far_ms = NOW_MS + DAY_MS;
    // Others do not accept its versions, however often it reports them.
    let mut clocks = heard(3, &[Some(NOW_MS), Some(NOW_MS)]);
    for _ in 0..1000 {
        says(&mut clocks, 1, far_ms, far_ms, Some(0));
        clocks.tick(NOW_MS, STARTED_MS);
    }
    assert!(!takes(&clocks, NOW_MS + AHEAD_MS_MAX + 1, NOW_MS));
    // And once it knows theirs, it does not take its own.
    let mut itself = heard(3, &[]);
    itself.starts_after(at(far_ms));
    assert!(takes(&itself, far_ms, NOW_MS));
    says(&mut itself, 1, NOW_MS, NOW_MS, Some(0));
    assert!(!takes(&itself, far_ms, NOW_MS));
}

/// Every way in which clocks of a minority are wrong: what any node stamps is within a margin of a clock that is right, and
/// every node takes it, also those whose own clock is wrong.
#[test]
fn whichever_minority_is_wrong_everybody_takes_what_everybody_stamps() {
    const OFFSETS_MS: [i64; 5] = [0, 30_000, -30_000, DAY_MS as i64, -(DAY_MS as i64)];
    for nodes in 2..=5_usize {
        for code in 0..OFFSETS_MS.len().pow(nodes as u32) {
            let offset_ms =
                |node: usize| OFFSETS_MS[code / OFFSETS_MS.len().pow(node as u32) % OFFSETS_MS.len()];
            let wrong = (0..nodes).filter(|&node| offset_ms(node).abs() > 30_000).count();
            if wrong > (nodes - 1) / 2 {
                continue;
            }
            let wall_ms = |node: usize| NOW_MS.saturating_add_signed(offset_ms(node));
            let times = (0..nodes).map(|node| {
                let mut clocks = PeerClocks::new(NodeId(node as u16), nodes, AHEAD_MS_MAX, 0);
                for peer in (0..nodes).filter(|&peer| peer != node) {
                    let reading = ClockReading { wall_ms: wall_ms(peer), version_clock: 0 };
                    clocks.heard(NodeId(peer as u16), reading, 0, Some(0));
                }
                let bounds = clocks.bounds(0);
                (bounds, wall_ms(node), bounds.time_ms(wall_ms(node), 0))
            });
            let times: Vec<_> = times.collect();
            for &(_, _, time_ms) in &times {
                assert!(time_ms.abs_diff(NOW_MS) <= 30_000 + CLOCK_MARGIN_MS, "{nodes} {code}: {times:?}");
                for &(bounds, wall_ms, _) in &times {
                    let margin_ms = 2 * CLOCK_MARGIN_MS;
                    let taken = bounds.check_ahead(at(time_ms), (wall_ms, 0), AHEAD_MS_MAX + margin_ms);
                    assert_eq!(taken, Ok(()), "{nodes} {code}: {times:?}");
                }
            }
        }
    }
}
