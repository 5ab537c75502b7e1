use super::*;

fn expiry_time(clocks: &PeerClocks, wall_ms: u64, passed_ms: u64) -> ExpiryTime {
    let monotonic_ms = STARTED_MS + passed_ms;
    clocks.bounds(monotonic_ms).expiry_time(wall_ms, monotonic_ms, AHEAD_MS_MAX)
}

/// A node that had just started took the time of the one that was behind, by a day, and told values that had expired. (Seeds 174 and
/// 237 with `--conditional` showed it, of three nodes and of five.)
#[test]
fn a_bare_majority_that_disagrees_decides_only_what_is_the_same_by_each_of_its_clocks() {
    let three = [Some(NOW_MS - DAY_MS)];
    let five = [Some(NOW_MS - DAY_MS), Some(NOW_MS - 180_000)];
    for (nodes, walls, earliest_ms) in [(3, &three[..], NOW_MS - DAY_MS), (5, &five[..], NOW_MS - DAY_MS)] {
        let mut clocks = heard(nodes, walls);
        clocks.tick(NOW_MS, STARTED_MS);
        let time = expiry_time(&clocks, NOW_MS, 0);
        assert_eq!(time.latest_ms, NOW_MS);
        assert!(time.earliest_ms.abs_diff(earliest_ms) <= CLOCK_MARGIN_MS, "{time:?}");
        assert_eq!(time.exact_ms(), None);
        for (expires_at_ms, has_expired) in
            [(time.earliest_ms, Some(true)), (time.earliest_ms + 1, None), (NOW_MS, None)]
        {
            assert_eq!(time.has_expired(expires_at_ms), has_expired);
        }
        assert_eq!(time.has_expired(NOW_MS + 1), Some(false));
        // Those of the others show who is wrong; and that is known from then on, also without them.
        for peer in walls.len() + 1..nodes {
            says(&mut clocks, peer, NOW_MS, 0, Some(0));
        }
        clocks.tick(NOW_MS, STARTED_MS);
        let exact = |passed_ms| expiry_time(&clocks, NOW_MS + passed_ms, passed_ms).exact_ms();
        let margin_ms = if nodes == 3 { 0 } else { CLOCK_MARGIN_MS };
        for passed_ms in [0, LATELY_MS + 1, DAY_MS] {
            let time_ms = exact(passed_ms).expect("it is known");
            assert!(time_ms.abs_diff(NOW_MS + passed_ms) <= margin_ms, "{time_ms}");
        }
    }
}

#[test]
fn clocks_that_are_no_further_apart_than_right_ones_decide() {
    let near = heard(3, &[Some(NOW_MS - AHEAD_MS_MAX)]);
    let time_ms = expiry_time(&near, NOW_MS, 0).exact_ms().expect("both may be right");
    assert_eq!(time_ms, NOW_MS - AHEAD_MS_MAX + ROUNDING_MS);
    // Of two, none may be wrong: the one that is behind counts. And a node on its own has no other.
    let two = expiry_time(&heard(2, &[Some(NOW_MS - DAY_MS)]), NOW_MS, 0);
    assert_eq!(two.exact_ms(), Some(NOW_MS - DAY_MS + CLOCK_MARGIN_MS));
    assert_eq!(expiry_time(&heard(1, &[]), NOW_MS, 0).exact_ms(), Some(NOW_MS));
    // Nobody is heard: it may be later than anything that is known here.
    assert_eq!(expiry_time(&heard(3, &[]), NOW_MS, 0).has_expired(NOW_MS + DAY_MS), None);
}

/// Every way in which clocks of a minority are wrong, as seen by each node that hears each majority after a start: what it decides
/// is as by a clock that is right, or one that is as far behind as right ones may be.
#[test]
fn whichever_minority_is_wrong_no_value_is_decided_by_it() {
    const OFFSETS_MS: [i64; 4] = [30_000, -30_000, DAY_MS as i64, -(DAY_MS as i64)];
    const RIGHT_MS: u64 = 30_000 + CLOCK_MARGIN_MS;
    let mut uncertain = 0;
    for nodes in 2..=5_usize {
        for code in 0..OFFSETS_MS.len().pow(nodes as u32) {
            let offset_ms =
                |node: usize| OFFSETS_MS[code / OFFSETS_MS.len().pow(node as u32) % OFFSETS_MS.len()];
            if (0..nodes).filter(|&node| offset_ms(node).abs() > 30_000).count() > (nodes - 1) / 2 {
                continue;
            }
            for heard_of in 0..1_usize << (nodes - 1) {
                if (heard_of.count_ones() as usize) < nodes / 2 {
                    continue;
                }
                let wall_ms = |node: usize| NOW_MS.saturating_add_signed(offset_ms(node));
                let is_heard = |peer: usize| heard_of >> (peer - 1) & 1 == 1;
                let walls: Vec<_> = (1..nodes).map(|peer| is_heard(peer).then(|| wall_ms(peer))).collect();
                let time = expiry_time(&heard(nodes, &walls), wall_ms(0), 0);
                let seen = (wall_ms(0), &walls, time);
                assert!(
                    time.earliest_ms <= NOW_MS + RIGHT_MS && time.latest_ms >= NOW_MS - RIGHT_MS,
                    "{seen:?}"
                );
                match time.exact_ms() {
                    Some(ms) => assert!(ms.abs_diff(NOW_MS) <= RIGHT_MS + AHEAD_MS_MAX, "{seen:?}"),
                    None => uncertain += 1,
                }
            }
        }
    }
    assert!(uncertain > 0, "it would not matter");
}

/// Node 0 of so many, which started after versions that were so far ahead of all clocks, and hears nodes that have versions of then.
/// After a tick, too, if it had one.
fn started_ahead(nodes: usize, walls: &[Option<u64>], ahead_ms: u64, own_ms: Option<u64>) -> PeerClocks {
    let mut clocks = heard(nodes, &[]);
    clocks.starts_after(at(NOW_MS + ahead_ms));
    for (peer, wall_ms) in walls.iter().enumerate() {
        if let Some(wall_ms) = *wall_ms {
            says(&mut clocks, peer + 1, wall_ms, NOW_MS + ahead_ms, Some(0));
        }
    }
    if let Some(own_ms) = own_ms {
        clocks.tick(own_ms, STARTED_MS);
    }
    clocks
}

/// Each of a few restarts in a row reserved versions further ahead, and what was reserved was taken for time that had passed: until all
/// nodes were heard, values ended early, and those that were written lived too long.
#[test]
fn versions_ahead_of_all_clocks_are_no_time_that_has_passed() {
    for (nodes, walls) in [(3, vec![Some(NOW_MS)]), (5, vec![Some(NOW_MS), None, Some(NOW_MS)])] {
        for ticks_by in [None, Some(NOW_MS)] {
            let clocks = started_ahead(nodes, &walls, 30_000, ticks_by);
            for passed_ms in [0, LATELY_MS, LATELY_MS + 1, DAY_MS] {
                let time = expiry_time(&clocks, NOW_MS + passed_ms, passed_ms);
                assert_eq!(time.earliest_ms, NOW_MS + passed_ms, "{nodes} {ticks_by:?} after {passed_ms}");
            }
        }
    }
    // As far as the latest one that is heard: before, the node may have heard another one that is as late.
    let near = started_ahead(3, &[Some(NOW_MS + 15_000)], 30_000, None);
    assert_eq!(expiry_time(&near, NOW_MS, 0).exact_ms(), Some(NOW_MS + 15_000));
    let far = started_ahead(3, &[Some(NOW_MS + DAY_MS)], 30_000, None);
    assert_eq!(expiry_time(&far, NOW_MS, 0).earliest_ms, NOW_MS + 30_000 - RESERVE_MS);
    let own = started_ahead(3, &[Some(NOW_MS - DAY_MS)], 30_000, None);
    assert_eq!(expiry_time(&own, NOW_MS, 0).exact_ms(), Some(NOW_MS));
    // And once all are heard, not further than the one in the middle.
    let all = started_ahead(3, &[Some(NOW_MS), Some(NOW_MS + 15_000)], 30_000, None);
    assert_eq!(expiry_time(&all, NOW_MS - DAY_MS, 0).exact_ms(), Some(NOW_MS));
}

/// A node hears a majority, starts again and hears another one: it goes by no earlier time than before, if no clock was set.
#[test]
fn after_a_restart_it_is_no_earlier_than_it_was_whichever_majority_is_heard() {
    const OFFSETS_MS: [u64; 3] = [0, 20_000, 50_000];
    for nodes in 2..=5_usize {
        let majorities =
            || (0..1_usize << (nodes - 1)).filter(|heard| heard.count_ones() as usize >= nodes / 2);
        for code in 0..OFFSETS_MS.len().pow(nodes as u32) {
            let wall_ms = |node: usize| NOW_MS + OFFSETS_MS[code / OFFSETS_MS.len().pow(node as u32) % 3];
            let walls = |heard_of: usize| {
                (1..nodes).map(move |peer| (heard_of >> (peer - 1) & 1 == 1).then(|| wall_ms(peer)))
            };
            for before in majorities() {
                let mut clocks = heard(nodes, &walls(before).collect::<Vec<_>>());
                clocks.tick(wall_ms(0), STARTED_MS);
                let before_ms = expiry_time(&clocks, wall_ms(0), 0).earliest_ms;
                for after in majorities() {
                    let walls: Vec<_> = walls(after).collect();
                    for ticks_by in [None, Some(wall_ms(0))] {
                        let again = started_ahead(nodes, &walls, 100_000, ticks_by);
                        let after_ms = expiry_time(&again, wall_ms(0), 0).earliest_ms;
                        assert!(
                            after_ms + ROUNDING_MS >= before_ms,
                            "{nodes} {code}: {before_ms}, then {after_ms} by {walls:?}"
                        );
                    }
                }
            }
        }
    }
}

/// It ended values a second before the others, and they came back there.
#[test]
fn a_node_whose_clock_is_ahead_ends_values_when_the_others_do() {
    for nodes in 3..=5_usize {
        for ticks in [false, true] {
            let mut clocks = heard(nodes, &vec![Some(NOW_MS); nodes - 1]);
            if ticks {
                clocks.tick(NOW_MS + DAY_MS, STARTED_MS);
            }
            let time_ms = expiry_time(&clocks, NOW_MS + DAY_MS, 0).exact_ms().expect("it is known");
            assert!(time_ms - NOW_MS <= ROUNDING_MS, "{nodes}: {time_ms}");
        }
    }
}

/// One that goes by what others showed when they were asked would go back whenever they answer late.
#[test]
fn a_clock_that_is_right_counts_as_it_is_however_long_messages_take() {
    for under_way_ms in [0, 1, 400, ROUND_TRIP_MS_MAX] {
        let mut clocks = heard(3, &[]);
        for peer in [1, 2] {
            says(&mut clocks, peer, NOW_MS - under_way_ms, 0, Some(under_way_ms));
        }
        for passed_ms in [0, 100] {
            clocks.tick(NOW_MS + passed_ms, STARTED_MS + passed_ms);
            assert_eq!(
                expiry_time(&clocks, NOW_MS + passed_ms, passed_ms).exact_ms(),
                Some(NOW_MS + passed_ms)
            );
        }
    }
}
