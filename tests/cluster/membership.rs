use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::cluster::{Cluster, launches};
use crate::support::{Launch, assert_refusal, wait_until};

#[test]
fn nodes_with_different_lists_refuse_each_other_by_name() {
    let (one, two, three) = (Launch::new(), Launch::new(), Launch::new());
    let (a, b, c) = (one.url(), two.url(), three.url());
    let one = one.flag("--cluster", &format!("{a},{b}")).env("LADOGA_QUORUM_TIMEOUT_MS", "500").start();
    let two = two.flag("--cluster", &format!("{b},{a},{c}")).start();
    let put = || one.connect().request("PUT", "/v0/entity?id=k&replicas=2/2", Some(b"v"));
    let response = put();
    // It does not even know whether it is new.
    assert_refusal(&response, 504, "PUT through a node that nobody speaks with");
    assert!(response.text().contains(&b), "{}", response.text());
    assert!(!response.text().contains(&format!("{b} {b}")), "{}", response.text());
    for node in [&one, &two] {
        wait_until("the difference in the log", || node.log().contains("another list of nodes"));
        assert!(node.log().contains(&c), "the log does not name {c}: {}", node.log());
    }
    // What a node finds and what the other one says alternate: the log has both once.
    let refusals = || one.metrics().sum("ladoga_peer_connect_failures_total", &[&b]).expect("a figure");
    let before = refusals();
    wait_until("more attempts", || {
        put();
        refusals() >= before + 10.0
    });
    for node in [&one, &two] {
        let log = node.log();
        let told: Vec<_> = log.lines().filter(|line| line.contains("the peer http")).collect();
        assert!(told.len() <= 3, "{log}");
    }
    let report = one.connect().request("GET", "/v0/cluster", None);
    assert_eq!(report.status, 200);
    assert!(
        report.text().contains("another list of nodes") && report.text().contains(&c),
        "{}",
        report.text()
    );
}

/// A URL of `--cluster` may be that of any other server.
#[test]
fn a_server_of_another_kind_is_told_once_as_no_node() {
    let page = "<!DOCTYPE HTML>\n\x1b[2J<title>Not found</title>\n";
    let answers =
        ["HTTP/1.0 404 File not found\r\ncontent-type: text/html\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n"];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stranger = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        // It waits for nodes until the process of the test ends.
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut request = [0; 4096];
                // A node that wants no more is gone. The head and the page come in one piece or in two.
                let _ = stream.read(&mut request);
                if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                    let _ = stream.write_all(format!("{answer}{page}").as_bytes());
                } else {
                    let _ = stream.write_all(answer.as_bytes());
                    let _ = stream.write_all(page.as_bytes());
                }
            }
        });
        let launch = Launch::new();
        let list = format!("{},{stranger}", launch.url());
        let node = launch.flag("--cluster", &list).env("LADOGA_QUORUM_TIMEOUT_MS", "100").spawn();
        wait_until("attempts", || asked.load(Ordering::Relaxed) >= 20);
        let log = node.log();
        let told = format!("the peer {stranger}: it is no Ladoga node");
        assert_eq!(log.matches(&told).count(), 1, "{log}");
        assert!(log.matches(&format!("the peer {stranger}")).count() <= 3, "{log}");
        assert!(!log.contains("DOCTYPE") && !log.contains('\x1b'), "{log}");
    }
}

#[test]
fn a_data_directory_stays_with_its_nodes() {
    let mut launches = launches(2);
    let mut node = launches.remove(0).start();
    let own = node.url();
    node.stop();
    let other = Launch::new();
    let mut again = Launch::new()
        .data(node.data())
        .flag("--cluster", &format!("{own},{}", other.url()))
        .flag("--advertise", &own)
        .spawn();
    assert_eq!(again.wait().code(), Some(2));
    let log = again.log();
    assert!(log.contains("--cluster is") && log.contains(&other.url()) && log.contains("remove"), "{log}");
    let mut alone = Launch::new().data(node.data()).spawn();
    assert_eq!(alone.wait().code(), Some(2));
    assert!(alone.log().contains("--cluster is not set, expected the nodes"), "{}", alone.log());
    let mut only = Launch::new().data(node.data()).flag("--cluster", &own).flag("--advertise", &own).spawn();
    assert_eq!(only.wait().code(), Some(2));
    assert!(only.log().contains(&format!("--cluster is '{own}', expected the nodes")), "{}", only.log());
    assert!(alone.log().contains(&own) && alone.log().contains("out of its cluster"), "{}", alone.log());
    node.start_again();
}

#[test]
fn the_order_of_the_list_does_not_matter() {
    let (one, two) = (Launch::new(), Launch::new());
    let (a, b) = (one.url(), two.url());
    let launches =
        vec![one.flag("--cluster", &format!("{a},{b}")), two.flag("--cluster", &format!("{b},{a}"))];
    let cluster = Cluster::launch(launches);
    cluster.put(0, "k", "2/2", b"value");
    assert_eq!(cluster.get(1, "k", "2/2"), Some(b"value".to_vec()));
}

#[test]
fn the_cluster_tells_how_it_is() {
    let mut cluster = Cluster::start(3);
    let state = |cluster: &Cluster, url: &str| {
        let nodes = cluster.report(0)["nodes"].as_array().expect("a list").clone();
        let node = nodes.into_iter().find(|node| node["url"] == url).expect("every node is there");
        node["state"].as_str().expect("a state").to_owned()
    };
    let urls: Vec<_> = cluster.nodes.iter().map(crate::support::Node::url).collect();
    assert_eq!(state(&cluster, &urls[0]), "self");
    // (Each event loop has connections of its own, and says what it finds.)
    wait_until("a node that is up", || state(&cluster, &urls[2]) == "up");
    cluster.nodes[2].kill();
    cluster.request(0, "GET", "k", "3/3", None);
    assert_eq!(state(&cluster, &urls[2]), "unreachable");
    cluster.nodes[2].start_again();
    cluster.wait_until_all_answer();
    wait_until("a node that is up again", || state(&cluster, &urls[2]) == "up");
}
