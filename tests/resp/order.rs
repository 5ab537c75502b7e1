//! What one connection sends takes effect in its order, however it is served.

use std::collections::BTreeMap;

use crate::client::{RespClient, RespNode, request};
use crate::support::{Launch, Random, skip};

/// What a connection does to a node that nobody else uses, and what it is told.
#[derive(Default)]
struct Model(BTreeMap<String, String>);

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

impl Model {
    /// A random command and its reply.
    fn command(&mut self, random: &mut Random) -> (Vec<String>, String) {
        let mut pick = |of: usize| random.below(of as u64) as usize;
        let (key, number) = (KEYS[pick(KEYS.len())].to_owned(), pick(1_000).to_string());
        let is_there = self.0.contains_key(&key);
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let flag = |is_so: bool| format!(":{}\r\n", u8::from(is_so));
        let ok = "+OK\r\n".to_owned();
        match pick(10) {
            0 | 1 => {
                self.0.insert(key.clone(), number.clone());
                (words(&["SET", &key, &number]), ok)
            }
            2 => {
                self.0.remove(&key);
                (words(&["DEL", &key]), flag(is_there))
            }
            3 => {
                self.0.entry(key.clone()).or_insert_with(|| number.clone());
                (words(&["SETNX", &key, &number]), flag(!is_there))
            }
            4 => {
                if is_there {
                    self.0.insert(key.clone(), number.clone());
                }
                let reply = if is_there { ok } else { "$-1\r\n".to_owned() };
                (words(&["SET", &key, &number, "XX"]), reply)
            }
            5 | 6 => {
                let sum = self.0.get(&key).map_or(0, |text| text.parse::<i64>().expect("a number")) + 1;
                self.0.insert(key.clone(), sum.to_string());
                (words(&["INCR", &key]), format!(":{sum}\r\n"))
            }
            7 => {
                let other = KEYS[pick(KEYS.len())];
                self.0.insert(key.clone(), number.clone());
                self.0.insert(other.to_owned(), "7".to_owned());
                (words(&["MSET", &key, &number, other, "7"]), ok)
            }
            8 => {
                let other = KEYS[pick(KEYS.len())].to_owned();
                let removed = [&key, &other].into_iter().filter(|key| self.0.remove(*key).is_some()).count();
                (words(&["DEL", &key, &other]), format!(":{removed}\r\n"))
            }
            _ => {
                let reply = self.0.get(&key).map(|text| format!("${}\r\n{text}\r\n", text.len()));
                (words(&["GET", &key]), reply.unwrap_or_else(|| "$-1\r\n".to_owned()))
            }
        }
    }
}

/// Sends commands some at a time and reads their replies.
fn converse(client: &mut RespClient, seed: u64, commands: usize) {
    let (mut random, mut model) = (Random::new(seed), Model::default());
    client.ask(&format!("DEL {}", KEYS.join(" ")));
    let mut sent = 0;
    while sent < commands {
        let count = 1 + random.below(200) as usize;
        let batch: Vec<_> = (0..count).map(|_| model.command(&mut random)).collect();
        let bytes = batch
            .iter()
            .flat_map(|(words, _)| request(&words.iter().map(String::as_bytes).collect::<Vec<_>>()));
        client.send(&bytes.collect::<Vec<u8>>());
        for (number, (words, expected)) in batch.iter().enumerate() {
            let reply = String::from_utf8_lossy(&client.reply()).into_owned();
            assert_eq!(reply, *expected, "seed {seed}: {words:?}, number {number} of {batch:?}");
        }
        sent += count;
    }
}

#[test]
fn commands_of_all_kinds_take_effect_in_their_order() {
    for (fsync, commands) in [("never", 4_000), ("everysec", 4_000), ("always", 1_000)] {
        let node = RespNode::launch(Launch::new().flag("--fsync", fsync));
        for seed in 0..3 {
            converse(&mut node.connect(), seed, commands);
        }
    }
}

/// A key that has to be read from the disk must not be overtaken by what is sent behind it.
#[test]
fn keys_that_are_not_in_memory_are_not_overtaken() {
    let mut node = RespNode::launch(Launch::new().flag("--fsync", "never"));
    let mut client = node.connect();
    let keys: Vec<String> = (0..200).map(|n| format!("key:{n}")).collect();
    for key in &keys {
        assert_eq!(client.ask(&format!("SET {key} 10")), "+OK\r\n");
    }
    // Everything is in tables then, and nothing in a cache.
    node.node.restart();
    let mut client = node.connect();
    let (mut bytes, mut expected) = (Vec::new(), String::new());
    for (n, key) in keys.iter().enumerate() {
        let cold = keys[(n * 7 + 3) % keys.len()].clone();
        for (command, reply) in [
            (format!("INCR {key}"), ":11"),
            (format!("INCR {key}"), ":12"),
            (format!("DEL {key}"), ":1"),
            (format!("SETNX {key} 1"), ":1"),
            (format!("INCR {key}"), ":2"),
            (format!("INCR last:{cold}"), ":1"),
            (format!("DEL {key}"), ":1"),
            (format!("SET {key} 10 NX"), "+OK"),
        ] {
            bytes.extend(request(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
            expected.extend([reply, "\r\n"]);
        }
    }
    client.send(&bytes);
    client.finish_sending();
    assert_eq!(String::from_utf8_lossy(&client.rest()), expected);
}

/// Clients with ordinary pipelines are not refused, although they send more than the store queues at once.
#[test]
fn clients_with_pipelines_wait_for_room() {
    const CLIENTS: usize = 20;
    // Three rounds fill the queue on most machines. One with a fast disk beside slow processors may take more.
    const ROUNDS_MAX: usize = 20;
    let node = RespNode::launch(Launch::new().flag("--fsync", "always").flag("--memory", "32MiB"));
    let refused = || node.node.metrics().sum("ladoga_commit_queue_refused_total", &[]).unwrap();
    let mut rounds = 0;
    while rounds < ROUNDS_MAX && refused() == 0.0 {
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                let node = &node;
                scope.spawn(move || send_pipelines(&mut node.connect(), number, rounds));
            }
        });
        rounds += 1;
    }
    assert_eq!(
        node.connect().ask("GET n0"),
        format!("${}\r\n{}\r\n", (CLIENTS * rounds).to_string().len(), CLIENTS * rounds)
    );
    if refused() == 0.0 {
        skip("the queue of writes was never full on this machine: what clients do that wait for room");
    }
}

/// Sends one round of what client `number` sends at once, and takes the replies.
fn send_pipelines(client: &mut RespClient, number: usize, round: usize) {
    let (mut bytes, text) = (Vec::new(), format!("{round}"));
    for n in 0..30 {
        let keys: Vec<String> = (0..10).map(|of| format!("k{}", (number + n * 7 + of) % 300)).collect();
        let pairs = keys.iter().flat_map(|key| [key.as_bytes(), text.as_bytes()]);
        bytes.extend(request(&std::iter::once(&b"MSET"[..]).chain(pairs).collect::<Vec<_>>()));
    }
    for n in 0..200 {
        bytes.extend(request(&[b"SET", format!("v{n}").as_bytes(), &[b'1'; 5_000]]));
    }
    for n in 0..30 {
        bytes.extend(request(&[b"INCR", format!("n{n}").as_bytes()]));
    }
    client.send(&bytes);
    for _ in 0..260 {
        let reply = client.reply();
        assert!(reply[0] != b'-', "{}", reply.escape_ascii());
    }
}
