//! The test programs of the workspace: built once, and run side by side. `cargo test` runs one after another, and a core is idle while
//! one of them waits.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cargo;
use crate::workspace::Workspace;

/// All that is tested, in one build: also what is not built by default.
pub(crate) const WHICH: [&str; 3] = ["--workspace", "--features", "ladoga/otel"];

/// Those that take longest come first, so that none of them is alone at the end.
const LONGEST: [&str; 4] = ["cassandra", "cluster", "engine", "lab"];

/// The longest takes three minutes, and ten beside others on a slow machine.
pub(crate) const PROGRAM_TIME_MAX: Duration = Duration::from_mins(30);
const POLLED_EVERY: Duration = Duration::from_millis(20);

/// The last member of a profile that builds tests, and of one that does not.
const A_TEST: &str = "\"test\":true},\"features\"";
const NO_TEST: &str = "\"test\":false},\"features\"";

/// What is run, with nothing on its standard input.
#[derive(Debug)]
pub(crate) struct Program {
    /// What a person knows it by.
    pub(crate) name: String,
    pub(crate) command: Command,
}

/// A program that failed, with what it printed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) program: Program,
    pub(crate) output: String,
}

/// Builds the test programs, in the order in which they are to be run.
pub(crate) fn build(workspace: &Workspace) -> Result<Vec<Program>, String> {
    let messages = build_all(workspace)?;
    let mut programs: Vec<Program> = messages.lines().filter_map(|line| program(workspace, line)).collect();
    programs.sort_by_key(|program| {
        let target = program.name.rsplit(' ').next();
        let rank = LONGEST.iter().position(|name| Some(*name) == target);
        (rank.unwrap_or(LONGEST.len()), program.name.clone())
    });
    if programs.is_empty() { Err("cargo named no test program".to_owned()) } else { Ok(programs) }
}

/// The binary of this name that cargo builds with the test programs, for them to start.
pub(crate) fn tested(workspace: &Workspace, name: &str) -> Result<PathBuf, String> {
    let executable = executable(&build_all(workspace)?, name);
    executable.ok_or_else(|| format!("cargo built no {name} for the tests"))
}

fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let target = format!("{{\"kind\":[\"bin\"],\"crate_types\":[\"bin\"],\"name\":\"{name}\",");
    let mut found = messages.lines().filter(|line| line.contains(&target) && line.contains(NO_TEST));
    found.next().and_then(|line| member(line, "executable")).map(PathBuf::from)
}

/// What cargo says of all that it built for the tests, a line each.
fn build_all(workspace: &Workspace) -> Result<String, String> {
    let build = ["test", "--no-run", "--message-format", "json-render-diagnostics"];
    cargo::stdout(&mut cargo::command(workspace, &[&build, &WHICH[..]].concat()))
}

/// The program that a message of cargo's tells of, set up as `cargo test` does it.
fn program(workspace: &Workspace, message: &str) -> Option<Program> {
    if !message.contains(A_TEST) {
        return None;
    }
    let executable = member(message, "executable")?;
    let package = Path::new(member(message, "manifest_path")?).parent()?;
    let (_, target) = message.split_once("\"target\":")?;
    let target = member(target, "name")?;
    let folder = package.strip_prefix(workspace.root()).unwrap_or(package);
    let mut command = Command::new(executable);
    command.current_dir(package).env("CARGO_MANIFEST_DIR", package);
    Some(Program { name: format!("{} {target}", folder.display()), command })
}

/// The text of a member of an object in JSON that has no escapes in it.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = object.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(text, _)| text)
}

/// Runs all programs, whatever fails, so many at a time, and answers those that failed. What one prints is kept in `folder` and comes
/// in one piece when it ends.
pub(crate) fn run_all(
    programs: Vec<Program>,
    at_a_time: usize,
    folder: &Path,
    out: &Mutex<impl Write + Send>,
) -> Result<Vec<Failed>, String> {
    let why = |error: io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(why)?;
    let queue = Mutex::new(programs.into_iter().enumerate().collect::<VecDeque<_>>());
    let failed = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some((index, program)) = next() {
                    if let Some(program) = run(program, &folder.join(format!("{index}.txt")), out) {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(program);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_by(|one: &Failed, other| one.program.name.cmp(&other.program.name));
    Ok(failed)
}

/// Runs a program, prints what it printed, and answers it if it failed.
fn run(mut program: Program, output: &Path, out: &Mutex<impl Write + Send>) -> Option<Failed> {
    let started = Instant::now();
    let result = run_into(&mut program.command, output, PROGRAM_TIME_MAX);
    let seconds = started.elapsed().as_secs_f64();
    let verdict = result.as_ref().map_or_else(|why| format!("FAILED: {why}"), |()| "passed".to_owned());
    let text = std::fs::read(output).unwrap_or_default();
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    // A closed output is no reason to stop.
    let _ =
        out.write_all(&text).and_then(|()| writeln!(out, "{}: {verdict} ({seconds:.1} s)\n", program.name));
    result.err().map(|_| Failed { program, output: String::from_utf8_lossy(&text).into_owned() })
}

/// One that hangs ends as well, so that what it printed is seen.
pub(crate) fn run_into(command: &mut Command, output: &Path, at_most: Duration) -> Result<(), String> {
    let file = File::create(output).and_then(|file| Ok((file.try_clone()?, file)));
    let (out, err) = file.map_err(|error| format!("{}: {error}", output.display()))?;
    let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
    let mut child = child.map_err(|error| format!("cannot start: {error}"))?;
    let started = Instant::now();
    loop {
        let status = child.try_wait().map_err(|error| format!("cannot be waited for: {error}"))?;
        match status {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("ended with {status}")),
            None if started.elapsed() > at_most => {
                let _ = child.kill().and_then(|()| child.wait());
                return Err("did not end".to_owned());
            }
            None => std::thread::sleep(POLLED_EVERY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///x#0.1.0","manifest_path":"/x/crates/ladoga/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"http","src_path":"/x/tests/http/main.rs","edition":"2024","doc":false,"doctest":false,"test":true},"profile":{"opt_level":"1","debuginfo":"line-tables-only","debug_assertions":true,"overflow_checks":true,"test":true},"features":[],"filenames":["/x/target/debug/deps/http-1"],"executable":"/x/target/debug/deps/http-1","fresh":true}"#;

    #[test]
    fn a_message_of_cargo_tells_of_a_program_if_it_is_one_of_tests() {
        let workspace = Workspace::here();
        let found = program(&workspace, BUILT).expect("a program");
        assert_eq!(found.name, "/x/crates/ladoga http", "a package that is not of this workspace");
        assert_eq!(found.command.get_program(), "/x/target/debug/deps/http-1");
        assert_eq!(found.command.get_current_dir(), Some(Path::new("/x/crates/ladoga")));
        let of_the_product = BUILT.replace("\"test\":true},\"features\"", "\"test\":false},\"features\"");
        assert!(program(&workspace, &of_the_product).is_none());
        assert!(program(&workspace, r#"{"reason":"build-finished","success":true}"#).is_none());
    }

    #[test]
    fn what_the_tests_test_is_found_by_its_name() {
        let binary = BUILT.replace("{\"kind\":[\"test\"]", "{\"kind\":[\"bin\"]");
        let tested = binary.replace("\"test\":true},\"features\"", "\"test\":false},\"features\"");
        let other = tested.replace("deps/http-1", "http");
        assert_eq!(
            executable(&format!("{BUILT}\n{binary}\n{other}"), "http"),
            Some("/x/target/debug/http".into())
        );
        assert_eq!(executable(&other, "htt"), None);
    }

    #[test]
    fn all_programs_run_and_those_that_fail_are_named() {
        let folder = std::env::temp_dir().join(format!("ladoga-programs-{}", std::process::id()));
        let marks = ["a", "b", "c"].map(|mark| folder.join(mark));
        let shell = |name: &str, script: String| {
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            Program { name: name.to_owned(), command }
        };
        let programs = || {
            let touch = |index: usize| format!("touch '{}'", marks[index].display());
            vec![
                shell("one", touch(0)),
                shell("two", format!("{}; exit 3", touch(1))),
                shell("three", format!("{}; echo heard; echo so >&2", touch(2))),
                Program { name: "four".to_owned(), command: Command::new("no-such-program") },
            ]
        };
        let out = Mutex::new(Vec::new());
        let result = run_all(programs(), 2, &folder, &out);
        assert!(marks.iter().all(|mark| mark.exists()), "all of them ran");
        let passed = run_all(programs().into_iter().take(1).collect(), 2, &folder, &out);
        std::fs::remove_dir_all(&folder).expect("a folder to remove");
        let names = |failed: Result<Vec<Failed>, String>| {
            let names = failed.expect("a folder").into_iter().map(|failed| failed.program.name);
            names.collect::<Vec<String>>()
        };
        assert_eq!(names(result), ["four", "two"]);
        assert!(names(passed).is_empty());
        let text = String::from_utf8(out.into_inner().expect("whole")).expect("a text");
        assert!(text.contains("heard\nso\nthree: passed ("), "{text}");
        assert!(text.contains("two: FAILED: ended with exit status: 3 ("), "{text}");
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let output = std::env::temp_dir().join(format!("ladoga-hangs-{}", std::process::id()));
        let mut command = Command::new("sleep");
        command.arg("1000");
        let result = run_into(&mut command, &output, Duration::from_millis(10));
        std::fs::remove_file(&output).expect("a file to remove");
        assert_eq!(result, Err("did not end".to_owned()));
    }
}
