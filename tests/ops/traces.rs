use std::fs;

use crate::collector::{Answers, Collector, Span};
use crate::support::{Connection, Directory, Ladoga, Launch, Node, Port, Response, entity, wait_until};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const KEY: &str = "a-key-that-no-collector-is-to-see";
const VALUE: &[u8] = b"a-value-that-no-collector-is-to-see";
const SECRET: &str = "a-secret-for-the-collector-only";

fn traceparent(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{PARENT}-{flags}\r\n")
}

/// A request with these fields.
fn ask(connection: &mut Connection, line: &str, fields: &str, body: &[u8]) -> Response {
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nHost: ladoga\r\nContent-Length: {length}\r\n{fields}\r\n");
    connection.send([head.as_bytes(), body].concat());
    connection.response()
}

fn launch(collector: &str, share: &str) -> Launch {
    Launch::new().flag("--otlp", collector).env("LADOGA_OTLP_SAMPLE", share).flag("--threads", "1")
}

/// Nodes of one cluster, all of which are in touch.
fn cluster(collector: &Collector) -> Vec<Node> {
    let launches: Vec<Launch> = (0..3).map(|_| launch(&collector.url(), "0")).collect();
    let urls = launches.iter().map(Launch::url).collect::<Vec<_>>().join(",");
    let patient = |launch: Launch| {
        let launch = launch.flag("--cluster", &urls).flag("--memory", "32MiB");
        let patience = [("PEER", "20000"), ("PEER_CONNECT", "20000"), ("QUORUM", "60000")];
        patience.into_iter().fold(launch, |launch, (name, timeout_ms)| {
            launch.env(&format!("LADOGA_{name}_TIMEOUT_MS"), timeout_ms)
        })
    };
    let mut nodes: Vec<Node> = launches.into_iter().map(|launch| patient(launch).spawn()).collect();
    nodes.iter_mut().for_each(Node::wait_until_it_serves);
    let probe = format!("{}&replicas=3/3", entity("probe"));
    for node in &nodes {
        wait_until("a request that needs all nodes", || {
            node.connect().request("PUT", &probe, Some(b"1")).status == 201
        });
    }
    nodes
}

fn named<'s>(spans: &'s [Span], name: &str, kind: u64) -> Vec<&'s Span> {
    spans.iter().filter(|span| span.name == name && span.kind == kind).collect()
}

fn assert_within(part: &Span, whole: &Span) {
    assert_eq!(part.parent, whole.id, "{part:?}");
    assert!(part.began_ns <= part.ended_ns && whole.began_ns <= part.began_ns, "{part:?} of {whole:?}");
}

#[test]
fn a_write_is_one_trace_through_all_nodes() {
    let collector = Collector::start(Answers::Takes);
    let nodes = cluster(&collector);
    let target = format!("PUT {}&replicas=3/3", entity(KEY));
    let response = ask(&mut nodes[0].connect(), &target, &traceparent("01"), VALUE);
    assert_eq!(response.status, 201);
    // The request; two nodes that are asked, and what these do; the log, on each of the three.
    let spans = collector.trace(TRACE, 8);
    let [request] = named(&spans, "PUT /v0/entity", 2)[..] else { panic!("{spans:#?}") };
    assert_eq!(request.parent, PARENT);
    assert_eq!(request.of_node("service.name"), Some("ladoga"));
    assert_eq!(request.of_node("service.instance.id"), Some(&*nodes[0].url()));
    for (name, value) in [
        ("http.request.method", "PUT"),
        ("http.route", "/v0/entity"),
        ("http.response.status_code", "201"),
        ("http.request.body.size", "35"),
        ("ladoga.replicas", "3/3"),
    ] {
        assert_eq!(request.attribute(name), Some(value), "{name} of {request:?}");
    }
    assert_eq!(request.attribute("ladoga.key.hash").map(str::len), Some(16));
    let asked = named(&spans, "write", 3);
    assert_eq!(asked.len(), 2, "{spans:#?}");
    for asked in asked {
        assert_within(asked, request);
        let served = named(&spans, "write", 2).into_iter().find(|served| served.parent == asked.id);
        let served = served.unwrap_or_else(|| panic!("nobody served {asked:?}: {spans:#?}"));
        assert_eq!(served.of_node("service.instance.id"), asked.attribute("ladoga.peer"));
        let logged = named(&spans, "commit", 1).into_iter().find(|logged| logged.parent == served.id);
        assert_within(logged.expect("the log of a replica"), served);
    }
    assert!(named(&spans, "commit", 1).iter().any(|logged| logged.parent == request.id), "{spans:#?}");
    assert!(spans.iter().all(|span| span.status != 2), "{spans:#?}");
    for unseen in [KEY.as_bytes(), VALUE] {
        assert!(!collector.has_seen(unseen), "{}", String::from_utf8_lossy(unseen));
    }
}

#[test]
fn reads_and_decisions_are_traced_as_writes_are() {
    let collector = Collector::start(Answers::Takes);
    let nodes = cluster(&collector);
    let with_trace = |line: &str, fields: &str, trace: &str, body: &[u8]| {
        let fields = format!("{fields}{}", traceparent("01").replace(TRACE, trace));
        ask(&mut nodes[0].connect(), line, &fields, body).status
    };
    let (decided, read, streamed) = ("1".repeat(32), "2".repeat(32), "3".repeat(32));
    let target = format!("PUT {}&replicas=2/3", entity(KEY));
    assert_eq!(with_trace(&target, "If-None-Match: *\r\n", &decided, VALUE), 201);
    assert_eq!(with_trace(&format!("GET {}&replicas=2/3", entity(KEY)), "", &read, b""), 200);
    let large = vec![b'v'; 600 << 10];
    assert_eq!(with_trace(&format!("PUT {}&replicas=3/3", entity("large")), "", &streamed, &large), 201);
    let all_served = |trace: &str, name: &str| {
        wait_until(name, || {
            let spans: Vec<_> = collector.spans().into_iter().filter(|span| span.trace == trace).collect();
            let asked = named(&spans, name, 3);
            let is_served =
                |asked: &&&Span| named(&spans, name, 2).iter().any(|span| span.parent == asked.id);
            asked.len() >= 2 && asked.iter().filter(is_served).count() == asked.len()
        });
    };
    all_served(&decided, "prepare");
    all_served(&decided, "accept");
    all_served(&read, "read");
    all_served(&streamed, "finish");
}

/// `HEAD` was told as if the value had been sent.
#[test]
fn an_answer_without_a_body_is_told_as_that() {
    let collector = Collector::start(Answers::Takes);
    let node = launch(&collector.url(), "0").start();
    let mut connection = node.connect();
    connection.put(KEY, VALUE);
    for (trace, method, key, status, bytes) in
        [("1", "HEAD", KEY, 200, "0"), ("2", "HEAD", "missing", 404, "0"), ("3", "GET", KEY, 200, "35")]
    {
        let trace = trace.repeat(32);
        let fields = traceparent("01").replace(TRACE, &trace);
        connection.send(format!("{method} {} HTTP/1.1\r\nHost: ladoga\r\n{fields}\r\n", entity(key)));
        let head = connection.response_head();
        assert_eq!(head.status, status);
        if method == "GET" {
            connection.try_read_exactly(VALUE.len()).expect("a value");
        }
        let spans = collector.trace(&trace, 1);
        let sent = spans[0].attribute("http.response.body.size");
        assert_eq!(sent, Some(bytes), "{:?}", spans[0]);
    }
}

#[test]
fn a_client_says_what_is_recorded_and_a_malformed_word_counts_for_nothing() {
    let collector = Collector::start(Answers::Takes);
    let node = launch(&collector.url(), "0").start();
    let mut connection = node.connect();
    let good = traceparent("01");
    let mut fields: Vec<String> =
        (14..good.len() - 2).step_by(3).map(|cut| format!("{}\r\n", &good[..cut])).collect();
    fields.extend([
        traceparent("00"),
        format!("{good}{good}"),
        good.to_uppercase(),
        good.replace(TRACE, &"0".repeat(32)),
        format!("traceparent: {}\r\n", "f".repeat(8_000)),
        "traceparent: \u{fc}\r\n".to_owned(),
        String::new(),
    ]);
    for fields in &fields {
        assert_eq!(
            ask(&mut connection, &format!("PUT {}", entity("k")), fields, b"v").status,
            201,
            "{fields}"
        );
    }
    let lower = good.replace("traceparent", "TraceParent");
    assert_eq!(ask(&mut connection, &format!("GET {}", entity("missing")), &lower, b"").status, 404);
    let spans = collector.trace(TRACE, 1);
    assert_eq!(collector.spans(), spans, "nothing else is recorded");
    assert_eq!(
        (spans[0].name.as_str(), spans[0].attribute("http.response.status_code")),
        ("GET /v0/entity", Some("404"))
    );
}

#[test]
fn a_share_of_all_requests_is_recorded_and_redis_is_no_exception() {
    let (collector, port, directory) = (Collector::start(Answers::Takes), Port::claim(), Directory::new());
    let headers = directory.path().join("headers");
    fs::write(&headers, format!("# for the collector\nAuthorization: Bearer {SECRET}\n")).expect("a file");
    let launch =
        launch(&collector.url(), "0").flag("--otlp-sample", "1").flag("--resp", &port.address().to_string());
    let launch = launch.env("LADOGA_OTLP_HEADERS_FILE", headers.to_str().expect("a path"));
    let mut node = launch.env("LADOGA_OTLP_SERVICE", "shop-store").start();
    node.connect().put(KEY, VALUE);
    assert_eq!(node.connect().request("GET", "/metrics", None).status, 200);
    let mut redis = Connection::open(port.address());
    redis.send("*2\r\n$3\r\nGET\r\n$33\r\n".to_owned() + KEY + "\r\n");
    assert_eq!(redis.try_read_exactly(5).expect("a reply"), b"$35\r\n");
    // What waits is exported at the end.
    node.stop();
    let spans = collector.spans();
    let [put] = named(&spans, "PUT /v0/entity", 2)[..] else { panic!("{spans:#?}") };
    assert!(put.parent.is_empty() && put.of_node("service.name") == Some("shop-store"), "{put:?}");
    let [logged] = named(&spans, "commit", 1)[..] else { panic!("{spans:#?}") };
    assert_within(logged, put);
    let [get] = named(&spans, "get", 2)[..] else { panic!("{spans:#?}") };
    assert!(get.trace != put.trace && get.attribute("ladoga.command") == Some("get"), "{get:?}");
    assert_eq!(get.attribute("ladoga.key.hash"), put.attribute("ladoga.key.hash"));
    assert_eq!(named(&spans, "GET /metrics", 2).len(), 0, "machines ask for that all the time");
    assert!(collector.has_seen(format!("Bearer {SECRET}").as_bytes()));
    assert!(!node.log().contains(SECRET) && !collector.has_seen(KEY.as_bytes()));
}

fn outcome(node: &Node, outcome: &str) -> f64 {
    node.metrics().sum("ladoga_trace_spans_total", &[outcome]).expect("spans are counted")
}

/// More requests than there is room for spans, behind one another.
fn many_requests(node: &Node) {
    let mut connection = node.connect();
    for _ in 0..60 {
        let request = format!("GET {} HTTP/1.1\r\nHost: ladoga\r\n\r\n", entity("missing"));
        connection.send(request.repeat(100));
        (0..100).for_each(|_| assert_eq!(connection.response().status, 404));
    }
}

#[test]
fn a_collector_that_is_of_no_use_harms_no_request() {
    for answers in [Answers::Hangs, Answers::Refuses, Answers::Babbles] {
        let collector = Collector::start(answers);
        let mut node = launch(&collector.url(), "1").start();
        node.connect().put("k", b"v");
        wait_until("a batch", || collector.requests() > 0);
        many_requests(&node);
        if answers == Answers::Hangs {
            assert!(outcome(&node, "dropped") > 0.0, "what finds no room is dropped");
        } else {
            wait_until("spans that are given up", || outcome(&node, "failed") > 0.0);
        }
        assert!(outcome(&node, "exported") < 1.0, "{answers:?}");
        assert_eq!(node.connect().value("k"), Some(b"v".to_vec()));
        node.stop();
    }
}

#[test]
fn a_collector_that_is_away_is_told_of_and_harms_no_request() {
    let port = Port::claim();
    let launch = Launch::new().env("LADOGA_OTLP", &port.url()).flag("--otlp-sample", "1");
    let mut node = launch.start();
    node.connect().put("k", b"v");
    wait_until("spans that nobody takes", || outcome(&node, "failed") > 0.0);
    wait_until("a line of the log", || node.log().contains("spans cannot be exported"));
    many_requests(&node);
    node.stop();
}

#[test]
fn a_collector_with_tls_is_known_by_its_authority_and_knows_the_node() {
    let directory = Directory::new();
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    for (dir, client) in [("certs", "node"), ("other", "stranger")] {
        let arguments = ["certs", "create", "--dir", &path(dir), "--host", "localhost", "--client", client];
        Ladoga::new(arguments).run().expect_success();
    }
    let collector = Collector::secure(&directory.path().join("certs"));
    let exported = |launch: Launch| {
        let mut node = launch.flag("--otlp-sample", "1").start();
        node.connect().put(KEY, VALUE);
        wait_until("a batch", || outcome(&node, "exported") + outcome(&node, "failed") > 0.0);
        let exported = outcome(&node, "exported");
        node.stop();
        exported
    };
    let with = |[ca, cert, key]: [&str; 3]| {
        let launch = Launch::new().flag("--otlp", &collector.url()).env("LADOGA_OTLP_CA", &path(ca));
        let launch = launch.env("LADOGA_OTLP_CERT", &path(cert)).env("LADOGA_OTLP_KEY", &path(key));
        launch.env("LADOGA_OTLP_TIMEOUT_MS", "9000")
    };
    assert!(exported(with(["certs/ca.pem", "certs/node.pem", "certs/node.key"])) > 0.0);
    let taken = collector.spans().len();
    assert!(named(&collector.spans(), "PUT /v0/entity", 2).len() == 1, "{:#?}", collector.spans());
    // By another authority than its own, and by nobody that it knows.
    assert!(exported(with(["other/ca.pem", "certs/node.pem", "certs/node.key"])) < 1.0);
    assert!(exported(with(["certs/ca.pem", "other/stranger.pem", "other/stranger.key"])) < 1.0);
    assert_eq!(collector.spans().len(), taken);
    // As the variables of OpenTelemetry say it; and what Ladoga's own say comes first.
    let conventional = |launch: Launch| {
        let launch = launch.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url());
        let launch = launch.env("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &path("certs/node.pem"));
        let launch = launch.env("OTEL_EXPORTER_OTLP_CLIENT_KEY", &path("certs/node.key"));
        launch.env("OTEL_SERVICE_NAME", "shop").env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    };
    let right = Launch::new().env("OTEL_EXPORTER_OTLP_CERTIFICATE", &path("certs/ca.pem"));
    assert!(exported(conventional(right)) > 0.0);
    let spans = collector.spans();
    let of_shop = |span: &&Span| span.of_node("service.name") == Some("shop");
    let span = spans.iter().find(of_shop).expect("one of that service");
    assert_eq!(span.of_node("deployment.environment"), Some("test"));
    let wrong = Launch::new().env("OTEL_EXPORTER_OTLP_CERTIFICATE", &path("other/ca.pem"));
    assert!(exported(conventional(wrong).flag("--otlp-ca", &path("certs/ca.pem"))) > 0.0);
}

#[test]
fn only_who_is_let_in_says_what_is_recorded() {
    let (collector, directory) = (Collector::start(Answers::Takes), Directory::new());
    let tokens = directory.path().join("tokens.toml").to_str().expect("a path").to_owned();
    let created = Ladoga::new(["token", "create", "--tokens", &tokens, "--id", "a", "--scopes", "all"]).run();
    let token = created.expect_success().text().trim().to_owned();
    let node = launch(&collector.url(), "0").flag("--tokens", &tokens).start();
    let mut connection = node.connect();
    let ask = |connection: &mut Connection, line: &str, trace: &str, authorization: &str| {
        let fields = format!("{authorization}{}", traceparent("01").replace(TRACE, trace));
        ask(connection, line, &fields, b"v").status
    };
    let authorization = format!("Authorization: Bearer {token}\r\n");
    let (stranger, liar, nowhere, own) = ("1".repeat(32), "2".repeat(32), "3".repeat(32), "4".repeat(32));
    let put = format!("PUT {}", entity("k"));
    for _ in 0..20 {
        assert_eq!(ask(&mut connection, &put, &stranger, ""), 401);
        assert_eq!(ask(&mut connection, &put, &liar, "Authorization: Bearer ladoga_nonsense\r\n"), 401);
        assert_eq!(ask(&mut connection, "PUT /nowhere", &nowhere, &authorization), 400);
    }
    assert_eq!(ask(&mut connection, &put, &own, &authorization), 201);
    collector.trace(&own, 2);
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace == own), "{spans:#?}");
}
