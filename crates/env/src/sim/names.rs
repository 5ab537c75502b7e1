use super::power::{Fate, Fates, PowerCut};
use super::rng::SimRng;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

pub(super) type InodeId = u64;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    dir: PathBuf,
    name: String,
}

/// The files of one directory. (Directories are durable at once, so they are not entries: the map of all directories has them.)
#[derive(Debug, Default)]
struct Directory {
    current: BTreeMap<String, InodeId>,
    durable: BTreeMap<String, InodeId>,
}

/// One operation's changes to names: none of them survives without the others.
#[derive(Debug)]
struct Transaction {
    changes: Vec<(Place, Option<InodeId>)>,
}

/// All directories, and what happened to them and is not durable yet, in order.
#[derive(Debug)]
pub(super) struct Names {
    dirs: BTreeMap<PathBuf, Directory>,
    journal: Vec<Transaction>,
}

impl Names {
    pub(super) fn new() -> Self {
        Self { dirs: BTreeMap::from([(PathBuf::from("/"), Directory::default())]), journal: Vec::new() }
    }

    /// The place that a path names. `NotFound` if its directory does not exist.
    pub(super) fn place(&self, path: &Path) -> io::Result<Place> {
        let path = absolute(path);
        if self.dirs.contains_key(&path) {
            return Err(os_error(libc::EISDIR));
        }
        let name = path.file_name().and_then(OsStr::to_str).ok_or_else(|| os_error(libc::EINVAL))?;
        let dir = path.parent().filter(|dir| self.dirs.contains_key(*dir)).ok_or_else(not_found)?;
        Ok(Place { dir: dir.to_owned(), name: name.to_owned() })
    }

    pub(super) fn get(&self, place: &Place) -> Option<InodeId> {
        self.dirs.get(&place.dir)?.current.get(&place.name).copied()
    }

    pub(super) fn get_durable(&self, place: &Place) -> Option<InodeId> {
        self.dirs.get(&place.dir)?.durable.get(&place.name).copied()
    }

    /// Links or unlinks inodes; not durable until [`Names::sync`].
    pub(super) fn change(&mut self, changes: Vec<(Place, Option<InodeId>)>) {
        for (place, inode) in &changes {
            set(&mut self.dir_mut(&place.dir).current, &place.name, *inode);
        }
        self.journal.push(Transaction { changes });
    }

    /// The entries of a directory, sorted.
    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let dir = absolute(dir);
        let files = self.dirs.get(&dir).ok_or_else(not_found)?.current.keys().cloned();
        let inside = self.dirs.keys().filter(|path| path.parent() == Some(&dir));
        let dirs = inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let mut names: Vec<String> = files.chain(dirs).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// `AlreadyExists` if the directory, or one above it, has the name of a file.
    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        let dir = absolute(dir);
        let mut missing = Vec::new();
        for dir in dir.ancestors().take_while(|dir| !self.dirs.contains_key(*dir)) {
            missing.push(dir.to_owned());
        }
        if let Some(top) = missing.last()
            && self.get(&self.place(top)?).is_some()
        {
            return Err(os_error(libc::EEXIST));
        }
        self.dirs.extend(missing.into_iter().map(|dir| (dir, Directory::default())));
        Ok(())
    }

    pub(super) fn is_dir(&self, dir: &Path) -> bool {
        self.dirs.contains_key(&absolute(dir))
    }

    /// Makes the changes to a directory durable, and what they depend on elsewhere: the other side of a rename, and
    /// what happened to that name before.
    pub(super) fn sync(&mut self, dir: &Path) {
        for transaction in self.take_covered(&absolute(dir)) {
            self.make_durable(transaction);
        }
    }

    /// A sync that failed: what it covered is never going to be durable, as with [`super::inode::Inode::fail_sync`].
    pub(super) fn fail_sync(&mut self, dir: &Path) {
        drop(self.take_covered(&absolute(dir)));
    }

    pub(super) fn power_cut(&mut self, policy: PowerCut, rng: &SimRng) {
        let journal = std::mem::take(&mut self.journal);
        let fates = Fates::throw(policy, journal.len(), rng);
        let mut lost = BTreeSet::new();
        for (index, transaction) in journal.into_iter().enumerate() {
            let follows_lost = transaction.changes.iter().any(|(place, _)| lost.contains(place));
            // A transaction is whole or not there, so a torn one is gone.
            if follows_lost || fates.of(index, rng) != Fate::Kept {
                lost.extend(transaction.changes.into_iter().map(|(place, _)| place));
            } else {
                self.make_durable(transaction);
            }
        }
        for dir in self.dirs.values_mut() {
            dir.current = dir.durable.clone();
        }
    }

    /// Every name of a file.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let names = |(dir, files): (&PathBuf, &Directory)| -> Vec<PathBuf> {
            files.current.keys().map(|name| dir.join(name)).collect()
        };
        let mut paths: Vec<PathBuf> = self.dirs.iter().flat_map(names).collect();
        paths.sort_unstable();
        paths
    }

    /// The inodes that have a name.
    pub(super) fn linked(&self) -> BTreeSet<InodeId> {
        self.dirs.values().flat_map(|dir| dir.current.values()).copied().collect()
    }

    /// The inodes that have a name, or may have one after a power cut.
    pub(super) fn reachable(&self) -> BTreeSet<InodeId> {
        let durable = self.dirs.values().flat_map(|dir| dir.durable.values()).copied();
        let changes = self.journal.iter().flat_map(|transaction| &transaction.changes);
        let pending = changes.filter_map(|(_, inode)| *inode);
        self.linked().into_iter().chain(durable).chain(pending).collect()
    }

    fn take_covered(&mut self, dir: &Path) -> Vec<Transaction> {
        let mut needed = BTreeSet::new();
        let (mut covered, mut rest) = (Vec::new(), Vec::new());
        for transaction in std::mem::take(&mut self.journal).into_iter().rev() {
            if transaction.changes.iter().any(|(place, _)| place.dir == dir || needed.contains(place)) {
                needed.extend(transaction.changes.iter().map(|(place, _)| place.clone()));
                covered.push(transaction);
            } else {
                rest.push(transaction);
            }
        }
        covered.reverse();
        rest.reverse();
        self.journal = rest;
        covered
    }

    fn make_durable(&mut self, transaction: Transaction) {
        for (place, inode) in transaction.changes {
            set(&mut self.dir_mut(&place.dir).durable, &place.name, inode);
        }
    }

    fn dir_mut(&mut self, dir: &Path) -> &mut Directory {
        // Directories are never removed, and a place is only made in one that exists.
        self.dirs.get_mut(dir).expect("a place lies in a directory that exists")
    }
}

fn set(files: &mut BTreeMap<String, InodeId>, name: &str, inode: Option<InodeId>) {
    match inode {
        Some(inode) => files.insert(name.to_owned(), inode),
        None => files.remove(name),
    };
}

/// The path from the root; a relative one starts there.
fn absolute(path: &Path) -> PathBuf {
    let mut absolute = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => absolute.push(name),
            Component::ParentDir => drop(absolute.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    absolute
}

pub(super) fn os_error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

pub(super) fn not_found() -> io::Error {
    os_error(libc::ENOENT)
}
