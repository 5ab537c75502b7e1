//! A command line that would do something else than it says is refused; one that wrk takes is not.

use crate::command::bench;
use crate::server::{Manner, Server};

#[test]
fn what_would_be_ignored_is_refused() {
    for (line, reason) in [
        ("--workload get http://127.0.0.1:1/v0/status", "/v0/status of the URL is not used"),
        ("--json same --html ./same http://127.0.0.1:1", "--json and --html are the same file, same"),
        ("http://user:password@127.0.0.1:1", "would not be sent"),
    ] {
        let ran = bench(line);
        assert_eq!((ran.code, &*ran.out), (2, ""), "{line}: {ran:?}");
        assert!(ran.err.contains(reason), "{line}: {}", ran.err);
    }
}

/// The fields of `-H` may be what lets a request in: `--fill` left them out, and said nothing but the status.
#[test]
fn a_fill_that_is_refused_says_what_to_do() {
    let server = Server::start(Manner::Answer(401));
    let fill = format!("-t1 -c1 -d1h --workload get --keys 10 --fill {}", server.url());
    let ran = bench(&fill);
    assert_eq!((ran.code, &*ran.out), (1, ""), "{ran:?}");
    assert!(ran.err.contains(": 10 keys (key0 to key9) with short values"), "{}", ran.err);
    assert!(ran.err.contains(" was answered with 401: the server asks for a token"), "{}", ran.err);
    assert!(ran.err.contains("--token-file FILE or in LADOGA_TOKEN"), "{}", ran.err);
    let ran = bench(&format!("-H Authorization:Basic {fill}"));
    assert!(ran.err.contains(" does not accept the token that it was shown"), "{}", ran.err);
    assert!(server.last_request().contains("\r\nAuthorization: Basic\r\n"), "{}", server.last_request());
}

#[test]
fn what_wrk_takes_is_taken() {
    let server = Server::start(Manner::Answer(200));
    let ran = bench(&format!("-t1 -c1 -d1s -R 100 {}/some/path?of=it and more", server.url()));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("arguments after the URL are ignored without a script (-s)"), "{}", ran.err);
    assert!(server.last_request().starts_with("GET /some/path?of=it "), "{}", server.last_request());
}
