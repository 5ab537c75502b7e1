use crate::cql::{Cql, replication};
use crate::support::{Ladoga, Launch, Port, differs_on_cassandra};

/// What is going to say why it does not start.
pub(crate) fn serve(flags: &[&str]) -> Ladoga {
    let port = Port::claim();
    let listen = port.address().to_string();
    let fixed = ["serve", "--listen", &listen, "--engine", "cassandra"];
    Ladoga::new(fixed.iter().chain(flags))
}

#[test]
fn nodes_that_nobody_is_at_are_named() {
    let port = Port::claim();
    let nobody = port.address().to_string();
    serve(&["--cassandra-nodes", &nobody])
        .env("LADOGA_QUORUM_TIMEOUT_MS", "2000")
        .run()
        .expect_failure(1, &["no node of --cassandra-nodes", &nobody, "can be reached"]);
}

#[test]
fn what_cassandra_cannot_do_is_told_with_what_helps() {
    if !differs_on_cassandra("this is only about doors") {
        return;
    }
    let own = Launch::new();
    let (nodes, keyspace) = (own.flag_value("--cassandra-nodes"), own.flag_value("--cassandra-keyspace"));
    let door = own.start();
    let reached = ["--cassandra-nodes", &nodes];
    let with = |flags: &[&str]| serve(&[&reached, &["--fsync", "everysec"], flags].concat()).run();
    with(&["--cassandra-replicas", "3"])
        .expect_failure(1, &["--cassandra-replicas is 3", "datacenter1 has 1 nodes", "expected"]);
    with(&["--cassandra-datacenter", "moon"])
        .expect_failure(1, &["--cassandra-datacenter is 'moon'", "expected one of datacenter1"]);
    serve(&reached)
        .run()
        .expect_failure(1, &["--fsync is 'always'", "commitlog_sync periodic", "--fsync everysec"]);
    with(&["--cassandra-keyspace", &keyspace, "--cassandra-writes", "lwt"]).expect_failure(
        1,
        &[
            "is written with --cassandra-writes plain",
            &format!("UPDATE {keyspace}_rf1.meta SET writes = 'lwt'"),
        ],
    );
    drop(door);
}

/// The door took the number of copies from the number of nodes: after some had been added, all keys seemed to be gone.
#[test]
fn the_number_of_copies_is_that_of_the_keys_that_are_there() {
    if !differs_on_cassandra("this is only about doors") {
        return;
    }
    let own = Launch::new().without("--cassandra-replicas");
    let (nodes, keyspace) = (own.flag_value("--cassandra-nodes"), own.flag_value("--cassandra-keyspace"));
    let mut door = own.start();
    assert!(door.log().contains("this number is kept"), "{}", door.log());
    door.connect().put("key", b"v");
    door.stop();
    door.start_again();
    assert_eq!(door.connect().value("key").as_deref(), Some(&b"v"[..]));
    door.stop();
    // As if there had been two nodes when the first door was started.
    Cql::to(&nodes).run(&[&format!("CREATE KEYSPACE {keyspace}_rf2 {}", replication(2))]);
    let flags = ["--cassandra-nodes", &nodes, "--cassandra-keyspace", &keyspace, "--fsync", "everysec"];
    serve(&flags).run().expect_failure(
        1,
        &[&format!("the keyspace {keyspace}_rf2 says"), "2 copies", "1 nodes", "--cassandra-replicas"],
    );
    door.relaunch(|launch| launch.flag("--cassandra-replicas", "1"));
    door.start_again();
    assert_eq!(door.connect().value("key").as_deref(), Some(&b"v"[..]));
}
