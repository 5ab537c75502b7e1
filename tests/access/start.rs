use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Directory, Ladoga, Launch, Outcome, Port};
use crate::tokens::Tokens;

fn serve(directory: &Directory, arguments: &[&str]) -> Outcome {
    let data = directory.path().join("data");
    let data = data.to_str().expect("a path of text");
    let all = [&["serve", "--data", data], arguments].concat();
    let outcome = Ladoga::new(&all).run();
    assert!(!directory.path().join("data").exists(), "something was opened: {all:?}");
    outcome
}

#[test]
fn a_node_does_not_listen_for_everybody_unless_that_is_said() {
    let (directory, port) = (Directory::new(), Port::claim());
    let everywhere = format!("0.0.0.0:{}", port.address().port());
    for (flag, also) in [("--listen", None), ("--resp", Some(["--listen", "127.0.0.1:0"]))] {
        let arguments: Vec<&str> =
            [flag, &everywhere].into_iter().chain(also.iter().flatten().copied()).collect();
        let refused = serve(&directory, &arguments);
        assert_eq!((refused.code, refused.text()), (Some(2), ""), "{}", refused.stderr);
        let said = format!("ladoga: {flag} is '{everywhere}', expected a loopback address, or tokens: ");
        assert!(refused.stderr.starts_with(&said), "{}", refused.stderr);
        for part in ["`ladoga token create --tokens tokens.toml --id admin --scopes all`", "--insecure"] {
            assert!(refused.stderr.contains(part), "{}", refused.stderr);
        }
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    }
    // Both ways out work.
    let mut node = Launch::new().on_all_addresses().start();
    node.stop();
    let tokens = Tokens::new();
    let mut node = tokens.launch().on_all_addresses().env("LADOGA_INSECURE", "false").start();
    assert!(node.log().contains("travel over the network as they are"), "{}", node.log());
    node.stop();
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (directory, tokens) = (Directory::new(), Tokens::new());
    let path = |name: &str| directory.path().join(name).to_str().expect("a path of text").to_owned();
    fs::write(path("bad"), "[[token]]\nid = \"a\"\n").expect("a file");
    fs::write(path("empty"), "").expect("a file");
    fs::write(path("short"), "too short").expect("a file");
    let good = tokens.path().to_str().expect("a path of text");
    for (arguments, said) in [
        (vec!["--tokens", &*path("none")], "--tokens is '"),
        (vec!["--tokens", &*path("bad")], "--tokens is '"),
        (vec!["--tokens", &*path("empty")], "--tokens is '"),
        (vec!["--tokens", good, "--peer-secret", &*path("short")], "--peer-secret is '"),
        (vec!["--audit", &*path("no/such/directory")], "--audit is '"),
        (vec!["--audit-writes"], "--audit-writes is 'true', expected --audit FILE"),
        (
            vec![
                "--tokens",
                good,
                "--listen",
                "127.0.0.1:1",
                "--cluster",
                "http://127.0.0.1:1,http://127.0.0.1:2",
            ],
            "--tokens is '",
        ),
    ] {
        let refused = serve(&directory, &arguments);
        assert_eq!(refused.code, Some(2), "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(&format!("ladoga: {said}")), "{arguments:?}: {}", refused.stderr);
    }
}

#[test]
fn the_file_of_tokens_is_its_owners_and_has_no_secret() {
    let tokens = Tokens::new();
    fs::remove_file(tokens.path()).expect("a file to remove");
    let token =
        tokens.create("a_b", "read,range", &["--prefix", "x", "--prefix", "\"y\"", "--expires", "30d"]);
    tokens.create("other", "all", &["--requests-per-second", "5", "--bytes-per-second", "6"]);
    let text = fs::read_to_string(tokens.path()).expect("the tokens");
    assert!(!text.contains(&token[token.len() - 43..]) && token.starts_with("ldg_a_b_"), "{text}");
    let mode = fs::metadata(tokens.path()).expect("the tokens").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let list = tokens.list();
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with("a_b\tread,range\tx \\\"y\\\"\texpires 20"), "{list}");
    assert!(lines[1].ends_with("\tall keys\texpires never\t5 requests/s\t6 bytes/s"), "{list}");
    let path = tokens.path().to_str().expect("a path of text");
    for (arguments, code) in [
        (vec!["create", "--id", "other", "--scopes", "read"], 1),
        (vec!["create", "--id", "a b", "--scopes", "read"], 2),
        (vec!["create", "--id", "c", "--scopes", "reads"], 2),
        (vec!["create", "--id", "c", "--scopes", "read", "--prefix", ""], 2),
        (vec!["create", "--id", "c", "--scopes", "read", "--expires", "soon"], 2),
        (vec!["create", "--id", "c", "--scopes", "read", "--requests-per-second", "0"], 2),
        (vec!["revoke", "--id", "c"], 1),
    ] {
        let all = [&["token", arguments[0], "--tokens", path], &arguments[1..]].concat();
        assert_eq!(Ladoga::new(&all).run().code, Some(code), "{all:?}");
    }
    assert_eq!(fs::read_to_string(tokens.path()).expect("the tokens"), text, "nothing was changed");
    // One that was killed leaves its file, and nobody writes over it.
    fs::write(tokens.beside("tokens.toml.new"), "").expect("a file");
    let refused = Ladoga::new(["token", "revoke", "--tokens", path, "--id", "other"]).run();
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("tokens.toml.new exists"), "{}", refused.stderr);
    assert!(tokens.beside("tokens.toml.new").exists(), "it is somebody else's");
}
