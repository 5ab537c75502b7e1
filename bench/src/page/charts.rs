//! Which charts there are, and of what.

use super::bars::{self, Bar, Bars};
use super::chart::Chart;
use super::percentiles;
use super::text::with_commas;
use crate::report::{Published, Series};

/// Charts that stand together.
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) words: &'static str,
    pub(super) charts: Vec<Chart>,
    /// What would be drawn if it had been measured.
    pub(super) missing: Vec<String>,
}

/// A contest in a chart of bars: name, part, caption, and what is beside us.
type Compared = (&'static str, &'static str, &'static str, &'static [&'static str]);

struct BarChart {
    name: &'static str,
    title: &'static str,
    figure: &'static str,
    contests: &'static [Compared],
}

const REDIS: &[&str] = &["redis"];
const NGINX_AND_REDIS: &[&str] = &["nginx", "redis"];
const ENGINES: &[&str] = &["fjall", "RocksDB"];

const HTTP: &[Compared] = &[
    ("p1", "", "P1: GET, in memory", NGINX_AND_REDIS),
    ("p2", "", "P2: PUT, synced every second", NGINX_AND_REDIS),
    ("p3", "", "P3: PUT, synced before the answer", REDIS),
];
const ONE_BY_ONE: &[Compared] = &[
    ("resp-get", "everysec", "GET, synced every second", REDIS),
    ("resp-set", "everysec", "SET, synced every second", REDIS),
    ("resp-get", "always", "GET, synced before the reply", REDIS),
    ("resp-set", "always", "SET, synced before the reply", REDIS),
];
const SIXTEEN: &[Compared] = &[
    ("resp-get-16", "everysec", "GET, 16 at a time, synced every second", REDIS),
    ("resp-set-16", "everysec", "SET, 16 at a time, synced every second", REDIS),
    ("resp-get-16", "always", "GET, 16 at a time, synced before the reply", REDIS),
    ("resp-set-16", "always", "SET, 16 at a time, synced before the reply", REDIS),
];
const GETS: &[Compared] = &[
    ("p4", "as the fill left it, 1 thread", "P4: get, as the fill left it, 1 thread", ENGINES),
    ("p4", "reopened, 1 thread", "P4: get, reopened, 1 thread", ENGINES),
    ("p4", "reopened, 2 threads", "P4: get, reopened, 2 threads", ENGINES),
];
const PUTS: &[Compared] = &[("p5", "not synced, 1 thread", "P5: put, not synced, 1 thread", ENGINES)];
const SYNCED_BY_ONE: &[Compared] = &[("p5", "synced, 1 thread", "P5: put, synced, 1 thread", ENGINES)];
const SYNCED_BY_MANY: &[Compared] = &[("p5", "synced, 64 threads", "P5: put, synced, 64 threads", ENGINES)];

const RATE: &str = "requests/s";
const CPU: &str = "server CPU, µs/request";
const OPERATIONS: &str = "operations/s";

const BESIDE_SERVERS: &[BarChart] = &[
    BarChart {
        name: "http-throughput",
        title: "Requests a second: more is better",
        figure: RATE,
        contests: HTTP,
    },
    BarChart {
        name: "http-cpu",
        title: "CPU of the server, µs a request: less is better",
        figure: CPU,
        contests: HTTP,
    },
];
const BESIDE_REDIS: &[BarChart] = &[
    BarChart {
        name: "resp-throughput",
        title: "Requests a second: more is better",
        figure: RATE,
        contests: ONE_BY_ONE,
    },
    BarChart {
        name: "resp-cpu",
        title: "CPU of the server, µs a request: less is better",
        figure: CPU,
        contests: ONE_BY_ONE,
    },
    BarChart {
        name: "resp-16-throughput",
        title: "16 at a time, requests a second: more is better",
        figure: RATE,
        contests: SIXTEEN,
    },
    BarChart {
        name: "resp-16-cpu",
        title: "16 at a time, CPU of the server, µs a request: less is better",
        figure: CPU,
        contests: SIXTEEN,
    },
];
const BESIDE_ENGINES: &[BarChart] = &[
    BarChart {
        name: "engine-get",
        title: "µs a get: less is better",
        figure: "µs/operation",
        contests: GETS,
    },
    BarChart {
        name: "engine-put",
        title: "µs a put: less is better",
        figure: "µs/operation",
        contests: PUTS,
    },
    BarChart {
        name: "engine-synced-1",
        title: "Puts a second: more is better",
        figure: OPERATIONS,
        contests: SYNCED_BY_ONE,
    },
    BarChart {
        name: "engine-synced-64",
        title: "Puts a second: more is better",
        figure: OPERATIONS,
        contests: SYNCED_BY_MANY,
    },
];

/// The name of a chart, and its contest.
const LATENCIES: [(&str, &str, &str); 12] = [
    ("latency-p6", "p6", ""),
    ("latency-p7", "p7", ""),
    ("latency-put-well", "p15", "put-well"),
    ("latency-get-well", "p15", "get-well"),
    ("latency-put-one-well", "p15", "put-one-well"),
    ("latency-get-one-well", "p15", "get-one-well"),
    ("latency-put-frozen", "p15", "put-frozen"),
    ("latency-get-frozen", "p15", "get-frozen"),
    ("latency-put-handoff", "p15", "put-handoff"),
    ("latency-get-handoff", "p15", "get-handoff"),
    ("latency-put-rebuild", "p15", "put-rebuild"),
    ("latency-get-rebuild", "p15", "get-rebuild"),
];

/// Where a chart is of, in words.
pub(super) type SourceOf<'a> = &'a dyn Fn(&[&Published]) -> String;

pub(super) fn sections(latest: &[&Published], source: SourceOf<'_>) -> Vec<Section> {
    let of_bars = |id, title, words, charts: &[BarChart]| {
        let mut section = Section { id, title, words, charts: Vec::new(), missing: Vec::new() };
        for chart in charts {
            match bar_chart(chart, latest, source) {
                Some(chart) => section.charts.push(chart),
                None => section
                    .missing
                    .extend(chart.contests.iter().map(|(_, _, caption, _)| (*caption).to_owned())),
            }
        }
        section.missing.dedup();
        section
    };
    vec![
        of_bars(
            "servers",
            "Beside nginx and Redis",
            "A closed loop of 64 connections. nginx answers from its configuration and stores nothing. CPU time a request is the \
             steadier figure, because the load generator has a core of the same machine.",
            BESIDE_SERVERS,
        ),
        of_bars("redis", "Clients of Redis", "redis-benchmark drives both, 64 connections.", BESIDE_REDIS),
        of_bars(
            "engine",
            "The engine beside RocksDB and fjall",
            "Without a server, in one process.",
            BESIDE_ENGINES,
        ),
        latencies(latest, source),
    ]
}

fn find<'a>(latest: &[&'a Published], id: &str, part: &str) -> Option<&'a Published> {
    latest.iter().find(|one| one.id == id && one.part == part).copied()
}

/// Which colour a server has in all charts. What has none of its own has that of its row.
fn colour(subject: &str, row: usize) -> usize {
    match subject {
        "ladoga" => 0,
        "nginx" | "RocksDB" => 1,
        "redis" | "fjall" => 2,
        _ => row.min(3),
    }
}

/// None if nothing of it was measured.
fn bar_chart(chart: &BarChart, latest: &[&Published], source: SourceOf<'_>) -> Option<Chart> {
    let mut decimals = 0;
    let mut groups = Vec::new();
    let mut measured = Vec::new();
    for (id, part, caption, references) in chart.contests {
        let mut bars = Vec::new();
        if let Some(contest) = find(latest, id, part) {
            let column = contest.columns.iter().find(|column| column.name == chart.figure);
            decimals = decimals.max(column.map_or(0, |column| column.decimals));
            bars = group(contest, chart.figure, references);
            if bars.iter().any(|bar| bar.series.count() > 0) {
                measured.push(contest);
            }
        }
        groups.push(Bars { caption: (*caption).to_owned(), bars });
    }
    if measured.is_empty() {
        return None;
    }
    let (height, svg) = bars::draw(&groups, decimals);
    let (title, legend, source) = (chart.title.to_owned(), Vec::new(), source(&measured));
    Some(Chart { name: chart.name, title, legend, height, svg, source })
}

/// The rows of a contest, and the references that it does not have.
fn group(contest: &Published, figure: &str, references: &[&str]) -> Vec<Bar> {
    let absent = references.iter().filter(|name| contest.row(name).is_none()).copied();
    let names = contest.rows.iter().map(|row| row.subject.as_str()).chain(absent);
    names
        .enumerate()
        .map(|(row, name)| Bar {
            name: name.to_owned(),
            colour: colour(name, row),
            series: contest.series(name, figure).cloned().unwrap_or_else(Series::default),
        })
        .collect()
}

fn latencies(latest: &[&Published], source: SourceOf<'_>) -> Section {
    let mut section = Section {
        id: "latency",
        title: "Latency by percentile",
        words: "An open loop: both sides get the same requests at the same rate, and latency counts from when a request was due. The \
                scale is logarithmic.",
        charts: Vec::new(),
        missing: Vec::new(),
    };
    for (name, id, part) in LATENCIES {
        let contest = find(latest, id, part);
        let drawn = contest.and_then(|contest| {
            let colour_of = |row: usize| colour(&contest.rows[row].subject, row);
            let svg = percentiles::draw(contest, colour_of)?;
            let rows = contest.rows.iter().enumerate();
            Some(Chart {
                name,
                title: format!("{}: {}", id.to_uppercase(), with_commas(&contest.title)),
                legend: rows.map(|(row, one)| (colour_of(row), one.subject.clone())).collect(),
                height: percentiles::HEIGHT,
                svg,
                source: source(&[contest]),
            })
        });
        match drawn {
            Some(chart) => section.charts.push(chart),
            None => section.missing.push(format!("{} {part}", id.to_uppercase()).trim().to_owned()),
        }
    }
    section
}
