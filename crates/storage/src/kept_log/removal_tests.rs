//! What becomes of log that cannot be removed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ladoga_env::sim::{self, Fault, Operation};

use super::removal::KEPT_SEGMENTS_MAX;
use super::room::SHOWS_WITHIN_NS;
use super::sizes::KeptSizes;
use super::tests::{DIR, NearlyFull, RESERVE_BYTES, Told, with_segments};
use super::{KeptLog, LogFile};

/// Within minutes no backup got any log, although all files were there.
#[test]
fn log_that_cannot_be_removed_is_still_offered() {
    for free_bytes in [RESERVE_BYTES - 1, RESERVE_BYTES + 1] {
        let store = NearlyFull::new(0);
        store.set_free(free_bytes);
        store.disk.disk.fail_operation(0, Fault::io().on(Operation::Remove).sticky());
        for look in 0..10 {
            assert!(store.left() >= 8, "look {look} with {free_bytes} bytes");
            store.clock.advance(Duration::from_nanos(SHOWS_WITHIN_NS));
        }
        assert_eq!(store.kept.statistics().gaps, 2);
        // Nothing gives the room of what is left, for now.
        let bytes = store.kept.statistics().bytes;
        assert_eq!(store.blobs.with_kept_log(0), bytes / 10 * 8);
        assert!(!store.blobs.remove_kept_log(), "a write found no room");
        assert!(store.left() >= 8);
        store.disk.disk.clear_faults();
        assert!(store.blobs.remove_kept_log());
        assert_eq!(store.left(), 0);
    }
}

/// Several segments name it: once the others have gone, it is still there.
#[test]
fn a_large_value_is_no_room_if_a_segment_with_it_stays() {
    let mut sizes = KeptSizes::default();
    for _ in 0..3 {
        sizes.add_segment(10);
        sizes.add_large(1, 100);
    }
    sizes.set_unused(1);
    assert_eq!(sizes.room_bytes(), 130);
    assert_eq!(sizes.room_beside(20, &[1].into()), 10);
}

/// A damaged directory may have one name that stays.
#[test]
fn one_segment_that_cannot_be_removed_keeps_no_other() {
    let store = NearlyFull::new(0);
    let path = store.kept.path(LogFile::Segment(1)).expect("it is kept");
    let stays = Fault::io().on(Operation::Remove).on_path(&path.to_string_lossy()).sticky();
    store.disk.disk.fail_operation(0, stays);
    for left in [9, 8, 7] {
        assert_eq!(store.left(), left);
        store.clock.advance(Duration::from_nanos(SHOWS_WITHIN_NS));
    }
}

/// `--keep-log` ended there, and neither a line nor a figure said so.
#[test]
fn more_segments_than_can_be_kept_are_a_gap_that_is_told_once() {
    let log = || {
        let (env, disk, clock) = sim::env(1);
        let segments = KEPT_SEGMENTS_MAX as u64 + 3;
        with_segments(&disk, segments, 0);
        let kept = KeptLog::open(&env.disk, &env.clock, Path::new(DIR), 1_000).expect("room");
        (1..=segments).for_each(|number| kept.keep(number, number + 1, &BTreeSet::new()).expect("room"));
        (kept, clock)
    };
    // Whoever comes to what tells first decides for all threads whether anybody listens there.
    log().0.remove_old();
    let (kept, clock) = log();
    let told = Arc::new(AtomicU64::new(0));
    let _telling = tracing::subscriber::set_default(Told(Arc::clone(&told)));
    let look = || {
        kept.remove_old();
        let statistics = kept.statistics();
        (statistics.segments, statistics.gaps, told.load(Ordering::Relaxed))
    };
    assert_eq!([look(), look()], [(KEPT_SEGMENTS_MAX as u64, 3, 1); 2]);
    // What is older than it has to be is none.
    clock.advance(Duration::from_secs(2));
    assert_eq!((look().1, look()), (3, (0, 3, 1)));
}
