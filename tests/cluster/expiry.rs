//! Values that expire, on several nodes: all say the same of them at all times, whatever their clocks show.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cluster::{Cluster, launches_at};
use crate::support::{WallClocks, assert_refusal, value, wait_until};

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// Stores a value that is to live for so long.
#[track_caller]
fn put(cluster: &Cluster, node: usize, key: &str, ttl: &str, value: &[u8]) {
    let response = cluster.request(node, "PUT", key, &format!("2/3&ttl={ttl}"), Some(value));
    assert_eq!(response.status, 201, "{}", response.text());
}

/// When a value expires, as a node says; none if there is no value.
fn expiry(cluster: &Cluster, node: usize, key: &str, replicas: &str) -> Option<u64> {
    let response = cluster.request(node, "GET", key, replicas, None);
    assert!(matches!(response.status, 200 | 404), "{response:?}");
    (response.status == 200)
        .then(|| response.header("ladoga-expires").expect("it expires").parse().expect("a number"))
}

#[test]
fn a_value_expires_on_all_nodes_though_some_have_missed_its_write() {
    let mut cluster = Cluster::start(3);
    for key in ["key1", "key2", "key3"] {
        cluster.put(0, key, "3/3", b"before");
    }
    cluster.nodes[2].kill();
    put(&cluster, 0, "key1", "8s", b"value");
    put(&cluster, 1, "key2", "8s", &value(3, 400_000));
    put(&cluster, 1, "key3", "1h", b"long");
    let expires: Vec<_> = ["key1", "key2", "key3"].map(|key| expiry(&cluster, 0, key, "2/3")).into();
    assert!(expires.iter().all(Option::is_some));
    cluster.nodes[2].start_again();
    // By hints or by a repair.
    wait_until("what it missed", || {
        let own = cluster.connect(2).request("GET", "/v0/entities?start=key", None).records();
        own.iter().all(|(_, value)| value != b"before")
    });
    wait_until("the end of two of them", || {
        expiry(&cluster, 2, "key1", "3/3").is_none() && expiry(&cluster, 2, "key2", "3/3").is_none()
    });
    assert!(Some(now_ms()) >= expires[0]);
    for node in 0..3 {
        for key in ["key1", "key2"] {
            wait_until("an end through each", || expiry(&cluster, node, key, "3/3").is_none());
        }
        assert_eq!(expiry(&cluster, node, "key3", "3/3"), expires[2]);
        for scope in ["node", "cluster"] {
            let target = format!("/v0/entities?start=key&scope={scope}");
            let records = cluster.connect(node).request("GET", &target, None).records();
            assert_eq!(records, [(b"key3".to_vec(), b"long".to_vec())], "{scope} of {node}");
        }
    }
}

#[test]
fn a_node_that_lost_its_disk_gets_what_expires_with_its_expiry() {
    let mut cluster = Cluster::start(3);
    for n in 0..60 {
        put(&cluster, n % 3, &format!("key{n}"), "1h", b"value");
    }
    put(&cluster, 0, "large", "1h", &value(3, 400_000));
    let expires = expiry(&cluster, 0, "key7", "3/3");
    let expires_large = expiry(&cluster, 0, "large", "3/3");
    cluster.nodes[2].kill();
    fs::remove_dir_all(cluster.nodes[2].data()).expect("a data directory");
    cluster.nodes[2].start_again();
    wait_until("a node that is whole again", || cluster.report(2)["replica_state"]["complete"] == true);
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    assert!(expires.is_some() && expires_large.is_some());
    assert_eq!(expiry(&cluster, 2, "key7", "1/3"), expires);
    assert_eq!(expiry(&cluster, 2, "large", "1/3"), expires_large);
    for n in 0..60 {
        assert!(expiry(&cluster, 2, &format!("key{n}"), "1/3").is_some(), "key{n}");
    }
}

#[test]
fn a_clock_that_is_half_a_minute_off_neither_ends_a_value_early_nor_brings_it_back() {
    let Some(clocks) = WallClocks::new() else { return };
    let cluster = Cluster::launch(launches_at(3, |launch, node| clocks.place(launch, node)));
    for seconds in [30, -30] {
        let key = format!("key{seconds}");
        clocks.set_ahead(2, seconds);
        // Through a node whose clock is right, and through the one whose clock is not.
        let before_ms = now_ms();
        for (node, of) in [(0, "right"), (2, "wrong")] {
            put(&cluster, node, &format!("{key}{of}"), "10s", b"value");
        }
        for node in 0..3 {
            for of in ["right", "wrong"] {
                let expires = expiry(&cluster, node, &format!("{key}{of}"), "2/3").expect("it lives");
                let lives_ms = expires - before_ms;
                assert!((8_000..30_000).contains(&lives_ms), "{seconds} s, {of}: {lives_ms} ms");
            }
        }
        for of in ["right", "wrong"] {
            let key = format!("{key}{of}");
            wait_until("its end through a node that is right", || expiry(&cluster, 0, &key, "2/3").is_none());
            // Two that are right are as far apart as messages take; one that is wrong is within a second of them.
            for node in [1, 2] {
                wait_until("its end through the others", || expiry(&cluster, node, &key, "2/3").is_none());
            }
            for node in 0..3 {
                let refused = cluster.request(node, "GET", &key, "3/3", None);
                assert_refusal(&refused, 404, "GET of what has expired");
            }
        }
    }
}

#[test]
fn the_expiry_of_a_value_is_changed_through_any_node_and_the_value_stays() {
    let cluster = Cluster::start(3);
    let values = [("small", value(1, 100)), ("large", value(2, 400_000))];
    for (key, value) in &values {
        put(&cluster, 0, key, "1h", value);
        let first = expiry(&cluster, 0, key, "2/3");
        let changed = cluster.request(1, "POST", key, "2/3&ttl=2h", None);
        assert_eq!(changed.status, 200, "{}", changed.text());
        let told = changed.header("ladoga-expires").expect("it expires").parse().ok();
        assert!(told > first && told == expiry(&cluster, 2, key, "2/3"));
        let etag = changed.header("etag").expect("a new version").to_owned();
        let forever = cluster.request(2, "POST", key, "2/3&ttl=none", None);
        assert_eq!((forever.status, forever.header("ladoga-expires")), (200, None), "{}", forever.text());
        assert_ne!(forever.header("etag"), Some(&etag[..]));
        let found = cluster.request(0, "GET", key, "2/3", None);
        assert_eq!((found.status, found.header("ladoga-expires")), (200, None));
        assert_eq!(found.header("etag"), forever.header("etag"));
        assert!(found.body == *value, "{key} has another value");
    }
    assert_refusal(&cluster.request(1, "POST", "nothing", "2/3&ttl=1h", None), 404, "no value");
    assert_refusal(&cluster.request(1, "POST", "small", "1/3&ttl=1h", None), 400, "no majority");
}
