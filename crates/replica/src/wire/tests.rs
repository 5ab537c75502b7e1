use bytes::{Bytes, BytesMut};
use ladoga_cluster::{
    Acquaintance, AsOf, Had, Incarnation, KeyVersion, Memory, NodeList, Origin, Partition, Reach, ReadAnswer,
    Refusal, SentCell, Statement,
};
use ladoga_model::{Cell, CellMark, ClockError, Stamp, Value, Version};
use proptest::prelude::*;

use super::frame::take_frame;
use super::{Answer, Base, Hello, PROTOCOL_VERSION, Request};

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
            version: PROTOCOL_VERSION,
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

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        hello().prop_map(Request::Hello),
        (bytes(1..40), any::<bool>(), origin()).prop_map(|(key, digest, origin)| Request::Read {
            key,
            digest,
            origin
        }),
        (bytes(1..40), stamp(), proptest::option::of(bytes(0..99)), origin(), any::<bool>()).prop_map(
            |(key, stamp, value, origin, is_again)| Request::Write { key, stamp, value, origin, is_again }
        ),
        (bytes(1..40), version()).prop_map(|(key, version)| Request::OpenValue { key, version }),
        (bytes(0..40), bytes(0..40), any::<[bool; 2]>()).prop_map(
            |(start, end, [is_reverse, has_values])| {
                Request::OpenCells { start, end, is_reverse, has_values }
            }
        ),
        any::<u32>().prop_map(|stream| Request::Next { stream }),
        any::<u32>().prop_map(|stream| Request::Close { stream }),
        Just(Request::Upload),
        (any::<u32>(), bytes(0..99)).prop_map(|(stream, bytes)| Request::Push { stream, bytes }),
        (any::<u32>(), stamp(), bytes(1..40)).prop_map(|(stream, stamp, key)| Request::Finish {
            stream,
            stamp,
            key,
            origin: Origin::Exchange
        }),
        statement().prop_map(Request::Statement),
        slice().prop_map(Request::Groups),
        (slice(), proptest::collection::vec(any::<u8>(), 0..32))
            .prop_map(|(slice, groups)| Request::Leaves { slice, groups }),
        (slice(), proptest::collection::vec(any::<u16>().prop_map(Partition), 0..9), bytes(0..40))
            .prop_map(|(slice, partitions, after)| Request::List { slice, partitions, after }),
        (bytes(1..40), version()).prop_map(|(key, ballot)| Request::Prepare { key, ballot }),
        (bytes(1..40), stamp(), base(), proptest::option::of(bytes(0..99)))
            .prop_map(|(key, stamp, base, value)| Request::Accept { key, stamp, base, value }),
        (any::<u32>(), stamp(), base(), bytes(1..40))
            .prop_map(|(stream, stamp, base, key)| Request::AcceptUpload { stream, stamp, base, key }),
        (bytes(1..40), version()).prop_map(|(key, ballot)| Request::Release { key, ballot }),
    ]
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
    ]
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
