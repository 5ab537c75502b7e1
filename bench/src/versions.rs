//! Which builds of all programs the figures are of.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::find_program;

/// The names of programs, and their versions.
pub(crate) type Versions = Vec<(String, String)>;

/// Of this package, which knows what its engine beside ours is.
const LOCK: &str = include_str!("../Cargo.lock");

/// The programs of the references, with what makes them tell their version.
const PROGRAMS: [(&str, &str, &str); 5] = [
    ("nginx", "nginx", "-v"),
    ("Redis", "redis-server", "--version"),
    ("RocksDB", "db_bench", "--version"),
    ("wrk", "wrk", "-v"),
    ("fio", "fio", "--version"),
];

/// Ours, the compiler's, and those of all references that are installed.
pub(crate) fn versions(root: &Path) -> Versions {
    let mut versions = vec![("ladoga".to_owned(), ladoga(root))];
    let mut add = |name: &str, version: Option<String>| {
        versions.extend(version.map(|version| (name.to_owned(), version)));
    };
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    add("rustc", version_in(&printed_by(Command::new(compiler).arg("--version"))));
    for (name, program, flag) in PROGRAMS {
        let text = find_program(program).ok().map(|path| printed_by(Command::new(path).arg(flag)));
        add(name, text.and_then(|text| version_in(&text)));
    }
    add("fjall", locked("fjall", LOCK));
    versions
}

/// The commit of the checkout. A binary that somebody names may be of another one.
fn ladoga(root: &Path) -> String {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--tags"]).current_dir(root);
    let commit = match git.stderr(Stdio::null()).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    };
    if std::env::var_os("LADOGA_BIN").is_some() {
        return format!("{commit}, the node as LADOGA_BIN names it");
    }
    commit
}

/// What a program prints on both streams, however it ends: wrk calls the question for its version a mistake.
fn printed_by(command: &mut Command) -> String {
    let Ok(output) = command.stdin(Stdio::null()).output() else { return String::new() };
    [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
}

/// The first word that holds a number with a point in it: `nginx/1.22.1`, `v=7.0.15`, `debian/4.1.0-3+b2`, `fio-3.33`.
fn version_in(text: &str) -> Option<String> {
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    line.split_whitespace().find_map(|word| {
        let number = &word[word.find(|c: char| c.is_ascii_digit())?..];
        number.contains('.').then(|| number.to_owned())
    })
}

/// The version of a package in a `Cargo.lock`.
fn locked(package: &str, lock: &str) -> Option<String> {
    let (_, rest) = lock.split_once(&format!("\nname = \"{package}\"\nversion = \""))?;
    rest.split_once('"').map(|(version, _)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, version) in [
            ("nginx version: nginx/1.22.1\n", "1.22.1"),
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0", "7.0.15"),
            ("wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer\nUsage: wrk", "4.1.0-3+b2"),
            ("fio-3.33\n", "3.33"),
            ("db_bench version 7.8.3\n", "7.8.3"),
            ("rustc 1.95.0 (59807616e 2026-04-14)", "1.95.0"),
        ] {
            assert_eq!(version_in(text).as_deref(), Some(version), "{text}");
        }
        assert_eq!(version_in("sh: not found"), None);
        assert_eq!(version_in(""), None);
    }

    #[test]
    fn the_engine_beside_ours_is_in_the_lock_file() {
        assert!(locked("fjall", LOCK).is_some_and(|version| version.starts_with("3.")));
        assert_eq!(locked("no-such-package", LOCK), None);
    }
}
