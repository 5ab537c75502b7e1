//! Second processes that run as a node.

use crate::cluster::Cluster;
use crate::directories::wait_until_whole;
use crate::support::{Directory, Ladoga, Node, wait_until};

/// The process that went on was "being rebuilt" until it was restarted: its peers took what it said for that of an ended one.
#[test]
fn a_node_is_rebuilt_after_a_second_process_ran_as_it() {
    let cluster = Cluster::start(3);
    cluster.put(0, "key", "3/3", b"value");
    let url = cluster.nodes[0].url();
    let list = cluster.nodes.iter().map(Node::url).collect::<Vec<_>>().join(",");
    let data = Directory::new();
    let data = data.path().join("twin").display().to_string();
    let session = cluster.report(1)["nodes"][0]["session"].clone();
    let twin = Ladoga::new([
        "serve",
        "--insecure",
        "--listen",
        "127.0.0.1:0",
        "--data",
        &data,
        "--cluster",
        &list,
        "--advertise",
        &url,
    ])
    .start();
    wait_until("a peer that hears the second process", || {
        cluster.report(1)["nodes"][0]["session"] != session
    });
    wait_until("a node that knows of it", || {
        cluster.nodes[0].log().contains("another process was started as this node")
    });
    twin.signal("KILL");
    twin.wait();
    wait_until_whole(&cluster, 0);
    wait_until("peers that listen to it", || {
        cluster.report(0)["replica_state"]["displaced_at"] == serde_json::Value::Null
    });
    Ladoga::new(["repair", "--url", &url]).run().expect_success();
    assert_eq!(cluster.get(0, "key", "3/3").as_deref(), Some(&b"value"[..]));
}

/// Whoever is refused in the name of a node, and whatever becomes of an unused connection to it, a node that answers is there. (It was
/// missed, also by `/readyz`, until the next connection to it was made.)
#[test]
fn a_node_that_answers_is_not_missed_after_another_one_was_refused_in_its_name() {
    let cluster = Cluster::start(3);
    cluster.put(0, "key", "3/3", b"value");
    let url = cluster.nodes[1].url();
    let list = [cluster.nodes[0].url(), url.clone()].join(",");
    let data = Directory::new();
    let data = data.path().join("other").display().to_string();
    let arguments = ["serve", "--insecure", "--listen", "127.0.0.1:0", "--data", &data];
    let other = Ladoga::new(arguments.into_iter().chain(["--cluster", &list, "--advertise", &url])).start();
    let state = || cluster.report(0)["nodes"][1]["state"].clone();
    wait_until("a node that is refused", || state() == "unreachable");
    other.signal("KILL");
    other.wait();
    wait_until("the node that answers", || state() == "up");
}
