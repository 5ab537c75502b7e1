//! Nothing that is true on one machine only: a clone builds and runs anywhere.

use super::{Finding, TextFile, numbered_lines};

/// Where people and build machines keep their checkouts. Written in two halves, or this file would break its own rule.
pub(super) const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Use", "rs/")];

/// The only place from which dependencies come.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, content) in numbered_lines(&file.text) {
        for path in MACHINE_PATHS {
            if starts_path(content, path) {
                let message = format!("`{path}` is a path of one machine: make it relative, or a setting");
                findings.push(Finding::error(file, line, message));
            }
        }
        if foreign_source(&file.path, content) {
            let message =
                "dependencies come from crates.io alone: keep mirrors and forks in your own configuration";
            findings.push(Finding::error(file, line, message.to_owned()));
        }
    }
    findings
}

/// Whether an absolute path starts with `path` here; as a part of a relative path or of a URL it is harmless.
fn starts_path(content: &str, path: &str) -> bool {
    content.match_indices(path).any(|(at, _)| {
        let before = content[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '~' | '}' | ')' | '*'))
    })
}

fn foreign_source(path: &str, content: &str) -> bool {
    let content = content.trim();
    match path.rsplit('/').next().unwrap_or(path) {
        "Cargo.lock" => {
            content.strip_prefix("source = ").is_some_and(|source| source.trim_matches('"') != REGISTRY)
        }
        "Cargo.toml" | "config.toml" => ["[source", "[registries", "[registry", "replace-with"]
            .iter()
            .any(|start| content.starts_with(start)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&TextFile::fixture(path, text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_machine_path_is_found_in_any_text_file() {
        for machine_path in MACHINE_PATHS {
            assert_eq!(lines("a.rs", &format!("\nopen(\"{machine_path}x\");")), [2], "{machine_path}");
            assert_eq!(lines("Makefile", &format!("X={machine_path}x")), [1], "{machine_path}");
            assert_eq!(lines("docs/a.md", &format!("see `{machine_path}`")), [1], "{machine_path}");
        }
    }

    #[test]
    fn the_same_letters_in_a_relative_path_pass() {
        let path = MACHINE_PATHS[0];
        assert_eq!(lines("a.rs", &format!("frame{path}a .{path}b ${{X}}{path}c example.com{path}d")), [0; 0]);
    }

    #[test]
    fn another_source_of_dependencies_is_found() {
        let own = format!("source = \"{REGISTRY}\"");
        assert_eq!(lines("Cargo.lock", &own), [0; 0]);
        assert_eq!(lines("Cargo.lock", "source = \"registry+https://mirror.example/index\""), [1]);
        assert_eq!(lines("fuzz/Cargo.lock", "source = \"git+https://forge.example/x\""), [1]);
        assert_eq!(lines(".cargo/config.toml", "[source.crates-io]\nreplace-with = \"mirror\""), [1, 2]);
        assert_eq!(lines(".cargo/config.toml", "[registries.mirror]"), [1]);
    }
}
