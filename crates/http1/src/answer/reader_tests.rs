use proptest::prelude::*;

use super::*;
use crate::answer::HEADERS_MAX;

/// An answer as it was read: its headers, its body in chunks (one if it has none), and how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Read {
    interim: usize,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    chunks: Vec<Vec<u8>>,
    rest: Vec<u8>,
    answer: Option<Answer>,
}

/// Feeds the bytes in pieces of `piece` and returns what was read.
fn read(bytes: &[u8], piece: usize, asked: Asked) -> Result<Vec<Read>, Malformed> {
    let mut reader = Reader::default();
    let (mut found, mut now) = (Vec::new(), Read::default());
    for part in bytes.chunks(piece) {
        let mut at = 0;
        loop {
            let (taken, event) = reader.next(&part[at..], asked)?;
            at += taken;
            match event {
                Event::More => break,
                Event::Interim(_) => now.interim += 1,
                Event::Head(head) => {
                    now.headers =
                        head.headers().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                }
                Event::Body(bytes) => now.rest.extend_from_slice(bytes),
                Event::ChunkEnd => now.chunks.push(std::mem::take(&mut now.rest)),
                Event::End(answer) => {
                    now.answer = Some(answer);
                    found.push(std::mem::take(&mut now));
                }
            }
        }
        assert_eq!(at, part.len(), "it wants more, and took all");
    }
    if let Some(answer) = reader.end_of_input() {
        now.answer = Some(answer);
        found.push(now);
    }
    Ok(found)
}

fn answers(bytes: &[u8], piece: usize, asked: Asked) -> Result<Vec<Answer>, Malformed> {
    read(bytes, piece, asked).map(|all| all.into_iter().filter_map(|one| one.answer).collect())
}

const KEPT: Answer = Answer { status: 200, keep_alive: true };

#[test]
fn answers_end_where_their_headers_say() {
    let sized = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello";
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n";
    let empty = b"HTTP/1.1 204 No Content\r\n\r\n";
    let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";
    let all = [&sized[..], chunked, empty, interim, sized].concat();
    let expected = [KEPT, KEPT, Answer { status: 204, ..KEPT }, Answer { status: 201, ..KEPT }, KEPT];
    for piece in [1, 2, 3, 7, 64, 4096] {
        let read = read(&all, piece, Asked::Ordinary).expect("well-formed");
        let ends: Vec<_> = read.iter().filter_map(|one| one.answer).collect();
        assert_eq!(ends, expected, "in pieces of {piece}");
        assert_eq!(read[0].headers[0], (b"Date".to_vec(), b"x".to_vec()));
        assert_eq!(read[0].rest, b"hello");
        assert_eq!(read[1].chunks, [b"hello".to_vec(), b"0123456789".to_vec()]);
        assert_eq!(read[3].interim, 2);
    }
}

#[test]
fn closing_is_noticed() {
    let closed = Answer { keep_alive: false, ..KEPT };
    let of = |bytes: &[u8]| answers(bytes, 4096, Asked::Ordinary).expect("well-formed");
    assert_eq!(of(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), [closed]);
    assert_eq!(of(b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n"), [closed]);
    assert_eq!(of(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), [closed]);
    assert_eq!(of(b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n"), [KEPT]);
    assert_eq!(of(b"HTTP/1.1 200 OK\r\n\r\nuntil the end"), [closed]);
    assert_eq!(
        of(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
        [],
        "an answer that broke off is none"
    );
}

#[test]
fn the_request_decides_too() {
    let two = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(answers(two, 4096, Asked::Head), Ok(vec![KEPT, KEPT]));
    let switched = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n\x01\x02";
    assert_eq!(answers(switched, 4096, Asked::Ordinary), Err(Malformed::Upgrade));
    let mut reader = Reader::default();
    let (taken, event) = reader.next(switched, Asked::Upgrade).expect("well-formed");
    assert!(matches!(event, Event::Head(head) if head.header("upgrade") == Some(b"x")), "{event:?}");
    let end = reader.next(&switched[taken..], Asked::Upgrade).expect("well-formed");
    assert_eq!((taken + 2, end), (switched.len(), (0, Event::End(Answer { status: 101, ..KEPT }))));
}

#[test]
fn nonsense_is_malformed() {
    let cases: [&[u8]; 23] = [
        b"hello\r\n",
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/2 200\r\n",
        b"HTTP/1.1 2x0 OK\r\n",
        b"HTTP/1.1 2000 OK\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;x\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: 1\n\r\n",
    ];
    for case in cases {
        let text = String::from_utf8_lossy(case);
        assert!(answers(case, 4096, Asked::Ordinary).is_err(), "{text}");
        assert!(answers(case, 1, Asked::Ordinary).is_err(), "byte by byte: {text}");
    }
}

#[test]
fn everything_that_a_server_could_make_long_has_a_bound() {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let cases: [(&[u8], Vec<u8>); 5] = [
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n".repeat(20_000)),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y".repeat(HEAD_BYTES_MAX)),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n".repeat(INTERIM_MAX as usize + 1)),
        (&[&head[..], b"1;"].concat(), b"x".repeat(CHUNK_LINE_BYTES_MAX)),
        (&[&head[..], b"0\r\n"].concat(), b"X: y\r\n".repeat(20_000)),
    ];
    for (start, more) in &cases {
        let bytes = [start, &more[..]].concat();
        for piece in [bytes.len(), 1000, 1] {
            let found = answers(&bytes, piece, Asked::Ordinary);
            assert!(found.is_err(), "{}... in pieces of {piece}", String::from_utf8_lossy(start));
        }
    }
    let many = ["HTTP/1.1 204 A\r\n", &"X: y\r\n".repeat(HEADERS_MAX), "\r\n"].concat();
    assert!(answers(many.as_bytes(), 4096, Asked::Ordinary).is_ok(), "as many as there may be");
}

#[test]
fn it_starts_anew_after_an_answer_that_broke_off() {
    for broken in
        ["HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", "HTTP/1.1 100 A\r\n\r\nHTTP/"]
    {
        let mut reader = Reader::default();
        let mut rest = broken.as_bytes();
        while !rest.is_empty() {
            let (taken, _) = reader.next(rest, Asked::Ordinary).expect("well-formed so far");
            rest = &rest[taken..];
        }
        reader.reset();
        let (_, event) =
            reader.next(b"HTTP/1.1 204 No Content\r\n\r\n", Asked::Ordinary).expect("well-formed");
        assert!(matches!(event, Event::Head(head) if head.status == 204), "{broken:?}: {event:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_stand_still(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 1_usize..40) {
        let _ = answers(&bytes, cut, Asked::Ordinary);
        let with_head = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &bytes[..]].concat();
        let _ = answers(&with_head, cut, Asked::Ordinary);
    }

    #[test]
    fn cuts_do_not_matter(bodies in proptest::collection::vec(0_usize..50, 1..5), cut in 1_usize..80) {
        let bytes: Vec<u8> = bodies.iter().flat_map(|length| {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", "x".repeat(*length)).into_bytes()
        }).collect();
        prop_assert_eq!(answers(&bytes, cut, Asked::Ordinary), Ok(vec![KEPT; bodies.len()]));
    }
}
