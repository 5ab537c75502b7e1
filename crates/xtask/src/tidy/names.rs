//! Two types of one name within a crate: a reader of one takes it for the other.

use std::collections::BTreeMap;

use super::lexer::code_without_tests;
use super::lexer::is_identifier_part;
use super::{Finding, TextFile, numbered_lines};

/// What makes a type. Aliases are none, and neither is the associated type of a trait.
const KEYWORDS: [&str; 4] = ["struct", "enum", "union", "trait"];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut first: BTreeMap<(&str, String), (&TextFile, usize)> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("rs") && !file.path.ends_with("tests.rs")) {
        let Some((name, _)) = file.path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"))
        else {
            continue;
        };
        for (line, code) in numbered_lines(&code_without_tests(&file.text)) {
            let Some(type_name) = declared(code) else { continue };
            if let Some((other, other_line)) = first.get(&(name, type_name.to_owned())) {
                let message = format!(
                    "`{type_name}` is the name of another type of this crate ({}:{other_line}): give each the name of what it is",
                    other.path
                );
                findings.push(Finding::error(file, line, message));
                continue;
            }
            first.insert((name, type_name.to_owned()), (file, line));
        }
    }
    findings
}

/// The name of the type that a line of code declares.
fn declared(code: &str) -> Option<&str> {
    let mut rest = code.trim_start();
    if let Some(visible) = rest.strip_prefix("pub") {
        rest = match visible.strip_prefix('(') {
            Some(within) => within.split_once(')')?.1,
            None => visible,
        }
        .trim_start();
    }
    rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (keyword, rest) = rest.split_once(' ')?;
    let end = rest.find(|c| !is_identifier_part(c)).unwrap_or(rest.len());
    (KEYWORDS.contains(&keyword) && end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(sources: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<TextFile> = sources.iter().map(|(path, text)| TextFile::fixture(path, text)).collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_second_type_of_a_name_is_found_with_the_first() {
        let found = findings(&[
            ("crates/model/src/a.rs", "pub struct Stamp {\n}\n"),
            ("crates/model/src/b/c.rs", "//! Another.\n\npub(in super::super) enum Stamp<V> { One(V) }\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/model/src/b/c.rs:3: `Stamp`"), "{found:?}");
        assert!(found[0].contains("crates/model/src/a.rs:1"), "{found:?}");
        for second in
            ["trait Stamp: Send {}", "pub unsafe trait Stamp {}", "struct Stamp;", "    union Stamp {}"]
        {
            let sources = [("crates/model/src/a.rs", "struct Stamp;"), ("crates/model/src/b.rs", second)];
            assert_eq!(findings(&sources).len(), 1, "{second}");
        }
    }

    #[test]
    fn what_only_looks_like_one_passes() {
        let first = ("crates/model/src/a.rs", "struct Stamp;\ntype Upload = u8;\n");
        for second in [
            ("crates/env/src/a.rs", "struct Stamp;"),
            ("crates/model/src/b.rs", "#[cfg(test)]\nmod tests {\n    struct Stamp;\n}\n"),
            ("crates/model/src/b_tests.rs", "struct Stamp;"),
            ("crates/model/tests/b.rs", "struct Stamp;"),
            ("crates/model/src/b.rs", "type Stamp = u8;\nimpl Upload for u8 {\n    type Upload = u8;\n}\n"),
            ("crates/model/src/b.rs", "// struct Stamp\nconst X: &str = \"struct Stamp;\";\n"),
            ("crates/model/src/b.rs", "macro_rules! make { ($name:ident) => {\n    struct $name;\n} }\n"),
        ] {
            assert_eq!(findings(&[first, second]), [""; 0], "{second:?}");
        }
    }
}
