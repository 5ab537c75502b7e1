//! The same random commands to Redis and to a node: equal replies, but for what `docs/redis.md` lists. Times are moments: what is
//! counted from now on ends a millisecond earlier here or there.

use std::process::{Command, Stdio};

use crate::client::{Ending, RespClient, RespNode, request, wait_until_it_listens};
use crate::support::{Directory, Port, Random, skip_without};

const BATCHES: usize = 1_500;

/// One of several, which may have to be said in one argument or in more, with spaces between.
fn one(random: &mut Random, of: &[&str]) -> String {
    of[random.below(of.len() as u64) as usize].to_owned()
}

const KEYS: [&str; 5] = ["a", "b", "c", "key:1", "other"];
const VALUES: [&str; 9] =
    ["1", "-5", "10.5", "hello", "1.5e3", "9223372036854775807", "", "\r\n", "a_longer_value_that_is_long"];
/// Some more often than others.
const NAMES: [&str; 41] = [
    "get",
    "set",
    "set",
    "set",
    "setnx",
    "setex",
    "getset",
    "getdel",
    "getex",
    "mget",
    "mset",
    "msetnx",
    "incr",
    "decr",
    "incrby",
    "decrby",
    "append",
    "strlen",
    "getrange",
    "setrange",
    "del",
    "exists",
    "type",
    "expireat",
    "pexpireat",
    "expiretime",
    "pexpiretime",
    "persist",
    "rename",
    "renamenx",
    "copy",
    "echo",
    "select",
    "nosuch",
    "multi",
    "exec",
    "discard",
    "watch",
    "scan",
    "touch",
    "keys",
];
/// What does not make a number with zeros in front, which is one here and none to Redis.
const TEXTS: [&str; 5] = ["hello", "", "\r\n", "x", "a_longer_value_that_is_long"];
const NUMBERS: [&str; 9] = ["0", "1", "-1", "5", "-3", "100", "-9223372036854775808", "1.5", "abc"];
const SET_OPTIONS: [&str; 12] = [
    "",
    "",
    "",
    "NX",
    "XX",
    "GET",
    "KEEPTTL",
    "EXAT 4102444800",
    "PXAT 4102444800123",
    "NX XX",
    "EX 0",
    "NX GET",
];
const EXPIRE_OPTIONS: [&str; 8] = ["", "", "NX", "XX", "GT", "LT", "NX XX", "foo"];

/// A key.
fn key(random: &mut Random) -> String {
    one(random, &KEYS)
}

/// What is written with spaces between.
fn words(text: &str) -> Vec<String> {
    text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// A command with its arguments; what is written with spaces between is several.
fn command(random: &mut Random) -> Vec<String> {
    let name = one(random, &NAMES);
    let mut arguments = vec![name.clone()];
    let keys = 1 + random.below(3) as usize;
    match &*name {
        "multi" | "exec" | "discard" => {}
        "mget" | "del" | "exists" | "touch" | "watch" => arguments.extend((0..keys).map(|_| key(random))),
        "mset" | "msetnx" => (0..keys).for_each(|_| {
            arguments.extend([key(random), one(random, &VALUES)]);
        }),
        "set" => {
            arguments.extend([key(random), one(random, &VALUES)]);
            arguments.extend(words(&one(random, &SET_OPTIONS)));
        }
        _ => arguments_of(&name, random, &mut arguments),
    }
    // Now and then, one too few.
    if random.below(40) == 0 && arguments.len() > 1 && name != "scan" {
        arguments.pop();
    }
    arguments
}

/// The arguments of a command that takes one key, or two.
fn arguments_of(name: &str, random: &mut Random, arguments: &mut Vec<String>) {
    match name {
        "setnx" | "getset" => arguments.extend([key(random), one(random, &VALUES)]),
        "append" => arguments.extend([key(random), one(random, &TEXTS)]),
        "setex" => arguments.extend([key(random), one(random, &["0", "-1", "x"]), one(random, &VALUES)]),
        "getex" => {
            arguments.push(key(random));
            arguments
                .extend(words(&one(random, &["", "PERSIST", "PXAT 4102444800123", "EX 0", "EX", "EXAT 1"])));
        }
        "incrby" | "decrby" => arguments.extend([key(random), one(random, &NUMBERS)]),
        "getrange" => arguments.extend([key(random), one(random, &NUMBERS), one(random, &NUMBERS)]),
        "setrange" => {
            arguments.extend([key(random), one(random, &["0", "3", "-1", "x", "40"]), one(random, &TEXTS)]);
        }
        "expireat" => {
            arguments.extend([
                key(random),
                one(random, &["4102444800", "4102444900", "0", "-1", "abc", "9223372036854775807"]),
            ]);
            arguments.extend(words(&one(random, &EXPIRE_OPTIONS)));
        }
        "pexpireat" => {
            arguments.extend([key(random), one(random, &["4102444800123", "4102444800999", "1", "-5"])]);
            arguments.extend(words(&one(random, &["", "GT", "LT"])));
        }
        "rename" | "renamenx" | "copy" => arguments.extend([key(random), key(random)]),
        "echo" => arguments.push(one(random, &VALUES)),
        "select" => arguments.push(one(random, &["0", "1", "x"])),
        "nosuch" => arguments.extend((0..=random.below(2)).map(|_| one(random, &VALUES))),
        "scan" => arguments.extend(words(&one(random, &["x", "0 COUNT 0", "0 COUNT", "0 FOO 1"]))),
        "keys" => arguments.push(one(random, &["a", "key*", "none*", "[b]x"])),
        _ => arguments.push(key(random)),
    }
}

/// Redis, as Debian has it.
fn redis(port: &Port, directory: &Directory) -> Option<Ending> {
    let started = Command::new("redis-server")
        .args([
            "--port",
            &port.address().port().to_string(),
            "--save",
            "",
            "--databases",
            "1",
            "--bind",
            "127.0.0.1",
        ])
        .arg("--dir")
        .arg(directory.path())
        .stdout(Stdio::null())
        .spawn();
    match started {
        Ok(process) => Some(Ending(process)),
        Err(error) => {
            skip_without("redis-server", &format!("redis-server cannot be started: {error}"));
            None
        }
    }
}

#[test]
fn the_same_commands_get_the_same_replies_as_from_redis() {
    let (port, directory) = (Port::claim(), Directory::new());
    let Some(_redis) = redis(&port, &directory) else { return };
    wait_until_it_listens(port.address());
    let node = RespNode::start();
    for seed in 0..3 {
        let (mut ours, mut theirs) = (node.connect(), RespClient::open(port.address()));
        let mut random = Random::new(seed);
        for client in [&mut ours, &mut theirs] {
            client.ask(&format!("DEL {}", KEYS.join(" ")));
        }
        for _ in 0..BATCHES {
            let batch: Vec<_> = (0..=random.below(12)).map(|_| command(&mut random)).collect();
            let bytes: Vec<u8> = batch
                .iter()
                .flat_map(|arguments| request(&arguments.iter().map(String::as_bytes).collect::<Vec<_>>()))
                .collect();
            ours.send(&bytes);
            theirs.send(&bytes);
            for arguments in &batch {
                let (our, their) = (ours.reply(), theirs.reply());
                let text = |reply: &[u8]| reply.escape_ascii().to_string();
                assert_eq!(text(&our), text(&their), "seed {seed}: {arguments:?} of {batch:?}");
            }
        }
    }
}
