use crate::cql::Cql;
use crate::support::{
    Connection, Launch, Node, assert_refusal, differs_on_cassandra, entity, value, wait_until,
};

/// A door, unless there is no Cassandra.
fn door(change: impl FnOnce(Launch) -> Launch) -> Option<Node> {
    differs_on_cassandra("this is only about doors").then(|| change(Launch::new()).start())
}

fn batch_of(keys: impl Iterator<Item = String>) -> Vec<u8> {
    let line = |key: String| format!("{{\"op\":\"put\",\"key\":\"{key}\",\"value\":\"of {key}\"}}\n");
    keys.map(line).collect::<String>().into_bytes()
}

#[test]
fn what_needs_a_decision_is_refused_by_plain_writes() {
    let Some(door) = door(|launch| launch) else { return };
    let mut connection = door.connect();
    connection.put("key", b"1");
    for (method, target) in [
        ("POST", format!("{}&increment=1", entity("key"))),
        ("POST", format!("{}&ttl=60s", entity("key"))),
        ("GET", "/v0/changes?start=a".to_owned()),
        ("POST", "/v0/batch?atomic=true".to_owned()),
    ] {
        let body = (method == "POST").then_some(&b""[..]);
        let refused = door.connect().request(method, &target, body);
        assert_refusal(&refused, 501, &target);
    }
    for (method, target, tool) in
        [("GET", "/v0/cluster", "nodetool status"), ("POST", "/v0/repair", "nodetool repair")]
    {
        let body = (method == "POST").then_some(&b""[..]);
        let refused = door.connect().request(method, target, body);
        assert_refusal(&refused, 501, target);
        assert!(refused.text().contains(tool), "{}", refused.text());
    }
    connection.send(format!("DELETE {} HTTP/1.1\r\nHost: h\r\nIf-Match: *\r\n\r\n", entity("key")));
    let refused = connection.response();
    assert_refusal(&refused, 501, "DELETE with If-Match");
    assert!(refused.text().contains("--cassandra-writes lwt"), "{}", refused.text());
    assert_eq!(door.connect().value("key").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_range_is_in_order_over_all_buckets() {
    const COUNT: usize = 3_000;
    let Some(door) = door(|launch| launch) else { return };
    let mut connection = door.connect();
    let key = |number: usize| format!("key{number:05}");
    let stored = connection.request("POST", "/v0/batch", Some(&batch_of((0..COUNT).map(key))));
    assert_eq!((stored.status, stored.text().matches("\"status\":201").count()), (200, COUNT));
    let records = |connection: &mut Connection, query: &str| {
        let answer = connection.request("GET", &format!("/v0/entities?{query}"), None);
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        answer.records()
    };
    let expected = |numbers: &mut dyn Iterator<Item = usize>| -> Vec<(Vec<u8>, Vec<u8>)> {
        numbers.map(|number| (key(number).into_bytes(), format!("of {}", key(number)).into_bytes())).collect()
    };
    assert_eq!(records(&mut connection, "prefix=key"), expected(&mut (0..COUNT)));
    assert_eq!(records(&mut connection, "prefix=key&reverse=true"), expected(&mut (0..COUNT).rev()));
    let page = records(&mut connection, "prefix=key&after=key00099&limit=500");
    assert_eq!(page, expected(&mut (100..600)));
    let part = records(&mut connection, "start=key01000&end=key02000&reverse=true&limit=7");
    assert_eq!(part, expected(&mut (1_993..2_000).rev()));
    let count = connection.request("GET", "/v0/entities?prefix=key&count=true", None);
    assert_eq!(count.text().trim(), COUNT.to_string());
}

/// What an INSERT leaves if the UPDATE over it has expired: every range over such a row was refused for ever.
#[test]
fn a_row_of_which_nothing_but_its_key_is_left_is_none() {
    const BUCKETS: u32 = 256;
    let launch = Launch::new();
    if !differs_on_cassandra("this is only about doors") {
        return;
    }
    let [nodes, keyspace] =
        ["nodes", "keyspace"].map(|flag| launch.flag_value(&format!("--cassandra-{flag}")));
    let door = launch.start();
    let mut connection = door.connect();
    let key = |number: u32| format!("key{number}");
    (0..3).for_each(|number| connection.put(key(number), key(number).as_bytes()));
    // Before and behind each key, in its bucket, whichever that is.
    let cql = Cql::to(&nodes);
    for (bucket, key) in (0..BUCKETS).flat_map(|bucket| [(bucket, "0x61"), (bucket, "0x7a")]) {
        cql.run(&[&format!("INSERT INTO {keyspace}_rf1.entities (bucket, key) VALUES ({bucket}, {key})")]);
    }
    for (query, numbers) in [
        ("start=a", vec![0, 1, 2]),
        ("start=a&reverse=true", vec![2, 1, 0]),
        ("start=a&limit=2", vec![0, 1]),
        ("start=a&limit=1&reverse=true", vec![2]),
    ] {
        let answer = connection.request("GET", &format!("/v0/entities?{query}"), None);
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        let expected: Vec<_> =
            numbers.into_iter().map(|number| (key(number).into(), key(number).into())).collect();
        assert_eq!(answer.records(), expected, "{query}");
    }
    assert_eq!(connection.value("a"), None);
    let count = connection.request("GET", "/v0/entities?start=a&count=true", None);
    assert_eq!((count.status, count.text().trim()), (200, "3"));
}

/// That is what transactions of a door take for no mark at all: a write over it was acknowledged, and nothing was done.
#[test]
fn a_row_with_an_empty_mark_is_written_over_and_deleted() {
    const BUCKETS: u32 = 256;
    let launch = Launch::new().flag("--cassandra-writes", "lwt");
    if !differs_on_cassandra("this is only about doors") {
        return;
    }
    let [nodes, keyspace] =
        ["nodes", "keyspace"].map(|flag| launch.flag_value(&format!("--cassandra-{flag}")));
    let door = launch.start();
    let (mut connection, cql) = (door.connect(), Cql::to(&nodes));
    // In its bucket, whichever that is.
    let empty = |key: &str| {
        for bucket in 0..BUCKETS {
            let row = format!("(bucket, key, etag) VALUES ({bucket}, {key}, 0x)");
            cql.run(&[&format!("INSERT INTO {keyspace}_rf1.entities {row}")]);
        }
    };
    empty("0x61");
    connection.put("a", b"value");
    assert_eq!(connection.value("a").as_deref(), Some(&b"value"[..]));
    empty("0x62");
    connection.delete("b");
    assert_eq!(connection.value("b"), None);
}

/// Of more keys than are read of a bucket at a time: short values come with them, others are read when it is their turn.
#[test]
fn a_range_has_short_long_and_large_values_in_order() {
    const COUNT: usize = 20_000;
    let Some(door) = door(|launch| launch) else { return };
    let mut connection = door.connect();
    let key = |number: usize| format!("key{number:05}");
    for first in (0..COUNT).step_by(5_000) {
        let stored =
            connection.request("POST", "/v0/batch", Some(&batch_of((first..first + 5_000).map(key))));
        assert_eq!(stored.text().matches("\"status\":201").count(), 5_000);
    }
    let long = |number: usize| match number {
        _ if number.is_multiple_of(4_001) => Some(value(number as u64, 600 << 10)),
        _ if number.is_multiple_of(97) => Some(value(number as u64, 40 << 10)),
        _ => None,
    };
    for number in 0..COUNT {
        if let Some(value) = long(number) {
            connection.put(key(number), &value);
        }
    }
    (1..COUNT).step_by(10).for_each(|number| connection.delete(key(number)));
    for (query, is_reverse) in [("prefix=key", false), ("prefix=key&reverse=true", true)] {
        connection.send_request("GET", &format!("/v0/entities?{query}"), None);
        assert_eq!(connection.response_head().status, 200);
        let is_left = |number: &usize| number % 10 != 1;
        let mut numbers: Vec<usize> = (0..COUNT).filter(is_left).collect();
        if is_reverse {
            numbers.reverse();
        }
        for number in numbers {
            let (found, read) = connection.next_record().expect("a record").expect("there is one more");
            assert_eq!(found, key(number).into_bytes());
            let expected = long(number).unwrap_or_else(|| format!("of {}", key(number)).into_bytes());
            assert!(read == expected, "{number}: {} bytes instead of {}", read.len(), expected.len());
        }
        assert_eq!(connection.next_record().expect("an end"), None);
    }
}

/// Those before them can take hours, and a range broke off at a value that was replaced meanwhile once its pieces had been removed, or had
/// it as if it was there.
#[test]
fn a_range_has_large_values_as_they_are_when_their_turn_has_come() {
    let Some(door) = door(|launch| launch) else { return };
    let (first, before, after) = (value(1, 48 << 20), value(2, 1 << 20), value(3, 2 << 20));
    let mut changes = door.connect();
    for query in ["prefix=key", "prefix=key&limit=3"] {
        changes.put("key1-first", &first);
        ["key2-deleted", "key3-large", "key4-short"].iter().for_each(|key| changes.put(key, &before));
        let mut connection = door.connect();
        connection.send_request("GET", &format!("/v0/entities?{query}"), None);
        assert_eq!(connection.response_head().status, 200);
        // Far more of the first value than connections hold is not sent yet.
        changes.delete("key2-deleted");
        changes.put("key3-large", &after);
        changes.put("key4-short", b"short");
        for (key, expected) in
            [("key1-first", &first[..]), ("key3-large", &after[..]), ("key4-short", &b"short"[..])]
        {
            let (found, read) = connection.next_record().expect("a record").expect("there is one more");
            assert_eq!(String::from_utf8_lossy(&found), key, "{query}");
            assert!(read == expected, "{key}: {} bytes instead of {}", read.len(), expected.len());
        }
        assert_eq!(connection.next_record().expect("an end"), None);
    }
}

#[test]
fn pieces_that_no_row_names_are_removed_and_others_stay() {
    let keep = |launch: Launch| launch.env("LADOGA_CASSANDRA_PIECES_KEEP_MS", "30000");
    let Some(mut door) = door(keep) else { return };
    let (first, second) = (value(1, 2 << 20), value(2, 1 << 20));
    let mut connection = door.connect();
    for key in ["replaced", "deleted", "kept"] {
        connection.put(key, &first);
    }
    connection.put("replaced", b"small");
    connection.delete("deleted");
    connection.put("kept", &second);
    // Uploads are over: from now on pieces need not stay.
    door.stop();
    door.relaunch(|launch| launch.env("LADOGA_CASSANDRA_PIECES_KEEP_MS", "200"));
    door.start_again();
    wait_until("three values whose pieces are removed", || swept(&door) >= Some(3.0));
    let mut connection = door.connect();
    assert_eq!(connection.value("replaced").as_deref(), Some(&b"small"[..]));
    assert_eq!(connection.value("deleted"), None);
    assert_eq!(connection.value("kept"), Some(second));
    assert_eq!(swept(&door), Some(3.0), "the pieces of a value are gone that is there");
}

fn swept(door: &Node) -> Option<f64> {
    door.metrics().sum("ladoga_cassandra_pieces_swept_total", &[])
}

#[test]
fn what_the_driver_does_is_counted() {
    let Some(door) = door(|launch| launch) else { return };
    door.connect().put("key", b"v");
    assert_eq!(door.connect().get("key").status, 200);
    let metrics = door.metrics();
    let sum = |name: &str| metrics.sum(&format!("ladoga_cassandra_{name}"), &[]).expect(name);
    assert!(sum("attempts_total") >= 2.0);
    assert!(sum("connections") >= 1.0);
    for name in ["attempts_failed", "retries", "speculative", "request_timeouts", "connection_timeouts"] {
        assert!(sum(&format!("{name}_total")) >= 0.0);
    }
    for quantile in ["0.5", "0.99", "0.999"] {
        let latency = metrics.sum("ladoga_cassandra_latency_seconds", &[&format!("quantile=\"{quantile}\"")]);
        assert!(latency.is_some_and(|seconds| (0.0..60.0).contains(&seconds)), "{quantile}: {latency:?}");
    }
}

#[test]
fn a_short_conditional_write_is_two_statements_unless_the_client_waits_to_hear_of_its_condition() {
    let Some(door) = door(|launch| launch.flag("--cassandra-writes", "lwt")) else { return };
    door.connect().put("key", b"1");
    let statements = || door.metrics().sum("ladoga_cassandra_statements_total", &[]).expect("a count");
    let put = |more: &str| {
        let before = statements();
        let mut connection = door.connect();
        let head = format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n{more}\r\n", entity("key"));
        connection.send(format!("{head}2"));
        let status = connection.response().status;
        (status, statements() - before)
    };
    assert_eq!(put("If-Match: *\r\n"), (201, 2.0));
    assert_eq!(put("If-Match: \"other\"\r\n"), (412, 1.0));
    assert_eq!(put("If-None-Match: *\r\n"), (412, 1.0), "the transaction says that there is a row");
    assert_eq!(
        put("If-None-Match: *\r\nExpect: 100-continue\r\n"),
        (412, 1.0),
        "and it is not asked to go on"
    );
}

#[test]
fn doors_to_the_same_keyspace_are_the_same_store() {
    let keyspace = format!("shared_{}", std::process::id());
    let Some(one) = door(|launch| launch.flag("--cassandra-keyspace", &keyspace)) else { return };
    let Some(other) = door(|launch| launch.flag("--cassandra-keyspace", &keyspace)) else { return };
    let (mut to_one, mut to_other) = (one.connect(), other.connect());
    for round in 0..20 {
        let text = format!("round {round}");
        to_one.put("key", text.as_bytes());
        let (here, there) = (to_one.get("key"), to_other.get("key"));
        assert_eq!((there.status, there.text()), (200, text.as_str()));
        assert_eq!(here.header("etag"), there.header("etag"));
        to_other.delete("key");
        assert_eq!(to_one.value("key"), None);
    }
}

#[test]
fn a_value_that_expires_is_gone_by_the_millisecond() {
    let Some(door) = door(|launch| launch) else { return };
    let mut connection = door.connect();
    let put = connection.request("PUT", &format!("{}&ttl=1h", entity("long")), Some(b"v"));
    assert_eq!(put.status, 201, "{}", put.text());
    let put = connection.request("PUT", &format!("{}&ttl=36500d", entity("for ages")), Some(b"v"));
    assert_eq!(put.status, 201, "longer than Cassandra knows: {}", put.text());
    let put = connection.request("PUT", &format!("{}&ttl=1ms", entity("short")), Some(b"v"));
    assert_eq!(put.status, 201, "{}", put.text());
    wait_until("the end of a value", || connection.value("short").is_none());
    let count = connection.request("GET", "/v0/entities?start=a&count=true", None);
    assert_eq!(count.text().trim(), "2");
    assert!(connection.get("long").header("ladoga-expires").is_some());
}

/// Keys of a range that is far larger than what a door may take for it; as many as one likes by this variable.
fn keys_of_a_long_range() -> usize {
    let typed = std::env::var("LADOGA_CASSANDRA_RANGE_KEYS").ok();
    typed.map_or(40_000, |text| text.parse().expect("LADOGA_CASSANDRA_RANGE_KEYS: a number"))
}

#[test]
fn a_long_range_takes_little_memory() {
    const VALUE_BYTES: usize = 4_000;
    const GROWTH_BYTES_MAX: u64 = 64 << 20;
    let Some(door) = door(|launch| launch.flag("--threads", "1")) else { return };
    let (count, value) = (keys_of_a_long_range(), "v".repeat(VALUE_BYTES));
    let mut connection = door.connect();
    for first in (0..count).step_by(1_000) {
        let line = |number| format!("{{\"op\":\"put\",\"key\":\"key{number:07}\",\"value\":\"{value}\"}}\n");
        let body: String = (first..count.min(first + 1_000)).map(line).collect();
        let stored = connection.request("POST", "/v0/batch", Some(body.as_bytes()));
        assert_eq!(stored.text().matches("\"status\":201").count(), count.min(first + 1_000) - first);
    }
    let before = door.resident_bytes();
    connection.send_request("GET", "/v0/entities?prefix=key", None);
    assert_eq!(connection.response_head().status, 200);
    let (mut records, mut most) = (0, before);
    while let Some((key, read)) = connection.next_record().expect("a record") {
        assert_eq!((key, read.len()), (format!("key{records:07}").into_bytes(), VALUE_BYTES));
        records += 1;
        if records % 1_000 == 0 {
            most = most.max(door.resident_bytes());
        }
    }
    assert_eq!(records, count);
    assert!(most < before + GROWTH_BYTES_MAX, "{before} bytes before, up to {most} during {records} records");
}
