//! Manifests with a checksum that is right around contents that are not: whoever can write into a repository can make one.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::listing::Tag;
use crate::test_tables::{TABLE_BYTES, table_list, table_list_bytes};

const PATH: &str = "/backups/backups/2026-11-23T12-00-05Z.json";

fn node(url: &str, place: u128) -> NodeBackup {
    let tables = table_list(&[(7, &[5, 6]), (8, &[])]);
    let of = |(number, (file, _)): (u128, (StoreFile, _))| {
        let bytes = if let StoreFile::Table(_) = file { TABLE_BYTES } else { 300_000 };
        let tag = Tag(place << 64 | number);
        StoredFile { file, bytes, stored: StoredName { tag, hash: u128::MAX - number } }
    };
    let files = (0..).zip(tables.files()).map(of).collect();
    NodeBackup { url: url.to_owned(), store: Some(place), taken_ms: 3, tables, files, log: None }
}

fn alone() -> Backup {
    let (id, nodes) = ("2026-11-23T12-00-05Z".to_owned(), vec![node("http://a", 1)]);
    Backup { id, begun_ms: 1, ended_ms: 2, cluster: Vec::new(), ack: 1, missing: Vec::new(), nodes }
}

fn of_a_cluster() -> Backup {
    let cluster = ["http://a", "http://b", "http://c"].map(str::to_owned).to_vec();
    let missing = vec![Missing { url: cluster[2].clone(), why: "it is down".to_owned() }];
    let nodes = vec![node(&cluster[0], 1), node(&cluster[1], 2)];
    Backup { cluster, ack: 2, missing, nodes, ..alone() }
}

/// What of a backup is in its file, without the checksum.
fn value(backup: &Backup) -> Value {
    let bytes = backup.encode();
    let end = bytes.windows(CHECKSUM.len()).rposition(|window| window == CHECKSUM.as_bytes());
    serde_json::from_slice(&bytes[..end.expect("a checksum")]).expect("JSON")
}

/// These bytes, and the checksum that they have.
fn sealed(json: &[u8]) -> Vec<u8> {
    [json, format!("{CHECKSUM}{:032x}\n", xxh3_128(json)).as_bytes()].concat()
}

fn read(json: &[u8]) -> Result<Backup, String> {
    Backup::decode(Path::new(PATH), &sealed(json)).map_err(|error| error.to_string())
}

/// Changes what is at this place of the JSON, and expects to be refused for this reason.
#[track_caller]
fn expect_refused(backup: &Backup, place: &str, new: Value, expected: &str) {
    let mut json = value(backup);
    *json.pointer_mut(place).unwrap_or_else(|| panic!("there is no {place}")) = new;
    let refused = read(json.to_string().as_bytes()).expect_err(expected);
    assert!(refused.contains(expected) && refused.contains(PATH), "{place}: {refused}");
    assert!(!refused.chars().any(char::is_control), "{refused:?}");
}

#[test]
fn what_is_written_is_read() {
    for backup in [alone(), of_a_cluster()] {
        assert_eq!(Backup::decode(Path::new(PATH), &backup.encode()).expect("a backup"), backup);
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in [
        "../../../../etc/passwd",
        "tables/../../CURRENT",
        "/tables/000007.sst",
        "tables/000007.sst/",
        "tables/000008.sst",
        "blobs/000005.blob\u{1b}[2J",
        "tables/18446744073709551615.sst",
        "CURRENT",
        "",
    ] {
        expect_refused(&alone(), "/nodes/0/files/0/name", name.into(), "expected blobs/000005.blob");
    }
    let good = alone().nodes[0].files[0].stored.to_string();
    for name in ["../../secret", "/etc/passwd", "", &good.to_uppercase(), &format!("{good}.new"), "-", "\n"] {
        expect_refused(&alone(), "/nodes/0/files/0/stored", name.into(), "which is no name");
    }
    expect_refused(&alone(), "/nodes/0/url", "\u{1b}[2J".into(), "expected a URL");
    expect_refused(&alone(), "/nodes/0/store", "1".into(), "its store has no name");
    expect_refused(&of_a_cluster(), "/missing/0/url", "http://c\n".into(), "expected a URL");
}

#[test]
fn lengths_and_counts_that_cannot_be_are_refused() {
    for bytes in [0, TABLE_BYTES - 1, TABLE_BYTES + 1, u64::MAX] {
        expect_refused(&alone(), "/nodes/0/files/2/bytes", bytes.into(), "which it cannot have");
    }
    for bytes in [FILE_BYTES_MAX + 1, u64::MAX] {
        expect_refused(&alone(), "/nodes/0/files/0/bytes", bytes.into(), "which it cannot have");
    }
    for number in [json!(-1), json!(1.5), json!(1e300), json!("9"), Value::Null] {
        expect_refused(&alone(), "/nodes/0/files/0/bytes", number.clone(), "invalid");
        expect_refused(&alone(), "/begun_ms", number.clone(), "invalid");
        expect_refused(&alone(), "/ack", number, "invalid");
    }
    expect_refused(&alone(), "/ack", (1_u64 << 32).into(), "invalid");
    let files = value(&alone())["nodes"][0]["files"].as_array().expect("files").clone();
    for count in [0, 1, 3] {
        expect_refused(&alone(), "/nodes/0/files", files[..count].into(), "expected the 4 of its tables");
    }
    let twice = [&files[..], &files[..]].concat();
    expect_refused(&alone(), "/nodes/0/files", twice.into(), "it has 8 files of a node");
}

#[test]
fn a_list_of_tables_that_promises_more_than_it_has_is_refused() {
    let bytes = table_list_bytes(&[(7, &[5, 6]), (8, &[])]);
    let mut lists: Vec<Vec<u8>> = (0..bytes.len()).map(|cut| bytes[..cut].to_vec()).collect();
    // The number of blobs of the last table, and the length of its largest key before that.
    for place in [bytes.len() - 4, bytes.len() - 7] {
        let mut longer = bytes.clone();
        longer[place..place + 2].fill(0xff);
        lists.push(longer);
    }
    lists.push([&bytes[..], b"more"].concat());
    lists.push(table_list_bytes(&[(7, &[]), (7, &[])]));
    lists.push(table_list_bytes(&[(u64::MAX, &[])]));
    lists.push(table_list_bytes(&[(7, &[u64::MAX])]));
    lists.push(table_list_bytes(&[(1_000, &[])]));
    for list in lists {
        let text = STANDARD.encode(&list);
        // Cut between two tables, it is a list of fewer.
        let mut json = value(&alone());
        json["nodes"][0]["tables"] = text.into();
        let refused = read(json.to_string().as_bytes()).expect_err("a list of other tables");
        assert!(refused.contains("list of tables") || refused.contains("of its tables"), "{refused}");
    }
    expect_refused(&alone(), "/nodes/0/tables", "no Base64".into(), "list of tables");
}

#[test]
fn what_is_there_twice_is_refused() {
    let json = value(&alone());
    let stored = json["nodes"][0]["files"][0]["stored"].clone();
    expect_refused(&alone(), "/nodes/0/files/1/stored", stored, "two files of a node are stored as");
    expect_refused(&of_a_cluster(), "/nodes/1/url", "http://a".into(), "the node http://a twice");
    expect_refused(&of_a_cluster(), "/missing/0/url", "http://a".into(), "the node http://a twice");
    let member = json.to_string().replacen("\"ack\":1", "\"ack\":1,\"ack\":1", 1);
    assert!(read(member.as_bytes()).expect_err("a member twice").contains("duplicate field"));
}

#[test]
fn nodes_that_are_not_those_of_the_backup_are_refused() {
    // Of these, a restore would make an empty store, or one without writes that were acknowledged.
    expect_refused(&alone(), "/nodes", json!([]), "it is of no cluster, and has 0 nodes");
    expect_refused(&of_a_cluster(), "/cluster", json!([]), "it is of no cluster, and has 2 nodes");
    expect_refused(&of_a_cluster(), "/nodes", json!([]), "are not the nodes of its cluster");
    expect_refused(&of_a_cluster(), "/missing", json!([]), "are not the nodes of its cluster");
    expect_refused(&of_a_cluster(), "/cluster/2", "http://x".into(), "are not the nodes of its cluster");
    expect_refused(&of_a_cluster(), "/ack", 1.into(), "its ack is 1, and 1 of 3 nodes are missing");
    expect_refused(&of_a_cluster(), "/ack", 4.into(), "its ack is 4");
    expect_refused(&alone(), "/ack", 0.into(), "an ack of 0");
}

#[test]
fn another_format_is_told_whatever_else_is_there() {
    let newer = read(br#"{"format":2,"nodes":"elsewhere"}"#).expect_err("a later format");
    assert!(newer.contains("has format 2; this release knows format 1"), "{newer}");
    expect_refused(&alone(), "/format", 0.into(), "its format is 0, expected 1");
}

#[test]
fn what_is_no_manifest_is_refused() {
    let deep = "[".repeat(100_000);
    let nested = format!("{{\"format\":1,\"nodes\":{deep}");
    for json in ["", "{}", "null", "[]", "{\"format\":1}", "\u{feff}{}", &deep, &nested] {
        assert!(read(json.as_bytes()).is_err(), "{json:.20}");
    }
    let bytes = alone().encode();
    for cut in 0..bytes.len() {
        assert!(Backup::decode(Path::new(PATH), &bytes[..cut]).is_err(), "{cut}");
    }
}

proptest! {
    /// Any byte of it may be another one: it is refused, or fits together all the same.
    #[test]
    fn nothing_panics(place in any::<prop::sample::Index>(), byte: u8) {
        let bytes = of_a_cluster().encode();
        let end = bytes.len() - CHECKSUM.len() - 33;
        let mut json = bytes[..end].to_vec();
        let place = place.index(json.len());
        json[place] = byte;
        if let Ok(backup) = read(&json) {
            prop_assert!(backup.check_nodes().is_ok());
        }
    }
}
