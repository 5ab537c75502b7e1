use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use super::*;

const LONG_MS: u64 = 60_000;

/// Polls within a runtime, which timers need.
fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn in_runtime(test: impl FnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    test();
}

fn turn(future: Pin<&mut impl Future<Output = Result<Turn, NoTurn>>>) -> Option<Turn> {
    match poll(future) {
        Poll::Ready(turn) => Some(turn.expect("a turn")),
        Poll::Pending => None,
    }
}

#[test]
fn those_of_one_key_come_one_after_another_in_their_order() {
    in_runtime(|| {
        let turns = Arc::<Turns>::default();
        let first = turn(pin!(turns.wait(1, LONG_MS))).expect("nobody is before it");
        let (mut second, mut third) = (pin!(turns.wait(1, LONG_MS)), pin!(turns.wait(1, LONG_MS)));
        assert!(turn(second.as_mut()).is_none() && turn(third.as_mut()).is_none());
        assert!(turn(pin!(turns.wait(2, LONG_MS))).is_some(), "another key");
        drop(first);
        assert!(turn(third.as_mut()).is_none(), "it came later");
        let second = turn(second.as_mut()).expect("its turn");
        assert!(turn(third.as_mut()).is_none());
        drop(second);
        assert!(turn(third.as_mut()).is_some());
    });
}

#[test]
fn one_that_leaves_holds_nobody_up_and_leaves_nothing_behind() {
    in_runtime(|| {
        let turns = Arc::<Turns>::default();
        let first = turn(pin!(turns.wait(1, LONG_MS))).expect("nobody is before it");
        let mut third = pin!(turns.wait(1, LONG_MS));
        {
            let mut second = pin!(turns.wait(1, LONG_MS));
            assert!(turn(second.as_mut()).is_none() && turn(third.as_mut()).is_none());
        }
        drop(first);
        let third = turn(third.as_mut()).expect("the second one is gone");
        drop(third);
        // Unpolled, it was never there.
        drop(turns.wait(1, LONG_MS));
        let keys = turns.keys.lock();
        assert!(keys.by_hash.is_empty() && keys.requests == 0);
    });
}

#[test]
fn one_that_was_granted_the_turn_and_leaves_hands_it_on() {
    in_runtime(|| {
        let turns = Arc::<Turns>::default();
        let first = turn(pin!(turns.wait(1, LONG_MS))).expect("nobody is before it");
        let mut third = pin!(turns.wait(1, LONG_MS));
        {
            let mut second = pin!(turns.wait(1, LONG_MS));
            assert!(turn(second.as_mut()).is_none() && turn(third.as_mut()).is_none());
            drop(first); // It is the turn of the second, which is not polled any more.
        }
        assert!(turn(third.as_mut()).is_some());
    });
}

#[test]
fn there_is_an_end_to_a_queue() {
    in_runtime(|| {
        let turns = Arc::<Turns>::default();
        let mut waiting: Vec<_> =
            (0..REQUESTS_PER_KEY_MAX).map(|_| Box::pin(turns.wait(1, LONG_MS))).collect();
        let granted = waiting.iter_mut().filter_map(|waiting| turn(waiting.as_mut())).collect::<Vec<_>>();
        assert_eq!(granted.len(), 1);
        assert!(matches!(poll(pin!(turns.wait(1, LONG_MS))), Poll::Ready(Err(NoTurn::Full))));
        assert!(turn(pin!(turns.wait(2, LONG_MS))).is_some(), "another key");
        drop((granted, waiting));
        assert_eq!(turns.keys.lock().requests, 0);
    });
}

#[test]
fn the_last_place_of_all_queues_is_the_last() {
    in_runtime(|| {
        let turns = Arc::<Turns>::default();
        let held: Vec<_> = (0..REQUESTS_MAX as u64)
            .map(|key_hash| turn(pin!(turns.wait(key_hash, LONG_MS))).expect("a key of its own"))
            .collect();
        let another = REQUESTS_MAX as u64;
        assert!(matches!(poll(pin!(turns.wait(another, LONG_MS))), Poll::Ready(Err(NoTurn::Full))));
        drop(held);
        assert!(turn(pin!(turns.wait(another, LONG_MS))).is_some());
    });
}

#[test]
fn who_waits_too_long_is_told_and_leaves() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let turns = Arc::<Turns>::default();
        let first = turns.wait(1, LONG_MS).await.expect("nobody is before it");
        assert_eq!(turns.wait(1, 5).await.err(), Some(NoTurn::TooLate));
        assert_eq!(turns.keys.lock().requests, 1);
        drop(first);
        assert!(turns.keys.lock().by_hash.is_empty());
    });
}

#[test]
fn those_that_are_forwarded_count_and_only_so_many_are() {
    in_runtime(|| {
        let turns = Arc::<Turns>::default();
        let place = |number: usize| turns.forward((number / REQUESTS_PER_KEY_MAX) as u64);
        let places: Vec<_> = (0..FORWARDED_MAX).map(|number| place(number).expect("room")).collect();
        assert_eq!(turns.forward(99).err(), Some(NoTurn::Full));
        assert!(turn(pin!(turns.wait(99, LONG_MS))).is_some(), "one that is decided here");
        assert!(matches!(poll(pin!(turns.wait(0, LONG_MS))), Poll::Ready(Err(NoTurn::Full))), "a full queue");
        drop(places);
        assert!(turns.forward(99).is_ok());
        let keys = turns.keys.lock();
        assert!(keys.by_hash.is_empty() && (keys.requests, keys.forwarded) == (0, 0));
    });
}
