use std::fs;
use std::path::PathBuf;

use super::small_disk::SmallDisk;
use crate::support::{
    Directory, Launch, Node, assert_refusal, entity, ladoga_in, range, skip, value, wait_until,
};

const DISK_MEGABYTES: u32 = 96;
const BALLAST_BYTES: usize = 40 << 20;

/// A node on a small disk, a part of which other files take.
struct Setup {
    node: Node,
    ballast: PathBuf,
    _disk: SmallDisk,
}

/// `None`, and the reason is reported, if small disks cannot be had: then the test is skipped.
fn small_disk() -> Option<SmallDisk> {
    disk_of(DISK_MEGABYTES)
}

fn disk_of(megabytes: u32) -> Option<SmallDisk> {
    SmallDisk::new(megabytes)
        .inspect_err(|reason| skip(&format!("no small disk can be mounted: {reason}")))
        .ok()
}

fn setup() -> Option<Setup> {
    let disk = small_disk()?;
    let ballast = disk.path_from_outside().join("ballast");
    fs::write(&ballast, vec![1; BALLAST_BYTES]).expect("room for the ballast");
    let launch = Launch::new().flag("--memory", "16MiB").wrapper(disk.wrapper());
    let node = launch.data(&disk.path().join("data")).start();
    Some(Setup { node, ballast, _disk: disk })
}

fn key(index: u64) -> String {
    format!("key{index:05}")
}

/// Puts values of this length until there is no room; answers how many were taken.
fn fill(node: &Node, length: usize) -> u64 {
    let mut connection = node.connect();
    let refused = (0..u64::from(DISK_MEGABYTES) << 20).step_by(length).zip(0..).find(|&(_, index)| {
        let response = connection.request("PUT", &entity(key(index)), Some(&value(index, length)));
        if response.status != 201 {
            assert_refusal(&response, 507, "PUT without room");
        }
        response.status != 201
    });
    refused.expect("the disk gets full").1
}

fn refused_count(node: &Node) -> u64 {
    node.metrics().sum("ladoga_writes_refused_disk_full_total", &[]).expect("refusals are counted") as u64
}

/// What was taken is there, but for the first `deleted`.
fn check(node: &Node, length: usize, deleted: u64, taken: u64) {
    let mut connection = node.connect();
    for index in 0..taken {
        let expected = (index >= deleted).then(|| value(index, length));
        assert!(connection.value(key(index)) == expected, "{} is not what was acknowledged", key(index));
    }
    let records = connection.request("GET", &range("key", Some(b"kez")), None).records();
    assert_eq!(records.len() as u64, taken - deleted);
}

fn a_full_disk(length: usize) {
    let Some(mut setup) = setup() else { return };
    let node = &mut setup.node;
    let taken = fill(node, length);
    assert!(taken as usize * length > 10 << 20, "only {taken} values of {length} bytes were taken");
    // (The first may have been refused on the way.)
    let before = refused_count(node);
    let refused = (0..5)
        .filter(|n| node.connect().request("PUT", &entity("more"), Some(&value(*n, length))).status == 507);
    let refused = refused.count() as u64;
    assert_eq!(refused_count(node) - before, refused, "each counts once");

    check(node, length, 0, taken);
    let mut connection = node.connect();
    assert_eq!(connection.request("HEAD", &entity(key(1)), None).status, 200);
    for path in ["/v0/status", "/livez", "/readyz"] {
        assert_eq!(connection.request("GET", path, None).status, 200, "it serves: {path}");
    }
    for index in 0..20 {
        connection.delete(key(index));
    }
    check(node, length, 20, taken);
    let refused = connection.request("PUT", &entity("more"), Some(&value(1, length)));
    if refused.status != 201 {
        assert_refusal(&refused, 507, "PUT without room");
    }

    // A crash does not make it worse, and a node starts although it can hardly write.
    drop(connection);
    node.crash();
    check(node, length, 20, taken);
    node.connect().delete(key(20));
    check(node, length, 21, taken);

    fs::remove_file(&setup.ballast).expect("the ballast");
    wait_until("puts that come back by themselves", || {
        node.connect().request("PUT", &entity("again"), Some(&value(2, length))).status == 201
    });
    let mut connection = node.connect();
    for index in taken..taken + 50 {
        connection.put(key(index), &value(index, length));
    }
    check(node, length, 21, taken + 50);
    node.restart();
    check(node, length, 21, taken + 50);
    assert!(node.connect().value("again") == Some(value(2, length)));
}

#[test]
fn a_disk_full_of_small_values_refuses_writes_until_there_is_room() {
    a_full_disk(8_000);
}

#[test]
fn a_disk_full_of_large_values_refuses_writes_until_there_is_room() {
    a_full_disk(400_000);
}

#[test]
fn deleting_and_waiting_makes_room_too() {
    let Some(setup) = setup() else { return };
    let node = &setup.node;
    let taken = fill(node, 400_000);
    let mut connection = node.connect();
    for index in 0..taken {
        connection.delete(key(index));
    }
    wait_until("room that was made by deletions", || {
        node.connect().request("PUT", &entity("again"), Some(&value(2, 400_000))).status == 201
    });
    assert_eq!(connection.request("GET", &range("key", Some(b"kez")), None).records(), []);
}

#[test]
fn values_that_do_not_fit_beside_each_other_leave_nothing_behind() {
    let Some(setup) = setup() else { return };
    let mut connection = setup.node.connect();
    connection.put("small", b"value");
    let large = value(3, 32 << 20);
    for _ in 0..3 {
        let mut others = ["one", "other"].map(|key| (key, setup.node.connect()));
        for (key, other) in &mut others {
            // There is room for either.
            let length = large.len();
            other
                .send(format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n", entity(key)));
        }
        for (_, other) in &mut others {
            let _ = other.try_send(&large);
        }
        let mut refused = 0;
        for (key, other) in &mut others {
            let response = other.response();
            if response.status == 201 {
                connection.delete(key);
                continue;
            }
            assert_refusal(&response, 507, "PUT of more than there is room for");
            assert_eq!(connection.value(key), None);
            refused += 1;
        }
        assert!(refused > 0, "both had room");
    }
    wait_until("room for something small", || {
        connection.request("PUT", &entity("small"), Some(b"new")).status == 201
    });
    assert_eq!(connection.value("small").as_deref(), Some(&b"new"[..]));
}

/// All of it was taken up to where the disk was full, and then refused.
#[test]
fn a_value_that_there_is_no_room_for_is_refused_before_it_is_sent() {
    let Some(Setup { node, .. }) = &setup() else { return };
    let before = refused_count(node);
    let mut connection = node.connect();
    connection.send(format!(
        "PUT {} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        entity("large"),
        60 << 20
    ));
    assert_refusal(&connection.response(), 507, "a value that is longer than there is room for");
    assert_eq!(refused_count(node) - before, 1);
    node.connect().put("smaller", &value(1, 1 << 20));
}

/// A replica that had it on its disk asked for room for it once more, and refused it.
#[test]
fn a_replica_takes_a_value_that_its_disk_has_room_for_once() {
    let Some(disk) = small_disk() else { return };
    let launches: Vec<Launch> = (0..3).map(|_| Launch::patient().flag("--memory", "16MiB")).collect();
    let urls = launches.iter().map(Launch::url).collect::<Vec<_>>().join(",");
    let mut launches = launches.into_iter().map(|launch| launch.flag("--cluster", &urls));
    let small = launches.next().expect("a first one").wrapper(disk.wrapper());
    let small = small.data(&disk.path().join("data"));
    let nodes: Vec<Node> =
        std::iter::once(small.start()).chain(launches.by_ref().map(Launch::start)).collect();
    let node = &nodes[1];
    let everywhere = |key: &str| format!("{}&replicas=3/3", entity(key));
    wait_until("all nodes", || {
        node.connect().request("PUT", &everywhere("small"), Some(b"value")).status == 201
    });
    let large = value(1, 48 << 20);
    let response = node.connect().request("PUT", &everywhere("large"), Some(&large));
    assert_eq!(response.status, 201, "{}", response.text());
    assert!(nodes[0].connect().value("large").is_some_and(|found| found == large));
}

/// Its log was on the same disk, so it was said to have ended, and not why.
#[test]
fn a_node_that_is_measured_says_that_its_disk_is_full() {
    let Some(disk) = disk_of(1) else { return };
    fs::write(disk.path_from_outside().join("ballast"), vec![1; 2 << 20]).expect_err("it takes all room");
    let directory = Directory::new();
    let mut command = ladoga_in(disk.wrapper());
    command.args(["lab", "run", "--workloads", "put", "--rates", "100", "--rounds", "1", "-d", "1s"]);
    command.arg("--dir").arg(disk.path()).arg("-o").arg(directory.path().join("report.html"));
    let output = command.output().expect("the binary starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("instead of serving; it said:\n") && told.contains("No space left"), "{told}");
}
