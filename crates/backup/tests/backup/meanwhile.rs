use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ladoga_backup::{Repository, prune, verify};
use ladoga_env::sim::{Fault, Operation};
use ladoga_env::{Disk, File, Lock, OpenMode};

use crate::support::{Machine, REPOSITORY, repository};
use crate::writer::{Writer, copy, done};

type Hook = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// A disk on which something happens before a file is opened, once.
struct Hooked {
    disk: Arc<dyn Disk>,
    is_it: fn(&Path) -> bool,
    hook: Mutex<Option<Hook>>,
}

impl Disk for Hooked {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let hook = if (self.is_it)(path) { self.hook.lock().expect("no panic").take() } else { None };
        hook.map_or(Ok(()), |hook| hook())?;
        self.disk.open(path, mode)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.hard_link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
}

fn hooked(
    machine: &Machine,
    is_it: fn(&Path) -> bool,
    hook: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Repository {
    let hook = Mutex::new(Some(Box::new(hook) as Hook));
    let disk: Arc<dyn Disk> = Arc::new(Hooked { disk: machine.env().disk, is_it, hook });
    Repository::open(&disk, Path::new(REPOSITORY)).expect("a repository")
}

/// Two backups, each with files of its own, and with log behind it, large values among it.
fn written(machine: &Machine) -> Writer {
    let (mut writer, env) = (Writer::new(31), machine.env());
    for round in 0..2 {
        // So much that compactions leave none of the tables of the round before.
        for key in (0..200).map(|number| number * 77 % 200) {
            writer.write(key, Some(&[round; 400]), 0);
            writer.node.work();
        }
        writer.back_up(&env).expect("a backup");
        writer.write(300, Some(&vec![round; 300_000]), 0);
        writer.ship(&env).expect("a log");
    }
    writer
}

/// It named what was pruned as damaged.
#[test]
fn what_is_pruned_while_a_repository_is_verified_is_not_damaged() {
    for is_it in [
        |path: &Path| path.starts_with(Path::new(REPOSITORY).join("backups")),
        |path: &Path| path.starts_with(Path::new(REPOSITORY).join("files")),
        |path: &Path| path.starts_with(Path::new(REPOSITORY).join("log")),
        |path: &Path| path.extension().is_some_and(|extension| extension == "wal"),
    ] {
        let machine = Machine::new(91);
        let _writer = written(&machine);
        let (env, before) = (machine.env(), machine.disk.paths());
        let verifying = hooked(&machine, is_it, move || {
            let repository = repository(&env);
            let pruned = prune(&repository, &repository.lock().expect("nobody"), 1).expect("a prune");
            assert_eq!(pruned.backups.len(), 1);
            let is_of = |dir: &str| {
                before.iter().filter(|path| path.starts_with(format!("{REPOSITORY}/{dir}"))).count()
            };
            let now = env.disk.list(&Path::new(REPOSITORY).join("files")).expect("names").len();
            assert!(now < is_of("files"), "files of the one that was removed: {now}");
            Ok(())
        });
        let problems = verify(&verifying, &mut |_| {}).expect("a repository").problems;
        assert!(problems.is_empty(), "{problems:?}");
        let left = verify(&verifying, &mut |_| {}).expect("a repository");
        assert!(left.backups == 1 && left.problems.is_empty(), "{left:?}");
    }
}

/// What is left has to be whole all the same.
#[test]
fn what_is_damaged_is_named_also_if_others_are_pruned() {
    for is_of in ["files", "log"] {
        let machine = Machine::new(92);
        let _writer = written(&machine);
        let env = machine.env();
        let is_it = |path: &Path| path.starts_with(Path::new(REPOSITORY).join("files"));
        let verifying = hooked(&machine, is_it, move || {
            let repository = repository(&env);
            prune(&repository, &repository.lock().expect("nobody"), 1).expect("a prune");
            let dir = Path::new(REPOSITORY).join(is_of);
            let names = env.disk.list(&dir).expect("names");
            let name = names.iter().find(|name| name.strip_suffix(".json").is_none()).expect("a file");
            env.disk.remove(&dir.join(name))
        });
        let problems = verify(&verifying, &mut |_| {}).expect("a repository").problems;
        assert!(!problems.is_empty(), "{is_of}");
    }
}

/// A prune removed all that it needs, and another one was begun instead of it.
#[test]
fn a_chain_that_is_not_found_for_once_is_not_taken_for_none() {
    let machine = Machine::new(93);
    let writer = written(&machine);
    let is_it = |path: &Path| {
        path.starts_with(Path::new(REPOSITORY).join("log")) && path.extension().is_some_and(|it| it == "json")
    };
    let lost = || hooked(&machine, is_it, || Err(io::ErrorKind::NotFound.into()));
    let (pruning, shipping, before) = (lost(), lost(), machine.disk.paths());
    let lock = || pruning.lock().expect("nobody");
    let refused = prune(&pruning, &lock(), 1).expect_err("it is listed").to_string();
    assert!(refused.contains("it is listed, and was not found"), "{refused}");
    let ship = || done(shipping.ship(&lock(), ("http://node", u64::MAX), &mut writer.log()));
    let refused = ship().expect_err("it is listed").to_string();
    assert!(refused.contains("it is listed, and was not found"), "{refused}");
    assert_eq!(machine.disk.paths(), before);
    // It is found again.
    assert_eq!(ship().expect("a log").gaps, Vec::<String>::new());
    assert_eq!(prune(&pruning, &lock(), 1).expect("a prune").backups.len(), 1);
    assert!(verify(&pruning, &mut |_| {}).expect("a repository").problems.is_empty());
}

/// What the manual says to remove: each good backup was told as damaged.
#[test]
fn a_backup_whose_log_is_gone_is_not_damaged() {
    let machine = Machine::new(93);
    let _writer = written(&machine);
    let repository = repository(&machine.env());
    let ids = repository.ids().expect("backups");
    assert!(verify(&repository, &mut |_| {}).expect("a repository").without_log.is_empty());
    let is_list = |path: &&PathBuf| {
        path.starts_with(Path::new(REPOSITORY).join("log"))
            && path.extension().is_some_and(|extension| extension == "json")
    };
    for list in machine.disk.paths().iter().filter(is_list) {
        machine.disk.remove(list).expect("a list");
    }
    let verified = verify(&repository, &mut |_| {}).expect("a repository");
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    assert_eq!((verified.backups, verified.without_log), (2, ids));
}

/// A manifest, or the list of a log, that could be read no longer was passed over, with all that was wrong with what only it names.
#[test]
fn what_is_wrong_is_told_also_if_a_list_cannot_be_read_again() {
    let first = Machine::new(94);
    let _writer = written(&first);
    let paths = first.disk.paths();
    let is_in = |path: &Path, dir: &str| path.starts_with(Path::new(REPOSITORY).join(dir));
    let of = |dir: &str, ending: Option<&str>| {
        let is_of =
            |path: &&PathBuf| is_in(path, dir) && path.extension().and_then(|it| it.to_str()) == ending;
        paths.iter().filter(is_of).collect::<Vec<_>>()
    };
    for (damaged, gone, unread) in [
        (of("files", None), vec![], "backups/backups/"),
        (of("log", Some("wal")), vec![], ".json"),
        (vec![], of("log", Some("json")), "backups/backups/"),
    ] {
        for count in 0..6 {
            let machine = Machine::new(95);
            copy(&first, &machine);
            let repository = repository(&machine.env());
            damaged.iter().for_each(|path| machine.disk.flip_bit(path, 100, 0).expect("a file"));
            gone.iter().for_each(|path| machine.env().disk.remove(path).expect("a file"));
            machine.disk.fail_operation(count, Fault::io().on(Operation::Open).on_path(unread).sticky());
            let verified = verify(&repository, &mut |_| {}).expect("a repository");
            let is_told = !verified.problems.is_empty() || !verified.without_log.is_empty();
            assert!(is_told, "{damaged:?} {gone:?} {count}");
        }
    }
}

/// In a bucket, a list of a log that is written anew just then was told as a problem, and the manual says to remove what is.
#[test]
fn a_list_that_is_replaced_while_it_is_read_is_read_again() {
    let machine = Machine::new(96);
    let _writer = written(&machine);
    for is_it in [
        |path: &Path| path.starts_with(Path::new(REPOSITORY).join("backups")),
        |path: &Path| {
            path.extension().is_some_and(|it| it == "json")
                && path.parent().is_some_and(|dir| dir.ends_with("log"))
        },
    ] {
        let replaced = hooked(&machine, is_it, || Err(io::ErrorKind::StaleNetworkFileHandle.into()));
        let problems = verify(&replaced, &mut |_| {}).expect("a repository").problems;
        assert!(problems.is_empty(), "{problems:?}");
    }
}
