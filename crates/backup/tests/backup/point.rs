use std::path::{Path, PathBuf};

use ladoga_backup::{AheadOfTime, LogSource, Repository, prune, restore_at, verify};
use ladoga_env::sim::PowerCut;
use ladoga_model::{HybridClock, Stamp, Version};
use ladoga_storage::LogFile;

use crate::crash::{at_every_step, expect_whole_or_refused};
use crate::support::{Machine, Node, REPOSITORY, repository, take};
use crate::writer::{KEEP_MS, NodeLog, Writer, copy, done, restored, span};

#[test]
fn any_time_in_reach_is_restored_and_no_other() {
    for seed in 0..6 {
        let (mut writer, machine) = (Writer::new(seed + 1), Machine::new(seed + 100));
        let env = machine.env();
        let mut ids = Vec::new();
        for round in 0..6 {
            writer.write_some(&env, 60);
            if round % 2 == 0 {
                ids.push(writer.back_up(&env).expect("a backup"));
            }
            writer.pass_ms(env.rng.below(20));
            writer.write_some(&env, 30);
            if env.rng.below(2) == 0 {
                writer.node.crash(PowerCut::Random);
            }
            assert_eq!(writer.ship(&env).expect("a log").gaps, Vec::<String>::new());
            writer.pass_ms(1);
        }
        let (from_ms, until_ms) = (span(&env, &ids[0]).0, span(&env, &ids[0]).1);
        assert!(until_ms > from_ms + 100);
        for attempt in 0..12 {
            let at_ms = from_ms + env.rng.below(until_ms - from_ms + 1);
            let found = restored(&env, at_ms, &format!("/at-{attempt}")).expect("a restore");
            assert!(found == writer.model_at(at_ms), "seed {seed}: {at_ms} of {from_ms} to {until_ms}");
        }
        for outside in [from_ms - 1, until_ms + 1] {
            let refused = restored(&env, outside, "/outside").expect_err("out of reach").to_string();
            assert!(refused.contains("cannot be restored: expected a time from "), "{refused}");
        }
        assert!(verify(&repository(&env), &mut |_| {}).expect("a repository").problems.is_empty());
        prune(&repository(&env), &repository(&env).lock().expect("nobody"), 1).expect("a sweep");
        let (from_ms, _) = span(&env, &ids[2]);
        for at_ms in [from_ms, until_ms] {
            let found = restored(&env, at_ms, &format!("/pruned-{at_ms}")).expect("a restore");
            assert!(found == writer.model_at(at_ms), "seed {seed}, pruned: {at_ms}");
        }
        assert!(restored(&env, from_ms - 1, "/gone").is_err());
        assert!(verify(&repository(&env), &mut |_| {}).expect("a repository").problems.is_empty());
    }
}

#[test]
fn a_power_cut_of_the_node_leaves_no_gap_in_the_log() {
    for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
        for step in 0..40 {
            let (mut writer, machine) = (Writer::new(3), Machine::new(step + 1));
            let env = machine.env();
            writer.write_some(&env, 20);
            writer.back_up(&env).expect("a backup");
            writer.pass_ms(2);
            writer.node.machine.disk.cut_power_at_operation(step * 3, policy);
            for key in 0.. {
                let value = if key % 9 == 8 { vec![key as u8; 300_000] } else { vec![key as u8; 900] };
                writer.last = HybridClock::following(writer.last, writer.now_ms());
                let version = Version { timestamp: writer.last, node: 0 };
                let (key, stamp) = (format!("key{key:03}").into_bytes(), Stamp::new(version));
                if writer.node.try_write(&key, stamp, &value).is_err() {
                    break;
                }
                writer.history.push((key, stamp, Some(value)));
                writer.pass_ms(1);
            }
            writer.node.crash(policy);
            let sure_ms = writer.past_ms() - 1;
            assert!(writer.ship(&env).expect("a log").gaps.is_empty(), "{policy:?} {step}");
            writer.pass_ms(1);
            writer.write(99, Some(b"later"), 0);
            assert!(writer.ship(&env).expect("a log").gaps.is_empty(), "{policy:?} {step}");
            let found = restored(&env, sure_ms, "/restored").expect("a restore");
            assert!(found == writer.model_at(sure_ms), "{policy:?} {step}");
        }
    }
}

#[test]
fn a_power_cut_while_log_is_fetched_leaves_what_was_there() {
    let (mut writer, first) = (Writer::new(5), Machine::new(77));
    let env = first.env();
    writer.write_some(&env, 40);
    let id = writer.back_up(&env).expect("a backup");
    let before = writer.model_at(writer.past_ms());
    let before_ms = writer.past_ms();
    writer.pass_ms(1);
    writer.write_some(&env, 60);
    writer.write(3, Some(&vec![9; 300_000]), 0);
    at_every_step(
        |machine| copy(&first, machine),
        |env| writer.ship(env).map(drop),
        |machine, is_done, context| {
            let env = machine.env();
            let problems = verify(&repository(&env), &mut |_| {}).expect("a repository").problems;
            assert!(problems.is_empty(), "{context}: {problems:?}");
            assert!(restored(&env, before_ms, "/before").expect("it was there") == before, "{context}");
            assert!(!is_done || span(&env, &id).1 == writer.past_ms(), "{context}");
            assert!(writer.ship(&env).expect("it goes on").gaps.is_empty(), "{context}");
            let found = restored(&env, writer.past_ms(), "/now").expect("a restore");
            assert!(found == writer.model_at(writer.past_ms()), "{context}");
            prune(&repository(&env), &repository(&env).lock().expect("nobody"), 1).expect("a sweep");
            let names = machine.disk.paths();
            assert!(
                names.iter().all(|path| !path.to_string_lossy().ends_with(".new")),
                "{context}: {names:?}"
            );
        },
    );
}

#[test]
fn a_power_cut_while_log_is_removed_takes_none_that_is_needed() {
    let (mut writer, first) = (Writer::new(6), Machine::new(78));
    let env = first.env();
    let mut ids = Vec::new();
    for _ in 0..3 {
        writer.write_some(&env, 40);
        ids.push(writer.back_up(&env).expect("a backup"));
        writer.pass_ms(5);
    }
    writer.write_some(&env, 40);
    writer.ship(&env).expect("a log");
    let from_ms = span(&env, &ids[2]).0;
    at_every_step(
        |machine| copy(&first, machine),
        |env| {
            let repository = repository(env);
            prune(&repository, &repository.lock()?, 1).map(drop)
        },
        |machine, _, context| {
            let env = machine.env();
            let problems = verify(&repository(&env), &mut |_| {}).expect("a repository").problems;
            assert!(problems.is_empty(), "{context}: {problems:?}");
            assert!(
                restored(&env, from_ms, "/r").expect("a restore") == writer.model_at(from_ms),
                "{context}"
            );
        },
    );
}

#[test]
fn a_power_cut_while_a_point_in_time_is_restored_leaves_no_half_store() {
    let (mut writer, first) = (Writer::new(8), Machine::new(79));
    let env = first.env();
    writer.write_some(&env, 40);
    writer.back_up(&env).expect("a backup");
    writer.write_some(&env, 40);
    writer.ship(&env).expect("a log");
    let (at_ms, target) = (writer.past_ms(), Path::new("/restored"));
    at_every_step(
        |machine| copy(&first, machine),
        |env| restore_at(env, &repository(env), (at_ms, None), target, &mut |_| {}).map(drop),
        |machine, is_done, context| {
            let is_whole = |found| found == writer.model_at(at_ms);
            expect_whole_or_refused(machine, (target, is_done), is_whole, context);
        },
    );
}

#[test]
fn a_flipped_bit_in_the_log_is_named_and_not_restored() {
    let (mut writer, first) = (Writer::new(9), Machine::new(80));
    let env = first.env();
    writer.write_some(&env, 30);
    writer.back_up(&env).expect("a backup");
    writer.write(1, Some(&vec![7; 300_000]), 0);
    writer.write_some(&env, 40);
    writer.ship(&env).expect("a log");
    let log: Vec<_> =
        first.disk.paths().into_iter().filter(|path| path.starts_with("/backups/log")).collect();
    assert!(log.iter().any(|path| path.extension().is_some_and(|it| it == "blob")) && log.len() > 4);
    for path in log {
        for _ in 0..6 {
            let machine = Machine::new(1);
            copy(&first, &machine);
            let at = env.rng.below(machine.disk.file_len(&path).expect("a file"));
            machine.disk.flip_bit(&path, at, env.rng.below(8) as u8).expect("a byte");
            let env = machine.env();
            let problems = verify(&repository(&env), &mut |_| {}).expect("a repository").problems;
            let text = format!("{problems:?}");
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(problems.len() == 1 && text.contains(&name), "{name} at {at}: {text}");
            // Of a segment, some bytes of its header say nothing about what it holds.
            match restored(&env, writer.past_ms(), "/restored") {
                Err(_) => {}
                Ok(found) => assert!(found == writer.model_at(writer.past_ms()), "{name} at {at}"),
            }
        }
        // One that is missing is never passed over.
        let machine = Machine::new(1);
        copy(&first, &machine);
        machine.env().disk.remove(&path).expect("it is there");
        let env = machine.env();
        // Those from before the backup are not needed.
        let found = restored(&env, writer.past_ms(), "/restored");
        assert!(found.is_err() || found.is_ok_and(|it| it == writer.model_at(writer.past_ms())), "{path:?}");
        let verified = verify(&repository(&env), &mut |_| {}).expect("a repository");
        assert!(!verified.problems.is_empty() || !verified.without_log.is_empty(), "{path:?}");
    }
}

#[test]
fn a_flipped_bit_at_the_node_gets_nowhere_and_what_follows_is_good() {
    let (mut writer, machine) = (Writer::new(10), Machine::new(81));
    let env = machine.env();
    writer.write_some(&env, 30);
    writer.back_up(&env).expect("a backup");
    let before_ms = writer.past_ms();
    writer.pass_ms(1);
    writer.write_some(&env, 30);
    let segment = writer.node.engine().kept_log(0, 99).last().copied();
    writer.node.engine().seal_log().expect("a seal");
    let broken = segment.expect("a segment").number + 1;
    let mut source = NodeLog { writer: &writer, flip: Some((LogFile::Segment(broken), 90)) };
    let (repository, writing) = Repository::create(&env.disk, Path::new(REPOSITORY)).expect("a repository");
    let shipped = done(repository.ship(&writing, ("http://node", u64::MAX), &mut source)).expect("the rest");
    assert!(shipped.gaps.len() == 1 && shipped.gaps[0].contains("not sound"), "{:?}", shipped.gaps);
    drop(writing);
    let refused = restored(&env, writer.past_ms(), "/x").expect_err("behind the gap").to_string();
    assert!(refused.contains("expected a time from "), "{refused}");
    assert!(restored(&env, before_ms, "/before").expect("before it") == writer.model_at(before_ms));
    writer.pass_ms(1);
    let id = writer.back_up(&env).expect("another backup");
    writer.write_some(&env, 30);
    writer.ship(&env).expect("a log");
    let until_ms = span(&env, &id).1;
    assert!(restored(&env, until_ms, "/after").expect("behind it") == writer.model_at(until_ms));
}

/// A power cut of an earlier release could take it.
#[test]
fn a_large_value_that_the_node_lost_is_a_gap_and_what_follows_is_good() {
    let (mut writer, machine) = (Writer::new(12), Machine::new(83));
    let env = machine.env();
    writer.write_some(&env, 30);
    writer.back_up(&env).expect("a backup");
    let before_ms = writer.past_ms();
    writer.pass_ms(1);
    writer.write(1, Some(&vec![3; 300_000]), 0);
    let kept = writer.node.engine().kept_log(0, 99);
    writer.node.engine().seal_log().expect("a seal");
    let segment = kept.last().expect("a segment").number + 1;
    let prefix = format!("{segment:06}-");
    let is_large = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        path.parent().is_some_and(|dir| dir.ends_with("wal-kept"))
            && name.starts_with(&prefix)
            && name.ends_with(".blob")
    };
    let node = &writer.node.machine;
    let large = node.disk.paths().into_iter().find(is_large).expect("a large value");
    node.env().disk.remove(&large).expect("a file");
    writer.write_some(&env, 30);
    let shipped = writer.ship(&env).expect("the rest of it");
    assert!(shipped.gaps.len() == 1 && shipped.gaps[0].contains("there is no"), "{:?}", shipped.gaps);
    assert!(shipped.segments > 0);
    assert!(restored(&env, before_ms, "/before").expect("before it") == writer.model_at(before_ms));
    let refused = restored(&env, writer.past_ms(), "/x").expect_err("behind the gap").to_string();
    assert!(refused.contains("expected a time from "), "{refused}");
}

#[test]
fn log_that_was_not_fetched_in_time_is_a_gap() {
    let (mut writer, machine) = (Writer::new(11), Machine::new(82));
    let env = machine.env();
    writer.write_some(&env, 30);
    let first = writer.back_up(&env).expect("a backup");
    let before_ms = writer.past_ms();
    writer.write_some(&env, 60);
    let lost_ms = writer.past_ms();
    writer.node.engine().seal_log().expect("a seal");
    writer.pass_ms(KEEP_MS + 1);
    writer.node.engine().step().expect("a sound disk");
    assert_eq!(writer.node.engine().kept_log(0, 99), [], "it is bounded");
    writer.write_some(&env, 30);
    let shipped = writer.ship(&env).expect("the rest of it");
    assert!(shipped.gaps.len() == 1 && shipped.gaps[0].contains("is missing"), "{:?}", shipped.gaps);
    for at_ms in [lost_ms, writer.past_ms()] {
        let refused = restored(&env, at_ms, "/x").expect_err("in the gap, or behind it").to_string();
        assert!(refused.contains("expected a time from "), "{refused}");
    }
    assert_eq!(span(&env, &first).1, before_ms);
    assert!(restored(&env, before_ms, "/before").expect("before it") == writer.model_at(before_ms));
    // A segment that somebody has removed from the repository.
    let segments =
        machine.disk.paths().into_iter().filter(|path| path.extension().is_some_and(|it| it == "wal"));
    for path in segments.filter(|path| path.starts_with("/backups")).collect::<Vec<_>>() {
        machine.env().disk.remove(&path).expect("it is there");
    }
    let id = writer.back_up(&env).expect("another backup");
    let until_ms = span(&env, &id).1;
    assert!(
        restored(&env, until_ms, "/again").expect("nothing of it is needed") == writer.model_at(until_ms)
    );
    let problems = verify(&repository(&env), &mut |_| {}).expect("a repository").problems;
    assert!(!problems.is_empty());
}

#[test]
fn a_store_that_was_brought_back_begins_another_chain() {
    let (mut writer, machine) = (Writer::new(12), Machine::new(83));
    let env = machine.env();
    writer.write_some(&env, 30);
    writer.back_up(&env).expect("a backup");
    let node = &writer.node.machine;
    let copied: Vec<_> =
        node.disk.paths().into_iter().map(|path| (path.clone(), node.disk.read_file(&path))).collect();
    let kept = writer.history.len();
    writer.pass_ms(1);
    writer.write_some(&env, 40);
    writer.ship(&env).expect("a log");
    let old_ms = writer.past_ms();
    writer.node.replace(&copied);
    writer.history.truncate(kept);
    writer.pass_ms(10);
    writer.write_some(&env, 80);
    let shipped = writer.ship(&env).expect("a log");
    assert!(!shipped.gaps.is_empty(), "two histories are no chain");
    let refused = restored(&env, writer.past_ms(), "/x").expect_err("no backup of it").to_string();
    assert!(refused.contains("expected a time from "), "{refused}");
    restored(&env, old_ms, "/old").expect("what was there once");
    writer.back_up(&env).expect("a backup");
    writer.pass_ms(1);
    writer.write_some(&env, 20);
    writer.ship(&env).expect("a log");
    assert!(
        restored(&env, writer.past_ms(), "/new").expect("a restore") == writer.model_at(writer.past_ms())
    );
}

/// The chain went on, over another history than that of its end.
#[test]
fn a_store_that_was_brought_back_and_wrote_as_much_as_before_begins_another_chain() {
    let (mut writer, mut other) = (Writer::new(13), Writer::new(14));
    let env = Machine::new(84).env();
    for _ in 0..2 {
        (0..3).for_each(|key| writer.write(key, Some(b"once"), 0));
        writer.ship(&env).expect("a segment");
    }
    // As many groups as in those two, in one segment.
    (0..6).for_each(|key| other.write(key, Some(b"then"), 0));
    let end = |writer: &Writer| writer.log().list(u64::MAX).expect("a log").end_sequence;
    assert_eq!(end(&writer), end(&other));
    let shipped = other.ship(&env).expect("a log");
    assert_eq!(shipped.gaps.len(), 1, "two histories are no chain");
    assert!(shipped.gaps[0].contains("the segment before is not the same there"), "{:?}", shipped.gaps);
}

#[test]
fn a_cluster_without_log_is_refused_by_name() {
    let machine = Machine::new(84);
    let env = machine.env();
    let (mut a, mut b) = (Node::new(13), Node::new(14));
    a.put(1, 1 << 16, b"value");
    b.put(1, 1 << 16, b"value");
    let ((first, mut of_first), (second, mut of_second)) = (a.checkpoint(), b.checkpoint());
    take(
        &env,
        &mut [(a.name().to_owned(), first, &mut of_first), (b.name().to_owned(), second, &mut of_second)],
    )
    .expect("a backup of a cluster");
    let refused = restored(&env, 5, "/x").expect_err("no log").to_string();
    assert!(refused.contains("no backup with log behind it"), "{refused}");
    assert!(refused.contains(&format!("there is no log of {} behind it", a.name())), "{refused}");
}

/// It left out without a word what had been acknowledged before that time.
#[test]
fn what_was_written_after_a_clock_was_set_back_is_named_if_it_is_left_out() {
    let mut writer = Writer::new(81);
    let env = writer.node.machine.env();
    writer.write(1, Some(b"before"), 0);
    writer.back_up(&env).expect("a backup");
    writer.clock.jump_wall_ms(3_600_000);
    writer.write(1, Some(b"ahead"), 0);
    let ahead_ms = HybridClock::wall_ms(writer.last);
    writer.clock.jump_wall_ms(-3_600_000);
    writer.pass_ms(5);
    writer.write(2, Some(b"acknowledged"), 0);
    writer.ship(&env).expect("log");
    let at_ms = writer.past_ms();
    let restored = restore_at(&env, &repository(&env), (at_ms, None), Path::new("/back"), &mut |_| {});
    let left_out = restored.expect("a time in reach").left_out;
    assert_eq!(left_out, [AheadOfTime { url: "http://node".to_owned(), until_ms: ahead_ms }]);
    // Once that time has come, it is a time like any other.
    writer.pass_ms(3_600_000);
    writer.ship(&env).expect("log");
    let restored = restore_at(&env, &repository(&env), (at_ms, None), Path::new("/later"), &mut |_| {});
    assert_eq!(restored.expect("a time in reach").left_out, []);
}
