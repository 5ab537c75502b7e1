//! The metrics and variables that the documents name exist in the code.

use std::collections::HashSet;

use super::{Finding, TextFile, lexer, numbered_lines};

/// What the names of metrics and of variables begin with.
const PREFIXES: [&str; 2] = ["ladoga_", "LADOGA_"];
/// What a histogram adds to its name.
const SUFFIXES: [&str; 3] = ["_bucket", "_count", "_sum"];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    // Tests, too: the names of some variables are made from those of settings. What this rule is tested with is no name.
    let code =
        files.iter().filter(|file| file.has_extension("rs") && !file.path.starts_with("crates/xtask/"));
    let known: HashSet<&str> = code.flat_map(|file| names(&file.text)).collect();
    let mut findings = Vec::new();
    for document in files.iter().filter(|file| is_document(&file.path)) {
        for (line, text) in numbered_lines(&document.text) {
            for name in names(text).filter(|name| !is_known(name, &known)) {
                let message = format!("`{name}` is in no file of code: was it renamed?");
                findings.push(Finding::error(document, line, message));
            }
        }
    }
    findings
}

/// What people read today. Records of decisions and the history of measurements speak of their own time.
fn is_document(path: &str) -> bool {
    let is_page = path.strip_prefix("docs/").is_some_and(|page| !page.contains('/'));
    is_page || ["README.md", "CONTRIBUTING.md", "bench/README.md"].contains(&path)
}

fn is_known(name: &str, known: &HashSet<&str>) -> bool {
    let of_histogram = SUFFIXES.iter().filter_map(|suffix| name.strip_suffix(suffix));
    of_histogram.chain([name]).any(|name| known.contains(name))
}

/// The whole words that begin with a prefix, and go on behind it.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character| !lexer::is_identifier_part(character)).filter(|word| {
        PREFIXES.iter().any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, document: &str) -> Vec<String> {
        let code =
            "const A: &str = \"ladoga_jobs_total\"; const B: &str = \"LADOGA_LOG\"; // ladoga_wait_seconds";
        let files = [TextFile::fixture(path, document), TextFile::fixture("crates/node/src/a.rs", code)];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_that_the_code_has_pass() {
        let document =
            "`ladoga_jobs_total{a=\"b\"}`, LADOGA_LOG=warn, (`LADOGA_*`), ladoga_wait_seconds_bucket";
        assert!(messages("docs/operations.md", document).is_empty());
    }

    #[test]
    fn a_name_that_is_gone_is_found_with_its_line() {
        let found = messages("docs/http-api.yaml", "a\nb `ladoga_gone_total` LADOGA_GONE\n");
        let expected = ["ladoga_gone_total", "LADOGA_GONE"]
            .map(|name| format!("docs/http-api.yaml:2: `{name}` is in no file of code: was it renamed?"));
        assert_eq!(found, expected);
        assert!(messages("docs/decisions/0001-a.md", "`ladoga_gone_total`").is_empty(), "of its own time");
    }
}
