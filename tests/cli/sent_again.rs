use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::support::{Ladoga, Outcome};

/// A server that gives answers, one after the other, and what it was sent.
struct Answering {
    url: String,
    server: JoinHandle<Vec<String>>,
}

impl Answering {
    /// Each answer is a status and a body.
    fn start(answers: &'static [(u16, &'static str)]) -> Answering {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serve = move |(status, body): &(u16, &str)| {
            let (mut stream, _) = listener.accept().expect("a client");
            let request = whole_request(&stream);
            let (content_type, more) = match status {
                200 => ("application/x-ndjson", ""),
                201 => ("text/plain", "ETag: \"0019abcdef012345-0000\"\r\n"),
                _ => ("text/plain", "Retry-After: 0\r\n"),
            };
            let head = format!("HTTP/1.1 {status} Said\r\nContent-Type: {content_type}\r\n{more}");
            let length = body.len();
            write!(stream, "{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
                .expect("a client");
            request
        };
        Answering { url, server: thread::spawn(move || answers.iter().map(serve).collect()) }
    }

    fn import(&self, records: &str) -> Outcome {
        Ladoga::new(["import", "-", "--url", &self.url]).input(records.as_bytes()).run()
    }

    /// What it was sent.
    fn requests(self) -> Vec<String> {
        self.server.join().expect("a client that asks for all of it")
    }
}

/// The body of a request; before it the first word, if that is `PUT`.
fn whole_request(stream: &TcpStream) -> String {
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).expect("a head") > 0, "a whole head");
    }
    let head = head.to_lowercase();
    let mut take = |length: usize| {
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).expect("a body");
        String::from_utf8(bytes).expect("text")
    };
    if let Some((_, rest)) = head.split_once("content-length:") {
        let length = rest.lines().next().and_then(|length| length.trim().parse().ok());
        return format!("PUT {}", take(length.expect("a length")));
    }
    let mut body = String::new();
    loop {
        let mut size = String::new();
        while !size.ends_with("\r\n") {
            size.push_str(&take(1));
        }
        let length = usize::from_str_radix(size.trim(), 16).expect("the length of a chunk");
        body.push_str(&take(length));
        take(2);
        if length == 0 {
            return body;
        }
    }
}

/// The keys and values of a batch.
fn records(body: &str) -> Vec<(String, String)> {
    let of = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| line[name].as_str().expect("text").to_owned();
        (text("key"), text("value"))
    };
    body.lines().map(of).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

const FIVE: &str = "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"2\"}\n{\"key\":\"c\",\"value\":\"3\"}\n\
                    {\"key\":\"b\",\"value\":\"4\"}\n{\"key\":\"d\",\"value\":\"5\"}\n";

/// They were passed over: of a key that was there twice, the older value could be the one that stays.
#[test]
fn records_that_are_refused_for_now_are_sent_again_in_their_order() {
    let server = Answering::start(&[
        (
            200,
            "{\"status\":201}\n{\"status\":503,\"error\":\"busy\"}\n{\"status\":201}\n{\"status\":201}\n{\"status\":429,\"error\":\"slow\"}\n",
        ),
        (429, "a request too many\n"),
        (200, "{\"status\":201}\n"),
        (200, "{\"status\":504}\n{\"status\":201}\n"),
        (200, "{\"status\":201}\n"),
    ]);
    let imported = server.import(FIVE).expect_success();
    assert_eq!(imported.stderr, "5 records stored\n");
    let requests: Vec<_> = server.requests().iter().map(|body| records(body)).collect();
    let all = pairs(&[("a", "1"), ("b", "2"), ("c", "3"), ("b", "4"), ("d", "5")]);
    // The last one of b was stored, and is not to be what was there before it. The rate had room for four, so all three are sent next.
    let (first, last) = (pairs(&[("b", "2")]), pairs(&[("b", "4")]));
    let rest = pairs(&[("b", "4"), ("d", "5")]);
    let again = [&*first, &*rest].concat();
    assert_eq!(requests, [all, again, first, rest, last]);
}

/// It ended the import.
#[test]
fn a_large_record_that_is_refused_for_now_is_sent_again() {
    let server = Answering::start(&[
        (429, "a value too many\n"),
        (503, "busy\n"),
        (201, ""),
        (200, "{\"status\":201}\n"),
    ]);
    let large = "x".repeat(700_000);
    let lines = format!("{{\"key\":\"a\",\"value\":\"{large}\"}}\n{{\"key\":\"a\",\"value\":\"new\"}}\n");
    let imported = server.import(&lines).expect_success();
    assert_eq!(imported.stderr, "2 records stored\n");
    let requests = server.requests();
    assert!(requests[..3].iter().all(|request| *request == format!("PUT {large}")), "the same three times");
    assert_eq!(records(&requests[3]), pairs(&[("a", "new")]));
}

/// It may have been stored: then its condition would not be met, and it would be said not to be there.
#[test]
fn a_record_with_a_condition_is_sent_again_only_if_it_was_not_stored() {
    let server = Answering::start(&[
        (200, "{\"status\":503,\"error\":\"busy\"}\n{\"status\":504,\"error\":\"late\"}\n"),
        (200, "{\"status\":412,\"error\":\"it is there\"}\n"),
    ]);
    let line = |key: &str| format!("{{\"key\":\"{key}\",\"value\":\"\",\"if_none_match\":\"*\"}}\n");
    let expected = ["0 records stored", "2 of 2 operations failed", "in line 2, with status 504: late"];
    server.import(&[line("a"), line("b")].concat()).expect_failure(1, &expected);
    let requests: Vec<_> = server.requests().iter().map(|body| records(body)).collect();
    assert_eq!(requests, [pairs(&[("a", ""), ("b", "")]), pairs(&[("a", "")])]);
}
