use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};

use super::repository;
use crate::support::{Connection, Directory, Port, wait_for, wait_until};

/// Runs `make cluster`, ends it by a signal while one of its nodes has a request in flight, and answers what it printed.
fn end_a_cluster(signal: &str, is_to_all: bool) -> (ExitStatus, String) {
    let directory = Directory::new();
    let (bin, release) = (directory.path().join("bin"), directory.path().join("target/release"));
    for path in [&bin, &release] {
        fs::create_dir_all(path).expect("a directory");
    }
    // What is to be run is built already.
    symlink("/bin/true", bin.join("cargo")).expect("a link");
    symlink(env!("CARGO_BIN_EXE_ladoga"), release.join("ladoga")).expect("a link");
    let ports = [(); 3].map(|()| Port::claim());
    let [urls, numbers] = [
        ports.iter().map(Port::url).collect::<Vec<_>>().join(","),
        ports.iter().map(|port| port.address().port().to_string()).collect::<Vec<_>>().join(" "),
    ];
    let log = directory.path().join("log");
    let output = || File::options().create(true).append(true).open(&log).expect("a file");
    // A shell without job control has what it runs in the background ignore SIGINT; make would do so too.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=INT", "make", "--directory"])
        .arg(repository(""))
        .arg("cluster")
        .arg(format!("TARGET_DIR={}", directory.path().join("target").display()))
        .arg(format!("CLUSTER_DATA={}", directory.path().join("data").display()))
        .args([format!("CLUSTER_URLS={urls}"), format!("CLUSTER_PORTS={numbers}")])
        .env_remove("MAKEFLAGS")
        .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path")))
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output())
        .process_group(0);
    let mut make = command.spawn().expect("make");
    let said = || fs::read_to_string(&log).expect("a log");
    for port in &ports {
        wait_until("a node that serves", || {
            let Ok(mut connection) = Connection::try_open(port.address()) else { return false };
            connection.try_request("GET", "/v0/status", None).is_ok_and(|response| response.status == 200)
        });
    }
    let mut slow = Connection::open(ports[0].address());
    slow.send(
        "PUT /v0/entity?id=slow HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n",
    );
    assert_eq!(slow.response().status, 100);
    let whom = format!("{}{}", if is_to_all { "-" } else { "" }, make.id());
    let status = Command::new("kill").args(["-s", signal, "--", &whom]).status().expect("kill");
    assert!(status.success());
    wait_until("three nodes that drain", || said().matches("finishing the requests in flight").count() == 3);
    slow.send("deep, cold");
    assert!(slow.response().status > 0, "an answer");
    let status = wait_for("the end of make", || make.try_wait().expect("a child"));
    (status, said())
}

#[test]
fn ctrl_c_and_the_end_of_make_stop_a_cluster_and_lose_nothing() {
    // Of make, which waits for what it runs and then ends as it was told to.
    for (signal, number, is_to_all) in [("INT", 2, true), ("TERM", 15, true), ("TERM", 15, false)] {
        let (status, said) = end_a_cluster(signal, is_to_all);
        assert_eq!(status.signal(), Some(number), "SIG{signal}: {status}\n{said}");
        assert_eq!(said.matches("stopped, everything is on disk").count(), 3, "SIG{signal}:\n{said}");
    }
}
