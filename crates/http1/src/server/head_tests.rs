use super::*;

const LIMITS: HeadLimits = HeadLimits { line_bytes_max: 200, fields_bytes_max: 400 };

fn take(bytes: &[u8]) -> Result<Option<Request>, BadRequest> {
    take_request(&mut BytesMut::from(bytes), &mut 0, LIMITS, false)
}

fn request(fields: &str) -> Result<Request, BadRequest> {
    let taken = take(format!("PUT /v0/entity?id=k HTTP/1.1\r\n{fields}\r\n").as_bytes());
    taken.map(|request| request.expect("a whole head"))
}

#[test]
fn who_asks_is_found_wherever_it_stands() {
    let asked =
        request("x-authorization: no\r\nHOST: h:1\r\nAuthorization:  Bearer t \r\n").expect("a request");
    assert_eq!((asked.host(), asked.authorization()), (&b"h:1"[..], Some(&b"Bearer t"[..])));
    assert!(!asked.may_be_of_a_page());
    let nobody = request("Host: h\r\n").expect("a request");
    assert_eq!((nobody.authorization(), nobody.may_be_of_a_page()), (None, false));
    let twice = request("Host: h\r\nauthorization: a\r\nauthorization: b\r\nauthorization: c\r\n");
    assert_eq!(twice.expect("a request").authorization(), Some(&b""[..]));
    for field in ["origin: null", "Sec-Fetch-Site: none"] {
        assert!(
            request(&format!("Host: h\r\n{field}\r\n")).expect("a request").may_be_of_a_page(),
            "{field}"
        );
    }
    let old = take(b"GET / HTTP/1.0\r\n\r\n").expect("a request").expect("a whole head");
    assert_eq!(old.host(), b"");
}

#[test]
fn a_head_is_taken_and_what_is_behind_it_stays() {
    let mut input = BytesMut::from("\r\n\nGET /a?b=c HTTP/1.1\r\nHost: h\r\nX-Y:  1 \r\nx-y: 2\r\n\r\nGET /");
    let request = take_request(&mut input, &mut 0, LIMITS, false).expect("a request").expect("a whole head");
    assert_eq!((request.method.as_str(), request.path(), request.query()), ("GET", &b"/a"[..], &b"b=c"[..]));
    assert_eq!((request.version, request.body), (Version::HTTP_11, BodyLength::Unsaid));
    assert!(request.keeps_alive && !request.expects_continue);
    assert!(request.fields("X-y").eq([b"1", b"2"]));
    assert_eq!(request.fields("z").next(), None);
    assert_eq!(input, "GET /");
}

#[test]
fn a_part_of_a_head_is_waited_for() {
    let whole = b"\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    for length in 0..whole.len() {
        assert!(take(&whole[..length]).expect("no error").is_none(), "{length} bytes");
    }
    let mut input = BytesMut::from("\r\n\n\r\n");
    assert!(!begins(&mut input));
    assert_eq!(input, "", "empty lines are no part of a head");
    let mut input = BytesMut::from("\n\r");
    assert!(!begins(&mut input));
    assert_eq!(input, "\r", "it may be the end of an empty line");
}

#[test]
fn line_and_fields_have_a_limit_each() {
    let sized = |line: usize, fields: usize| {
        let line = format!("GET /{} HTTP/1.1\r\n", "k".repeat(line - "GET / HTTP/1.1\r\n".len()));
        let host = "Host: h\r\nX: \r\n";
        format!("{line}Host: h\r\nX: {}\r\n\r\n", "v".repeat(fields - host.len()))
    };
    assert!(take(sized(200, 400).as_bytes()).expect("within the limits").is_some());
    for (line, fields) in [(201, 100), (100, 401), (100, 5_000), (5_000, 100)] {
        let whole = sized(line, fields);
        for length in [whole.len(), whole.len() - 1, 700] {
            let part = &whole.as_bytes()[..length.min(whole.len())];
            assert_eq!(
                take(part).expect_err("too large"),
                BadRequest::TooLarge,
                "{line} and {fields}: {length}"
            );
        }
    }
    let many = "a:\n".repeat(LIMITS.fields_bytes_max / 3 - 3);
    assert!(
        take(format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n").as_bytes()).expect("many fields").is_some()
    );
}

#[test]
fn limits_do_not_depend_on_how_a_head_is_cut() {
    let head = |line: usize, fields: usize| {
        let (line, fields) = ("k".repeat(line), "v".repeat(fields));
        format!("\r\nGET /{line} HTTP/1.1\r\nHost: h\r\nX: {fields}\r\n\r\n")
    };
    for (line, fields, is_taken) in [(150, 350, true), (150, 400, false), (200, 100, false)] {
        let whole = head(line, fields);
        for cut in 0..whole.len() {
            let (first, rest) = whole.as_bytes().split_at(cut);
            let (mut input, mut looked_bytes) = (BytesMut::from(first), 0);
            let part = take_request(&mut input, &mut looked_bytes, LIMITS, false);
            let taken = part.and_then(|part| {
                assert!(part.is_none());
                input.extend_from_slice(rest);
                take_request(&mut input, &mut looked_bytes, LIMITS, false)
            });
            let expected = if is_taken { Ok(true) } else { Err(BadRequest::TooLarge) };
            assert_eq!(taken.map(|taken| taken.is_some()), expected, "{cut} bytes first");
        }
    }
}

#[test]
fn the_length_of_a_body_is_said_once_and_plainly() {
    let body = |fields: &str| request(&format!("Host: h\r\n{fields}")).map(|request| request.body);
    assert_eq!(body(""), Ok(BodyLength::Unsaid));
    assert_eq!(body("Content-Length: 0\r\n"), Ok(BodyLength::Known(0)));
    assert_eq!(body("content-LENGTH:  18446744073709551615 \r\n"), Ok(BodyLength::Known(u64::MAX)));
    assert_eq!(body("Transfer-Encoding: Chunked\r\n"), Ok(BodyLength::Chunked));
    for length in ["", "-1", "+5", "5x", "0x5", "5.0", "5 5", "5, 5", "18446744073709551616"] {
        assert_eq!(body(&format!("Content-Length: {length}\r\n")), Err(BadRequest::Length), "{length}");
    }
    assert_eq!(body("Content-Length: 5\r\nContent-Length: 5\r\n"), Err(BadRequest::Length));
    for coding in [
        "gzip",
        "identity",
        "gzip, chunked",
        "chunked, chunked",
        "xchunked",
        "",
        "chunked\r\nTransfer-Encoding: chunked",
    ] {
        assert_eq!(body(&format!("Transfer-Encoding: {coding}\r\n")), Err(BadRequest::Coding), "{coding}");
    }
    let both = "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n";
    assert_eq!(body(both), Err(BadRequest::TwoLengths));
    let old = take(b"PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(old.expect_err("chunks are of HTTP/1.1"), BadRequest::Coding);
}

#[test]
fn there_is_one_host() {
    for host in ["h", "", "example.org:8080", "[::1]:80", "127.0.0.1", "a_b.c"] {
        assert!(request(&format!("Host: {host}\r\n")).is_ok(), "{host}");
    }
    assert_eq!(request("").expect_err("no host"), BadRequest::Host { found: 0 });
    assert_eq!(request("Host: a\r\nhost: a\r\n").expect_err("two"), BadRequest::Host { found: 2 });
    for host in ["a b", "a/b", "a@b", "a?b", "a#b", "a\\b", "\u{e9}"] {
        assert_eq!(request(&format!("Host: {host}\r\n")).expect_err(host), BadRequest::Host { found: 1 });
    }
    assert!(take(b"GET / HTTP/1.0\r\n\r\n").is_ok());
    assert!(take(b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n").is_err());
}

#[test]
fn a_connection_is_kept_unless_somebody_says_otherwise() {
    let keeps = |version: &str, fields: &str| {
        let taken = take(format!("GET / HTTP/{version}\r\nHost: h\r\n{fields}\r\n").as_bytes());
        taken.expect("a request").expect("a whole head").keeps_alive
    };
    assert!(keeps("1.1", ""));
    assert!(keeps("1.1", "Connection: keep-alive\r\n"));
    assert!(!keeps("1.1", "Connection: x, CLOSE\r\n"));
    assert!(!keeps("1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
    assert!(!keeps("1.0", ""));
    assert!(keeps("1.0", "Connection: Keep-Alive\r\n"));
    assert!(!keeps("1.0", "Connection: Keep-Alive, close\r\n"));
}

#[test]
fn only_new_clients_wait_to_be_told() {
    let expects = |version: &str, value: &str| {
        let taken = take(format!("PUT / HTTP/{version}\r\nHost: h\r\nExpect: {value}\r\n\r\n").as_bytes());
        taken.expect("a request").expect("a whole head").expects_continue
    };
    assert!(expects("1.1", "100-Continue"));
    assert!(!expects("1.1", "200-ok"));
    assert!(!expects("1.0", "100-continue"));
}

#[test]
fn targets_have_their_forms() {
    let target = |target: &str| {
        let taken = take(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
        taken.map(|request| String::from_utf8_lossy(request.expect("a whole head").path()).into_owned())
    };
    assert_eq!(target("http://elsewhere:1/v0/status").as_deref(), Ok("/v0/status"));
    assert_eq!(target("*").as_deref(), Ok("*"));
    assert_eq!(target("elsewhere:80").as_deref(), Ok(""));
    assert_eq!(target("v0/status"), Err(BadRequest::Target));
}

#[test]
fn what_is_no_head_is_refused() {
    for fields in [
        "no colon\r\n",
        ": no name\r\n",
        "X : y\r\n",
        "X y: z\r\n",
        "X: a\0b\r\n",
        "X: a\rb\r\n",
        " X: folded\r\n",
        "X: a\r\n b\r\n",
    ] {
        assert!(matches!(request(&format!("Host: h\r\n{fields}")), Err(BadRequest::Syntax(_))), "{fields:?}");
    }
    for line in [
        "GET",
        "GET  / HTTP/1.1",
        " GET / HTTP/1.1",
        "GET / HTTP/1.2",
        "GET / HTTP/2.0",
        "GET /",
        "G\0T / HTTP/1.1",
    ] {
        assert!(
            matches!(take(format!("{line}\r\nHost: h\r\n\r\n").as_bytes()), Err(BadRequest::Syntax(_))),
            "{line:?}"
        );
    }
    assert!(take(b"\x16\x03\x01").is_err(), "it is not waited for the end of what is no head");
}

/// Most often, what is wrong with a request line is a key that was not encoded.
#[test]
fn who_sends_a_space_in_a_key_is_told_how() {
    let hint = BadRequest::Syntax(httparse::Error::Version).to_string();
    assert!(hint.contains("expected HTTP/1.1, where a space in a key is %20"), "{hint}");
    assert!(!BadRequest::Syntax(httparse::Error::HeaderName).to_string().contains("%20"));
}
