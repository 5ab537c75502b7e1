use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use ladoga_env::sim::{self, Fault, Operation, PowerCut, SimDisk};
use ladoga_model::{CellMark, Stamp};

use super::*;

const KEY: u64 = 7;
const DIR: &str = "/data";

const fn version(timestamp: u64) -> Version {
    Version { timestamp, node: 1 }
}

fn disk(seed: u64) -> (Arc<dyn Disk>, SimDisk) {
    let (env, sim, _clock) = sim::env(seed);
    (env.disk, sim)
}

fn open(disk: &Arc<dyn Disk>) -> (Arc<FenceKeeper>, FenceWorker) {
    FenceKeeper::open(disk, Path::new(DIR)).expect("a disk that works")
}

fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn lift(keeper: &FenceKeeper, timestamp: u64) {
    let stamp = Stamp::new(version(timestamp));
    keeper.lift(&[CellChange { key_hash: KEY, old: None, new: CellMark { stamp, is_tombstone: false } }]);
}

#[test]
fn a_promise_is_in_force_at_once_and_given_once_it_is_durable() {
    let (disk, _) = disk(1);
    let (keeper, mut worker) = open(&disk);
    assert!(keeper.is_open_to(0) || keeper.is_open_to(1), "nothing is kept out");
    let fence = keeper.promise(KEY, version(5)).expect("room");
    assert!(!keeper.is_open_to(5) && keeper.is_open_to(6));
    assert_eq!(keeper.pass(KEY, version(4)), Passage::Fenced(version(5)));
    assert_eq!([keeper.pass(KEY, version(5)), keeper.pass(KEY + 1, version(4))], [Passage::Open; 2]);
    assert!(poll(keeper.durable(fence.clone())).is_pending());
    worker.write(&keeper);
    assert_eq!(poll(keeper.durable(fence)), Poll::Ready(Ok(())));
    let again = keeper.promise(KEY, version(5)).expect("the same again");
    assert_eq!(poll(keeper.durable(again)), Poll::Ready(Ok(())));
    assert_eq!(keeper.promise(KEY, version(4)).err(), Some(NoPromise::Outbid(version(5))));
}

/// A promise that was given again waited for what nobody waits for to be synced: for the next promise.
#[test]
fn a_promise_that_is_given_again_waits_for_nothing_that_is_not_synced() {
    let (disk, _) = disk(2);
    let (keeper, mut worker) = open(&disk);
    keeper.promise(KEY, version(5)).expect("room");
    keeper.promise(KEY, version(6)).expect("room");
    worker.write(&keeper);
    keeper.release(KEY, version(5));
    worker.write(&keeper);
    let again = keeper.promise(KEY, version(6)).expect("the same again");
    assert_eq!(poll(keeper.durable(again)), Poll::Ready(Ok(())));
}

#[test]
fn promises_stand_again_after_a_restart_and_those_that_ended_do_not() {
    let (disk, sim) = disk(3);
    let (keeper, mut worker) = open(&disk);
    for (key, timestamp) in [(KEY, 5), (KEY, 8), (1, 6), (2, 7), (3, 9)] {
        keeper.promise(key, version(timestamp)).expect("room");
    }
    keeper.release(1, version(6));
    lift(&keeper, 5);
    keeper.void_before(8);
    worker.write(&keeper);
    sim.power_cut(PowerCut::LoseAll);
    sim.power_on();
    let (keeper, _worker) = open(&disk);
    assert_eq!(keeper.count(), 2);
    assert_eq!(
        [keeper.newest(KEY), keeper.newest(3), keeper.newest(2)],
        [Some(version(8)), Some(version(9)), None]
    );
    assert!(!keeper.is_open_to(9) && keeper.is_open_to(10));
}

/// A node that does not sync each write lost the cell that had ended a promise, which the next promise of any key had synced to have
/// ended: it took older cells then, and one that was acknowledged lost to what the others had accepted.
#[test]
fn a_promise_stands_again_after_a_power_cut_that_may_have_taken_what_ended_it() {
    for is_written_anew in [false, true] {
        let (disk, sim) = disk(6);
        let (keeper, mut worker) = open(&disk);
        keeper.promise(KEY, version(5)).expect("room");
        keeper.promise(KEY, version(6)).expect("room");
        worker.write(&keeper);
        lift(&keeper, 5);
        keeper.release(KEY, version(6));
        let others = if is_written_anew { 10_000 } else { 1 };
        for key in 1_000..1_000 + others {
            keeper.promise(key, version(9)).expect("room");
            keeper.release(key, version(9));
            if others == 1 || key % 2_500 == 0 {
                worker.write(&keeper);
            }
        }
        assert!(keeper.newest(KEY).is_none());
        sim.power_cut(PowerCut::LoseAll);
        sim.power_on();
        assert_eq!(open(&disk).0.newest(KEY), Some(version(5)), "written anew: {is_written_anew}");
    }
}

#[test]
fn promises_that_ended_are_forgotten_once_the_store_was_synced() {
    let (disk, _) = disk(7);
    let (keeper, mut worker) = open(&disk);
    let lift = |key_hash| {
        let stamp = Stamp::new(version(5));
        keeper.lift(&[CellChange { key_hash, old: None, new: CellMark { stamp, is_tombstone: false } }]);
    };
    for key in 0..9_000 {
        keeper.promise(key, version(5)).expect("room");
        lift(key);
    }
    let Poll::Ready(many) = poll(keeper.many_lifted()) else { panic!("there are many") };
    keeper.promise(9_000, version(5)).expect("room");
    lift(9_000);
    keeper.forget_lifted(many);
    assert!(poll(keeper.many_lifted()).is_pending(), "one is left");
    worker.write(&keeper);
    // Written anew, since so many records are needed no more.
    keeper.promise(9_001, version(5)).expect("room");
    worker.write(&keeper);
    drop((keeper, worker));
    let (keeper, _worker) = open(&disk);
    assert_eq!((keeper.count(), keeper.newest(0), keeper.newest(9_000)), (2, None, Some(version(5))));
}

#[test]
fn where_nothing_is_promised_the_gate_is_open_to_all() {
    let (disk, _) = disk(4);
    let (keeper, _worker) = open(&disk);
    keeper.promise(KEY, version(5)).expect("room");
    keeper.promise(1, version(6)).expect("room");
    lift(&keeper, 4);
    assert!(!keeper.is_open_to(6));
    lift(&keeper, 9);
    keeper.release(1, version(6));
    assert!(keeper.is_open_to(1) && keeper.count() == 0);
    keeper.release(1, version(6));
    keeper.void_before(100);
    assert!(keeper.is_open_to(1));
}

#[test]
fn what_cannot_be_written_is_not_promised_and_keeps_nothing_out() {
    let (disk, sim) = disk(5);
    let (keeper, mut worker) = open(&disk);
    sim.fail_operation(0, Fault::io().on(Operation::Sync));
    let fence = keeper.promise(KEY, version(5)).expect("room");
    worker.write(&keeper);
    assert_eq!(poll(keeper.durable(fence)), Poll::Ready(Err(Refusal::StoreFailed)));
    assert!(keeper.has_failed() && keeper.newest(KEY).is_none());
    let fence = keeper.promise(KEY, version(6)).expect("room");
    worker.write(&keeper);
    assert_eq!(poll(keeper.durable(fence)), Poll::Ready(Ok(())));
    assert!(!keeper.has_failed());
    drop((keeper, worker));
    assert_eq!(open(&disk).0.newest(KEY), Some(version(6)));
}

/// Who asked first, over a connection that broke, had it voided once it could not be written: whoever was promised it by then had no
/// promise.
#[test]
fn who_asks_for_a_promise_again_shares_what_becomes_of_it() {
    let (disk, sim) = disk(8);
    let (keeper, mut worker) = open(&disk);
    sim.fail_operation(0, Fault::io().on(Operation::Sync));
    let first = keeper.promise(KEY, version(5)).expect("room");
    let same = keeper.promise(KEY, version(5)).expect("room");
    worker.write(&keeper);
    assert_eq!(poll(keeper.durable(same)), Poll::Ready(Err(Refusal::StoreFailed)));
    keeper.promise(1, version(6)).expect("room");
    let again = keeper.promise(KEY, version(5)).expect("room");
    worker.write(&keeper);
    assert_eq!(poll(keeper.durable(first)), Poll::Ready(Err(Refusal::StoreFailed)));
    assert_eq!(poll(keeper.durable(again)), Poll::Ready(Ok(())));
    assert_eq!(keeper.newest(KEY), Some(version(5)), "it was given");
    // What is durable is given again, whatever becomes of another one.
    sim.fail_operation(0, Fault::io().on(Operation::Sync));
    let other = keeper.promise(2, version(7)).expect("room");
    let again = keeper.promise(KEY, version(5)).expect("the same again");
    worker.write(&keeper);
    assert_eq!(poll(keeper.durable(other)), Poll::Ready(Err(Refusal::StoreFailed)));
    assert_eq!(poll(keeper.durable(again)), Poll::Ready(Ok(())));
    assert_eq!((keeper.newest(KEY), keeper.newest(2)), (Some(version(5)), None));
}

/// It was released, and decided again before it was known whether the first time could be written.
#[test]
fn a_promise_that_cannot_be_written_does_not_end_what_was_decided_since() {
    let (disk, _) = disk(9);
    let (keeper, mut worker) = open(&disk);
    keeper.promise(KEY, version(5)).expect("room");
    keeper.release(KEY, version(5));
    let again = keeper.promise(KEY, version(5)).expect("room");
    keeper.note_written(1, false);
    assert_eq!(keeper.newest(KEY), Some(version(5)));
    worker.write(&keeper);
    assert_eq!(poll(keeper.durable(again)), Poll::Ready(Ok(())));
}

/// The power is cut at each sync while promises are given and end: those that were given stand.
#[test]
fn what_was_promised_stands_after_a_power_cut_at_every_sync() {
    let rounds = 30;
    for sync in 0.. {
        let (disk, sim) = disk(sync);
        let (keeper, mut worker) = open(&disk);
        sim.cut_power_at_sync(sync, PowerCut::Random);
        let (mut given, mut decided) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            let key = round % 5;
            let fence = keeper.promise(key, version(round)).expect("room");
            decided.push((key, round));
            worker.write(&keeper);
            if poll(keeper.durable(fence)) != Poll::Ready(Ok(())) {
                break;
            }
            given.push((key, round));
            if round % 3 == 0 {
                keeper.release(key, version(round));
                given.pop();
            }
        }
        let was_cut = !sim.is_powered();
        sim.power_on();
        let (keeper, _worker) = open(&disk);
        for &(key, round) in &given {
            assert!(keeper.newest(key) >= Some(version(round)), "cut at {sync}: {key} {round}");
        }
        let stands =
            |key: u64| keeper.newest(key).is_none_or(|fence| decided.contains(&(key, fence.timestamp)));
        assert!((0..5).all(stands));
        if !was_cut {
            assert!(sync >= rounds);
            return;
        }
    }
}
