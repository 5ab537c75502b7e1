use proptest::prelude::*;

use super::*;

const LOWEST: u64 = PACE_CELLS_PER_SECOND_MAX * LEVEL_MIN / LEVEL_MAX;

fn busy(tail_us: u64) -> Foreground {
    Foreground { requests: 1000, tail_us }
}

/// Lets a pacer work beside a foreground whose tail depends on the rate. The rates that there were.
fn beside(pacer: &mut Pacer, intervals: usize, tail_us: impl Fn(u64) -> u64) -> Vec<u64> {
    let mut rates = Vec::with_capacity(intervals);
    for _ in 0..intervals {
        let rate = pacer.rate().cells_per_second;
        rates.push(rate);
        pacer.observe(true, busy(tail_us(rate)));
    }
    rates
}

#[test]
fn where_nobody_is_there_repair_soon_has_all() {
    let mut pacer = Pacer::new();
    for _ in 0..5 {
        pacer.observe(true, Foreground::default());
    }
    assert_eq!(pacer.rate().cells_per_second, PACE_CELLS_PER_SECOND_MAX);
    // A client comes, and its base line is not known yet.
    pacer.observe(true, busy(9000));
    assert_eq!(pacer.rate().cells_per_second, LOWEST);
    let rates = beside(&mut pacer, 80, |_| 1000);
    assert_eq!(pacer.base_us(), Some(1000));
    assert_eq!(rates.last(), Some(&PACE_CELLS_PER_SECOND_MAX), "{rates:?}");
}

#[test]
fn a_foreground_that_does_not_notice_leaves_all_to_repair() {
    let mut pacer = Pacer::new();
    let rates = beside(&mut pacer, 400, |_| 2000);
    assert_eq!(pacer.base_us(), Some(2000));
    let full = rates.iter().filter(|&&rate| rate == PACE_CELLS_PER_SECOND_MAX).count();
    assert!(full > 250, "{full} of 400 at full speed: {rates:?}");
}

/// While nothing was repaired the rate rose to the highest, so that the rebuild of a lost disk began with 40,000 cells a
/// second beside clients, and went on as long as the tail was anything but clear.
#[test]
fn a_repair_begins_slowly_where_somebody_is_there() {
    let mut pacer = Pacer::new();
    for _ in 0..60 {
        pacer.observe(false, busy(2000));
    }
    assert_eq!(pacer.base_us(), Some(2000));
    let rates = beside(&mut pacer, 20, |_| 2000);
    assert_eq!(rates[0], LOWEST);
    assert!(rates.is_sorted() && rates[19] > LOWEST && rates[19] < LOWEST * 5, "{rates:?}");
    pacer.observe(true, busy(2700));
    assert!(pacer.rate().cells_per_second < rates[19], "a third longer is too long");
}

/// A page of a thousand cells lasts for two intervals at the lowest rate: each second one had begun the repair anew.
#[test]
fn a_repair_that_pauses_between_its_pages_is_one_repair() {
    let mut pacer = Pacer::new();
    for interval in 0..400 {
        pacer.observe(interval % 3 == 0, busy(2000));
    }
    assert!(pacer.rate().cells_per_second > LOWEST * 5, "{pacer:?}");
}

/// Reads of a node's keys have to wait for both of the others while it is rebuilt, however slowly that goes: the rebuild
/// stayed at the lowest rate.
#[test]
fn a_tail_that_grows_as_a_repair_begins_is_the_new_base_line_in_part() {
    let mut pacer = Pacer::new();
    for _ in 0..60 {
        pacer.observe(false, busy(2000));
    }
    let rates = beside(&mut pacer, 20, |_| 2600);
    assert!(pacer.base_us() == Some(2300) && rates[19] > LOWEST, "{rates:?}");
}

#[test]
fn a_foreground_that_suffers_is_left_alone_at_once() {
    let mut pacer = Pacer::new();
    beside(&mut pacer, 60, |_| 2000);
    let rates = beside(&mut pacer, 6, |_| 20_000);
    assert_eq!(rates.last(), Some(&LOWEST), "{rates:?}");
}

#[test]
fn the_rate_settles_where_the_tail_begins_to_move() {
    // Beyond 10,000 cells a second the tail is five times as long.
    let tail_us = |rate| if rate > 10_000 { 10_000 } else { 2000 };
    let rates = beside(&mut Pacer::new(), 2000, tail_us);
    let hurt = rates.iter().filter(|&&rate| rate > 10_000).count();
    assert!(hurt * 4 < rates.len(), "{hurt} of {} intervals hurt", rates.len());
    let mean = rates.iter().sum::<u64>() / rates.len() as u64;
    assert!(mean > 5000, "{mean} cells a second where 10,000 do no harm");
}

#[test]
fn a_tail_that_repair_is_not_to_blame_for_does_not_hold_it_up_for_ever() {
    let mut pacer = Pacer::new();
    beside(&mut pacer, 60, |_| 2000);
    // The load has grown, and stays.
    let rates = beside(&mut pacer, 400, |_| 20_000);
    assert_eq!(rates[20], LOWEST);
    assert!(rates[300..].contains(&PACE_CELLS_PER_SECOND_MAX), "{rates:?}");
}

#[test]
fn few_requests_are_waited_for_and_then_count() {
    let mut pacer = Pacer::new();
    beside(&mut pacer, 60, |_| 2000);
    let before = pacer.rate();
    let few = Foreground { requests: 3, tail_us: 90_000 };
    for _ in 1..INTERVALS_MAX {
        assert!(!pacer.observe(true, few));
        assert_eq!(pacer.rate(), before);
    }
    assert!(pacer.observe(true, few));
    assert!(pacer.rate().cells_per_second < before.cells_per_second);
}

proptest! {
    /// Whatever is seen: repair never starves, never exceeds its bounds, and the base line is something that was seen.
    #[test]
    fn the_rate_stays_within_its_bounds(
        seen in proptest::collection::vec((any::<bool>(), 0..2000_u64, 0..u64::MAX / 8), 1..300),
    ) {
        let mut pacer = Pacer::new();
        for (repaired, requests, tail_us) in seen.iter().copied() {
            pacer.observe(repaired, Foreground { requests, tail_us });
            let PaceRate { cells_per_second, bytes_per_second } = pacer.rate();
            prop_assert!((LOWEST..=PACE_CELLS_PER_SECOND_MAX).contains(&cells_per_second));
            prop_assert!(bytes_per_second >= PACE_BYTES_PER_SECOND_MAX / 20);
            prop_assert!(bytes_per_second <= PACE_BYTES_PER_SECOND_MAX);
        }
        let longest = seen.iter().map(|&(_, _, tail_us)| tail_us).max();
        prop_assert!(pacer.base_us() <= longest.map(|tail_us| tail_us.max(BASE_WEIGHT)));
    }
}
