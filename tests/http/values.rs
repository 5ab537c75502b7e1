use crate::support::{Connection, Node, entity, range, value};

/// From this length on a value lives in a file of its own.
const BLOB_BYTES: usize = 256 << 10;
const VALUE_BYTES_MAX: usize = 64 << 20;

#[test]
fn values_of_every_size_come_back() {
    let mut node = Node::start();
    let mut connection = node.connect();
    let sizes = [0, 1, 2, 4_095, 4_096, 4_097, 65_535, 65_536, 100_000, 1 << 20, 3_000_001];
    for size in sizes {
        connection.put(format!("size{size}"), &value(size as u64, size));
    }
    let check = |connection: &mut Connection| {
        for size in sizes {
            let found = connection.value(format!("size{size}"));
            assert!(found == Some(value(size as u64, size)), "the value of {size} bytes is another");
        }
    };
    check(&mut connection);
    node.restart();
    check(&mut node.connect());
}

#[test]
fn nothing_happens_where_values_move_to_files_of_their_own() {
    let mut node = Node::start();
    let mut connection = node.connect();
    let sizes = [BLOB_BYTES - 1, BLOB_BYTES, BLOB_BYTES + 1];
    for size in sizes {
        connection.put("changing", &value(size as u64, size));
        assert!(connection.value("changing") == Some(value(size as u64, size)), "{size}");
        connection.put(format!("key{size}"), &value(size as u64, size));
    }
    connection.put("changing", b"short");
    node.crash();
    let mut connection = node.connect();
    assert_eq!(connection.value("changing").as_deref(), Some(&b"short"[..]));
    let records = connection.request("GET", &range("key", Some(b"kez")), None).records();
    assert_eq!(records.len(), sizes.len());
    for (size, (key, found)) in sizes.into_iter().zip(records) {
        assert_eq!(key, format!("key{size}").into_bytes());
        assert!(found == value(size as u64, size), "{size}");
    }
}

#[test]
fn a_value_of_64_mib_is_accepted_and_one_byte_more_is_not() {
    let mut node = Node::start();
    let mut connection = node.connect();
    let largest = value(64, VALUE_BYTES_MAX);
    connection.put("largest", &largest);
    assert!(connection.value("largest").as_ref() == Some(&largest), "another value came back");
    let head = connection.request("HEAD", &entity("largest"), None);
    assert_eq!(head.header("content-length"), Some(VALUE_BYTES_MAX.to_string().as_str()));

    let length = VALUE_BYTES_MAX + 1;
    let head = format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n", entity("larger"));
    let mut other = node.connect();
    other.send(head);
    crate::support::assert_refusal(&other.response(), 413, "PUT of 64 MiB and a byte");
    assert_eq!(connection.value("larger"), None);

    let records = connection.request("GET", &range("l", None), None).records();
    assert_eq!(records.len(), 1);
    assert!(records[0].1 == largest, "another value came in the range");

    node.crash();
    let mut connection = node.connect();
    assert!(connection.value("largest") == Some(largest), "another value came back after a crash");
    connection.delete("largest");
    assert_eq!(connection.value("largest"), None);
}

#[test]
fn large_and_small_values_replace_each_other() {
    let node = Node::start();
    let mut connection = node.connect();
    for (round, size) in [10, 1 << 20, 300_000, 0, 2 << 20, BLOB_BYTES, 5].into_iter().enumerate() {
        let expected = value(round as u64, size);
        connection.put("key", &expected);
        assert!(connection.value("key") == Some(expected), "round {round}, {size} bytes");
    }
    connection.put("key", &value(9, 1 << 20));
    connection.delete("key");
    assert_eq!(connection.value("key"), None);
}
