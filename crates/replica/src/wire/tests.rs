use bytes::{Bytes, BytesMut};
use ladoga_cluster::{
    Acquaintance, AsOf, Had, Incarnation, KeyVersion, Memory, NodeList, Origin, Partition, Reach, ReadAnswer,
    Refusal, SentCell, Statement,
};
use ladoga_model::{Cell, CellMark, ClockError, Durability, Replicas, Stamp, Value, Version};
use ladoga_service::{Error, Precondition, TooFewReplicas};
use proptest::prelude::*;

use super::forward::{CONTENDED, FORWARDED_BYTES_MAX};
use super::frame::take_frame;
use super::{Answer, Base, Change, Changed, Forward, Forwarded, Hello, Request, Versions};

fn bytes(range: std::ops::Range<usize>) -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), range).prop_map(Bytes::from)
}

fn version() -> impl Strategy<Value = Version> {
    (1_u64.., any::<u16>()).prop_map(|(timestamp, node)| Version { timestamp, node })
}

fn stamp() -> impl Strategy<Value = Stamp> {
    (version(), any::<u64>(), any::<u8>()).prop_map(|(version, expires_at_ms, copies)| Stamp {
        version,
        expires_at_ms,
        copies,
    })
}

fn base() -> impl Strategy<Value = Base> {
    let version = || proptest::option::of(version());
    let met = proptest::collection::vec(any::<u64>().prop_map(Incarnation), 0..4);
    (version(), version(), met).prop_map(|(one, other, met)| Base {
        had: one.min(other),
        newest: one.max(other),
        met,
    })
}

/// A ballot, and what is older.
fn accepted() -> impl Strategy<Value = (Stamp, Base)> {
    (stamp(), base()).prop_map(|(stamp, base)| {
        let is_older = base.newest < Some(stamp.version);
        (stamp, if is_older { base } else { Base { had: None, newest: None, ..base } })
    })
}

fn statement() -> impl Strategy<Value = Statement> {
    let met = (any::<u64>(), any::<bool>())
        .prop_map(|(bits, is_replacement)| Acquaintance { incarnation: Incarnation(bits), is_replacement });
    let memory =
        (any::<u64>(), reach(), reach()).prop_map(|(session, now, before)| Memory { session, now, before });
    let met = proptest::collection::vec(met, 0..4);
    let remembered = proptest::collection::vec(memory, 0..4);
    (any::<[u64; 6]>(), any::<bool>(), met, reach(), remembered).prop_map(
        |([bits, write_floor, synced_before, clock, session, wall_ms], is_whole, met, reach, remembered)| {
            Statement {
                incarnation: Incarnation(bits),
                write_floor,
                synced_before,
                is_whole,
                clock,
                met,
                session,
                reach,
                remembered,
                wall_ms,
            }
        },
    )
}

fn reach() -> impl Strategy<Value = Reach> {
    (any::<u64>(), any::<u64>()).prop_map(|(written, reserved)| Reach { written, reserved })
}

fn slice() -> impl Strategy<Value = AsOf> {
    (any::<u64>(), any::<u64>()).prop_map(|(before, dropped_before)| AsOf { before, dropped_before })
}

fn hello() -> impl Strategy<Value = Hello> {
    (statement(), any::<u64>(), proptest::collection::hash_set("[a-z:/.0-9]{1,30}", 1..6)).prop_map(
        |(statement, wall_ms, names)| Hello {
            versions: Versions::OWN,
            node: 0,
            wall_ms,
            statement,
            nodes: NodeList::first(names).expect("names that differ"),
        },
    )
}

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![Just(Origin::Client), Just(Origin::Hint), Just(Origin::Repair), Just(Origin::Exchange)]
}

fn durability() -> impl Strategy<Value = Option<Durability>> {
    proptest::option::of(proptest::sample::select(Durability::ALL.to_vec()))
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        hello().prop_map(Request::Hello),
        (bytes(1..40), any::<bool>(), origin()).prop_map(|(key, digest, origin)| Request::Read {
            key,
            digest,
            origin
        }),
        (bytes(1..40), stamp(), proptest::option::of(bytes(0..99)), origin(), any::<bool>(), durability())
            .prop_map(|(key, stamp, value, origin, is_again, durability)| {
                Request::Write { key, stamp, value, origin, is_again, durability }
            }),
        (bytes(1..40), version()).prop_map(|(key, version)| Request::OpenValue { key, version }),
        (bytes(0..40), bytes(0..40), any::<[bool; 2]>()).prop_map(
            |(start, end, [is_reverse, has_values])| {
                Request::OpenCells { start, end, is_reverse, has_values }
            }
        ),
        (any::<u32>(), prop_oneof![Just(0), any::<u64>()])
            .prop_map(|(stream, skip)| Request::Next { stream, skip }),
        any::<u32>().prop_map(|stream| Request::Close { stream }),
        Just(Request::Upload),
        (any::<u32>(), bytes(0..99)).prop_map(|(stream, bytes)| Request::Push { stream, bytes }),
        (any::<u32>(), stamp(), bytes(1..40), durability()).prop_map(|(stream, stamp, key, durability)| {
            Request::Finish { stream, stamp, key, origin: Origin::Exchange, durability }
        }),
        statement().prop_map(Request::Statement),
        slice().prop_map(Request::Groups),
        (slice(), proptest::collection::vec(any::<u8>(), 0..32))
            .prop_map(|(slice, groups)| Request::Leaves { slice, groups }),
        (slice(), proptest::collection::vec(any::<u16>().prop_map(Partition), 0..9), bytes(0..40))
            .prop_map(|(slice, partitions, after)| Request::List { slice, partitions, after }),
        (bytes(1..40), version(), durability()).prop_map(|(key, ballot, durability)| Request::Prepare {
            key,
            ballot,
            durability
        }),
        (bytes(1..40), accepted(), proptest::option::of(bytes(0..99)), durability()).prop_map(
            |(key, (stamp, base), value, durability)| Request::Accept { key, stamp, base, value, durability }
        ),
        (any::<u32>(), accepted(), bytes(1..40), durability()).prop_map(
            |(stream, (stamp, base), key, durability)| {
                Request::AcceptUpload { stream, stamp, base, key, durability }
            }
        ),
        (bytes(1..40), version()).prop_map(|(key, ballot)| Request::Release { key, ballot }),
        Just(Request::KeepDeletions),
        forward().prop_map(|forward| Request::Forward(Box::new(forward))),
    ]
}

fn forward() -> impl Strategy<Value = Forward> {
    let precondition = prop_oneof![
        Just(Precondition::None),
        proptest::collection::vec(version(), 0..5)
            .prop_map(|versions| Precondition::IfMatch(versions.into())),
        Just(Precondition::IfMatchAny),
        Just(Precondition::IfNoneMatchAny),
        Just(Precondition::Never),
    ];
    let change = prop_oneof![
        bytes(0..99).prop_map(Change::Put),
        Just(Change::Delete),
        any::<i64>().prop_map(Change::Increment),
        Just(Change::Expire),
    ];
    let replicas = (1_u32..5, 0_u32..5).prop_map(|(ack, more)| Replicas { ack, from: ack + more });
    (bytes(1..40), replicas, durability(), any::<u32>(), any::<u64>(), precondition, change).prop_map(
        |(key, replicas, durability, left_ms, expires_at_ms, precondition, change)| Forward {
            key,
            replicas,
            durability,
            left_ms,
            expires_at_ms,
            precondition,
            change,
        },
    )
}

fn forwarded() -> impl Strategy<Value = Forwarded> {
    let current = || proptest::option::of(version());
    let failures = proptest::collection::vec(("[a-z:/.0-9]{1,30}", "[a-z ]{0,40}"), 0..5);
    let too_few = (any::<[u16; 3]>(), any::<bool>(), failures).prop_map(
        |([acked, required, asked], may_have_happened, failures)| {
            let [acked, required, asked] = [acked, required, asked].map(usize::from);
            TooFewReplicas { acked, required, asked, failures, may_have_happened }
        },
    );
    let error = prop_oneof![
        current().prop_map(|current| Error::PreconditionFailed { current }),
        current().prop_map(|current| Error::NotFound { current }),
        "[a-z']{0,40}".prop_map(|found| Error::NotANumber { found }),
        (any::<i64>(), any::<i64>()).prop_map(|(number, by)| Error::Overflow { number, by }),
        too_few.prop_map(|too_few| Error::TooFewReplicas(Box::new(too_few))),
        Just(Error::Undecided),
        (0..CONTENDED.len()).prop_map(|why| Error::Contended(CONTENDED[why])),
    ];
    let outcome = prop_oneof![
        (stamp(), any::<i64>()).prop_map(|(stamp, sum)| Some(Ok(Changed { stamp, sum }))),
        error.prop_map(|error| Some(Err(error))),
        Just(None),
    ];
    (any::<bool>(), outcome).prop_map(|(is_shared, outcome)| Forwarded { is_shared, outcome })
}

fn answer() -> impl Strategy<Value = Answer> {
    let value = prop_oneof![
        bytes(0..99).prop_map(|value| Some(Value::Inline(value))),
        (0_u64..1 << 26).prop_map(|bytes| Some(Value::Large(bytes))),
        Just(None),
    ];
    let cell = prop_oneof![
        (stamp(), value).prop_map(|(stamp, value)| SentCell::Whole(Cell { stamp, value })),
        stamp().prop_map(SentCell::Digest),
    ];
    let refusal = prop_oneof![
        Just(Refusal::OverCapacity),
        Just(Refusal::NoRoom),
        Just(Refusal::StoreFailed),
        Just(Refusal::Unreadable),
        (any::<u64>(), any::<u64>())
            .prop_map(|(ahead_ms, ahead_ms_max)| Refusal::ClockAhead(ClockError { ahead_ms, ahead_ms_max })),
        any::<u64>().prop_map(|write_floor| Refusal::TooOld { write_floor }),
        Just(Refusal::Rebuilding),
        Just(Refusal::Draining),
        Just(Refusal::Starting),
    ];
    prop_oneof![
        hello().prop_map(|hello| Answer::Hello(Box::new(hello))),
        "[a-z ]{0,40}".prop_map(Answer::Stranger),
        (proptest::option::of(cell), any::<bool>())
            .prop_map(|(cell, is_whole)| Answer::Read(ReadAnswer { cell, is_whole })),
        Just(Answer::Done),
        refusal.prop_map(Answer::Refused),
        bytes(0..99).prop_map(Answer::Piece),
        Just(Answer::End),
        (version(), prop_oneof![Just(Had::Never), Just(Had::Skipped), Just(Had::Once), Just(Had::Unknown)])
            .prop_map(|(newest, had)| Answer::Superseded { newest, had }),
        version().prop_map(Answer::Fenced),
        version().prop_map(Answer::Outbid),
        Just(Answer::Alive),
        any::<u32>().prop_map(Answer::Opened),
        Just(Answer::Gone),
        statement().prop_map(|statement| Answer::Statement(Box::new(statement))),
        (any::<u64>(), proptest::collection::vec(any::<u64>(), 0..9))
            .prop_map(|(dropped_before, hashes)| Answer::Groups { dropped_before, hashes }),
        proptest::collection::vec(any::<u64>(), 0..9).prop_map(Answer::Leaves),
        (
            proptest::collection::vec((bytes(1..40), stamp(), any::<bool>()), 0..5),
            proptest::option::of(bytes(1..40))
        )
            .prop_map(|(entries, next)| {
                let listed = |(key, stamp, is_tombstone)| {
                    let mark = CellMark { stamp, is_tombstone };
                    KeyVersion { key, mark }
                };
                Answer::List { entries: entries.into_iter().map(listed).collect(), next }
            }),
        forwarded().prop_map(|forwarded| Answer::Forwarded(Box::new(forwarded))),
    ]
}

/// What is about the node that was to decide it, and no answer to the client, is "not decided"; and no answer is longer than it
/// counts for.
#[test]
fn an_error_that_says_nothing_about_the_request_is_not_passed_on() {
    let passed_on = |error| {
        let mut wire = BytesMut::new();
        let forwarded = Forwarded { is_shared: true, outcome: Some(Err(error)) };
        Answer::Forwarded(Box::new(forwarded)).put(&mut wire, 1);
        assert!(wire.len() <= FORWARDED_BYTES_MAX + 64, "{} bytes", wire.len());
        let frame = take_frame(&mut wire).expect("a frame").expect("a whole one");
        let Ok(Answer::Forwarded(forwarded)) = Answer::of(&frame) else { panic!("another answer") };
        forwarded.outcome
    };
    for error in [Error::TimeNotReserved, Error::Draining, Error::Contended("for some other reason")] {
        assert_eq!(passed_on(error), None);
    }
    let (name, why) = ("http://node".repeat(99), "\u{e4}".repeat(999));
    let too_few = TooFewReplicas {
        acked: 1,
        required: 33,
        asked: 64,
        failures: vec![(name, why); 63],
        may_have_happened: true,
    };
    let Some(Err(Error::TooFewReplicas(told))) = passed_on(Error::TooFewReplicas(Box::new(too_few))) else {
        panic!("another error")
    };
    assert!((told.acked, told.required, told.asked, told.may_have_happened) == (1, 33, 64, true));
    assert!(!told.failures.is_empty() && told.failures[0].0.starts_with("http://node"));
}

proptest! {
    #[test]
    fn a_request_comes_out_as_it_went_in(request in request(), number: u32) {
        let mut wire = BytesMut::new();
        request.put(&mut wire, number);
        let frame = take_frame(&mut wire).expect("a frame").expect("a whole one");
        prop_assert_eq!(frame.request, number);
        prop_assert_eq!(Request::of(&frame).expect("a request"), request);
    }

    #[test]
    fn an_answer_comes_out_as_it_went_in(answer in answer(), number: u32) {
        let mut wire = BytesMut::new();
        answer.put(&mut wire, number);
        let frame = take_frame(&mut wire).expect("a frame").expect("a whole one");
        prop_assert_eq!(frame.request, number);
        prop_assert_eq!(Answer::of(&frame).expect("an answer"), answer);
    }

    #[test]
    fn a_body_that_is_cut_off_is_refused_or_another_message(request in request(), cut in 0_usize..99) {
        let mut wire = BytesMut::new();
        request.put(&mut wire, 1);
        let mut frame = take_frame(&mut wire).expect("a frame").expect("a whole one");
        frame.body.truncate(cut);
        let _ = (Request::of(&frame), Answer::of(&frame));
    }
}

#[test]
fn a_durability_that_is_none_is_refused() {
    let mut wire = BytesMut::new();
    let ballot = Version { timestamp: 1, node: 0 };
    let prepare = Request::Prepare { key: Bytes::from_static(b"key"), ballot, durability: None };
    prepare.put(&mut wire, 1);
    let mut frame = take_frame(&mut wire).expect("a frame").expect("a whole one");
    for byte in 0..=u8::MAX {
        let mut body = BytesMut::from(&frame.body[..]);
        body[0] = byte;
        frame.body = body.freeze();
        assert_eq!(Request::of(&frame).is_ok(), byte < 4, "{byte}");
    }
}

/// With a plain write of what it is based on in the same commit, the store was given an older cell for a newer one: that commit panicked,
/// and the node refused writes until it was restarted.
#[test]
fn a_cell_that_takes_the_place_of_a_newer_one_is_refused() {
    let version = |timestamp| Some(Version { timestamp, node: 1 });
    let stamp = Stamp::new(Version { timestamp: 5, node: 1 });
    let is_taken = |had, newest| {
        let (base, key) = (Base { had, newest, met: Vec::new() }, Bytes::from_static(b"key"));
        let small =
            Request::Accept { key: key.clone(), stamp, base: base.clone(), value: None, durability: None };
        let large = Request::AcceptUpload { stream: 1, stamp, base, key, durability: None };
        let taken = [small, large].map(|request| {
            let mut out = BytesMut::new();
            request.put(&mut out, 1);
            Request::of(&take_frame(&mut out).expect("a frame").expect("all of it")).is_ok()
        });
        assert_eq!(taken[0], taken[1]);
        taken[0]
    };
    assert!(is_taken(None, None) && is_taken(None, version(4)) && is_taken(version(4), version(4)));
    assert!(!is_taken(version(4), version(3)));
    assert!(!is_taken(version(6), version(7)) && !is_taken(None, version(6)) && !is_taken(None, version(5)));
}
