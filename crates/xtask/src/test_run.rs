//! The tests, and those of them that this machine cannot run: a test that was skipped must not look like one that passed.

use std::io::ErrorKind;
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;

use crate::test_programs::{self, Program, WHICH};
use crate::workspace::Workspace;
use crate::{Outcome, TaskResult, again, cargo};

/// Programs without which tests are skipped (`skip_without` in `tests/support/skip.rs`). If one is installed, a test that does
/// not find it fails.
const TOOLS: [&str; 5] = ["cc", "chromium", "faketime", "go", "tclsh"];

/// What the test programs take their number of threads from; who sets it, knows better.
const THREADS: &str = "RUST_TEST_THREADS";

/// Tests of a program that run at a time, for each core. Most of them wait most of the time: for a node, a disk, an interval.
const THREADS_PER_CORE: usize = 2;

/// Runs all tests, whatever fails: on a build machine that nobody can log in to, one failure must not hide others.
pub(crate) fn task(workspace: &Workspace) -> TaskResult {
    let list = cargo::target_dir(workspace).join("skipped-tests.txt");
    match std::fs::remove_file(&list) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(format!("{}: cannot be removed: {error}", list.display()));
        }
        _ => {}
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut programs = test_programs::build(workspace)?;
    let documentation =
        cargo::command(workspace, &[&["test", "--doc", "--no-fail-fast"], &WHICH[..]].concat());
    programs.push(Program { name: "the documentation".to_owned(), command: documentation });
    let installed: Vec<&str> = TOOLS.into_iter().filter(|tool| is_installed(tool)).collect();
    for Program { command, .. } in &mut programs {
        command.env("LADOGA_SKIPPED_TESTS", &list).env("LADOGA_TEST_TOOLS", installed.join(" "));
        if std::env::var_os(THREADS).is_none() {
            command.env(THREADS, (THREADS_PER_CORE * cores).to_string());
        }
    }
    let folder = cargo::target_dir(workspace).join("test-output");
    let total = programs.len();
    let failed = test_programs::run_all(programs, cores, &folder, &Mutex::new(std::io::stdout()))?;
    let (passed_again, failed) = again::run(failed, &folder);
    if failed.is_empty() {
        return outcome(&list, &passed_again);
    }
    Err(format!("{} of {total} test programs failed: {}", failed.len(), failed.join(", ")))
}

/// The outcome of a run that passed, with the list of skipped tests, and those that passed only when they ran again, alone.
fn outcome(list: &Path, passed_again: &[String]) -> TaskResult {
    let text = match std::fs::read_to_string(list) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("{}: cannot be read: {error}", list.display())),
    };
    let mut skipped: Vec<&str> = text.lines().collect();
    skipped.sort_unstable();
    skipped.dedup();
    let mut told = Vec::new();
    if !skipped.is_empty() {
        told.push(format!("skipped: {} tests\n    {}", skipped.len(), skipped.join("\n    ")));
    }
    if !passed_again.is_empty() {
        let (count, tests) = (passed_again.len(), passed_again.join("\n    "));
        told.push(format!("tests that failed at first, and passed alone: {count}\n    {tests}"));
    }
    Ok(if told.is_empty() { Outcome::Passed } else { Outcome::PassedBut(told.join("\n  ")) })
}

fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_were_skipped_are_named_once_each() {
        let list = std::env::temp_dir().join(format!("ladoga-skipped-{}", std::process::id()));
        assert_eq!(outcome(&list, &[]), Ok(Outcome::Passed), "no list");
        let again = ["node: a".to_owned()];
        let busy = "tests that failed at first, and passed alone: 1\n    node: a";
        assert_eq!(outcome(&list, &again), Ok(Outcome::PassedBut(busy.to_owned())));
        std::fs::write(&list, "b: no Go\na: no browser\nb: no Go\n").expect("a file");
        let found = [outcome(&list, &[]), outcome(&list, &again)];
        std::fs::remove_file(&list).expect("a file to remove");
        let expected = "skipped: 2 tests\n    a: no browser\n    b: no Go";
        let both = format!("{expected}\n  {busy}");
        assert_eq!(found, [expected.to_owned(), both].map(|told| Ok(Outcome::PassedBut(told))));
    }

    #[test]
    fn a_program_is_looked_for_on_the_path() {
        assert!(is_installed("sh") && !is_installed("no-such-program"));
    }
}
