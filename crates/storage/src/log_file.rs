use std::path::{Path, PathBuf};

use crate::paths;

/// A file of the log that a store keeps after everything in it is in tables: see [`crate::Options::keep_log_ms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogFile {
    /// A segment, by its number.
    Segment(u64),
    /// A large value that a record of a segment names.
    Large {
        /// The number of the segment.
        segment: u64,
        /// The number of the large value.
        file: u64,
    },
}

impl LogFile {
    /// What it is called, such as `log/000012.wal`, or `log/000012-000034.blob` for a large value.
    pub fn name(self) -> String {
        match self {
            LogFile::Segment(number) => format!("log/{number:06}.wal"),
            LogFile::Large { segment, file } => format!("log/{}", large_name(segment, file)),
        }
    }

    /// The file of this name; `None` if none is called that. So no path passes.
    pub fn parse(name: &str) -> Option<LogFile> {
        let inside = name.strip_prefix("log/")?;
        let file = match inside.split_once('-') {
            None => LogFile::Segment(paths::parse(inside, "", ".wal")?),
            Some(_) => {
                let (segment, file) = parse_large(inside)?;
                LogFile::Large { segment, file }
            }
        };
        // `0000012.wal` has a number, and is not its name.
        (file.name() == name).then_some(file)
    }
}

/// A segment of the log that is kept: groups from `first_sequence` on, up to and without `end_sequence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptSegment {
    /// Its number.
    pub number: u64,
    /// Its first group.
    pub first_sequence: u64,
    /// The first group of the next one.
    pub end_sequence: u64,
    /// When it was kept, in milliseconds since 1970.
    pub kept_ms: u64,
}

impl KeptSegment {
    /// Its file: all that there is to know of it is in its name, so that nothing has to be read when a store is opened.
    pub(crate) fn file_name(&self) -> String {
        let KeptSegment { number, first_sequence, end_sequence, kept_ms } = self;
        format!("{number:06}-{first_sequence:016x}-{end_sequence:016x}-{kept_ms:012x}.wal")
    }

    pub(crate) fn parse(name: &str) -> Option<KeptSegment> {
        let mut parts = name.strip_suffix(".wal")?.split('-');
        let number = paths::parse(parts.next()?, "", "")?;
        let mut hex = || u64::from_str_radix(parts.next()?, 16).ok();
        let (first_sequence, end_sequence, kept_ms) = (hex()?, hex()?, hex()?);
        let segment = KeptSegment { number, first_sequence, end_sequence, kept_ms };
        (first_sequence < end_sequence && segment.file_name() == name).then_some(segment)
    }
}

pub(crate) fn kept_dir(dir: &Path) -> PathBuf {
    dir.join("wal-kept")
}

pub(crate) fn large_name(segment: u64, file: u64) -> String {
    format!("{segment:06}-{file:06}.blob")
}

/// The segment and the number of a large value.
pub(crate) fn parse_large(name: &str) -> Option<(u64, u64)> {
    let (segment, file) = name.strip_suffix(".blob")?.split_once('-')?;
    let found = (paths::parse(segment, "", "")?, paths::parse(file, "", "")?);
    (large_name(found.0, found.1) == name).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_file_or_of_none() {
        for file in [LogFile::Segment(12), LogFile::Large { segment: 1_234_567, file: 7 }] {
            assert_eq!(LogFile::parse(&file.name()), Some(file));
        }
        for name in [
            "",
            "log/",
            "log/12.wal",
            "log/0000012.wal",
            "log/000012.blob",
            "log/000012-000034.wal",
            "log/000012-0000034.blob",
            "log/../CURRENT",
            "/log/000012.wal",
            "log//000012.wal",
            "wal/000012.wal",
            "log/000012.wal\0",
        ] {
            assert_eq!(LogFile::parse(name), None, "{name}");
        }
        let segment = KeptSegment { number: 3, first_sequence: 9, end_sequence: 12, kept_ms: 1 << 41 };
        assert_eq!(KeptSegment::parse(&segment.file_name()), Some(segment));
        for name in ["000003.wal", "000003-9-c-1.wal", &segment.file_name().to_uppercase(), "a-b-c-d.wal"] {
            assert_eq!(KeptSegment::parse(name), None, "{name}");
        }
    }
}
