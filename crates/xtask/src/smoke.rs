//! Short runs of the packages beside the workspace: fuzz targets and benchmarks that are never run stop compiling.

use std::path::Path;

use crate::workspace::{TextFile, Workspace};
use crate::{Outcome, TaskResult, cargo};

/// Runs every fuzz target on a deterministic mutation of its seeds. `cargo fuzz` needs nightly; this does not, because
/// each target is a function in `fuzz/src` that an ordinary test calls.
pub(crate) fn fuzz(workspace: &Workspace) -> TaskResult {
    if !workspace.has("fuzz/Cargo.toml") {
        return Ok(Outcome::Skipped("there is no fuzz/Cargo.toml".to_owned()));
    }
    let forgotten = targets_without_smoke(&workspace.text_files()?);
    if !forgotten.is_empty() {
        return Err(format!(
            "no test in fuzz/tests/ names these fuzz targets, so none runs them: {}",
            forgotten.join(", ")
        ));
    }
    cargo::run(&mut cargo::command(workspace, &["test", "--manifest-path", "fuzz/Cargo.toml"]))
}

/// Tests the program that measures, one of which holds the figures of README.md against the results that they come from, and
/// runs every benchmark at its smallest size, of this node or of one that it builds; no time is asserted.
pub(crate) fn bench(workspace: &Workspace, node: Option<&Path>) -> TaskResult {
    if !workspace.has("bench/Cargo.toml") {
        return Ok(Outcome::Skipped("there is no bench/Cargo.toml".to_owned()));
    }
    cargo::run(&mut cargo::command(workspace, &["test", "--manifest-path", "bench/Cargo.toml"]))?;
    let mut smoke = cargo::command(workspace, &["run", "--manifest-path", "bench/Cargo.toml", "--", "smoke"]);
    cargo::run(smoke.envs(node.map(|node| ("LADOGA_BIN", node))))
}

/// The targets of `fuzz/fuzz_targets/` that no file of `fuzz/tests/` names, with or without a leading `fuzz_`.
fn targets_without_smoke(files: &[TextFile]) -> Vec<String> {
    let tests: Vec<&TextFile> = files.iter().filter(|file| file.path.starts_with("fuzz/tests/")).collect();
    files
        .iter()
        .filter_map(|file| file.path.strip_prefix("fuzz/fuzz_targets/")?.strip_suffix(".rs"))
        .filter(|target| {
            let name = target.strip_prefix("fuzz_").unwrap_or(target);
            !tests.iter().any(|test| test.text.contains(name))
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_no_smoke_test_names_is_found() {
        let files = [
            TextFile::fixture("fuzz/fuzz_targets/fuzz_wal.rs", ""),
            TextFile::fixture("fuzz/fuzz_targets/manifest.rs", ""),
            TextFile::fixture("fuzz/fuzz_targets/footer.rs", ""),
            TextFile::fixture("fuzz/tests/smoke.rs", "smoke(fuzz_wal); smoke(fuzz_manifest);"),
            TextFile::fixture("crates/storage/src/footer.rs", "footer"),
        ];
        assert_eq!(targets_without_smoke(&files), ["footer"]);
    }
}
