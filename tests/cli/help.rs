use crate::support::Ladoga;

/// The commands that ask a node.
const OF_THE_CLIENT: [&str; 14] = [
    "get",
    "put",
    "delete",
    "increment",
    "expire",
    "range",
    "changes",
    "count",
    "batch",
    "export",
    "import",
    "status",
    "repair",
    "profile",
];
/// The others that say how they exit.
const OTHERS: [&str; 6] = ["serve", "check", "restore", "copy", "completions", "man"];
/// The rest.
const MORE: [&str; 5] = ["backup", "bench", "certs", "lab", "token"];

#[test]
fn help_names_every_command() {
    for ask in ["--help", "-h", "help"] {
        let help = Ladoga::new([ask]).run().expect_success();
        for command in OF_THE_CLIENT.iter().chain(&OTHERS).chain(&MORE) {
            assert!(help.text().contains(command), "{ask} does not name {command}: {}", help.text());
        }
    }
}

#[test]
fn help_of_serve_names_every_setting() {
    let help = Ladoga::new(["serve", "--help"]).run().expect_success();
    for flag in ["listen", "resp", "data", "cluster", "advertise", "fsync", "memory", "threads", "config"] {
        assert!(help.text().contains(&format!("--{flag}")), "--{flag} is missing: {}", help.text());
    }
    for word in ["always", "everysec", "never", "127.0.0.1:8080", "ladoga-data", "LADOGA_"] {
        assert!(help.text().contains(word), "{word} is missing: {}", help.text());
    }
}

#[test]
fn help_of_the_client_names_its_url() {
    for command in OF_THE_CLIENT {
        let help = Ladoga::new([command, "--help"]).run().expect_success();
        for word in ["--url", "http://127.0.0.1:8080"] {
            assert!(help.text().contains(word), "{command}: {word} is missing: {}", help.text());
        }
    }
    for &command in OF_THE_CLIENT.iter().chain(&OTHERS) {
        let help = Ladoga::new([command, "--help"]).run().expect_success();
        assert!(help.text().contains("Exit codes: 0 "), "{command}: {}", help.text());
    }
    let help = Ladoga::new(["check", "--help"]).run().expect_success();
    assert!(help.text().contains("DIR"), "{}", help.text());
}

#[test]
fn the_version_is_told() {
    let version = Ladoga::new(["--version"]).run().expect_success();
    assert!(version.text().contains(env!("CARGO_PKG_VERSION")), "{}", version.text());
}

#[test]
fn what_is_no_command_is_told() {
    Ladoga::new([""; 0]).run().expect_failure(2, &["serve"]);
    Ladoga::new(["srve"]).run().expect_failure(2, &["srve"]);
    Ladoga::new(["serve", "--fast"]).run().expect_failure(2, &["--fast"]);
    Ladoga::new(["--fast"]).run().expect_failure(2, &["--fast"]);
    Ladoga::new(["serve", "here"]).run().expect_failure(2, &["here"]);
    Ladoga::new(["serve", "--memory"]).run().expect_failure(2, &["--memory"]);
    for command in ["get", "put", "delete", "range", "check"] {
        Ladoga::new([command]).run().expect_failure(2, &[]);
        Ladoga::new([command, "first", "second", "third"]).run().expect_failure(2, &[]);
        Ladoga::new([command, "--fast", "a"]).run().expect_failure(2, &["--fast"]);
    }
    Ladoga::new(["status", "--url"]).run().expect_failure(2, &["--url"]);
}
