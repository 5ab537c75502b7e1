//! Whoever reads what is printed may go away, and a disk may be full: the report is written all the same.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::data_of;
use crate::server::{Manner, Server};
use crate::support::{Directory, Ladoga, closed_pipe, full_disk};

/// Two runs against a server that answers, with a note on standard error: the process is another one.
fn lab_run(server: &Server, report: &Path) -> Ladoga {
    let line = format!(
        "lab run --workloads get --keys 10 --rates 100 --rounds 2 -d 1s -c1 --no-profile --url {} --pid {} -o",
        server.url(),
        std::process::id()
    );
    Ladoga::new(line.split_whitespace().map(str::to_owned).chain([report.display().to_string()]))
}

fn assert_whole(report: &Path) {
    assert_eq!(data_of(report)["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_reader_that_leaves_after_one_line_changes_nothing() {
    let (directory, server) = (Directory::new(), Server::start(Manner::Answer(200)));
    let report = directory.path().join("report.html");
    let (reader, writer) = io::pipe().expect("a pipe");
    let running = lab_run(&server, &report).stdout(writer).start();
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).expect("a line");
    assert!(line.starts_with("run ") && line.contains("answered/s"), "{line}");
    running.wait().expect_success();
    assert_whole(&report);
}

#[test]
fn nobody_has_to_listen() {
    let (directory, server) = (Directory::new(), Server::start(Manner::Answer(200)));
    let [report, page] = ["report.html", "page.html"].map(|name| directory.path().join(name));
    lab_run(&server, &report).stdout(closed_pipe()).stderr(closed_pipe()).run().expect_success();
    assert_whole(&report);
    let compare = || {
        let paths = [report.as_path(), report.as_path(), Path::new("-o"), page.as_path()];
        Ladoga::new(["lab", "compare"].map(Path::new).into_iter().chain(paths))
    };
    compare().stdout(closed_pipe()).stderr(closed_pipe()).run().expect_success();
    fs::remove_file(&page).expect("a page");
    compare().stdout(full_disk()).run().expect_failure(1, &["cannot print the result", "No space left"]);
    assert!(page.exists());
}

#[test]
fn a_result_that_cannot_be_printed_is_an_error_after_the_report() {
    let (directory, server) = (Directory::new(), Server::start(Manner::Answer(200)));
    let report = directory.path().join("report.html");
    let outcome = lab_run(&server, &report).stdout(full_disk()).run();
    outcome.expect_failure(1, &["ladoga lab: cannot print the result", "No space left"]);
    assert_whole(&report);
    fs::remove_file(&report).expect("a report");
    let silent = lab_run(&server, &report).stdout(full_disk()).stderr(full_disk()).run();
    assert_eq!(silent.code, Some(1), "the exit code has to do");
    assert_whole(&report);
}
