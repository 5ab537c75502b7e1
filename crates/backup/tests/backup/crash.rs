use std::path::Path;

use ladoga_backup::{Backup, Error, Repository, prune, restore_cells, restore_files};
use ladoga_env::Env;
use ladoga_env::sim::PowerCut;

use crate::support::{Machine, Model, Node, REPOSITORY, expect_sound, found, repository, take_one};

const CUTS: [PowerCut; 3] = [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random];

fn filled(node: &mut Node, round: u64) {
    for number in 0..40 {
        node.put(number, (round * 1_000 + number + 1) << 16, &vec![round as u8; 300]);
    }
    node.put(99, (round * 1_000 + 500) << 16, &vec![round as u8; 300_000]);
    node.work();
}

/// Every backup that is there can be restored, and is one of these.
fn expect_all(env: &Env, known: &[(&str, &Model)], context: &str) {
    let repository = repository(env);
    expect_sound(env, context);
    for id in repository.ids().expect("names") {
        // One that no earlier machine knows is the one that was being taken.
        let (_, model) = known.iter().find(|(known, _)| *known == id).unwrap_or(&known[known.len() - 1]);
        let backup = repository.backup(&id).expect("a whole backup");
        let target = Path::new("/again").join(&id).join(context);
        restore_files(env, &repository, &backup.nodes[0], &target, &mut |_| {}).expect("a restore");
        assert!(found(env, &target).expect("a store") == **model, "{context}: {id}");
    }
}

/// Does `what` on a machine whose power is cut at its `n`-th mutating operation, for every `n`, until it works out.
pub(crate) fn at_every_step(
    prepare: impl Fn(&Machine),
    what: impl Fn(&Env) -> Result<(), Error>,
    check: impl Fn(&Machine, bool, &str),
) {
    for policy in CUTS {
        let mut step = 0;
        loop {
            let machine = Machine::new(step + 1);
            prepare(&machine);
            let env = machine.env();
            machine.disk.cut_power_at_operation(step, policy);
            let done = what(&env);
            machine.disk.clear_faults();
            if machine.disk.is_powered() {
                // It worked out; what it says counts even if the power goes now.
                assert!(done.is_ok(), "{done:?}");
                machine.disk.power_cut(policy);
            } else {
                assert!(done.is_err(), "it failed and says that it did not");
            }
            machine.disk.power_on();
            check(&machine, done.is_ok(), &format!("{policy:?}-{step}"));
            if done.is_ok() {
                assert!(step > 5, "{step}");
                break;
            }
            step += 1;
        }
    }
}

#[test]
fn a_power_cut_while_a_backup_is_taken_leaves_those_that_were_there() {
    let mut node = Node::new(1);
    filled(&mut node, 1);
    let old_model = node.model.clone();
    let old_checkpoint = node.checkpoint();
    // Bytes of it, as it was: the slot is used again.
    let first = Machine::new(77);
    let (old, _) = take_one(&first.env(), &node).expect("a backup");
    drop(old_checkpoint);
    filled(&mut node, 2);
    let new_model = node.model.clone();
    let copy = |machine: &Machine| {
        for path in first.disk.paths() {
            machine.disk.plant(&path, &first.disk.read_file(&path).expect("a file"));
        }
    };
    at_every_step(
        copy,
        |env| take_one(env, &node).map(drop),
        |machine, is_done, context| {
            let env = machine.env();
            let known = [(&*old.id, &old_model), ("the new one", &new_model)];
            expect_all(&env, &known, context);
            let ids = repository(&env).ids().expect("names");
            assert!(ids.contains(&old.id) && (ids.len() == 2 || !is_done), "{context}: {ids:?}");
            // It goes on from there, and what was left is swept.
            let (backup, _) = take_one(&env, &node).expect("another one");
            let repository = repository(&env);
            prune(&repository, &repository.lock().expect("nobody else"), 1).expect("a sweep");
            expect_all(&env, &[(&backup.id, &new_model)], &format!("{context}-pruned"));
            let names = machine.disk.paths();
            assert!(
                names.iter().all(|path| !path.to_string_lossy().ends_with(".new")),
                "{context}: {names:?}"
            );
        },
    );
}

#[test]
fn a_power_cut_before_the_first_backup_leaves_a_directory_that_is_begun_again() {
    let mut node = Node::new(2);
    node.put(1, 7 << 16, b"value");
    at_every_step(
        |_| {},
        |env| take_one(env, &node).map(drop),
        |machine, _, context| {
            let env = machine.env();
            match Repository::open(&env.disk, Path::new(REPOSITORY)) {
                Ok(_) => expect_sound(&env, context),
                Err(Error::NoBackups { .. }) => {}
                Err(error) => panic!("{context}: {error}"),
            }
            take_one(&env, &node).expect("a backup");
            expect_sound(&env, context);
        },
    );
}

#[test]
fn a_power_cut_while_old_backups_are_removed_takes_none_of_the_files_that_are_needed() {
    let mut node = Node::new(3);
    let first = Machine::new(78);
    let mut known: Vec<(String, Model)> = Vec::new();
    for round in 1..4 {
        filled(&mut node, round);
        let (backup, _) = take_one(&first.env(), &node).expect("a backup");
        known.push((backup.id, node.model.clone()));
    }
    let known: Vec<(&str, &Model)> = known.iter().map(|(id, model)| (&**id, model)).collect();
    at_every_step(
        |machine| {
            for path in first.disk.paths() {
                machine.disk.plant(&path, &first.disk.read_file(&path).expect("a file"));
            }
        },
        |env| {
            let repository = repository(env);
            prune(&repository, &repository.lock()?, 1).map(drop)
        },
        |machine, is_done, context| {
            let env = machine.env();
            expect_all(&env, &known, context);
            let ids = repository(&env).ids().expect("names");
            assert_eq!(ids.last().map(String::as_str), Some(known[2].0), "{context}");
            assert!(!is_done || ids.len() == 1, "{context}: {ids:?}");
        },
    );
}

/// What a power cut leaves of a restore opens as no store, and stays as it is; or it is whole. Never is it a new store.
#[track_caller]
pub(crate) fn expect_whole_or_refused(
    machine: &Machine,
    (target, is_done): (&Path, bool),
    is_whole: impl FnOnce(Model) -> bool,
    context: &str,
) {
    let env = machine.env();
    let names = || env.disk.list(target).unwrap_or_default();
    let before = (names(), machine.disk.paths());
    // A lock is as good as nothing: a node makes one itself.
    if before.0.iter().all(|name| name == "LOCK") {
        assert!(!is_done, "{context}: it said that it was done");
        return;
    }
    match found(&env, target) {
        Ok(model) => assert!(is_whole(model), "{context}: not all of it is there"),
        Err(error) => {
            assert!(!is_done, "{context}: it said that it was done: {error}");
            assert!(matches!(error, ladoga_storage::Error::RestoreNotCompleted { .. }), "{context}: {error}");
            assert_eq!((names(), machine.disk.paths()), before, "{context}: it was changed");
        }
    }
}

/// The same of each step of a restore, and a restore again is refused if there is more than the place for attempts.
fn restores_whole_or_not(restore: impl Fn(&Env, &Repository, &Backup) -> Result<(), Error>) {
    let mut node = Node::new(4);
    filled(&mut node, 1);
    let first = Machine::new(79);
    let (backup, _) = take_one(&first.env(), &node).expect("a backup");
    let target = Path::new("/restored");
    at_every_step(
        |machine| {
            for path in first.disk.paths() {
                machine.disk.plant(&path, &first.disk.read_file(&path).expect("a file"));
            }
        },
        |env| restore(env, &repository(env), &backup),
        |machine, is_done, context| {
            expect_whole_or_refused(machine, (target, is_done), |found| found == node.model, context);
            let env = machine.env();
            match restore(&env, &repository(&env), &backup) {
                Ok(()) => assert!(found(&env, target).expect("a store") == node.model, "{context}"),
                // The mark is the last thing that goes.
                Err(Error::NotEmpty { .. } | Error::Unfinished { .. }) => {}
                Err(error) => panic!("{context}: {error}"),
            }
        },
    );
}

#[test]
fn a_power_cut_while_files_are_restored_leaves_no_half_store() {
    restores_whole_or_not(|env, repository, backup| {
        restore_files(env, repository, &backup.nodes[0], Path::new("/restored"), &mut |_| {}).map(drop)
    });
}

#[test]
fn a_power_cut_while_cells_are_restored_leaves_no_half_store() {
    restores_whole_or_not(|env, repository, backup| {
        restore_cells(env, repository, backup, Path::new("/restored"), &mut |_| {}).map(drop)
    });
}

/// It removed what the first one had written.
#[test]
fn a_second_restore_into_a_directory_leaves_the_first_one_alone() {
    let (mut node, machine) = (Node::new(1), Machine::new(2));
    filled(&mut node, 1);
    let (backup, _) = take_one(&machine.env(), &node).expect("a backup");
    let (target, mut refusals) = (Path::new("/restored"), 0);
    let second = || {
        let env = machine.env();
        let busy = [
            restore_cells(&env, &repository(&env), &backup, target, &mut |_| {}),
            restore_files(&env, &repository(&env), &backup.nodes[0], target, &mut |_| {}),
        ];
        busy.map(|busy| assert!(matches!(busy, Err(Error::TargetBusy { .. })), "{busy:?}")).len()
    };
    let env = machine.env();
    restore_files(&env, &repository(&env), &backup.nodes[0], target, &mut |_| refusals += second())
        .expect("the first one");
    assert!(refusals > 0);
    assert!(found(&machine.env(), target).expect("a store") == node.model);
}
