//! Results as a file has them, for tests.

use super::text_of;
use serde_json::{Map, Value, json};

/// A row: its contest, whose row it is, and for each figure its name, its decimals, whether it is compared, and its rounds.
pub(crate) struct Line<'a> {
    pub(crate) comparison: &'a str,
    pub(crate) part: &'a str,
    pub(crate) title: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) time: u64,
    pub(crate) figures: &'a [(&'a str, usize, bool, &'a [f64])],
    pub(crate) notes: &'a [&'a str],
    pub(crate) commit: &'a str,
    pub(crate) busy: f64,
    pub(crate) is_smoke: bool,
}

/// 2026-11-25 12:00 UTC.
pub(crate) const NOON: u64 = 1_795_608_000;

impl Default for Line<'_> {
    fn default() -> Self {
        Self {
            comparison: "p1",
            part: "",
            title: "GET of 1000000 records",
            subject: "ladoga",
            time: NOON,
            figures: &[],
            notes: &[],
            commit: "abc1234",
            busy: 0.01,
            is_smoke: false,
        }
    }
}

impl Line<'_> {
    pub(crate) fn json(&self) -> Value {
        let Self { comparison, part, title, subject, time, figures, notes, commit, busy, is_smoke } = self;
        let columns = figures.iter().map(|(name, decimals, compared, _)| {
            json!({ "name": name, "decimals": decimals, "compared": compared })
        });
        let values =
            figures.iter().map(|(name, _, _, rounds)| ((*name).to_owned(), json!({ "rounds": rounds })));
        json!({
            "time": time, "comparison": comparison, "part": part, "title": title, "subject": subject,
            "columns": columns.collect::<Vec<_>>(), "figures": values.collect::<Map<_, _>>(), "ratios": true,
            "notes": notes, "commands": [format!("{subject} --serve")],
            "command": format!("cargo run --release --manifest-path bench/Cargo.toml -- {comparison} --threads 1"),
            "machine": {
                "cores": 2, "cpu": "AMD EPYC", "memory_gib": 23.6, "kernel": "6.18", "file_system": "ext4", "busy": busy,
            },
            "versions": [["ladoga", commit], ["nginx", "1.22.1"], ["fjall", "3.1.13"]],
            "smoke": is_smoke,
        })
    }
}

/// A file.
pub(crate) fn file(lines: &[Line<'_>]) -> String {
    text_of(lines.iter().map(Line::json))
}

const RATE: &str = "requests/s";
const CPU: &str = "server CPU, µs/request";
const EACH: &str = "µs/operation";

/// P1 to P5, complete.
pub(crate) fn complete() -> String {
    let mut lines = Vec::new();
    for (comparison, title, rates) in [
        ("p1", "GET of 1000000 records", [138_494.0, 135_000.0, 101_000.0]),
        ("p2", "PUT, synced every second", [124_393.0, 130_000.0, 105_000.0]),
        ("p3", "PUT, synced before the answer", [72_860.0, 0.0, 66_000.0]),
    ] {
        for (subject, rate) in
            ["ladoga", "nginx", "redis"].into_iter().zip(rates).filter(|(_, rate)| *rate > 0.0)
        {
            let rounds = [rate, rate * 0.9, rate * 1.1];
            let figures: &[(&str, usize, bool, &[f64])] = &[
                (RATE, 0, true, &rounds),
                (CPU, 2, true, &[7.0, 6.9, 7.25]),
                ("bad answers", 0, false, &[0.0, 0.0, 0.0]),
            ];
            lines.push(Line { comparison, title, subject, figures, ..Line::default() }.json());
        }
    }
    for (comparison, part) in [
        ("p4", "as the fill left it, 1 thread"),
        ("p4", "reopened, 1 thread"),
        ("p4", "reopened, 2 threads"),
        ("p5", "not synced, 1 thread"),
        ("p5", "synced, 1 thread"),
        ("p5", "synced, 64 threads"),
    ] {
        for (subject, each) in [("ladoga", 0.5), ("fjall", 3.25), ("RocksDB", 4.0)] {
            let (times, rates) = ([each, each * 1.1, each], [1e6 / each, 1e6 / each / 1.1, 1e6 / each]);
            let figures: &[(&str, usize, bool, &[f64])] =
                &[("operations/s", 0, true, &rates), (EACH, 2, true, &times)];
            let title = format!("storage alone: {part}");
            lines.push(Line { comparison, part, title: &title, subject, figures, ..Line::default() }.json());
        }
    }
    text_of(lines)
}
