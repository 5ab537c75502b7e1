//! What costs a node more than it should, or leaves a connection in disorder.

use std::io::{Read, Write};
use std::time::Duration;

use crate::client::{RespClient, RespNode, request};
use crate::support::{Launch, value, wait_until};

/// The memory that a node takes while something is done, beside what it had.
fn grown_bytes(node: &RespNode, work: impl FnOnce()) -> u64 {
    let before = node.node.resident_bytes();
    work();
    node.node.resident_bytes().saturating_sub(before)
}

/// A connection whose node sends replies that nobody reads; it lasts for as long as this is kept.
fn flood(node: &RespNode, bytes: &[u8]) -> RespClient {
    let client = node.connect();
    client.stream().set_write_timeout(Some(Duration::from_millis(500))).expect("a connection");
    // It ends when the node takes no more.
    let _ = client.stream().write_all(bytes);
    client
}

/// Whatever holds them until they are read, it is not memory.
#[test]
fn replies_that_nobody_reads_take_little_memory() {
    const MEMORY_BYTES_MAX: u64 = 64 << 20;
    let node = RespNode::launch(Launch::patient().flag("--fsync", "never"));
    let mut client = node.connect();
    assert_eq!(client.ask_bytes(&[b"SET", b"large", &value(1, 60 << 20)]), b"+OK\r\n");
    for n in 0..40 {
        let key = format!("k{n}");
        assert_eq!(client.ask_bytes(&[b"SET", key.as_bytes(), &value(n, 250_000)]), b"+OK\r\n");
    }
    let keys: Vec<String> = (0..5_000).map(|n| format!("k{}", n % 40)).collect();
    let mget: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(keys.iter().map(String::as_bytes)).collect();
    let gets: Vec<u8> = keys.iter().flat_map(|key| request(&[b"GET", key.as_bytes()])).collect();
    for (what, bytes) in [
        ("GETRANGE of one byte", request(&[b"GETRANGE", b"large", b"0", b"0"]).repeat(2_000)),
        ("GETRANGE of all", request(&[b"GETRANGE", b"large", b"1", b"-1"]).repeat(100)),
        ("MGET", request(&mget)),
        ("MGET of few", request(&mget[..17]).repeat(200)),
        ("GET", gets),
        ("OBJECT ENCODING", request(&[b"OBJECT", b"ENCODING", b"large"]).repeat(2_000)),
    ] {
        let mut held = Vec::new();
        let grown = grown_bytes(&node, || held.extend((0..3).map(|_| flood(&node, &bytes))));
        assert!(grown < MEMORY_BYTES_MAX, "{what}: {grown} bytes");
        assert_eq!(client.ask("PING"), "+PONG\r\n");
    }
    // Who reads gets all of it.
    client.send(&request(&mget[..401]));
    assert_eq!(client.reply().len(), "*400\r\n".len() + 400 * (250_000 + "$250000\r\n\r\n".len()));
}

/// A value that is taken out of the store counts as memory for as long as its client does not read it.
#[test]
fn large_values_that_are_exchanged_and_not_read_are_bounded() {
    let node = RespNode::launch(Launch::patient().flag("--fsync", "never").flag("--memory", "256MiB"));
    let mut clients: Vec<_> = (0..24).map(|_| node.connect()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        let key = format!("k{n}");
        assert_eq!(client.ask_bytes(&[b"SET", key.as_bytes(), &value(n as u64, 16 << 20)]), b"+OK\r\n");
    }
    let before = node.node.resident_bytes();
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(&request(&[b"GETSET", format!("k{n}").as_bytes(), b"small"]));
    }
    let mut most = 0;
    for client in &clients {
        // Its reply has begun, or it is refused, or cut off because it has to give way.
        let _ = client.stream().peek(&mut [0]);
        most = most.max(node.node.resident_bytes());
    }
    let grown = most.saturating_sub(before);
    assert!(grown < 192 << 20, "{grown} bytes");
    assert_eq!(node.connect().ask("PING"), "+PONG\r\n");
}

#[test]
fn what_a_connection_keeps_is_bounded() {
    let node = RespNode::start();
    let mut client = node.connect();
    let long = vec![b'k'; 1 << 20];
    let grown = grown_bytes(&node, || {
        for n in 0..100_u32 {
            let key = [&n.to_be_bytes()[..], &long].concat();
            assert_eq!(client.ask_bytes(&[b"WATCH", &key]), b"+OK\r\n");
        }
        let too_long = b"-ERR Client names have 1024 bytes at most\r\n";
        assert_eq!(client.ask_bytes(&[b"CLIENT", b"SETNAME", &long]), too_long);
        assert_eq!(client.ask_bytes(&[b"HELLO", b"3", b"SETNAME", &long]), too_long);
        assert!(
            client.ask_bytes(&[b"CLIENT", b"SETINFO", b"LIB-NAME", &long]).starts_with(b"-ERR lib-name have")
        );
    });
    assert!(grown < 24 << 20, "{grown} bytes");
    assert_eq!(client.ask("GET none"), "$-1\r\n", "a HELLO that is refused changes nothing");
    // What is queued keeps nothing of what arrived around it.
    let words = vec![b'x'; 60_000];
    let grown = grown_bytes(&node, || {
        assert_eq!(client.ask("MULTI"), "+OK\r\n");
        for _ in 0..1_000 {
            let refused = request(&[b"WATCH", &words]);
            client.send(&[&refused[..], &request(&[b"GET", b"k"])].concat());
            assert!(client.reply().starts_with(b"-ERR WATCH inside MULTI"));
            assert_eq!(client.reply(), b"+QUEUED\r\n");
        }
    });
    assert!(grown < 16 << 20, "{grown} bytes");
    assert!(client.ask("EXEC").starts_with("*1000\r\n$-1\r\n"));
    // However long it is itself.
    let grown = grown_bytes(&node, || {
        assert_eq!(client.ask("MULTI"), "+OK\r\n");
        for _ in 0..40 {
            let refused = request(&[b"WATCH", &vec![b'x'; 4 << 20]]);
            client.send(&[&refused[..], &request(&[b"ECHO", &long[..70_000]])].concat());
            assert!(client.reply().starts_with(b"-ERR WATCH inside MULTI"));
            assert_eq!(client.reply(), b"+QUEUED\r\n");
        }
    });
    assert!(grown < 32 << 20, "{grown} bytes");
}

/// Each cursor kept all keys that were read with its own.
#[test]
fn scans_that_have_not_ended_keep_little() {
    let node = RespNode::start();
    let mut client = node.connect();
    let keys: Vec<String> = (0..5_000).map(|n| format!("{n:0100}")).collect();
    let words = keys.iter().flat_map(|key| [key.as_bytes(), b"1"]);
    let words: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(words).collect();
    assert_eq!(client.ask_bytes(&words), b"+OK\r\n");
    let grown = grown_bytes(&node, || {
        for _ in 0..2_000 {
            assert!(client.ask("SCAN 0 COUNT 1").starts_with("*2\r\n"));
        }
    });
    assert!(grown < 24 << 20, "{grown} bytes");
}

/// What is watched was counted no more after a mistake, and after a key for which there was no room.
#[test]
fn what_connections_watch_is_bounded_together() {
    const PARTS: u32 = 20;
    let node = RespNode::launch(Launch::patient().flag("--fsync", "never").flag("--memory", "32MiB"));
    let watch = |part: u32| {
        let keys: Vec<Vec<u8>> =
            (0..50).map(|n| [&(part * 50 + n).to_be_bytes()[..], &[b'k'; 4_000]].concat()).collect();
        request(&std::iter::once(&b"WATCH"[..]).chain(keys.iter().map(Vec::as_slice)).collect::<Vec<_>>())
    };
    for mistake in [&b""[..], b"MULTI\r\nNOSUCH\r\n"] {
        let mut idle = Vec::new();
        let grown = grown_bytes(&node, || {
            for _ in 0..60 {
                let client = node.connect();
                let mut stream = client.stream();
                for words in (0..PARTS).map(watch).chain([mistake.to_vec(), b"PING\r\n".to_vec()]) {
                    let _ = stream.write_all(&words);
                }
                // All replies, or, if others need its room, why the connection is closed. Behind `MULTI`, `PING` is queued.
                let (mut told, mut piece) = (Vec::new(), [0; 4096]);
                while !told.ends_with(b"+PONG\r\n") && !told.ends_with(b"+QUEUED\r\n") {
                    match stream.read(&mut piece) {
                        Ok(0) | Err(_) => break,
                        Ok(count) => told.extend_from_slice(&piece[..count]),
                    }
                }
                idle.push(client);
            }
        });
        assert!(grown < 48 << 20, "{grown} bytes");
    }
    assert_eq!(node.connect().ask("PING"), "+PONG\r\n");
}

#[test]
fn what_is_repeated_or_described_is_bounded() {
    let node = RespNode::start();
    let mut client = node.connect();
    let long = vec![b'x'; 1 << 20];
    for (words, begins) in [
        (&[&b"HELLO"[..], b"3", &long][..], "-ERR Syntax error in HELLO option 'xxx"),
        (&[b"EXPIRE", b"k", b"1", &long], "-ERR Unsupported option xxx"),
        (&[b"CLIENT", b"SETINFO", &long, b"x"], "-ERR Unrecognized option 'xxx"),
        (&[b"CLIENT", &long], "-ERR unknown subcommand 'xxx"),
        (&[b"CONFIG", b"SET", &long, b"x"], "-ERR CONFIG SET failed (possibly related to argument 'xxx"),
        (&[b"ACL", &long], "-ERR unknown subcommand 'xxx"),
        (&[&long], "-ERR unknown command 'xxx"),
        (&[b"CONFIG", b"GET", &long], "-ERR at most 64 settings"),
        (&[b"KEYS", &long], "-ERR the pattern is longer than 4096 bytes"),
        (&[b"SCAN", b"0", b"MATCH", &long], "-ERR the pattern is longer than 4096 bytes"),
        (&[b"INCRBYFLOAT", b"f", b"1e2147483647"], "-ERR increment would produce NaN or Infinity"),
        (&[b"SUBSCRIBE", b"news"], "-ERR unknown command 'SUBSCRIBE', with args beginning with: 'news' "),
        (&[b"LADOGA.REPLICAS", b"many"], "-ERR "),
    ] {
        let reply = String::from_utf8_lossy(&client.ask_bytes(words)).into_owned();
        assert!(reply.starts_with(begins) && reply.len() < 512, "{begins}: {reply:.200}");
    }
    let grown = grown_bytes(&node, || {
        for of in ["INFO", "DOCS"] {
            let words =
                [&b"COMMAND"[..], of.as_bytes()].into_iter().chain(std::iter::repeat_n(&b"get"[..], 500_000));
            let reply = client.ask_bytes(&words.collect::<Vec<_>>());
            assert_eq!(String::from_utf8_lossy(&reply), "-ERR at most 1024 commands can be asked for\r\n");
        }
    });
    assert!(grown < 64 << 20, "{grown} bytes");
}

/// Patterns that take long to look at hold nobody else up.
#[test]
fn a_pattern_that_takes_long_holds_nobody_up() {
    let node = RespNode::launch(Launch::new().flag("--fsync", "never").flag("--threads", "1"));
    let mut client = node.connect();
    for n in 0..60 {
        let key = [format!("{n:03}").as_bytes(), &[b'a'; 4_000]].concat();
        assert_eq!(client.ask_bytes(&[b"SET", &key, b"v"]), b"+OK\r\n");
    }
    let pattern = [&b"*["[..], &[b'b'; 2_000], b"a]b"].concat();
    client.send(&request(&[b"KEYS", &pattern]));
    let mut other = node.connect();
    let mut pings = 0;
    client.stream().set_nonblocking(true).expect("a connection");
    let mut byte = [0];
    while client.stream().peek(&mut byte).is_err() {
        assert_eq!(other.ask("PING"), "+PONG\r\n");
        pings += 1;
    }
    client.stream().set_nonblocking(false).expect("a connection");
    assert_eq!(client.reply(), b"*0\r\n");
    assert!(pings > 20, "{pings} others were served");
}

#[test]
fn replies_that_are_not_wanted_are_not_written_for_transactions_either() {
    let node = RespNode::start();
    let mut client = node.connect();
    for (mode, commands, expected) in [
        ("OFF", &["MULTI", "SET k 1", "GET k", "EXEC", "CLIENT REPLY ON"][..], "+OK\r\n"),
        ("OFF", &["WATCH k", "INCR k", "MULTI", "GET k", "EXEC", "MGET k k", "CLIENT REPLY ON"], "+OK\r\n"),
        ("SKIP", &["MGET k k", "PING"], "+PONG\r\n"),
    ] {
        client.send(format!("CLIENT REPLY {mode}\r\n").as_bytes());
        for command in commands {
            client.send(format!("{command}\r\n").as_bytes());
        }
        assert_eq!(String::from_utf8_lossy(&client.reply()), expected, "{mode}: {commands:?}");
        assert_eq!(client.ask("PING"), "+PONG\r\n");
    }
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(client.ask("GET k"), "+QUEUED\r\n");
    client.send(b"CLIENT REPLY SKIP\r\nPING\r\n");
    assert!(client.reply().starts_with(b"-ERR Command not allowed"));
    assert_eq!(client.reply(), b"+QUEUED\r\n");
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
}

#[test]
fn nothing_behind_the_end_of_a_connection_is_done() {
    let node = RespNode::start();
    for last in ["QUIT", "QUIT now", "MULTI\r\nSET k 1\r\nQUIT"] {
        let mut client = node.connect();
        client
            .send(format!("SET j 1\r\n{last}\r\nSET k 2\r\nGET j\r\n*3\r\n$3\r\nSET\r\n$1\r\nk").as_bytes());
        let replies = String::from_utf8_lossy(&client.rest()).into_owned();
        let expected =
            if last.starts_with("MULTI") { "+OK\r\n+OK\r\n+QUEUED\r\n+OK\r\n" } else { "+OK\r\n+OK\r\n" };
        assert_eq!(replies, expected, "{last}");
        assert_eq!(node.connect().ask("GET k"), "$-1\r\n");
    }
}

/// What breaks off in the middle of a request is no request.
#[test]
fn half_a_request_is_none() {
    let node = RespNode::start();
    let bytes = [request(&[b"INCR", b"n"]), request(&[b"SET", b"k", b"value"])].concat();
    for cut in 1..bytes.len() {
        let mut client = node.connect();
        client.send(&bytes[..cut]);
        client.finish_sending();
        let is_first_whole = cut >= request(&[b"INCR", b"n"]).len();
        let replies = client.rest();
        assert_eq!(replies.is_empty(), !is_first_whole, "{cut}: {}", replies.escape_ascii());
        assert_eq!(replies.split_inclusive(|byte| *byte == b'\n').count(), usize::from(is_first_whole));
    }
    assert_eq!(node.connect().ask("GET k"), "$-1\r\n");
}

/// The first words of clients, byte by byte, in both forms, and what is no word.
#[test]
fn first_words_arrive_byte_by_byte() {
    let node = RespNode::start();
    let mut client = node.connect();
    for byte in b"\r\n*0\r\n*-1\r\nHELLO 3 AUTH default x SETNAME \"a b\"\r\nHELLO 2 AUTH eve x\r\nhello 3 setname me\r\nPING\r\n" {
        client.send(&[*byte]);
    }
    assert!(client.reply().starts_with(b"-ERR Client names cannot contain spaces"));
    assert!(client.reply().starts_with(b"-WRONGPASS"));
    assert!(client.reply().starts_with(b"%7\r\n"));
    assert_eq!(client.reply(), b"+PONG\r\n");
    assert_eq!(client.ask("CLIENT GETNAME"), "$2\r\nme\r\n");
    for words in ["HELLO 3 AUTH default", "HELLO 3 SETNAME", "HELLO x", "HELLO 9999999999999999999"] {
        assert!(client.ask(words).starts_with('-'), "{words}");
    }
    // An array within an array is no request.
    client.send(b"*1\r\n*1\r\n$4\r\nPING\r\n");
    assert_eq!(client.rest(), b"-ERR Protocol error: expected '$', got '*'\r\n");
}

/// One that arrived at once with its end was served, however long it was.
#[test]
fn a_line_has_64_kib_at_most() {
    let node = RespNode::start();
    for bytes in [(64 << 10) + 1, 200_000] {
        let mut client = node.connect();
        let line = format!("ECHO {}\r\n", "x".repeat(bytes));
        // The node may have had enough before it has everything.
        let _ = client.stream().write_all(line.as_bytes());
        let told = client.rest();
        assert!(
            told.is_empty() || told == b"-ERR Protocol error: too big inline request\r\n",
            "{}",
            told.escape_ascii()
        );
    }
    let mut client = node.connect();
    let word = "x".repeat(60_000);
    client.send(format!("ECHO {word}\r\n").as_bytes());
    assert_eq!(client.reply(), format!("$60000\r\n{word}\r\n").into_bytes());
}

/// A page that somebody has open makes a browser send this to any port of the machine.
#[test]
fn a_request_of_http_runs_no_commands() {
    let node = RespNode::launch(Launch::new().flag("--fsync", "never").env("LADOGA_RESP_FLUSH", "true"));
    assert_eq!(node.connect().ask("SET k v"), "+OK\r\n");
    let body = "SET k other\r\nFLUSHALL\r\nSET pwned yes\r\n";
    for head in ["POST / HTTP/1.1\r\n", "GET /x HTTP/1.1\r\nHost: localhost\r\n", "hoST: localhost\r\n"] {
        let mut client = node.connect();
        client.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        let replies = client.rest();
        let replies = String::from_utf8_lossy(&replies);
        assert!(replies.ends_with("and this is HTTP; the connection is closed\r\n"), "{head}: {replies}");
        assert!(!replies.contains("+OK"), "{head}: {replies}");
    }
    let mut client = node.connect();
    assert_eq!(client.ask("GET k"), "$1\r\nv\r\n");
    assert_eq!(client.ask("GET pwned"), "$-1\r\n");
}

/// The server of a stranger gives a browser a ticket with lines in it, which the browser sends to where the name then points.
#[test]
fn a_handshake_of_tls_runs_no_commands() {
    let node = RespNode::start();
    let ticket = b"\r\nSET pwned yes\r\n";
    for begin in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\x16\x03\x01\n",
        b"\n\x16\n",
        b"\x80\x00\n",
        b"PING \0\n",
    ] {
        let mut client = node.connect();
        client.send(&[begin, ticket].concat());
        let replies = client.rest();
        let replies = String::from_utf8_lossy(&replies);
        assert!(replies.starts_with("-ERR Protocol error: "), "{replies}");
        assert_eq!(replies.lines().count(), 1, "{replies}");
    }
    assert_eq!(node.connect().ask("GET pwned"), "$-1\r\n");
}

/// Whatever a client has queued, others can write.
#[test]
fn a_transaction_that_waits_gives_its_memory_up() {
    /// What they take leaves less of seven eighths of 4 MiB, which one client may have, than a write needs.
    const ECHOES: usize = 175;
    let node = RespNode::launch(Launch::patient().flag("--fsync", "never").flag("--memory", "32MiB"));
    let mut idle = node.connect();
    assert_eq!(idle.ask("MULTI"), "+OK\r\n");
    idle.send(&request(&[b"ECHO", &value(1, 20_000)]).repeat(ECHOES));
    for _ in 0..ECHOES {
        assert_eq!(idle.reply(), b"+QUEUED\r\n");
    }
    // After some seconds, in which it makes no progress.
    wait_until("a write that is taken", || {
        node.connect().ask_bytes(&[b"SET", b"k", &value(1, 200_000)]) == b"+OK\r\n"
    });
    let told = idle.rest();
    assert!(
        told.starts_with(b"-ERR the transaction waited too long for its EXEC"),
        "{}",
        told.escape_ascii()
    );
}
