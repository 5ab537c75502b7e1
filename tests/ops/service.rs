use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::support::{Directory, Ladoga, Launch, wait_until};

/// The next thing that the node tells its supervisor.
fn told(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let length = socket.recv(&mut bytes).expect("something in time");
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[test]
fn a_supervisor_is_told_when_the_node_is_ready_alive_and_stopping() {
    let directory = Directory::new();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_mins(1))).expect("a time-out");
    let launch = Launch::new().env("NOTIFY_SOCKET", path.to_str().expect("a path"));
    let mut node = launch.env("WATCHDOG_USEC", "200000").start();
    assert_eq!(told(&socket), "READY=1\n");
    assert_eq!(told(&socket), "WATCHDOG=1\n");
    assert_eq!(told(&socket), "WATCHDOG=1\n", "again and again");
    node.signal("TERM");
    wait_until("that it says that it stops", || told(&socket) == "STOPPING=1\n");
    assert!(node.wait().success());
}

#[test]
fn settings_are_checked_without_a_node() {
    let directory = Directory::new();
    let (config, data) = (directory.path().join("ladoga.toml"), directory.path().join("data"));
    fs::write(
        &config,
        format!("data = {:?}\nmemory = \"64MiB\"\nthreads = 1\n", data.to_str().expect("a path")),
    )
    .expect("a file");
    let serve = |more: &[&str]| {
        let arguments = ["serve", "--check-config", "--config", config.to_str().expect("a path")];
        Ladoga::new(arguments.iter().chain(more).copied().collect::<Vec<_>>()).run()
    };
    let said = serve(&["--listen", "127.0.0.1:18080"]).expect_success();
    let expected = format!(
        "the settings are right: listening on http://127.0.0.1:18080, data in {}, fsync always, memory 64MiB, 1 event loop\n",
        data.display()
    );
    assert_eq!(said.text(), expected);
    assert!(!data.exists(), "nothing is opened");
    serve(&["--fsync", "often"])
        .expect_failure(2, &["--fsync is 'often', expected always, everysec or never"]);
    fs::write(&config, "memroy = \"64MiB\"\n").expect("a file");
    serve(&[]).expect_failure(2, &["memroy"]);
}

#[test]
fn a_log_is_json_where_that_is_asked_for() {
    let mut node = Launch::new().env("LADOGA_LOG_FORMAT", "json").start();
    node.stop();
    let log = node.log();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let messages: Vec<&str> = lines.iter().filter_map(|line| line["message"].as_str()).collect();
    assert!(messages.iter().any(|message| message.starts_with("listening on")), "{log}");
    assert!(messages.iter().any(|message| message.starts_with("stopped")), "{log}");
    assert!(lines.iter().all(|line| line["level"].is_string() && line["timestamp"].is_string()), "{log}");
    Ladoga::new(["serve", "--check-config"])
        .env("LADOGA_LOG_FORMAT", "xml")
        .run()
        .expect_failure(2, &["LADOGA_LOG_FORMAT is 'xml', expected text or json"]);
}
