//! A report for tests: one run with everything, one with almost nothing.

use serde_json::json;

use crate::record::{
    AnswerCount, Conditions, FORMAT, Generator, Heat, JudgedBound, KindProfile, Latency, Machine, NodeSample,
    NodeSeries, Profiled, Published, Report, Run, SecondRow, Subject, Unit,
};

const SECONDS: u64 = 10;

pub(crate) fn report() -> Report {
    Report {
        format: FORMAT,
        title: "A </script> report".to_owned(),
        command: "ladoga lab run -o report.html".to_owned(),
        started_unix_s: 1_795_252_500,
        machine: Machine { cpu: "a CPU".to_owned(), cores: 2, ..Machine::default() },
        subjects: vec![Subject { name: "ladoga".to_owned(), what: "ladoga serve".to_owned(), build: None }],
        runs: vec![full("put at 1,000/s"), empty("get at 1,000/s")],
        planned: 3,
        is_interrupted: true,
        notes: vec!["A note.".to_owned()],
        slo: vec![JudgedBound { bound: "p99<1ms".to_owned(), found: "900us".to_owned(), holds: true }],
    }
}

fn full(stage: &str) -> Run {
    let latency = |scale: f64| Latency {
        mean: 120.0 * scale,
        p50: 100.0 * scale,
        p90: 200.0 * scale,
        p99: 900.0 * scale,
        p999: 4000.0 * scale,
        p9999: 8000.0 * scale,
        max: 20_000.0 * scale,
    };
    let second = |second: u64| {
        let wave = 1.0 + (second * 7 % 5) as f64 / 16.0;
        let latency = (second != 4).then_some([100.0 * wave, 900.0 * wave, 4000.0 * wave, 9000.0 * wave]);
        SecondRow {
            second,
            completed: if second == 4 { 0 } else { 1000 },
            errors: u64::from(second == 5),
            errors_by_kind: [0, u64::from(second == 5), 0],
            latency,
        }
    };
    let sample = |at: u64| NodeSample {
        at_s: at as f64 / 2.0,
        cpu_cores: Some(0.5),
        resident_bytes: Some(5e7 + at as f64 * 1e6),
        scraped_at_s: (at == 6).then_some(3.25),
        written_bytes_per_s: Some(1e6),
        flushes: Some(if at == 6 { 1.0 } else { 0.0 }),
        compactions: Some(if at == 8 { 2.0 } else { 0.0 }),
    };
    let column = |column: u64| match column {
        40..50 => vec![],
        50..55 => vec![(16, 40), (24, 30), (32, 5)],
        _ => vec![(16, 90), (17, 9), (24, 1)],
    };
    Run {
        stage: stage.to_owned(),
        connections: 1,
        command: "ladoga bench -t1 -c1 -R 1000 --workload put http://127.0.0.1:8080".to_owned(),
        requests: 9000,
        per_second: 900.0,
        answers: vec![
            AnswerCount { class: "2xx".to_owned(), count: 8990, latency: Some(latency(1.0)) },
            AnswerCount { class: "503".to_owned(), count: 10, latency: Some(latency(0.125)) },
        ],
        methods: vec![AnswerCount { class: "PUT".to_owned(), count: 9000, latency: Some(latency(1.0)) }],
        unanswered: 1000,
        lost: Some(3),
        behind: Some(990),
        latency: Some(latency(1.0)),
        uncorrected: Some(latency(0.5)),
        spectrum: (0..40).map(|i| (f64::from(i) * 2.5, 50.0 * f64::from(i + 1))).collect(),
        seconds: (0..SECONDS).map(second).collect(),
        heat: Heat { column_ms: 100, columns: (0..100).map(column).collect(), fine: None },
        node: NodeSeries {
            samples: (0..20).map(sample).collect(),
            cpu_us_per_request: Some(9.25),
            missing: vec![],
        },
        profiles: vec![cpu(Profiled::Samples { offset_ms: 2.0, data: samples() })],
        repeat: "ladoga lab run --workloads put --rates 1000 -o report.html".to_owned(),
        conditions: Some(conditions()),
        published: vec![Published {
            figure: "p99".to_owned(),
            before: Some(7_000.0),
            theirs: Some(6400.0),
            ours: Some(900.0),
            unit: Unit::Micros,
        }],
        ..empty(stage)
    }
}

fn conditions() -> Conditions {
    Conditions {
        source: "000".to_owned(),
        load: "open loop, 1,000/s".to_owned(),
        store: "empty store".to_owned(),
        answers: "no reads".to_owned(),
        connections: 1,
        server_threads: Some(4),
    }
}

/// The first half of the run is spent in `early`, the second in `late`.
fn samples() -> serde_json::Value {
    let rows: Vec<u64> = (0..500_u64)
        .flat_map(|cell| [u64::from(cell > 0), 0, if cell < 250 { 2 } else { 3 }, 10_000_000])
        .collect();
    json!({
        "unit": "nanoseconds",
        "cellMs": 20,
        "cells": 500,
        "threads": ["loop"],
        "tree": { "names": ["loop", "main", "early", "late"], "parent": [-1, 0, 1, 1], "name": [0, 1, 2, 3] },
        "samples": rows,
    })
}

fn cpu(found: Profiled) -> KindProfile {
    KindProfile { kind: "cpu".to_owned(), found }
}

fn empty(stage: &str) -> Run {
    Run {
        stage: stage.to_owned(),
        subject: "ladoga".to_owned(),
        round: 1,
        started_unix_ms: Some(1_795_252_500_123),
        rate: Some(1000.0),
        connections: 1,
        threads: 1,
        command: "ladoga bench".to_owned(),
        elapsed_s: SECONDS as f64,
        is_interrupted: false,
        requests: 0,
        per_second: 0.0,
        answers: vec![],
        methods: vec![],
        connect_errors: 0,
        unanswered: 0,
        lost: Some(0),
        behind: Some(0),
        latency: None,
        uncorrected: None,
        spectrum: vec![],
        seconds: vec![],
        heat: Heat::default(),
        generator: Generator { lateness_p99: None, cpu_us_per_request: None, limits: vec![] },
        disturbance: crate::record::Disturbance::default(),
        node: NodeSeries { missing: vec!["no process was named".to_owned()], ..NodeSeries::default() },
        profiles: vec![cpu(Profiled::Missing("GET /debug/profile/cpu was answered with 404".to_owned()))],
        repeat: String::new(),
        conditions: None,
        published: vec![],
        notes: vec![],
        expects_misses: false,
    }
}
