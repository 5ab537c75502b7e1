//! Small rooms: how long a file may be. The length of functions is checked by clippy (`too-many-lines-threshold`).

use super::{Finding, TextFile};

pub(super) const FILE_LINES_MAX: usize = 600;
/// From here on a file is worth splitting, but nothing fails.
const FILE_LINES_WARN: usize = 400;

const _: () = assert!(FILE_LINES_WARN < FILE_LINES_MAX);

pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        let message = format!("{lines} lines; at most {FILE_LINES_MAX}: split the file by what it is about");
        findings.push(Finding::error(file, lines, message));
    } else if lines > FILE_LINES_WARN {
        let message = format!("{lines} lines; {FILE_LINES_WARN} is plenty, {FILE_LINES_MAX} fails");
        findings.push(Finding::warning(file, lines, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Severity;

    fn findings(source: &str) -> Vec<Finding> {
        check(&TextFile::fixture("a.rs", source))
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
}
