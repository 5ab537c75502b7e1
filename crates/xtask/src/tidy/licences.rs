//! Every crate that is built has a licence that `deny.toml` allows. cargo-deny says so too, where it is installed.

use std::collections::BTreeSet;

use super::Finding;
use crate::cargo;
use crate::workspace::{TextFile, Workspace};

/// All crates of the lock file that this machine builds, with all features; one a line: name, version and what cargo adds to
/// them, a tab, and its licence.
pub(super) fn listing(workspace: &Workspace) -> Result<String, String> {
    let arguments = ["tree", "--workspace", "--all-features", "--locked", "--edges", "normal,build,dev"];
    let mut command = cargo::command(workspace, &arguments);
    command.args(["--prefix", "none", "--format", "{p}\t{l}"]);
    let output = command.output().map_err(|error| format!("cannot start `cargo tree`: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`cargo tree` ended with {}: {}", output.status, said.trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("`cargo tree` did not print text: {error}"))
}

/// What is allowed is read from `deny.toml`, which is `policy`.
pub(super) fn check(policy: &TextFile, listing: &str) -> Vec<Finding> {
    let (line, allowed) = allowed(&policy.text);
    let exceptions = exceptions(&policy.text);
    let crates: BTreeSet<(&str, &str)> = listing
        .lines()
        .filter_map(|line| line.split_once('\t'))
        // A crate that is there a second time is marked.
        .map(|(package, licence)| (package, licence.trim_end_matches(" (*)").trim()))
        .collect();
    let mut findings = Vec::new();
    for (package, licence) in crates {
        let name = package.split(' ').next().unwrap_or(package);
        let is_allowed = |wanted: &str| {
            let is_exception = exceptions.iter().any(|(of, licence)| of == name && licence == wanted);
            is_exception || allowed.iter().any(|known| known == wanted)
        };
        if !is_met(licence, &is_allowed) {
            let found = if licence.is_empty() { "no licence" } else { licence };
            let message = format!("{package} has {found}; expected what this list allows, or another crate");
            findings.push(Finding::error(policy, line, message));
        }
    }
    findings
}

/// The list of `[licenses]`, and its line.
fn allowed(policy: &str) -> (usize, Vec<String>) {
    let mut lines = super::numbered_lines(policy).skip_while(|(_, line)| line.trim() != "[licenses]");
    let Some((line, _)) = lines.find(|(_, line)| line.starts_with("allow =")) else { return (1, Vec::new()) };
    let inside = lines.map(|(_, line)| line).take_while(|line| !line.starts_with(']'));
    (line, inside.flat_map(quoted).collect())
}

/// Crates that may have a licence that no other may have.
fn exceptions(policy: &str) -> Vec<(String, String)> {
    let lines = policy.lines().filter(|line| line.contains("crate =") && line.contains("allow ="));
    let of_line = |line| {
        let mut words = quoted(line).into_iter();
        let name = words.next().unwrap_or_default();
        words.map(move |licence| (name.clone(), licence)).collect::<Vec<_>>()
    };
    lines.flat_map(of_line).collect()
}

/// What stands in quotes in a line, before a comment.
fn quoted(line: &str) -> Vec<String> {
    let code = line.split('#').next().unwrap_or_default();
    code.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether an expression of SPDX can be met. A slash is an old way to write `OR`.
fn is_met(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    any_of(&mut rest, is_allowed) && rest.is_empty()
}

fn any_of(words: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut is_met = all_of(words, is_allowed);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        is_met |= all_of(words, is_allowed);
    }
    is_met
}

fn all_of(words: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut is_met = one(words, is_allowed);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        is_met &= one(words, is_allowed);
    }
    is_met
}

fn one(words: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let is_met = any_of(words, is_allowed);
            let [")", rest @ ..] = *words else { return false };
            *words = rest;
            is_met
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            is_allowed(&format!("{licence} WITH {exception}"))
        }
        [licence, rest @ ..] => {
            *words = rest;
            is_allowed(licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "[licenses]\nallow = [\n  \"MIT\",\n  \"ISC\", # \"GPL-3.0\"\n  \"Apache-2.0 WITH LLVM-exception\",\n]\n\
        exceptions = [{ crate = \"inferno\", allow = [\"CDDL-1.0\"] }]\n";

    fn found(listing: &str) -> Vec<String> {
        let findings = check(&TextFile::fixture("deny.toml", POLICY), listing);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_expression_is_met_by_what_is_allowed() {
        for licence in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert_eq!(
                found(&format!("a v1.0.0\t{licence}\na v1.0.0\t{licence} (*)\n")),
                [""; 0],
                "{licence}"
            );
        }
        for licence in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC", "Apache-2.0", "", "MIT)", "CDDL-1.0"] {
            assert_eq!(found(&format!("a v1.0.0\t{licence}\n")).len(), 1, "{licence}");
        }
        assert_eq!(found("inferno v0.12.0\tCDDL-1.0\n"), [""; 0]);
        let said = found("a v1.0.0\tGPL-3.0\n");
        assert!(said[0].starts_with("deny.toml:2: a v1.0.0 has GPL-3.0; expected"), "{said:?}");
    }

    #[test]
    fn what_is_built_is_allowed() {
        let workspace = Workspace::here();
        let listing = listing(&workspace).expect("cargo lists the crates");
        assert!(listing.lines().count() > 100, "{listing}");
        let files = workspace.text_files().expect("git lists the files");
        let policy = files.iter().find(|file| file.path == "deny.toml").expect("a policy");
        let findings: Vec<String> = check(policy, &listing).iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
