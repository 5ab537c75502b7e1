use std::thread;

use ladoga_node::Limits;

use crate::running::Running;
use crate::scripted::Script;

#[test]
fn a_node_that_opens_says_so_until_it_serves() {
    let running = Running::opening(Limits::default());
    let mut client = running.connect();
    for target in ["/v0/status", "/v0/entity?id=k", "/v0/entities?start=k"] {
        let answer = client.get(target);
        assert_eq!(answer.status, 503, "{target}");
        assert!(
            answer.text().contains("opening") && answer.head.contains("\r\nretry-after: 1\r\n"),
            "{answer:?}"
        );
    }
    assert_eq!(client.put("k", b"value").status, 503);
    assert_eq!(client.get("/v0/entity").status, 400, "what is wrong is wrong in every stage");
    assert_eq!(client.get("/metrics").status, 200);
    assert_eq!(client.get("/livez").status, 200);
    for target in ["/readyz", "/readyz?verbose"] {
        let answer = client.get(target);
        assert!(answer.status == 503 && answer.text().contains("opening"), "{target}: {answer:?}");
    }
    running.node.open(running.store.clone());
    assert_eq!(client.get("/v0/status").status, 200);
    assert_eq!(client.get("/readyz").text(), "ready\n");
    assert_eq!(client.put("k", b"value").status, 201);
}

#[test]
fn a_store_that_failed_is_told_in_the_status_and_reads_go_on() {
    let running = Running::start();
    running.store.insert("k", b"value");
    running.store.tell(Script { failure: Some("the disk\nis gone".into()), ..Script::default() });
    let mut client = running.connect();
    let answer = client.get("/v0/status");
    assert_eq!((answer.status, answer.text()), (503, "the disk is gone\n"));
    for target in ["/readyz", "/readyz?verbose"] {
        let answer = client.get(target);
        assert_eq!((answer.status, answer.text()), (503, "the disk is gone\n"), "{target}");
    }
    assert_eq!(client.get("/livez").status, 200, "another start does not help");
    assert_eq!(client.get("/v0/entity?id=k").text(), "value");
}

#[test]
fn a_request_in_flight_is_answered_before_the_node_stops() {
    let running = Running::start();
    running.store.tell(Script { holds: true, ..Script::default() });
    let mut in_flight = running.connect();
    in_flight.send_put("k", b"value");
    let mut idle = running.connect();
    assert_eq!(idle.get("/v0/status").status, 200);
    while running.store.value("k").is_none() {
        thread::yield_now();
    }
    let address = running.node.addresses()[0];
    let Running { node, store } = running;
    let stopping = thread::spawn(move || node.stop());
    assert_eq!(idle.rest(), (Vec::new(), true), "nobody waits for it");
    // A new connection is answered that the node is stopping.
    let refused = crate::client::Client::connect(address).get("/v0/status");
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("draining") && refused.closes(), "{refused:?}");
    let refused = crate::client::Client::connect(address).get("/readyz");
    assert!(refused.status == 503 && refused.text().contains("draining"), "{refused:?}");
    assert_eq!(crate::client::Client::connect(address).get("/livez").status, 200);
    store.release();
    assert_eq!(in_flight.answer().status, 201);
    assert_eq!(in_flight.rest(), (Vec::new(), true));
    assert_eq!(stopping.join().expect("no panic"), Ok(()));
}

#[test]
fn a_request_that_takes_too_long_is_cut_off_when_the_node_stops() {
    let running = Running::start_with(Limits { drain_timeout_ms: 50, ..Limits::default() });
    running.store.tell(Script { holds: true, ..Script::default() });
    let mut client = running.connect();
    client.send_put("k", b"value");
    while running.store.value("k").is_none() {
        thread::yield_now();
    }
    assert_eq!(running.node.stop(), Ok(()));
    assert_eq!(client.rest(), (Vec::new(), false), "cut off, not ended");
}
