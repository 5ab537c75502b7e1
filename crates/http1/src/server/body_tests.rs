use super::*;

/// The bytes of a body, and the bytes after it, if the input arrives in pieces of so many bytes.
fn read(length: BodyLength, bytes: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>), BadBody> {
    let (mut body, mut input, mut read) = (Body::of(length), BytesMut::new(), Vec::new());
    let mut arriving = bytes.chunks(step);
    loop {
        match body.next(&mut input)? {
            Some(Piece::Bytes(piece)) => {
                assert!(!piece.is_empty());
                read.extend_from_slice(&piece);
            }
            Some(Piece::End) => {
                assert!(body.is_over());
                return Ok((
                    read,
                    [&input, arriving.flatten().copied().collect::<Vec<_>>().as_slice()].concat(),
                ));
            }
            None => input.extend_from_slice(arriving.next().ok_or(BadBody::Incomplete)?),
        }
    }
}

fn chunked(bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), BadBody> {
    let whole = read(BodyLength::Chunked, bytes, usize::MAX);
    for step in 1..=bytes.len().min(9) {
        assert_eq!(
            read(BodyLength::Chunked, bytes, step),
            whole,
            "{} in steps of {step}",
            bytes.escape_ascii()
        );
    }
    whole
}

#[test]
fn a_body_ends_where_its_length_says() {
    for step in [1, 3, 100] {
        assert_eq!(read(BodyLength::Known(5), b"valueGET", step), Ok((b"value".to_vec(), b"GET".to_vec())));
        assert_eq!(read(BodyLength::Known(6), b"value", step), Err(BadBody::Incomplete));
        assert_eq!(read(BodyLength::Unsaid, b"GET", step), Ok((Vec::new(), b"GET".to_vec())));
    }
}

#[test]
fn a_short_body_is_one_piece_and_a_long_one_is_what_has_arrived() {
    let mut input = BytesMut::from("abc");
    let mut short = Body::Known(WHOLE_BYTES_MAX);
    assert_eq!(short.next(&mut input), Ok(None));
    let mut arrived = short;
    let part = Piece::Bytes(Bytes::from_static(b"abc"));
    assert_eq!(arrived.next_arrived(&mut input.clone()), Ok(Some(part)), "unless that is asked for");
    let mut long = Body::Known(WHOLE_BYTES_MAX + 1);
    assert_eq!(long.next(&mut input), Ok(Some(Piece::Bytes(Bytes::from_static(b"abc")))));
    assert_eq!(long, Body::Known(WHOLE_BYTES_MAX - 2));
}

#[test]
fn chunks_are_put_together() {
    let expected = Ok((b"valuevalue and more".to_vec(), b"GET".to_vec()));
    for bytes in [
        &b"5\r\nvalue\r\n0e\r\nvalue and more\r\n0\r\n\r\nGET"[..],
        b"005;a=b\r\nvalue\r\nE ; c=\"d\"\r\nvalue and more\r\n000\r\nTrailer: x\r\nOther: y\r\n\r\nGET",
    ] {
        assert_eq!(chunked(bytes), expected);
    }
    assert_eq!(chunked(b"0\r\n\r\n"), Ok((Vec::new(), Vec::new())));
}

#[test]
fn malformed_chunks_are_refused() {
    for (bytes, error) in [
        (&b"zz\r\n"[..], BadBody::Size),
        (b"\r\n", BadBody::Size),
        (b" 5\r\nvalue\r\n", BadBody::Size),
        (b"-5\r\n", BadBody::Size),
        (b"0x5\r\nvalue\r\n", BadBody::Size),
        (b"5\nvalue\r\n", BadBody::Size),
        (b"00000000000000005\r\nvalue\r\n", BadBody::Size),
        (b"5 \r\nvalue\r\n", BadBody::Extra),
        (b"5 5\r\nvalue\r\n", BadBody::Extra),
        (b"5;a\nvalue\r\n", BadBody::Extra),
        (b"5;a\rb\r\nvalue\r\n", BadBody::Extra),
        (b"5;\0\r\nvalue\r\n", BadBody::Extra),
        (b"5 \n;a\r\nvalue\r\n", BadBody::Extra),
        (b"5\rvalue\r\n", BadBody::Extra),
        (b"5\r\nvalueX\r\n", BadBody::End),
        (b"5\r\nvalue\n0\r\n\r\n", BadBody::End),
        (b"5\r\nvalue0\r\n\r\n", BadBody::End),
        (b"0\r\nno trailer\r\n\r\n", BadBody::Extra),
        (b"0\r\nX : y\r\n\r\n", BadBody::Extra),
        (b"0\r\nX: y\n\r\n", BadBody::Extra),
        (b"0\r\n\n", BadBody::Extra),
        (b"ffffffffffffffff\r\nvalue", BadBody::Incomplete),
        (b"5\r\nval", BadBody::Incomplete),
        (b"5\r\nvalue\r\n", BadBody::Incomplete),
        (b"0\r\n", BadBody::Incomplete),
        (b"0\r\nX: y\r\n", BadBody::Incomplete),
    ] {
        assert_eq!(chunked(bytes), Err(error), "{}", bytes.escape_ascii());
    }
}

#[test]
fn extensions_and_trailers_are_bounded_together() {
    let extension = "e".repeat(EXTRA_BYTES_MAX / 4 - 1);
    let chunk = format!("1;{extension}\r\nx\r\n");
    let read_all = |bytes: &str, step| read(BodyLength::Chunked, bytes.as_bytes(), step);
    for step in [1_000, usize::MAX] {
        assert!(read_all(&format!("{}0\r\n\r\n", chunk.repeat(4)), step).is_ok());
        assert_eq!(read_all(&format!("{}1;e\r\nx\r\n", chunk.repeat(4)), step), Err(BadBody::Extra));
        let trailer = format!("X: {}\r\n", "y".repeat(EXTRA_BYTES_MAX / 4));
        assert_eq!(read_all(&format!("{}0\r\n{trailer}\r\n", chunk.repeat(3)), step), Err(BadBody::Extra));
        assert!(read_all(&format!("{}0\r\n{trailer}\r\n", chunk.repeat(2)), step).is_ok());
        assert_eq!(read_all(&format!("0\r\n{}\r\n", "X: y\r\n".repeat(65)), step), Err(BadBody::Extra));
        assert_eq!(read_all(&format!("5;{}", "e".repeat(EXTRA_BYTES_MAX)), step), Err(BadBody::Incomplete));
        assert_eq!(read_all(&format!("5;{}", "e".repeat(EXTRA_BYTES_MAX + 1)), step), Err(BadBody::Extra));
    }
}
