use std::fs;

use crate::certs::{Certs, Made};
use crate::support::{Ladoga, entity};

const HOST: &str = "127.0.0.1";

#[test]
fn a_server_that_is_not_the_one_is_not_trusted() {
    let certs = Certs::of(&[HOST, "db.example.com"]);
    let other = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let url = format!("https://{}", node.address());
    let get = |authority: &str| Ladoga::new(["get", "a", "--url", &url, "--cacert", authority]).run();
    get(&other.made("ca.pem")).expect_failure(1, &["no trusted authority", "--cacert FILE", "-k"]);
    // Of another name.
    let node = certs.with(crate::support::Launch::patient(), "db.example.com").spawn();
    crate::support::wait_until("a node that answers", || {
        let url = format!("https://{}", node.address());
        let arguments = ["get", "a", "--url", &url, "--cacert", &certs.made("ca.pem")];
        let outcome = Ladoga::new(arguments).run();
        assert_eq!(outcome.code, Some(1));
        outcome.stderr.contains("is for another name")
    });
    // Expired.
    let made = Made::expired(HOST);
    made.write(&certs, "old");
    let launch = crate::support::Launch::patient()
        .flag("--tls-cert", &certs.text("old.pem"))
        .flag("--tls-key", &certs.text("old.key"));
    let node = launch.spawn();
    crate::support::wait_until("a node that answers", || {
        let url = format!("https://{}", node.address());
        let arguments = ["get", "a", "--url", &url, "--cacert", &certs.text("old.ca")];
        Ladoga::new(arguments).run().stderr.contains("has expired")
    });
    assert!(node.log().contains("expired"), "{}", node.log());
}

#[test]
fn clients_without_a_certificate_are_not_let_in_where_one_is_demanded() {
    let certs = Certs::of(&[HOST]);
    let read = |name: &str| fs::read_to_string(certs.made(name)).expect("a file");
    let alice = certs.trusting().showing(&read("alice.pem"), &read("alice.key"));
    let launch = certs.launch(HOST).flag("--tls-client-ca", &certs.made("ca.pem"));
    let node = launch.spawn();
    crate::certs::wait_until_it_serves(&node, &alice);
    let mut connection = alice.open(node.address());
    assert_eq!(connection.request("PUT", &entity("a"), Some(b"v")).status, 201);
    let strangers = Made::new("mallory", |_| {});
    let expired = Made::expired("alice");
    for trusting in [
        certs.trusting(),
        certs.trusting().showing(&strangers.certificate, &strangers.key),
        certs.trusting().showing(&expired.certificate, &expired.key),
    ] {
        for version in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
            let tried = trusting.clone().by(version).try_open(node.address());
            let asked = tried.and_then(|mut open| open.try_request("GET", &entity("a"), None));
            assert!(asked.is_err(), "{asked:?}");
        }
    }
    for (reason, count) in [("no_certificate", 2), ("bad_certificate", 4)] {
        let line = format!("ladoga_tls_handshakes_failed_total{{reason=\"{reason}\"}} {count}");
        // The client hears of it before the node counts it.
        crate::support::wait_until(&line, || {
            connection.request("GET", "/metrics", None).text().contains(&line)
        });
    }
    // The commands say what is missing.
    let (url, authority) = (format!("https://{}", node.address()), certs.made("ca.pem"));
    let get = ["get", "a", "--url", &url, "--cacert", &authority];
    let told = format!("ladoga: cannot reach {url}: the server demands a certificate");
    Ladoga::new(get).run().expect_failure(1, &[&told, "--cert FILE and --key FILE"]);
    let (cert, key) = (certs.made("alice.pem"), certs.made("alice.key"));
    let shown = ["--cert", &*cert, "--key", &key];
    assert_eq!(Ladoga::new(get.iter().chain(&shown)).run().expect_success().stdout, b"v");
}
