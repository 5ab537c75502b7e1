//! A directory of this run, removed when the run ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stop::{OrFail, Outcome};

#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new directory in `parent`.
    pub(crate) fn new(parent: &Path) -> Outcome<Self> {
        remove_abandoned(parent);
        let path = parent.join(format!("run-{}", std::process::id()));
        fs::create_dir_all(&path).or_fail(|| format!("cannot create {}", path.display()))?;
        let path = path.canonicalize().or_fail(|| format!("cannot resolve {}", path.display()))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An empty folder with this name; what was there before is removed.
    pub(crate) fn fresh(&self, name: &str) -> Outcome<PathBuf> {
        let folder = self.path.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).or_fail(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).or_fail(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    pub(crate) fn remove(&self, name: &str) {
        // What is left behind goes with the whole directory.
        let _ = fs::remove_dir_all(self.path.join(name));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A run that was interrupted could not clean up; what is left of it may be gigabytes.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("run-")?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // If that fails, it is tried again next time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// How many bytes the files of a folder have.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Writes everything to disk and drops the page cache; false if we may not.
pub(crate) fn drop_page_cache() -> bool {
    Command::new("sync").status().is_ok_and(|status| status.success())
        && fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}
