//! The search beside others: every order there is, and Porcupine (a module of Go), which is skipped if Go cannot be had.

#[path = "../../../tests/support/skip.rs"]
#[expect(clippy::disallowed_methods, reason = "a list of its own, beside what is tested")]
mod skip;

use std::io::Write;
use std::process::{Command, Stdio};

use ladoga_history::{Input, Operation, Output, Register, Verdict, check};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

fn inputs() -> impl Strategy<Value = Input> {
    let value = prop::option::of(0..3_u64);
    prop_oneof![
        3 => Just(Input::Read),
        3 => (0..3_u64).prop_map(Input::Write),
        1 => Just(Input::Delete),
        2 => (value.clone(), value).prop_map(|(expected, value)| Input::CompareAndSet { expected, value }),
        1 => Just(Input::Increment),
    ]
}

/// A possible answer, right or wrong.
fn output(input: Input, chosen: u64) -> Output {
    let value = (chosen < 4).then_some(chosen);
    match input {
        Input::Read => Output::Value(value),
        Input::Increment => Output::Value(Some(chosen)),
        Input::CompareAndSet { .. } if chosen < 2 => Output::Refused,
        Input::Write(_) | Input::Delete | Input::CompareAndSet { .. } => Output::Done,
    }
}

/// Operations that overlap at random. Half of them get the answers of a key that does one operation after the other.
fn histories(operations: usize) -> impl Strategy<Value = Vec<Operation>> {
    let one = (inputs(), 0..20_u64, 1..8_u64, 0..5_u64, 0..4_u8);
    (prop::collection::vec(one, 1..=operations), any::<bool>()).prop_map(|(mut drawn, is_told_truly)| {
        drawn.sort_by_key(|&(_, invoked, ..)| invoked);
        let mut register = Register::default();
        let one = |(input, invoked, lasts, chosen, fate)| {
            let (next, truth) = register.obey(input);
            register = if fate == 0 && chosen % 2 == 0 { register } else { next };
            let said = if is_told_truly { truth } else { output(input, chosen) };
            Operation { invoked, input, answer: (fate != 0).then_some((invoked + lasts, said)) }
        };
        drawn.into_iter().map(one).collect()
    })
}

/// Tries every order, with any of the operations with unknown outcomes left out.
fn has_order(left: &[Operation], register: Register) -> bool {
    if left.iter().all(|operation| operation.answer.is_none()) {
        return true;
    }
    let first_end = left.iter().filter_map(|operation| operation.answer).map(|(at, _)| at).min();
    (0..left.len()).any(|index| {
        let mut rest = left.to_vec();
        let operation = rest.remove(index);
        let (next, said) = register.obey(operation.input);
        first_end.is_none_or(|end| operation.invoked <= end)
            && operation.answer.is_none_or(|(_, told)| told == said)
            && has_order(&rest, next)
    })
}

fn is_linearizable(operations: &[Operation]) -> bool {
    match check(operations) {
        Verdict::Linearizable => true,
        Verdict::Violation(_) => false,
        Verdict::Undecided => panic!("too much to try: {operations:?}"),
    }
}

proptest! {
    #![proptest_config(Config { cases: 2_000, ..Config::default() })]
    #[test]
    fn finds_an_order_where_trying_all_of_them_does(operations in histories(6)) {
        prop_assert_eq!(is_linearizable(&operations), has_order(&operations, Register::default()));
    }
}

fn exported(operation: &Operation) -> Value {
    let input = match operation.input {
        Input::Read => json!({ "op": "read" }),
        Input::Write(value) => json!({ "op": "write", "value": value }),
        Input::Delete => json!({ "op": "delete" }),
        Input::CompareAndSet { expected, value } => {
            json!({ "op": "set", "expected": expected, "value": value })
        }
        Input::Increment => json!({ "op": "increment" }),
    };
    let answer = operation.answer.map(|(at, output)| match output {
        Output::Done => json!({ "at": at, "said": "done" }),
        Output::Refused => json!({ "at": at, "said": "refused" }),
        Output::Value(value) => json!({ "at": at, "said": "value", "value": value }),
    });
    json!({ "invoked": operation.invoked, "input": input, "answer": answer })
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a program that this test builds")]
fn porcupine_says_the_same() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/porcupine");
    let program = std::env::temp_dir().join(format!("ladoga-porcupine-{}", std::process::id()));
    let built = Command::new("go").current_dir(folder).args(["build", "-o"]).arg(&program).arg(".").output();
    match built {
        Ok(built) if built.status.success() => {}
        Ok(built) => {
            let reason = String::from_utf8_lossy(&built.stderr);
            return skip::skip(&format!("Porcupine cannot be built: {reason}"));
        }
        Err(error) => return skip::skip_without("go", &format!("there is no Go: {error}")),
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let drawn = histories(14);
    let drawn: Vec<Vec<Operation>> =
        (0..2_000).map(|_| drawn.new_tree(&mut runner).expect("a history").current()).collect();
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("what was just built starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let mut lines = String::new();
    for history in &drawn {
        let history: Vec<Value> = history.iter().map(exported).collect();
        lines.push_str(&Value::from(history).to_string());
        lines.push('\n');
    }
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let said = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    std::fs::remove_file(&program).expect("it is there");
    let said = String::from_utf8(said.stdout).expect("text");
    let verdicts: Vec<bool> = said.lines().map(|line| line == "linearizable").collect();
    assert_eq!(verdicts.len(), drawn.len(), "{said}");
    let mut good = 0;
    for (history, &verdict) in drawn.iter().zip(&verdicts) {
        assert_eq!(is_linearizable(history), verdict, "{history:#?}");
        good += usize::from(verdict);
    }
    assert!((200..1_800).contains(&good), "both kinds: {good} of {} have an order", drawn.len());
}
