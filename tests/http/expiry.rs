use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{
    Connection, Launch, Node, Response, WallClocks, assert_refusal, differs_on_cassandra, entity, value,
    wait_until,
};

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// The target of a write whose value is to live for so long.
fn living(key: &str, ttl: &str) -> String {
    format!("{}&ttl={ttl}", entity(key))
}

#[test]
fn a_value_with_a_ttl_says_when_it_expires_and_is_gone_then() {
    let node = Node::start();
    let mut connection = node.connect();
    // In memory, and in a file of its own.
    for (key, bytes) in [("small", 100), ("large", 400_000)] {
        let bytes = value(7, bytes);
        connection.put(key, b"before");
        let earliest = now_ms() + 2_000;
        let created = connection.request("PUT", &living(key, "2000ms"), Some(&bytes));
        let latest = now_ms() + 2_000;
        assert_eq!((created.status, &created.body[..]), (201, &b""[..]), "{}", created.text());
        let read = connection.get(key);
        if read.status == 200 {
            assert!(read.body == bytes);
            let expires: u64 = read.header("ladoga-expires").expect("it expires").parse().expect("a number");
            assert!((earliest..=latest).contains(&expires), "{earliest} {expires} {latest}");
            connection.send_request("HEAD", &entity(key), None);
            let head = connection.response_to_head();
            assert!(head.status == 404 || head.header("ladoga-expires") == read.header("ladoga-expires"));
        }
        wait_until("its end", || node.connect().get(key).status == 404);
        assert!(now_ms() >= earliest);
        let text = "GET of what has expired";
        assert_refusal(&connection.get(key), 404, text);
        connection.send_request("HEAD", &entity(key), None);
        assert_eq!(connection.response_to_head().status, 404);
    }
    assert_eq!(connection.request("GET", "/v0/entities?start=a", None).records(), []);
}

#[test]
fn a_value_without_a_ttl_takes_the_place_of_one_with_it_and_stays() {
    let node = Node::start();
    let mut connection = node.connect();
    let short = connection.request("PUT", &living("key", "300ms"), Some(b"short"));
    assert_eq!(short.status, 201);
    connection.put("key", b"long");
    connection.request("PUT", &living("other", "300ms"), Some(b"short"));
    wait_until("the end of the other", || node.connect().get("other").status == 404);
    let read = connection.get("key");
    assert_eq!((read.status, &read.body[..], read.header("ladoga-expires")), (200, &b"long"[..], None));
    // And the other way round.
    assert_eq!(connection.request("PUT", &living("key", "300ms"), Some(b"short")).status, 201);
    wait_until("its end", || node.connect().get("key").status == 404);
}

#[test]
fn what_is_no_ttl_is_refused_and_nothing_is_written() {
    let node = Node::start();
    let mut connection = node.connect();
    for ttl in [
        "",
        "0",
        "0s",
        "60",
        "-1s",
        "+1s",
        "1.5s",
        "1S",
        "1w",
        "s",
        "1m30s",
        "36501d",
        "99999999999999999999s",
        "%31",
    ] {
        let refused = connection.request("PUT", &living("key", ttl), Some(b"value"));
        assert_refusal(&refused, 400, ttl);
        assert!(refused.text().contains("expected a whole number and a unit"), "{}", refused.text());
    }
    for method in ["GET", "DELETE"] {
        let refused = connection.request(method, &living("key", "60s"), None);
        assert_refusal(&refused, 400, method);
        assert!(refused.text().contains("only for PUT"), "{}", refused.text());
    }
    let twice = connection.request("PUT", &living("key", "60s&ttl=61s"), Some(b"value"));
    assert_refusal(&twice, 400, "twice");
    assert_eq!(connection.value("key"), None);
    for ttl in ["1ms", "36500d"] {
        assert_eq!(connection.request("PUT", &living("key", ttl), Some(b"value")).status, 201, "{ttl}");
    }
}

#[test]
fn what_expired_while_the_node_was_down_is_not_back_when_it_is() {
    let mut node = Node::start();
    let mut connection = node.connect();
    for n in 0..50 {
        assert_eq!(connection.request("PUT", &living(&format!("a{n}"), "400ms"), Some(b"value")).status, 201);
        assert_eq!(connection.request("PUT", &living(&format!("b{n}"), "1h"), Some(b"value")).status, 201);
    }
    let expires = connection.get("b7").header("ladoga-expires").map(str::to_owned);
    assert!(expires.is_some());
    node.stop();
    let end = now_ms() + 400;
    wait_until("their end", || now_ms() > end);
    node.start_again();
    let records = node.connect().request("GET", "/v0/entities?start=a", None).records();
    assert_eq!(records.len(), 50);
    assert!(records.iter().all(|(key, _)| key.starts_with(b"b")));
    assert_eq!(node.connect().get("b7").header("ladoga-expires").map(str::to_owned), expires);
    assert_refusal(&node.connect().get("a7"), 404, "GET of what has expired");
}

/// Nothing is lost while the clock is wrong: compactions wait for longer than that.
#[test]
fn a_clock_that_was_half_a_minute_ahead_for_a_while_loses_nothing() {
    let Some(clocks) = WallClocks::new() else { return };
    let node = clocks.place(Launch::new(), 0).start();
    let mut connection = node.connect();
    for n in 0..20 {
        let created = connection.request("PUT", &living(&format!("key{n}"), "25s"), Some(b"value"));
        assert_eq!(created.status, 201);
    }
    clocks.set_ahead(0, 30);
    assert_refusal(&connection.get("key7"), 404, "GET by a clock that is ahead");
    clocks.set_ahead(0, 0);
    for n in 0..20 {
        assert_eq!(connection.value(format!("key{n}")).as_deref(), Some(&b"value"[..]));
    }
}

/// A request with a condition and a value.
fn put_if(connection: &mut Connection, key: &str, ttl: &str, condition: &str) -> Response {
    let head =
        format!("PUT {} HTTP/1.1\r\nHost: h\r\n{condition}\r\nContent-Length: 1\r\n\r\n1", living(key, ttl));
    connection.send(head.as_bytes());
    connection.response()
}

#[test]
fn what_has_expired_is_nothing_to_a_condition_and_a_sum_lives_as_long_as_its_number() {
    let node = Node::start();
    let mut connection = node.connect();
    let first = put_if(&mut connection, "key", "1500ms", "If-None-Match: *");
    assert_eq!(first.status, 201, "{}", first.text());
    let etag = first.header("etag").expect("a version").to_owned();
    let number = connection.request("PUT", &living("number", "1h"), Some(b"41"));
    assert_eq!(number.status, 201);
    let expires = connection.get("number").header("ladoga-expires").map(str::to_owned);
    let sum = connection.request("POST", &format!("{}&increment=1", entity("number")), None);
    assert_eq!((sum.status, sum.text()), (200, "42"));
    assert!(expires.is_some());
    // The answer to an increment did not say so.
    assert_eq!(sum.header("ladoga-expires").map(str::to_owned), expires);
    assert_eq!(connection.get("number").header("ladoga-expires").map(str::to_owned), expires);
    wait_until("its end", || node.connect().get("key").status == 404);
    if !differs_on_cassandra("the version of a deletion is forgotten") {
        let gone = connection.get("key");
        assert_eq!(gone.header("etag"), Some(&etag[..]), "a deletion with the version of its write");
    }
    let refused = put_if(&mut connection, "key", "1h", &format!("If-Match: {etag}"));
    assert_refusal(&refused, 412, "If-Match of what has expired");
    let counted = connection.request("POST", &format!("{}&increment=5", entity("key")), None);
    assert_eq!((counted.status, counted.text()), (200, "5"), "what has expired counts as 0");
    assert_eq!(counted.header("ladoga-expires"), None);
    assert_eq!(connection.get("key").header("ladoga-expires"), None);
}

#[test]
fn a_line_that_adds_to_a_number_says_when_that_expires() {
    let node = Node::start();
    let mut connection = node.connect();
    let put = connection.request("PUT", &living("number", "1h"), Some(b"41"));
    assert_eq!(put.status, 201);
    let expires = expires_ms(&connection.get("number"));
    assert!(expires.is_some());
    for path in ["/v0/batch", "/v0/batch?atomic=true"] {
        if path.contains("atomic") && differs_on_cassandra("a batch is not atomic") {
            continue;
        }
        let line = b"{\"op\":\"increment\",\"key\":\"number\",\"by\":1}\n";
        let answer = connection.request("POST", path, Some(line));
        let answer: serde_json::Value = serde_json::from_slice(&answer.body).expect("a line of JSON");
        assert_eq!(
            (&answer["status"], answer["expires_ms"].as_u64()),
            (&200.into(), expires),
            "{path}: {answer}"
        );
    }
}

fn expire(connection: &mut Connection, key: &str, ttl: &str) -> Response {
    connection.request("POST", &living(key, ttl), None)
}

fn expires_ms(answer: &Response) -> Option<u64> {
    answer.header("ladoga-expires").map(|expires| expires.parse().expect("a number"))
}

#[test]
fn the_expiry_of_a_value_is_changed_and_the_value_stays() {
    let node = Node::start();
    let mut connection = node.connect();
    // In memory, and in a file of its own.
    for (key, bytes) in [("small", 100), ("large", 400_000)] {
        let bytes = value(7, bytes);
        let first = connection.request("PUT", &entity(key), Some(&bytes));
        let mut etags = vec![first.header("etag").expect("a version").to_owned()];
        for (ttl, ms) in [("1h", Some(3_600_000)), ("30d", Some(30 * 86_400_000)), ("none", None)] {
            let earliest = now_ms();
            let changed = expire(&mut connection, key, ttl);
            let latest = now_ms();
            assert_eq!((changed.status, &changed.body[..]), (200, &b""[..]), "{}", changed.text());
            let expires = expires_ms(&changed);
            match ms {
                Some(ms) => assert!(
                    expires.is_some_and(|at| (earliest + ms..=latest + ms).contains(&at)),
                    "{expires:?}"
                ),
                None => assert_eq!(expires, None),
            }
            let read = connection.get(key);
            assert!(read.status == 200 && read.body == bytes, "{key} {ttl}");
            assert_eq!(expires_ms(&read), expires);
            assert_eq!(read.header("etag"), changed.header("etag"));
            etags.push(changed.header("etag").expect("a version").to_owned());
        }
        etags.dedup();
        assert_eq!(etags.len(), 4, "each is a version: {etags:?}");
        assert_eq!(expire(&mut connection, key, "300ms").status, 200);
        wait_until("its end", || node.connect().get(key).status == 404);
        assert_refusal(&expire(&mut connection, key, "1h"), 404, "what has expired stays so");
    }
    assert_eq!(connection.request("GET", "/v0/entities?start=a", None).records(), []);
}

#[test]
fn the_expiry_of_nothing_is_not_changed() {
    let node = Node::start();
    let mut connection = node.connect();
    let absent = expire(&mut connection, "key", "1h");
    assert_refusal(&absent, 404, "a key that never was");
    assert_eq!(absent.header("etag"), None);
    connection.put("key", b"value");
    let deleted = connection.request("DELETE", &entity("key"), None);
    let gone = expire(&mut connection, "key", "none");
    assert_refusal(&gone, 404, "a key that was deleted");
    if !differs_on_cassandra("the version of a deletion is forgotten") {
        assert_eq!(gone.header("etag"), deleted.header("etag"));
    }
    // What is not there, no condition is about.
    connection.send(format!("POST {} HTTP/1.1\r\nHost: h\r\nIf-Match: *\r\n\r\n", living("key", "1h")));
    assert_refusal(&connection.response(), 404, "with a condition");
    assert_eq!(connection.value("key"), None);
}

#[test]
fn a_change_of_expiry_may_have_a_condition() {
    let node = Node::start();
    let mut connection = node.connect();
    let first = connection.request("PUT", &entity("key"), Some(b"value"));
    let etag = first.header("etag").expect("a version").to_owned();
    let mut expire_if = |condition: &str| {
        connection.send(format!("POST {} HTTP/1.1\r\nHost: h\r\n{condition}\r\n\r\n", living("key", "1h")));
        connection.response()
    };
    assert_refusal(&expire_if("If-None-Match: *"), 412, "there is a value");
    let changed = expire_if(&format!("If-Match: {etag}"));
    assert_eq!(changed.status, 200, "{}", changed.text());
    let refused = expire_if(&format!("If-Match: {etag}"));
    assert_refusal(&refused, 412, "it has changed");
    assert_eq!(refused.header("etag"), changed.header("etag"));
    assert_eq!(expire_if("If-Match: *").status, 200);
}

#[test]
fn what_is_no_change_of_expiry_is_refused_and_nothing_changes() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.request("PUT", &living("key", "1h"), Some(b"5"));
    let before = connection.get("key");
    for ttl in ["", "0s", "60", "-1s", "None", "never", "1h&ttl=2h", "1h&increment=1", "none&increment=1"] {
        assert_refusal(&expire(&mut connection, "key", ttl), 400, ttl);
    }
    assert!(expire(&mut connection, "key", "soon").text().contains("or none"));
    assert_refusal(&connection.request("POST", "/v0/entity?ttl=1h", None), 400, "no key");
    let forever = connection.request("PUT", &living("key", "none"), Some(b"6"));
    assert_refusal(&forever, 400, "a PUT without a ttl never expires");
    let after = connection.get("key");
    assert_eq!((after.text(), expires_ms(&after)), ("5", expires_ms(&before)));
    assert_eq!(after.header("etag"), before.header("etag"));
}

#[test]
fn a_changed_expiry_is_there_after_a_crash_and_copies_no_large_value() {
    if differs_on_cassandra("a door has no files") {
        return;
    }
    let mut node = Launch::patient().start();
    let mut connection = node.connect();
    let bytes = value(9, 8 << 20);
    assert_eq!(connection.request("PUT", &living("large", "1h"), Some(&bytes)).status, 201);
    let blobs = |node: &Node| {
        let files = std::fs::read_dir(node.data().join("blobs")).expect("a folder");
        files.map(|file| file.expect("a file").file_name()).collect::<Vec<_>>()
    };
    let before = blobs(&node);
    let mut changed = None;
    for _ in 0..20 {
        changed = Some(expire(&mut connection, "large", "2h"));
    }
    let expires = changed.as_ref().and_then(expires_ms);
    assert!(expires.is_some());
    node.crash();
    let read = node.connect().get("large");
    assert!(read.body == bytes);
    assert_eq!(expires_ms(&read), expires);
    assert_eq!(blobs(&node), before, "the same file");
}
