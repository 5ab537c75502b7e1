use crate::client::RespNode;
use crate::support::Launch;

/// Commands and their replies, on one connection, in order.
#[track_caller]
fn converse(node: &RespNode, conversation: &[(&str, &str)]) {
    let mut client = node.connect();
    for (command, reply) in conversation {
        assert_eq!(client.ask(command), format!("{reply}\r\n"), "{command}");
    }
}

#[test]
fn strings_are_set_and_got() {
    converse(
        &RespNode::start(),
        &[
            ("GET k", "$-1"),
            ("SET k v", "+OK"),
            ("get k", "$1\r\nv"),
            ("SET k w NX", "$-1"),
            ("SET k w XX GET", "$1\r\nv"),
            ("SET k x IFEQ v", "$-1"),
            ("SET k x IFEQ w", "+OK"),
            ("SETNX k y", ":0"),
            ("SETNX n y", ":1"),
            ("GETSET n z", "$1\r\ny"),
            ("MSET a 1 b 2", "+OK"),
            ("MGET a none b", "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2"),
            ("MSETNX a 1 c 2", ":0"),
            ("EXISTS a a c", ":2"),
            ("APPEND a 23", ":3"),
            ("GETRANGE a 0 -2", "$2\r\n12"),
            ("SETRANGE a 5 x", ":6"),
            ("STRLEN a", ":6"),
            ("GETDEL n", "$1\r\nz"),
            ("DEL a b none a", ":2"),
            ("TYPE k", "+string"),
            ("TYPE a", "+none"),
            ("RENAME k r", "+OK"),
            ("RENAME k r", "-ERR no such key"),
            ("COPY r s", ":1"),
            ("COPY r s", ":0"),
            ("UNLINK r s", ":2"),
            ("SET k", "-ERR wrong number of arguments for 'set' command"),
            ("SET k v EX", "-ERR syntax error"),
            ("LPUSH k v", "-ERR unknown command 'LPUSH', with args beginning with: 'k' 'v' "),
        ],
    );
}

#[test]
fn numbers_are_added_to() {
    converse(
        &RespNode::start(),
        &[
            ("INCR n", ":1"),
            ("INCRBY n 41", ":42"),
            ("DECRBY n 43", ":-1"),
            ("DECR n", ":-2"),
            ("INCRBYFLOAT n 2.5", "$3\r\n0.5"),
            ("INCR n", "-ERR value is not an integer or out of range"),
            ("SET n 9223372036854775807", "+OK"),
            ("INCR n", "-ERR increment or decrement would overflow"),
            ("INCRBY n x", "-ERR value is not an integer or out of range"),
            ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
        ],
    );
}

#[test]
fn values_expire() {
    let node = RespNode::start();
    converse(
        &node,
        &[
            ("TTL k", ":-2"),
            ("SET k v", "+OK"),
            ("TTL k", ":-1"),
            ("EXPIRE k 100", ":1"),
            ("TTL k", ":100"),
            ("EXPIRE k 50 GT", ":0"),
            ("PEXPIREAT k 4102444800123 GT", ":1"),
            ("PEXPIRETIME k", ":4102444800123"),
            ("APPEND k w", ":2"),
            ("PEXPIRETIME k", ":4102444800123"),
            ("SET k v KEEPTTL", "+OK"),
            ("EXPIRETIME k", ":4102444800"),
            ("INCRBY m 5", ":5"),
            ("GETEX k PERSIST", "$1\r\nv"),
            ("TTL k", ":-1"),
            ("PERSIST k", ":0"),
            ("SET k v EXAT 4102444800", "+OK"),
            ("PERSIST k", ":1"),
            ("EXPIRE k 3153600001", "-ERR invalid expire time in 'expire' command"),
            ("PEXPIRE k 3153600000001", "-ERR invalid expire time in 'pexpire' command"),
            ("GETEX k EX 3153600001", "-ERR invalid expire time in 'getex' command"),
            ("TTL k", ":-1"),
            ("EXPIRE k -1", ":1"),
            ("EXISTS k", ":0"),
            ("SET k v EX 0", "-ERR invalid expire time in 'set' command"),
            ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command"),
            ("PSETEX k 20 v", "+OK"),
        ],
    );
    let mut client = node.connect();
    crate::support::wait_until("a value that expires", || client.ask("GET k") == "$-1\r\n");
}

#[test]
fn keys_are_scanned_each_once() {
    let node = RespNode::start();
    let mut client = node.connect();
    for n in 0..250 {
        assert_eq!(client.ask(&format!("SET key:{n:03} v")), "+OK\r\n");
    }
    assert_eq!(client.ask("SET other v"), "+OK\r\n");
    assert_eq!(client.ask("DBSIZE"), ":251\r\n");
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let reply = client.ask(&format!("SCAN {cursor} MATCH key:* COUNT 7"));
        let mut lines = reply.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
        cursor = lines.next().expect("a cursor").to_owned();
        found.extend(lines.map(str::to_owned));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, (0..250).map(|n| format!("key:{n:03}")).collect::<Vec<_>>());
    assert_eq!(client.ask("KEYS key:00[12]"), "*2\r\n$7\r\nkey:001\r\n$7\r\nkey:002\r\n");
    assert!(client.ask("RANDOMKEY").starts_with('$'));
    assert_eq!(client.ask("SCAN 12345"), "-ERR invalid cursor\r\n");
}

/// What libraries say by themselves when they connect.
#[test]
fn what_clients_say_first_is_understood() {
    let node = RespNode::start();
    let mut client = node.connect();
    let hello = client.ask("HELLO 3 SETNAME me");
    assert!(hello.starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"), "{hello}");
    assert_eq!(client.ask("CLIENT GETNAME"), "$2\r\nme\r\n");
    assert_eq!(client.ask("CLIENT SETINFO LIB-NAME test"), "+OK\r\n");
    assert_eq!(client.ask("GET none"), "_\r\n");
    assert!(client.ask("INFO server").starts_with('='));
    assert_eq!(client.ask("CONFIG GET bind"), "%1\r\n$4\r\nbind\r\n$9\r\n127.0.0.1\r\n");
    assert_eq!(client.ask("CONFIG GET save"), "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
    assert!(client.ask("COMMAND DOCS").starts_with('%'));
    assert_eq!(client.ask("SELECT 0"), "+OK\r\n");
    assert_eq!(client.ask("SELECT 1"), "-ERR DB index is out of range\r\n");
    assert_eq!(client.ask("HELLO 4"), "-NOPROTO unsupported protocol version\r\n");
    assert!(client.ask("AUTH secret").starts_with("-ERR AUTH <password> called without any password"));
    assert_eq!(client.ask("LADOGA.REPLICAS"), "$3\r\n1/1\r\n");
    assert!(client.ask("LADOGA.REPLICAS 2/3").starts_with("-ERR from is 3"));
    assert_eq!(client.ask("RESET"), "+RESET\r\n");
    assert_eq!(client.ask("GET none"), "$-1\r\n");
    assert!(client.ask("CLIENT REPLY SKIP PING").starts_with("-ERR wrong number"));
    assert_eq!(client.ask("QUIT"), "+OK\r\n");
    assert!(client.rest().is_empty());
}

/// It was `always` on each node.
#[test]
fn appendfsync_is_what_the_node_was_started_with() {
    for (fsync, appendfsync) in [("always", "always"), ("everysec", "everysec"), ("never", "no")] {
        let node = RespNode::launch(Launch::new().flag("--fsync", fsync));
        let expected = format!("*2\r\n$11\r\nappendfsync\r\n${}\r\n{appendfsync}\r\n", appendfsync.len());
        assert_eq!(node.connect().ask("CONFIG GET AppendFsync"), expected);
    }
}

#[test]
fn commands_are_listed_by_a_filter() {
    let node = RespNode::start();
    converse(
        &node,
        &[
            ("COMMAND LIST FILTERBY PATTERN GETR*", "*1\r\n$8\r\ngetrange"),
            ("command list filterby pattern ?in?", "*1\r\n$4\r\nping"),
            ("COMMAND LIST FILTERBY PATTERN x*", "*0"),
            ("COMMAND LIST FILTERBY MODULE json", "*0"),
            ("COMMAND LIST FILTERBY ACLCAT string", "*0"),
            ("COMMAND LIST FILTERBY NAME x", "-ERR syntax error"),
            ("COMMAND LIST FILTERBY PATTERN", "-ERR syntax error"),
            ("COMMAND LIST get", "-ERR syntax error"),
        ],
    );
    let all = node.connect().ask("COMMAND LIST");
    assert_eq!(node.connect().ask("COMMAND LIST FILTERBY PATTERN *"), all);
}

#[test]
fn commands_are_counted() {
    let node = RespNode::start();
    let mut client = node.connect();
    client.ask("SET k v");
    client.ask("GET k");
    client.ask("INCR k");
    let metrics = node.node.metrics();
    for (labels, count) in [
        (["kind=\"write\"", "result=\"ok\""], 1.0),
        (["kind=\"read\"", "result=\"ok\""], 1.0),
        (["kind=\"write\"", "result=\"error\""], 1.0),
    ] {
        assert_eq!(metrics.sum("ladoga_resp_commands_total", &labels), Some(count), "{labels:?}");
    }
}

/// What `redis-cli --stat` and dashboards look for.
#[test]
fn a_node_tells_what_it_is_doing() {
    let node = RespNode::start();
    let info = node.connect().ask("INFO");
    let number = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    assert!(number("used_memory") > Some(1 << 20), "{info}");
    assert!(number("total_connections_received") > Some(0), "{info}");
    assert!(number("uptime_in_seconds").is_some_and(|seconds| seconds < 1_000), "{info}");
}

#[test]
fn keys_of_commands_that_end_before_them_are_not_looked_for() {
    let node = RespNode::start();
    converse(
        &node,
        &[
            ("COMMAND GETKEYS object encoding k", "*1\r\n$1\r\nk"),
            ("COMMAND GETKEYS object encoding", "-ERR Invalid number of arguments specified for command"),
            ("COMMAND GETKEYS object help", "-ERR The command has no key arguments"),
            ("PING", "+PONG"),
        ],
    );
}

#[test]
fn subcommands_have_help_and_take_no_more_than_they_use() {
    let node = RespNode::start();
    let mut client = node.connect();
    for command in ["ACL", "CLIENT", "COMMAND", "CONFIG", "LATENCY", "MEMORY", "MODULE", "OBJECT", "SLOWLOG"]
    {
        let help = client.ask(&format!("{command} help"));
        assert!(help.contains(&format!("{command} <subcommand>")) && help.contains("HELP"), "{help}");
    }
    assert!(client.ask("SLOWLOG RESET x").starts_with("-ERR wrong number of arguments for 'slowlog|reset'"));
    assert!(client.ask("MODULE LIST x").starts_with("-ERR wrong number of arguments for 'module|list'"));
    assert_eq!(client.ask("CLIENT LIST FOO"), "-ERR syntax error\r\n");
    let own = client.ask("CLIENT ID").trim_start_matches(':').trim().to_owned();
    assert!(client.ask(&format!("CLIENT LIST ID 999999 {own}")).contains(&format!("id={own} ")));
    assert_eq!(client.ask("CLIENT LIST ID 999999"), "$0\r\n\r\n");
    assert_eq!(client.ask("CLIENT LIST ID x"), "-ERR Invalid client ID\r\n");
    assert_eq!(client.ask("CLIENT LIST TYPE foo"), "-ERR Unknown client type 'foo'\r\n");
    assert!(client.ask("CLIENT LIST TYPE normal").contains(&format!("id={own} ")));
}
