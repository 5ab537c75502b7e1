use bytes::BytesMut;
use ladoga_resp::{Parser, ParserLimits, Piece, ProtocolError, Step};
use proptest::prelude::*;

use super::corpus::streams;
use super::reading::{LIMITS, Seen, read};

#[test]
fn a_cut_makes_no_difference() {
    for stream in streams() {
        let whole = read([&stream[..]]);
        for step in [1, 2, 3, 7, 64] {
            assert_eq!(read(stream.chunks(step)), whole, "{} by {step}", stream.escape_ascii());
        }
        for at in 0..stream.len().min(300) {
            let (one, other) = stream.split_at(at);
            assert_eq!(read([one, other]), whole, "{} at {at}", stream.escape_ascii());
        }
    }
}

#[test]
fn what_is_no_request_is_told_in_the_words_of_redis() {
    let long = vec![b'1'; 70_000];
    for (bytes, words) in [
        (&b"*1\r\n+OK\r\n"[..], "Protocol error: expected '$', got '+'"),
        (b"*-\r\n", "Protocol error: invalid multibulk length"),
        (b"*1001\r\n", "Protocol error: invalid multibulk length"),
        (b"*1\r\n$4097\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n$ 1\r\n", "Protocol error: invalid bulk length"),
        (b"SET a \0b\r\n", "Protocol error: zero byte in inline request"),
        (
            b"\x16\x03\x01\nSET a b\r\n",
            "Protocol error: expected a request of Redis, got a TLS handshake; this port does not speak TLS",
        ),
        (b"'a\r\n", "Protocol error: unbalanced quotes in request"),
        (&long, "Protocol error: too big inline request"),
        (&[b"*", &long[..]].concat(), "Protocol error: too big mbulk count string"),
        (&[b"*1\r\n$", &long[..]].concat(), "Protocol error: too big bulk count string"),
    ] {
        let (seen, error) = read([bytes]);
        assert!(seen.is_empty());
        assert_eq!(error.as_ref().map(ProtocolError::to_string).as_deref(), Some(words));
    }
}

/// One that arrived at once with its end could be as long as a read.
/// Whoever connected before the store was open did not know what is large.
#[test]
fn what_is_large_may_be_known_later() {
    let limits = ParserLimits { large_bytes_min: u64::MAX, ..LIMITS };
    let (mut parser, mut input) = (Parser::new(limits), BytesMut::from("*2\r\n$3\r\nSET\r\n$600\r\nvv"));
    assert!(matches!(parser.next(&mut input), Ok(Step::Incomplete { bytes: 600.. })));
    parser.limits_mut().large_bytes_min = 600;
    assert_eq!(parser.next(&mut input), Ok(Step::Large { bytes: 600 }));
    parser.stream(&mut input);
    assert_eq!(parser.next_piece(&mut input), Piece::Bytes("vv".into()));
}

#[test]
fn a_line_is_bounded_however_it_is_cut() {
    const LINE_BYTES_MAX: usize = 64 << 10;
    let spaces = |bytes: usize| vec![b' '; bytes];
    let fits = [&b"PING"[..], &spaces(LINE_BYTES_MAX - 4), b"\n"].concat();
    let inline = [&b"PING"[..], &spaces(LINE_BYTES_MAX - 3), b"\n"].concat();
    let count = [&b"*"[..], &vec![b'0'; LINE_BYTES_MAX], b"\r\n"].concat();
    let length = [&b"*1\r\n$"[..], &vec![b'0'; LINE_BYTES_MAX], b"\r\n"].concat();
    for step in [1_000, usize::MAX] {
        assert_eq!(read(fits.chunks(step)), (vec![vec![b"PING".to_vec()]], None));
        for (bytes, error) in [
            (&inline, ProtocolError::InlineTooBig),
            (&count, ProtocolError::CountTooBig),
            (&length, ProtocolError::LengthTooBig),
        ] {
            assert_eq!(read(bytes.chunks(step)), (vec![], Some(error)), "by {step}");
        }
    }
}

fn encoded(requests: &[Seen]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.extend(format!("*{}\r\n", request.len()).into_bytes());
        for argument in request {
            bytes.extend(format!("${}\r\n", argument.len()).into_bytes());
            bytes.extend_from_slice(argument);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

proptest! {
    #[test]
    fn requests_are_seen_as_they_were_sent(
        requests in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 1..12), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let bytes = encoded(&requests);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let (seen, error) = read(cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]));
        prop_assert_eq!(error, None);
        prop_assert_eq!(seen, requests);
    }

    #[test]
    fn any_bytes_are_understood_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let whole = read([&bytes[..]]);
        prop_assert_eq!(read(bytes.chunks(1)), whole);
    }
}
