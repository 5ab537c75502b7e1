//! Streams of requests: valid ones, and ones that two readers may parse differently.

/// What must never be seen.
const SMUGGLED: &str = "DELETE /v0/entity?id=victim HTTP/1.1\r\nHost: h\r\n\r\n";

/// Streams, and how many requests are in them.
pub(crate) const VALID: [(&str, usize); 16] = [
    ("", 0),
    ("\r\n\n\r\n", 0),
    ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 1),
    ("GET / HTTP/1.1\nHost: h\n\n", 1),
    ("\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n\r\n\nHEAD /b HTTP/1.1\r\nHost: h\r\n\r\n", 2),
    ("GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n", 1),
    ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n", 2),
    ("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 1),
    ("PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nvalueGET / HTTP/1.1\r\nHost: h\r\n\r\n", 2),
    ("PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 2),
    (
        "PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: 005\r\nExpect: 100-continue\r\n\r\nvalueGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        2,
    ),
    (
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nvalue\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        2,
    ),
    (
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nvalue\r\n00\r\nX: y\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        2,
    ),
    ("GET http://h:1/a?b HTTP/1.1\r\nHost: h\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 2),
    ("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 2),
    (
        "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        2,
    ),
];

/// Header fields behind which a request is hidden in what may be taken for a body.
pub(crate) const SMUGGLING_FIELDS: [&str; 30] = [
    "Host: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n",
    "Host: h\r\nContent-Length: 5\r\nContent-Length: 0\r\n",
    "Host: h\r\nContent-Length: 5, 5\r\n",
    "Host: h\r\nContent-Length: +5\r\n",
    "Host: h\r\nContent-Length: -5\r\n",
    "Host: h\r\nContent-Length: 0x5\r\n",
    "Host: h\r\nContent-Length: 5 5\r\n",
    "Host: h\r\nContent-Length:\r\n",
    "Host: h\r\nContent-Length : 5\r\n",
    "Host: h\r\nContent-Length\t: 5\r\n",
    "Host: h\r\n Content-Length: 5\r\n",
    "Host: h\r\nX: y\r\n Content-Length: 5\r\n",
    "Host: h\r\nX: y\rContent-Length: 5\r\n",
    "Host: h\r\nContent-Length: 18446744073709551616\r\n",
    "Host: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "Host: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n",
    "Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "Host: h\r\nTransfer-Encoding: chunked, identity\r\n",
    "Host: h\r\nTransfer-Encoding: identity, chunked\r\n",
    "Host: h\r\nTransfer-Encoding: xchunked\r\n",
    "Host: h\r\nTransfer-Encoding: chunkedx\r\n",
    "Host: h\r\nTransfer-Encoding: \"chunked\"\r\n",
    "Host: h\r\nTransfer-Encoding: chunked;a\r\n",
    "Host: h\r\nTransfer-Encoding: \u{b}chunked\r\n",
    "Host: h\r\nTransfer-Encoding : chunked\r\n",
    "Host: h\r\nTransfer-Encoding\r\n",
    "Host: h\r\nTransfer\0-Encoding: chunked\r\n",
    "Content-Length: 5\r\n",
    "Host: h\r\nHost: h\r\nContent-Length: 5\r\n",
    "Host: a b\r\nContent-Length: 5\r\n",
];

/// Chunked bodies that are none.
pub(crate) const SMUGGLING_CHUNKS: [&str; 14] = [
    "5\nvalue\n0\n\n",
    "5\r\nvalue\n0\r\n\r\n",
    "5 \r\nvalue\r\n0\r\n\r\n",
    "5;a\nvalue\r\n0\r\n\r\n",
    "5;a\rb\r\nvalue\r\n0\r\n\r\n",
    "0x5\r\nvalue\r\n0\r\n\r\n",
    "+5\r\nvalue\r\n0\r\n\r\n",
    "10000000000000005\r\nvalue\r\n0\r\n\r\n",
    "-1\r\nvalue\r\n0\r\n\r\n",
    "5\r\nvalue0\r\n\r\n",
    "5\r\nvalues\r\n0\r\n\r\n",
    "0\r\nX: y\n\r\n",
    "0\r\nno trailer\r\n\r\n",
    "\r\n5\r\nvalue\r\n0\r\n\r\n",
];

/// Every stream there is.
pub(crate) fn streams() -> Vec<Vec<u8>> {
    let valid = VALID.iter().map(|(stream, _)| (*stream).to_owned());
    let fields = SMUGGLING_FIELDS.iter().flat_map(|fields| {
        ["value", "0\r\n\r\n", ""].map(|body| format!("POST /k HTTP/1.1\r\n{fields}\r\n{body}{SMUGGLED}"))
    });
    let old = SMUGGLING_FIELDS.iter().map(|fields| format!("POST /k HTTP/1.0\r\n{fields}\r\n{SMUGGLED}"));
    let head = "POST /k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = SMUGGLING_CHUNKS.iter().map(|chunks| format!("{head}{chunks}{SMUGGLED}"));
    valid.chain(fields).chain(old).chain(chunks).map(String::into_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::super::oracle::compare;
    use super::super::reading::{End, read};
    use super::*;

    #[test]
    fn valid_requests_are_seen() {
        for (stream, count) in VALID {
            let (seen, _) = read([stream.as_bytes()]);
            assert_eq!(seen.len(), count, "{stream:?}: {seen:?}");
        }
    }

    #[test]
    fn nothing_is_smuggled() {
        for stream in streams() {
            let (seen, end) = read([&*stream]);
            let is_smuggled = seen.iter().any(|request| request.method == "DELETE");
            assert!(!is_smuggled, "{}: {seen:?}, {end:?}", stream.escape_ascii());
        }
        for fields in SMUGGLING_FIELDS {
            let stream = format!("POST /k HTTP/1.1\r\n{fields}\r\nvalue{SMUGGLED}");
            let (seen, end) = read([stream.as_bytes()]);
            assert!(seen.is_empty() && matches!(end, End::Request(_)), "{fields:?}: {seen:?}, {end:?}");
        }
    }

    #[test]
    fn hyper_sees_no_fewer_requests() {
        streams().iter().for_each(|stream| compare(stream));
    }
}
