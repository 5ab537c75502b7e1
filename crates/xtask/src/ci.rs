//! The one command that is CI, on a laptop as on the server: steps in order, the first failure stops.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::workspace::Workspace;
use crate::{Outcome, TaskResult, cargo, smoke, test_programs, test_run, tidy};

struct Step {
    name: &'static str,
    run: fn(&Workspace) -> TaskResult,
}

/// Cheap checks first: so the most frequent mistakes are reported soonest.
const STEPS: [Step; 9] = [
    Step { name: "fmt", run: fmt },
    Step { name: "clippy", run: clippy },
    Step { name: "test", run: test_run::task },
    Step { name: "sim", run: sim },
    Step { name: "doc", run: doc },
    Step { name: "tidy", run: tidy::task },
    Step { name: "deny", run: deny },
    Step { name: "fuzz-smoke", run: smoke::fuzz },
    Step { name: "bench-smoke", run: bench },
];

/// How many seeds of the simulation CI runs: always the same ones, five minutes of two idle cores. What a machine may find must not
/// depend on how fast it is; `cargo xtask sim --minutes` looks at others.
const SIM_SEEDS: &str = "1000";
/// The same with conditional writes.
const CONDITIONAL_SEEDS: &str = "1000";
/// The same with scenes.
const TARGETED_SEEDS: &str = "200";
/// The same while the list of nodes changes.
const RELISTED_SEEDS: &str = "300";

pub(crate) fn task(workspace: &Workspace) -> TaskResult {
    run_steps(&STEPS, workspace, &mut std::io::stdout())
}

fn fmt(workspace: &Workspace) -> TaskResult {
    for manifest in workspace.manifests() {
        cargo::run(&mut cargo::command(
            workspace,
            &["fmt", "--all", "--manifest-path", manifest, "--", "--check"],
        ))?;
    }
    Ok(Outcome::Passed)
}

/// The workspace with what is not built by default, the packages beside it, and the binary that `make run` builds.
fn clippy(workspace: &Workspace) -> TaskResult {
    let lint = |which: &[&str]| {
        let arguments = [&["clippy", "--all-targets"], which, &["--", "-D", "warnings"]].concat();
        cargo::run(&mut cargo::command(workspace, &arguments))
    };
    lint(&test_programs::WHICH)?;
    for manifest in workspace.manifests().into_iter().skip(1) {
        lint(&["--manifest-path", manifest])?;
    }
    lint(&["--package", "ladoga", "--no-default-features"])
}

/// Far more seeds than `cargo test` runs, with optimized code, always the same ones: without conditional writes, with them, with
/// scenes, and while the list of nodes changes.
fn sim(workspace: &Workspace) -> TaskResult {
    let loads = [
        (SIM_SEEDS, None),
        (CONDITIONAL_SEEDS, Some("--conditional")),
        (TARGETED_SEEDS, Some("--targeted")),
        (RELISTED_SEEDS, Some("--relisted")),
    ];
    for (seeds, load) in loads {
        cargo::run(cargo::sim(workspace).args(["--first", "0", "--seeds", seeds]).args(load))?;
    }
    Ok(Outcome::Passed)
}

fn doc(workspace: &Workspace) -> TaskResult {
    let mut command = cargo::command(workspace, &["doc", "--no-deps", "--workspace"]);
    cargo::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn deny(workspace: &Workspace) -> TaskResult {
    if !cargo::has_subcommand(workspace, "deny") {
        return Ok(Outcome::Skipped("cargo-deny is not installed".to_owned()));
    }
    // Advisories are left to `cargo deny check advisories`: they need the network, and they change while the code
    // does not, so they would fail a commit that did nothing wrong.
    cargo::run(&mut cargo::command(workspace, &["deny", "check", "bans", "licenses", "sources"]))
}

/// With the node that was built for the tests.
fn bench(workspace: &Workspace) -> TaskResult {
    smoke::bench(workspace, Some(&test_programs::tested(workspace, "ladoga")?))
}

/// Runs the steps up to the first failure and ends with a table. A closed output is no reason to stop.
fn run_steps(steps: &[Step], workspace: &Workspace, out: &mut dyn Write) -> TaskResult {
    let mut table = String::new();
    let (mut passed, mut skipped, mut failure) = (0, 0, None);
    for step in steps {
        if failure.is_some() {
            table.push_str(&row(step.name, "not run", None));
            continue;
        }
        let _ = writeln!(out, "==> {}", step.name).and_then(|()| out.flush());
        let started = Instant::now();
        let result = (step.run)(workspace);
        let elapsed = started.elapsed();
        let verdict = match &result {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::PassedBut(what)) => format!("passed, but {what}"),
            Ok(Outcome::Skipped(reason)) => format!("skipped: {reason}"),
            Err(reason) => format!("FAILED: {reason}"),
        };
        let _ = writeln!(out, "<== {}: {verdict} ({:.1} s)\n", step.name, elapsed.as_secs_f64());
        table.push_str(&row(step.name, &verdict, Some(elapsed)));
        match result {
            Ok(Outcome::Passed | Outcome::PassedBut(_)) => passed += 1,
            Ok(Outcome::Skipped(_)) => skipped += 1,
            Err(reason) => failure = Some(format!("step {} failed: {reason}", step.name)),
        }
    }
    let failed = usize::from(failure.is_some());
    let _ = writeln!(out, "{table}steps: {passed} passed, {failed} failed, {skipped} skipped");
    failure.map_or(Ok(Outcome::Passed), Err)
}

fn row(name: &str, verdict: &str, elapsed: Option<Duration>) -> String {
    let duration = elapsed.map_or_else(String::new, |elapsed| format!("{:.1} s", elapsed.as_secs_f64()));
    format!("  {name:<12} {duration:>9}  {verdict}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSES: fn(&Workspace) -> TaskResult = |_| Ok(Outcome::Passed);
    const SKIPS: fn(&Workspace) -> TaskResult =
        |_| Ok(Outcome::Skipped("the tool is not installed".to_owned()));
    const FAILS: fn(&Workspace) -> TaskResult = |_| Err("two files differ".to_owned());

    fn printed(steps: &[Step]) -> (TaskResult, String) {
        let mut out = Vec::new();
        let result = run_steps(steps, &Workspace::here(), &mut out);
        (result, String::from_utf8(out).expect("only text is printed"))
    }

    #[test]
    fn the_first_failure_stops_the_run_and_is_the_result() {
        let steps = [
            Step { name: "one", run: PASSES },
            Step { name: "two", run: SKIPS },
            Step { name: "three", run: FAILS },
            Step { name: "four", run: PASSES },
        ];
        let (result, text) = printed(&steps);
        assert_eq!(result, Err("step three failed: two files differ".to_owned()));
        assert!(text.contains("==> three"), "{text}");
        assert!(!text.contains("==> four"), "a step after a failure was run: {text}");
        assert!(text.contains("skipped: the tool is not installed"), "{text}");
        assert!(text.lines().any(|line| line.contains("four") && line.contains("not run")), "{text}");
        assert!(text.ends_with("steps: 1 passed, 1 failed, 1 skipped\n"), "{text}");
    }

    #[test]
    fn steps_that_pass_or_are_skipped_pass_the_run() {
        let in_part: fn(&Workspace) -> TaskResult =
            |_| Ok(Outcome::PassedBut("skipped: two tests".to_owned()));
        let steps = [("one", PASSES), ("two", SKIPS), ("three", in_part)];
        let (result, text) = printed(&steps.map(|(name, run)| Step { name, run }));
        assert_eq!(result, Ok(Outcome::Passed));
        let told = text.lines().filter(|line| line.contains("passed, but skipped: two tests")).count();
        assert_eq!(told, 2, "where it ends, and in the table: {text}");
        assert!(text.ends_with("steps: 2 passed, 0 failed, 1 skipped\n"), "{text}");
    }
}
