use HintStep::{Deliver, Forget};

use super::*;

fn queue(timestamps: &[u64]) -> HintQueue {
    let mut queue = HintQueue::new();
    for (number, &timestamp) in (1..).zip(timestamps) {
        let hint = Hint { number, bytes: 10, timestamp, kept_at_ms: 0 };
        queue.kept(hint, |step| panic!("the peer is down: {step:?}"));
    }
    queue
}

fn up(queue: &mut HintQueue) -> Vec<HintStep> {
    let mut steps = Vec::new();
    queue.peer_is_up(0, |step| steps.push(step));
    steps
}

fn delivered(queue: &mut HintQueue, number: u64) -> Vec<HintStep> {
    let mut steps = Vec::new();
    queue.delivered(number, |step| steps.push(step));
    steps
}

#[test]
fn delivers_in_order_when_the_peer_is_back_and_forgets_in_order() {
    let mut queue = queue(&[5, 6, 7]);
    assert_eq!(up(&mut queue), [Deliver(1), Deliver(2), Deliver(3)]);
    assert_eq!(delivered(&mut queue, 2), []);
    assert_eq!(queue.oldest_timestamp(), Some(5));
    assert_eq!(delivered(&mut queue, 1), [Forget(2)]);
    assert_eq!((queue.oldest_timestamp(), queue.bytes()), (Some(7), 10));
    assert_eq!(delivered(&mut queue, 3), [Forget(3)]);
    assert_eq!((queue.oldest_timestamp(), queue.bytes(), queue.is_empty()), (None, 0, true));
}

#[test]
fn resumes_with_what_was_not_delivered() {
    let mut queue = queue(&[5, 6, 7]);
    up(&mut queue);
    delivered(&mut queue, 2);
    queue.peer_is_down();
    assert_eq!(up(&mut queue), [Deliver(1), Deliver(3)]);
    assert_eq!(delivered(&mut queue, 1), [Forget(2)]);
}

/// One that was refused had all others sent again, for as long as it was refused.
#[test]
fn an_answer_counts_although_another_hint_was_refused_meanwhile() {
    let mut queue = queue(&[5, 6, 7]);
    up(&mut queue);
    queue.peer_is_down();
    assert_eq!(delivered(&mut queue, 2), []);
    assert_eq!(up(&mut queue), [Deliver(1), Deliver(3)]);
    assert_eq!(delivered(&mut queue, 2), [], "once more");
    queue.peer_is_down();
    assert_eq!(delivered(&mut queue, 3), []);
    assert_eq!(delivered(&mut queue, 1), [Forget(3)]);
    assert_eq!(up(&mut queue), []);
}

#[test]
fn hints_that_are_put_off_hold_up_none_and_are_sent_again() {
    let stuck = HINTS_IN_FLIGHT_MAX as u64;
    let mut queue = queue(&vec![1; HINTS_IN_FLIGHT_MAX + 2]);
    up(&mut queue);
    let mut steps = Vec::new();
    (1..=stuck).for_each(|number| queue.put_off(number, 0, |step| steps.push(step)));
    assert_eq!(steps, [Deliver(stuck + 1), Deliver(stuck + 2)]);
    assert_eq!(up(&mut queue), [], "others are on their way");
    assert_eq!([delivered(&mut queue, stuck + 2), delivered(&mut queue, stuck + 1)], [[], []]);
    assert_eq!(up(&mut queue), [], "they rest");
    queue.peer_is_up(HINT_REST_MS, |step| steps.push(step));
    assert_eq!(queue.len(), HINTS_IN_FLIGHT_MAX, "those behind them are done");
    assert_eq!(steps[2..], (1..=stuck).map(Deliver).collect::<Vec<_>>());
    (1..stuck).for_each(|number| assert_eq!(delivered(&mut queue, number), [Forget(number)]));
    assert_eq!(delivered(&mut queue, stuck), [Forget(stuck + 2)]);
}

/// They waited until nothing was on its way: for ever, with a peer that gets something all the time.
#[test]
fn hints_that_are_put_off_have_their_turn_although_others_come_all_the_time() {
    let mut queue = queue(&[1]);
    up(&mut queue);
    let mut tries = Vec::new();
    for number in 2..100 {
        let now_ms = number * 200;
        let mut steps = Vec::new();
        let hint = Hint { number, bytes: 10, timestamp: 1, kept_at_ms: 0 };
        queue.kept(hint, |step| steps.push(step));
        // The one before is answered once this is on its way. The first is put off, and so is every tenth.
        let put_off =
            |queue: &mut HintQueue, number| queue.put_off(number, now_ms, |_| panic!("nobody waits"));
        match number - 1 {
            first if first == 1 || first % 10 == 0 => put_off(&mut queue, first),
            arrived => assert_eq!(delivered(&mut queue, arrived), []),
        }
        assert_eq!(steps, [Deliver(number)]);
        queue.peer_is_up(now_ms, |step| steps.push(step));
        for step in &steps[1..] {
            let Deliver(again) = *step else { panic!("the first is not done: {step:?}") };
            assert!(again == 1 || again % 10 == 0, "{again} is on its way, or done");
            tries.extend((again == 1).then_some(now_ms));
            put_off(&mut queue, again);
        }
    }
    assert_eq!(tries, [1, 2, 3].map(|turn| 400 + turn * HINT_REST_MS));
    assert_eq!(queue.len(), 11, "the first, every tenth, and the last");
}

#[test]
fn all_that_are_on_their_way_are_sent_again_also_those_behind_what_has_its_turn_again() {
    let mut queue = queue(&vec![1; HINTS_IN_FLIGHT_MAX + 1]);
    up(&mut queue);
    let mut steps = Vec::new();
    queue.put_off(1, 0, |step| steps.push(step));
    queue.peer_is_up(HINT_REST_MS, |step| steps.push(step));
    assert_eq!(steps, [Deliver(HINTS_IN_FLIGHT_MAX as u64 + 1)]);
    queue.peer_is_down();
    assert_eq!(up(&mut queue), (1..=HINTS_IN_FLIGHT_MAX as u64).map(Deliver).collect::<Vec<_>>());
}

#[test]
fn only_so_many_are_on_their_way() {
    let mut queue = queue(&vec![1; HINTS_IN_FLIGHT_MAX + 2]);
    assert_eq!(up(&mut queue).len(), HINTS_IN_FLIGHT_MAX);
    assert_eq!(delivered(&mut queue, 1), [Forget(1), Deliver(HINTS_IN_FLIGHT_MAX as u64 + 1)]);
}

#[test]
fn what_is_too_much_or_too_old_is_given_up_and_counted() {
    let mut queue = queue(&[9, 3]);
    assert!(queue.admit(HINT_BYTES_MAX - 20));
    assert!(!queue.admit(HINT_BYTES_MAX - 19));
    queue.expire(HINT_AGE_MS_MAX, |step| panic!("not yet: {step:?}"));
    let mut steps = Vec::new();
    queue.expire(HINT_AGE_MS_MAX + 1, |step| steps.push(step));
    assert_eq!(steps, [Forget(2)]);
    assert_eq!((queue.dropped(), queue.is_empty(), queue.oldest_timestamp()), (3, true, None));
}

#[test]
fn the_oldest_is_known_whatever_the_order() {
    let mut queue = queue(&[9, 3, 7, 5]);
    up(&mut queue);
    let oldest: Vec<Option<u64>> = (1..=4)
        .map(|number| {
            let oldest = queue.oldest_timestamp();
            delivered(&mut queue, number);
            oldest
        })
        .collect();
    assert_eq!(oldest, [Some(3), Some(3), Some(5), Some(5)]);
}

#[test]
fn goes_on_where_it_was_after_a_restart() {
    let mut queue = HintQueue::new();
    queue.recovered(Hint { number: 7, bytes: 1, timestamp: 2, kept_at_ms: 0 });
    assert_eq!(up(&mut queue), [Deliver(7)]);
    let mut steps = Vec::new();
    // The log may have had hints in between that are gone.
    queue.kept(Hint { number: 9, bytes: 1, timestamp: 3, kept_at_ms: 0 }, |step| steps.push(step));
    assert_eq!(steps, [Deliver(9)]);
}
