use crate::resp_client::RespNode;
use crate::support::{Connection, Ladoga, assert_refusal, entity, value, wait_for};
use crate::tokens::{Tokens, ask};

/// However slow the machine is, it sends more than one request a second now and then.
fn until_throttled(connection: &mut Connection, token: &str) -> crate::support::Response {
    wait_for("a request too many", || {
        let response = ask(connection, ("GET", &entity("k")), Some(token), None);
        (response.status != 404).then_some(response)
    })
}

#[test]
fn who_sends_too_many_requests_is_told_when_to_come_back() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "read,write", &["--requests-per-second", "1"]);
    let ops = tokens.create("ops", "metrics,read", &[]);
    let node = tokens.launch().start();
    let refused = until_throttled(&mut node.connect(), &app);
    assert_refusal(&refused, 429, "a request too many");
    let wait_s: u64 = refused.header("retry-after").expect("a time").parse().expect("seconds");
    assert_eq!(wait_s, 1);
    assert!(refused.text().starts_with("the token has used its requests a second"), "{}", refused.text());
    let metrics = ask(&mut node.connect(), ("GET", "/metrics"), Some(&ops), None);
    assert!(
        !metrics.text().contains("ladoga_token_throttled_total{token=\"app\"} 0\n"),
        "{}",
        metrics.text()
    );
    assert!(
        metrics.text().contains("ladoga_token_throttled_total{token=\"ops\"} 0\n"),
        "others have their own"
    );
}

/// The quota of bytes is used up for longer than any test takes, so nothing here depends on how fast that is.
#[test]
fn who_has_moved_too_many_bytes_is_refused_before_the_body_is_read() {
    let tokens = Tokens::new();
    let rate = ["--bytes-per-second", "100"];
    let (app, other) = (tokens.create("app", "all", &rate), tokens.create("other", "all", &rate));
    let node = tokens.launch().start();
    let value = vec![7; 300_000];
    let mut connection = node.connect();
    let put = ask(&mut connection, ("PUT", &entity("k")), Some(&app), Some(&value));
    assert_eq!(put.status, 201, "a whole second's worth is free");
    connection.send(format!(
        "PUT {} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {app}\r\nContent-Length: 60000000\r\n\r\n",
        entity("k")
    ));
    let refused = connection.response();
    assert_refusal(&refused, 429, "a value too many");
    let wait_s: u64 = refused.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1_000..=3_000).contains(&wait_s), "{wait_s}");
    let mut connection = node.connect();
    let got = ask(&mut connection, ("GET", &entity("k")), Some(&other), None);
    assert_eq!((got.status, got.body.len()), (200, value.len()));
    let got = ask(&mut connection, ("GET", &entity("k")), Some(&other), None);
    assert_refusal(&got, 429, "what was sent counts, too");
}

/// Whoever announced a number could take everything from all who have the same token.
#[test]
fn what_is_announced_and_not_read_is_not_paid_for() {
    let tokens = Tokens::new();
    let app =
        tokens.create("app", "read,write,delete", &["--bytes-per-second", "10000", "--prefix", "user:"]);
    let ops = tokens.create("ops", "metrics", &[]);
    let node = tokens.launch().start();
    let unless_it_is_there = "If-Match: *\r\nExpect: 100-continue\r\n";
    for (method, key, announced, fields, status) in [
        ("PUT", "user:k", "18446744073709551615", "", 413),
        ("PUT", "a", "60000000", "", 403),
        ("DELETE", "user:k", "60000000", "", 202),
        ("GET", "user:k", "60000000", "", 404),
        ("PUT", "user:k", "60000000", unless_it_is_there, 412),
        ("PUT", "user:k", "200000", unless_it_is_there, 412),
    ] {
        let mut connection = node.connect();
        connection.send(format!(
            "{method} {} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {app}\r\nContent-Length: {announced}\r\n{fields}\r\n",
            entity(key)
        ));
        assert_eq!(connection.response().status, status, "{method} {key} {announced}");
    }
    let put = ask(&mut node.connect(), ("PUT", &entity("user:k")), Some(&app), Some(b"value"));
    assert_eq!(put.status, 201, "it has used nothing");
    let metrics = ask(&mut node.connect(), ("GET", "/metrics"), Some(&ops), None);
    let bytes =
        metrics.text().lines().find(|line| line.starts_with("ladoga_token_bytes_total{token=\"app\"}"));
    let bytes = bytes.and_then(|line| line.split(' ').next_back()?.parse::<u64>().ok()).expect("a metric");
    assert!((5..5_000).contains(&bytes), "the value, and errors: {bytes}");
}

#[test]
fn lines_of_a_batch_are_requests() {
    let tokens = Tokens::new();
    let rate = ["--bytes-per-second", "100"];
    let app = tokens.create("app", "all", &rate);
    let node = tokens.launch().start();
    let line = format!("{{\"op\":\"put\",\"key\":\"k\",\"value\":\"{}\"}}\n", "v".repeat(10_000));
    let mut connection = node.connect();
    connection.send(format!(
        "POST /v0/batch HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {app}\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
    connection.send(format!("{:x}\r\n{line}\r\n", line.len()));
    connection.send(format!("{:x}\r\n{line}\r\n0\r\n\r\n", line.len()));
    let answered = connection.response();
    let last = answered.text().lines().last().expect("an answer to each line").to_owned();
    assert!(last.starts_with("{\"status\":429,\"error\":\"the token has used its bytes a second"), "{last}");
}

/// It stored what the token may use in a second and passed over the rest, as often as it was repeated.
#[test]
fn an_import_waits_for_the_rate_of_its_token() {
    const RECORDS: usize = 12;
    let tokens = Tokens::new();
    let app = tokens.create("app", "write", &["--requests-per-second", "5"]);
    let ops = tokens.create("ops", "range", &[]);
    let node = tokens.launch().start();
    let line = |number| format!("{{\"key\":\"{number}\",\"value\":\"v\"}}\n");
    let lines: String = (0..RECORDS).map(line).collect();
    let import = Ladoga::new(["import", "-", "--url", &node.url()]).env("LADOGA_TOKEN", &app);
    assert_eq!(import.input(lines.as_bytes()).run().expect_success().stderr, "12 records stored\n");
    let count = ("GET", "/v0/entities?start=%00&count=true");
    assert_eq!(ask(&mut node.connect(), count, Some(&ops), None).text().trim(), RECORDS.to_string());
}

/// A batch of one line is one request: the first line is paid for with the batch.
#[test]
fn a_batch_of_one_line_is_one_request() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "all", &["--requests-per-second", "1"]);
    let node = tokens.launch().start();
    let lines = b"no operation\n{\"op\":\"put\",\"key\":\"k\",\"value\":\"v\"}\n";
    let answered = ask(&mut node.connect(), ("POST", "/v0/batch"), Some(&app), Some(lines));
    assert_eq!(answered.status, 200, "{}", answered.text());
    let last = answered.text().lines().last().expect("an answer to each line");
    assert!(last.starts_with("{\"status\":201"), "{last}");
}

/// They are paid for, for longer than any test takes.
#[test]
fn lines_of_an_atomic_batch_that_is_refused_are_requests_too() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "all", &["--requests-per-second", "10"]);
    let node = tokens.launch().start();
    let lines = "{\"op\":\"get\",\"key\":\"k\"}\n".repeat(1_000);
    let mut connection = node.connect();
    let refused = ask(&mut connection, ("POST", "/v0/batch?atomic=true"), Some(&app), Some(lines.as_bytes()));
    assert_eq!(refused.status, 400, "{}", refused.text());
    let refused = ask(&mut connection, ("GET", &entity("k")), Some(&app), None);
    assert_refusal(&refused, 429, "a request too many");
}

#[test]
fn commands_are_requests_too() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "all", &["--bytes-per-second", "100"]);
    let node = RespNode::launch(tokens.launch());
    let mut client = node.connect();
    assert_eq!(client.ask(&format!("AUTH {app}")), "+OK\r\n");
    assert_eq!(client.ask(&format!("SET k {}", "v".repeat(100_000))), "+OK\r\n");
    let refused = client.ask("GET k");
    assert!(
        refused.starts_with("-ERR the token has used its bytes a second; expected a request after"),
        "{refused}"
    );
}

/// What is refused before it is read is not paid for here, either.
#[test]
fn a_large_value_that_is_refused_is_not_paid_for() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "all", &["--bytes-per-second", "10000"]);
    let node = RespNode::launch(tokens.launch());
    let login = format!("AUTH {app}");
    let mut client = node.connect();
    assert_eq!(client.ask(&login), "+OK\r\n");
    let key = "k".repeat(5_000);
    client.send(format!("*3\r\n$3\r\nSET\r\n$5000\r\n{key}\r\n$60000000\r\n").as_bytes());
    let told = client.line();
    assert!(told.starts_with("-ERR") && told.contains("key"), "{told}");
    let mut client = node.connect();
    assert_eq!(client.ask(&login), "+OK\r\n");
    assert_eq!(client.ask("SET k v"), "+OK\r\n");
}

/// The quota is used up for longer than any test takes, by what was sent over connections that ask for nothing else.
#[test]
fn what_a_connection_is_sent_at_its_end_counts() {
    let tokens = Tokens::new();
    let rate = ["--bytes-per-second", "100"];
    let (ops, long) = (tokens.create("ops", "all", &[]), vec![b'v'; 100_000]);
    // What waits for others before it is sent, and what is sent at once.
    let values = [("short", &long[..10_000]), ("long", &long[..])];
    let cases: Vec<_> = ["QUIT", "RESET", "PING", "AUTH ops"]
        .into_iter()
        .flat_map(|last| values.map(|(key, _)| (key, last.replace("ops", &ops))))
        .collect();
    let apps: Vec<_> =
        (0..cases.len()).map(|number| tokens.create(&format!("app{number}"), "read", &rate)).collect();
    let node = RespNode::launch(tokens.launch());
    let mut client = node.connect();
    assert_eq!(client.ask(&format!("AUTH {ops}")), "+OK\r\n");
    for (key, value) in values {
        assert_eq!(client.ask_bytes(&[b"SET", key.as_bytes(), value]), b"+OK\r\n");
    }
    for (app, (key, last)) in apps.iter().zip(cases) {
        let mut client = node.connect();
        client.send(format!("AUTH {app}\r\nGET {key}\r\n{last}\r\n").as_bytes());
        client.finish_sending();
        client.rest();
        let mut client = node.connect();
        assert_eq!(client.ask(&format!("AUTH {app}")), "+OK\r\n");
        let told = client.ask("STRLEN short");
        assert!(told.starts_with("-ERR the token has used its bytes"), "{last} behind {key}: {told}");
    }
}

#[test]
fn what_is_fetched_for_a_backup_counts() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "admin", &["--bytes-per-second", "100"]);
    let ops = tokens.create("ops", "all", &[]);
    let node = tokens.launch().start();
    let mut connection = node.connect();
    let put = ask(&mut connection, ("PUT", &entity("large")), Some(&ops), Some(&value(3, 900_000)));
    assert_eq!(put.status, 201);
    let json = |response: crate::support::Response| -> serde_json::Value {
        serde_json::from_slice(&response.body).expect("JSON")
    };
    let begun = json(ask(&mut connection, ("POST", "/v0/backup"), Some(&ops), None));
    let target = format!("/v0/backup?id={}&file=", begun["id"].as_str().expect("a name"));
    let listing = json(ask(&mut connection, ("GET", &format!("{target}listing")), Some(&ops), None));
    let names = listing["files"].as_array().expect("files").iter().filter_map(|file| file["name"].as_str());
    let large = names.into_iter().find(|name| name.starts_with("blobs/")).expect("a file of the value");
    let target = format!("{target}{large}");
    let piece = ask(&mut connection, ("GET", &target), Some(&app), None);
    assert_eq!((piece.status, piece.body.len()), (200, 256 << 10), "a whole second's worth is free");
    let refused = ask(&mut connection, ("GET", &target), Some(&app), None);
    assert_refusal(&refused, 429, "a piece too many");
    let wait_s: u64 = refused.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1_000..=3_000).contains(&wait_s), "{wait_s}");
    assert_eq!(ask(&mut connection, ("GET", &target), Some(&ops), None).status, 200, "others have their own");
}

/// The quota is used up for longer than any test takes. An `EXEC` that was refused left the transaction open, and what came behind it was
/// kept for one that never came.
#[test]
fn a_transaction_of_a_token_that_has_used_up_its_rate_ends_where_it_should() {
    let tokens = Tokens::new();
    let rate = ["--bytes-per-second", "100"];
    let (app, other) = (tokens.create("app", "all", &rate), tokens.create("other", "all", &rate));
    let node = RespNode::launch(tokens.launch());
    let (mut client, long) = (node.connect(), "v".repeat(100_000));
    assert_eq!(client.ask(&format!("AUTH {app}")), "+OK\r\n");
    let refused = "-ERR the token has used its bytes a second";
    for (command, reply) in [
        ("MULTI", "+OK\r\n"),
        (&*format!("SET k {long}"), "+QUEUED\r\n"),
        ("EXEC", "*1\r\n+OK\r\n"),
        ("SET k x", refused),
        // What is sent behind it must not happen by itself.
        ("MULTI", "+OK\r\n"),
        ("SET k x", refused),
        ("UNWATCH", "+QUEUED\r\n"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
        ("EXEC", "-ERR EXEC without MULTI\r\n"),
        ("MULTI", "+OK\r\n"),
        ("DISCARD", "+OK\r\n"),
        ("UNWATCH", "+OK\r\n"),
        ("DISCARD", "-ERR DISCARD without MULTI\r\n"),
    ] {
        let told = client.ask(command);
        assert!(told.starts_with(reply), "{command:.20}: {told}");
    }
    assert_eq!(client.ask(&format!("AUTH {other}")), "+OK\r\n");
    assert_eq!(client.ask("STRLEN k"), ":100000\r\n");
}
