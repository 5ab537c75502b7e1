//! It never hangs: whatever the server does ends in counted errors and a clear line.

use crate::command::{Ran, bench, start};
use crate::server::{Manner, Server};
use crate::support::Port;

/// Runs against each manner, in a closed and in an open loop, all at the same time. That they end at all is what the
/// deadline of every run checks.
fn against(manners: &[Manner], timeout: &str) -> Vec<(Manner, Ran)> {
    let servers: Vec<Server> = manners.iter().map(|manner| Server::start(*manner)).collect();
    let mut runs = Vec::new();
    for (manner, server) in manners.iter().zip(&servers) {
        for flags in ["", "-R 200 -L"] {
            let run = start(&format!("-t1 -c2 -d2s --timeout {timeout} {flags} {}", server.url()));
            runs.push((*manner, run));
        }
    }
    let ended = runs.into_iter().map(|(manner, run)| (manner, Ran::of(&run.wait())));
    ended.inspect(|(_, ran)| assert!(!ran.out.to_lowercase().contains("nan"), "{}", ran.out)).collect()
}

#[test]
fn whatever_breaks_is_counted() {
    let reasons = [
        (Manner::Reset, "Connection reset by peer"),
        (Manner::HalfClose, "the server closed the connection"),
        (Manner::Malformed, "the head of the answer is malformed"),
        (Manner::EndlessHead, "the head of the answer is"),
    ];
    for (manner, ran) in against(&reasons.map(|(manner, _)| manner), "1s") {
        assert_eq!(ran.code, 1, "{manner:?}: {ran:?}");
        let broken = ran.number_after(", read ") + ran.number_after(", write ");
        assert!(broken > 0.0, "{manner:?}: {}", ran.out);
        assert!(ran.err.contains("no request was answered"), "{manner:?}: {}", ran.err);
        assert!(ran.err.contains("   broken"), "{manner:?}: {}", ran.err);
        let (_, reason) = reasons.iter().find(|(of, _)| *of == manner).expect("a reason for each");
        let told = format!("failed, the last one with: {reason}");
        assert!(ran.number_after(", read ") == 0.0 || ran.err.contains(&told), "{manner:?}: {}", ran.err);
    }
}

#[test]
fn whatever_takes_too_long_is_counted() {
    for (manner, ran) in against(&[Manner::Silent, Manner::EndlessBody], "1s") {
        assert_eq!(ran.code, 1, "{manner:?}: {ran:?}");
        assert!(ran.number_after(", timeout ") > 0.0, "{manner:?}: {}", ran.out);
        assert!(ran.err.contains("  timeout"), "{manner:?}: {}", ran.err);
    }
}

#[test]
fn one_byte_at_a_time_and_an_empty_line_behind_a_body_are_right() {
    for (_, ran) in against(&[Manner::Drip, Manner::EmptyLine, Manner::EmptyLineLater], "1h") {
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(!ran.out.contains("Socket errors"), "{}", ran.out);
    }
}

/// To send the rest of a request failed, and the answer to what was sent of it was thrown away with the connection.
#[test]
fn an_answer_to_half_a_request_is_read() {
    let server = Server::start(Manner::Refuse);
    let ran = bench(&format!("-t1 -c1 -d1s --workload put --value 16MiB {}", server.url()));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("Socket errors"), "{}", ran.out);
    assert!(ran.number_after("Non-2xx or 3xx responses: ") > 0.0, "{}", ran.out);
}

#[test]
fn nobody_there_ends_at_once() {
    let nobody = Port::claim();
    let address = nobody.address();
    for flags in ["-d 10s", "-d 10s -R 100 -L"] {
        let ran = bench(&format!("-t1 -c3 {flags} http://{address}"));
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(
            ran.err.contains(&format!("unable to connect to {}:{}", address.ip(), address.port())),
            "{}",
            ran.err
        );
        assert!(ran.out.contains("  Socket errors: connect 3, read 0, write 0, timeout 0\n"), "{}", ran.out);
    }
}

#[test]
fn bad_arguments_exit_with_2() {
    for line in [
        "",
        "-t x http://a",
        "-c1 -t2 http://a",
        "https://",
        "-s /no/such/file.lua http://127.0.0.1:1",
        "--find-knee --slo p99<5ms,rate>5k http://127.0.0.1:1",
        "--workload status --fill http://127.0.0.1:1",
    ] {
        let ran = bench(line);
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
        assert!(!ran.err.is_empty() && ran.out.is_empty(), "{line}: {ran:?}");
    }
}
