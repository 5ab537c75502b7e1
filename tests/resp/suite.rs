//! Redis's own suite of tests, out of Debian's source package, against a node. `suite-left-out.txt` has each test that does not
//! pass, and why; the others have to.
//!
//! The suite is meant for servers that somebody else has started, too (`--host`). It is kept in the target directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::client::RespNode;
use crate::suite_report::{Outcome, Report, Test, tests_in};
use crate::support::{Directory, Launch, Port, skip, skip_without};

/// What `INFO` and `HELLO` tell.
const VERSION: &str = "7.0.15";
const UNITS: [&str; 6] =
    ["unit/type/string", "unit/type/incr", "unit/expire", "unit/scan", "unit/keyspace", "unit/multi"];
/// What the suite would do with each server, or find out about it, which a node has no commands for.
const CHANGES: [(&str, &str); 2] = [
    ("\n    r function flush\n", "\n    catch {r function flush}\n"),
    ("\n        r config set $param $val\n\n", "\n        catch {r config set $param $val}\n\n"),
];
/// Tests with these tags are passed over: `suite-left-out.txt` names them.
const TAGS: &str = "-needs:debug -needs:repl -needs:config-maxmemory";
/// The suite gives up, and ends its processes, after so long without progress.
const SILENCE_S: &str = "120";
const SOURCES: &str = "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n";
const LEFT_OUT: &str = include_str!("suite-left-out.txt");

#[test]
fn redis_own_suite_passes_but_for_what_is_listed() {
    if let Err(error) = Command::new("tclsh").stdin(Stdio::null()).output() {
        return skip_without("tclsh", &format!("tclsh cannot be started: {error}"));
    }
    let suite = match suite() {
        Ok(suite) => suite,
        Err(reason) => return skip(&format!("the source of Redis {VERSION} cannot be had: {reason}")),
    };
    let node = RespNode::launch(Launch::new().flag("--fsync", "never").env("LADOGA_RESP_FLUSH", "true"));
    assert!(node.connect().ask("INFO server").contains(&format!("redis_version:{VERSION}\r\n")));
    let text = run(&suite, &node);
    let report = Report::parse(&text);
    assert!(report.is_complete(&UNITS), "the suite did not come to its end:\n{text}");

    let complaints = complaints(&suite, &report);
    assert!(complaints.is_empty(), "{}\n\nThe suite said:\n{text}", complaints.join("\n"));
}

/// What of the report is not as the list says, a line each.
fn complaints(suite: &Path, report: &Report) -> Vec<String> {
    let listed = listed();
    let mut complaints = Vec::new();
    for (test, outcome) in &report.outcomes {
        match (outcome, listed.contains(test)) {
            (Outcome::Passed, true) => complaints.push(format!("passes, and is on the list: {test}")),
            (Outcome::Failed, false) => complaints.push(format!("failed: {test}")),
            (Outcome::PassedOver, false) => {
                complaints.push(format!("was passed over, and is not on the list: {test}"));
            }
            _ => {}
        }
    }
    let mut known: BTreeSet<Test> = report.outcomes.iter().map(|(test, _)| test.clone()).collect();
    for unit in UNITS {
        let source =
            fs::read_to_string(suite.join(format!("tests/{unit}.tcl"))).expect("a unit of the suite");
        for name in tests_in(&source) {
            // Blocks are passed over without a word about the tests in them.
            let was_told = known.iter().any(|test| test.unit == unit && name.fits(&test.name));
            if !was_told && !name.has_variables() {
                let test = Test::new(unit, &name.text);
                if !listed.contains(&test) {
                    complaints.push(format!("was not run, and is not on the list: {test}"));
                }
                known.insert(test);
            } else if !was_told {
                complaints.push(format!("was not run: {unit} | {}", name.text));
            }
        }
    }
    complaints
        .extend(listed.difference(&known).map(|test| format!("is on the list, and is no test: {test}")));
    complaints
}

/// The tests that are left out.
fn listed() -> BTreeSet<Test> {
    let lines = LEFT_OUT.lines().filter(|line| !line.starts_with('#'));
    let mut tests = BTreeSet::new();
    for line in lines {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [unit, name, reason] = parts[..] else { panic!("expected UNIT | TEST | REASON: {line}") };
        assert!(
            !reason.is_empty() && tests.insert(Test::new(unit, name)),
            "twice, or without a reason: {line}"
        );
    }
    tests
}

/// Runs the units, one after the other: they look at the keys of the whole server.
fn run(suite: &Path, node: &RespNode) -> String {
    // Where its two processes find each other: it begins 32 ports before.
    let port = Port::claim();
    let mut command = Command::new("tclsh");
    command.arg("tests/test_helper.tcl").current_dir(suite).env("TERM", "dumb").stdin(Stdio::null());
    command.args(["--host", "127.0.0.1", "--port", &node.address().port().to_string()]);
    command.args(["--baseport", &(port.address().port() + 32).to_string()]);
    // One database; nothing that `DEBUG DIGEST` says; and what fails is told, instead of ending everything.
    command.args(["--singledb", "--ignore-digest", "--durable", "--timeout", SILENCE_S, "--tags", TAGS]);
    command.args(UNITS.iter().flat_map(|unit| ["--single", unit]));
    let output = command.output().expect("a program that was found");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Where the suite is, fetched now or by an earlier run.
fn suite() -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("redis-{VERSION}-suite"));
    let failed = |error: std::io::Error| error.to_string();
    let (mark, wanted) = (place.join("changes"), format!("{CHANGES:?}"));
    if fs::read_to_string(&mark).is_ok_and(|known| known == wanted) {
        return Ok(place);
    }
    let directory = Directory::new();
    let archive = fetch(directory.path())?;
    fs::create_dir_all(&place).map_err(failed)?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(archive).arg("-C").arg(&place).arg("--strip-components=1");
    finish(unpack.args(["tests", "COPYING"].map(|part| format!("redis-{VERSION}/{part}"))))?;
    let path = place.join("tests/support/server.tcl");
    let mut text = fs::read_to_string(&path).map_err(failed)?;
    for (before, after) in CHANGES {
        assert_eq!(text.matches(before).count(), 1, "the suite is another one: {before}");
        text = text.replace(before, after);
    }
    fs::write(&path, text).map_err(failed)?;
    fs::write(&mark, wanted).map_err(failed)?;
    Ok(place)
}

/// Fetches the source of Redis, as Debian has signed it; the lists of the machine stay as they are.
fn fetch(directory: &Path) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| error.to_string();
    let sources = directory.join("sources.list");
    fs::write(&sources, SOURCES).map_err(failed)?;
    for folder in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(directory.join(folder)).map_err(failed)?;
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        for (name, value) in [("Etc::sourcelist", &*sources), ("Etc::sourceparts", Path::new("/dev/null"))] {
            command.arg("-o").arg(format!("Dir::{name}={}", value.display()));
        }
        for (name, folder) in [("State::lists", "lists"), ("Cache", "cache")] {
            command.arg("-o").arg(format!("Dir::{name}={}", directory.join(folder).display()));
        }
        // Its own user may not write into this directory.
        command.args(["-o", "APT::Sandbox::User=root", "-qq"]);
        finish(command.args(arguments).current_dir(directory))
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", "redis"])?;
    let archive = directory.join(format!("redis_{VERSION}.orig.tar.gz"));
    if archive.is_file() { Ok(archive) } else { Err("Debian has another version now".to_owned()) }
}

fn finish(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{program}: {}", errors.lines().next().unwrap_or("it does not say why")))
}
