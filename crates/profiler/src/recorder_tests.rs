use super::*;

/// What is left of samples in their order, and the recorder that has them.
fn recorded(samples: impl Iterator<Item = RawSample>) -> Recorder {
    let mut recorder = Recorder::default();
    samples.for_each(|sample| recorder.record(sample));
    recorder.finish();
    recorder
}

fn weight<'a>(samples: impl IntoIterator<Item = &'a RawSample>) -> u64 {
    samples.into_iter().map(|sample| sample.weight).sum()
}

#[test]
fn equal_stacks_are_one_node() {
    let mut recorder = Recorder::default();
    let first = recorder.intern(&[10, 21, 31]);
    assert_eq!(recorder.intern(&[10, 21, 31]), first);
    assert_ne!(recorder.intern(&[11, 21, 31]), first);
    assert_eq!(recorder.nodes, [(0, 30), (1, 20), (2, 10), (2, 11)]);
}

/// Once there was no room, all samples were dropped: the end of a long profile looked idle.
#[test]
fn a_long_profile_has_its_end() {
    let all = 2 * SAMPLES_MAX as u64 + 3;
    let recorder =
        recorded((0..all).map(|at_ns| RawSample { thread: 1, node: 0, at_ns, weight: 10, count: 1 }));
    let samples = &recorder.samples;
    assert!(samples.len() <= SAMPLES_MAX + 1024, "{}", samples.len());
    assert_eq!((weight(samples), recorder.taken, recorder.dropped), (10 * all, all, 0));
    assert_eq!(samples.iter().map(|sample| sample.count).sum::<u64>(), all);
    for tenth in 0..10 {
        let part = samples.iter().filter(|sample| sample.at_ns * 10 / all == tenth);
        assert!(weight(part).abs_diff(all) < all / 50, "each tenth has a tenth of the weight: {tenth}");
    }
    assert_eq!(recorder.notes, ["too many samples: one of 4 was kept, with the weight of all of them"]);
}

/// Of threads that were sampled in turns, only one would be left if every second sample went.
#[test]
fn threads_that_take_turns_all_stay() {
    let all = 5 * SAMPLES_MAX as u64;
    let of = |at_ns| RawSample { thread: (at_ns % 8) as u32, node: 3, at_ns, weight: 7, count: 1 };
    let recorder = recorded((0..all).map(of));
    for thread in 0..8 {
        let own = recorder.samples.iter().filter(|sample| sample.thread == thread);
        assert!(weight(own).abs_diff(7 * all / 8) < 7 * all / 100, "thread {thread}");
    }
}

#[test]
fn what_has_room_is_left_alone() {
    let of = |at_ns| RawSample { thread: 1, node: 0, at_ns, weight: 1, count: 1 };
    let recorder = recorded((0..SAMPLES_MAX as u64).map(of));
    assert!(recorder.samples.iter().enumerate().all(|(index, sample)| sample.at_ns == index as u64));
    assert!(recorder.samples.len() == SAMPLES_MAX && recorder.notes.is_empty());
}
