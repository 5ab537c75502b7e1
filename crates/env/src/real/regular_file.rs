use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a file of an operator: tokens, certificates, or what a command has noted. It is no part of a store, so it is not behind the seam of
/// the disk. Reads one byte more than `bytes_max` if there are more.
///
/// # Errors
/// If it cannot be read, or is no regular file: a pipe would be waited for, maybe for ever.
#[expect(clippy::disallowed_methods, reason = "no part of a store")]
pub fn read_regular_file(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(without_waiting).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "expected a regular file"));
    }
    let mut content = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the real one is tested")]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound_and_a_pipe_is_not_waited_for() {
        let directory = std::env::temp_dir().join(format!("ladoga-env-regular-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("file");
        fs::write(&path, "12345").expect("a file");
        assert_eq!(read_regular_file(&path, 5).expect("it is read"), b"12345");
        assert_eq!(read_regular_file(&path, 3).expect("it is read"), b"1234");
        let pipe = directory.join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        for odd in [&pipe, &directory] {
            let error = read_regular_file(odd, 5).expect_err("it is no file");
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        fs::remove_dir_all(&directory).expect("it goes");
    }
}
