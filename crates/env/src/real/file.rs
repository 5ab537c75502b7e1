use super::syscall;
use crate::{File, FileIdentity};
use parking_lot::RwLock;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::UNIX_EPOCH;

/// An open file of the operating system.
#[derive(Debug)]
pub(super) struct RealFile {
    file: std::fs::File,
    /// Taken exclusively to shorten the file, shared by writes: undoing a failed allocation must not cut off what a write has
    /// appended in between. (The kernel holds the inode's lock for either anyway.)
    length: RwLock<()>,
}

impl RealFile {
    pub(super) fn new(file: std::fs::File) -> Self {
        Self { file, length: RwLock::new(()) }
    }

    fn reserve(&self, before: u64, len: u64) -> io::Result<()> {
        // Without enough space ext4 takes what there is before it fails, and other writers would find the disk full meanwhile.
        if len.saturating_sub(before) > syscall::free_bytes(&self.file)? {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        loop {
            match syscall::allocate(&self.file, len) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    return self.fill_with_zeros(before, len);
                }
                result => return result,
            }
        }
    }

    /// As `posix_fallocate` does if the file system cannot reserve.
    fn fill_with_zeros(&self, before: u64, len: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        let mut end = before;
        while end < len {
            let count = (len - end).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..count as usize], end)?;
            end += count;
        }
        Ok(())
    }
}

impl File for RealFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn try_read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        match syscall::read_cached(&self.file, buffer, offset) {
            // A short read may be a part that is cached, or the end of the file; the read that waits finds out which.
            Ok(read) => Ok(read == buffer.len()),
            Err(error) => match error.raw_os_error() {
                // It would wait; or the file system or the kernel has no reads that refuse to.
                Some(libc::EAGAIN | libc::EINTR | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let _length = self.length.read();
        self.file.write_all_at(buffer, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        // The system call refuses a length of 0.
        if len == 0 {
            return Ok(());
        }
        let _length = self.length.write();
        let before = self.file.metadata()?.len();
        self.reserve(before, len).inspect_err(|_| {
            // Frees the part that was reserved. If that fails too, the first error is the more useful one.
            let _ = self.file.set_len(before);
        })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let _length = self.length.write();
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn start_writeback(&self, offset: u64, len: u64) {
        // To the system call a length of 0 means "to the end of the file".
        if len != 0 {
            // A hint only: the next `sync_data` reports what is wrong with the disk.
            let _ = syscall::start_writeback(&self.file, offset, len);
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        let metadata = self.file.metadata()?;
        // Not every file system keeps when a file was born; then its number has to do.
        let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born_ns = born.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        Ok(FileIdentity { number: metadata.ino(), born_ns })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "this is the seam")]

    use super::*;

    #[test]
    fn zeros_fill_what_cannot_be_reserved() {
        let path = std::env::temp_dir().join(format!("ladoga-env-zeros-{}", std::process::id()));
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let file = RealFile::new(file);
        file.write_all_at(b"abc", 0).unwrap();
        file.fill_with_zeros(3, 200_000).unwrap();
        assert_eq!(file.len().unwrap(), 200_000);
        let mut bytes = vec![1; 200_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes[..3], b"abc");
        assert!(bytes[3..].iter().all(|&byte| byte == 0));
    }
}
