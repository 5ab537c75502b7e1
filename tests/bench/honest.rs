use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::command::{Ran, bench, percentile_ms, start};
use crate::server::{Manner, Server};
use crate::support::{Directory, wait_until};

/// The report that a run wrote as JSON.
fn report(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON")
}

/// Every request that was due is answered or reported. Whether there was time for all of them depends on the machine, so runs
/// are made until there was.
#[test]
fn an_open_loop_keeps_its_rate() {
    const RATE: u64 = 100;
    const SECONDS: u64 = 2;
    let server = Server::start(Manner::Answer(200));
    let directory = Directory::new();
    let json = directory.path().join("rate.json");
    let line = format!("-t1 -c4 -d{SECONDS}s -R {RATE} -U --json {} {}", json.display(), server.url());
    wait_until("a run that was not held up", || {
        let ran = bench(&line);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(ran.out.matches("Detailed Percentile spectrum").count(), 2);
        assert!(ran.out.contains(
            "(HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))"
        ));
        let value = report(&json);
        assert_eq!(value["answers"]["2xx"]["count"], value["requests"]);
        assert_eq!(value["rate"], RATE as f64);
        assert!(value["seconds"].as_array().expect("seconds").len() >= SECONDS as usize);
        let count = |name: &str| value[name].as_u64().expect("a count");
        assert_eq!(count("requests") + count("unanswered"), SECONDS * RATE, "{value}");
        let rate = ran.number_after("Requests/sec:") / RATE as f64;
        assert!(rate < 1.02, "{rate} of what was asked for");
        rate > 0.9
    });
}

/// Latency counts from the schedule: if a server freezes for an eighth of a run, an eighth of the requests waited,
/// evenly from the whole freeze down to nothing. The 99th percentile is near 0.92 of the freeze and the 90th near 0.2 of
/// it, as in a freeze of one second in a run of eight. What else holds up the machine only adds to that, so runs are made
/// until nothing did.
#[test]
fn a_freeze_shows_in_full() {
    let freeze = Duration::from_millis(500);
    let of_freeze = |ms: f64| ms / freeze.as_millis() as f64;
    let directory = Directory::new();
    let json = directory.path().join("freeze.json");
    wait_until("a run that nothing but the freeze held up", || {
        let server = Server::start(Manner::Freeze { at_request: 300, time: freeze });
        let ran = bench(&format!("-t1 -c4 -d4s -R 200 -U --json {} {}", json.display(), server.url()));
        assert_eq!(ran.code, 0, "{ran:?}");
        let (p90, p99) = (of_freeze(ran.percentile_ms("90.000%")), of_freeze(ran.percentile_ms("99.000%")));
        assert!(p99 >= 0.87, "p99 is {p99} of the freeze: {}", ran.out);
        assert!(p90 >= 0.15, "p90 is {p90} of the freeze: {}", ran.out);
        // Counted from when each request was sent, only the four that were on their way waited.
        let uncorrected = ran.out.rsplit("Uncorrected").next().expect("what comes after the last one");
        let p99_sent = of_freeze(percentile_ms(uncorrected, "99.000%"));
        // It is recorded when it was due, in the second half of the second second, and not when it ended.
        let max_of = |second: usize| {
            let max = &report(&json)["seconds"][second]["latency_us"]["max"];
            of_freeze(max.as_f64().expect("a latency") / 1000.0)
        };
        let is_in_place = max_of(1) > 0.8 && max_of(2) < 0.3;
        p99 < 1.2 && p90 < 0.5 && p99_sent < 0.5 && is_in_place
    });
}

#[test]
fn answers_are_told_apart_and_bounds_are_judged() {
    let server = Server::start(Manner::Answer(404));
    let ran = bench(&format!("-t1 -c1 -d1s --slo errors<1%,p50<90s {}", server.url()));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("SLO missed: errors<1%: found 100.000%"), "{}", ran.err);
    assert!(ran.err.contains("      404"), "{}", ran.err);
    assert!(ran.out.contains("  Non-2xx or 3xx responses: "), "{}", ran.out);
    let allowed = bench(&format!("-t1 -c1 -d1s --allow-misses --slo errors<1%,p50<90s {}", server.url()));
    assert_eq!(allowed.code, 0, "{allowed:?}");
}

/// What was due from then on has no answer: it fails every bound, on the terminal, in the JSON and on the page. Whether the
/// requests that were on their way have timed out by then makes no difference.
#[test]
fn a_server_that_hangs_until_the_end_misses_the_slo() {
    let directory = Directory::new();
    let [json, html] = ["run.json", "run.html"].map(|name| directory.path().join(name));
    for timeout in ["1h", "300ms"] {
        let hang = Manner::Freeze { at_request: 100, time: Duration::from_hours(1) };
        let server = Server::start(hang);
        let slo = "--slo p99<500ms,mean<100ms,errors<1%";
        let files = format!("--json {} --html {}", json.display(), html.display());
        let ran = bench(&format!("-t1 -c4 -d2s -R 200 --timeout {timeout} {slo} {files} {}", server.url()));
        assert_eq!(ran.code, 1, "{ran:?}");
        for bound in ["p99<500ms", "mean<100ms", "errors<1%"] {
            assert!(ran.err.contains(&format!("SLO missed: {bound}: found ")), "{}", ran.err);
        }
        let value = report(&json);
        let unanswered = value["unanswered"].as_u64().expect("a count");
        assert!(ran.err.contains(&format!("(due and unanswered: {unanswered})")), "{}", ran.err);
        assert_eq!(value["failures"]["unanswered"], unanswered, "all of them are errors: {value}");
        assert!(value["failures"]["share"].as_f64().is_some_and(|share| share > 0.7), "{value}");
        let page = fs::read_to_string(&html).expect("a page");
        assert!(page.contains("<li class=\"bad\">Errors: up to 7"), "{page}");
    }
}

/// Requests that are on their way when the clock stops are no errors, nowhere.
#[test]
fn a_server_that_is_slow_has_no_errors() {
    let directory = Directory::new();
    let [json, html] = ["run.json", "run.html"].map(|name| directory.path().join(name));
    let server = Server::start(Manner::Slow(Duration::from_millis(301)));
    let files = format!("--json {} --html {}", json.display(), html.display());
    let ran = bench(&format!("-t1 -c8 -d2s -R 10 --slo p99<60s,errors<0% {files} {}", server.url()));
    assert_eq!(ran.code, 0, "{ran:?}");
    let value = report(&json);
    assert!(value["unanswered"].as_u64().is_some_and(|count| count > 0), "{value}");
    assert_eq!((&value["failures"]["count"], &value["failures"]["unanswered"]), (&0.into(), &0.into()));
    let page = fs::read_to_string(&html).expect("a page");
    assert!(page.contains("<li class=\"good\">No errors</li>"), "{page}");
}

#[test]
fn closing_after_every_answer_is_no_error() {
    let server = Server::start(Manner::AnswerAndClose);
    let ran = bench(&format!("-t1 -c2 -d1s {}", server.url()));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("Socket errors") && ran.number_after("Requests/sec:") > 0.0, "{}", ran.out);
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let server = Server::start(Manner::Answer(200));
    let run = start(&format!("-t1 -c1 -d1h -R 100 -L {}", server.url()));
    wait_until("requests", || server.requests() >= 50);
    run.signal("INT");
    let ran = Ran::of(&run.wait());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("Running 60m test") && ran.out.contains("Transfer/sec:"), "{}", ran.out);
    assert!(ran.err.contains("interrupted"), "{}", ran.err);
}

#[test]
fn workloads_and_logs_work_together() {
    let server = Server::start(Manner::Answer(200));
    let directory = Directory::new();
    let hdr = directory.path().join("run.hdr");
    let line = "-t1 -c2 -d1s -R 500 --workload ycsb-a --keys 100 --value 10 --distribution hot --seed 3";
    let ran = bench(&format!("{line} --hdr {} {}", hdr.display(), server.url()));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(server.last_request().contains("/v0/entity?id=key"), "{}", server.last_request());
    assert!(fs::read_to_string(&hdr).unwrap().contains("HISTFAAA"));
}

#[test]
fn the_knee_is_searched_until_the_bounds_meet() {
    let server = Server::start(Manner::Answer(200));
    let ran = bench(&format!("-t1 -c1 -d1s --find-knee --slo max<1us {}", server.url()));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("No rate that was tried holds max<1us."), "{}", ran.out);
}

#[test]
fn the_curve_up_to_the_knee_is_written() {
    let (server, directory) = (Server::start(Manner::Answer(200)), Directory::new());
    let [json, html] = ["knee.json", "knee.html"].map(|name| directory.path().join(name));
    let files = format!("--json {} --html {}", json.display(), html.display());
    let ran = bench(&format!("-t1 -c1 -d200ms --find-knee --slo max<1us {files} {}", server.url()));
    assert_eq!(ran.code, 1, "{ran:?}");
    let curve = report(&json);
    assert!(curve["knee"].is_null() && curve["slo"] == "max<1us", "{curve}");
    let rates: Vec<u64> = curve["curve"]
        .as_array()
        .expect("a curve")
        .iter()
        .map(|step| step["rate"].as_u64().expect("a rate"))
        .collect();
    assert!(rates.len() > 5 && rates.is_sorted() && rates.contains(&1000), "{rates:?}");
    assert!(
        curve["curve"][0]["reasons"][0].as_str().is_some_and(|reason| reason.contains("max<1us")),
        "{curve}"
    );
    // Whether the generator was the limit depends on the machine; a program finds it where a run on its own has it, too.
    for step in [&curve, &curve["curve"][0]] {
        assert!(step["generator"]["limits"].is_array(), "{curve}");
    }
    let page = fs::read_to_string(&html).expect("a page");
    assert!(page.contains("Latency over rate") && page.contains("No rate that was tried holds"), "{page}");
}

/// Each rate began at the first key again, so that new keys were not new, and deleted ones were gone.
#[test]
fn the_next_rate_goes_on_with_the_next_key() {
    let server = Server::start(Manner::Answer(200));
    let ran = bench(&format!("-t1 -c1 -d200ms --find-knee --slo max<1us --workload put {}", server.url()));
    assert_eq!(ran.code, 1, "{ran:?}");
    wait_until("a last key that is the newest of all", || {
        let request = server.last_request();
        let number = request.split("id=key").nth(1).and_then(|rest| rest.split(' ').next());
        number.and_then(|number| number.parse::<u64>().ok()).is_some_and(|key| key + 1 >= server.requests())
    });
}

/// A full disk is told from a refusal, a read from a write, and a redirection is no error.
#[test]
fn figures_are_those_of_each_status_and_method() {
    let directory = Directory::new();
    let json = directory.path().join("run.json");
    let run = |manner, flags: &str| {
        let server = Server::start(manner);
        bench(&format!("-t1 -c1 -d500ms -R 200 {flags} --json {} {}", json.display(), server.url()))
    };
    let full = run(Manner::Answer(507), "--workload put-get --keys 10");
    let value = report(&json);
    assert_eq!(value["answers"]["507"]["count"], value["requests"], "{value}");
    assert_eq!(value["answers"]["2xx"]["count"], 0, "{value}");
    let count = |method: &str| value["methods"][method]["count"].as_u64().expect("a count");
    assert!(count("PUT") > 0 && count("GET") > 0, "{value}");
    assert!(full.err.contains("      507"), "{}", full.err);
    assert!(full.err.contains("  request") && full.err.contains("      PUT"), "{}", full.err);
    let moved = run(Manner::Answer(304), "--slo errors<1%");
    assert_eq!(moved.code, 0, "{moved:?}");
    assert_eq!(report(&json)["answers"]["304"]["count"], report(&json)["requests"]);
}

/// This was reported only after everything had been measured.
#[test]
fn files_that_cannot_be_written_are_told_before_anything_is_measured() {
    let (server, directory) = (Server::start(Manner::Answer(200)), Directory::new());
    let path = |name: &str| directory.path().join(name).display().to_string();
    for flag in ["--json", "--hdr", "--html"] {
        for file in [path("absent/run"), path("")] {
            let ran = bench(&format!("-t1 -c1 -d 1h {flag} {file} {}", server.url()));
            assert_eq!(ran.code, 1, "{ran:?}");
            assert!(ran.err.contains(&format!("cannot write {file}: ")) && ran.out.is_empty(), "{ran:?}");
        }
    }
    assert_eq!(
        fs::read_dir(directory.path()).expect("the directory").count(),
        0,
        "something was left behind"
    );
}

#[test]
fn a_file_of_an_earlier_run_stays_until_there_is_another() {
    let (server, directory) = (Server::start(Manner::Answer(200)), Directory::new());
    let [json, link] = ["run.json", "link.json"].map(|name| directory.path().join(name));
    fs::write(&json, "what was there").expect("a file");
    std::os::unix::fs::symlink("run.json", &link).expect("a link");
    let running = start(&format!("-t1 -c1 -d 1h --json {} {}", link.display(), server.url()));
    wait_until("a run that has begun", || running.printed().contains("Running"));
    assert_eq!(fs::read_to_string(&json).expect("the file"), "what was there");
    running.signal("INT");
    Ran::of(&running.wait());
    assert_eq!(report(&json)["interrupted"], true);
    assert!(link.is_symlink());
    assert_eq!(
        fs::read_dir(directory.path()).expect("the directory").count(),
        2,
        "something was left behind"
    );
    let ran = bench(&format!("-t1 -c1 -d 100ms --json /dev/null {}", server.url()));
    assert_eq!(ran.code, 0, "what is no file is written as it is: {ran:?}");
}
