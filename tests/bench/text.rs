//! The text is wrk's and wrk2's, line for line: the numbers differ from run to run, the text around them does not.

use crate::command::bench;
use crate::server::{Manner, Server};

/// Real runs of the two programs, without the calibration that there is none of.
const WRK: &str = include_str!("../../crates/lab/tests/wrk2/wrk-latency.txt");
const WRK2: &str = include_str!("../../crates/lab/tests/wrk2/wrk2-L.txt");
const WRK2_UNCORRECTED: &str = include_str!("../../crates/lab/tests/wrk2/wrk2-U.txt");

#[test]
fn a_closed_loop_prints_what_wrk_prints() {
    let server = Server::start(Manner::Answer(200));
    let ran = bench(&format!("-t 2 -c 4 -d 1s --latency {}", server.url()));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(shape(&ran.out), shape(WRK), "{}", ran.out);
}

#[test]
fn an_open_loop_prints_what_wrk2_prints() {
    let server = Server::start(Manner::Answer(200));
    for (flag, theirs) in [("-L", WRK2), ("-U", WRK2_UNCORRECTED)] {
        let ran = bench(&format!("-t 2 -c 4 -R 1000 -d 1s {flag} {}", server.url()));
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(shape(&ran.out), shape(theirs), "{}", ran.out);
    }
}

/// The lines with every number as `0`, blanks as one blank, and the rows of a spectrum, however many, as one.
fn shape(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !line.starts_with("# $") && !line.contains("Thread calibration"))
        .map(|line| line.split_whitespace().map(word_shape).collect::<Vec<_>>().join(" "))
        .collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.dedup_by(|line, before| line == before && line.as_str() == "0 0 0 0");
    lines
}

/// A number has a unit of its own choosing.
fn word_shape(word: &str) -> String {
    let body = word.trim_end_matches([',', ']']);
    let end = &word[body.len()..];
    let digits = body.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    let is_number = digits.parse::<f64>().is_ok();
    let is_url = body.starts_with("http://");
    match (is_number, is_url) {
        (true, _) => format!("0{}{end}", if body.ends_with('%') { "%" } else { "" }),
        (_, true) => "URL".to_owned(),
        _ => word.to_owned(),
    }
}
