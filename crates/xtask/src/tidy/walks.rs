//! The walks in `docs/architecture.md` name files that exist, and no more of them than a reader can be asked to open.
//!
//! A walk is a section whose heading ends with `(at most N files)`. It names files in code spans, as `crate/path.rs`; a name
//! without a folder means a file that was named before.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use super::{Finding, TextFile, numbered_lines};

const DOCUMENT: &str = "docs/architecture.md";

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else { return Vec::new() };
    let paths: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut findings = Vec::new();
    let mut walk: Option<Walk<'_>> = None;
    for (line, text) in numbered_lines(&document.text) {
        if text.starts_with('#') {
            findings.extend(walk.take().and_then(|walk| walk.finding(document)));
            walk = files_max(text).map(|files_max| Walk { line, files_max, named: BTreeSet::new() });
            continue;
        }
        let Some(walk) = &mut walk else { continue };
        for name in file_names(text) {
            if !source_path(name).is_some_and(|path| paths.contains(path.as_str())) {
                let message = format!("`{name}` does not exist: name the file as crate/path.rs");
                findings.push(Finding::error(document, line, message));
            }
            walk.named.insert(name);
        }
    }
    findings.extend(walk.and_then(|walk| walk.finding(document)));
    findings
}

/// A walk, and the files that it has named so far.
struct Walk<'a> {
    line: usize,
    files_max: usize,
    named: BTreeSet<&'a str>,
}

impl Walk<'_> {
    fn finding(&self, document: &TextFile) -> Option<Finding> {
        let files = self.named.len();
        let message = match files {
            0 => "the walk names no file".to_owned(),
            _ if files > self.files_max => {
                format!("the walk names {files} files, at most {}", self.files_max)
            }
            _ => return None,
        };
        Some(Finding::error(document, self.line, message))
    }
}

fn files_max(heading: &str) -> Option<usize> {
    heading.rsplit_once("(at most ")?.1.strip_suffix(" files)")?.parse().ok()
}

/// The code spans of a line that are files of Rust in their folders.
fn file_names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|span| span.contains('/') && Path::new(span).extension().is_some_and(|name| name == "rs"))
}

/// `front/serve.rs` is `crates/front/src/serve.rs`.
fn source_path(name: &str) -> Option<String> {
    let (crate_name, path) = name.split_once('/')?;
    Some(format!("crates/{crate_name}/src/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(document: &str) -> Vec<String> {
        let files = [
            TextFile::fixture(DOCUMENT, document),
            TextFile::fixture("crates/front/src/serve.rs", ""),
            TextFile::fixture("crates/http1/src/server/head.rs", ""),
        ];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_walk_of_files_that_exist_passes() {
        let document = "## A read (at most 2 files)\n1. `front/serve.rs`, `serve`\n2. `http1/server/head.rs`, `front/serve.rs`\n";
        assert!(messages(document).is_empty());
        assert!(messages("## Threads\n`gone.rs`\n").is_empty(), "no walk");
    }

    #[test]
    fn a_file_that_is_gone_is_named() {
        let found = messages("## A read (at most 2 files)\n\n1. `front/gone.rs`\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/architecture.md:3: `front/gone.rs` does not exist"), "{found:?}");
    }

    #[test]
    fn a_walk_that_is_too_long_or_empty_is_found() {
        let long =
            messages("## A read (at most 1 files)\n`front/serve.rs` `http1/server/head.rs`\n## Next\n");
        assert_eq!(long, ["docs/architecture.md:1: the walk names 2 files, at most 1"]);
        assert_eq!(
            messages("## A read (at most 1 files)\n"),
            ["docs/architecture.md:1: the walk names no file"]
        );
    }
}
