use proptest::prelude::*;

use super::*;

/// Feeds the bytes in pieces of `piece` and returns the answers.
fn answers(bytes: &[u8], piece: usize, is_head: bool) -> Result<Vec<Answer>, Malformed> {
    let mut parser = ResponseParser::new(false);
    let mut found = Vec::new();
    for part in bytes.chunks(piece) {
        let mut at = 0;
        while at < part.len() {
            let (taken, answer) = parser.advance(&part[at..], is_head)?;
            at += taken;
            found.extend(answer);
        }
    }
    found.extend(parser.end_of_input());
    Ok(found)
}

const KEPT: Answer = Answer { status: 200, keep_alive: true };

#[test]
fn answers_end_where_their_headers_say() {
    let sized = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello";
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n";
    let empty = b"HTTP/1.1 204 No Content\r\n\r\n";
    let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";
    let all = [&sized[..], chunked, empty, interim, sized].concat();
    let expected = [KEPT, KEPT, Answer { status: 204, ..KEPT }, Answer { status: 201, ..KEPT }, KEPT];
    for piece in [1, 2, 3, 7, 64, 4096] {
        assert_eq!(answers(&all, piece, false).as_deref(), Ok(&expected[..]), "in pieces of {piece}");
    }
}

#[test]
fn closing_is_noticed() {
    let closed = Answer { keep_alive: false, ..KEPT };
    let of = |bytes: &[u8]| answers(bytes, 4096, false).unwrap();
    assert_eq!(of(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), [closed]);
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
fn an_answer_to_head_has_no_body() {
    let two = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(answers(two, 4096, true), Ok(vec![KEPT, KEPT]));
}

#[test]
fn nonsense_is_malformed() {
    let cases: [&[u8]; 10] = [
        b"hello\r\n",
        b"HTTP/2 200\r\n",
        b"HTTP/1.1 2x0 OK\r\n",
        b"HTTP/1.1 2000 OK\r\n",
        b"HTTP/1.1 099 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    ];
    for case in cases {
        assert_eq!(answers(case, 4096, false), Err(Malformed), "{}", String::from_utf8_lossy(case));
    }
    let endless = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"X: y\r\n".repeat(20_000)].concat();
    assert_eq!(answers(&endless, 1000, false), Err(Malformed));
    assert_eq!(answers(&b"x".repeat(100_000), 1, false), Err(Malformed), "no newline at all");
}

#[test]
fn what_a_script_wants_to_see_is_captured() {
    let mut parser = ResponseParser::new(true);
    let bytes =
        b"HTTP/1.1 200 OK\r\nX-A:  b \r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    for round in 0..2 {
        assert_eq!(parser.advance(bytes, false), Ok((bytes.len(), Some(KEPT))), "round {round}");
        let captured = parser.captured().unwrap();
        assert_eq!(captured.body, b"hello");
        assert_eq!(captured.headers[0], (b"X-A".to_vec(), b"b".to_vec()));
        assert_eq!(captured.headers.len(), 2);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_stand_still(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 1_usize..40) {
        let _ = answers(&bytes, cut, false);
        let with_head = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &bytes[..]].concat();
        let _ = answers(&with_head, cut, false);
    }

    #[test]
    fn cuts_do_not_matter(bodies in proptest::collection::vec(0_usize..50, 1..5), cut in 1_usize..80) {
        let bytes: Vec<u8> = bodies.iter().flat_map(|length| {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", "x".repeat(*length)).into_bytes()
        }).collect();
        prop_assert_eq!(answers(&bytes, cut, false), Ok(vec![KEPT; bodies.len()]));
    }
}
