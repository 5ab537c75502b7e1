//! Which files may hold `unsafe`. The reasons why each block is sound are checked by clippy's `undocumented_unsafe_blocks`.

use super::lexer::Views;
use super::{Finding, TextFile, find_word, numbered_lines};

/// Files, or all `*.rs` of one folder, and why they need it. Whoever adds one also runs it under Miri or a fuzzer.
const ALLOWED: [(&str, &str); 7] = [
    ("crates/ladoga/src/allocator.rs", "an option of the allocator, which has a C interface"),
    (
        "crates/env/src/real/*.rs",
        "system calls that std does not offer: fdatasync of a range, fallocate, io_uring",
    ),
    ("crates/storage/src/prefetch.rs", "an instruction that std does not offer"),
    ("crates/storage/src/memtable/*.rs", "the ordered arena that readers walk while one writer adds to it"),
    ("crates/lab/src/script/native.rs", "Lua scripts that load C, which a person allows by a flag"),
    ("crates/profiler/src/sys/*.rs", "calls that a signal handler may make, and the unwinder's interface"),
    ("crates/profiler/src/hooks/*.rs", "CPU timers, their signal handler, the global allocator's wrapper"),
];

pub(super) fn check(file: &TextFile, views: &Views) -> Vec<Finding> {
    if ALLOWED.iter().any(|(pattern, _)| matches(pattern, &file.path)) {
        return Vec::new();
    }
    numbered_lines(&views.code)
        .filter(|(_, code)| find_word(code, "unsafe").is_some())
        .map(|(line, _)| {
            let message = "`unsafe` in a file that is not listed: find a safe way, or list the file with its \
                           reason in crates/xtask/src/tidy/unsafe_code.rs";
            Finding::error(file, line, message.to_owned())
        })
        .collect()
}

fn matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix("*.rs") {
        Some(folder) => {
            let stem = path.strip_prefix(folder).and_then(|name| name.strip_suffix(".rs"));
            stem.is_some_and(|stem| !stem.contains('/'))
        }
        None => pattern == path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::lexer::split;

    fn lines(path: &str, source: &str) -> Vec<usize> {
        check(&TextFile::fixture(path, source), &split(source)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unsafe_is_found_outside_the_listed_files() {
        let source = "fn f() {\n    unsafe { g() }\n}\nunsafe impl Send for X {}\n";
        assert_eq!(lines("crates/node/src/lib.rs", source), [2, 4]);
        assert_eq!(lines("crates/env/src/lib.rs", source), [2, 4]);
        assert_eq!(lines("crates/env/src/real/deeper/a.rs", source), [2, 4]);
        assert_eq!(lines("crates/env/src/real/disk.rs", source), [0; 0]);
    }

    #[test]
    fn the_word_alone_is_no_unsafe_code() {
        let source = "#![forbid(unsafe_code)]\n// unsafe\nlet x = \"unsafe\";\n";
        assert_eq!(lines("crates/node/src/lib.rs", source), [0; 0]);
    }

    #[test]
    fn a_pattern_is_one_file_or_one_folder() {
        assert!(matches("a/b.rs", "a/b.rs"));
        assert!(!matches("a/b.rs", "a/c.rs"));
        assert!(matches("a/*.rs", "a/c.rs"));
        assert!(!matches("a/*.rs", "a/c.toml"));
    }
}
