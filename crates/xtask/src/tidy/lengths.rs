//! Small rooms: how long a file and a function may be.

use super::lexer::{Views, is_identifier_part};
use super::{Finding, TextFile};

const FILE_LINES_MAX: usize = 600;
/// From here on a file is worth splitting, but nothing fails.
const FILE_LINES_WARN: usize = 400;
/// From the line of `fn` to the line of the closing brace.
pub(super) const FUNCTION_LINES_MAX: usize = 70;

const _: () = assert!(FUNCTION_LINES_MAX < FILE_LINES_WARN && FILE_LINES_WARN < FILE_LINES_MAX);

pub(super) fn check(file: &TextFile, views: &Views) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        let message = format!("{lines} lines; at most {FILE_LINES_MAX}: split the file by what it is about");
        findings.push(Finding::error(file, lines, message));
    } else if lines > FILE_LINES_WARN {
        let message = format!("{lines} lines; {FILE_LINES_WARN} is plenty, {FILE_LINES_MAX} fails");
        findings.push(Finding::warning(file, lines, message));
    }
    for function in functions(&views.code) {
        let lines = function.lines();
        if lines > FUNCTION_LINES_MAX {
            let message = format!(
                "`{}` has {lines} lines; at most {FUNCTION_LINES_MAX}: name its steps and call them",
                function.name
            );
            findings.push(Finding::error(file, function.line_first, message));
        }
    }
    findings
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line_first: usize,
    line_last: usize,
}

impl Function {
    fn lines(&self) -> usize {
        self.line_last - self.line_first + 1
    }
}

/// Every function of `code` that has a body, those inside others included. `code` has no literals and no comments.
fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn") {
        let starts_word = !code[..at].chars().next_back().is_some_and(is_identifier_part);
        let Some(name) = function_name(&code[at + 2..]) else { continue };
        let Some(open) = body_start(bytes, at + 2) else { continue };
        if starts_word {
            let end = matching_brace(bytes, open);
            found.push(Function { name, line_first: line_of(bytes, at), line_last: line_of(bytes, end) });
        }
    }
    found
}

/// The name that follows `fn`; none for the type `fn(…)`. In a macro the name may be `$name`.
fn function_name(after_fn: &str) -> Option<String> {
    let trimmed = after_fn.trim_start();
    if trimmed.len() == after_fn.len() {
        return None;
    }
    let name: String =
        trimmed.chars().take_while(|c| is_identifier_part(*c) || matches!(c, '$' | '#')).collect();
    (!name.is_empty()).then_some(name)
}

/// The brace that opens the body; none if the declaration ends with a semicolon.
fn body_start(code: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0_usize; // Of parentheses and brackets: `[u8; { N }]` and `[u8; 4]` are types.
    let mut at = from;
    while let Some(&byte) = code.get(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return None,
            // The argument of a const generic, `Array<{ N }>`.
            b'{' if depth > 0 || code[..at].trim_ascii_end().ends_with(b"<") => at = matching_brace(code, at),
            b'{' => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the brace at `open` closes; the last byte if it does not.
fn matching_brace(code: &[u8], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len() - 1
}

fn line_of(code: &[u8], at: usize) -> usize {
    code[..at].split(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Severity;
    use crate::tidy::lexer::split;

    fn findings(source: &str) -> Vec<Finding> {
        check(&TextFile::fixture("a.rs", source), &split(source))
    }

    fn found(source: &str) -> Vec<(String, usize)> {
        functions(&split(source).code).into_iter().map(|f| (f.name.clone(), f.lines())).collect()
    }

    fn function_of(lines: usize) -> String {
        format!("\nfn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_over_its_length_fails_and_one_near_it_warns() {
        assert_eq!(findings(&"\n".repeat(FILE_LINES_WARN)), []);
        let near = findings(&"\n".repeat(FILE_LINES_WARN + 1));
        assert_eq!(near.len(), 1);
        assert_eq!(near[0].severity, Severity::Warning);
        assert_eq!(findings(&"\n".repeat(FILE_LINES_MAX))[0].severity, Severity::Warning);
        let over = findings(&"\n".repeat(FILE_LINES_MAX + 1));
        assert_eq!(over.len(), 1);
        assert_eq!(over[0].severity, Severity::Error);
        assert!(over[0].message.starts_with("601 lines; at most 600"), "{}", over[0].message);
    }

    #[test]
    fn a_function_over_its_length_fails_at_its_first_line() {
        assert_eq!(findings(&function_of(FUNCTION_LINES_MAX)), []);
        let over = findings(&function_of(FUNCTION_LINES_MAX + 1));
        assert_eq!(over.len(), 1);
        assert_eq!((over[0].severity, over[0].line), (Severity::Error, 2));
        assert!(over[0].message.starts_with("`f` has 71 lines; at most 70"), "{}", over[0].message);
    }

    #[test]
    fn braces_in_literals_and_comments_do_not_count() {
        let source = "fn a() {\n  // }\n  x('}', \"}\", r#\"}\"#); /* } */\n}\nfn b() {}\n";
        assert_eq!(found(source), [("a".to_owned(), 4), ("b".to_owned(), 1)]);
    }

    #[test]
    fn nested_functions_and_methods_are_functions() {
        let source = "impl X {\n  fn a(&self) {\n    fn b() {\n    }\n  }\n}\n";
        assert_eq!(found(source), [("a".to_owned(), 4), ("b".to_owned(), 2)]);
    }

    #[test]
    fn what_has_no_body_is_no_function() {
        assert_eq!(found("trait T { fn a(&self) -> [u8; 4]; }\nextern \"C\" { fn b(); }\n"), []);
        assert_eq!(
            found("type F = fn(u8) -> u8;\nstruct S { define: fn() }\nconst fnord: u8 = { 1 };\n"),
            []
        );
    }

    #[test]
    fn a_brace_in_the_signature_is_not_the_body() {
        let source = "fn a<T>(x: [u8; { 1 }]) -> Array<{ 2 }>\nwhere\n  T: Copy,\n{\n}\n";
        assert_eq!(found(source), [("a".to_owned(), 5)]);
    }

    #[test]
    fn a_function_in_a_macro_has_a_name_too() {
        assert_eq!(found("macro_rules! m { ($n:ident) => { fn $n() {\n} } }"), [("$n".to_owned(), 2)]);
    }
}
