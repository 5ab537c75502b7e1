//! Histories whose verdicts are known.

use ladoga_history::{Input, Operation, Output, Verdict, check};

const DONE: Output = Output::Done;

fn told(invoked: u64, returned: u64, input: Input, output: Output) -> Operation {
    Operation { invoked, input, answer: Some((returned, output)) }
}

fn write(invoked: u64, returned: u64, value: u64) -> Operation {
    told(invoked, returned, Input::Write(value), DONE)
}

fn read(invoked: u64, returned: u64, value: impl Into<Option<u64>>) -> Operation {
    told(invoked, returned, Input::Read, Output::Value(value.into()))
}

fn unknown(invoked: u64, input: Input) -> Operation {
    Operation { invoked, input, answer: None }
}

fn holds(operations: &[Operation]) -> bool {
    match check(operations) {
        Verdict::Linearizable => true,
        Verdict::Violation(_) => false,
        Verdict::Undecided => panic!("too much to try"),
    }
}

#[test]
fn one_after_the_other() {
    assert!(holds(&[]));
    assert!(holds(&[read(0, 1, None), write(2, 3, 7), read(4, 5, 7)]));
    assert!(!holds(&[write(0, 1, 7), read(2, 3, None)]), "a lost write");
    assert!(!holds(&[write(0, 1, 7), write(2, 3, 8), read(4, 5, 7)]), "a stale read");
    assert!(!holds(&[read(0, 1, 7), write(2, 3, 7)]), "a read of the future");
}

#[test]
fn a_write_takes_effect_once() {
    let twice = [write(0, 100, 1), read(1, 2, 1), write(3, 4, 2), read(5, 6, 2), read(7, 8, 1)];
    assert!(!holds(&twice), "x, y, x for one write of x");
    assert!(holds(&twice[..4]));
}

#[test]
fn reads_that_overlap_a_write_may_see_it_or_not_but_not_come_and_go() {
    assert!(holds(&[write(0, 9, 1), read(1, 2, None), read(3, 4, 1)]));
    assert!(!holds(&[write(0, 9, 1), read(1, 2, 1), read(3, 4, None)]));
    assert!(holds(&[write(0, 9, 1), read(1, 8, 1), read(2, 7, None)]), "both overlap");
}

#[test]
fn what_nobody_knows_of_may_happen_at_any_time_or_never() {
    let late = unknown(0, Input::Write(1));
    assert!(holds(&[late, read(1, 2, None), read(5, 6, 1)]));
    assert!(holds(&[late, read(1, 2, None), read(5, 6, None)]));
    assert!(!holds(&[late, read(1, 2, 1), read(5, 6, None)]));
    assert!(!holds(&[read(1, 2, 1), unknown(3, Input::Write(1))]), "not before it was asked");
    assert!(holds(&[unknown(0, Input::Delete), write(1, 2, 1), read(3, 4, None)]));
}

#[test]
fn a_conditional_write_sees_what_is_there() {
    let set = |invoked, returned, expected, value, output| {
        told(invoked, returned, Input::CompareAndSet { expected, value: Some(value) }, output)
    };
    assert!(holds(&[set(0, 1, None, 1, DONE), set(2, 3, Some(1), 2, DONE), read(4, 5, 2)]));
    assert!(!holds(&[set(0, 9, None, 1, DONE), set(1, 8, None, 2, DONE)]), "both created it");
    assert!(holds(&[set(0, 9, None, 1, DONE), set(1, 8, None, 2, Output::Refused)]));
    assert!(!holds(&[set(0, 1, None, 1, Output::Refused)]), "there was nothing in its way");
    // An operation with an unknown outcome may have caused the refusal: so it must not be left out.
    assert!(holds(&[unknown(0, Input::Write(5)), set(1, 2, None, 1, Output::Refused)]));
}

#[test]
fn numbers_grow_once_for_each_success() {
    let grown = |invoked, returned, to| told(invoked, returned, Input::Increment, Output::Value(Some(to)));
    assert!(holds(&[grown(0, 9, 2), grown(1, 8, 1), read(10, 11, 2)]));
    assert!(!holds(&[grown(0, 9, 1), grown(1, 8, 1)]), "one was lost");
    assert!(holds(&[unknown(0, Input::Increment), grown(1, 2, 1), grown(3, 4, 3)]));
    assert!(!holds(&[unknown(0, Input::Increment), grown(1, 2, 1), grown(3, 4, 4)]));
}

#[test]
fn a_violation_says_what_cannot_be_explained() {
    let Verdict::Violation(violation) = check(&[write(0, 1, 7), write(2, 3, 8), read(4, 5, 7)]) else {
        panic!("it is one")
    };
    assert_eq!(violation.stuck, read(4, 5, 7));
    assert_eq!((violation.ordered.len(), violation.holds), (2, Some(8)));
    assert!(violation.to_string().contains("the key holds Some(8)"), "{violation}");
}

#[test]
fn hundreds_of_operations_and_a_dozen_that_nobody_knows_of_are_decided() {
    let mut operations = Vec::new();
    for n in 0..300 {
        let at = n * 10;
        operations.push(write(at, at + 25, n));
        operations.push(read(at + 26, at + 27, n + u64::from(n < 298)));
        if n % 25 == 0 {
            operations.push(unknown(at, Input::Write(1_000_000 + n)));
        }
    }
    assert!(matches!(check(&operations), Verdict::Linearizable | Verdict::Violation(_)));
}

/// Each operation with an unknown outcome may come at any place, or at none: together they would be too many to try.
#[test]
fn a_violation_among_a_hundred_that_nobody_knows_of_is_sure() {
    let asked = [Input::Delete, Input::Increment];
    let mut operations: Vec<_> = (0..100).map(|n| unknown(n, asked[n as usize % asked.len()])).collect();
    operations.extend([write(200, 201, 50), read(202, 203, 50), read(204, 205, 30)]);
    assert!(holds(&operations), "deleted, and grown thirty times");
    operations.extend([write(206, 207, 7), read(208, 209, 1_000)]);
    assert!(!holds(&operations), "there are not so many that it can have grown by");
}

#[test]
fn what_nobody_knows_of_explains_more_than_one_answer_but_happens_once() {
    let late = unknown(0, Input::Write(1));
    assert!(holds(&[late, write(1, 2, 2), read(3, 4, 1), read(5, 6, 1)]));
    assert!(!holds(&[late, read(1, 2, 1), write(3, 4, 2), read(5, 6, 1)]), "x, y, x");
    assert!(holds(&[late, late, read(1, 2, 1), write(3, 4, 2), read(5, 6, 1)]), "asked for twice");
}

#[test]
fn a_conditional_deletion_that_nobody_asked_for_happens_once_and_only_to_what_it_expects() {
    let expires = unknown(10, Input::CompareAndSet { expected: Some(1), value: None });
    let written = write(0, 1, 1);
    assert!(holds(&[written, expires, read(11, 12, None), read(13, 14, None)]));
    assert!(holds(&[written, expires, read(11, 12, 1), read(13, 14, None)]), "later");
    assert!(holds(&[written, expires, read(11, 12, 1)]), "never");
    assert!(holds(&[written, expires, read(9, 11, None)]), "at once");
    assert!(!holds(&[written, expires, read(2, 9, None)]), "too early");
    assert!(!holds(&[written, expires, read(11, 12, None), read(13, 14, 1)]), "it comes back");
    assert!(!holds(&[written, expires, write(11, 12, 2), read(13, 14, None)]), "something else is there");
    assert!(!holds(&[written, expires, read(11, 12, None), write(13, 14, 1), read(15, 16, None)]), "twice");
}

#[test]
fn no_conditional_write_takes_the_place_of_what_its_client_had_not_seen() {
    let set = |invoked, returned, expected, value| {
        told(invoked, returned, Input::CompareAndSet { expected, value: Some(value) }, DONE)
    };
    let first = set(0, 1, None, 1);
    assert!(holds(&[first, set(2, 9, Some(1), 2), set(3, 8, Some(2), 3), read(10, 11, 3)]));
    assert!(!holds(&[first, set(2, 9, Some(1), 2), set(3, 8, Some(1), 3)]), "a lost update");
    assert!(!holds(&[first, write(2, 3, 5), set(4, 5, Some(1), 2)]), "a plain write is overwritten unseen");
    assert!(holds(&[first, write(2, 5, 5), set(4, 6, Some(1), 2), read(7, 8, 5)]), "or comes after it");
    // What nobody knows of may have made way, and then it did so once.
    let maybe = unknown(2, Input::CompareAndSet { expected: Some(1), value: Some(2) });
    assert!(holds(&[first, maybe, set(3, 4, Some(2), 3)]));
    assert!(!holds(&[first, maybe, set(3, 4, Some(2), 3), set(5, 6, Some(2), 4)]));
    let refused = |invoked, expected| {
        let input = Input::CompareAndSet { expected: Some(expected), value: Some(9) };
        told(invoked, invoked + 1, input, Output::Refused)
    };
    assert!(holds(&[first, maybe, refused(3, 1), read(5, 6, 2)]));
    assert!(!holds(&[first, maybe, refused(3, 1), read(5, 6, 1)]), "refused by what was not there");
}
