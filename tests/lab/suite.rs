use std::path::Path;

use serde_json::Value;

use crate::data_of;
use crate::support::{Directory, Ladoga, Outcome};

/// The exit code if all requests of a run failed, or none had an answer.
const NO_GOOD_ANSWER: i32 = 3;
/// Lengths of a run. A machine or disk that is busy with something else may need a longer one to answer a single request.
const DURATIONS: [&str; 3] = ["300ms", "1s", "4s"];

/// The suite with tiny stores, in a directory of its own, and with runs that are long enough on this machine. No request times
/// out.
fn quick(words: &str, report: &Path) -> Outcome {
    let place = report.parent().expect("a directory").display().to_string();
    let run = |duration: &str| {
        let line = format!(
            "lab run --suite reports --quick -d {duration} -T 1h --memory 64MiB --dir {place} {words} -o"
        );
        Ladoga::new(line.split_whitespace().map(str::to_owned).chain([report.display().to_string()])).run()
    };
    let [tries @ .., last] = DURATIONS;
    let is_enough = |outcome: &Outcome| {
        outcome.code != Some(NO_GOOD_ANSWER) || runs(report).iter().all(|run| run["requests"] != 0)
    };
    tries.into_iter().map(run).find(is_enough).unwrap_or_else(|| run(last))
}

fn runs(report: &Path) -> Vec<Value> {
    data_of(report)["runs"].as_array().expect("runs").clone()
}

/// The words of a line, as a shell divides it.
fn shell_words(line: &str) -> Vec<String> {
    let words = |(index, part): (usize, &str)| -> Vec<String> {
        if index % 2 == 1 {
            vec![part.to_owned()]
        } else {
            part.split_whitespace().map(str::to_owned).collect()
        }
    };
    line.split('\'').enumerate().flat_map(words).collect()
}

#[test]
fn published_tests_run_over_their_stores_and_are_repeated_by_their_line() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    let outcome = quick("--only 400", &report).expect_success();
    let found = runs(&report);
    let names: Vec<&str> = found.iter().filter_map(|run| run["stage"].as_str()).collect();
    let stage = |workload: &str| format!("{workload} closed loop, 4 connections, 400 records");
    assert_eq!(names, ["status", "get", "get-hot", "put-overwrite", "put-get", "put"].map(stage));
    for run in &found {
        assert_eq!(run["conditions"]["store"], "400 records", "{run}");
        let answers = run["answers"].as_array().expect("answers");
        assert!(answers.iter().all(|answer| answer["class"] == "2xx"), "nothing is missing: {answers:?}");
        let kinds: Vec<&Value> =
            run["profiles"].as_array().expect("profiles").iter().map(|one| &one["kind"]).collect();
        assert_eq!(kinds, ["cpu", "alloc"]);
        assert!(run["profiles"][1]["found"]["Samples"]["data"]["head"].is_string(), "{}", run["profiles"][1]);
    }
    let put = &found[5]["published"][0];
    assert_eq!((put["figure"].as_str(), put["theirs"].as_f64()), (Some("answered/s"), Some(2_816.0)));
    assert!(put["ours"].as_f64().is_some_and(|ours| ours > 0.0), "{put}");
    let page = std::fs::read_to_string(&report).expect("a page");
    for part in ["Beside the published load tests", "2,816/s", "Samples over time", "--quick: "] {
        assert!(page.contains(part), "{part}");
    }
    assert!(outcome.text().contains("put closed loop"), "{}", outcome.text());

    let line = found[2]["repeat"].as_str().expect("a line");
    let (line, _) = line.rsplit_once(' ').expect("the name of its report");
    let again = directory.path().join("again.html");
    let words: Vec<String> =
        shell_words(line).into_iter().skip(1).chain([again.display().to_string()]).collect();
    // Its length is that of the line, in which a busy machine may answer nothing.
    let repeated = (0..5).map(|_| Ladoga::new(&words).run()).find(|run| run.code != Some(NO_GOOD_ANSWER));
    repeated.expect("an answer in one of five runs").expect_success();
    let [again] = runs(&again).try_into().expect("one run");
    for same in ["stage", "conditions", "command", "repeat", "connections", "threads", "rate"] {
        assert_eq!(again[same], found[2][same], "{same}");
    }
}

#[test]
fn misses_and_rates_that_were_not_reached_are_told() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    quick("--no-profile --only empty", &report).expect_success();
    let found = runs(&report);
    let get = found
        .iter()
        .find(|run| run["stage"] == "get closed loop, 4 connections, empty store")
        .expect("it ran");
    assert_eq!(
        (&get["answers"][0]["class"], &get["conditions"]["answers"]),
        (&"404".into(), &"misses: 404".into())
    );

    // Some machines carry so much. The page says what the command said.
    let outcome = quick("--no-profile --only 90,000/s", &report).expect_success();
    let is_missed = outcome.stderr.contains("the rate was not reached: 90,000/s asked for, ");
    let page = std::fs::read_to_string(&report).expect("a page");
    for part in ["open loop, 90,000/s, 1,000 records, hits, connections: 1", "132.00 ms"] {
        assert!(page.contains(part), "{part}");
    }
    for part in
        ["of 90,000: not reached", "rate not reached: latencies here", "The rate was not reached: 90,000/s"]
    {
        assert_eq!(page.contains(part), is_missed, "{part}: {outcome:?}");
    }
}
