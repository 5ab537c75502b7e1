//! Names of the files in a data directory.

use std::io;
use std::path::{Path, PathBuf};

use ladoga_env::{Disk, FileIdentity, OpenMode};

/// Locked by the process whose directory it is.
pub const LOCK: &str = "LOCK";
pub(crate) const CURRENT: &str = "CURRENT";
/// The root of many file systems has it. It is not for programs.
pub const LOST_AND_FOUND: &str = "lost+found";
/// The mark of a restore that is not completed.
pub const RESTORING: &str = "RESTORING";

/// No store makes as many files; a greater number is none of ours, and leaves no room for the ones to come.
pub(crate) const NUMBER_MAX: u64 = 1 << 48;

pub(crate) fn wal_dir(dir: &Path) -> PathBuf {
    dir.join("wal")
}

pub(crate) fn tables_dir(dir: &Path) -> PathBuf {
    dir.join("tables")
}

/// How many tables a data directory has; none if it is no data directory, or does not exist yet.
pub fn count_tables(disk: &dyn Disk, dir: &Path) -> usize {
    let names = disk.list(&tables_dir(dir)).unwrap_or_default();
    names.iter().filter(|name| parse(name, "", ".sst").is_some()).count()
}

/// Which file it is that has this name.
pub(crate) fn identity(disk: &dyn Disk, path: &Path) -> io::Result<FileIdentity> {
    disk.open(path, OpenMode::Read)?.identity()
}

pub(crate) fn blobs_dir(dir: &Path) -> PathBuf {
    dir.join("blobs")
}

pub(crate) fn wal(dir: &Path, number: u64) -> PathBuf {
    wal_dir(dir).join(format!("{number:06}.wal"))
}

pub(crate) fn table(dir: &Path, number: u64) -> PathBuf {
    tables_dir(dir).join(format!("{number:06}.sst"))
}

pub(crate) fn blob(dir: &Path, number: u64) -> PathBuf {
    blobs_dir(dir).join(format!("{number:06}.blob"))
}

pub(crate) fn manifest_name(number: u64) -> String {
    format!("manifest-{number:06}")
}

/// The number in a name such as `000012.sst` or `manifest-000012`.
pub(crate) fn parse(name: &str, prefix: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    if digits.len() < 6 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|number| *number <= NUMBER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_back_their_numbers() {
        assert_eq!(parse("000012.sst", "", ".sst"), Some(12));
        assert_eq!(parse("1234567.wal", "", ".wal"), Some(1_234_567));
        assert_eq!(parse(&manifest_name(3), "manifest-", ""), Some(3));
        assert_eq!(parse(&format!("{NUMBER_MAX}.sst"), "", ".sst"), Some(NUMBER_MAX));
        assert_eq!(parse(&format!("{}.sst", u64::MAX), "", ".sst"), None);
        assert_eq!(parse("12.sst", "", ".sst"), None);
        assert_eq!(parse("00001x.sst", "", ".sst"), None);
        assert_eq!(parse("CURRENT", "manifest-", ""), None);
    }
}
