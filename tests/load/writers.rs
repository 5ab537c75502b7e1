use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{Connection, Launch, Node, Random, range, value};

const WRITERS: u64 = 8;

#[test]
fn eight_writers_see_their_own_writes() {
    for threads in ["1", "2", "5"] {
        eight_writers(threads);
    }
}

fn eight_writers(threads: &str) {
    let node = Launch::new().flag("--memory", "16MiB").flag("--threads", threads).start();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let node = &node;
            scope.spawn(move || see_own_writes(&mut node.connect(), writer));
        }
    });
    let records = node.connect().request("GET", &range("writer", None), None).records();
    let last = |writer: u64| (0..40).filter(move |key| key % 4 != 0).map(move |key| (writer, key));
    let expected: Vec<_> = (0..WRITERS).flat_map(last).collect();
    assert_eq!(records.len(), expected.len());
    for ((key, found), (writer, number)) in records.into_iter().zip(expected) {
        assert_eq!(key, format!("writer{writer}-{number:02}").into_bytes());
        assert!(
            found == written(writer, number, 9),
            "writer{writer}-{number:02} is not what was written last"
        );
    }
}

fn written(writer: u64, key: u64, round: u64) -> Vec<u8> {
    value(writer << 32 | key << 16 | round, ((key * 97 + round * 1_013) % 3_000) as usize)
}

fn see_own_writes(connection: &mut Connection, writer: u64) {
    for round in 0..10 {
        for key in 0..40 {
            let name = format!("writer{writer}-{key:02}");
            let expected = written(writer, key, round);
            connection.put(&name, &expected);
            assert!(connection.value(&name).as_ref() == Some(&expected), "{name} in round {round}");
            if key % 4 == 0 {
                connection.delete(&name);
                assert_eq!(connection.value(&name), None, "{name} in round {round}");
            }
        }
    }
}

#[test]
fn a_write_on_one_connection_is_seen_on_all_others() {
    let node = Node::start();
    let mut writer = node.connect();
    let mut readers: Vec<Connection> = (0..16).map(|_| node.connect()).collect();
    for round in 0..200_u32 {
        let expected = round.to_string().into_bytes();
        writer.put("key", &expected);
        for reader in &mut readers {
            assert_eq!(reader.value("key").as_ref(), Some(&expected));
        }
    }
}

#[test]
fn overwriting_one_key_leaves_one_of_the_last_values_and_never_a_mixture() {
    const ROUNDS: u64 = 200;
    let node = Node::start();
    let is_over = AtomicBool::new(false);
    let of = |writer: u64, round: u64| {
        let mut bytes = format!("{writer} {round} ").into_bytes();
        bytes.extend(value(writer << 32 | round, (writer * 700 + round) as usize));
        bytes
    };
    node.connect().put("key", &of(0, 0));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let mut connection = node.connect();
                scope.spawn(move || (0..ROUNDS).for_each(|round| connection.put("key", &of(writer, round))))
            })
            .collect();
        for _ in 0..3 {
            let (mut connection, is_over) = (node.connect(), &is_over);
            scope.spawn(move || {
                let mut newest = [0; WRITERS as usize];
                while !is_over.load(Ordering::Relaxed) {
                    let found = connection.value("key").expect("a value");
                    let (writer, round) = author(&found);
                    assert!(found == of(writer, round), "a mixture of values");
                    let newest = &mut newest[writer as usize];
                    assert!(*newest <= round, "{round} of {writer} came back after {newest}");
                    *newest = round;
                }
            });
        }
        let results: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a writer failed");
    });
    let (writer, round) = author(&node.connect().value("key").expect("a value"));
    assert_eq!(round, ROUNDS - 1, "a value of {writer} that it had replaced itself");
}

fn author(found: &[u8]) -> (u64, u64) {
    let mut words = found.split(|&byte| byte == b' ').map(|word| str::from_utf8(word).expect("a number"));
    let mut next = || words.next().expect("a number").parse().expect("a number");
    (next(), next())
}

#[test]
fn ranges_are_sorted_and_whole_while_others_write() {
    let node = Launch::new().flag("--memory", "16MiB").start();
    let mut connection = node.connect();
    for index in (0..2_000).step_by(2) {
        connection.put(format!("key{index:04}"), format!("{index:04}").as_bytes());
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..4 {
            let (mut connection, is_over) = (node.connect(), &is_over);
            scope.spawn(move || {
                let mut random = Random::new(writer);
                while !is_over.load(Ordering::Relaxed) {
                    let index = random.below(1_000) * 2 + 1;
                    let key = format!("key{index:04}");
                    if random.below(3) == 0 {
                        connection.delete(key);
                    } else {
                        connection.put(key, format!("{index:04}").as_bytes());
                    }
                }
            });
        }
        let mut check = || {
            let records = connection.request("GET", &range("key", None), None).records();
            assert!(records.is_sorted_by(|(one, _), (next, _)| one < next), "not sorted, or a key twice");
            assert!(records.iter().all(|(key, value)| key[3..] == value[..]), "a value of another key");
            let even = records.iter().filter(|(key, _)| key[6].is_multiple_of(2));
            assert_eq!(even.count(), 1_000, "a record that nobody touches is missing");
        };
        let result = thread::scope(|inner| inner.spawn(move || (0..30).for_each(|_| check())).join());
        is_over.store(true, Ordering::Relaxed);
        let () = result.expect("every range was right");
    });
}
