use crate::in_order::{InOrder, Said};
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
    let said = |(status, body)| Said { status, content_type: "text/plain", body };
    let server = InOrder::start(answers.into_iter().map(said).collect());
    let outcome = with(Ladoga::new(["repair", "--url", &server.url()])).run();
    server.expect_all_asked_for();
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

/// It ended with the first of them, and said that the node is not part of a cluster.
#[test]
fn the_rate_of_a_token_is_waited_for() {
    let busy = || (429, "the token has used its requests a second\n".to_owned());
    let outcome = repair(vec![
        busy(),
        (200, report("a", 4)),
        busy(),
        (202, "5\n".to_owned()),
        busy(),
        busy(),
        (200, report("a", 5)),
    ]);
    assert!(outcome.expect_success().text().contains("has all data of the other nodes"));
}

#[test]
fn a_node_that_does_not_say_how_far_it_is_is_not_repaired() {
    repair(vec![(403, "the token lacks the scope metrics\n".to_owned())])
        .expect_failure(1, &["answered 403: the token lacks the scope metrics"]);
    repair(vec![
        (200, report("a", 4)),
        (202, "5\n".to_owned()),
        (401, "the token is not valid\n".to_owned()),
    ])
    .expect_failure(1, &["answered 401: the token is not valid"]);
}
