//! Large values of which a node of a cluster has the only replica: it answers as a node on its own.

use std::time::Duration;

use ladoga_node::store::StoreError;

use crate::client::Client;
use crate::cluster::{Cluster, PATIENCE_MS, scripted_with_time};
use crate::scripted::{LARGE_BYTES, Script, Scripted};

const BYTES: usize = 60 * LARGE_BYTES as usize;

/// Begins to store a value; sends so much of it.
fn put(cluster: &Cluster<Scripted>, bytes: usize) -> Client {
    let key = cluster.own_key();
    let mut client = cluster.connect();
    let head = format!(
        "PUT /v0/entity?id={key}&replicas=1/1 HTTP/1.1\r\nhost: h\r\ncontent-length: {BYTES}\r\n\r\n"
    );
    client.send([head.as_bytes(), &vec![b'v'; bytes]].concat());
    client
}

/// All of it was read, and then it was answered 504, as if it may have happened.
#[test]
fn a_disk_that_fills_up_is_told_at_once() {
    let cluster = scripted_with_time(2, PATIENCE_MS);
    let reason = "there is no room on the disk".to_owned();
    cluster.store.tell(Script { upload: Some((1, StoreError::NoRoom { reason })), ..Script::default() });
    let answer = put(&cluster, BYTES / 2).answer();
    assert_eq!(answer.status, 507, "{answer:?}");
    assert!(answer.closes(), "the rest is not read");
}

/// The only replica was left out, so it was answered 504.
#[test]
fn a_disk_that_is_slower_than_requests_may_be_is_waited_for() {
    let cluster = scripted_with_time(2, 200);
    cluster.store.tell(Script { upload_time: Duration::from_millis(600), ..Script::default() });
    let answer = put(&cluster, BYTES).answer();
    assert_eq!(answer.status, 201, "{answer:?}");
    let stored = cluster.store.value(&cluster.own_key()).expect("a value");
    assert!(stored == vec![b'v'; BYTES], "{} bytes", stored.len());
}
