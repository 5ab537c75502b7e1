use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::certs::{Certs, Made};
use crate::support::{Directory, Ladoga, Launch, Node, wait_until};

const HOST: &str = "127.0.0.1";

#[test]
fn the_commands_go_by_https() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let (url, authority) = (format!("https://{}", node.address()), certs.made("ca.pem"));
    let run = |arguments: &[&str], input: &[u8]| {
        let all = [arguments, &["--url", &url, "--cacert", &authority]].concat();
        Ladoga::new(&all).input(input).run().expect_success()
    };
    run(&["put", "a", "deep"], b"");
    assert_eq!(run(&["get", "a"], b"").stdout, b"deep");
    let large = vec![b'x'; 3 << 20];
    run(&["put", "large"], &large);
    assert!(run(&["get", "large"], b"").stdout == large);
    assert_eq!(run(&["increment", "n", "4"], b"").text(), "4\n");
    run(&["status"], b"");
    // Both directions at the same time, and more than the buffers hold.
    let line = |n| format!("{{\"op\":\"put\",\"key\":\"k{n:05}\",\"value\":\"v\"}}\n");
    let many: String = (0..30_000).map(line).collect();
    let answers = run(&["batch", "-"], many.as_bytes());
    assert_eq!(answers.text().lines().count(), 30_000);
    assert_eq!(run(&["count", "--prefix", "k"], b"").text().trim(), "30000");
    let exported = run(&["export", "--prefix", "k"], b"");
    run(&["import", "-"], &exported.stdout);
    run(&["delete", "a"], b"");
    // By the environment, and with any certificate.
    let got = Ladoga::new(["get", "n"]).env("LADOGA_URL", &url).env("LADOGA_CACERT", &authority).run();
    assert_eq!(got.expect_success().stdout, b"4");
    for flag in ["-k", "--insecure-skip-verify"] {
        assert_eq!(Ladoga::new(["get", "n", "--url", &url, flag]).run().expect_success().stdout, b"4");
    }
    // A flag wins over a variable that says something else.
    let got = Ladoga::new(["get", "n", "--url", &url, "-k"]).env("LADOGA_CACERT", "/nowhere").run();
    assert_eq!(got.expect_success().stdout, b"4");
    let got = Ladoga::new(["get", "n", "--url", &url, "--cacert", &authority])
        .env("LADOGA_CACERT", "/nowhere")
        .run();
    assert_eq!(got.expect_success().stdout, b"4");
    let page = certs.text("profile.html");
    run(&["profile", "--seconds", "1", "-o", &page], b"");
    assert!(fs::metadata(&page).expect("a profile").len() > 0);
    let bench = ["bench", "-t1", "-c2", "-d1s", "--ca", &authority, &format!("{url}/v0/entity?id=n")];
    let measured = Ladoga::new(bench).run().expect_success();
    assert!(measured.text().contains("requests in"), "{}", measured.text());
}

#[test]
fn a_store_is_copied_and_backed_up_by_https() {
    let certs = Certs::of(&[HOST]);
    let (node, other) = (certs.start(certs.launch(HOST)), certs.start(certs.launch(HOST)));
    let url = |node: &Node| format!("https://{}", node.address());
    let (from, to, authority) = (url(&node), url(&other), certs.made("ca.pem"));
    let run = |arguments: &[&str]| {
        Ladoga::new([arguments, &["--cacert", &authority]].concat()).run().expect_success()
    };
    run(&["put", "a", "deep", "--url", &from]);
    run(&["copy", "--from", &from, "--to", &to, "--verify"]);
    assert_eq!(run(&["get", "a", "--url", &to]).stdout, b"deep");
    let (repository, data) = (certs.text("backups"), certs.text("restored"));
    run(&["backup", "create", "--to", &repository, "--url", &from]);
    Ladoga::new(["restore", "--from", &repository, "--data", &data]).run().expect_success();
    let restored = Launch::new().data(Path::new(&data)).start();
    assert_eq!(restored.connect().value("a"), Some(b"deep".to_vec()));
    let untrusted = Ladoga::new(["backup", "create", "--to", &repository, "--url", &from]).run();
    untrusted.expect_failure(1, &["--cacert"]);
}

#[test]
fn what_is_wrong_with_files_is_told() {
    let directory = Directory::new();
    let path = |name: &str| directory.path().join(name).to_str().expect("a path of text").to_owned();
    fs::write(path("bad"), "nonsense").expect("a file");
    let url = ["--url", "https://127.0.0.1:1"];
    for (flags, said) in [
        (vec!["--cacert", &*path("none")], "cannot be read"),
        (vec!["--cacert", &*path("bad")], "expected a certificate"),
        (vec!["-k", "--cert", &*path("bad"), "--key", &*path("bad")], "expected a certificate"),
        (vec!["--cert", &*path("bad")], "--key"),
    ] {
        let all = [&["get", "a"], &url[..], &flags].concat();
        Ladoga::new(&all).run().expect_failure(2, &[said]);
    }
    for (variable, other) in
        [("LADOGA_CLIENT_CERT", "LADOGA_CLIENT_KEY"), ("LADOGA_CLIENT_KEY", "LADOGA_CLIENT_CERT")]
    {
        let get = |url: &str| Ladoga::new(["get", "a", "--url", url]).env(variable, "a.pem").run();
        get("https://127.0.0.1:1").expect_failure(2, &[&format!("{variable} is 'a.pem'"), other]);
        get("http://127.0.0.1:1").expect_failure(1, &["cannot reach"]);
    }
    Ladoga::new(["get", "a", "-k", "--cacert", "a.pem"]).run().expect_failure(2, &["--cacert"]);
}

#[test]
fn certificates_that_cannot_all_be_written_are_not_there() {
    let directory = Directory::new();
    let dir = directory.path().join("certs");
    fs::create_dir(&dir).expect("a directory");
    // To a file that it names nothing can be written.
    std::os::unix::fs::symlink(dir.join("missing/key"), dir.join("ca.key")).expect("a link");
    let flags = ["--dir", dir.to_str().expect("a path of text"), "--host", "a"];
    let create = || Ladoga::new(["certs", "create"].into_iter().chain(flags)).run();
    create().expect_failure(1, &["cannot write", "ca.key"]);
    let left: Vec<_> =
        fs::read_dir(&dir).expect("a directory").flatten().map(|file| file.file_name()).collect();
    assert_eq!(left, ["ca.key"], "what was there before is all that is there");
    fs::remove_file(dir.join("ca.key")).expect("a link");
    create().expect_success();
}

#[test]
fn certificates_are_made_once_and_shown() {
    let directory = Directory::new();
    let dir = directory.path().join("certs").to_str().expect("a path of text").to_owned();
    let create = |more: &[&str]| Ladoga::new([&["certs", "create", "--dir", &dir], more].concat()).run();
    let made =
        create(&["--host", "localhost,127.0.0.1,::1", "--host", "b", "--client", "alice"]).expect_success();
    assert_eq!(made.text().lines().count(), 8, "{}", made.text());
    for name in ["ca", "localhost", "b", "alice"] {
        for (end, mode) in [("pem", 0o644), ("key", 0o600)] {
            let file = fs::metadata(format!("{dir}/{name}.{end}")).expect("a file");
            assert_eq!(file.permissions().mode() & 0o777, mode, "{name}.{end}");
        }
    }
    let kept = fs::read(format!("{dir}/ca.key")).expect("a key");
    create(&["--host", "c"]).expect_failure(1, &["ca.pem exists", "nothing was written"]);
    assert_eq!(fs::read(format!("{dir}/ca.key")).expect("a key"), kept);
    assert!(!directory.path().join("certs/c.pem").exists());
    create(&["--host", "../a"]).expect_failure(2, &["expected names and addresses"]);
    create(&["--host", "ca"]).expect_failure(2, &["expected names and addresses"]);
    create(&[]).expect_failure(2, &["--host"]);
    let shown = Ladoga::new(["certs", "show", &format!("{dir}/localhost.pem")]).run().expect_success();
    for part in ["CN=localhost", "localhost, 127.0.0.1, ::1", "signed by CN=Ladoga certs", "expires   20"] {
        assert!(shown.text().contains(part), "{part} is not in {}", shown.text());
    }
    let authority = Ladoga::new(["certs", "show", &format!("{dir}/ca.pem")]).run().expect_success();
    assert!(authority.text().contains("an authority"), "{}", authority.text());
    Ladoga::new(["certs", "show", &format!("{dir}/ca.key")])
        .run()
        .expect_failure(1, &["expected a certificate"]);
    Ladoga::new(["certs", "show", &format!("{dir}/none")]).run().expect_failure(1, &["none"]);
    let help = Ladoga::new(["certs", "create", "--help"]).run().expect_success();
    assert!(help.text().contains("ladoga serve --tls-cert certs/localhost.pem"), "{}", help.text());
}

#[test]
fn a_node_and_a_client_are_added_to_an_authority_that_is_there() {
    let certs = Certs::of(&[HOST]);
    let dir = certs.text("made");
    let add = |more: &[&str]| Ladoga::new([&["certs", "add", "--dir", &dir], more].concat()).run();
    let added = add(&["--host", "localhost,127.0.0.1", "--client", "bob"]).expect_success();
    for name in ["localhost.pem", "localhost.key", "bob.pem", "bob.key"] {
        assert!(added.text().contains(&format!("{dir}/{name}\n")), "{added:?}");
    }
    assert!(!added.text().contains("ca.") && added.stderr.contains("they expire 20"), "{added:?}");
    // Each is good where those of the authority are.
    let launch = certs.launch("localhost").flag("--tls-client-ca", &certs.made("ca.pem"));
    let node = launch.spawn();
    let url = format!("https://localhost:{}", node.address().port());
    let put = |name: &str| {
        let shown = [certs.made(&format!("{name}.pem")), certs.made(&format!("{name}.key"))];
        let (ca, value) = (certs.made("ca.pem"), "deep");
        let [certificate, key] = &shown;
        Ladoga::new([
            "put",
            "lake",
            value,
            "--url",
            &url,
            "--cacert",
            &ca,
            "--cert",
            certificate,
            "--key",
            key,
        ])
        .run()
    };
    wait_until("a node that serves", || put("alice").code == Some(0));
    put("bob").expect_success();
    // Nothing is overwritten, and nothing is written if something is.
    add(&["--host", "other", "--client", "bob"])
        .expect_failure(1, &["bob.pem exists", "nothing was written"]);
    assert!(!certs.path("made/other.pem").exists());
    // It counts no longer than its authority.
    let long = add(&["--host", "long", "--days", "36500"]).expect_success();
    assert!(long.stderr.contains("when their authority does"), "{long:?}");
    let until = |name: &str| {
        let shown = Ladoga::new(["certs", "show", &certs.made(name)]).run().expect_success();
        let line = shown.text().lines().find(|line| line.starts_with("expires")).map(str::to_owned);
        line.expect("when it expires")
    };
    assert_eq!(until("long.pem"), until("ca.pem"));
}

#[test]
fn what_is_no_authority_of_ours_is_added_to_by_nobody() {
    let certs = Certs::of(&[HOST]);
    let dir = certs.text("made");
    let add = |dir: &str, more: &[&str]| Ladoga::new([&["certs", "add", "--dir", dir], more].concat()).run();
    add(&dir, &[]).expect_failure(2, &["--host"]);
    add(&dir, &["--client", "ca"]).expect_failure(2, &["--client"]);
    add(&certs.text("none"), &["--client", "bob"])
        .expect_failure(1, &["none/ca.pem", "`ladoga certs create`"]);
    let (key, other) = (certs.path("made/ca.key"), Certs::of(&[HOST]));
    let own = fs::read(&key).expect("a key");
    fs::copy(other.path("made/ca.key"), &key).expect("another key");
    add(&dir, &["--client", "bob"]).expect_failure(1, &["ca.key: it is not the key of", "ca.pem"]);
    fs::write(&key, "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n").expect("a file");
    let refused = add(&dir, &["--client", "bob"]).expect_failure(1, &["ca.key: it is no private key"]);
    assert!(!refused.stderr.contains("secret"), "{refused:?}");
    fs::remove_file(&key).expect("a key");
    add(&dir, &["--client", "bob"]).expect_failure(1, &["ca.key", "`ladoga certs create`"]);
    fs::write(&key, own).expect("a key");
    let of_others = Made::new(HOST, |_| {});
    fs::write(certs.path("made/ca.pem"), &of_others.authority).expect("a file");
    add(&dir, &["--client", "bob"]).expect_failure(1, &["ca.pem: it is that of", "`ladoga certs create`"]);
    fs::copy(certs.path(&format!("made/{HOST}.pem")), certs.path("made/ca.pem")).expect("a file");
    add(&dir, &["--client", "bob"]).expect_failure(1, &["ca.pem: it is that of"]);
    assert!(!certs.path("made/bob.pem").exists());
}
