use std::io;
use std::path::{Path, PathBuf};

use ladoga_env::ReplaceError;

/// Why a backup was not taken, verified, pruned or restored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk refused an operation.
    #[error("{operation} {} failed: {error}", path.display())]
    Io {
        /// What was tried: a verb.
        operation: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The engine says what is wrong with a file.
    #[error(transparent)]
    Store(#[from] ladoga_storage::Error),
    /// A file of the repository is not as it was written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A directory has other things in it.
    #[error("{} is no repository of backups: it has {found} in it; expected an empty directory, or one that `ladoga backup create` made", path.display())]
    NoRepository {
        /// Which directory.
        path: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// There is no repository there.
    #[error("{} has no backups: expected a directory that `ladoga backup create` made", path.display())]
    NoBackups {
        /// Which directory.
        path: PathBuf,
    },
    /// There is more to write down than can be read again.
    #[error("{} is not written: it would have {bytes} bytes or more, and of a list no more than {bytes_max} can be read again; {advice}", path.display())]
    ListTooLong {
        /// The list of a backup, or of a log.
        path: PathBuf,
        /// How long it would be.
        bytes: u64,
        /// The longest that is read.
        bytes_max: u64,
        /// What to do.
        advice: &'static str,
    },
    /// The repository is of a later release.
    #[error("{} has format {found}; this release knows format {supported}", path.display())]
    NewerFormat {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest that is known.
        supported: u64,
    },
    /// Somebody else changes the repository.
    #[error("{} is in use: another process changes it", path.display())]
    Busy {
        /// Which directory.
        path: PathBuf,
    },
    /// There is no backup of that name.
    #[error("there is no backup {id} in {}; `ladoga backup list` shows those that there are", path.display())]
    Unknown {
        /// What was asked for.
        id: String,
        /// The repository.
        path: PathBuf,
    },
    /// The newest backup is asked for, and there is one of each of several.
    #[error(
        "{} has backups of {} nodes or clusters: say with --backup which one is meant. The newest of each: {}",
        path.display(),
        newest.len(),
        newest.join("; ")
    )]
    SeveralOrigins {
        /// The repository.
        path: PathBuf,
        /// The newest backup of each, with its nodes.
        newest: Vec<String>,
    },
    /// Where something is to be restored, there is something.
    #[error("{} is not empty: it has {found} in it; expected a directory that is new or empty", path.display())]
    NotEmpty {
        /// Which directory.
        path: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// Where something is to be restored, a restore ended before it was complete.
    #[error(
        "{} holds a restore that was not completed: it has {found} in it. It is of no use to a node; remove the directory, and restore \
         again",
        path.display()
    )]
    Unfinished {
        /// Which directory.
        path: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// Where something is to be restored, somebody else does that, or serves what is there.
    #[error("{} is in use: another process restores into it, or serves it; expected a directory of its own", path.display())]
    TargetBusy {
        /// Which directory.
        path: PathBuf,
    },
    /// Nothing in the repository leads to that point in time.
    #[error("{at} cannot be restored: {reachable}")]
    OutOfReach {
        /// The point in time.
        at: String,
        /// Those that can be.
        reachable: String,
    },
    /// Where a checkpoint is, it does not give its bytes, or others than it said.
    #[error("{0}")]
    Source(String),
    /// Where a log is, a file of it is not there, or not any more.
    #[error("{0}")]
    Absent(String),
    /// Where a log is, a file of it is there and cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

impl Error {
    pub(crate) fn io<'p>(
        operation: &'static str,
        path: &'p Path,
    ) -> impl FnOnce(io::Error) -> Error + use<'p> {
        move |error| Error::Io { operation, path: path.to_owned(), error }
    }

    /// Whether there was no room on the disk.
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Error::Io { error, .. } => matches!(error.kind(), StorageFull | QuotaExceeded),
            Error::Store(error) => error.is_disk_full(),
            _ => false,
        }
    }
}

impl From<ReplaceError> for Error {
    fn from(ReplaceError { operation, path, error }: ReplaceError) -> Error {
        Error::Io { operation, path, error }
    }
}
