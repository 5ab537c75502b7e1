#![expect(clippy::disallowed_methods, reason = "as of the log itself")]

use super::*;

/// The first line behind a restart was appended to it.
#[test]
fn a_log_that_ends_within_a_line_is_found_so_when_it_is_opened() {
    let path = std::env::temp_dir().join(format!("ladoga-audit-{}", std::process::id()));
    for (content, expected) in [("", false), ("a\n", false), ("a\nb", true), ("\n", false), ("a", true)] {
        fs::write(&path, content).expect("a file");
        let file = fs::OpenOptions::new().append(true).open(&path).expect("a file");
        assert_eq!(ends_within_line(&file, &path).expect("a file"), expected, "{content:?}");
    }
    fs::remove_file(&path).expect("a file");
}
