use ladoga_cassandra_nodes::{CommitLogSync, Setup};

use crate::starting::serve;
use crate::support::{Launch, cassandra, on_cassandra, wait_for};

#[test]
fn the_keys_of_a_door_are_in_its_datacenter_and_no_other_is_asked() {
    let setup = Setup { datacenters: &["near", "far"], ..Setup::open(CommitLogSync::Periodic) };
    let Some(mut nodes) = cassandra(2, setup) else { return };
    let addresses = nodes.addresses();
    let launch = on_cassandra(Launch::embedded(), &addresses, 1);
    let keyspace = launch.flag_value("--cassandra-keyspace");
    let refused_by = |nodes: &str, flags: &[&str]| {
        let fixed = ["--cassandra-nodes", nodes, "--cassandra-keyspace", &keyspace, "--fsync", "everysec"];
        serve(&[&fixed, flags].concat()).env("LADOGA_QUORUM_TIMEOUT_MS", "60000").run()
    };
    let refused = |flags: &[&str]| refused_by(&addresses, flags);
    // The driver asks one node, whichever it reaches first, and each hears of the others at its own time.
    for address in addresses.split(',') {
        wait_for("a node that knows the other", || {
            let refused = refused_by(address, &["--cassandra-datacenter", "moon"]);
            refused.stderr.contains("expected one of far, near").then_some(())
        });
    }
    refused(&[]).expect_failure(1, &["--cassandra-datacenter is not given", "expected one of far, near"]);

    let door = launch.flag("--cassandra-datacenter", "near").start();
    let mut connection = door.connect();
    connection.put("before", b"1");
    refused(&["--cassandra-datacenter", "far"])
        .expect_failure(1, &["'near': '1'", &format!("ALTER KEYSPACE {keyspace}_rf1"), "'far': 1"]);
    nodes.node(1).kill();
    for number in 0..100 {
        connection.put(format!("key{number:03}"), b"2");
    }
    assert_eq!(connection.value("before").as_deref(), Some(&b"1"[..]));
    let counted = connection.request("GET", "/v0/entities?start=a&count=true", None);
    assert_eq!((counted.status, counted.text().trim()), (200, "101"));
}
