use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

use crate::support::{
    Connection, Exchange, Expected, Launch, Node, Response, assert_refusal, bytes_of, differs_on_cassandra,
    exchange_cut, value,
};

const BATCH: &str = "/v0/batch";

/// The answer to each line.
#[track_caller]
pub(crate) fn answers(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{}", response.text());
    lines(response)
}

#[track_caller]
pub(crate) fn lines(response: &Response) -> Vec<Value> {
    assert_eq!(response.header("content-type"), Some("application/x-ndjson"));
    let text = response.text();
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[track_caller]
fn ask(connection: &mut Connection, operations: &[Value]) -> Vec<Value> {
    let body = operations.iter().map(|operation| format!("{operation}\n")).collect::<Vec<_>>().concat();
    let answers = answers(&connection.request("POST", BATCH, Some(body.as_bytes())));
    assert_eq!(answers.len(), operations.len(), "{answers:?}");
    answers
}

pub(crate) fn statuses(answers: &[Value]) -> Vec<u64> {
    answers.iter().map(|answer| answer["status"].as_u64().expect("a status")).collect()
}

/// The head of a batch in chunks.
pub(crate) fn head(query: &str) -> String {
    format!("POST {BATCH}{query} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
}

pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[test]
fn each_operation_has_its_own_answer() {
    let node = Node::start();
    let mut connection = node.connect();
    let found = ask(
        &mut connection,
        &[
            json!({"op": "get", "key": "a"}),
            json!({"op": "put", "key": "a", "value": "deep\n\u{e9}"}),
            json!({"op": "get", "key": "a"}),
            json!({"op": "put", "key_base64": "/w==", "value_base64": "AP8="}),
            json!({"op": "get", "key_base64": "/w=="}),
            json!({"op": "put", "key": "empty", "value": ""}),
            json!({"op": "get", "key": "empty"}),
            json!({"op": "increment", "key": "n", "by": 41}),
            json!({"op": "increment", "key": "n"}),
            json!({"op": "increment", "key": "a"}),
            json!({"op": "delete", "key": "a"}),
            json!({"op": "get", "key": "a"}),
        ],
    );
    assert_eq!(statuses(&found), [404, 201, 200, 201, 200, 201, 200, 200, 200, 409, 202, 404]);
    assert_eq!((&found[2]["value"], &found[4]["value_base64"]), (&json!("deep\n\u{e9}"), &json!("AP8=")));
    assert_eq!((&found[6]["value"], &found[8]["value"]), (&json!(""), &json!("42")));
    assert_eq!(found[1]["etag"], found[2]["etag"]);
    if !differs_on_cassandra("the version of a deletion is forgotten") {
        assert_eq!(found[10]["etag"], found[11]["etag"], "the version of the deletion");
    }
    assert!(
        found[9]["error"].as_str().is_some_and(|error| error.contains("64-bit integer")),
        "{:?}",
        found[9]
    );
    assert_eq!(connection.value([0xff]).as_deref(), Some(&b"\0\xff"[..]));
    let read = connection.get("n");
    assert_eq!((read.text(), read.header("etag")), ("42", found[8]["etag"].as_str()));
}

#[test]
fn conditions_and_expiries_are_those_of_single_requests() {
    let node = Node::start();
    let mut connection = node.connect();
    let first = ask(&mut connection, &[json!({"op": "put", "key": "a", "value": "1", "ttl": "1h"})]);
    let etag = &first[0]["etag"];
    let found = ask(
        &mut connection,
        &[
            json!({"op": "get", "key": "a", "if_none_match": etag}),
            json!({"op": "put", "key": "a", "value": "2", "if_none_match": "*"}),
            json!({"op": "put", "key": "b", "value": "3", "if_none_match": "*"}),
            json!({"op": "put", "key": "a", "value": "4", "if_match": etag}),
            json!({"op": "delete", "key": "a", "if_match": etag}),
            json!({"op": "get", "key": "a"}),
            json!({"op": "increment", "key": "a", "by": 5, "if_match": "*"}),
            json!({"op": "get", "key": "a", "if_match": etag}),
        ],
    );
    assert_eq!(statuses(&found), [304, 412, 201, 201, 412, 200, 200, 412]);
    assert_eq!(found[0]["etag"], *etag);
    assert_eq!(found[4]["etag"], found[3]["etag"], "the version that there is");
    assert_eq!((&found[5]["value"], &found[6]["value"]), (&json!("4"), &json!("9")));
    assert_eq!(found[5].get("expires_ms"), None);
    let found = ask(
        &mut connection,
        &[json!({"op": "put", "key": "a", "value": "", "ttl": "1h"}), json!({"op": "get", "key": "a"})],
    );
    let expires = connection.get("a").header("ladoga-expires").map(str::to_owned).expect("it expires");
    assert_eq!(found[1]["expires_ms"].as_u64().map(|ms| ms.to_string()), Some(expires));
}

#[test]
fn a_line_that_is_no_operation_is_answered_and_the_others_go_on() {
    let node = Node::start();
    let mut connection = node.connect();
    let long = format!("{{\"op\":\"put\",\"key\":\"long\",\"value\":\"{}\"}}", "v".repeat(600_000));
    let body = format!(
        "nonsense\n\n  \r\n{{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}}\r\n{long}\n[\"get\",\"a\"]\n{{\"op\":\"get\",\"key\":\
         \"a\",\"if-match\":\"*\"}}\n{{\"op\":\"put\",\"key\":\"b\",\"value\":\"2\"}}"
    );
    let found = answers(&connection.request("POST", BATCH, Some(body.as_bytes())));
    assert_eq!(statuses(&found), [400, 201, 413, 400, 400, 201]);
    for (index, named) in [(0, "nonsense"), (2, "524288"), (4, "if-match")] {
        assert!(found[index]["error"].as_str().expect("a reason").contains(named), "{:?}", found[index]);
    }
    assert_eq!(connection.value("b").as_deref(), Some(&b"2"[..]), "the last line needs no end");
    assert_eq!(answers(&connection.request("POST", BATCH, Some(b""))), [] as [Value; 0]);
    assert_eq!(answers(&connection.request("POST", BATCH, None)), [] as [Value; 0]);
}

#[test]
fn what_is_wrong_with_the_whole_is_a_refusal() {
    let node = Node::start();
    let mut connection = node.connect();
    for query in ["?atomic=yes", "?atomic=true&atomic=true", "?replicas=2/2", "?ack=0", "?%zz"] {
        let refused = connection.request("POST", &format!("{BATCH}{query}"), Some(b"{}\n"));
        assert_refusal(&refused, 400, query);
    }
    for method in ["GET", "PUT", "DELETE"] {
        let refused = connection.request(method, BATCH, Some(b""));
        assert_refusal(&refused, 405, method);
        assert_eq!(refused.header("allow"), Some("POST"));
    }
}

#[test]
fn lines_of_one_key_take_effect_in_their_order() {
    let node = Node::start();
    let mut operations = Vec::new();
    for number in 0..300 {
        operations.push(json!({"op": "put", "key": "same", "value": number.to_string()}));
        operations.push(json!({"op": "get", "key": "same"}));
        operations.push(json!({"op": "increment", "key": "same", "by": 1_000}));
        operations.push(json!({"op": "get", "key": format!("other{number}")}));
    }
    let found = ask(&mut node.connect(), &operations);
    for (number, four) in found.chunks(4).enumerate() {
        assert_eq!(four[1]["value"], json!(number.to_string()));
        assert_eq!(four[2]["value"], json!((number + 1_000).to_string()));
        assert_eq!(statuses(four), [201, 200, 200, 404]);
    }
}

#[test]
fn large_values_go_in_and_out() {
    let node = Node::start();
    let mut connection = node.connect();
    let large = "l".repeat(400_000);
    connection.put("larger", &value(1, 3_000_000));
    let found = ask(
        &mut connection,
        &[
            json!({"op": "put", "key": "large", "value": large}),
            json!({"op": "get", "key": "large"}),
            json!({"op": "get", "key": "larger"}),
            json!({"op": "get", "key": "none"}),
        ],
    );
    assert_eq!(statuses(&found), [201, 200, 200, 404]);
    if !differs_on_cassandra("a value of this length is in its row, and told as text") {
        assert_eq!(found[1]["value_base64"].as_str().expect("Base64").len(), 400_000_usize.div_ceil(3) * 4);
    }
    assert_eq!(found[2]["value_base64"].as_str().expect("Base64").len(), 3_000_000 / 3 * 4);
    assert!(connection.value("large").as_deref() == Some(large.as_bytes()));
}

#[test]
fn an_answer_comes_before_the_next_line_is_sent() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.send(head(""));
    connection.send(chunk("{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n"));
    let response = connection.response_head();
    assert_eq!((response.status, response.header("transfer-encoding")), (200, Some("chunked")));
    assert!(!response.closes());
    let mut next = |line: &str| {
        connection.send(chunk(line));
        let answer = connection.next_chunk().expect("a stream").expect("an answer");
        serde_json::from_slice::<Value>(&answer).expect("JSON")
    };
    // The first answer is there already.
    assert_eq!(next("{\"op\":\"get\",\"key\":\"a\"}\n")["status"], 201);
    for number in 0..5 {
        let line = format!("{{\"op\":\"get\",\"key\":\"none{number}\"}}\n");
        assert_eq!(next(&line)["status"], if number == 0 { 200 } else { 404 });
    }
    connection.send("0\r\n\r\n");
    assert!(connection.next_chunk().expect("a stream").is_some());
    assert_eq!(connection.next_chunk().expect("the end of a stream"), None);
    assert_eq!(connection.value("a").as_deref(), Some(&b"1"[..]), "the connection goes on");
}

#[test]
fn requests_behind_a_batch_may_be_cut_anywhere() {
    let node = Launch::patient().start();
    let big = Arc::new(value(3, 100_000));
    node.connect().put("big", &big);
    let lines = (0..20).map(|n| format!("{{\"op\":\"increment\",\"key\":\"n{n}\"}}\n"));
    let lines = lines.collect::<Vec<_>>().concat();
    let batch = Exchange::with_body("POST /v0/batch", lines.as_bytes(), Expected::Something);
    let body = lines.as_bytes().chunks(50).map(|part| chunk(str::from_utf8(part).expect("text")));
    let body: String = body.chain(["0\r\n\r\n".to_owned()]).collect();
    let headers = "Transfer-Encoding: chunked\r\n";
    let chunked = Exchange::new("POST /v0/batch", headers, body.as_bytes(), Expected::Something);
    let atomic = if differs_on_cassandra("no batch is atomic") { "" } else { "?atomic=true" };
    let atomic = format!("POST /v0/batch{atomic}");
    let atomic = Exchange::with_body(&atomic, lines.as_bytes(), Expected::Something);
    let get = Exchange::get("big", &big);
    let pipeline = [
        batch.clone(),
        get.clone(),
        chunked,
        batch,
        Exchange::plain("GET /v0/status", Expected::Something),
        atomic,
        get,
    ];
    let length = bytes_of(&pipeline).len();
    let cuts: Vec<Vec<usize>> = (1..length).step_by(23).map(|place| vec![place]).collect();
    let count = cuts.len() as u64;
    // Few at a time: each batch is a stream.
    for cuts in cuts.chunks(10) {
        exchange_cut(node.address(), &pipeline, cuts, "behind batches");
    }
    let sum: u64 = node.connect().get("n7").text().parse().expect("a number");
    assert_eq!(sum, 4 * count, "every line once");
}

#[test]
fn a_batch_may_come_one_byte_at_a_time() {
    let node = Launch::patient().start();
    let (mut sender, mut reader) = node.connect().split();
    let lines = "{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n{\"op\":\"get\",\"key\":\"a\"}\n";
    let bytes = [
        head("").into_bytes(),
        lines.bytes().flat_map(|byte| chunk(&char::from(byte).to_string()).into_bytes()).collect(),
        b"0\r\n\r\nGET /v0/entity?id=a HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
    ]
    .concat();
    thread::scope(|scope| {
        scope.spawn(move || bytes.iter().for_each(|byte| sender.send([*byte])));
        assert_eq!(statuses(&answers(&reader.response())), [201, 200]);
        assert_eq!(reader.response().text(), "1");
    });
}

#[test]
fn a_body_that_is_cut_off_answers_what_it_brought() {
    let node = Node::start();
    let put = |key: &str| format!("{{\"op\":\"put\",\"key\":\"{key}\",\"value\":\"1\"}}\n");
    let known = |extra: usize, body: &str| {
        let length = body.len() + extra;
        format!("POST {BATCH} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    // In a line, behind a line, in the frame of a chunk.
    let filler = put("filler").repeat(400);
    for (number, (sent, count)) in [
        (head("") + &chunk(&(put("c0") + "{\"op\":\"delete\",\"key\":\"c0\"}")), 1),
        (head("") + &chunk(&put("c1")), 1),
        (head("") + &chunk(&put("c2")) + "ff\r\n{\"op\"", 1),
        (known(7, &(filler.clone() + &put("c3") + "{\"op\":\"delete\",\"key\":\"c3\"}")), 401),
        (head("") + &chunk(&put("c4")) + "nonsense\r\n", 1),
    ]
    .into_iter()
    .enumerate()
    {
        let mut connection = node.connect();
        connection.send(&sent);
        connection.finish_sending();
        let response = connection.response();
        let found = answers(&response);
        assert_eq!(found.len(), count + 1, "{number}: {found:?}");
        assert!(found[..count].iter().all(|answer| answer["status"] == 201), "{number}");
        assert_eq!(found[count]["status"], 400, "{number}");
        assert!(found[count]["error"].as_str().expect("a reason").contains("incomplete"), "{number}");
        connection.expect_closed();
        let key = format!("c{number}");
        assert_eq!(
            node.connect().value(&key).as_deref(),
            Some(&b"1"[..]),
            "{key}: a line without its end is none"
        );
    }
}

#[test]
fn a_client_that_sends_nothing_more_is_cut_off() {
    let node = Launch::new().env("LADOGA_REQUEST_TIMEOUT_MS", "300").start();
    let mut connection = node.connect();
    connection.send(head("") + &chunk("{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n"));
    assert_eq!(connection.response_head().status, 200);
    assert!(connection.next_chunk().expect("a stream").is_some());
    // No second answer within the first one.
    assert!(connection.next_chunk().is_err(), "the node cuts it off");
    let mut connection = node.connect();
    connection.send(head(""));
    assert_refusal(&connection.response(), 408, "nothing was answered yet");
}

#[test]
fn who_waits_for_permission_gets_it() {
    let node = Node::start();
    let mut connection = node.connect();
    let line = b"{\"op\":\"get\",\"key\":\"a\"}\n";
    let length = line.len();
    connection.send(format!(
        "POST {BATCH} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
    ));
    assert_eq!(connection.response().status, 100);
    connection.send(line);
    assert_eq!(statuses(&answers(&connection.response())), [404]);
}

#[test]
fn a_client_that_knows_no_chunks_gets_its_answers() {
    let node = Node::start();
    let mut connection = node.connect();
    let line = "{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n";
    connection.send(format!("POST {BATCH} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{line}", line.len()));
    let response = connection.response();
    assert!(response.closes() && response.chunks.is_none());
    assert_eq!(statuses(&answers(&response)), [201]);
}

#[test]
fn a_node_that_stops_answers_what_it_has_and_says_that_it_stops() {
    let mut node = Launch::patient().start();
    let mut connection = node.connect();
    connection.send(head("") + &chunk("{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n"));
    assert_eq!(connection.response_head().status, 200);
    let mut next = || {
        let answer = connection.next_chunk().expect("a stream")?;
        Some(serde_json::from_slice::<Value>(&answer).expect("JSON"))
    };
    assert_eq!(next().expect("an answer")["status"], 201);
    node.signal("TERM");
    let last = next().expect("a last word");
    assert_eq!(last["status"], 503, "{last}");
    assert!(last["error"].as_str().expect("a reason").contains("draining"));
    assert_eq!(next(), None);
    assert_eq!(node.wait().code(), Some(0));
    node.start_again();
    assert_eq!(node.connect().value("a").as_deref(), Some(&b"1"[..]));
}
