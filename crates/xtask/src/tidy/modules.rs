//! The modules of a crate, and what the paths in their code name. Read as text: macros are not expanded.

use std::collections::{BTreeMap, BTreeSet};

use super::TextFile;
use super::lexer::{code_without_tests, is_identifier_part};

/// How many names a path may go through: a circle of re-exports ends there.
const HOPS_MAX: usize = 16;

/// A path, segment by segment.
type Path = Vec<String>;

/// A file as a module.
pub(super) struct Module<'a> {
    pub(super) file: &'a TextFile,
    /// From the root of the crate; empty for the root itself.
    pub(super) path: Vec<&'a str>,
    /// The paths in its code, as they are written, with their lines.
    paths: Vec<(Path, usize)>,
    /// What it imports and re-exports, by the name that it has here.
    imports: BTreeMap<String, Path>,
}

/// The modules of a crate.
pub(super) struct Crate<'a> {
    modules: BTreeMap<Vec<&'a str>, Module<'a>>,
}

impl<'a> Crate<'a> {
    /// From its files below `src`. Files of tests (`…_tests.rs`, `tests.rs`) are left out, and so is a second root
    /// (`main.rs` beside `lib.rs`).
    pub(super) fn of(name: &str, files: &[&'a TextFile]) -> Crate<'a> {
        let mut modules = BTreeMap::new();
        for file in files {
            let Some(inside) = file.path.strip_prefix("crates/").and_then(|rest| rest.strip_prefix(name))
            else {
                continue;
            };
            let Some(inside) = inside.strip_prefix("/src/").and_then(|path| path.strip_suffix(".rs")) else {
                continue;
            };
            if inside.ends_with("tests") {
                continue;
            }
            let mut path: Vec<&str> = inside.split('/').collect();
            let is_root = matches!(path.as_slice(), ["lib" | "main"]);
            let is_folder = path.last() == Some(&"mod");
            if is_root || is_folder {
                path.pop();
            }
            let (paths, imports) = scan(&code_without_tests(&file.text));
            modules.entry(path.clone()).or_insert(Module { file, path, paths, imports });
        }
        Crate { modules }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Module<'a>> {
        self.modules.values()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &'a TextFile> {
        self.modules.values().map(|module| module.file)
    }

    /// The modules that a module names, each with the first line that does.
    pub(super) fn targets<'b>(&'b self, module: &'b Module<'a>) -> Vec<(&'b Module<'a>, usize)> {
        let mut seen = BTreeSet::new();
        let mut targets = Vec::new();
        for (path, line) in &module.paths {
            if let Some(target) = self.resolve(module, path, 0)
                && target.path != module.path
                && seen.insert(&target.path)
            {
                targets.push((target, *line));
            }
        }
        targets
    }

    /// The module in which what the path names is defined, as far as names tell.
    fn resolve<'b>(&'b self, from: &'b Module<'a>, path: &[String], hops: usize) -> Option<&'b Module<'a>> {
        let mut at = match path.first()?.as_str() {
            "crate" => self.modules.get(&Vec::new())?,
            "self" => from,
            "super" => self.parent(from)?,
            _ if hops > HOPS_MAX => return None,
            first => return self.inside(from, first, &path[1..], hops),
        };
        let mut rest = &path[1..];
        while let Some((segment, after)) = rest.split_first() {
            if segment == "super" {
                at = self.parent(at)?;
                rest = after;
                continue;
            }
            return Some(self.inside(at, segment, after, hops).unwrap_or(at));
        }
        Some(at)
    }

    /// What `name` is in a module: a module below it, or something that it imports.
    fn inside<'b>(
        &'b self,
        at: &'b Module<'a>,
        name: &str,
        after: &[String],
        hops: usize,
    ) -> Option<&'b Module<'a>> {
        let child = self.modules.values().find(|module| {
            module.path.len() == at.path.len() + 1
                && module.path.starts_with(&at.path)
                && module.path.last() == Some(&name)
        });
        if let Some(child) = child {
            let Some((next, after)) = after.split_first() else { return Some(child) };
            return Some(self.inside(child, next, after, hops).unwrap_or(child));
        }
        let imported = at.imports.get(name).filter(|imported| imported.as_slice() != [name])?;
        if hops > HOPS_MAX {
            return None;
        }
        self.resolve(at, &imported.iter().chain(after).cloned().collect::<Vec<_>>(), hops + 1)
    }

    fn parent<'b>(&'b self, of: &Module<'a>) -> Option<&'b Module<'a>> {
        self.modules.get(&of.path[..of.path.len().checked_sub(1)?])
    }
}

/// The paths of the code that begin with `crate`, `self`, `super` or are in a `use`; and the names that `use` brings in.
fn scan(code: &str) -> (Vec<(Path, usize)>, BTreeMap<String, Path>) {
    let (mut paths, mut imports) = (Vec::new(), BTreeMap::new());
    let mut reader = Reader { code, at: 0 };
    while let Some(word) = reader.next_word() {
        let line = 1 + code[..reader.at].matches('\n').count();
        match word {
            "use" => {
                let mut trees = Vec::new();
                reader.tree(&mut Vec::new(), &mut trees);
                for (path, name) in trees {
                    paths.push((path.clone(), line));
                    imports.insert(name, path);
                }
            }
            "crate" | "self" | "super" if reader.takes("::") => {
                let mut path = vec![word.to_owned()];
                while let Some(segment) = reader.word() {
                    path.push(segment.to_owned());
                    if !reader.takes("::") {
                        break;
                    }
                }
                paths.push((path, line));
            }
            _ => {}
        }
    }
    (paths, imports)
}

struct Reader<'a> {
    code: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn skip_blanks(&mut self) {
        self.at += self.code[self.at..].len() - self.code[self.at..].trim_start().len();
    }

    /// The word that begins here.
    fn word(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let rest = &self.code[self.at..];
        let length = rest.find(|c| !is_identifier_part(c)).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    /// The next word, wherever it begins.
    fn next_word(&mut self) -> Option<&'a str> {
        let start = self.code[self.at..].find(is_identifier_part)?;
        self.at += start;
        self.word()
    }

    fn takes(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let is_there = self.code[self.at..].starts_with(token);
        self.at += if is_there { token.len() } else { 0 };
        is_there
    }

    /// A tree of a `use`: each of its paths with the name that it gets.
    fn tree(&mut self, prefix: &mut Path, found: &mut Vec<(Path, String)>) {
        let depth = prefix.len();
        loop {
            if self.takes("{") {
                while !self.takes("}") && self.at < self.code.len() {
                    let before = self.at;
                    self.tree(prefix, found);
                    // What is no tree is passed over.
                    if !self.takes(",") && self.at == before {
                        self.at += self.code[self.at..].chars().next().map_or(0, char::len_utf8);
                    }
                }
                break;
            }
            let Some(segment) = self.word() else { break };
            prefix.push(segment.to_owned());
            if !self.takes("::") {
                let renamed = if self.takes("as ") { self.word() } else { None };
                // `self` names the module before it.
                if segment == "self" && prefix.len() > 1 {
                    prefix.pop();
                }
                let name = renamed.unwrap_or_else(|| prefix.last().map_or("", String::as_str)).to_owned();
                found.push((prefix.clone(), name));
                break;
            }
        }
        prefix.truncate(depth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(code: &str) -> Vec<String> {
        scan(code).0.into_iter().map(|(path, line)| format!("{line} {}", path.join("::"))).collect()
    }

    #[test]
    fn every_path_of_a_tree_is_found() {
        assert_eq!(
            uses(
                "use crate::{a::{self, B}, c::D as E,};\nfn f() { super::g::<u8>(); crate::h::I::new(); }\n"
            ),
            ["1 crate::a", "1 crate::a::B", "1 crate::c::D", "2 super::g", "2 crate::h::I::new"]
        );
        assert_eq!(uses("use std::io;\npub(crate) use self::x::Y;\n"), ["1 std::io", "2 self::x::Y"]);
    }

    #[test]
    fn what_does_not_close_ends() {
        for code in ["use crate::{", "use", "use crate::{a::{b", "use crate::{=", "crate::", "self::"] {
            let _ = scan(code);
        }
    }
}
