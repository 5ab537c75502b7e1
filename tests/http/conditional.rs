use std::sync::Arc;

use crate::support::{
    Connection, Exchange, Expected, Node, Response, assert_refusal, bytes_of, differs_on_cassandra, entity,
    exchange_cut, value,
};

const LARGE: usize = 400_000;

/// A request with more headers and perhaps a body.
fn ask(connection: &mut Connection, method: &str, key: &str, headers: &str, body: Option<&[u8]>) -> Response {
    let length = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.len()));
    let head = format!("{method} {} HTTP/1.1\r\nHost: h\r\n{headers}{length}\r\n", entity(key));
    connection.send([head.as_bytes(), body.unwrap_or_default()].concat());
    if method == "HEAD" { connection.response_to_head() } else { connection.response() }
}

#[track_caller]
fn etag(response: &Response) -> String {
    response.header("etag").unwrap_or_else(|| panic!("no ETag: {response:?}")).to_owned()
}

#[test]
fn every_answer_about_an_entity_has_its_etag() {
    let node = Node::start();
    let mut connection = node.connect();
    for length in [5, LARGE] {
        let key = format!("key{length}");
        let bytes = value(1, length);
        let absent = ask(&mut connection, "GET", &key, "", None);
        assert_eq!((absent.status, absent.header("etag")), (404, None), "there never was one");
        let put = ask(&mut connection, "PUT", &key, "", Some(&bytes));
        let of_put = etag(&put);
        let digits = of_put.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).expect("quotes");
        assert!(digits.len() == 21 && digits.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit()), "{of_put}");
        for method in ["GET", "HEAD"] {
            let read = ask(&mut connection, method, &key, "", None);
            assert_eq!((read.status, etag(&read)), (200, of_put.clone()), "{method}");
        }
        let again = etag(&ask(&mut connection, "PUT", &key, "", Some(&bytes)));
        assert_ne!(again, of_put, "the same bytes, written again");
        let of_delete = etag(&ask(&mut connection, "DELETE", &key, "", None));
        let gone = ask(&mut connection, "GET", &key, "", None);
        assert_eq!(gone.status, 404);
        if differs_on_cassandra("the version of a deletion is forgotten") {
            continue;
        }
        assert_eq!(etag(&gone), of_delete);
        assert_eq!(etag(&ask(&mut connection, "HEAD", &key, "", None)), of_delete);
    }
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let node = Node::start();
    let mut connection = node.connect();
    for length in [0, 5, LARGE] {
        let bytes = value(1, length);
        let tag = etag(&ask(&mut connection, "PUT", "k", "", Some(&bytes)));
        for method in ["GET", "HEAD"] {
            // Proxies that compress what they pass on make tags weak.
            for header in [
                format!("If-None-Match: {tag}\r\n"),
                format!("If-None-Match: \"x\", W/{tag}\r\n"),
                "if-none-match: *\r\n".to_owned(),
            ] {
                let read = ask(&mut connection, method, "k", &header, None);
                assert_eq!(
                    (read.status, &read.body[..], etag(&read)),
                    (304, &b""[..], tag.clone()),
                    "{header}"
                );
                assert_eq!(read.header("content-length"), None, "it would be that of the value");
            }
            for header in [
                "If-None-Match: \"another\"\r\n".to_owned(),
                "If-None-Match: W/\"another\"\r\n".to_owned(),
                format!("If-Match: {tag}\r\n"),
            ] {
                let read = ask(&mut connection, method, "k", &header, None);
                assert_eq!((read.status, etag(&read)), (200, tag.clone()), "{method} {header}");
            }
            for header in ["If-Match: \"another\"\r\n".to_owned(), format!("If-Match: W/{tag}\r\n")] {
                let read = ask(&mut connection, method, "k", &header, None);
                assert_eq!((read.status, etag(&read)), (412, tag.clone()), "{method} {header}");
            }
        }
    }
    connection.delete("k");
    assert_eq!(ask(&mut connection, "GET", "k", "If-None-Match: *\r\n", None).status, 404);
    assert_eq!(ask(&mut connection, "GET", "k", "If-Match: *\r\n", None).status, 412);
}

#[test]
fn a_write_with_a_condition_happens_if_that_is_true() {
    let node = Node::start();
    let mut connection = node.connect();
    for length in [5, 100_000, LARGE] {
        let [first, second] = [1, 2].map(|seed| value(seed, length));
        let key = format!("key{length}");
        let mut put = |headers: &str, bytes: &[u8]| {
            let response = ask(&mut connection, "PUT", &key, headers, Some(bytes));
            // A value that was refused before it was read may be the end of its connection.
            if response.closes() {
                connection = node.connect();
            }
            response
        };
        assert_eq!(put("If-Match: *\r\n", &first).status, 412, "there is nothing");
        let created = put("If-None-Match: *\r\n", &first);
        assert_eq!(created.status, 201);
        let taken = put("If-None-Match: *\r\n", &second);
        assert_refusal(&taken, 412, "If-None-Match: *");
        assert_eq!(etag(&taken), etag(&created), "what is there is told");
        let replaced = put(&format!("If-Match: \"x\", {}\r\n", etag(&created)), &second);
        assert_eq!(replaced.status, 201);
        for headers in [
            format!("If-Match: {}\r\n", etag(&created)),
            format!("If-Match: W/{}\r\n", etag(&replaced)),
            "If-Match: \"x\"\r\nIf-Match: \"y\"\r\n".to_owned(),
            format!("If-Match: {}\r\nIf-None-Match: *\r\n", etag(&replaced)),
            format!("If-Match: {}\r\nIf-None-Match: *\r\n", etag(&created)),
        ] {
            let refused = put(&headers, &first);
            assert_refusal(&refused, 412, &headers);
            assert_eq!(etag(&refused), etag(&replaced), "{headers}");
        }
        let mut connection = node.connect();
        assert!(connection.value(&key).as_ref() == Some(&second), "nothing of what was refused happened");
        let mut delete = |headers: &str| ask(&mut connection, "DELETE", &key, headers, None);
        assert_refusal(&delete(&format!("If-Match: {}\r\n", etag(&created))), 412, "an old ETag");
        let deleted = delete(&format!("If-Match: \"x\"\r\nIf-Match: {}\r\n", etag(&replaced)));
        assert_eq!(deleted.status, 202);
        let again = delete("If-Match: *\r\n");
        assert_eq!(again.status, 412);
        if !differs_on_cassandra("the version of a deletion is forgotten") {
            assert_eq!(etag(&again), etag(&deleted));
        }
        let of_deletion = delete(&format!("If-Match: {}\r\n", etag(&deleted)));
        assert_eq!(of_deletion.status, 412, "a deletion is as if nothing were there");
        assert_eq!(delete("If-None-Match: *\r\n").status, 202);
    }
}

#[test]
fn nonsense_is_refused() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("k", b"value");
    let many = vec!["\"a\""; 65].join(",");
    let nonsense = [
        "",
        ",",
        "abc",
        "\"abc",
        "w/\"a\"",
        "\"a\" \"b\"",
        "\"a\", *",
        "*, *",
        "\"a b\"",
        "'a'",
        many.as_str(),
    ];
    for tags in nonsense {
        for name in ["If-Match", "If-None-Match"] {
            for method in ["GET", "HEAD", "PUT", "DELETE"] {
                let body = (method == "PUT").then_some(&b"other"[..]);
                let response = ask(&mut connection, method, "k", &format!("{name}: {tags}\r\n"), body);
                assert_eq!(response.status, 400, "{method} {name}: {tags}");
                if response.closes() {
                    connection = node.connect();
                }
            }
        }
    }
    let listed = ask(&mut connection, "DELETE", "k", "If-None-Match: \"a\"\r\n", None);
    assert_refusal(&listed, 400, "a list in If-None-Match of a write");
    for two in ["If-Match: *\r\nIf-Match: *\r\n", "If-Match: \"a\"\r\nIf-Match: *\r\n"] {
        assert_refusal(&ask(&mut connection, "DELETE", "k", two, None), 400, two);
    }
    assert_eq!(node.connect().value("k").as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_client_that_expects_to_be_told_hears_of_its_condition_first() {
    let node = Node::start();
    node.connect().put("k", b"value");
    for length in [5, 100_000, LARGE] {
        let mut connection = node.connect();
        let head = |condition| {
            format!(
                "PUT {} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n{condition}\r\nContent-Length: {length}\r\n\r\n",
                entity("k")
            )
        };
        connection.send(head("If-None-Match: *"));
        assert_refusal(&connection.response(), 412, "If-None-Match: *");
        let mut connection = node.connect();
        connection.send(head("If-Match: *"));
        assert_eq!(connection.response().status, 100);
        connection.send(value(1, length));
        assert_eq!(connection.response().status, 201, "{length}");
    }
}

/// The condition holds when the request comes, and no longer when its value has arrived.
#[test]
fn what_counts_is_whether_it_is_true_when_it_is_written() {
    let node = Node::start();
    for length in [5, 100_000, LARGE] {
        node.connect().delete("k");
        let bytes = value(1, length);
        let mut slow = node.connect();
        slow.send(format!(
            "PUT {} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nIf-None-Match: *\r\nContent-Length: {length}\r\n\r\n",
            entity("k")
        ));
        assert_eq!(slow.response().status, 100, "there was nothing");
        node.connect().put("k", b"faster");
        slow.send(&bytes);
        let response = slow.response();
        assert_refusal(&response, 412, "a value that came too late");
        let mut connection = node.connect();
        assert_eq!(etag(&response), etag(&connection.get("k")));
        assert_eq!(connection.value("k").as_deref(), Some(&b"faster"[..]));
        assert!(!response.closes(), "its value was read");
        assert_eq!(slow.get("k").status, 200);
    }
}

#[test]
fn conditions_in_pipelines_hold_wherever_they_are_cut() {
    let node = Node::start();
    let (first, second) = (Arc::new(b"first".to_vec()), Arc::new(b"second".to_vec()));
    let put = |condition: &str, body: &[u8], expected| {
        let headers = format!("{condition}Content-Length: {}\r\n", body.len());
        Exchange::new(&format!("PUT {}", entity("k")), &headers, body, expected)
    };
    let delete = |condition: &str, expected| {
        Exchange::new(&format!("DELETE {}", entity("k")), condition, b"", expected)
    };
    let pipeline = [
        delete("", Expected::Empty(202)),
        put("If-Match: *\r\n", &second, Expected::RefusedWithBody(412)),
        put("If-None-Match: *\r\n", &first, Expected::Empty(201)),
        put("If-None-Match: *\r\n", &second, Expected::RefusedWithBody(412)),
        Exchange::get("k", &first),
        delete("If-Match: \"x\"\r\n", Expected::Refused(412)),
        put("If-Match: \"x\",\r\nIf-Match: \"y\"\r\n", &second, Expected::RefusedWithBody(412)),
        put("If-Match: *\r\n", &second, Expected::Empty(201)),
        Exchange::get("k", &second),
        delete("If-Match: *\r\n", Expected::Empty(202)),
    ];
    // One after the other: they are about one key.
    for cut in (1..bytes_of(&pipeline).len()).step_by(2) {
        exchange_cut(node.address(), &pipeline, &[vec![cut]], "conditions");
    }
}
