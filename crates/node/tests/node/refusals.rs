use ladoga_node::store::StoreError;

use crate::running::Running;
use crate::scripted::{LARGE_BYTES, Script};

/// The longest value that is read and discarded if it is refused.
const REFUSED_BODY_BYTES_MAX: usize = 64 << 10;
const ATTEMPTS: usize = 1_000;

fn no_room() -> StoreError {
    StoreError::NoRoom { reason: "the disk is full".to_owned() }
}

fn over_capacity() -> StoreError {
    StoreError::OverCapacity { bound: "the queue of writes is full" }
}

#[test]
fn what_is_not_admitted_is_refused_before_its_value_is_read() {
    let running = Running::start();
    let failed = StoreError::Failed { reason: "the disk failed".to_owned() };
    for (error, status) in [(over_capacity(), 503), (no_room(), 507), (failed, 503)] {
        running.store.tell(Script { admit: Some(error), ..Script::default() });
        for bytes in [5, LARGE_BYTES] {
            let mut client = running.connect();
            client.announce("k", bytes);
            let answer = client.answer();
            assert_eq!(answer.status, status, "{answer:?}");
            assert_eq!(answer.head.contains("\r\nretry-after: 1\r\n"), status == 503, "{answer:?}");
        }
    }
    assert_eq!(running.store.value("k"), None);
}

#[test]
fn a_small_value_that_is_refused_leaves_its_connection_usable() {
    let running = Running::start();
    running.store.tell(Script { admit: Some(over_capacity()), ..Script::default() });
    let mut client = running.connect();
    for _ in 0..10 {
        let answer = client.put("k", &[b'v'; 1_000]);
        assert_eq!((answer.status, answer.closes()), (503, false));
    }
    running.store.tell(Script::default());
    assert_eq!(client.put("k", b"value").status, 201);
}

#[test]
fn a_value_that_has_arrived_by_the_time_it_is_refused_leaves_its_connection_usable() {
    let running = Running::start();
    running.store.tell(Script { admit: Some(over_capacity()), ..Script::default() });
    let mut client = running.connect();
    let mut is_kept = || {
        let answer = client.put("k", &vec![b'v'; REFUSED_BODY_BYTES_MAX]);
        assert_eq!(answer.status, 503);
        if answer.closes() {
            client = running.connect();
            return false;
        }
        assert_eq!(client.get("/v0/entity?id=k").status, 404);
        true
    };
    // Whether it has depends on how the system delivers it.
    assert!((0..ATTEMPTS).any(|_| is_kept()), "the connection was closed after each of {ATTEMPTS} refusals");
    assert!(
        running.connect().put("k", &vec![b'v'; REFUSED_BODY_BYTES_MAX + 1]).closes(),
        "longer than what is read away"
    );
}

#[test]
fn a_value_that_has_not_arrived_is_not_waited_for_to_refuse_it() {
    let running = Running::start();
    running.store.tell(Script { admit: Some(over_capacity()), ..Script::default() });
    for arrived in [0, 500] {
        let mut client = running.connect();
        client.send("PUT /v0/entity?id=k HTTP/1.1\r\nhost: h\r\ncontent-length: 1000\r\n\r\n");
        client.send(vec![b'v'; arrived]);
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (503, true), "{arrived} of 1000 bytes have arrived");
        client.send(vec![b'v'; 1_000 - arrived]);
        assert_eq!(client.rest(), (Vec::new(), true), "what comes late is not taken for a request");
    }
}

#[test]
fn what_fails_after_its_value_was_read_has_the_same_status() {
    let running = Running::start();
    for (error, status) in [(no_room(), 507), (StoreError::Failed { reason: "EIO".to_owned() }, 503)] {
        running.store.tell(Script { apply: Some(error), ..Script::default() });
        let mut client = running.connect();
        for value in [&b"small"[..], &[b'v'; LARGE_BYTES as usize]] {
            assert_eq!(client.put("k", value).status, status);
        }
        assert_eq!(client.delete("k").status, status);
        assert_eq!(client.get("/v0/status").status, 200, "the connection goes on");
    }
}

/// The rest of such a value was parsed as the head of a request, and answered with `431`.
#[test]
fn a_large_value_that_cannot_be_written_is_the_last_of_its_connection() {
    let running = Running::start();
    let (length, late) = (100 * LARGE_BYTES as usize, 1_000);
    for pieces in [0, 1, 3] {
        running.store.tell(Script { upload: Some((pieces, no_room())), ..Script::default() });
        let mut client = running.connect();
        client.send(format!("PUT /v0/entity?id=k HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n"));
        // The node may have had enough before it has everything.
        _ = client.try_send(vec![b'v'; length - late]);
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (507, true), "after {pieces} pieces");
        _ = client.try_send(vec![b'v'; late]);
        assert_eq!(client.rest().0, b"", "what is left is not taken for a request");
    }
    assert_eq!(running.store.value("k"), None);
}

#[test]
fn what_cannot_be_read_says_why() {
    let running = Running::start();
    for reads_later in [false, true] {
        let get =
            Some(StoreError::Unreadable { reason: "tables/000007.sst is corrupt at offset 4096".to_owned() });
        running.store.tell(Script { get, reads_later, ..Script::default() });
        let answer = running.connect().get("/v0/entity?id=k");
        assert_eq!(answer.status, 500);
        assert!(answer.text().contains("tables/000007.sst is corrupt at offset 4096"), "{answer:?}");
    }
}

#[test]
fn what_takes_the_disk_does_not_hold_up_what_does_not() {
    let running = Running::start();
    running.store.insert("k", b"value");
    running.store.tell(Script { reads_later: true, holds: true, ..Script::default() });
    let mut waiting: Vec<_> = (0..20).map(|_| running.connect()).collect();
    for client in &mut waiting {
        client.send("GET /v0/entity?id=k HTTP/1.1\r\nhost: h\r\n\r\n");
    }
    assert_eq!(running.connect().get("/v0/status").status, 200);
    running.store.release();
    for client in &mut waiting {
        assert_eq!(client.answer().text(), "value");
    }
}

#[test]
fn a_client_that_leaves_does_not_undo_its_write() {
    let running = Running::start();
    running.store.tell(Script { holds: true, ..Script::default() });
    let mut client = running.connect();
    client.send_put("k", b"value");
    while running.store.value("k").is_none() {
        std::thread::yield_now();
    }
    drop(client);
    running.store.release();
    running.store.tell(Script::default());
    assert_eq!(running.connect().get("/v0/entity?id=k").text(), "value");
}
