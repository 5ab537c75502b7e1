//! Tests that cannot run on this machine. They pass, since nothing is wrong with the code; `cargo xtask ci` lists them.

use std::fs::OpenOptions;
use std::io::Write;

/// The file that lists what was skipped, a line each.
const LIST: &str = "LADOGA_SKIPPED_TESTS";
/// Programs that are installed here, separated by spaces: no test may be skipped because one of them is missing.
const INSTALLED: &str = "LADOGA_TEST_TOOLS";

/// Reports that a test, or a part of it, does not run on this machine.
pub(crate) fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
    let Some(list) = std::env::var_os(LIST) else { return };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("{test}: {}\n", reason.trim().replace('\n', "; "));
    // Written at once: tests of one process run beside each other.
    let written = OpenOptions::new().create(true).append(true).open(&list);
    let written = written.and_then(|mut list| list.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{LIST} is {}, which takes no lines: {error}", list.display()));
}

/// Tells the same of a test that did not find a program. Fails if the program is known to be installed: the test then looks
/// for it in the wrong place.
pub(crate) fn skip_without(program: &str, reason: &str) {
    let installed = std::env::var(INSTALLED).unwrap_or_default();
    assert!(
        !installed.split(' ').any(|known| known == program),
        "{program} is installed, and the test does not find it: {reason}"
    );
    skip(reason);
}
