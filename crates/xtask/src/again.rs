//! Tests that failed beside all others, run once more alone: a machine that is busy enough breaks every assumption about time. What
//! is wrong with the product fails again, as it does not depend on what runs beside it; what passes then is named, for somebody to look at.

use std::path::Path;

use crate::test_programs::{Failed, PROGRAM_TIME_MAX, Program, run_into};

/// More than these, in all programs together, are no matter of a busy machine.
const TESTS_MAX: usize = 4;

/// Runs the failed tests of these programs again, one at a time, with what they print in `folder`. Answers those that passed, with the names
/// of their programs, and the programs that have failed for good.
pub(crate) fn run(failed: Vec<Failed>, folder: &Path) -> (Vec<String>, Vec<String>) {
    let tests: Vec<Vec<String>> = failed.iter().map(|failed| failed_tests(&failed.output)).collect();
    let are_few = tests.iter().map(Vec::len).sum::<usize>() <= TESTS_MAX;
    let (mut passed, mut names) = (Vec::new(), Vec::new());
    for (index, (Failed { program, .. }, tests)) in failed.into_iter().zip(tests).enumerate() {
        let name = program.name.clone();
        if are_few
            && !tests.is_empty()
            && pass_alone(program, &tests, &folder.join(format!("again-{index}.txt")))
        {
            passed.extend(tests.into_iter().map(|test| format!("{name}: {test}")));
        } else {
            names.push(name);
        }
    }
    (passed, names)
}

fn pass_alone(Program { mut command, .. }: Program, tests: &[String], output: &Path) -> bool {
    command.args(["--test-threads", "1", "--exact"]).args(tests);
    let is_ok = run_into(&mut command, output, PROGRAM_TIME_MAX).is_ok();
    let text = std::fs::read(output).unwrap_or_default();
    // A name that is none would select nothing, and that passes.
    let all = format!("test result: ok. {} passed; 0 failed; 0 ignored", tests.len());
    is_ok && String::from_utf8_lossy(&text).contains(&all)
}

/// The tests that a program names at its end as those that failed.
fn failed_tests(output: &str) -> Vec<String> {
    let list = output.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
    let names = list.lines().map_while(|line| line.strip_prefix("    "));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const OUTPUT: &str = "running 3 tests\ntest a::one ... FAILED\n\nfailures:\n\n---- a::one stdout ----\n    no\n\n\
                          failures:\n    a::one\n    b::two\n\ntest result: FAILED. 1 passed; 2 failed;\n";

    #[test]
    fn a_program_names_the_tests_that_failed_at_its_end() {
        assert_eq!(failed_tests(OUTPUT), ["a::one", "b::two"]);
        assert!(failed_tests("the system is out of memory\n").is_empty());
    }

    /// A program of tests of which all that it is told to run alone pass, if `passes` says so.
    fn failed(name: &str, passes: bool, tests: &[&str]) -> Failed {
        let passed = if passes { "$(($# - 3))" } else { "0" };
        let script = format!("echo \"test result: ok. {passed} passed; 0 failed; 0 ignored\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]);
        let output = tests.iter().fold("\nfailures:\n".to_owned(), |text, test| text + "    " + test + "\n");
        Failed { program: Program { name: name.to_owned(), command }, output }
    }

    #[test]
    fn few_tests_that_pass_alone_are_told_apart_from_those_that_fail() {
        let folder = std::env::temp_dir().join(format!("ladoga-again-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let outcome = run(
            vec![failed("one", true, &["a", "b"]), failed("two", false, &["c"]), failed("none", true, &[])],
            &folder,
        );
        let many =
            run(vec![failed("many", true, &["a", "b", "c"]), failed("more", true, &["d", "e"])], &folder);
        std::fs::remove_dir_all(&folder).expect("a folder to remove");
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
        assert_eq!(outcome, (names(&["one: a", "one: b"]), names(&["two", "none"])));
        assert_eq!(many, (Vec::new(), names(&["many", "more"])));
    }
}
