use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::command::{Scratch, bench, start, wait};
use crate::server::{Manner, Server};

#[test]
fn a_closed_loop_prints_what_wrk_prints() {
    let server = Server::start(Manner::Answer(200));
    let ran = bench(&format!("-t2 -c4 -d1s --latency {}", server.url()));
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], format!("Running 1s test @ {}", server.url()));
    assert_eq!(lines[1], "  2 threads and 4 connections");
    assert_eq!(lines[2], "  Thread Stats   Avg      Stdev     Max   +/- Stdev");
    assert!(lines[3].starts_with("    Latency ") && lines[4].starts_with("    Req/Sec "), "{}", ran.out);
    assert_eq!(lines[5], "  Latency Distribution");
    assert!(lines[6].starts_with("     50%") && lines[9].starts_with("     99%"), "{}", ran.out);
    assert!(lines[10].contains(" requests in 1.0") && lines[10].ends_with("B read"), "{}", ran.out);
    assert!(lines[11].starts_with("Requests/sec:") && lines[12].starts_with("Transfer/sec:"), "{}", ran.out);
    assert_eq!(lines.len(), 13);
    assert!(ran.number_after("Requests/sec:") > 100.0);
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let server = Server::start(Manner::Answer(200));
    let json = Scratch::new("rate.json");
    let ran = bench(&format!("-t1 -c3 -d2s -R 1k -U --json {} {}", json.0.display(), server.url()));
    assert_eq!(ran.code, 0, "{ran:?}");
    let rate = ran.number_after("Requests/sec:");
    assert!((900.0..1020.0).contains(&rate), "{rate}: the other tests run beside it");
    assert_eq!(ran.out.matches("Detailed Percentile spectrum").count(), 2);
    assert!(ran.out.contains(
        "(HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))"
    ));
    let value: serde_json::Value = serde_json::from_str(&json.read()).unwrap();
    assert_eq!(value["answers"]["2xx"]["count"], value["requests"]);
    assert_eq!(value["rate"], 1000.0);
    assert!(value["seconds"].as_array().unwrap().len() >= 2);
}

/// A freeze of an eighth of the run: latency counts from the schedule, so an eighth of the requests waited, evenly
/// from the whole freeze down to nothing. The 99th percentile is near 0.92 of it, the 90th near 0.2.
#[test]
fn a_freeze_shows_in_full() {
    let server = Server::start(Manner::Answer(200));
    let run = start(&format!("-t1 -c4 -d4s -R 1000 -U {}", server.url()));
    thread::sleep(Duration::from_millis(1500));
    server.freeze(Duration::from_millis(500));
    let ran = wait(run);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (p90, p99) = (ran.percentile_ms("90.000%"), ran.percentile_ms("99.000%"));
    assert!((400.0..600.0).contains(&p99), "p99 {p99}");
    assert!((50.0..200.0).contains(&p90), "p90 {p90}");
    let uncorrected = ran.out.rsplit("Uncorrected").next().unwrap();
    let line = uncorrected.lines().find(|line| line.starts_with(" 90.000%")).unwrap();
    assert!(line.contains("us") || line.contains("ms"), "a frozen server hides without the schedule: {line}");
}

#[test]
fn answers_are_told_apart_and_bounds_are_judged() {
    let server = Server::start(Manner::Answer(404));
    let ran = bench(&format!("-t1 -c1 -d1s --slo errors<1%,p50<2s {}", server.url()));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("SLO missed: errors<1%: found 100.000%"), "{}", ran.err);
    assert!(ran.err.contains("      404"), "{}", ran.err);
    assert!(ran.out.contains("  Non-2xx or 3xx responses: "), "{}", ran.out);
    let allowed = bench(&format!("-t1 -c1 -d1s --allow-misses --slo errors<1%,p50<2s {}", server.url()));
    assert_eq!(allowed.code, 0, "{allowed:?}");
}

#[test]
fn closing_after_every_answer_is_no_error() {
    let server = Server::start(Manner::AnswerAndClose);
    let ran = bench(&format!("-t1 -c2 -d1s {}", server.url()));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("Socket errors") && ran.number_after("Requests/sec:") > 10.0, "{}", ran.out);
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let server = Server::start(Manner::Answer(200));
    let run = start(&format!("-t1 -c1 -d1h -R 100 -L {}", server.url()));
    thread::sleep(Duration::from_millis(1200));
    let killed = Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let ran = wait(run);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("Running 60m test") && ran.out.contains("Transfer/sec:"), "{}", ran.out);
    assert!(ran.err.contains("interrupted"), "{}", ran.err);
}

#[test]
fn workloads_and_logs_work_together() {
    let server = Server::start(Manner::Answer(200));
    let hdr = Scratch::new("run.hdr");
    let line = "-t1 -c2 -d1s -R 500 --workload ycsb-a --keys 100 --value 10 --distribution hot --seed 3";
    let ran = bench(&format!("{line} --hdr {} {}", hdr.0.display(), server.url()));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(server.last_request().contains("/v0/entity?id=key"), "{}", server.last_request());
    assert!(hdr.read().contains("HISTFAAA"));
}

#[test]
fn the_knee_is_searched_until_the_bounds_meet() {
    let server = Server::start(Manner::Answer(200));
    let ran = bench(&format!("-t1 -c1 -d1s --find-knee --slo max<1us {}", server.url()));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("No rate that was tried holds max<1us."), "{}", ran.out);
}
