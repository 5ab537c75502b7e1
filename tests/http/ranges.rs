use crate::support::{Connection, Node, assert_refusal, differs_on_cassandra, range, value};

fn keys(connection: &mut Connection, start: &[u8], end: Option<&[u8]>) -> Vec<Vec<u8>> {
    let response = connection.request("GET", &range(start, end), None);
    assert_eq!(response.status, 200);
    response.records().into_iter().map(|(key, _)| key).collect()
}

fn bytes(keys: &[&str]) -> Vec<Vec<u8>> {
    keys.iter().map(|key| key.as_bytes().to_vec()).collect()
}

#[test]
fn the_start_is_included_and_the_end_is_not() {
    let node = Node::start();
    let mut connection = node.connect();
    for key in ["c", "a", "d", "b"] {
        connection.put(key, key.as_bytes());
    }
    let mut ask =
        |start: &str, end: Option<&str>| keys(&mut connection, start.as_bytes(), end.map(str::as_bytes));
    assert_eq!(ask("a", Some("c")), bytes(&["a", "b"]));
    assert_eq!(ask("a", Some("c\0")), bytes(&["a", "b", "c"]));
    assert_eq!(ask("b", None), bytes(&["b", "c", "d"]));
    assert_eq!(ask("aa", Some("cc")), bytes(&["b", "c"]));
    assert_eq!(ask("A", Some("zzz")), bytes(&["a", "b", "c", "d"]));
}

#[test]
fn a_range_may_be_empty() {
    let node = Node::start();
    let mut connection = node.connect();
    assert_eq!(keys(&mut connection, b"a", None), bytes(&[]), "an empty store");
    connection.put("m", b"value");
    for (start, end) in [("a", Some("m")), ("m", Some("m")), ("n", None), ("z", Some("a")), ("m\0", None)] {
        let response = connection.request("GET", &range(start, end.map(str::as_bytes)), None);
        assert_eq!(response.status, 200, "{start}");
        assert_eq!(response.header("transfer-encoding"), Some("chunked"), "{start}");
        assert_eq!(response.chunks.as_deref(), Some(&[][..]), "{start}");
    }
}

#[test]
fn every_record_is_one_chunk() {
    let node = Node::start();
    let mut connection = node.connect();
    let values: [&[u8]; 6] =
        [b"", b"\n", b"two\nlines\n", b"\r\n0\r\n\r\n", &[0, 255, 10, 13], &[b'x'; 5_000]];
    for (index, value) in values.iter().enumerate() {
        connection.put(format!("key{index}"), value);
    }
    let response = connection.request("GET", &range("key", None), None);
    assert_eq!(response.header("content-type"), Some("application/octet-stream"));
    assert_eq!(response.header("content-length"), None);
    let expected = values.iter().enumerate().map(|(index, value)| {
        let mut chunk = format!("key{index}\n").into_bytes();
        chunk.extend_from_slice(value);
        chunk
    });
    assert_eq!(response.chunks, Some(expected.collect()));
    assert_eq!(connection.request("GET", "/v0/status", None).status, 200, "the connection goes on");
}

#[test]
fn records_are_sorted_by_the_bytes_of_their_keys() {
    let node = Node::start();
    let mut connection = node.connect();
    let mut expected: Vec<Vec<u8>> =
        (0..=u8::MAX).filter(|&byte| byte != b'\n').map(|byte| vec![byte]).collect();
    for key in ["a\0", "aa", "ab", "a\u{ff}", "key1", "key10", "key2", "BB", "\u{42f}"] {
        expected.push(key.as_bytes().to_vec());
    }
    for key in expected.iter().rev() {
        connection.put(key, b"v");
    }
    expected.sort();
    assert_eq!(keys(&mut connection, &[0], None), expected);
    let above = expected.iter().filter(|key| key[0] >= 0x80).cloned().collect::<Vec<_>>();
    assert_eq!(keys(&mut connection, &[0x80], None), above);
}

#[test]
fn a_newline_in_a_key_stays_in_its_chunk() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("a\nb", b"value");
    let response = connection.request("GET", &range("a", None), None);
    assert_eq!(response.chunks, Some(vec![b"a\nb\nvalue".to_vec()]));
}

#[test]
fn only_what_is_there_now_is_in_a_range() {
    let mut node = Node::start();
    let mut connection = node.connect();
    for key in ["a", "b", "c", "d"] {
        connection.put(key, b"first");
    }
    node.restart();
    let mut connection = {
        drop(connection);
        node.connect()
    };
    connection.put("b", b"second");
    connection.delete("c");
    connection.delete("never");
    let records = connection.request("GET", &range("a", None), None).records();
    let expected = [("a", "first"), ("b", "second"), ("d", "first")];
    assert_eq!(records, expected.map(|(key, value)| (key.into(), value.into())));
}

#[test]
fn large_values_are_one_chunk_each_too() {
    let node = Node::start();
    let mut connection = node.connect();
    let sizes = [300_000, 10, 1 << 20, (1 << 20) + 1, 262_144];
    for (index, size) in sizes.into_iter().enumerate() {
        connection.put(format!("k{index}"), &value(index as u64, size));
    }
    let records = connection.request("GET", &range("k", None), None).records();
    assert_eq!(records.len(), sizes.len());
    for (index, size) in sizes.into_iter().enumerate() {
        assert!(records[index].1 == value(index as u64, size), "the value of {size} bytes is another");
    }
}

#[test]
fn a_range_is_a_snapshot() {
    if differs_on_cassandra("each part of a range is as it is when it is read") {
        return;
    }
    let node = Node::start();
    let mut writer = node.connect();
    // More than the buffers between the two ends hold, so that the node cannot have sent it all at once.
    let original = |index: u64| value(index, 64 << 10);
    for index in 0..512 {
        writer.put(format!("key{index:04}"), &original(index));
    }
    let mut reader = node.connect();
    reader.send_request("GET", &range("key", None), None);
    assert_eq!(reader.response_head().status, 200);
    let first = reader.next_record().expect("a stream").expect("a record");
    assert!(first == (b"key0000".to_vec(), original(0)));

    for index in 256..512 {
        match index % 3 {
            0 => writer.delete(format!("key{index:04}")),
            _ => writer.put(format!("key{index:04}"), b"replaced"),
        }
        writer.put(format!("key{index:04}a"), b"inserted");
    }
    for index in 1..512 {
        let (key, found) = reader.next_record().expect("a stream").expect("a record");
        assert_eq!(key, format!("key{index:04}").into_bytes());
        assert!(found == original(index), "key{index:04} is not what it was");
    }
    assert_eq!(reader.next_record().expect("the end of a stream"), None);
    assert_eq!(reader.value("key0257").as_deref(), Some(&b"replaced"[..]));
}

#[test]
fn a_range_needs_a_start_and_no_empty_end() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("a", b"value");
    for query in
        ["", "?", "?start", "?start=", "?end=z", "?start=&end=z", "?start=a&end=", "?start=a&end", "?id=a"]
    {
        let target = format!("/v0/entities{query}");
        assert_refusal(&connection.request("GET", &target, None), 400, &target);
    }
    let long = format!("/v0/entities?start={}", "k".repeat(4_097));
    assert_refusal(&connection.request("GET", &long, None), 400, &long);
}

#[test]
fn ranges_are_pipelined_like_anything_else() {
    let node = Node::start();
    let mut connection = node.connect();
    for index in 0..50 {
        connection.put(format!("k{index:02}"), &value(index, 1_000));
    }
    let one = format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", range("k10", Some(b"k20")));
    let get = "GET /v0/entity?id=k00 HTTP/1.1\r\nHost: h\r\n\r\n";
    connection.send(format!("{one}{get}").repeat(10));
    for _ in 0..10 {
        assert_eq!(connection.response().records().len(), 10);
        assert!(connection.response().body == value(0, 1_000));
    }
}
