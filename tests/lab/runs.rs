use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::data_of;
use crate::server::{Manner, Server};
use crate::support::{Directory, Ladoga, Node, Outcome, wait_until};

/// Small enough for a machine that is busy with something else.
const SMALL: &str = "-d 1s -c2 --keys 500 --memory 64MiB --no-profile";

fn lab_run(words: &str, report: &Path, directory: &Directory) -> Ladoga {
    let flags = words.split_whitespace().map(PathBuf::from);
    let own = ["lab", "run"].into_iter().map(PathBuf::from);
    let output = [PathBuf::from("-o"), report.to_path_buf()];
    Ladoga::new(own.chain(flags).chain(output)).current_dir(directory.path())
}

fn names(report: &Value) -> Vec<&str> {
    let runs = report["runs"].as_array().expect("runs");
    runs.iter().map(|run| run["stage"].as_str().expect("a name")).collect()
}

fn count_of(run: &Value, class: &str) -> u64 {
    let answers = run["answers"].as_array().expect("answers");
    let found = answers.iter().find(|answer| answer["class"] == class);
    found.map_or(0, |answer| answer["count"].as_u64().expect("a count"))
}

fn nothing_stays_behind(directory: &Directory) {
    let left: Vec<_> = std::fs::read_dir(directory.path())
        .expect("the directory")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("ladoga-lab-"))
        .collect();
    assert!(left.is_empty(), "the node's data stayed behind: {left:?}");
}

#[test]
fn a_node_of_its_own_is_measured_from_nothing_to_a_report() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    let words = format!("{SMALL} --workloads put,get,delete --rates 200 --rounds 1 --dir . --fsync never");
    let outcome = lab_run(&words, &report, &directory).run().expect_success();
    let data = data_of(&report);
    assert_eq!(
        names(&data),
        [
            "put at 200/s, 2 connections",
            "get at 200/s, 2 connections, 500 keys",
            "delete at 200/s, 2 connections, 500 keys"
        ]
    );
    for run in data["runs"].as_array().expect("runs") {
        assert!(count_of(run, "2xx") > 0 && count_of(run, "404") == 0, "a store that was filled: {run}");
        let count = |name: &str| run[name].as_u64().expect("a count");
        assert_eq!(count("requests") + count("unanswered"), 200, "{run}");
        // So little CPU time may be less than one tick of the clock that counts it.
        assert!(run["node"]["cpu_us_per_request"].is_number(), "{}", run["node"]);
        assert!(
            run["heat"]["columns"].as_array().is_some_and(|columns| !columns.is_empty()),
            "{}",
            run["heat"]
        );
        let command = run["command"].as_str().expect("a command");
        assert!(command.starts_with("ladoga bench -t1 -c2 -d 1s -R 200 -L --workload "), "{command}");
    }
    assert!(
        data["subjects"][0]["what"].as_str().is_some_and(|what| what.contains("--fsync never")),
        "{data}"
    );
    for part in ["[1/3] put", "[3/3] delete", "s left", "filled with 500 of 500 keys"] {
        assert!(outcome.stderr.contains(part), "{part} in {}", outcome.stderr);
    }
    assert!(
        outcome.text().contains("answered/s") && outcome.text().contains("report.html"),
        "{}",
        outcome.text()
    );
    nothing_stays_behind(&directory);
}

#[test]
fn two_servers_are_measured_in_alternation() {
    let (directory, one, other) = (Directory::new(), Node::start(), Node::start());
    let report = directory.path().join("report.html");
    let words = format!(
        "-d 1s -c1 --keys 50 --workloads get --rates 100 --rounds 2 --no-profile --url {} --pid {} --peer {}",
        one.url(),
        one.pid(),
        other.url()
    );
    let outcome = lab_run(&words, &report, &directory).run().expect_success();
    let told = format!(
        "note: this changes the store of {} and {} for good: 50 keys (key0 to key49) are written before they are read\n",
        one.url(),
        other.url()
    );
    assert!(outcome.stderr.contains(&told), "{}", outcome.stderr);
    let data = data_of(&report);
    let order: Vec<(&str, u64)> = data["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| (run["subject"].as_str().expect("a name"), run["round"].as_u64().expect("a number")))
        .collect();
    assert_eq!(order, [("ladoga", 1), ("peer", 1), ("peer", 2), ("ladoga", 2)]);
    assert!(data["runs"][0]["node"]["cpu_us_per_request"].is_number());
    let reason = data["runs"][1]["node"]["missing"][0].as_str().expect("a reason");
    assert!(reason.contains("--pid"), "{reason}");
    // The process of one server is known: what else used the machine, too, and which program it is.
    assert!(data["runs"][0]["disturbance"]["other_cores"].is_number(), "{}", data["runs"][0]["disturbance"]);
    assert!(data["subjects"][0]["build"].is_string() && data["subjects"][1]["build"].is_null(), "{data}");
    let page = std::fs::read_to_string(&report).expect("a page");
    let [(verdict, _), (_, in_page)] = [outcome.text(), &page]
        .map(|text| (text.contains("cannot be told: 2 rounds, "), text.contains("ladoga against peer</h2>")));
    assert!(verdict && in_page, "the verdict stands in the page and in the text: {}", outcome.text());
}

/// The figures of another process looked like those of the server.
#[test]
fn a_process_that_is_not_the_servers_is_told() {
    let (directory, node, other) = (Directory::new(), Node::start(), Node::start());
    let report = directory.path().join("report.html");
    let with_pid = |pid: u32| {
        let words = "-d 1s -c1 --workloads status --rates 100 --rounds 1 --no-profile";
        let words = format!("{words} --url {} --pid {pid}", node.url());
        lab_run(&words, &report, &directory).run()
    };
    let told = format!("--pid {} (ladoga) does not listen on port ", other.pid());
    let outcome = with_pid(other.pid()).expect_success();
    assert!(outcome.stderr.contains(&format!("note: {told}")), "{}", outcome.stderr);
    assert!(std::fs::read_to_string(&report).expect("a page").contains(&told), "the page says so too");
    let outcome = with_pid(node.pid()).expect_success();
    assert!(!outcome.stderr.contains("does not listen"), "{}", outcome.stderr);
    // No process has this number: it is over the largest that Linux gives.
    with_pid(5_000_000).expect_failure(2, &["--pid 5000000: no such process"]);
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    let words = format!("{SMALL} --workloads put --rates 100,110,120,130,140,150 --rounds 50 --dir .");
    let running = lab_run(&words, &report, &directory).start();
    wait_until("a report of the first run", || report.exists());
    running.signal("INT");
    let outcome = running.wait();
    assert_eq!(outcome.code, Some(130), "as shells have it for SIGINT: {outcome:?}");
    let data = data_of(&report);
    assert_eq!(data["is_interrupted"], true);
    let runs = data["runs"].as_array().expect("runs");
    assert!((1..300).contains(&runs.len()) && data["planned"] == 300, "{runs:?} of {}", data["planned"]);
    let cut = runs.iter().filter(|run| run["is_interrupted"] == true).count();
    let in_part = if cut > 0 { " (and one in part)" } else { "" };
    let whole = runs.len() - cut;
    assert!(
        outcome.stderr.contains(&format!("interrupted: {whole} of 300 runs{in_part} were made")),
        "{}",
        outcome.stderr
    );
    nothing_stays_behind(&directory);
}

/// GNU `timeout` signals its child, and then its child's group. The second signal ended it: without a report, and with the
/// node's directory left.
#[test]
fn signals_that_come_together_are_one_wish() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    let place = directory.path().display();
    let words = format!("{SMALL} --workloads put --rates 100 --rounds 1000 --dir {place}");
    let running = lab_run(&words, &report, &directory).start();
    wait_until("a report of the first run", || report.exists());
    // Signals that wait while a process is stopped come together, and two of a kind would be one.
    for signal in ["STOP", "INT", "TERM", "CONT"] {
        running.signal(signal);
    }
    let outcome = running.wait();
    assert!([Some(130), Some(143)].contains(&outcome.code), "{outcome:?}");
    assert_eq!(data_of(&report)["is_interrupted"], true);
    assert!(outcome.text().contains("\nThe report is "), "{}", outcome.text());
    nothing_stays_behind(&directory);
}

/// The processes whose command line names the directory.
fn nodes_in(directory: &Directory) -> Vec<u32> {
    let place = directory.path().display().to_string();
    let processes = std::fs::read_dir("/proc").expect("the processes").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_node = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("--ends-with") && line.contains(&place)
    };
    pids.filter(is_node).collect()
}

#[test]
fn a_node_that_dies_ends_the_measurement() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    let words = format!(
        "{SMALL} -d 300ms --workloads status --rates 100 --rounds 100 --dir {}",
        directory.path().display()
    );
    let running = lab_run(&words.replacen("-d 1s ", "", 1), &report, &directory).start();
    wait_until("a report of the first run", || report.exists());
    let node = nodes_in(&directory)[0];
    let kill = std::process::Command::new("sh").args(["-c", &format!("kill -s KILL {node}")]).status();
    assert!(kill.expect("a shell").success(), "the node is killed");
    let told = [
        "the node ended with signal: 9",
        " during status at 100/s",
        " has what was measured: ",
        " of 100 runs (and one in part)\n",
    ];
    let outcome = running.wait().expect_failure(1, &told);
    let data = data_of(&report);
    let runs = data["runs"].as_array().expect("runs");
    assert!((1..100).contains(&runs.len()), "it went on without a node: {outcome:?}");
    assert_eq!(runs[runs.len() - 1]["is_interrupted"], true, "the last one is no whole run");
    nothing_stays_behind(&directory);
}

#[test]
fn who_cannot_write_the_report_does_not_say_that_it_is_there() {
    let directory = Directory::new();
    let place = directory.path().join("reports");
    std::fs::create_dir(&place).expect("a directory");
    let report = place.join("report.html");
    let words =
        format!("{SMALL} --workloads status --rates 100 --rounds 100 --dir {}", directory.path().display());
    let running = lab_run(&words, &report, &directory).start();
    wait_until("a report of the first run", || report.exists());
    std::fs::rename(&place, directory.path().join("elsewhere")).expect("a directory that is moved");
    let outcome = running.wait().expect_failure(1, &["cannot write "]);
    assert!(!outcome.stderr.contains("has what was measured"), "{outcome:?}");
    nothing_stays_behind(&directory);
}

#[test]
fn a_node_that_is_starting_can_be_interrupted() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    let words =
        format!("{SMALL} --workloads status --rates 100 --rounds 1 --dir {}", directory.path().display());
    let interrupted = || {
        let running = lab_run(&words, &report, &directory).start();
        wait_until("a node of its own", || !nodes_in(&directory).is_empty());
        running.signal("INT");
        running.wait()
    };
    // On a busy machine, the signal may come when the run has begun, or is over: that is made again.
    let is_too_late = |outcome: &Outcome| {
        let has_begun =
            outcome.stderr.contains("(and one in part)") || outcome.stderr.contains("1 of 1 runs");
        outcome.code == Some(0) || outcome.code == Some(130) && has_begun
    };
    let outcome = (0..10).map(|_| interrupted()).find(|outcome| !is_too_late(outcome));
    let outcome = outcome.expect("a signal in time, in one of ten rounds");
    outcome.expect_failure(130, &["interrupted: 0 of 1 runs were made"]);
    nothing_stays_behind(&directory);
}

#[test]
fn a_run_that_is_killed_leaves_nothing_behind() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    let place = directory.path().display();
    let running =
        lab_run(&format!("-d 1h --no-profile --memory 64MiB --dir {place}"), &report, &directory).start();
    wait_until("a node of its own", || !nodes_in(&directory).is_empty());
    running.signal("KILL");
    assert_eq!(running.wait().code, None, "a signal ended it");
    wait_until("the end of the node", || nodes_in(&directory).is_empty());
    let next = format!("{SMALL} --workloads status --rates 50 --rounds 1 --dir {place}");
    lab_run(&next, &report, &directory).run().expect_success();
    nothing_stays_behind(&directory);
}

#[test]
fn a_server_without_a_profiler_is_a_reason_and_no_failure() {
    let (directory, server) = (Directory::new(), Server::start(Manner::Answer(404)));
    let report = directory.path().join("report.html");
    let words = format!("-d 1s -c1 --workloads status --rates 50 --rounds 1 --url {}", server.url());
    let outcome = lab_run(&words, &report, &directory).run();
    let told = "no request had a good answer: status at 50/s, 1 connection, ladoga, round 1";
    let outcome = outcome.expect_failure(3, &[told]);
    let run = &data_of(&report)["runs"][0];
    let reason = "GET /debug/profile/cpu?seconds=1&format=heatmap was answered with 404";
    assert!(
        run["profiles"][0]["found"]["Missing"].as_str().is_some_and(|text| text.starts_with(reason)),
        "{}",
        run["profiles"]
    );
    assert!(outcome.stderr.contains(&format!("no flame graph: {reason}")), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("GET /metrics was answered with 404"), "{}", outcome.stderr);
    assert!(std::fs::read_to_string(&report).expect("a page").contains(reason), "the page says so too");
}

#[test]
fn what_cannot_be_run_is_told() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    let run = |words: &str| -> Outcome { lab_run(words, &report, &directory).run() };
    run("--only nothing-like-it").expect_failure(2, &["nothing-like-it"]);
    run("--rates fast").expect_failure(2, &["closed"]);
    run("--suite reports --url http://127.0.0.1:1").expect_failure(2, &["--url"]);
    run("--fsync sometimes").expect_failure(2, &["sometimes"]);
    run("--dir absent").expect_failure(1, &["cannot write absent"]);
    assert!(!report.exists(), "it is seen before a run begins");
    assert!(!directory.path().join("absent").exists(), "it was made");
    a_node_that_does_not_start_is_told(&report, &directory);
    // The third is seen before the first is measured.
    let server = Server::start(Manner::Answer(200));
    for words in [
        "--url http://127.0.0.1:1 --workloads get".to_owned(),
        format!("--url {} --workloads status -d 1h --peer http://127.0.0.1:1", server.url()),
    ] {
        let outcome = run(&words).expect_failure(1, &["unable to connect to 127.0.0.1:1"]);
        assert_eq!(outcome.text(), "", "something was measured: {words}");
    }
    let absent = directory.path().join("absent").join("report.html");
    for report in [absent.as_path(), directory.path()] {
        let outcome = lab_run("-d 1h --dir .", report, &directory).run();
        let outcome = outcome.expect_failure(1, &["cannot write", &report.display().to_string()]);
        assert_eq!(outcome.text(), "", "something was measured");
    }
    assert!(!report.exists(), "no report of nothing");
    nothing_stays_behind(&directory);
    Ladoga::new(["lab"]).run().expect_failure(2, &["run", "compare"]);
}

/// A node refuses a path that is no UTF-8.
fn a_node_that_does_not_start_is_told(report: &Path, directory: &Directory) {
    let dir = directory.path().join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&dir).expect("a directory");
    let flags = ["lab", "run", "--dir"].map(PathBuf::from).into_iter();
    let flags = flags.chain([dir.clone(), PathBuf::from("-o"), report.to_path_buf()]);
    Ladoga::new(flags).run().expect_failure(1, &["the node ended", "UTF-8"]);
    std::fs::remove_dir(&dir).expect("nothing stays in it");
}

/// The node had them, and the report did not say so.
#[test]
fn settings_of_another_node_do_not_count_for_the_one_that_is_measured() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    lab_run(&format!("{SMALL} --workloads get --rates 100 --rounds 1"), &report, &directory)
        .env("LADOGA_THREADS", "none")
        .env("LADOGA_TOKENS", "absent.toml")
        .env("LADOGA_CONFIG", "absent.toml")
        .run()
        .expect_success();
}

#[test]
fn a_rate_that_no_connection_carries_is_told() {
    let directory = Directory::new();
    let report = directory.path().join("report.html");
    let words = format!("{SMALL} --workloads get --rates 5m --rounds 1 -T 1h");
    let outcome = lab_run(&words, &report, &directory).run().expect_success();
    assert!(outcome.stderr.contains("the rate was not reached: 5,000,000/s asked for, "), "{outcome:?}");
    let page = std::fs::read_to_string(&report).expect("a page");
    for part in ["of 5,000,000: not reached", "The rate was not reached: 5,000,000/s"] {
        assert!(page.contains(part), "{part}");
    }
}
