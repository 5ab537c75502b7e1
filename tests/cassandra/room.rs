use std::fs;

use ladoga_cassandra_nodes::{CommitLogSync, Room, Setup};

use crate::small_disk::SmallDisk;
use crate::support::{
    Connection, Launch, Response, cassandra, entity, on_cassandra, skip, value, wait_until,
};

const DISK_MEGABYTES: u32 = 96;
const BALLAST_BYTES: usize = 32 << 20;
const VALUE_BYTES: usize = 20_000;

fn put(connection: &mut Connection, index: u64) -> Response {
    connection.request("PUT", &entity(format!("key{index:05}")), Some(&value(index, VALUE_BYTES)))
}

/// Cassandra stops to serve on a disk that is full, and has to be started again once there is room.
#[test]
fn what_was_acknowledged_before_the_disk_was_full_stays() {
    let disk = match SmallDisk::new(DISK_MEGABYTES) {
        Ok(disk) => disk,
        Err(reason) => return skip(&format!("no small disk can be mounted: {reason}")),
    };
    let ballast = disk.path_from_outside().join("ballast");
    fs::write(&ballast, vec![1; BALLAST_BYTES]).expect("room for the ballast");
    let room = Room::SmallDisk(disk.path(), disk.wrapper());
    let setup = Setup { room, ..Setup::open(CommitLogSync::Batch) };
    let Some(mut nodes) = cassandra(1, setup) else { return };
    let launch = on_cassandra(Launch::embedded(), &nodes.addresses(), 1).flag("--fsync", "always");
    let door = launch.env("LADOGA_QUORUM_TIMEOUT_MS", "5000").start();
    let mut connection = door.connect();
    let refused =
        (0..u64::from(DISK_MEGABYTES) << 20).step_by(VALUE_BYTES).zip(0..).find_map(|(_, index)| {
            let answer = put(&mut connection, index);
            (answer.status != 201).then_some((index, answer))
        });
    let (taken, answer) = refused.expect("the disk gets full");
    assert!(matches!(answer.status, 503 | 504), "{}: {}", answer.status, answer.text());
    fs::remove_file(&ballast).expect("the ballast");
    nodes.node(0).kill();
    nodes.node(0).spawn().expect("a node that starts");
    nodes.node(0).wait_until_it_answers();
    wait_until("a door that writes again", || put(&mut connection, taken).status == 201);
    for index in 0..=taken {
        let key = format!("key{index:05}");
        assert!(connection.value(&key) == Some(value(index, VALUE_BYTES)), "{key} was acknowledged");
    }
}
