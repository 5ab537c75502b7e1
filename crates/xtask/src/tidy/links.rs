//! Relative links of the documents resolve, to the heading that they name.

use std::collections::HashMap;

use super::{Finding, TextFile, numbered_lines};

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let by_path: HashMap<&str, &TextFile> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_document(file)) {
        for (line, text) in prose(&file.text) {
            for target in targets(&without_code(text)) {
                if let Err(reason) = resolve(file, &target, &by_path) {
                    findings.push(Finding::error(file, line, format!("link `{target}`: {reason}")));
                }
            }
        }
    }
    findings
}

/// The documents of the root, and everything in `docs/`.
fn is_document(file: &TextFile) -> bool {
    file.has_extension("md") && (file.path.starts_with("docs/") || !file.path.contains('/'))
}

/// The lines outside fenced code blocks.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut in_fence = false;
    let mut lines = Vec::new();
    for (line, content) in numbered_lines(text) {
        if content.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            lines.push((line, content));
        }
    }
    lines
}

/// Without `code spans`: what looks like a link in there is none.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// What the links, images and link definitions of a line point at.
fn targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    inline
        .chain(definition)
        .filter_map(|target| target.split_whitespace().next()) // A title may follow.
        .map(|target| target.trim_matches(['<', '>']).to_owned())
        .collect()
}

fn resolve(from: &TextFile, target: &str, by_path: &HashMap<&str, &TextFile>) -> Result<(), String> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return Ok(());
    }
    let (relative, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if relative.is_empty() { from.path.clone() } else { join(&from.path, relative)? };
    let Some(file) = by_path.get(path.as_str()) else {
        let folder = format!("{path}/");
        let is_folder = path.is_empty() || by_path.keys().any(|known| known.starts_with(&folder));
        return if is_folder { Ok(()) } else { Err(format!("there is no `{path}` in the repository")) };
    };
    if anchor.is_empty()
        || !file.has_extension("md")
        || anchors(&file.text).iter().any(|known| known == anchor)
    {
        return Ok(());
    }
    Err(format!("`{path}` has no heading for `#{anchor}`"))
}

/// `relative` as seen from the folder of `from`, without `.` and `..`.
fn join(from: &str, relative: &str) -> Result<String, String> {
    if relative.starts_with('/') {
        return Err("a link that starts with `/` depends on where it is shown: make it relative".to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or("it leaves the repository")?;
            }
            name => parts.push(name),
        }
    }
    Ok(parts.join("/"))
}

/// The anchors that a forge gives to the headings: lower case, punctuation dropped, blanks as hyphens, repeated ones
/// counted.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut uses: HashMap<String, usize> = HashMap::new();
    for (_, line) in prose(text) {
        let Some(title) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')) else { continue };
        let slug: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let seen = uses.entry(slug.clone()).or_insert(0);
        found.push(if *seen == 0 { slug } else { format!("{slug}-{seen}") });
        *seen += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let files = [
            TextFile::fixture(path, text),
            TextFile::fixture(
                "docs/formats/wal.md",
                "# The log\n## Torn tail, told apart\n## Torn tail, told apart\n",
            ),
            TextFile::fixture("LICENSE", ""),
        ];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_link_to_nothing_is_found_at_its_line() {
        let found = messages("README.md", "fine\n[a](docs/gone.md) and ![b](gone.png)\n[c]: gone.md\n");
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(
            found[0],
            "README.md:2: link `docs/gone.md`: there is no `docs/gone.md` in the repository"
        );
        assert!(found[2].starts_with("README.md:3: "), "{}", found[2]);
    }

    #[test]
    fn links_are_relative_to_their_document() {
        assert_eq!(
            messages("docs/a.md", "[w](formats/wal.md) [l](../LICENSE) [f](formats/) [r](..)"),
            [""; 0]
        );
        assert_eq!(messages("docs/a.md", "[w](docs/formats/wal.md)").len(), 1);
        assert_eq!(messages("docs/a.md", "[x](../../elsewhere.md)").len(), 1);
        assert_eq!(messages("docs/a.md", "[x](/LICENSE)").len(), 1);
    }

    #[test]
    fn anchors_name_headings() {
        let good = "[a](formats/wal.md#torn-tail-told-apart) [b](formats/wal.md#torn-tail-told-apart-1) [c](#here)\n# Here";
        assert_eq!(messages("docs/a.md", good), [""; 0]);
        assert_eq!(messages("docs/a.md", "[a](formats/wal.md#torn)").len(), 1);
        assert_eq!(messages("docs/a.md", "[a](#nowhere)").len(), 1);
    }

    #[test]
    fn code_and_other_sites_are_no_relative_links() {
        let text = "`[a](gone.md)`\n```\n[b](gone.md)\n```\n[c](https://example.com/x)\n";
        assert_eq!(messages("docs/a.md", text), [""; 0]);
    }

    #[test]
    fn only_documents_are_read() {
        assert_eq!(messages("crates/x/notes.md", "[a](gone.md)"), [""; 0]);
    }
}
