#[cfg(feature = "cassandra")]
use ladoga_node::cassandra::{Settings, Writes};
use ladoga_storage::Durability;

use super::SettingError;
use super::parse;
use super::sources::Sources;

/// Where keys live.
#[derive(Debug)]
pub(crate) enum Engine {
    /// In the data directory.
    Embedded,
    /// In Cassandra.
    #[cfg(feature = "cassandra")]
    Cassandra(Settings),
}

/// What is only for `--engine cassandra`.
const ITS_OWN: [&str; 9] = [
    "cassandra_nodes",
    "cassandra_user",
    "cassandra_password_file",
    "cassandra_datacenter",
    "cassandra_keyspace",
    "cassandra_replicas",
    "cassandra_writes",
    "cassandra_tls_ca",
    "cassandra_pieces_keep_ms",
];

/// Reads it. Cassandra is given how durable writes are to be, how long requests may take, and the number of threads.
pub(super) fn engine(sources: &Sources, with: (Durability, u64, usize)) -> Result<Engine, SettingError> {
    if sources.get("engine", is_cassandra)?.unwrap_or(false) {
        return cassandra(sources, with);
    }
    for name in ITS_OWN {
        sources.get(name, |_| Err::<(), _>("--engine cassandra with it".to_owned()))?;
    }
    Ok(Engine::Embedded)
}

/// Checks the form of a setting of which this file knows.
pub(super) fn check_form(name: &str, text: &str) -> Result<(), String> {
    match name {
        "engine" => is_cassandra(text).map(drop),
        "cassandra_nodes" => nodes(text).map(drop),
        "cassandra_keyspace" => keyspace(text).map(drop),
        "cassandra_replicas" => replicas(text).map(drop),
        "cassandra_writes" => is_writes(text),
        "cassandra_pieces_keep_ms" => parse::timeout_ms(text).map(drop),
        _ => not_empty(text).map(drop),
    }
}

#[cfg(feature = "cassandra")]
fn is_cassandra(text: &str) -> Result<bool, String> {
    match text {
        "embedded" => Ok(false),
        "cassandra" => Ok(true),
        _ => Err("embedded or cassandra".to_owned()),
    }
}

#[cfg(not(feature = "cassandra"))]
fn is_cassandra(text: &str) -> Result<bool, String> {
    match text {
        "embedded" => Ok(false),
        "cassandra" => Err("embedded: this binary was built without the cargo feature cassandra".to_owned()),
        _ => Err("embedded".to_owned()),
    }
}

fn nodes(text: &str) -> Result<Vec<String>, String> {
    let expected =
        || "HOST:PORT of nodes of Cassandra, separated by commas, such as db1:9042,db2:9042".to_owned();
    text.split(',')
        .map(|node| parse::host_and_port(node).map(|_| node.to_owned()).map_err(|_| expected()))
        .collect()
}

fn replicas(text: &str) -> Result<u32, String> {
    let expected = || "a number of copies from 1 to 100".to_owned();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten();
    number.filter(|copies| (1..=100).contains(copies)).ok_or_else(expected)
}

/// The names of the keyspaces go on with `_rf` and a number, and have at most 48 bytes.
fn keyspace(text: &str) -> Result<String, String> {
    let is_word = text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if is_word && text.len() <= 40 {
        Ok(text.to_owned())
    } else {
        Err("a word of at most 40 small letters, digits and underscores that begins with a letter".to_owned())
    }
}

fn is_writes(text: &str) -> Result<(), String> {
    if matches!(text, "plain" | "lwt") { Ok(()) } else { Err("plain or lwt".to_owned()) }
}

fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a name that is not empty".to_owned()) } else { Ok(text.to_owned()) }
}

#[cfg(not(feature = "cassandra"))]
fn cassandra(_: &Sources, _: (Durability, u64, usize)) -> Result<Engine, SettingError> {
    unreachable!("nothing else than embedded is taken")
}

/// How long pieces of values stay that were replaced.
#[cfg(feature = "cassandra")]
const PIECES_KEEP_MS: u64 = 3_600_000;

#[cfg(feature = "cassandra")]
fn cassandra(
    sources: &Sources,
    (durability, timeout_ms, threads): (Durability, u64, usize),
) -> Result<Engine, SettingError> {
    sources.get("cluster", |_| Err::<(), _>("no --cluster with --engine cassandra".to_owned()))?;
    let nodes = sources.get("cassandra_nodes", nodes)?.ok_or_else(|| SettingError {
        name: "--cassandra-nodes".to_owned(),
        value: String::new(),
        expected: "HOST:PORT of nodes of Cassandra with --engine cassandra".to_owned(),
    })?;
    let writes = sources.get("cassandra_writes", |text| {
        is_writes(text).map(|()| Writes::parse(text).unwrap_or(Writes::Plain))
    })?;
    Ok(Engine::Cassandra(Settings {
        nodes,
        user: user(sources)?,
        datacenter: sources.get("cassandra_datacenter", not_empty)?,
        keyspace: sources.get("cassandra_keyspace", keyspace)?.unwrap_or_else(|| "ladoga".to_owned()),
        writes: writes.unwrap_or(Writes::Plain),
        tls_ca: sources.get("cassandra_tls_ca", |path| Ok(contents(path)?.into_bytes()))?,
        replicas: sources.get("cassandra_replicas", replicas)?,
        timeout_ms,
        pieces_keep_ms: sources.get("cassandra_pieces_keep_ms", parse::timeout_ms)?.unwrap_or(PIECES_KEEP_MS),
        durability,
        threads,
    }))
}

/// A name and its password: neither without the other.
#[cfg(feature = "cassandra")]
fn user(sources: &Sources) -> Result<Option<(String, String)>, SettingError> {
    let password = sources.get("cassandra_password_file", |path| {
        let text = contents(path)?;
        let line = text.trim_end_matches(['\r', '\n']);
        if line.is_empty() { Err("a file with a password".to_owned()) } else { Ok(line.to_owned()) }
    })?;
    let has_password = password.is_some();
    let name = sources.get("cassandra_user", |name| {
        if has_password { not_empty(name) } else { Err("--cassandra-password-file with it".to_owned()) }
    })?;
    if name.is_none() {
        sources.get("cassandra_password_file", |_| Err::<(), _>("--cassandra-user with it".to_owned()))?;
    }
    Ok(name.zip(password))
}

#[cfg(feature = "cassandra")]
fn contents(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("a file that can be read: {error}"))
}

#[cfg(all(test, feature = "cassandra"))]
mod tests {
    use super::*;

    fn read(file: &str) -> Result<Settings, String> {
        let flags = crate::arguments::ServeFlags::default();
        let sources = Sources::of(&flags, &[], file).expect("known keys");
        match engine(&sources, (Durability::EverySecond, 5_000, 2)).map_err(|error| error.to_string())? {
            Engine::Cassandra(settings) => Ok(settings),
            Engine::Embedded => Err("embedded".to_owned()),
        }
    }

    #[test]
    fn nodes_are_enough() {
        let settings =
            read("engine = \"cassandra\"\ncassandra_nodes = \"a:9042,[::1]:9043\"").expect("settings");
        assert_eq!(settings.nodes, ["a:9042", "[::1]:9043"]);
        assert_eq!((settings.writes, settings.replicas, settings.user), (Writes::Plain, None, None));
        assert_eq!(read("").expect_err("the default"), "embedded");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |line: &str| read(&format!("engine = \"cassandra\"\ncassandra_nodes = \"a:1\"\n{line}"));
        for (line, words) in [
            ("cassandra_writes = \"fast\"", "is 'fast', expected plain or lwt"),
            ("cassandra_replicas = 0", "is '0', expected a number of copies"),
            ("cassandra_keyspace = \"A\"", "expected a word of at most 40 small letters"),
            ("cassandra_user = \"me\"", "expected --cassandra-password-file with it"),
            ("cassandra_password_file = \"/nowhere/at/all\"", "expected a file that can be read"),
            ("cassandra_tls_ca = \"/nowhere/at/all\"", "expected a file that can be read"),
            ("cluster = \"http://a:1,http://b:1\"", "expected no --cluster with --engine cassandra"),
        ] {
            let error = with(line).expect_err(line);
            assert!(error.contains(words), "{error}");
        }
        let error = read("engine = \"cassandra\"").expect_err("no nodes");
        assert!(error.starts_with("--cassandra-nodes is ''"), "{error}");
        let error = read("engine = \"cassandra\"\ncassandra_nodes = \"a\"").expect_err("no port");
        assert!(error.contains("expected HOST:PORT of nodes of Cassandra"), "{error}");
        let error = read("cassandra_nodes = \"a:1\"").expect_err("for another engine");
        assert!(error.ends_with("expected --engine cassandra with it"), "{error}");
    }
}
