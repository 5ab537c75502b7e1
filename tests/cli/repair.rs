use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use crate::support::{Ladoga, Outcome, closed_pipe};

/// The report of a node whose repair needs no other node.
fn report(session: &str, completed: u64) -> String {
    format!(
        r#"{{"nodes": [], "replica_state": {{"session": "{session}"}}, "repair": {{"completed": {completed}}}}}"#
    )
}

/// Runs the command against a server that gives these answers, one after the other, and is gone then.
fn repair(answers: Vec<(u16, String)>) -> Outcome {
    repair_by(answers, |command| command)
}

fn repair_by(answers: Vec<(u16, String)>, with: impl Fn(Ladoga) -> Ladoga) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = thread::spawn(move || {
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().expect("a client");
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            assert!(head.take_while(|line| !line.is_empty()).count() > 0, "a request");
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            stream.write_all(format!("{head}{body}").as_bytes()).expect("a client that reads");
        }
    });
    let outcome = with(Ladoga::new(["repair", "--url", &url])).run();
    server.join().expect("a client that asks for all of it");
    outcome
}

#[test]
fn a_repair_is_complete_once_its_number_is() {
    let outcome = repair(vec![
        (200, report("a", 4)),
        (202, "5\n".to_owned()),
        (200, report("a", 4)),
        (200, report("a", 5)),
    ]);
    assert!(outcome.expect_success().text().contains("has all data of the other nodes"));
}

/// The command waited forever for a number that the node had forgotten.
#[test]
fn a_node_that_is_restarted_forgets_that_it_was_asked() {
    let (before, after) = (report("a", 4), report("b", 0));
    let answers = vec![(200, before.clone()), (202, "5\n".to_owned()), (200, before), (200, after)];
    repair(answers.clone()).expect_failure(1, &["restarted", "repeat the command"]);
    // It ended with its first line.
    let unread = repair_by(answers, |command| command.stdout(closed_pipe()));
    unread.expect_failure(1, &["restarted"]);
}

#[test]
fn an_answer_that_is_no_number_is_an_error() {
    repair(vec![(200, report("a", 4)), (202, "soon\n".to_owned())])
        .expect_failure(1, &["'soon", "expected the number of the repair"]);
}
