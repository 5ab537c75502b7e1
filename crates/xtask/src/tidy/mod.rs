//! Tidiness: rules that the compiler and clippy do not know. Each rule is a pure function from files to findings.
//!
//! | module | rule |
//! | --- | --- |
//! | [`lengths`] | how long a file may be |
//! | [`words`] | what code and comments may not say |
//! | [`unsafe_code`] | which files may hold `unsafe` |
//! | [`arrows`] | which crate may name which |
//! | [`folders`] | folders of a crate name each other in one direction |
//! | [`portable`] | nothing that is true on one machine only |
//! | [`licences`] | every crate that is built has a licence that `deny.toml` allows |
//! | [`links`] | relative links of the documents resolve |
//! | [`names`] | no two types of one name in a crate |
//! | [`documented`] | metrics and variables that the documents name exist |
//! | [`walks`] | the files on the paths of a request are as the documents say, and few |

mod arrows;
mod documented;
mod folders;
mod lengths;
mod lexer;
mod licences;
mod links;
mod manifest;
mod modules;
mod names;
mod portable;
mod unsafe_code;
mod walks;
mod words;

use std::fmt;

use crate::workspace::{TextFile, Workspace};
use crate::{Outcome, TaskResult};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    Warning,
    Error,
}

/// Something that a rule has against a line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    severity: Severity,
    path: String,
    line: usize,
    /// What is wrong and what to do instead.
    message: String,
}

impl Finding {
    fn error(file: &TextFile, line: usize, message: String) -> Self {
        Self { severity: Severity::Error, path: file.path.clone(), line, message }
    }

    fn warning(file: &TextFile, line: usize, message: String) -> Self {
        Self { severity: Severity::Warning, ..Self::error(file, line, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning: ",
            Severity::Error => "",
        };
        write!(f, "{}:{}: {severity}{}", self.path, self.line, self.message)
    }
}

/// Prints every finding; an error among them fails the task.
pub(crate) fn task(workspace: &Workspace) -> TaskResult {
    let files = workspace.text_files()?;
    let mut findings = check(&files);
    if let Some(policy) = files.iter().find(|file| file.path == "deny.toml") {
        findings.extend(licences::check(policy, &licences::listing(workspace)?));
    }
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    println!("tidy: {} files, {errors} errors, {} warnings", files.len(), findings.len() - errors);
    if errors == 0 { Ok(Outcome::Passed) } else { Err(format!("{errors} errors, listed above")) }
}

fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if file.has_extension("rs") {
            let views = lexer::split(&file.text);
            findings.extend(lengths::check(file));
            findings.extend(words::check(file, &views));
            findings.extend(unsafe_code::check(file, &views));
        }
        findings.extend(portable::check(file));
    }
    findings.extend(arrows::check(files));
    findings.extend(folders::check(files));
    findings.extend(links::check(files));
    findings.extend(names::check(files));
    findings.extend(walks::check(files));
    findings.extend(documented::check(files));
    findings
}

/// The lines of `text` with their numbers, the first being 1.
fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// The place of `word` in `text` as a whole word, in bytes.
fn find_word(text: &str, word: &str) -> Option<usize> {
    text.match_indices(word).map(|(at, _)| at).find(|&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        ![before, after].into_iter().flatten().any(lexer::is_identifier_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let files = Workspace::here().text_files().expect("git lists the files");
        assert!(
            files.iter().any(|file| file.path == "crates/xtask/src/tidy/mod.rs"),
            "this file was not listed"
        );
        let errors: Vec<String> = check(&files)
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .map(ToString::to_string)
            .collect();
        assert!(errors.is_empty(), "\n{}", errors.join("\n"));
    }

    #[test]
    fn every_rule_is_asked() {
        let long_file = "\n".repeat(lengths::FILE_LINES_MAX + 1);
        let here_only = portable::MACHINE_PATHS[0];
        let files = [
            TextFile::fixture("crates/model/src/long.rs", &long_file),
            TextFile::fixture("crates/model/src/word.rs", "#[ignore]\nfn f() {}"),
            TextFile::fixture("crates/model/src/danger.rs", "unsafe fn f() {}"),
            TextFile::fixture("crates/model/src/here.rs", &format!("const X: &str = \"{here_only}x\";")),
            TextFile::fixture("crates/mystery/Cargo.toml", "[package]\nname = \"mystery\"\n"),
            TextFile::fixture("crates/model/src/twin.rs", "struct Twin;\nenum Twin {}\n"),
            TextFile::fixture("README.md", "[gone](docs/gone.md)"),
            TextFile::fixture("docs/architecture.md", "## A write (at most 1 files)\n"),
            TextFile::fixture("docs/operations.md", "`ladoga_gone_total`"),
        ];
        let paths: Vec<String> = check(&files).into_iter().map(|finding| finding.path).collect();
        for file in &files {
            assert!(paths.contains(&file.path), "nothing was found in {}", file.path);
        }
    }

    #[test]
    fn a_finding_reads_as_file_line_message() {
        let file = TextFile::fixture("a.rs", "");
        assert_eq!(Finding::error(&file, 7, "no".to_owned()).to_string(), "a.rs:7: no");
        assert_eq!(Finding::warning(&file, 7, "no".to_owned()).to_string(), "a.rs:7: warning: no");
    }

    #[test]
    fn a_word_is_found_whole_only() {
        assert_eq!(find_word("unsafe_code unsafe", "unsafe"), Some(12));
        assert_eq!(find_word("XXXXXX", "XXX"), None);
    }
}
