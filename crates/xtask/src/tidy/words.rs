//! What code and comments may not say, beyond what clippy denies (`todo`, `unimplemented`, `dbg_macro`, `allow_attributes`).

use super::lexer::Views;
use super::{Finding, TextFile, find_word, numbered_lines};

/// Marks in comments that are usually forgotten.
const MARKS: [&str; 2] = ["FIXME", "XXX"];

pub(super) fn check(file: &TextFile, views: &Views) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code) in numbered_lines(&views.code) {
        if find_word(code, "#[ignore").is_some() {
            let message = "`#[ignore` is not allowed: a test that does not run proves nothing: make it fit, or make it a benchmark";
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
    fn a_test_that_is_left_out_is_found() {
        assert_eq!(messages("#[test]\n#[ignore = \"slow\"]\nfn f() {}").len(), 1);
        assert_eq!(messages("#[ignore]\nfn f() {}").len(), 1);
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
        let source = "let x = \"FIXME #[ignore]\"; // wal-XXXXXX\n";
        assert_eq!(messages(source), [""; 0]);
    }
}
