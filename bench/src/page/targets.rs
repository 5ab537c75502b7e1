//! The targets of the comparisons, as numbers: what [`ALL`](crate::comparisons::ALL) claims in words.

/// A figure in a published contest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) id: &'static str,
    pub(super) part: &'static str,
    pub(super) subject: &'static str,
    pub(super) figure: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Claimed without a number.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    /// What is measured, for people.
    pub(super) what: &'static str,
    pub(super) ours: Cell,
    /// If there is one, the figure is divided by this one, round by round.
    pub(super) per: Option<Cell>,
    pub(super) bound: Bound,
    pub(super) decimals: usize,
    /// With the blank before it.
    pub(super) unit: &'static str,
}

const fn cell(id: &'static str, part: &'static str, subject: &'static str, figure: &'static str) -> Cell {
    Cell { id, part, subject, figure }
}

impl Cell {
    const fn of(self, subject: &'static str) -> Self {
        Self { subject, ..self }
    }

    /// This figure, at most or at least so much.
    const fn value(self, what: &'static str, bound: Bound, decimals: usize, unit: &'static str) -> Target {
        Target { what, ours: self, per: None, bound, decimals, unit }
    }

    /// This figure over that of another subject of the contest.
    const fn over(self, subject: &'static str, what: &'static str, bound: Bound) -> Target {
        self.over_cell(self.of(subject), what, bound)
    }

    const fn over_cell(self, per: Cell, what: &'static str, bound: Bound) -> Target {
        Target { what, ours: self, per: Some(per), bound, decimals: 2, unit: " ×" }
    }
}

const RATE: &str = "requests/s";
const CPU: &str = "server CPU, µs/request";
const OPERATIONS: &str = "operations/s";
const EACH: &str = "µs/operation";

/// Those of a comparison, in the order of its claim; empty if it has none.
pub(super) fn targets(comparison: &str) -> Vec<Target> {
    match comparison {
        "p1" => vec![
            cell("p1", "", "ladoga", RATE).over("nginx", "GET a second, over nginx", Bound::AtLeast(1.0)),
            cell("p1", "", "ladoga", CPU).over("nginx", "CPU a GET, over nginx", Bound::AtMost(1.0)),
        ],
        "p2" => vec![
            cell("p2", "", "ladoga", RATE).over("nginx", "PUT a second, over nginx", Bound::AtLeast(1.0)),
            cell("p2", "", "ladoga", CPU).over("nginx", "CPU a PUT, over nginx", Bound::AtMost(1.1)),
            cell("p2", "", "ladoga", RATE).over("redis", "PUT a second, over Redis", Bound::AtLeast(1.2)),
        ],
        "p3" => vec![cell("p3", "", "ladoga", RATE).over(
            "redis",
            "synced PUT a second, over Redis",
            Bound::AtLeast(1.3),
        )],
        "resp" => resp(),
        "p4" | "p5" => storage(comparison),
        "p6" | "p7" => tail(comparison),
        "p8" => vec![cell("p8", "", "whole life of the process (VmHWM)", "peak resident set, MiB").value(
            "peak resident set",
            Bound::AtMost(144.0),
            0,
            " MiB",
        )],
        "p9" => vec![cell("p9", "", "ladoga", "reads/s").over(
            "fio, direct",
            "reads a second, over those of the disk",
            Bound::AtLeast(1.0 / 1.5),
        )],
        "p10" => restart(),
        "p11" => overload(),
        "p12" | "p13" => generator(comparison),
        "p14" | "p15" => cluster(comparison),
        _ => Vec::new(),
    }
}

fn resp() -> Vec<Target> {
    let of =
        |id, part, what, bound| cell(id, part, "ladoga", RATE).over("redis", what, Bound::AtLeast(bound));
    vec![
        of("resp-set", "everysec", "SET -P 1, everysec, over Redis", 1.0),
        of("resp-get", "everysec", "GET -P 1, everysec, over Redis", 1.0),
        of("resp-set-16", "everysec", "SET -P 16, everysec, over Redis", 0.8),
        of("resp-get-16", "everysec", "GET -P 16, everysec, over Redis", 0.8),
        of("resp-set", "always", "SET -P 1, always, over Redis", 1.0),
        of("resp-get", "always", "GET -P 1, always, over Redis", 1.0),
        of("resp-set-16", "always", "SET -P 16, always, over Redis", 0.8),
        of("resp-get-16", "always", "GET -P 16, always, over Redis", 0.8),
    ]
}

fn storage(comparison: &str) -> Vec<Target> {
    const FILLED: Cell = cell("p4", "as the fill left it, 1 thread", "ladoga", OPERATIONS);
    const REOPENED: Cell = cell("p4", "reopened, 1 thread", "ladoga", OPERATIONS);
    const TWO: Cell = cell("p4", "reopened, 2 threads", "ladoga", OPERATIONS);
    const PUT: Cell = cell("p5", "not synced, 1 thread", "ladoga", OPERATIONS);
    const SYNCED: Cell = cell("p5", "synced, 64 threads", "ladoga", OPERATIONS);
    if comparison == "p4" {
        return vec![
            Cell { figure: EACH, ..FILLED }.value("a get", Bound::AtMost(0.6), 2, " µs"),
            FILLED.over("RocksDB", "gets a second, over RocksDB", Bound::AtLeast(6.0)),
            FILLED.over("fjall", "gets a second, over fjall", Bound::AtLeast(6.0)),
            REOPENED.over("RocksDB", "the same, reopened, over RocksDB", Bound::AtLeast(6.0)),
            REOPENED.over("fjall", "the same, reopened, over fjall", Bound::AtLeast(6.0)),
            TWO.over_cell(REOPENED, "two threads, over one", Bound::None),
        ];
    }
    vec![
        Cell { figure: EACH, ..PUT }.value("a put that is not synced", Bound::AtMost(1.3), 2, " µs"),
        PUT.over("fjall", "such puts a second, over fjall", Bound::AtLeast(2.2)),
        SYNCED.over("RocksDB", "synced puts by 64 threads, over RocksDB", Bound::AtLeast(2.0)),
    ]
}

fn tail(comparison: &str) -> Vec<Target> {
    const PUT: Cell = cell("p6", "", "ladoga", "p99.9, ms");
    if comparison == "p6" {
        return vec![
            PUT.value("p99.9 of a PUT", Bound::AtMost(1.0), 3, " ms"),
            PUT.over("nginx", "p99.9, over nginx", Bound::AtMost(1.5)),
        ];
    }
    vec![Cell { id: "p7", ..PUT }.over("nginx", "p99.9 beside compaction, over nginx", Bound::AtMost(1.5))]
}

fn restart() -> Vec<Target> {
    let of = |subject, what, bound| {
        cell("p10", "", subject, "start to status 200, s").value(what, Bound::AtMost(bound), 3, " s")
    };
    vec![
        of("stopped by SIGTERM, page cache warm", "restart, page cache warm", 1.0),
        of("stopped by SIGTERM, page cache cold", "restart, page cache cold", 1.0),
        of("killed after load, page cache warm", "after kill -9, page cache warm", 3.0),
        of("killed after load, page cache cold", "after kill -9, page cache cold", 3.0),
    ]
}

fn overload() -> Vec<Target> {
    const SMALL: &str = "small";
    const LARGE: &str = "large";
    let of = |part, subject, goodput, busy| {
        let busy_figure = "503, sent to answer, p99, ms";
        [
            cell("p11", part, subject, "goodput / peak").value(goodput, Bound::AtLeast(0.9), 2, " ×"),
            cell("p11", part, subject, busy_figure).value(busy, Bound::AtMost(5.0), 2, " ms"),
        ]
    };
    let (few, many, piped) = (
        "overload, 512 connections",
        "overload, 1024 connections",
        "overload, 128 connections × 8 in a pipeline",
    );
    [
        of(SMALL, few, "goodput over peak, 100 B, 512 connections", "503, p99, 100 B, 512 connections"),
        of(SMALL, many, "goodput over peak, 100 B, 1024 connections", "503, p99, 100 B, 1024 connections"),
        of(SMALL, piped, "goodput over peak, 100 B, 128 × 8", "503, p99, 100 B, 128 × 8"),
        of(LARGE, few, "goodput over peak, 16 KiB, 512 connections", "503, p99, 16 KiB, 512 connections"),
        of(LARGE, many, "goodput over peak, 16 KiB, 1024 connections", "503, p99, 16 KiB, 1024 connections"),
        of(LARGE, piped, "goodput over peak, 16 KiB, 128 × 8", "503, p99, 16 KiB, 128 × 8"),
    ]
    .concat()
}

fn generator(comparison: &str) -> Vec<Target> {
    const COST: Cell = cell("p12", "one GET again and again", "ladoga bench", "generator CPU, µs/request");
    const FAST: &str = "100000/s";
    if comparison == "p12" {
        return vec![
            COST.over("wrk", "CPU a request, over wrk", Bound::AtMost(1.0)),
            Cell { part: "requests of a Lua script", ..COST }.over(
                "wrk",
                "the same with a Lua script",
                Bound::AtMost(1.0),
            ),
        ];
    }
    let sent = cell("p13", "", FAST, "sent, of the rate");
    vec![
        sent.value("sent at 100,000/s, of the rate", Bound::AtLeast(0.99), 4, " ×"),
        sent.value("the same", Bound::AtMost(1.01), 4, " ×"),
        cell("p13", "", FAST, "late p99, µs").value("late at p99", Bound::AtMost(50.0), 1, " µs"),
    ]
}

fn cluster(comparison: &str) -> Vec<Target> {
    const FROZEN: &str = "one of three is frozen, after the first second";
    const HANDOFF: &str = "one of three gets what it missed while it was down";
    const REBUILD: &str = "one of three gets everything after its disk was lost";
    const NODES: &str = "CPU of all nodes, µs/request";
    if comparison == "p14" {
        let puts =
            cell("p14", "PUT through one of three nodes, and to one node alone", "three nodes, 2/3", NODES);
        let part = "GET 1/1 through a node that does not have the key, and through the one that does";
        let gets = cell("p14", part, "through the wrong node", NODES);
        return vec![
            puts.over("one node", "CPU a PUT 2/3, over one node's", Bound::AtMost(3.0)),
            gets.over(
                "through the right node",
                "CPU a GET 1/1, wrong node over right one",
                Bound::AtMost(2.0),
            ),
        ];
    }
    let of = |part, subject, what| {
        cell("p15", part, subject, "p99, ms").over("all is well", what, Bound::AtMost(2.0))
    };
    vec![
        of("put-frozen", FROZEN, "p99 of PUT with one frozen"),
        of("get-frozen", FROZEN, "p99 of GET with one frozen"),
        of("put-handoff", HANDOFF, "p99 of PUT during handoff"),
        of("get-handoff", HANDOFF, "p99 of GET during handoff"),
        of("put-rebuild", REBUILD, "p99 of PUT during a rebuild"),
        of("get-rebuild", REBUILD, "p99 of GET during a rebuild"),
    ]
}
