//! The simulated disk against a naive model of it: the list of everything that ever happened, replayed at each look.
#![expect(clippy::unwrap_used, reason = "a test")]

use ladoga_env::sim::{Fault, Operation, PowerCut, SimClock, SimDisk};
use ladoga_env::{Disk, File, OpenMode};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
enum Change {
    Write { offset: u64, len: usize, byte: u8 },
    Grow(u64),
    Truncate(u64),
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Create(usize),
    Change(usize, Change),
    Sync { name: usize, fails: bool },
    Rename(usize, usize),
    Link(usize, usize),
    Remove(usize),
    SyncDir { fails: bool },
    PowerCut { keep: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Pending,
    Durable,
    /// Covered by a sync that failed.
    Lost,
}

type NameChanges = Vec<(usize, Option<usize>)>;

#[derive(Debug, Default)]
struct Model {
    files: Vec<Vec<(Change, Status)>>,
    names: Vec<(NameChanges, Status)>,
}

impl Model {
    fn look(&self, durable_only: bool) -> BTreeMap<PathBuf, Vec<u8>> {
        let counts = |status: Status| !durable_only || status == Status::Durable;
        let mut inodes = BTreeMap::new();
        for (changes, _) in self.names.iter().filter(|(_, status)| counts(*status)) {
            for (name, file) in changes {
                match file {
                    Some(file) => inodes.insert(*name, *file),
                    None => inodes.remove(name),
                };
            }
        }
        let bytes = |file: usize| {
            let mut bytes = Vec::new();
            for (change, _) in self.files[file].iter().filter(|(_, status)| counts(*status)) {
                replay(&mut bytes, *change);
            }
            bytes
        };
        inodes.into_iter().map(|(name, file)| (path(name), bytes(file))).collect()
    }

    fn inode(&self, name: usize) -> Option<usize> {
        let last = self.names.iter().flat_map(|(changes, _)| changes).rfind(|(changed, _)| *changed == name);
        last.and_then(|(_, file)| *file)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Create(name) if self.inode(name).is_none() => {
                self.files.push(Vec::new());
                self.names.push((vec![(name, Some(self.files.len() - 1))], Status::Pending));
            }
            Action::Change(name, change) => {
                if let Some(file) = self.inode(name) {
                    self.files[file].push((change, Status::Pending));
                }
            }
            Action::Sync { name, fails } => {
                if let Some(file) = self.inode(name) {
                    settle(&mut self.files[file], fails);
                }
            }
            Action::Rename(from, to) => {
                if let Some(file) = self.inode(from).filter(|file| self.inode(to) != Some(*file)) {
                    self.names.push((vec![(from, None), (to, Some(file))], Status::Pending));
                }
            }
            Action::Link(from, to) if self.inode(to).is_none() => {
                if let Some(file) = self.inode(from) {
                    self.names.push((vec![(to, Some(file))], Status::Pending));
                }
            }
            Action::Remove(name) if self.inode(name).is_some() => {
                self.names.push((vec![(name, None)], Status::Pending));
            }
            Action::SyncDir { fails } => settle(&mut self.names, fails),
            Action::PowerCut { keep } => {
                settle(&mut self.names, !keep);
                self.names.retain(|(_, status)| *status == Status::Durable);
                for file in &mut self.files {
                    settle(file, !keep);
                    file.retain(|(_, status)| *status == Status::Durable);
                }
            }
            Action::Create(_) | Action::Link(..) | Action::Remove(_) => {}
        }
    }
}

fn settle<T>(changes: &mut [(T, Status)], fails: bool) {
    for (_, status) in changes.iter_mut().filter(|(_, status)| *status == Status::Pending) {
        *status = if fails { Status::Lost } else { Status::Durable };
    }
}

fn replay(bytes: &mut Vec<u8>, change: Change) {
    match change {
        Change::Write { offset, len, byte } => {
            let end = offset as usize + len;
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset as usize..end].fill(byte);
        }
        Change::Grow(len) => bytes.resize(bytes.len().max(len as usize), 0),
        Change::Truncate(len) => bytes.resize(len as usize, 0),
    }
}

fn path(name: usize) -> PathBuf {
    PathBuf::from(format!("/{name}"))
}

fn open(disk: &SimDisk, name: usize) -> Option<Arc<dyn File>> {
    disk.open(&path(name), OpenMode::ReadWrite).ok()
}

fn act(disk: &SimDisk, action: Action) {
    // Whether an operation is refused is what the looks afterwards show.
    match action {
        Action::Create(name) => drop(disk.open(&path(name), OpenMode::CreateNew)),
        Action::Change(name, change) => {
            if let Some(file) = open(disk, name) {
                match change {
                    Change::Write { offset, len, byte } => file.write_all_at(&vec![byte; len], offset),
                    Change::Grow(len) => file.allocate(len),
                    Change::Truncate(len) => file.truncate(len),
                }
                .unwrap();
            }
        }
        Action::Sync { name, fails } => {
            if let Some(file) = open(disk, name) {
                plan_failure(disk, Operation::Sync, fails);
                assert_eq!(file.sync_data().is_err(), fails);
            }
        }
        Action::Rename(from, to) => drop(disk.rename(&path(from), &path(to))),
        Action::Link(from, to) => drop(disk.hard_link(&path(from), &path(to))),
        Action::Remove(name) => drop(disk.remove(&path(name))),
        Action::SyncDir { fails } => {
            plan_failure(disk, Operation::SyncDir, fails);
            assert_eq!(disk.sync_dir(Path::new("/")).is_err(), fails);
        }
        Action::PowerCut { keep } => {
            disk.power_cut(if keep { PowerCut::KeepAll } else { PowerCut::LoseAll });
            disk.power_on();
        }
    }
}

fn plan_failure(disk: &SimDisk, operation: Operation, fails: bool) {
    if fails {
        disk.fail_operation(0, Fault::io().on(operation));
    }
}

fn look(disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    disk.paths().into_iter().map(|path| (path.clone(), disk.read_file(&path).unwrap())).collect()
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0_u64..9000, 1_usize..6000, 1_u8..)
            .prop_map(|(offset, len, byte)| Change::Write { offset, len, byte }),
        1 => (0_u64..12_000).prop_map(Change::Grow),
        1 => (0_u64..12_000).prop_map(Change::Truncate),
    ]
}

fn actions() -> impl Strategy<Value = Action> {
    let name = || 0_usize..4;
    let fails = || prop::bool::weighted(0.2);
    prop_oneof![
        4 => name().prop_map(Action::Create),
        8 => (name(), changes()).prop_map(|(name, change)| Action::Change(name, change)),
        4 => (name(), fails()).prop_map(|(name, fails)| Action::Sync { name, fails }),
        2 => (name(), name()).prop_map(|(from, to)| Action::Rename(from, to)),
        1 => (name(), name()).prop_map(|(from, to)| Action::Link(from, to)),
        1 => name().prop_map(Action::Remove),
        3 => fails().prop_map(|fails| Action::SyncDir { fails }),
        1 => any::<bool>().prop_map(|keep| Action::PowerCut { keep }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_disk_is_what_the_model_says(actions in prop::collection::vec(actions(), 1..60)) {
        let disk = SimDisk::new(1, SimClock::new());
        let mut model = Model::default();
        for action in actions {
            act(&disk, action);
            model.act(action);
            prop_assert_eq!(look(&disk), model.look(false));
        }
        let durable = model.look(true);
        for (path, bytes) in &durable {
            prop_assert_eq!(&disk.read_durable(path).unwrap(), bytes);
        }
        disk.power_cut(PowerCut::LoseAll);
        prop_assert_eq!(look(&disk), durable);
    }

    /// Each byte after a random cut is the durable one, one of a write that was not synced, or a zero beyond the
    /// durable end; and what lies in no such write is untouched.
    #[test]
    fn a_random_cut_leaves_no_byte_that_was_never_written(
        seed in any::<u64>(),
        durable_len in 0_usize..9000,
        writes in prop::collection::vec((0_u64..9000, 1_usize..6000, 2_u8..), 0..6),
    ) {
        let disk = SimDisk::new(seed, SimClock::new());
        let file = disk.open(Path::new("/file"), OpenMode::CreateNew).unwrap();
        file.write_all_at(&vec![1; durable_len], 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        for (offset, len, byte) in &writes {
            file.write_all_at(&vec![*byte; *len], *offset).unwrap();
        }
        disk.power_cut(PowerCut::Random);
        let bytes = disk.read_file("/file").unwrap();
        prop_assert!(bytes.len() >= durable_len);
        for (index, byte) in bytes.iter().enumerate() {
            let written = writes.iter().any(|(offset, len, written)| {
                written == byte && (*offset as usize..*offset as usize + len).contains(&index)
            });
            let before = u8::from(index < durable_len);
            prop_assert!(written || *byte == before, "byte {} is {}", index, byte);
        }
    }
}
