use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::certs::{Certs, Made};
use crate::support::{Node, entity, wait_until};

const HOST: &str = "127.0.0.1";

fn install(from: &Certs, to: &Certs) {
    for name in [format!("{HOST}.key"), format!("{HOST}.pem")] {
        fs::copy(from.made(&name), to.made(&name)).expect("a copy");
    }
}

#[test]
fn no_request_is_lost_while_certificates_come_and_go() {
    let (certs, other) = (Certs::of(&[HOST]), Certs::of(&[HOST]));
    let node = certs.start(certs.launch(HOST));
    let (old, new) = (certs.trusting(), other.trusting());
    let first: Vec<(String, Vec<u8>)> = ["pem", "key"]
        .map(|end| {
            (
                certs.made(&format!("{HOST}.{end}")),
                fs::read(certs.made(&format!("{HOST}.{end}"))).expect("a file"),
            )
        })
        .into();
    let (is_over, served) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for client in 0..3 {
            let (is_over, served) = (&is_over, &served);
            // It makes its handshake before, and notices nothing.
            let mut connection = old.open(node.address());
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let target = entity(format!("key{client}"));
                    assert_eq!(connection.request("PUT", &target, Some(b"v")).status, 201);
                    assert_eq!(connection.request("GET", &target, None).body, b"v");
                    served.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..3 {
            let before = served.load(Ordering::Relaxed);
            install(&other, &certs);
            node.signal("HUP");
            wait_until("the new certificate", || new.try_open(node.address()).is_ok());
            assert!(old.try_open(node.address()).is_err());
            for (path, content) in &first {
                fs::write(path, content).expect("a file");
            }
            // Without a signal, a change is found all the same.
            wait_until("the old certificate", || old.try_open(node.address()).is_ok());
            wait_until("requests meanwhile", || served.load(Ordering::Relaxed) > before);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

fn count(node: &Node, certs: &Certs, name: &str) -> u64 {
    let metrics = certs.trusting().open(node.address()).request("GET", "/metrics", None);
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(name)).expect(name).trim().to_owned();
    line.parse().expect("a number")
}

#[test]
fn files_that_are_of_no_use_leave_everything_as_it_was() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let (path, key) = (certs.made(&format!("{HOST}.pem")), certs.made(&format!("{HOST}.key")));
    let good = fs::read(&path).expect("a file");
    let other = Made::new(HOST, |_| {}).certificate;
    let none = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let chain = [&good[..], none.as_bytes()].concat();
    let mut failures = 0;
    for (content, said) in [
        (&b"nonsense"[..], "expected a certificate"),
        (other.as_bytes(), "is not that of the first certificate"),
        (&good[..good.len() / 2], "has no end"),
        (none.as_bytes(), "X.509"),
        // It was taken, and clients refused it.
        (&chain, "X.509"),
    ] {
        fs::write(&path, content).expect("a file");
        node.signal("HUP");
        let name = "ladoga_tls_reloads_failed_total";
        wait_until("a file that cannot be used", || count(&node, &certs, name) > failures);
        wait_until("what is wrong", || {
            let mut connection = certs.trusting().open(node.address());
            connection.request("GET", "/readyz?verbose", None).text().contains(said)
        });
        failures = count(&node, &certs, name);
        wait_until("the same in the log", || node.log().contains(said));
    }
    fs::remove_file(&key).expect("a file");
    node.signal("HUP");
    wait_until("a key that is gone", || node.log().contains("cannot be read"));
    // It would be waited for until somebody writes to it, and nothing would be read anew meanwhile, tokens included.
    fs::remove_file(&path).expect("a file");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    node.signal("HUP");
    wait_until("a pipe that is not waited for", || node.log().contains("expected a regular file"));
    fs::remove_file(&path).expect("a pipe");
    fs::write(&path, good).expect("a file");
    Made::new(HOST, |_| {}).write(&certs, "new");
    fs::copy(certs.text("new.pem"), &path).expect("a copy");
    fs::copy(certs.text("new.key"), &key).expect("a copy");
    let new = crate::secure::Trusting::new(&certs.path("new.ca"));
    wait_until("files that are of use", || new.try_open(node.address()).is_ok());
    let ready = new.open(node.address()).request("GET", "/readyz?verbose", None);
    wait_until("nothing is wrong", || {
        let mut connection = new.open(node.address());
        connection.request("GET", "/readyz?verbose", None).text() == "ready\n"
    });
    assert_eq!(ready.status, 200);
}

#[test]
fn authorities_of_clients_are_read_anew() {
    let (certs, other) = (Certs::of(&[HOST]), Certs::of(&[HOST]));
    let read = |certs: &Certs, name: &str| fs::read_to_string(certs.made(name)).expect("a file");
    let alice = certs.trusting().showing(&read(&certs, "alice.pem"), &read(&certs, "alice.key"));
    let other_alice = certs.trusting().showing(&read(&other, "alice.pem"), &read(&other, "alice.key"));
    fs::copy(certs.made("ca.pem"), certs.path("clients.pem")).expect("a copy");
    let node = certs.launch(HOST).flag("--tls-client-ca", &certs.text("clients.pem")).spawn();
    crate::certs::wait_until_it_serves(&node, &alice);
    let is_let_in = |trusting: &crate::secure::Trusting| {
        let tried = trusting.try_open(node.address());
        tried.and_then(|mut open| open.try_request("GET", "/v0/status", None)).is_ok()
    };
    assert!(!is_let_in(&other_alice));
    fs::copy(other.made("ca.pem"), certs.path("clients.pem")).expect("a copy");
    node.signal("HUP");
    wait_until("the other authority", || is_let_in(&other_alice));
    assert!(!is_let_in(&alice));
}

/// It ended the process.
#[test]
fn a_node_without_files_goes_on_after_a_hang_up() {
    let mut node = Node::start();
    for _ in 0..3 {
        node.signal("HUP");
    }
    node.connect().put("a", b"v");
    assert!(!node.has_ended());
    node.stop();
}
