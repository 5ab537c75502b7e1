use std::fs;
use std::path::Path;

use crate::support::{
    Connection, Ladoga, Launch, Node, Response, assert_refusal, entity, range, value, wait_until,
};

const LENGTH: usize = 8_000;
/// Values that are tried: many times what fits into memory, or into the segments of the log.
const VALUES_MAX: u64 = 8_000;

fn key(index: u64) -> String {
    format!("key{index:05}")
}

/// Puts values until one is refused. Answers how many were taken, and the refusal.
fn put_until_refused(node: &Node) -> (u64, Response) {
    let mut connection = node.connect();
    let refused = (0..VALUES_MAX).find_map(|index| {
        let response = connection.request("PUT", &entity(key(index)), Some(&value(index, LENGTH)));
        (response.status != 201).then_some((index, response))
    });
    refused.expect("a write that is refused")
}

fn check(connection: &mut Connection, taken: u64) {
    for index in 0..taken {
        assert!(
            connection.value(key(index)) == Some(value(index, LENGTH)),
            "{} was acknowledged",
            key(index)
        );
    }
    let records = connection.request("GET", &range("key", Some(b"kez")), None).records();
    assert!(records.len() as u64 >= taken, "{} of {taken} records", records.len());
}

/// Every request reports that the node takes no writes, and why.
fn assert_tells(node: &Node, reason: &str) {
    let response = node.connect().request("GET", "/v0/status", None);
    assert_refusal(&response, 503, "the status of a node that takes no writes");
    assert!(response.text().contains(reason), "{response:?}");
    Ladoga::new(["status", "--url", &node.url()]).run().expect_failure(1, &[reason]);
    let response = node.connect().request("GET", "/readyz", None);
    assert_refusal(&response, 503, "whether a node is ready that takes no writes");
    assert!(response.text().contains(reason), "{response:?}");
    assert_eq!(node.connect().request("GET", "/livez", None).status, 200, "another start does not help");
    assert_eq!(node.metrics().sum("ladoga_write_state", &["failed"]), Some(1.0));
    let log = node.log();
    assert_eq!(log.matches("writes are refused from now on").count(), 1, "{log}");
    assert!(log.contains(reason), "{log}");
}

#[test]
fn a_log_that_cannot_go_on_ends_the_writes_and_not_the_reads() {
    let mut node = Launch::new().flag("--memory", "16MiB").start();
    node.connect().put("before", b"value");
    // What is open stays open, but no file can be made any more.
    let (path, moved) = (node.data().join("wal"), node.data().join("moved"));
    fs::rename(&path, &moved).expect("a directory to move");
    let (taken, refused) = put_until_refused(&node);
    assert_refusal(&refused, 503, "PUT to a log that cannot go on");
    let mut connection = node.connect();
    assert_eq!(connection.value("before").as_deref(), Some(&b"value"[..]));
    check(&mut connection, taken);

    assert_tells(&node, "wal/");
    fs::rename(&moved, &path).expect("a directory to move back");
    // As after each failure of the log, until a restart.
    assert_refusal(&connection.request("PUT", &entity("after"), Some(b"value")), 503, "PUT after a failure");
    for _ in 0..2 {
        node.crash();
        let mut connection = node.connect();
        check(&mut connection, taken);
        assert_eq!(connection.value("before").as_deref(), Some(&b"value"[..]));
        connection.put("after", b"value");
    }
}

/// The client was told, and nobody else.
#[test]
fn a_large_value_that_cannot_be_written_is_in_the_log() {
    let node = Launch::new().flag("--memory", "16MiB").start();
    fs::rename(node.data().join("blobs"), node.data().join("moved")).expect("a directory to move");
    let mut connection = node.connect();
    let refused = connection.request("PUT", &entity("large"), Some(&value(1, 400_000)));
    assert_refusal(&refused, 503, "PUT of a large value that has no place");
    let log = node.log();
    let line = log.lines().find(|line| line.contains("a large value could not be written"));
    assert!(line.is_some_and(|line| line.contains("No such file or directory")), "{log}");
    node.connect().put("small", b"value");
}

/// What it acknowledged after that was in files without a name.
#[test]
fn a_node_whose_directory_was_removed_takes_no_writes_and_says_so() {
    let mut node = Launch::new().flag("--memory", "16MiB").start();
    node.connect().put("before", b"value");
    fs::remove_dir_all(node.data()).expect("a directory to remove");
    wait_until("a node that finds its directory gone", || {
        node.connect().request("GET", "/v0/status", None).status == 503
    });
    assert_tells(&node, "removed, moved or unmounted");
    let mut connection = node.connect();
    for (method, body) in [("PUT", Some(&b"value"[..])), ("DELETE", None)] {
        let refused = connection.request(method, &entity("after"), body);
        assert_refusal(&refused, 503, "a write to a directory that is gone");
    }
    assert_eq!(connection.value("before").as_deref(), Some(&b"value"[..]), "reads go on");
    node.signal("TERM");
    assert_eq!(node.wait().code(), Some(1));
    let log = node.log();
    assert!(log.matches(" WARN ").count() <= 1, "it is told once: {log}");
}

/// It would write its new files among those of another node.
#[test]
fn a_node_in_whose_place_another_directory_is_takes_no_writes_and_writes_nothing_there() {
    let mut other = Launch::new().flag("--memory", "16MiB").start();
    other.connect().put("other", b"value");
    other.signal("TERM");
    assert_eq!(other.wait().code(), Some(0));
    let mut node = Launch::new().flag("--memory", "16MiB").start();
    node.connect().put("before", b"value");
    let (data, own) = (node.data().to_owned(), node.data().with_extension("own"));
    // In one step: at no moment is there no lock file.
    exchange(&data, other.data());
    wait_until("a node that finds another directory in its place", || {
        node.connect().request("GET", "/v0/status", None).status == 503
    });
    assert_tells(&node, "the data directory was replaced");
    let refused = node.connect().request("PUT", &entity("after"), Some(b"value"));
    assert_refusal(&refused, 503, "a write to a directory that is another one");
    node.signal("TERM");
    assert_eq!(node.wait().code(), Some(1));
    fs::rename(other.data(), &own).expect("the node's own directory");
    let mut others = Launch::new().data(&data).start();
    assert_eq!(others.connect().value("other").as_deref(), Some(&b"value"[..]));
    others.signal("TERM");
    assert_eq!(others.wait().code(), Some(0));
    let again = Launch::new().data(&own).start();
    assert_eq!(again.connect().value("before").as_deref(), Some(&b"value"[..]));
    drop(again);
    fs::remove_dir_all(&own).expect("a directory to remove");
}

fn exchange(one: &Path, other: &Path) {
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, flags).expect("an exchange");
}

#[test]
fn values_that_a_disk_does_not_take_are_refused_and_leave_nothing() {
    // No file may be longer than 4 or 8 MiB, depending on the shell's unit. By default that ends a process.
    let limited = ["sh", "-c", "ulimit -f 8192 && exec \"$@\"", "sh"].map(str::to_owned);
    let mut node = Launch::new().wrapper(&limited).flag("--memory", "16MiB").start();
    node.connect().put("small", b"value");
    node.connect().put("large", &value(1, 1 << 20));
    for _ in 0..3 {
        let mut connection = node.connect();
        let head =
            format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", entity("larger"), 32 << 20);
        connection.send(head);
        // The node may have had enough before it has everything.
        let _ = connection.try_send(value(2, 32 << 20));
        let response = connection.response();
        assert!([503, 507].contains(&response.status), "{response:?}");
        assert_refusal(&response, response.status, "PUT of a value that the disk does not take");
        let mut connection = node.connect();
        assert_eq!(connection.value("larger"), None);
        assert_eq!(connection.value("small").as_deref(), Some(&b"value"[..]));
        assert!(connection.value("large") == Some(value(1, 1 << 20)));
    }
    node.kill();
    let again = Launch::new().data(node.data()).start();
    let mut connection = again.connect();
    assert_eq!(connection.value("larger"), None);
    assert_eq!(connection.value("small").as_deref(), Some(&b"value"[..]));
    assert!(connection.value("large") == Some(value(1, 1 << 20)));
    connection.put("larger", &value(2, 32 << 20));
}

#[test]
fn tables_that_cannot_be_written_end_the_writes_and_not_the_reads() {
    let mut node = Launch::new().flag("--memory", "16MiB").start();
    let (path, moved) = (node.data().join("tables"), node.data().join("moved"));
    fs::rename(&path, &moved).expect("a directory to move");
    let (taken, refused) = put_until_refused(&node);
    assert_refusal(&refused, 503, "PUT where nothing can be flushed");
    assert_refusal(&node.connect().request("GET", "/v0/status", None), 503, "the status of a failed disk");
    check(&mut node.connect(), taken);
    node.kill();
    fs::rename(&moved, &path).expect("a directory to move back");
    node.start_again();
    check(&mut node.connect(), taken);
    node.connect().put("after", b"value");
}
