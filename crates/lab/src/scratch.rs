//! A directory of its own for a node that is measured.

use std::fs::{DirEntry, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::output::stderr_line;

/// The beginning of the name of such a directory; the number of the process follows, and that of the directory: `PID-N`.
const PREFIX: &str = "ladoga-lab-run-";

/// Gone with everything in it when this is dropped. If the process is killed before that, the next one removes it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// The directory itself, locked: a directory without a lock was left behind.
    _lock: File,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a directory for a node of its own; the node's files go through its seam"
)]
impl Scratch {
    /// In a directory that is there. Removes what killed processes left in it.
    pub(crate) fn new(parent: &Path, number: u32) -> io::Result<Self> {
        for entry in std::fs::read_dir(parent)?.flatten() {
            remove_if_left_behind(&entry);
        }
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        loop {
            std::fs::create_dir(&path)?;
            match locked(&path, FlockOperation::LockExclusive) {
                Ok(lock) if path.is_dir() => return Ok(Self { path, _lock: lock }),
                // Another process took it for one that was left behind, before it was locked.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            stderr_line(format_args!("ladoga lab: {} was left behind: {error}", self.path.display()));
        }
    }
}

/// A directory that cannot be opened or removed belongs to another user, who has to remove it.
fn remove_if_left_behind(entry: &DirEntry) {
    if is_name_of_scratch(&entry.file_name().to_string_lossy())
        && entry.file_type().is_ok_and(|kind| kind.is_dir()) // Not a link to one.
        && let Ok(_lock) = locked(&entry.path(), FlockOperation::NonBlockingLockExclusive)
    {
        let _ = std::fs::remove_dir_all(entry.path());
    }
}

/// A person may keep reports in a directory whose name begins in the same way.
fn is_name_of_scratch(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

#[expect(clippy::disallowed_methods, reason = "as above")]
fn locked(path: &Path, how: FlockOperation) -> io::Result<File> {
    let directory = File::open(path)?;
    flock(&directory, how)?;
    Ok(directory)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "as above")]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_removed_by_the_next_one() {
        let parent = Scratch::new(&std::env::temp_dir(), u32::MAX - 1).unwrap();
        let held = Scratch::new(parent.path(), 1).unwrap();
        let left = parent.path().join(format!("{PREFIX}1-1"));
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("file"), "x").unwrap();
        let next = Scratch::new(parent.path(), 2).unwrap();
        assert!(!left.exists() && held.path().exists() && next.path().exists());
        drop(held);
        assert!(next.path().exists());
        let absent = Scratch::new(&parent.path().join("absent"), 3).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound);
        assert!(!parent.path().join("absent").exists(), "it was not made");
    }

    /// A person's reports in `ladoga-lab-run-monday` were removed with it.
    #[test]
    fn what_it_did_not_make_itself_stays() {
        let parent = Scratch::new(&std::env::temp_dir(), u32::MAX - 2).unwrap();
        let suffixes = ["monday", "", "1", "1-", "-1", "1-1-1", "1-a", "2026-11-30", "+1-1"];
        let named: Vec<PathBuf> =
            suffixes.iter().map(|suffix| parent.path().join(format!("{PREFIX}{suffix}"))).collect();
        for path in &named {
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join("report.html"), "x").unwrap();
        }
        let (link, file) =
            (parent.path().join(format!("{PREFIX}1-1")), parent.path().join(format!("{PREFIX}1-2")));
        std::os::unix::fs::symlink(&named[0], &link).unwrap();
        std::fs::write(&file, "x").unwrap();
        let _next = Scratch::new(parent.path(), 2).unwrap();
        let gone: Vec<&PathBuf> = named.iter().filter(|path| !path.join("report.html").exists()).collect();
        assert!(gone.is_empty(), "{gone:?}");
        assert!(link.is_symlink() && file.exists());
    }
}
