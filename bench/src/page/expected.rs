//! What a complete set of results has, so that what is missing can be named.

use super::targets::targets;
use crate::comparisons::ALL;
use crate::report::{Archive, Published, comparison_of};

/// A contest, and what it has beside our row.
pub(super) struct Expected {
    pub(super) id: &'static str,
    pub(super) part: &'static str,
    pub(super) references: &'static [&'static str],
}

const NGINX: &[&str] = &["nginx"];
const REDIS: &[&str] = &["redis"];
const ENGINES: &[&str] = &["fjall", "RocksDB"];

const fn expected(id: &'static str, part: &'static str, references: &'static [&'static str]) -> Expected {
    Expected { id, part, references }
}

pub(super) const EXPECTED: &[Expected] = &[
    expected("p1", "", &["nginx", "redis"]),
    expected("p2", "", &["nginx", "redis"]),
    expected("p3", "", REDIS),
    expected("resp-set", "everysec", REDIS),
    expected("resp-get", "everysec", REDIS),
    expected("resp-set-16", "everysec", REDIS),
    expected("resp-get-16", "everysec", REDIS),
    expected("resp-set", "always", REDIS),
    expected("resp-get", "always", REDIS),
    expected("resp-set-16", "always", REDIS),
    expected("resp-get-16", "always", REDIS),
    expected("p4", "as the fill left it, 1 thread", ENGINES),
    expected("p4", "reopened, 1 thread", ENGINES),
    expected("p4", "reopened, 2 threads", ENGINES),
    expected("p5", "not synced, 1 thread", ENGINES),
    expected("p5", "synced, 1 thread", ENGINES),
    expected("p5", "synced, 64 threads", ENGINES),
    expected("p6", "", NGINX),
    expected("p7", "", NGINX),
    expected("p8", "", &[]),
    expected("p9", "", &["fio, through the page cache", "fio, direct"]),
    expected("lookup", "", &[]),
    expected("p10", "", &[]),
    expected("p11", "small", &[]),
    expected("p11", "large", &[]),
    expected("p12", "one GET again and again", &["wrk"]),
    expected("p12", "requests of a Lua script", &["wrk"]),
    expected("p13", "", &[]),
    expected("p14", "PUT through one of three nodes, and to one node alone", &["one node"]),
    expected("p14", "GET through one of three nodes, and of one node alone", &["one node"]),
    expected(
        "p14",
        "GET 1/1 through a node that does not have the key, and through the one that does",
        &["through the right node"],
    ),
    expected("p15", "put-well", &["one node"]),
    expected("p15", "get-well", &["one node"]),
    expected("p15", "put-one-well", &["one node"]),
    expected("p15", "get-one-well", &["one node"]),
    expected("p15", "put-frozen", &["all is well"]),
    expected("p15", "get-frozen", &["all is well"]),
    expected("p15", "put-handoff", &["all is well"]),
    expected("p15", "get-handoff", &["all is well"]),
    expected("p15", "put-rebuild", &["all is well"]),
    expected("p15", "get-rebuild", &["all is well"]),
];

/// What is missing of a comparison, each with the reason if one is known; empty if nothing is.
pub(super) fn missing(comparison: &str, archive: &Archive, latest: &[&Published]) -> Vec<String> {
    let mut missing = Vec::new();
    let all = || EXPECTED.iter().filter(|one| comparison_of(one.id) == comparison);
    let is_whole = |one: &&Expected| find(one, latest).is_none();
    let absent: Vec<&Expected> = all().filter(is_whole).collect();
    let newest = latest.iter().filter(|one| one.comparison() == comparison).map(|one| one.time).max();
    let stopped = archive.stopped_since(comparison, newest.unwrap_or(0));
    if let Some(stopped) = stopped {
        let kept = if newest.is_some() { "; the figures are of a run before" } else { "" };
        missing.push(format!("the last run was {}{kept}", stopped.reason));
    }
    if absent.len() == all().count() && !absent.is_empty() {
        if stopped.is_none() {
            missing.push("not run".to_owned());
        }
    } else {
        missing.extend(absent.iter().map(|one| format!("not run: {} {}", one.id, one.part)));
    }
    for one in all() {
        let Some(contest) = find(one, latest) else { continue };
        for reference in one.references.iter().filter(|name| contest.row(name).is_none()) {
            let part =
                if one.part.is_empty() { String::new() } else { format!(" ({} {})", one.id, one.part) };
            missing.push(format!("{reference} was not measured{part}{}", why(contest)));
        }
    }
    missing.dedup();
    missing
}

/// The remark that a reference which is not installed has left.
fn why(contest: &Published) -> String {
    let skipped: Vec<&str> = contest.notes.iter().filter_map(|note| note.strip_prefix("skipped: ")).collect();
    if skipped.is_empty() { String::new() } else { format!(": {}", skipped.join(", ")) }
}

fn find<'a>(expected: &Expected, latest: &[&'a Published]) -> Option<&'a Published> {
    let is_it = |one: &&&Published| (one.id.as_str(), one.part.as_str()) == (expected.id, expected.part);
    latest.iter().find(is_it).copied()
}

/// What the targets and this list name and a complete run did not have: names that have changed on one side only. A program that
/// is not installed is no such name.
pub(super) fn unknown_names(archive: &Archive) -> Vec<String> {
    let latest = archive.latest();
    let has_run = |comparison: &str| archive.stopped_since(comparison, 0).is_none();
    let mut unknown = Vec::new();
    for one in EXPECTED.iter().filter(|one| has_run(comparison_of(one.id))) {
        let Some(contest) = find(one, &latest) else {
            unknown.push(format!("{} {}", one.id, one.part));
            continue;
        };
        let is_whole = why(contest).is_empty();
        let absent = one.references.iter().filter(|name| is_whole && contest.row(name).is_none());
        unknown.extend(absent.map(|name| format!("{} {}: {name}", one.id, one.part)));
    }
    for target in ALL.iter().filter(|one| has_run(one.name)).flat_map(|one| targets(one.name)) {
        for cell in [Some(target.ours), target.per].into_iter().flatten() {
            let contest =
                latest.iter().find(|one| (one.id.as_str(), one.part.as_str()) == (cell.id, cell.part));
            let is_known = contest.is_some_and(|contest| {
                let has_column = contest.columns.iter().any(|column| column.name == cell.figure);
                has_column && (contest.row(cell.subject).is_some() || !why(contest).is_empty())
            });
            if !is_known {
                unknown.push(format!("{} {}: {}, {}", cell.id, cell.part, cell.subject, cell.figure));
            }
        }
    }
    unknown
}
