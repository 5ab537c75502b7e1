//! What code and comments may not say.

use super::lexer::Views;
use super::{Finding, TextFile, find_word, numbered_lines};

/// Code that must not be submitted, and what to do instead.
const CODE: [(&str, &str); 4] = [
    ("todo!", "write it, or leave out what calls it"),
    ("unimplemented!", "write it, or leave out what calls it"),
    ("dbg!", "use tracing, or take it out"),
    ("#[ignore", "a test that does not run proves nothing: make it fit, or make it a benchmark"),
];

/// Marks in comments that nobody comes back to.
const MARKS: [&str; 2] = ["FIXME", "XXX"];

pub(super) fn check(file: &TextFile, views: &Views) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code) in numbered_lines(&views.code) {
        for (word, instead) in CODE {
            if find_word(code, word).is_some() {
                findings.push(Finding::error(file, line, format!("`{word}` is not allowed: {instead}")));
            }
        }
        if is_allow_attribute(code) {
            let message = "`allow` outlives its cause: use `#[expect(lint, reason = \"…\")]`";
            findings.push(Finding::error(file, line, message.to_owned()));
        }
    }
    for (line, comment) in numbered_lines(&views.comments) {
        for mark in MARKS {
            if find_word(comment, mark).is_some() {
                findings.push(Finding::error(
                    file,
                    line,
                    format!("`{mark}` is not allowed: do it, or file an issue"),
                ));
            }
        }
        if is_ownerless_todo(comment) {
            let message = "a `TODO` needs its owner and reason: `TODO(name): why not now`";
            findings.push(Finding::error(file, line, message.to_owned()));
        }
    }
    findings
}

/// `#[allow(…)]`, `#![allow(…)]`, and within `#[cfg_attr(…, allow(…))]`.
fn is_allow_attribute(code: &str) -> bool {
    let attribute = code.find("#[").or_else(|| code.find("#!["));
    attribute.is_some_and(|start| {
        let attribute = &code[start..];
        find_word(attribute, "allow").is_some_and(|at| attribute[at + "allow".len()..].starts_with('('))
    })
}

fn is_ownerless_todo(comment: &str) -> bool {
    find_word(comment, "TODO").is_some_and(|at| {
        let has_owner_and_reason = comment[at + "TODO".len()..]
            .strip_prefix('(')
            .and_then(|rest| rest.split_once("):"))
            .is_some_and(|(owner, reason)| !owner.trim().is_empty() && !reason.trim().is_empty());
        !has_owner_and_reason
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::lexer::split;

    fn messages(source: &str) -> Vec<String> {
        check(&TextFile::fixture("a.rs", source), &split(source)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unfinished_code_is_found() {
        for word in ["todo!()", "unimplemented!(\"x\")", "std::todo!(\"later\")", "todo = todo![]", "dbg!(x)"]
        {
            let found = messages(&format!("fn f() {{\n    {word};\n}}"));
            assert_eq!(found.len(), 1, "{word}: {found:?}");
            assert!(found[0].starts_with("a.rs:2: `"), "{}", found[0]);
        }
    }

    #[test]
    fn a_test_that_is_left_out_is_found() {
        assert_eq!(messages("#[test]\n#[ignore = \"slow\"]\nfn f() {}").len(), 1);
        assert_eq!(messages("#[ignore]\nfn f() {}").len(), 1);
    }

    #[test]
    fn allow_is_found_in_every_form() {
        for attribute in ["#[allow(dead_code)]", "#![allow(unused)]", "#[cfg_attr(test, allow(dead_code))]"] {
            assert_eq!(messages(attribute).len(), 1, "{attribute}");
        }
        assert_eq!(messages("#[expect(dead_code, reason = \"x\")]\nfn allow() { allow(); }"), [""; 0]);
    }

    #[test]
    fn marks_are_found_in_comments() {
        for comment in
            ["// FIXME: later", "/// XXX", "/* a\n FIXME */", "x(); // TODO: later", "// TODO(): x"]
        {
            assert_eq!(messages(comment).len(), 1, "{comment}");
        }
        assert_eq!(messages("// TODO(anna): the kernel has no call for it yet"), [""; 0]);
    }

    #[test]
    fn words_in_strings_and_inside_other_words_pass() {
        let source = "let x = \"todo!() FIXME #[allow(a)]\"; mastodbg!(); // wal-XXXXXX, see todo!()\n";
        assert_eq!(messages(source), [""; 0]);
    }
}
