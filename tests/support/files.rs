use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A new directory, removed with everything in it when this is dropped.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("a directory for a test");
        Directory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left behind is in the target directory and disturbs nothing.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Every file below `directory`, with its length, sorted by path.
pub(crate) fn files_below(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                pending.push(entry.path());
            } else {
                found.push((entry.path(), metadata.len()));
            }
        }
    }
    found.sort();
    found
}

/// Turns one bit of a file over. Doing it twice restores the file.
pub(crate) fn flip_bit(file: &Path, offset: usize, bit: u8) {
    let mut bytes = fs::read(file).expect("a file to damage");
    bytes[offset] ^= 1 << bit;
    fs::write(file, bytes).expect("a damaged file");
}

/// The place of `needle` in a file.
pub(crate) fn find_bytes(file: &Path, needle: &[u8]) -> Option<usize> {
    let bytes = fs::read(file).expect("a file to search");
    let first = needle[0];
    let mut from = 0;
    while let Some(step) = bytes[from..].iter().position(|&byte| byte == first) {
        let at = from + step;
        if bytes[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}
