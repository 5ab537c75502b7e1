use crate::support::{Ladoga, Launch, differs_on_cassandra, entity, value};

fn copy(from: &str, to: &str) -> Ladoga {
    Ladoga::new(["copy", "--from", from, "--to", to, "--verify"])
}

#[test]
fn a_store_moves_to_cassandra_and_back() {
    const COUNT: usize = 2_000;
    if !differs_on_cassandra("this is only about doors") {
        return;
    }
    let (node, door, back) = (Launch::embedded().start(), Launch::new().start(), Launch::embedded().start());
    let mut connection = node.connect();
    let line = |number| format!("{{\"op\":\"put\",\"key\":\"key{number}\",\"value\":\"{number}\"}}\n");
    let body: String = (0..COUNT).map(line).collect();
    assert_eq!(connection.request("POST", "/v0/batch", Some(body.as_bytes())).status, 200);
    let large = value(1, 3_000_000);
    connection.put([0xff, b'\n'], &large);
    // Text, which each engine prints in another way from some length on.
    connection.put("text", "deep and cold ".repeat(30_000).as_bytes());
    connection.put("empty", b"");
    let put = connection.request("PUT", &format!("{}&ttl=1h", entity("fog")), Some(b"mist"));
    assert_eq!(put.status, 201);
    let said = format!("{0} records copied\n{0} records are the same\n", COUNT + 4);
    let copied = copy(&node.url(), &door.url()).run().expect_success();
    assert_eq!(copied.stderr, said);
    let expires = door.connect().get("fog").header("ladoga-expires").map(str::len);
    assert_eq!(expires, Some(13), "milliseconds since 1970");
    let copied = copy(&door.url(), &back.url()).run().expect_success();
    assert_eq!(copied.stderr, said);
    assert!(back.connect().value([0xff, b'\n']) == Some(large));
}
