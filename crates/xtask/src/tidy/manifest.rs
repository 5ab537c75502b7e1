//! As much of a `Cargo.toml` as the arrows need: the package's name, and which packages it depends on.
//!
//! A scanner and no TOML parser, so that this crate stays without dependencies: it knows tables, `key = value` on one
//! line and `key.key = value`, which is how manifests are written.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of the library, the binary or the build script.
    Normal,
    /// Of tests, examples and benchmarks.
    Development,
    /// An entry of `[workspace.dependencies]`, which is no dependency yet.
    Workspace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dependency {
    pub(super) line: usize,
    pub(super) kind: Kind,
    /// The name that this manifest gives it.
    pub(super) alias: String,
    /// The package behind it, if `package = "…"` names one.
    pub(super) package: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Manifest {
    pub(super) package_name: Option<String>,
    pub(super) dependencies: Vec<Dependency>,
}

pub(super) fn scan(text: &str) -> Manifest {
    let mut manifest = Manifest::default();
    let mut table = Vec::new();
    for (line, content) in super::numbered_lines(text) {
        let content = without_comment(content).trim();
        if let Some(header) = content.strip_prefix('[') {
            table = key_parts(header.trim_matches(['[', ']']));
            if let Some((kind, rest)) = dependency_table(&table) {
                rest.first().into_iter().for_each(|alias| manifest.add(line, kind, alias));
            }
        } else if let Some((key, value)) = content.split_once('=') {
            let full: Vec<String> = table.iter().cloned().chain(key_parts(key)).collect();
            manifest.take(line, &full, value.trim());
        }
    }
    manifest
}

impl Manifest {
    fn take(&mut self, line: usize, key: &[String], value: &str) {
        if key == ["package", "name"] {
            self.package_name = Some(unquoted(value));
        }
        let Some((kind, [alias, rest @ ..])) = dependency_table(key) else { return };
        self.add(line, kind, alias);
        let package = match rest {
            [field] if field == "package" => Some(unquoted(value)),
            [] => package_of(value),
            _ => None,
        };
        if let Some(dependency) = self.dependencies.last_mut().filter(|_| package.is_some()) {
            dependency.package = package;
        }
    }

    /// Several lines may speak of one dependency, one after the other.
    fn add(&mut self, line: usize, kind: Kind, alias: &str) {
        let known = self.dependencies.last().is_some_and(|last| last.kind == kind && last.alias == alias);
        if !known {
            self.dependencies.push(Dependency { line, kind, alias: alias.to_owned(), package: None });
        }
    }
}

/// The kind of dependencies that the key is about, and the rest of the key.
fn dependency_table(key: &[String]) -> Option<(Kind, &[String])> {
    let after_target = match key {
        [target, _, rest @ ..] if target == "target" => rest,
        all => all,
    };
    match after_target {
        [workspace, table, rest @ ..] if workspace == "workspace" && table == "dependencies" => {
            Some((Kind::Workspace, rest))
        }
        [table, rest @ ..] if table == "dependencies" || table == "build-dependencies" => {
            Some((Kind::Normal, rest))
        }
        [table, rest @ ..] if table == "dev-dependencies" => Some((Kind::Development, rest)),
        _ => None,
    }
}

/// `target.'cfg(unix)'.dependencies` in its three parts.
fn key_parts(key: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    for c in key.trim().chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('.', None) => parts.push(String::new()),
            _ => parts.last_mut().into_iter().for_each(|part| part.push(c)),
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('#', None) => return &line[..at],
            _ => {}
        }
    }
    line
}

/// The `package` of an inline table `{ package = "…", … }`.
fn package_of(value: &str) -> Option<String> {
    let fields = value.strip_prefix('{')?.strip_suffix('}')?.split(',');
    fields
        .filter_map(|field| field.split_once('='))
        .find(|(key, _)| key.trim() == "package")
        .map(|(_, v)| unquoted(v))
}

fn unquoted(value: &str) -> String {
    value.trim().trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependencies(text: &str) -> Vec<(usize, Kind, String, Option<String>)> {
        scan(text).dependencies.into_iter().map(|d| (d.line, d.kind, d.alias, d.package)).collect()
    }

    fn plain(line: usize, kind: Kind, alias: &str) -> (usize, Kind, String, Option<String>) {
        (line, kind, alias.to_owned(), None)
    }

    #[test]
    fn every_way_to_write_a_dependency_is_seen() {
        let text = "[package]\nname = \"x\" # not y\n[dependencies]\na = \"1\"\nb.workspace = true\n\
                    [dev-dependencies]\nc = { path = \"../c\" }\n[build-dependencies]\nd = \"1\"\n\
                    [target.'cfg(target_os = \"linux\")'.dependencies]\ne = \"1\"\n\
                    [dependencies.f]\nversion = \"1\"\nfeatures = []\n[lints]\nworkspace = true\n";
        assert_eq!(scan(text).package_name.as_deref(), Some("x"));
        assert_eq!(
            dependencies(text),
            [
                plain(4, Kind::Normal, "a"),
                plain(5, Kind::Normal, "b"),
                plain(7, Kind::Development, "c"),
                plain(9, Kind::Normal, "d"),
                plain(11, Kind::Normal, "e"),
                plain(12, Kind::Normal, "f"),
            ]
        );
    }

    #[test]
    fn a_renamed_dependency_keeps_its_package() {
        let text = "[workspace.dependencies]\na = { path = \"crates/node\", package = \"n\" }\n\
                    [dependencies]\nb = { package = 'm', version = \"1\" }\n[dependencies.c]\npackage = \"k\"\n";
        let packages: Vec<_> = scan(text).dependencies.into_iter().map(|d| (d.kind, d.package)).collect();
        assert_eq!(
            packages,
            [
                (Kind::Workspace, Some("n".to_owned())),
                (Kind::Normal, Some("m".to_owned())),
                (Kind::Normal, Some("k".to_owned())),
            ]
        );
    }

    #[test]
    fn a_hash_in_a_string_starts_no_comment() {
        assert_eq!(without_comment("a = \"#\" # b"), "a = \"#\" ");
    }
}
