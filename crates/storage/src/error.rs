use std::io;
use std::path::PathBuf;

use ladoga_env::ReplaceError;

/// What can go wrong in the engine. Operating errors only: a broken promise of a caller asserts.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The disk refused an operation.
    #[error("{operation} {path}{} failed: {}", at_offset(*.offset), in_words(*.kind, *.code))]
    Io {
        /// What was tried: a verb.
        operation: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The offset in the file, for a read or write at one place.
        offset: Option<u64>,
        /// The kind of the system's error.
        kind: io::ErrorKind,
        /// The system's number for it.
        code: Option<i32>,
    },
    /// Bytes on disk are not those that were written.
    #[error("{path} is corrupt at offset {offset}: {what}: expected {expected}, found {found}")]
    Corruption {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// Which part of the format.
        what: &'static str,
        /// What the format, or the checksum, asks for.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A file is not there that has to be.
    #[error("{path} is missing, although {although}")]
    Missing {
        /// Which file.
        path: PathBuf,
        /// What says that it has to be there.
        although: String,
    },
    /// There is no room for more data. Deletes still work, and puts do again once there is room.
    #[error("the disk is full: {free_bytes} bytes are free, {needed_bytes} are needed")]
    DiskFull {
        /// Bytes that were free at the last look.
        free_bytes: u64,
        /// Bytes that have to be free before puts are accepted.
        needed_bytes: u64,
    },
    /// An earlier write or sync of the log or the manifest failed, so nothing can be promised until a reopen.
    #[error("writes are refused until the node is restarted: {reason}")]
    Poisoned {
        /// The first failure.
        reason: String,
    },
    /// A thread in the background panicked, so what it was at may be done in part.
    #[error("the thread {thread} panicked")]
    Panicked {
        /// Its name.
        thread: &'static str,
    },
    /// A write panicked, so what it was at may be done in part.
    #[error("a write panicked, and it is unknown how much of it was done")]
    WritePanicked,
    /// Another process has the directory.
    #[error("{path} is locked: another process is using this data directory")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The directory is not the one that was opened.
    #[error(
        "{path} is another file than was locked: the data directory was replaced, or something is mounted over it"
    )]
    Replaced {
        /// The lock file.
        path: PathBuf,
    },
    /// The directory is not where it was.
    #[error(
        "{path} is gone: the data directory was removed, moved or unmounted; bring it back before the restart"
    )]
    Gone {
        /// The lock file.
        path: PathBuf,
    },
    /// A restore was interrupted, or it failed, so the directory has some of its files at most.
    #[error("a restore into {dir} was not completed: remove the directory and restore again")]
    RestoreNotCompleted {
        /// The data directory.
        dir: PathBuf,
    },
    /// A file is of a format that this release does not know.
    #[error("{path} has format version {found}; this release reads versions up to {supported}")]
    NewerFormat {
        /// Which file.
        path: PathBuf,
        /// The version that it carries.
        found: u32,
        /// The newest version that can be read.
        supported: u32,
    },
    /// A setting is out of its range.
    #[error("{setting} is {value}, expected {expected}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// What was given.
        value: String,
        /// What is possible.
        expected: &'static str,
    },
    /// A batch is too long for a memtable.
    #[error("a batch of {records} records takes {bytes} bytes, expected at most {bytes_max}")]
    BatchTooLarge {
        /// How many records it has.
        records: u64,
        /// What they take of the log, or of memory.
        bytes: u64,
        /// What fits.
        bytes_max: u64,
    },
    /// A snapshot was given up because what it kept alive no longer fitted into the memory budget.
    #[error("the snapshot is too old: it held {pinned_bytes} bytes of memory that are needed elsewhere")]
    SnapshotTooOld {
        /// Bytes of memtables that it kept.
        pinned_bytes: u64,
    },
    /// The engine was closed.
    #[error("the store is closed")]
    Closed,
}

fn at_offset(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at offset {offset}"))
}

/// The system's message if there is an error number: that is more precise than the kind.
fn in_words(kind: io::ErrorKind, code: Option<i32>) -> String {
    match (code, kind) {
        (Some(code), _) => io::Error::from_raw_os_error(code).to_string(),
        // "Entity not found" are words of the library only.
        (None, io::ErrorKind::NotFound) => "No such file or directory".to_owned(),
        (None, kind) => kind.to_string(),
    }
}

impl From<ReplaceError> for Error {
    fn from(ReplaceError { operation, path, error }: ReplaceError) -> Error {
        Error::io(operation, path)(error)
    }
}

impl Error {
    /// An error of the disk, with the operation and its path.
    pub(crate) fn io(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        // The path is copied only if there is an error.
        move |error| Error::failed(operation, path.into(), None, &error)
    }

    /// The same of a read or write at one place of a file.
    pub(crate) fn io_at(
        operation: &'static str,
        path: impl Into<PathBuf>,
        offset: u64,
    ) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::failed(operation, path.into(), Some(offset), &error)
    }

    fn failed(operation: &'static str, path: PathBuf, offset: Option<u64>, error: &io::Error) -> Error {
        Error::Io { operation, path, offset, kind: error.kind(), code: error.raw_os_error() }
    }

    /// Whether the disk had no room, or none for this user.
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Error::DiskFull { .. } | Error::Io { kind: StorageFull | QuotaExceeded, .. })
    }

    /// Whether the process, or the system, has as many files open as it may have. Nothing was tried then: what needs one more
    /// works once others are closed.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Error::Io { code, .. } if ladoga_env::is_out_of_descriptors(*code))
    }

    /// Whether it is a condition that may pass by itself, such as a full disk.
    pub(crate) fn may_pass(&self) -> bool {
        self.is_disk_full() || self.is_out_of_descriptors()
    }

    /// Whether bytes on disk were not those that had been written, or a whole file was gone.
    pub fn is_corruption(&self) -> bool {
        matches!(self, Error::Corruption { .. } | Error::Missing { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many errors used to read "uncategorized error".
    #[test]
    fn an_error_of_the_system_is_told_in_its_words() {
        let too_many = io::Error::from_raw_os_error(24);
        let told = Error::io("open", "a.sst")(too_many).to_string();
        assert_eq!(told, "open a.sst failed: Too many open files (os error 24)");
        assert!(Error::io("open", "a.sst")(io::Error::from_raw_os_error(24)).may_pass());
        let no_quota = Error::io("allocate", "a.wal")(io::Error::from_raw_os_error(122));
        assert_eq!(no_quota.to_string(), "allocate a.wal failed: Disk quota exceeded (os error 122)");
        assert!(no_quota.is_disk_full(), "writes come back when there is room again, as on a full disk");
        let told = Error::io_at("read", "a.sst", 7)(io::ErrorKind::UnexpectedEof.into()).to_string();
        assert_eq!(told, "read a.sst at offset 7 failed: unexpected end of file");
        let told = Error::io("open", "CURRENT")(io::ErrorKind::NotFound.into()).to_string();
        assert_eq!(told, "open CURRENT failed: No such file or directory");
    }
}
