//! Whoever reads what is printed may go away, and a disk may be full: files are written all the same.

use std::fs;
use std::net::TcpListener;

use crate::server::{Manner, Server};
use crate::support::{Directory, Ladoga, closed_pipe, full_disk};

/// Runs that print on standard output and standard error, with the exit code that each has if everything can be printed.
fn lines() -> [(String, i32); 3] {
    let server = Server::start(Manner::Answer(200)).url();
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    [
        (format!("-t1 -c1 -d1s -R 100 --workload get --keys 10 --fill --slo rate>0.1 {server}"), 0),
        (format!("-t1 -c1 -d1s -R 100 --slo p50<1us {server}"), 1),
        (format!("-t1 -c1 -d1s --find-knee http://{nobody}"), 1),
    ]
}

fn bench(line: &str, directory: &Directory) -> Ladoga {
    let line = format!("bench --json run.json --html run.html {line}");
    Ladoga::new(line.split_whitespace()).current_dir(directory.path())
}

/// Removes the files that were written.
fn take_files(line: &str, directory: &Directory) {
    for name in ["run.json", "run.html"] {
        let found = fs::read_to_string(directory.path().join(name));
        assert!(found.is_ok_and(|text| !text.is_empty()), "no {name} of {line}");
        fs::remove_file(directory.path().join(name)).expect("a file");
    }
}

#[test]
fn nobody_has_to_listen() {
    let directory = Directory::new();
    for (line, code) in lines() {
        let outcome = bench(&line, &directory).stdout(closed_pipe()).stderr(closed_pipe()).run();
        assert_eq!(outcome.code, Some(code), "{line}");
        take_files(&line, &directory);
        let outcome = bench(&line, &directory).stderr(full_disk()).run();
        assert_eq!(outcome.code, Some(code), "{line}");
        take_files(&line, &directory);
    }
}

#[test]
fn a_result_that_cannot_be_printed_is_an_error_after_the_files() {
    let directory = Directory::new();
    for (line, _) in lines() {
        let outcome = bench(&line, &directory).stdout(full_disk()).run();
        outcome.expect_failure(1, &["ladoga bench: cannot print the result", "No space left"]);
        take_files(&line, &directory);
    }
}

/// Both files have the command line, in several places.
#[test]
fn no_secret_of_a_header_field_is_in_a_report() {
    let (directory, server) = (Directory::new(), Server::start(Manner::Answer(200)));
    let line = format!("-t1 -c1 -d200ms -HAuthorization:Bearer-s3cret -H Cookie:s3cret {}", server.url());
    assert_eq!(bench(&line, &directory).run().code, Some(0));
    let request = server.last_request();
    assert!(request.matches("s3cret").count() == 2, "{request}");
    for name in ["run.json", "run.html"] {
        let report = fs::read_to_string(directory.path().join(name)).expect("a report");
        assert!(report.contains("***") && !report.contains("s3cret"), "{name}");
    }
}
