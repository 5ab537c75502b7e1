use std::path::Path;

use ladoga_backup::{prune, restore_at, verify};
use ladoga_env::Env;
use ladoga_env::sim::PowerCut;

use crate::crash::{at_every_step, expect_whole_or_refused};
use crate::group::Group;
use crate::support::{Machine, Model, repository};
use crate::writer::{copy, restored, span};

/// What can be read: deletions and what nobody wrote are the same.
fn values(model: Model) -> Model {
    model.into_iter().filter(|(_, (_, value))| value.is_some()).map(unstamped).collect()
}

/// Without what the restored cell says about how many copies there are.
fn unstamped<K, V>((key, (stamp, value)): (K, (ladoga_model::Stamp, V))) -> (K, (ladoga_model::Stamp, V)) {
    (key, (ladoga_model::Stamp::new(stamp.version), value))
}

fn at(env: &Env, at_ms: u64, target: &str) -> Result<Model, ladoga_backup::Error> {
    restored(env, at_ms, target).map(values)
}

/// Deletions that are in no store any more.
fn dropped(group: &Group) -> usize {
    let now = group.model_at(u64::MAX);
    let is_gone = |key: &Vec<u8>| {
        let mut stores = group.replicas.iter();
        stores.all(|replica| replica.node.engine().snapshot().get_cell(key).expect("a cell").is_none())
    };
    let deleted = group.history.iter().map(|(key, ..)| key).filter(|key| !now.contains_key(*key));
    deleted.filter(|key| is_gone(key)).count()
}

#[test]
fn any_time_of_a_cluster_is_restored_and_nothing_deleted_comes_back() {
    let mut gone = 0;
    for seed in 1..9 {
        let (mut group, machine) = (Group::new(seed, 3), Machine::new(seed + 100));
        let env = machine.env();
        let mut ids = Vec::new();
        for round in 0..5 {
            group.live(&*env.rng, 60);
            if round % 2 == 0 {
                ids.push(group.back_up(&env, &[0, 1, 2]).expect("a backup"));
            }
            group.live(&*env.rng, 40);
            if env.rng.below(2) == 0 {
                let crashed = env.rng.below(3) as usize;
                group.replicas[crashed].node.crash(PowerCut::Random);
            }
            for shipped in group.ship(&env, &[0, 1, 2]).expect("a log") {
                assert_eq!(shipped.gaps, Vec::<String>::new());
            }
            gone += dropped(&group);
        }
        let ((from_ms, _), (_, until_ms)) = (span(&env, &ids[0]), span(&env, &ids[2]));
        assert!(until_ms > from_ms + 100);
        for attempt in 0..12 {
            let at_ms = from_ms + env.rng.below(until_ms - from_ms + 1);
            let found = at(&env, at_ms, &format!("/at-{attempt}")).expect("a restore");
            assert!(found == group.model_at(at_ms), "seed {seed}: {at_ms} of {from_ms} to {until_ms}");
        }
        for outside in [from_ms - 1, until_ms + 1] {
            let refused = at(&env, outside, "/outside").expect_err("out of reach").to_string();
            assert!(refused.contains("cannot be restored: expected a time from "), "{refused}");
        }
        prune(&repository(&env), &repository(&env).lock().expect("nobody"), 1).expect("a sweep");
        let (from_ms, until_ms) = span(&env, &ids[2]);
        for at_ms in [from_ms, until_ms] {
            let found = at(&env, at_ms, &format!("/pruned-{at_ms}")).expect("a restore");
            assert!(found == group.model_at(at_ms), "seed {seed}, pruned: {at_ms}");
        }
        assert!(verify(&repository(&env), &mut |_| {}).expect("a repository").problems.is_empty());
    }
    assert!(gone > 0, "this would show nothing if no deletion were dropped");
}

#[test]
fn fewer_nodes_than_acknowledge_a_write_may_be_missing() {
    for seed in 1..5 {
        let (mut group, machine) = (Group::new(seed, 3), Machine::new(seed + 200));
        let env = machine.env();
        group.live(&*env.rng, 60);
        // One is not in the backup, which is as good.
        let of = [vec![0, 1, 2], vec![1, 2]][(seed % 2) as usize].clone();
        let id = group.back_up(&env, &of).expect("a backup");
        group.live(&*env.rng, 40);
        group.ship(&env, &of).expect("a log");
        let (_, all_ms) = span(&env, &id);
        group.live(&*env.rng, 40);
        group.ship(&env, &of[..2]).expect("a log");
        let (from_ms, until_ms) = span(&env, &id);
        assert!(until_ms > all_ms, "two of three are enough");
        for attempt in 0..6 {
            let at_ms = from_ms + env.rng.below(until_ms - from_ms + 1);
            let found = at(&env, at_ms, &format!("/at-{attempt}")).expect("a restore");
            assert!(found == group.model_at(at_ms), "seed {seed}: {at_ms} of {from_ms} to {until_ms}");
        }
        group.live(&*env.rng, 20);
        group.ship(&env, &of[..1]).expect("a log");
        assert_eq!(span(&env, &id).1, until_ms, "one of three is not");
        let refused = at(&env, until_ms + 1, "/x").expect_err("two are missing").to_string();
        let missing = format!("the log of {} ends at ", group.replicas[of[1]].node.name());
        assert!(refused.contains(&missing), "{refused}");
        if of.len() == 2 {
            let without = format!("{} is not in the backup", group.replicas[0].node.name());
            assert!(refused.contains(&without), "{refused}");
        }
    }
}

#[test]
fn the_log_of_a_node_that_lost_what_it_acknowledged_ends_there() {
    let (mut group, machine) = (Group::new(3, 3), Machine::new(300));
    let env = machine.env();
    group.live(&*env.rng, 40);
    let first = group.back_up(&env, &[0, 1, 2]).expect("a backup");
    let until_ms = span(&env, &first).1;
    group.live(&*env.rng, 20);
    // While it is rebuilt, it does not count.
    (group.replicas[0].is_whole, group.replicas[0].incarnation) = (false, 8 << 40);
    let shipped = group.ship(&env, &[0, 1]).expect("a log");
    assert!(!shipped[0].is_whole && shipped[1].is_whole);
    assert!(
        shipped[0].gaps.len() == 1 && shipped[0].gaps[0].contains("lost some of what it had"),
        "{shipped:?}"
    );
    assert_eq!(span(&env, &first).1, until_ms, "one of three is left");
    // Nor when it is whole again: some of what it had is not in its log.
    group.replicas[0].is_whole = true;
    group.ship(&env, &[0, 1]).expect("a log");
    assert_eq!(span(&env, &first).1, until_ms);
    let name = group.replicas[0].node.name().to_owned();
    let refused = at(&env, until_ms + 1, "/x").expect_err("two are missing").to_string();
    assert!(refused.contains(&format!("the log of {name} ends at ")), "{refused}");
    group.ship(&env, &[2]).expect("a log");
    let reached_ms = span(&env, &first).1;
    assert!(reached_ms > until_ms, "the others are enough");
    assert!(at(&env, reached_ms, "/reached").expect("a restore") == group.model_at(reached_ms));
    let next = group.back_up(&env, &[0, 1, 2]).expect("a backup");
    group.live(&*env.rng, 20);
    group.ship(&env, &[0, 2]).expect("a log");
    let until_ms = span(&env, &next).1;
    assert!(at(&env, until_ms, "/next").expect("a restore") == group.model_at(until_ms));
}

#[test]
fn a_power_cut_while_logs_of_a_cluster_are_fetched_leaves_what_was_there() {
    let (mut group, first) = (Group::new(5, 3), Machine::new(77));
    let env = first.env();
    group.live(&*env.rng, 30);
    let id = group.back_up(&env, &[0, 1, 2]).expect("a backup");
    let before_ms = span(&env, &id).1;
    let before = group.model_at(before_ms);
    group.live(&*env.rng, 20);
    let group = std::cell::RefCell::new(group);
    at_every_step(
        |machine| copy(&first, machine),
        |env| group.borrow_mut().ship(env, &[0, 1, 2]).map(drop),
        |machine, is_done, context| {
            let env = machine.env();
            let problems = verify(&repository(&env), &mut |_| {}).expect("a repository").problems;
            assert!(problems.is_empty(), "{context}: {problems:?}");
            assert!(at(&env, before_ms, "/before").expect("it was there") == before, "{context}");
            let (_, until_ms) = span(&env, &id);
            assert!(!is_done || until_ms > before_ms, "{context}");
            let now = group.borrow().model_at(until_ms);
            assert!(at(&env, until_ms, "/until").expect("a restore") == now, "{context}");
            for shipped in group.borrow_mut().ship(&env, &[0, 1, 2]).expect("it goes on") {
                assert!(shipped.gaps.is_empty(), "{context}");
            }
            let (_, until_ms) = span(&env, &id);
            let now = group.borrow().model_at(until_ms);
            assert!(at(&env, until_ms, "/now").expect("a restore") == now, "{context}");
        },
    );
}

#[test]
fn a_power_cut_while_a_cluster_is_restored_to_a_time_leaves_no_half_store() {
    let (mut group, first) = (Group::new(6, 3), Machine::new(78));
    let env = first.env();
    group.live(&*env.rng, 30);
    let id = group.back_up(&env, &[0, 1, 2]).expect("a backup");
    group.live(&*env.rng, 20);
    group.ship(&env, &[0, 1, 2]).expect("a log");
    let (at_ms, target) = (span(&env, &id).1, Path::new("/restored"));
    let expected = group.model_at(at_ms);
    at_every_step(
        |machine| copy(&first, machine),
        |env| restore_at(env, &repository(env), (at_ms, None), target, &mut |_| {}).map(drop),
        |machine, is_done, context| {
            let is_whole = |found| values(found) == expected;
            expect_whole_or_refused(machine, (target, is_done), is_whole, context);
        },
    );
}
