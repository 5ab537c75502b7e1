use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::certs::{Certs, Made};
use crate::support::{Ladoga, Launch};

const HOST: &str = "127.0.0.1";

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let certs = Certs::of(&[HOST, "b"]);
    Made::new(HOST, |_| {}).write(&certs, "other");
    let (cert, key, authority) =
        (certs.made("127.0.0.1.pem"), certs.made("127.0.0.1.key"), certs.made("ca.pem"));
    let (other, none) = (certs.text("other.key"), certs.text("none"));
    let own = ["--tls-cert", &*cert, "--tls-key", &key];
    let http = ["--listen", "127.0.0.1:8080", "--cluster", "http://127.0.0.1:8080,http://b:1"];
    let https = ["--listen", "127.0.0.1:8080", "--cluster", "https://127.0.0.1:8080,https://b:1"];
    let mixed = ["--listen", "127.0.0.1:8080", "--cluster", "https://127.0.0.1:8080,http://b:1"];
    let peers = ["--peer-ca", &*authority];
    for (flags, said) in [
        (vec!["--tls-cert", &*cert], "--tls-cert is"),
        (vec!["--tls-key", &*key], "--tls-key is"),
        (vec!["--tls-client-ca", &*authority], "expected --tls-cert FILE with it"),
        (vec!["--tls-cert", &*none, "--tls-key", &key], "cannot be read"),
        (vec!["--tls-cert", &*cert, "--tls-key", &cert], "expected a private key"),
        (vec!["--tls-cert", &*key, "--tls-key", &key], "expected a certificate"),
        (vec!["--tls-cert", &*cert, "--tls-key", &other], "is not that of the first certificate"),
        ([&own[..], &["--tls-client-ca", &key]].concat(), "expected a certificate"),
        ([&own[..], &peers].concat(), "--peer-ca is"),
        ([&own[..], &http].concat(), "expected https:// URLs"),
        ([&own[..], &https].concat(), "--peer-ca FILE"),
        ([&own[..], &peers, &mixed].concat(), "expected https:// URLs"),
        (https.to_vec(), "expected http:// URLs"),
    ] {
        for command in [&["serve"][..], &["serve", "--check-config"]] {
            let data = certs.text("data");
            let all = [command, &["--data", &data], &flags].concat();
            let outcome = Ladoga::new(&all).run();
            assert_eq!(outcome.stderr.lines().count(), 1, "{flags:?}: {}", outcome.stderr);
            outcome.expect_failure(2, &[said]);
        }
    }
    let all = [&["serve", "--check-config"], &own[..], &peers, &https].concat();
    let right = Ladoga::new(&all).run().expect_success();
    assert!(right.text().contains("https://127.0.0.1:8080"), "{}", right.text());
}

#[test]
fn a_key_that_everybody_can_read_is_told_of() {
    let certs = Certs::of(&[HOST]);
    let key = certs.made("127.0.0.1.key");
    let open = |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("a mode");
    open(0o640);
    assert!(!certs.start(certs.launch(HOST)).log().contains("can read the key"));
    open(0o644);
    let node = certs.start(certs.launch(HOST));
    assert!(node.log().contains("can read the key"), "{}", node.log());
    assert!(!node.log().contains("PRIVATE"), "{}", node.log());
}

#[test]
fn the_environment_and_the_file_of_settings_say_the_same() {
    let certs = Certs::of(&[HOST]);
    let config = certs.path("ladoga.toml");
    fs::write(&config, format!("tls_cert = \"{}\"\n", certs.made("127.0.0.1.pem"))).expect("a file");
    let launch = Launch::patient()
        .flag("--config", config.to_str().expect("a path of text"))
        .env("LADOGA_TLS_KEY", &certs.made("127.0.0.1.key"));
    let node = certs.start(launch);
    let checked = Ladoga::new(["serve", "--check-config", "--listen", "127.0.0.1:8080"])
        .env("LADOGA_TLS_CERT", certs.made("127.0.0.1.pem"))
        .env("LADOGA_TLS_KEY", certs.made("127.0.0.1.key"))
        .env("LADOGA_TLS_CLIENT_CA", certs.made("ca.pem"))
        .env("LADOGA_PEER_CA", certs.made("ca.pem"))
        .env("LADOGA_CLUSTER", "https://127.0.0.1:8080,https://b:1");
    checked.run().expect_success();
    assert_eq!(certs.trusting().open(node.address()).request("GET", "/v0/status", None).status, 200);
}
