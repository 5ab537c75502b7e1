use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// How [`Disk::open`] opens a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, to be read.
    Read,
    /// An existing file, to be read and written.
    ReadWrite,
    /// A file that must not exist yet, to be read and written.
    CreateNew,
}

/// A file system, as far as a storage engine needs one.
///
/// What may be lost by a power cut: bytes written and not followed by [`File::sync_data`], and files created,
/// renamed, linked or removed and not followed by [`Disk::sync_dir`] of their directory.
pub trait Disk: Send + Sync {
    /// Opens a file. `NotFound` and `AlreadyExists` mean what they say.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;

    /// The names (not paths) of the entries of a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// The entries of a directory that has nothing but files, and the length of each.
    fn list_lengths(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        let length = |name: String| {
            let bytes = self.open(&dir.join(&name), OpenMode::Read)?.len()?;
            Ok((name, bytes))
        };
        self.list(dir)?.into_iter().map(length).collect()
    }

    /// Creates a directory and its missing parents, durably; one that exists is fine.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Renames a file, replacing one of the new name, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Gives a file a second name (in the same file system).
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes what happened to the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Bytes that can still be written in the file system that holds `dir`.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// Takes the lock file `path` (created if absent), for as long as the returned lock lives. `WouldBlock` if it is taken.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;

    /// A ring for the calling thread, for at most `reads_max` reads at a time. Fails if the system permits none: then threads
    /// that wait have to read.
    fn read_ring(&self, reads_max: usize) -> io::Result<Box<dyn ReadRing>> {
        let _ = reads_max;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The identity of a file in its file system. A copy has another number; or, if the number is used again, a later birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileIdentity {
    /// The number of its inode.
    pub number: u64,
    /// When it was created, in nanoseconds since 1970; 0 if the file system does not record that.
    pub born_ns: u64,
}

/// A held lock file; dropping it gives it back.
pub trait Lock: Send + Sync {}

/// An open file. All methods may be called from any thread; closing happens on drop.
pub trait File: Send + Sync {
    /// Fills `buffer` from `offset` on; `UnexpectedEof` if the file ends before that.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// As [`File::read_exact_at`], but answers `false` at once if that would have to wait for the disk.
    fn try_read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool>;

    /// Writes all of `buffer` at `offset`, growing the file if needed.
    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()>;

    /// Reserves space for the bytes up to `len` (and makes the file that long), so that later writes below `len` do not fail
    /// for lack of space. New bytes read as zero. `StorageFull` if there is not enough, and then the file is as before. (No
    /// other handle may append to the file at the same time.)
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Cuts the file off at `len`.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Makes the written bytes, and the length, durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Starts writing back dirty bytes in the range without waiting for them; a hint, never an error.
    fn start_writeback(&self, offset: u64, len: u64);

    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// What distinguishes the file from every copy of it; the default if the system does not tell. It survives renaming the
    /// file and restarting the machine.
    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(FileIdentity::default())
    }

    /// The descriptor of the file, if it is one of the system.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether there are no bytes in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Bytes of a file that are to be read.
#[derive(Clone)]
pub struct FilePart {
    /// The file; open until the read has ended.
    pub file: Arc<dyn File>,
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub len: usize,
}

/// A read that has ended.
#[derive(Debug)]
pub struct EndedRead {
    /// What it was pushed with.
    pub token: u64,
    /// All of its bytes; `UnexpectedEof` if the file ends before that, `WouldBlock` if the ring could not read it, whatever its disk can.
    pub bytes: io::Result<Vec<u8>>,
}

/// Reads in flight while their thread does something else. It belongs to one thread.
///
/// Protocol: `(push* turn)*`; after a push, and whenever [`ReadRing::descriptor`] becomes readable, a turn. Dropping a ring
/// waits for the reads in flight, because the system still writes to their buffers; their results are lost.
pub trait ReadRing {
    /// Takes a read for the next turn.
    ///
    /// # Panics
    /// If as many are in flight as the ring was made for.
    fn push(&mut self, token: u64, part: FilePart);

    /// Submits what was pushed, and appends to `ended` what has ended, in any order. Does not wait. An error means that the
    /// system takes no reads now: none is lost, and a later turn tries again.
    fn turn(&mut self, ended: &mut Vec<EndedRead>) -> io::Result<()>;

    /// A descriptor that becomes readable when a read has ended that no turn has returned. `None` if each read ends in the turn
    /// that submits it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}
