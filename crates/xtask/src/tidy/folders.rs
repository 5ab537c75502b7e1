//! Arrows between the folders and files of a crate: they form no circle.
//!
//! In every folder, its subfolders and files are looked at as one room each; which room names which follows from the paths in
//! the code. A circle is an error: a type is in the wrong file. Names in tests do not count, nor does what a folder's own
//! `mod.rs` names below itself: that is the map.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Crate, Module};
use super::{Finding, TextFile};

/// Circles of files that are two halves of one thing: the crate, and rooms that may be part of one. A circle that is gone
/// must be taken out.
const KNOWN: [(&str, &[&str]); 3] = [
    // A session owns the requests that it serves, and they answer by it.
    ("replica", &["asked", "opened", "requests", "session", "dispatch"]),
    // A range is read from a snapshot, which a client asks for one.
    ("storage", &["range", "snapshot"]),
    // A table keeps its index and filter, or a cache does and a reader holds them; the cache has blocks beside them.
    ("storage", &["cache", "reader", "resident"]),
];

/// The arrows between the rooms of one folder: from room to room, and the line of each.
type Arrows<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (&'a TextFile, usize)>>;

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&TextFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.has_extension("rs")) {
        if let Some((name, _)) = file.path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) {
            crates.entry(name).or_default().push(file);
        }
    }
    let mut findings = Vec::new();
    for (name, files) in crates {
        let modules = Crate::of(name, &files);
        findings.extend(check_crate(name, &modules));
    }
    findings
}

fn check_crate(name: &str, modules: &Crate<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let known = KNOWN.iter().filter(|(in_crate, _)| *in_crate == name).map(|(_, rooms)| *rooms);
    let mut gone: Vec<&[&str]> = known.clone().collect();
    for (folder, arrows) in arrows_by_folder(modules) {
        for circle in circles(&arrows) {
            match known.clone().find(|rooms| circle.iter().all(|room| rooms.contains(room))) {
                Some(rooms) => gone.retain(|other| *other != rooms),
                None => findings.extend(describe(&folder, &circle, &arrows)),
            }
        }
    }
    if let (Some(rooms), Some(file)) = (gone.first(), modules.files().next()) {
        let message =
            format!("no circle of {} is left: take it out of the list in tidy/folders.rs", rooms.join(", "));
        findings.push(Finding::error(file, 1, message));
    }
    findings
}

/// The arrows within each folder that has any.
fn arrows_by_folder<'a>(modules: &'a Crate<'a>) -> BTreeMap<Vec<&'a str>, Arrows<'a>> {
    let mut folders: BTreeMap<Vec<&str>, Arrows<'_>> = BTreeMap::new();
    for module in modules.iter() {
        for (target, line) in modules.targets(module) {
            let Some((folder, from, to)) = rooms(module, target) else { continue };
            folders
                .entry(folder)
                .or_default()
                .entry(from)
                .or_default()
                .entry(to)
                .or_insert((module.file, line));
        }
    }
    folders
}

/// The lowest folder that holds both modules, and their rooms in it. None if one module is inside the other.
fn rooms<'a>(from: &'a Module<'a>, to: &'a Module<'a>) -> Option<(Vec<&'a str>, &'a str, &'a str)> {
    let common = from.path.iter().zip(&to.path).take_while(|(a, b)| a == b).count();
    Some((from.path[..common].to_vec(), from.path.get(common)?, to.path.get(common)?))
}

/// Rooms that reach each other, each circle once, sorted.
fn circles<'a>(arrows: &Arrows<'a>) -> Vec<Vec<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|&room| (room, reach(room, arrows))).collect();
    let mut found: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (&room, reaches) in &reached {
        let circle: Vec<&str> = reaches
            .iter()
            .copied()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(room)))
            .collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

fn reach<'a>(from: &'a str, arrows: &Arrows<'a>) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(room) = open.pop() {
        for &next in arrows.get(room).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}

/// One finding for each arrow of the circle: which of them has to go is for a person to say.
fn describe(folder: &[&str], circle: &[&str], arrows: &Arrows<'_>) -> Vec<Finding> {
    let place = if folder.is_empty() { "src".to_owned() } else { folder.join("/") };
    let between =
        |room: &&str| arrows.get(*room).into_iter().flatten().filter(|(to, _)| circle.contains(*to));
    let found = circle.iter().flat_map(|room| between(room).map(move |arrow| (room, arrow)));
    found
        .map(|(from, (to, (file, line)))| {
            let message = format!(
                "`{from}` names `{to}`, and in {place} {} form a circle: move what is needed to where both may name it",
                circle.join(", ")
            );
            Finding::error(file, *line, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<TextFile> = files
            .iter()
            .map(|(path, text)| TextFile::fixture(&format!("crates/x/src/{path}"), text))
            .collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    const MAP: (&str, &str) = ("lib.rs", "mod wal;\nmod table;\n");

    #[test]
    fn arrows_in_one_direction_pass() {
        let found = findings(&[
            MAP,
            ("table/mod.rs", "mod block;\npub(crate) use block::Block;\n"),
            ("table/block.rs", "pub struct Block;\n"),
            ("wal/mod.rs", "mod frame;\n"),
            ("wal/frame.rs", "use crate::table::Block;\n"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn an_arrow_that_is_turned_round_is_found_at_its_line() {
        let found = findings(&[
            MAP,
            ("table/mod.rs", "mod block;\npub(crate) use block::Block;\n"),
            ("table/block.rs", "pub struct Block;\n\nuse crate::wal::frame::Frame;\n"),
            ("wal/mod.rs", "pub(crate) mod frame;\n"),
            ("wal/frame.rs", "use crate::{\n    table::Block,\n};\npub struct Frame;\n"),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/x/src/table/block.rs:3: `table` names `wal`"), "{found:?}");
        assert!(found[1].starts_with("crates/x/src/wal/frame.rs:1: `wal` names `table`"), "{found:?}");
    }

    #[test]
    fn a_circle_over_a_file_of_the_root_and_by_a_name_of_the_root_is_found() {
        let found = findings(&[
            ("lib.rs", "mod limits;\nmod wal;\npub use wal::Wal;\n"),
            ("limits.rs", "fn max() -> crate::Wal { crate::Wal }\n"),
            ("wal/mod.rs", "pub struct Wal(super::limits::Max);\n"),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn circles_inside_a_folder_count_of_folders_and_of_files() {
        let files = [
            ("lib.rs", "mod peers;\n"),
            ("peers/mod.rs", "mod link;\nmod hints;\nmod pace;\n"),
            ("peers/link.rs", "use super::hints::Hint;\nuse super::pace::Pace;\n"),
            ("peers/pace.rs", "pub struct Pace;\n"),
            ("peers/hints/mod.rs", "pub struct Hint;\n"),
        ];
        assert_eq!(findings(&files), [""; 0]);
        for (turned, name) in [("peers/hints/mod.rs", "`hints`"), ("peers/pace.rs", "`pace`")] {
            let files =
                files.map(
                    |(path, text)| {
                        if path == turned { (path, "use super::link::Link;\n") } else { (path, text) }
                    },
                );
            assert!(findings(&files).iter().any(|line| line.contains(&format!("{name} names `link`"))));
        }
    }

    #[test]
    fn what_tests_name_does_not_count() {
        let found = findings(&[
            MAP,
            ("table/mod.rs", "#[cfg(test)]\nmod tests {\n    fn f() { use crate::wal::Wal; }\n}\n"),
            ("wal/mod.rs", "use crate::table::Table;\n"),
            ("table/block_tests.rs", "use crate::wal::Wal;\n"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
