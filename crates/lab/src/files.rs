//! The files on the command line, and files of the system.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{LabError, Outcome};

pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

#[expect(
    clippy::disallowed_methods,
    reason = "scripts are no part of a store; its disk seam is not for them"
)]
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// The names of what is in a directory.
#[expect(clippy::disallowed_methods, reason = "directories of /proc, which no store has")]
pub(crate) fn names(path: &Path) -> io::Result<Vec<String>> {
    let entries = std::fs::read_dir(path)?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// What the links in a directory lead to.
#[expect(clippy::disallowed_methods, reason = "directories of /proc, which no store has")]
pub(crate) fn links(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(path)?;
    // One may be gone by now.
    Ok(entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect())
}

/// A short name of a file's bytes: the same bytes, the same name.
#[expect(
    clippy::disallowed_methods,
    reason = "reports are no part of a store; its disk seam is not for them"
)]
pub(crate) fn digest(path: &Path) -> io::Result<String> {
    Ok(format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&std::fs::read(path)?)))
}

/// Fails if [`replace`] is going to. Checked before anything is measured; an existing file stays as it is.
#[expect(
    clippy::disallowed_methods,
    reason = "reports are no part of a store; its disk seam is not for them"
)]
pub(crate) fn check_writable(path: &Path) -> Outcome<()> {
    let check = || match Place::of(path) {
        Place::Stream => Ok(()),
        Place::File { part, is_there, .. } => {
            if is_there {
                std::fs::OpenOptions::new().write(true).open(path)?;
            }
            std::fs::File::create(&part)?;
            std::fs::remove_file(&part)
        }
        Place::Directory => Err(io::ErrorKind::IsADirectory.into()),
    };
    check().map_err(|source| LabError::Write { path: path.to_owned(), source })
}

/// Whether both name the same file, so that one would replace the other. A pipe or a device takes both.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path| match Place::of(path) {
        Place::File { real, .. } => Some(real),
        Place::Stream | Place::Directory => None,
    };
    real(one).is_some_and(|one| real(other) == Some(one))
}

/// The file that is being written, under the name that it has until it is whole.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Removes a file that is being written, in a process that is about to end.
#[expect(
    clippy::disallowed_methods,
    reason = "reports are no part of a store; its disk seam is not for them"
)]
pub(crate) fn remove_unfinished() {
    if let Some(part) = unfinished(None) {
        let _ = std::fs::remove_file(part); // It may have got its name by now.
    }
}

/// Notes the file that is being written from now on; answers the last one.
fn unfinished(part: Option<PathBuf>) -> Option<PathBuf> {
    std::mem::replace(&mut *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner), part)
}

/// Replaces a file as a whole: a reader sees the old file or the new one.
#[expect(
    clippy::disallowed_methods,
    reason = "reports are no part of a store; its disk seam is not for them"
)]
pub(crate) fn replace(path: &Path, bytes: impl AsRef<[u8]>) -> Outcome<()> {
    let replace = || match Place::of(path) {
        Place::Stream => std::fs::write(path, &bytes),
        Place::File { real, part, .. } => {
            unfinished(Some(part.clone()));
            let replaced = std::fs::write(&part, &bytes).and_then(|()| std::fs::rename(&part, &real));
            unfinished(None);
            let Err(error) = replaced else { return Ok(()) };
            let _ = std::fs::remove_file(&part);
            // One that is mounted by itself can be written and not replaced.
            if error.kind() == io::ErrorKind::ResourceBusy {
                std::fs::write(&real, &bytes)
            } else {
                Err(error)
            }
        }
        Place::Directory => Err(io::ErrorKind::IsADirectory.into()),
    };
    replace().map_err(|source| LabError::Write { path: path.to_owned(), source })
}

/// What the path of an output file names.
enum Place {
    File {
        /// Where it is, or would be; for a link the place that it leads to.
        real: PathBuf,
        /// Beside it, under another name until it is whole.
        part: PathBuf,
        is_there: bool,
    },
    /// A pipe or a device, which has no name to give to something else.
    Stream,
    Directory,
}

impl Place {
    fn of(path: &Path) -> Place {
        let found = std::fs::metadata(path);
        match &found {
            Ok(found) if found.is_dir() => return Place::Directory,
            Ok(found) if !found.is_file() => return Place::Stream,
            _ => {}
        }
        let real = std::fs::canonicalize(path).or_else(|_| {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = std::fs::canonicalize(parent.unwrap_or(Path::new(".")))?;
            Ok::<_, io::Error>(parent.join(path.file_name().unwrap_or_default()))
        });
        let real = real.unwrap_or_else(|_| path.to_owned());
        let mut name = real.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        Place::File { part: real.with_file_name(name), real, is_there: found.is_ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// As on a full disk, it was emptied.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "reports are no part of a store")]
    fn what_cannot_be_replaced_stays_as_it_is() {
        let directory = Scratch::new(&std::env::temp_dir(), u32::MAX).expect("a directory");
        let report = directory.path().join("report.html");
        replace(&report, "earlier").expect("room");
        let Place::File { part, .. } = Place::of(&report) else { panic!("a file") };
        std::fs::create_dir(&part).expect("something in the way of the next one");
        assert!(replace(&report, "later").is_err());
        assert_eq!(read_text(&report).expect("the earlier one"), "earlier");
        std::fs::remove_dir(&part).expect("nothing in the way");
        replace(&report, "later").expect("room");
        assert_eq!(read_text(&report).expect("the later one"), "later");
    }
}
