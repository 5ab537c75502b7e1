//! Directories that checkpoints are made in. A disk of ours removes files and no directories, so they stay, empty.

use std::io;
use std::path::{Path, PathBuf};

use ladoga_env::Disk;

use crate::error::Error;

/// The folders of a checkpoint, and the directory itself.
const FOLDERS: [&str; 4] = ["wal", "tables", "blobs", ""];

/// All files of a checkpoint, or of what a crash left of one.
pub fn slot_files(disk: &dyn Disk, slot: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        let dir = slot.join(folder);
        let names = match disk.list(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            names => names.map_err(Error::io("list", &dir))?,
        };
        let is_file = |name: &String| !(folder.is_empty() && FOLDERS.contains(&name.as_str()));
        files.extend(names.into_iter().filter(is_file).map(|name| dir.join(name)));
    }
    Ok(files)
}

/// Removes them. `CURRENT` goes first: what is left is no store.
pub fn empty_slot(disk: &dyn Disk, slot: &Path) -> Result<(), Error> {
    let mut files = slot_files(disk, slot)?;
    files.sort_by_key(|path| path.file_name() != Some("CURRENT".as_ref()));
    for path in files {
        disk.remove(&path).map_err(Error::io("remove", &path))?;
    }
    Ok(())
}
