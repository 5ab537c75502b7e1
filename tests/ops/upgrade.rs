//! What earlier releases wrote is read by this one, and nodes of two releases speak with each other.
//!
//! `tests/fixtures/upgrade/N` is a data directory as a node of some release left it when it was killed, each file compressed on its own.
//! Made anew for a new format, beside those that there are, by
//! `LADOGA_FIXTURE=N cargo test -p ladoga --test ops a_fixture_for_the_next`.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::repository;
use crate::support::{Connection, Directory, Ladoga, Launch, Node, entity, files_below};

const KEYS: usize = 400;
/// Longer than what is kept beside its key.
const LARGE_BYTES: usize = 300 << 10;
/// What all that is written before the flush comes to is more than a memtable of the smallest node holds.
const FILLER_BYTES: usize = 64 << 10;
const FILLERS: usize = 160;
/// A fixture is small enough to be kept for ever.
const FIXTURE_BYTES_MAX: u64 = 300 << 10;

fn key(number: usize) -> String {
    format!("key-{number:04}")
}

/// A value that compresses well, and is nobody else's.
fn value(of: &str, bytes: usize) -> Vec<u8> {
    of.bytes().cycle().take(bytes).collect()
}

/// Writes what [`check`] expects.
fn write(node: &Node) {
    let mut connection = node.connect();
    let mut send = |method: &str, target: &str, body: Option<&[u8]>, status: u16| {
        let response = connection.request(method, target, body);
        assert_eq!(response.status, status, "{method} {target}: {}", response.text());
    };
    for number in 0..KEYS {
        send("PUT", &entity(key(number)), Some(&value("old", 40)), 201);
    }
    for number in 0..FILLERS {
        let name = format!("filler-{number}");
        send("PUT", &entity(&name), Some(&value(&name, FILLER_BYTES)), 201);
    }
    send("PUT", &entity("large"), Some(&value("large", LARGE_BYTES)), 201);
    // Some of what is in tables is changed by what is still in the log.
    for number in (0..KEYS).step_by(4) {
        send("PUT", &entity(key(number)), Some(&value("new", 50)), 201);
        send("DELETE", &entity(key(number + 1)), None, 202);
    }
    send("PUT", &entity("counter"), Some(b"40"), 201);
    send("POST", &format!("{}&increment=2", entity("counter")), None, 200);
    send("PUT", &format!("{}&ttl=1ms", entity("gone")), Some(b"1"), 201);
    send("PUT", &format!("{}&ttl=36500d", entity("stays")), Some(b"2"), 201);
    send("PUT", &entity("\u{0}\u{1f}é"), Some(b"bytes"), 201);
    send("PUT", &entity("empty"), Some(b""), 201);
}

fn check(node: &Node) {
    let mut connection = node.connect();
    for number in 0..KEYS {
        let expected = match number % 4 {
            0 => Some(value("new", 50)),
            1 => None,
            _ => Some(value("old", 40)),
        };
        assert_eq!(connection.value(key(number)), expected, "{}", key(number));
    }
    for number in 0..FILLERS {
        let name = format!("filler-{number}");
        assert_eq!(connection.value(&name), Some(value(&name, FILLER_BYTES)), "{name}");
    }
    assert_eq!(connection.value("large"), Some(value("large", LARGE_BYTES)));
    assert_eq!(connection.value("counter"), Some(b"42".to_vec()));
    assert_eq!(connection.value("gone"), None);
    assert_eq!(connection.value("\u{0}\u{1f}é"), Some(b"bytes".to_vec()));
    assert_eq!(connection.value("empty"), Some(Vec::new()));
    let stays = connection.get("stays");
    assert_eq!((stays.status, &*stays.body), (200, &b"2"[..]));
    assert!(stays.header("ladoga-expires").is_some(), "it still expires");
    let count = connection.request("GET", "/v0/entities?start=%00&count=true", None);
    let (deleted, others) = (KEYS / 4, ["large", "counter", "stays", "bytes", "empty"].len());
    assert_eq!(count.text().trim(), (KEYS - deleted + FILLERS + others).to_string());
}

fn fixtures() -> PathBuf {
    repository("tests/fixtures/upgrade")
}

/// Lays out the data directory that a fixture is of.
fn unpack(fixture: &Path, data: &Path) {
    for (packed, _) in files_below(fixture) {
        let name = packed.strip_prefix(fixture).expect("a file of the fixture").with_extension("");
        let mut bytes = Vec::new();
        let file = fs::File::open(&packed).expect("a file of the fixture");
        GzDecoder::new(file).read_to_end(&mut bytes).expect("a file that is not damaged");
        let path = data.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    }
}

fn launch(data: &Path) -> Launch {
    Launch::new().flag("--memory", "16MiB").flag("--fsync", "never").data(data)
}

#[test]
fn what_earlier_releases_wrote_is_read() {
    let found: Vec<_> =
        fs::read_dir(fixtures()).expect("fixtures").map(|entry| entry.expect("one")).collect();
    assert!(!found.is_empty(), "there is no fixture");
    for fixture in found {
        check_fixture(&fixture.path());
    }
}

fn check_fixture(fixture: &Path) {
    let directory = Directory::new();
    let data = directory.path().join("data");
    unpack(fixture, &data);
    let path = data.to_str().expect("a path of text");
    Ladoga::new(["check", path]).run().expect_success();
    let mut node = launch(&data).start();
    check(&node);
    // What this release adds is read together with what was there.
    node.connect().put("another", b"1");
    node.connect().delete("another");
    node.restart();
    check(&node);
    node.stop();
    Ladoga::new(["check", path]).run().expect_success();
}

/// Packs the files of a data directory; answers how many bytes that comes to.
fn pack(data: &Path, fixture: &Path) -> u64 {
    let mut total = 0;
    for (path, _) in files_below(data) {
        let relative = path.strip_prefix(data).expect("a file of the directory");
        let mut packed = fixture.join(relative).into_os_string();
        packed.push(".gz");
        let packed = PathBuf::from(packed);
        fs::create_dir_all(packed.parent().expect("a directory")).expect("a directory");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(&path).expect("a file")).expect("memory");
        let bytes = encoder.finish().expect("memory");
        total += bytes.len() as u64;
        fs::write(packed, bytes).expect("a file");
    }
    total
}

/// Also how a fixture is made: then it is kept.
#[test]
fn what_this_release_writes_is_a_fixture_for_the_next() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    let mut node = launch(&data).start();
    write(&node);
    check(&node);
    node.kill();
    let kept = std::env::var("LADOGA_FIXTURE").map(|name| fixtures().join(name));
    let fixture = kept.unwrap_or_else(|_| directory.path().join("fixture"));
    let total = pack(&data, &fixture);
    assert!(total <= FIXTURE_BYTES_MAX, "{total} bytes");
    check_fixture(&fixture);
}

/// The kinds of the frames of the protocol of peers that are used here.
const HELLO: u8 = 1;
const STRANGER: u8 = 65;

/// The checksum of frames, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1)))
    })
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let rest = [&7_u32.to_le_bytes()[..], &[kind], body].concat();
    [&(rest.len() as u32).to_le_bytes()[..], &crc32c(&rest).to_le_bytes(), &rest].concat()
}

/// The hello of the other node of a cluster of two, as `docs/formats.md` has it, with a statement that says nothing.
fn hello(versions: u16, own: usize, urls: &[String]) -> Vec<u8> {
    let mut body = [versions.to_le_bytes(), (own as u16).to_le_bytes()].concat();
    body.extend(1_764_000_000_000_u64.to_le_bytes());
    // Incarnation, write floor, synced before, whole, clock, nobody met, session, reach, nobody remembered, clock.
    body.extend([0; 8 + 8 + 8 + 1 + 8 + 2 + 8 + 16 + 2 + 8]);
    // The first epoch.
    body.extend(1_u64.to_le_bytes());
    body.extend((urls.len() as u16).to_le_bytes());
    for url in urls {
        body.extend((url.len() as u16).to_le_bytes());
        body.extend(url.bytes());
        body.extend(1_u16.to_le_bytes());
    }
    body
}

/// What a node answers to a hello: the kind of the frame, and its body.
fn greet(node: &Node, hello: &[u8]) -> (u8, Vec<u8>) {
    let mut connection: Connection = node.connect();
    connection
        .send("GET /v0/peer HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: ladoga-peer/3\r\n\r\n");
    assert_eq!(connection.response_head().status, 101);
    connection.send(frame(HELLO, hello));
    let prefix = connection.try_read_exactly(8).expect("a frame");
    let length = u32::from_le_bytes(prefix[..4].try_into().expect("four bytes"));
    let rest = connection.try_read_exactly(length as usize).expect("the rest of a frame");
    assert_eq!(crc32c(&rest), u32::from_le_bytes(prefix[4..].try_into().expect("four bytes")));
    (rest[4], rest[5..].to_vec())
}

#[test]
fn nodes_of_two_releases_speak_what_both_know() {
    let other = crate::support::Port::claim();
    let launch = Launch::new();
    let mut urls = vec![launch.url(), other.url()];
    let node = launch.flag("--cluster", &urls.join(",")).start();
    urls.sort();
    let own = urls.iter().position(|url| *url == other.url()).expect("the other one");
    let versions = |body: &[u8]| u16::from_le_bytes([body[0], body[1]]);
    // One that knows the version before only, and one as all nodes of this release say it.
    for spoken in [7, 0x0708, 0x0709, 0x070a] {
        let (kind, answer) = greet(&node, &hello(spoken, own, &urls));
        assert_eq!((kind, versions(&answer)), (HELLO, 0x070a), "{answer:?}");
    }
    // One of the next release, which speaks this version as well, and has more to say.
    let more = [&hello(0x080b, own, &urls)[..], b"and more"].concat();
    let (kind, answer) = greet(&node, &more);
    assert_eq!((kind, versions(&answer)), (HELLO, 0x070a), "{answer:?}");
    // Those that this one cannot speak with are told why.
    for (versions, said) in [
        (6, "version 6 of the protocol, expected versions 7 to 10 of the protocol"),
        (11, "version 11 of the protocol, expected"),
        (0x0b0c, "versions 11 to 12 of the protocol, expected"),
    ] {
        let (kind, answer) = greet(&node, &hello(versions, own, &urls));
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(kind == STRANGER && text.contains(said), "{kind}: {text}");
    }
}
