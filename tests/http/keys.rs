use crate::support::{Node, assert_refusal, entity, percent_encoded};

#[test]
fn every_byte_may_stand_in_a_key() {
    let node = Node::start();
    let mut connection = node.connect();
    for byte in 0..=u8::MAX {
        connection.put([byte], &[byte]);
        connection.put([b'k', byte, b'k'], &[byte, byte]);
    }
    for byte in 0..=u8::MAX {
        assert_eq!(connection.value([byte]), Some(vec![byte]), "{byte:#04x}");
        assert_eq!(connection.value([b'k', byte, b'k']), Some(vec![byte, byte]), "{byte:#04x}");
    }
    let all: Vec<u8> = (0..=u8::MAX).collect();
    connection.put(&all, b"all");
    assert_eq!(connection.value(&all).as_deref(), Some(&b"all"[..]));
}

#[test]
fn a_percent_sequence_is_the_byte_that_it_stands_for() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("key~1", b"value");
    for id in ["key~1", "%6b%65%79%7e%31", "%6B%65%79%7E%31", "k%65y%7E1"] {
        let read = connection.request("GET", &format!("/v0/entity?id={id}"), None);
        assert_eq!((read.status, read.text()), (200, "value"), "{id}");
    }
    // Decoded once, and only once.
    connection.put("%41", b"percent");
    assert_eq!(connection.value("A"), None);
    assert_eq!(connection.request("GET", "/v0/entity?id=%2541", None).text(), "percent");
}

#[test]
fn a_plus_is_a_plus() {
    let node = Node::start();
    let mut connection = node.connect();
    let put = connection.request("PUT", "/v0/entity?id=a+b", Some(b"plus"));
    assert_eq!(put.status, 201);
    assert_eq!(connection.request("GET", "/v0/entity?id=a%2Bb", None).text(), "plus");
    assert_eq!(connection.request("GET", "/v0/entity?id=a%20b", None).status, 404);
    let range = connection.request("GET", "/v0/entities?start=a+", None);
    assert_eq!(range.records(), [(b"a+b".to_vec(), b"plus".to_vec())]);
}

#[test]
fn what_is_no_percent_sequence_is_refused() {
    let node = Node::start();
    let mut connection = node.connect();
    for bad in ["%", "a%", "%2", "a%2", "%zz", "%2z", "%z2", "%%20", "%+1", "%-1", "%0x", "a%2&x=1"] {
        for (method, body) in [("GET", None), ("PUT", Some(&b"v"[..])), ("DELETE", None)] {
            let target = format!("/v0/entity?id={bad}");
            assert_refusal(&connection.request(method, &target, body), 400, &format!("{method} {target}"));
        }
        for target in [format!("/v0/entities?start={bad}"), format!("/v0/entities?start=a&end={bad}")] {
            assert_refusal(&connection.request("GET", &target, None), 400, &target);
        }
    }
    assert_eq!(connection.request("GET", "/v0/entities?start=%00", None).records(), []);
}

#[test]
fn a_key_has_1_to_4096_bytes() {
    let node = Node::start();
    let mut connection = node.connect();
    for missing in [
        "/v0/entity",
        "/v0/entity?",
        "/v0/entity?id",
        "/v0/entity?id=",
        "/v0/entity?key=k",
        "/v0/entity?ID=k",
    ] {
        for (method, body) in [("GET", None), ("PUT", Some(&b"v"[..])), ("DELETE", None)] {
            assert_refusal(&connection.request(method, missing, body), 400, &format!("{method} {missing}"));
        }
    }
    for length in [1, 4_095, 4_096] {
        let key = vec![b'k'; length];
        connection.put(&key, length.to_string().as_bytes());
        assert_eq!(connection.value(&key), Some(length.to_string().into_bytes()));
        connection.delete(&key);
        assert_eq!(connection.value(&key), None);
    }
    for length in [4_097, 5_000] {
        let target = entity(vec![b'k'; length]);
        for (method, body) in [("GET", None), ("PUT", Some(&b"v"[..])), ("DELETE", None)] {
            assert_refusal(&connection.request(method, &target, body), 400, &format!("{method} {target}"));
        }
    }
}

#[test]
fn the_limit_of_a_key_counts_decoded_bytes() {
    let node = Node::start();
    let mut connection = node.connect();
    let longest = vec![0xff; 4_096];
    assert_eq!(percent_encoded(&longest).len(), 3 * 4_096);
    connection.put(&longest, b"longest");
    assert_eq!(connection.value(&longest).as_deref(), Some(&b"longest"[..]));
    let records = connection.request("GET", &crate::support::range(&longest, None), None).records();
    assert_eq!(records, [(longest, b"longest".to_vec())]);
    let over = vec![0xff; 4_097];
    assert_refusal(&connection.request("PUT", &entity(&over), Some(b"v")), 400, "PUT over the limit");
    assert_refusal(
        &connection.request("GET", &crate::support::range(&over, None), None),
        400,
        "start over it",
    );
    let target = crate::support::range("a", Some(&over));
    assert_refusal(&connection.request("GET", &target, None), 400, "end over the limit");
}

#[test]
fn parameters_come_in_any_order() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("k", b"v");
    for target in [
        "/v0/entity?id=k&replicas=1/1",
        "/v0/entity?replicas=1/1&id=k",
        "/v0/entity?ack=1&id=k&from=1",
        "/v0/entity?from=1&ack=1&id=k",
    ] {
        assert_eq!(connection.request("GET", target, None).text(), "v", "{target}");
    }
    let range = connection.request("GET", "/v0/entities?end=z&start=a", None);
    assert_eq!(range.records(), [(b"k".to_vec(), b"v".to_vec())]);
}
