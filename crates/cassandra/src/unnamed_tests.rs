use std::collections::BTreeMap;

use bytes::Bytes;
use ladoga_model::{HybridClock, Version};

use super::*;
use crate::sweep::LOOKS;
use crate::upload::may_be_named;

const KEEP_MS: u64 = 3_600_000;
const LOOK_MS: u64 = KEEP_MS / LOOKS;
/// As far as the clock of a door may be ahead, and as long as a row may be on its way.
const MARGIN_MS: u64 = 120_000;
const BEGAN_MS: u64 = 1_700_000_000_000;

fn upload() -> UploadName {
    upload_of("key", BEGAN_MS)
}

fn upload_of(key: &str, began_ms: u64) -> UploadName {
    let upload = Version { timestamp: HybridClock::at_wall_ms(began_ms), node: 1 };
    UploadName { key: Bytes::copy_from_slice(key.as_bytes()), upload }
}

fn note(unnamed: &mut Unnamed, is_named: bool, now_ms: u64) -> bool {
    unnamed.note(0, &upload(), is_named, now_ms, KEEP_MS)
}

/// When it is removed, as long as each look finds it unnamed.
fn removed_ms(first_look_ms: u64) -> u64 {
    let mut unnamed = Unnamed::default();
    let mut looks = (first_look_ms..).step_by(LOOK_MS as usize);
    let is_over = |now_ms: &u64| {
        let is_over = note(&mut unnamed, false, *now_ms);
        unnamed.end_look(&BTreeSet::new());
        is_over
    };
    looks.find(is_over).expect("it is removed")
}

/// A value of an hour's upload was stored without its first pieces, and what was named and replaced between two looks was gone before
/// its readers had their hour.
#[test]
fn pieces_stay_for_an_hour_after_a_row_may_have_named_them() {
    let mut times_ms = BEGAN_MS..=BEGAN_MS + 2 * KEEP_MS;
    let last_ms = times_ms.rfind(|now_ms| may_be_named(&upload(), *now_ms, KEEP_MS));
    let last_ms = last_ms.expect("a row that is in time") + MARGIN_MS;
    assert!(last_ms > BEGAN_MS + KEEP_MS / 4);
    for first_look_ms in [BEGAN_MS, BEGAN_MS + 1, BEGAN_MS + LOOK_MS - 1] {
        let removed_ms = removed_ms(first_look_ms);
        assert!(removed_ms >= last_ms + KEEP_MS, "{first_look_ms}");
        assert!(removed_ms <= BEGAN_MS + 2 * KEEP_MS + 2 * LOOK_MS, "{first_look_ms}");
    }
    let long_after_ms = BEGAN_MS + 10 * KEEP_MS;
    assert_eq!(removed_ms(long_after_ms), long_after_ms + KEEP_MS);
}

#[test]
fn what_a_row_names_is_unnamed_no_longer() {
    let (mut unnamed, now_ms) = (Unnamed::default(), BEGAN_MS + 10 * KEEP_MS);
    for (is_named, now_ms, is_over) in [
        (false, now_ms, false),
        (true, now_ms + 1, false),
        (false, now_ms + KEEP_MS, false),
        (false, now_ms + 2 * KEEP_MS, true),
    ] {
        assert_eq!(note(&mut unnamed, is_named, now_ms), is_over, "{now_ms}");
        unnamed.end_look(&BTreeSet::new());
    }
}

#[test]
fn what_could_not_be_looked_at_is_known_from_before() {
    let now_ms = BEGAN_MS + 10 * KEEP_MS;
    let none = BTreeSet::new();
    for (not_looked_at, keeps, is_known) in
        [(BTreeSet::from([0]), false, true), (none.clone(), true, true), (none, false, false)]
    {
        let mut unnamed = Unnamed::default();
        assert!(!note(&mut unnamed, false, now_ms));
        assert_eq!(unnamed.end_look(&BTreeSet::new()), 0);
        if keeps {
            unnamed.keep(&upload());
        }
        unnamed.end_look(&not_looked_at);
        assert_eq!(unnamed.count(), u64::from(is_known));
        assert_eq!(note(&mut unnamed, false, now_ms + KEEP_MS), is_known);
    }
}

/// The large values that are listed: when each began. None has a row.
type List = BTreeMap<(i32, String), u64>;

/// Looks once, and removes what was unnamed long enough. Answers how many there was no room for.
fn look(list: &mut List, unnamed: &mut Unnamed, now_ms: u64) -> u64 {
    list.retain(|(bucket, key), began_ms| {
        let name = upload_of(key, *began_ms);
        let is_over = unnamed.note(*bucket, &name, false, now_ms, KEEP_MS);
        if is_over {
            unnamed.forget(&name);
        }
        !is_over
    });
    unnamed.end_look(&BTreeSet::new())
}

/// There was room for so many, and each look began with the first bucket: new ones in it took the place of those in others, for which it
/// was forgotten that they had been found, so nobody ever removed them.
#[test]
fn with_less_room_than_there_is_without_a_row_all_are_removed_at_last() {
    let mut list = List::new();
    for bucket in 0..8 {
        list.extend((0..3).map(|number| ((bucket, format!("old{number}")), BEGAN_MS)));
    }
    let (mut unnamed, mut now_ms) = (Unnamed::up_to(4), BEGAN_MS + KEEP_MS);
    for round in 0..100 {
        // Before all others and behind them, and as many as there is room for.
        for bucket in [0, 9] {
            let new = |number| ((bucket, format!("new{round:03}-{number}")), now_ms - KEEP_MS);
            list.extend((0..4).map(new));
        }
        let left_out = look(&mut list, &mut unnamed, now_ms);
        assert!(unnamed.count() <= 4 && left_out >= 4, "{round}: {left_out}");
        now_ms += LOOK_MS;
    }
    let old: Vec<_> = list.keys().filter(|(_, key)| key.starts_with("old")).collect();
    assert!(old.is_empty(), "{old:?}");
}
