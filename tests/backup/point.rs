use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::steps::{backup, created, restore, stored, text};
use crate::support::{
    Directory, Ladoga, Launch, Node, Outcome, Response, assert_refusal, entity, files_below, flip_bit, value,
};

/// A node that keeps its log.
fn keeping() -> Node {
    Launch::new().env("LADOGA_KEEP_LOG", "1h").start()
}

/// `ladoga backup log`, to its end.
fn log(repository: &std::path::Path, node: &Node) -> Outcome {
    backup("log", repository, &["--url", &node.url()])
}

/// What time it is, once nothing that happens from now on can be of that millisecond.
pub(crate) fn note_time() -> u64 {
    let now_ms = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set");
        now.as_millis() as u64
    };
    let noted_ms = now_ms();
    while now_ms() <= noted_ms {
        thread::yield_now();
    }
    noted_ms
}

/// What a reader can tell of some keys.
fn told(node: &Node) -> Vec<(u16, Vec<u8>, Option<String>)> {
    let mut connection = node.connect();
    let told = |key: &str| {
        let response: Response = connection.request("GET", &entity(key), None);
        (response.status, response.body.clone(), response.header("etag").map(str::to_owned))
    };
    ["plain", "large", "deleted", "later", "counted", "a", "b", "expiring"].map(told).to_vec()
}

fn batch(node: &Node, lines: &str) {
    let done = node.connect().request("POST", "/v0/batch?atomic=true", Some(lines.as_bytes()));
    assert_eq!(done.status, 200, "{done:?}");
}

/// Writes, overwrites and deletes, so that no two rounds leave the same behind.
fn change(node: &Node, round: u64) {
    let mut connection = node.connect();
    connection.put("plain", &value(round, 700));
    connection.put("large", &value(round, 300_000 + round as usize * 5_000));
    if round.is_multiple_of(2) {
        connection.put("deleted", b"here");
        connection.delete("later");
    } else {
        connection.delete("deleted");
        connection.put("later", &value(round, 10));
    }
    for index in 0..50 {
        connection.put(format!("filler{index}"), &value(round * 100 + index, 3_000));
    }
    let lines = ["a", "b"].map(|key| format!("{{\"op\":\"put\",\"key\":\"{key}\",\"value\":\"{round}\"}}\n"));
    batch(node, &lines.concat());
    let expiring = format!("{}&ttl=1h", entity("expiring"));
    assert_eq!(connection.request("PUT", &expiring, Some(round.to_string().as_bytes())).status, 201);
}

#[test]
fn what_there_was_at_a_time_comes_back() {
    let (mut node, directory) = (keeping(), Directory::new());
    let repository = directory.path().join("backups");
    change(&node, 0);
    created(&repository, &node.url());
    let mut noted = Vec::new();
    for round in 1..7 {
        change(&node, round);
        noted.push((note_time(), told(&node)));
        match round {
            1 => assert!(log(&repository, &node).expect_success().text().contains("log up to 2")),
            2 => node.crash(),
            3 => drop(created(&repository, &node.url())),
            4 => node.restart(),
            _ => {}
        }
    }
    let last = note_time();
    thread::sleep(Duration::from_millis(5));
    log(&repository, &node).expect_success();
    let again = log(&repository, &node).expect_success();
    assert!(again.text().contains("; 0 segments, 0"), "what is there is not fetched again: {again:?}");
    backup("verify", &repository, &[]).expect_success();
    let listed = backup("list", &repository, &[]).expect_success();
    assert_eq!(listed.text().matches(", to any time from 2").count(), 2, "{listed:?}");
    for (place, (at_ms, before)) in noted.iter().chain([&(last, noted[5].1.clone())]).enumerate() {
        let data = directory.path().join(format!("data-{place}"));
        restore(&repository, &data, &["--at", &at_ms.to_string()]).expect_success();
        let mut restored = Launch::new().data(&data).start();
        assert!(told(&restored) == *before, "{place}");
        restored.connect().put("plain", b"written after the restore");
        restored.crash();
        assert_eq!(restored.connect().value("plain"), Some(b"written after the restore".to_vec()));
        restored.stop();
        Ladoga::new(["check".to_owned(), text(&data)]).run().expect_success();
    }
    // Only the newest backup, and what it needs, is left.
    backup("prune", &repository, &["--keep", "1"]).expect_success();
    backup("verify", &repository, &[]).expect_success();
    let data = directory.path().join("pruned");
    restore(&repository, &data, &["--at", &noted[0].0.to_string()])
        .expect_failure(1, &["cannot be restored: expected a time from 2"]);
    restore(&repository, &data, &["--at", &last.to_string()]).expect_success();
    assert!(told(&Launch::new().data(&data).start()) == noted[5].1);
}

/// Up to when a log was fetched.
fn up_to(fetched: &Outcome) -> String {
    let (before, _) = fetched.text().split_once(';').expect("up to when");
    before.strip_prefix("log up to ").expect("up to when").to_owned()
}

/// Its versions are ahead of the clock then. Once their log was fetched, no time led to these writes.
#[test]
fn what_is_acknowledged_after_a_restart_while_changes_are_followed_is_in_the_log_that_is_fetched() {
    let (mut node, directory) = (keeping(), Directory::new());
    let repository = directory.path().join("backups");
    node.connect().put("key", b"before");
    created(&repository, &node.url());
    let mut follower = node.connect();
    follower.send("GET /v0/changes HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(follower.response_head().status, 200);
    drop(follower);
    node.restart();
    node.connect().put("key", b"first");
    let first = up_to(&log(&repository, &node).expect_success());
    node.connect().put("key", b"second");
    let second = up_to(&log(&repository, &node).expect_success());
    // From a backup of that time, too.
    created(&repository, &node.url());
    node.connect().put("key", b"third");
    let third = up_to(&log(&repository, &node).expect_success());
    for (at, expected) in [(first, "first"), (second, "second"), (third, "third")] {
        let data = directory.path().join(expected);
        restore(&repository, &data, &["--at", &at]).expect_success();
        let restored = Launch::new().data(&data).start().connect().value("key");
        assert_eq!(restored.as_deref(), Some(expected.as_bytes()), "{at}");
    }
}

#[test]
fn a_value_that_has_expired_since_has_expired() {
    let (node, directory) = (keeping(), Directory::new());
    let repository = directory.path().join("backups");
    let short = format!("{}&ttl=1s", entity("short"));
    created(&repository, &node.url());
    assert_eq!(node.connect().request("PUT", &short, Some(b"for a second")).status, 201);
    let at_ms = note_time();
    node.connect().put("short", b"for ever");
    log(&repository, &node).expect_success();
    let data = directory.path().join("data");
    thread::sleep(Duration::from_millis(1_100));
    restore(&repository, &data, &["--at", &at_ms.to_string()]).expect_success();
    assert_eq!(Launch::new().data(&data).start().connect().value("short"), None);
}

#[test]
fn what_is_not_covered_is_refused_and_says_what_is() {
    let (node, directory) = (keeping(), Directory::new());
    let (repository, data) = (directory.path().join("backups"), directory.path().join("data"));
    node.connect().put("key", b"value");
    let early = note_time();
    let first = log(&repository, &node).expect_success();
    assert!(first.stderr.contains("no backup has this log behind it yet"), "{first:?}");
    restore(&repository, &data, &["--at", &early.to_string()]).expect_failure(1, &["no backup with log"]);
    created(&repository, &node.url());
    for at in [early.to_string(), "2020-01-01T00:00:00Z".to_owned(), "9999-12-31T23:59:59Z".to_owned()] {
        restore(&repository, &data, &["--at", &at])
            .expect_failure(1, &["cannot be restored: expected a time from 2", " to 2"]);
    }
    for at in ["yesterday", "2026-11-25", "", "-1"] {
        restore(&repository, &data, &[&format!("--at={at}")]).expect_failure(2, &["--at"]);
    }
    restore(&repository, &data, &["--at", "1", "--node", "http://x:1"]).expect_failure(2, &["--node"]);
    assert!(!data.exists(), "a node would start there, with nothing in it");
}

#[test]
fn a_node_that_keeps_no_log_has_none_and_one_that_kept_it_forgets_it() {
    let (mut node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    node.connect().put("key", b"value");
    log(&repository, &node).expect_failure(1, &["keeps no log", "--keep-log"]);
    assert!(!node.data().join("wal-kept").exists(), "it costs nothing");
    created(&repository, &node.url());
    assert!(!backup("list", &repository, &[]).expect_success().text().contains("to any time"));
    assert_refusal(&node.connect().request("GET", "/v0/backup?file=log/000001.wal", None), 404, "no log");
    node.stop();
    let kept = Launch::new().data(node.data()).flag("--keep-log", "1h").start();
    change(&kept, 1);
    log(&repository, &kept).expect_success();
    let files = files_below(&kept.data().join("wal-kept"));
    assert!(files.iter().any(|(path, _)| path.extension().is_some_and(|it| it == "blob")), "{files:?}");
    let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes < 1_500_000, "segments have no more than their groups: {files:?}");
    drop(kept);
    let mut unkept = Launch::new().data(node.data()).start();
    assert_eq!(files_below(&unkept.data().join("wal-kept")).len(), 0);
    // What is written now is in no log that is kept.
    unkept.connect().put("key", b"between");
    unkept.stop();
    let kept = Launch::new().data(node.data()).flag("--keep-log", "1h").start();
    kept.connect().put("key", b"after");
    let told = ["does not go on", "cannot be restored", "ladoga backup create"];
    let gap = log(&repository, &kept).expect_failure(1, &told);
    assert!(gap.text().contains("log up to 2"), "what is behind it is there: {gap:?}");
    log(&repository, &kept).expect_success();
}

#[test]
fn log_that_is_old_goes() {
    let node = Launch::new().flag("--keep-log", "1s").start();
    let repository = Directory::new();
    let repository = repository.path().join("backups");
    change(&node, 1);
    log(&repository, &node).expect_success();
    crate::support::wait_until("that it is gone", || files_below(&node.data().join("wal-kept")).is_empty());
    assert!(!stored(&repository).iter().any(|path| path.ends_with("never")));
    // The log is as it was written, and there is nothing that it is the log of.
    let verified = backup("verify", &repository, &[]).expect_failure(1, &["there is no backup in"]);
    assert_eq!(verified.stderr.lines().count(), 1, "{verified:?}");
}

#[test]
fn nothing_but_the_files_of_the_log_can_be_read() {
    let (node, directory) = (keeping(), Directory::new());
    node.connect().put("key", b"value");
    log(&directory.path().join("backups"), &node).expect_success();
    let mut connection = node.connect();
    for file in [
        "log/../CURRENT",
        "log/%2e%2e/CURRENT",
        "log/",
        "log//etc/passwd",
        "log/000001-000001.blob",
        "log/0000001.wal",
        "log/999999.wal",
        "log/000001.wal%00",
    ] {
        let answer = connection.request("GET", &format!("/v0/backup?file={file}"), None);
        assert_refusal(&answer, 404, file);
    }
    for query in ["?log_after=", "?log_after=-1", "?log_after=x", "?log_after=1&log_after=2"] {
        let answer = connection.request("POST", &format!("/v0/backup{query}"), None);
        assert_refusal(&answer, 400, query);
    }
    let listed = connection.request("POST", "/v0/backup?log_after=0", None);
    let json: serde_json::Value = serde_json::from_slice(&listed.body).expect("JSON");
    let number = json["segments"][0]["number"].as_u64().expect("a segment");
    let piece = connection.request("GET", &format!("/v0/backup?file=log/{number:06}.wal&bytes=6"), None);
    assert_eq!((piece.status, &*piece.body), (200, &b"LADOGA"[..]));
}

#[test]
fn a_flipped_bit_of_the_log_is_named() {
    let (node, directory) = (keeping(), Directory::new());
    let repository = directory.path().join("backups");
    created(&repository, &node.url());
    change(&node, 1);
    let at_ms = note_time();
    log(&repository, &node).expect_success();
    let segments = files_below(&repository.join("log"));
    let segment = segments.iter().find(|(path, _)| path.extension().is_some_and(|it| it == "wal"));
    let path = repository.join("log").join(&segment.expect("a segment").0);
    let mut bytes = std::fs::read(&path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&path, bytes).expect("a file");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    backup("verify", &repository, &[]).expect_failure(1, &[&name, "offset"]);
    let data = directory.path().join("data");
    restore(&repository, &data, &["--at", &at_ms.to_string()]).expect_failure(1, &[&name]);
    assert!(!data.join("CURRENT").exists());
}

/// With `--at` it left only what a node removes at a start, and the node served an empty store.
#[test]
fn no_node_starts_on_a_restore_that_failed() {
    let (node, directory) = (keeping(), Directory::new());
    let repository = directory.path().join("backups");
    node.connect().put("key", b"value");
    created(&repository, &node.url());
    node.connect().put("key", b"another value");
    let noted_ms = note_time();
    log(&repository, &node).expect_success();
    let (file, at) = (stored(&repository).remove(0), noted_ms.to_string());
    for more in [&["--at", &at][..], &[]] {
        let data = directory.path().join(format!("data-{}", more.len()));
        flip_bit(&file, 20, 0);
        restore(&repository, &data, more).expect_failure(1, &[&text(&file)]);
        flip_bit(&file, 20, 0);
        let left = files_below(&data);
        let told = format!(
            "a restore into {} was not completed: remove the directory and restore again",
            data.display()
        );
        let data_text = text(&data);
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data", &data_text];
        for _ in 0..2 {
            Ladoga::new(serve).run().expect_failure(1, &[&told]);
            Ladoga::new(["check", &data_text]).run().expect_failure(1, &[&told]);
            assert_eq!(files_below(&data), left, "it is as it was");
        }
        std::fs::remove_dir_all(&data).expect("a directory");
        restore(&repository, &data, more).expect_success();
        let expected = if more.is_empty() { &b"value"[..] } else { b"another value" };
        let restored = Launch::new().data(&data).start();
        assert_eq!(restored.connect().value("key").as_deref(), Some(expected));
    }
}

/// No backup could be taken any more.
#[test]
fn a_damaged_list_of_a_log_is_told_and_another_log_begun() {
    let (node, directory) = (keeping(), Directory::new());
    let repository = directory.path().join("backups");
    created(&repository, &node.url());
    change(&node, 1);
    log(&repository, &node).expect_success();
    let lists = || {
        let files = files_below(&repository.join("log"))
            .into_iter()
            .map(|(path, _)| repository.join("log").join(path));
        files.filter(|path| path.extension().is_some_and(|it| it == "json")).collect::<Vec<_>>()
    };
    let [list] = &lists()[..] else { panic!("more than one list") };
    flip_bit(list, 30, 0);
    log(&repository, &node).expect_failure(1, &[&text(list), "begun anew"]);
    assert_eq!(lists().len(), 2, "nothing is written over the damaged one");
    created(&repository, &node.url());
    change(&node, 2);
    let (at_ms, before) = (note_time(), told(&node));
    let said = log(&repository, &node).expect_success();
    assert!(!said.stderr.contains("damaged"), "{said:?}");
    let data = directory.path().join("data");
    restore(&repository, &data, &["--at", &at_ms.to_string()]).expect_success();
    assert!(told(&Launch::new().data(&data).start()) == before);
    // It is named until it is removed.
    backup("verify", &repository, &[]).expect_failure(1, &[&text(list)]);
    backup("prune", &repository, &["--keep", "1"]).expect_failure(1, &[&text(list)]);
    std::fs::remove_file(list).expect("a file");
    backup("prune", &repository, &["--keep", "1"]).expect_success();
    backup("verify", &repository, &[]).expect_success();
}

#[test]
fn a_damaged_backup_is_passed_over_only_if_an_older_one_leads_there() {
    let (node, directory) = (keeping(), Directory::new());
    let repository = directory.path().join("backups");
    created(&repository, &node.url());
    change(&node, 1);
    let (at_ms, before) = (note_time(), told(&node));
    let newest = created(&repository, &node.url());
    change(&node, 2);
    log(&repository, &node).expect_success();
    let late_ms = note_time();
    let manifest = repository.join("backups").join(format!("{newest}.json"));
    flip_bit(&manifest, 100, 0);
    let data = directory.path().join("data");
    let restored = restore(&repository, &data, &["--at", &at_ms.to_string()]).expect_success();
    assert!(restored.stderr.contains(&text(&manifest)), "{restored:?}");
    assert!(told(&Launch::new().data(&data).start()) == before);
    let more = ["--at", &at_ms.to_string(), "--backup", &newest];
    let other = directory.path().join("other");
    restore(&repository, &other, &more).expect_failure(1, &[&text(&manifest)]);
    let late = ["--at", &(late_ms + 3_600_000).to_string()].map(str::to_owned);
    restore(&repository, &other, &[&late[0], &late[1]])
        .expect_failure(1, &["cannot be restored", &text(&manifest)]);
}
