use std::fs;

use crate::support::{Ladoga, Outcome, full_disk};
use crate::tokens::Tokens;

fn run(url: &str, arguments: &[&str], token: Option<&str>) -> Outcome {
    let command = Ladoga::new(arguments.iter().copied().chain(["--url", url]));
    token
        .map_or_else(
            || Ladoga::new(arguments.iter().copied().chain(["--url", url])),
            |token| command.env("LADOGA_TOKEN", token),
        )
        .run()
}

#[test]
fn commands_show_the_token_that_they_have() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "all", &[]);
    let node = tokens.launch().start();
    let url = node.url();
    let refused = run(&url, &["put", "k", "v"], None);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("this request needs a token"), "{}", refused.stderr);
    assert!(
        refused.stderr.ends_with(". Give one by --token-file FILE or LADOGA_TOKEN\n"),
        "{}",
        refused.stderr
    );
    let repository = tokens.beside("refused");
    let create = ["backup", "create", "--to", repository.to_str().expect("a path of text")];
    let refused =
        run(&url, &create, None).expect_failure(1, &["Give one by --token-file FILE or LADOGA_TOKEN"]);
    assert!(!repository.exists(), "{refused:?}");
    for (arguments, output) in [
        (&["put", "k", "v"][..], ""),
        (&["get", "k"], "v"),
        (&["range", "a", "z"], "k\tv\n"),
        (&["count", "a", "z"], "1\n"),
        (&["increment", "n"], "1\n"),
        (&["delete", "k"], ""),
    ] {
        let outcome = run(&url, arguments, Some(&app));
        assert_eq!((outcome.code, outcome.text(), &*outcome.stderr), (Some(0), output, ""), "{arguments:?}");
    }
    let file = tokens.beside("token");
    fs::write(&file, format!("{app}\n")).expect("a file with the token");
    let path = file.to_str().expect("a path of text");
    // What is in the file wins over the variable.
    let outcome = run(&url, &["get", "n", "--token-file", path], Some("ldg_other"));
    assert_eq!((outcome.code, outcome.text()), (Some(0), "1"), "{}", outcome.stderr);
    let wrong = run(&url, &["get", "n"], Some("two words"));
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.starts_with("ladoga: LADOGA_TOKEN has no token in it")
            && !wrong.stderr.contains("two words")
    );
    let wrong = run(&url, &["get", "n", "--token-file", "/no/such/file"], None);
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
    // Whatever the file is, it is not read for ever.
    fs::write(&file, format!("{app}\n{}", "\n".repeat(2 << 20))).expect("a file that is too long");
    let wrong = run(&url, &["get", "n", "--token-file", path], None);
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("expected a file with one token in it") && !wrong.stderr.contains(&app));
}

/// It ended at the first answer that asked for patience.
#[test]
fn a_backup_waits_for_the_rate_of_its_token() {
    let tokens = Tokens::new();
    let slow = tokens.create("slow", "admin", &["--requests-per-second", "2"]);
    let spent = tokens.create("spent", "admin", &["--bytes-per-second", "1"]);
    let all = tokens.create("all", "all", &[]);
    let node = tokens.launch().flag("--keep-log", "1h").start();
    let url = node.url();
    for n in 0..3 {
        let key = format!("key{n}");
        assert_eq!(run(&url, &["put", &key, "v"], Some(&all)).code, Some(0));
    }
    let repository = tokens.beside("backups");
    let create = ["backup", "create", "--to", repository.to_str().expect("a path of text")];
    let outcome = run(&url, &create, Some(&slow));
    assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{}", outcome.text());
    let metrics = crate::tokens::ask(&mut node.connect(), ("GET", "/metrics"), Some(&all), None);
    assert!(
        !metrics.text().contains("ladoga_token_throttled_total{token=\"slow\"} 0\n"),
        "{}",
        metrics.text()
    );
    let throttled = || {
        let metrics = crate::tokens::ask(&mut node.connect(), ("GET", "/metrics"), Some(&all), None);
        let line =
            metrics.text().lines().find(|line| line.contains("ladoga_token_throttled_total{token=\"slow\"}"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).expect("a figure")
    };
    // The log alone waits as well.
    let before = throttled();
    assert_eq!(run(&url, &["put", "later", "v"], Some(&all)).code, Some(0));
    let log = ["backup", "log", "--to", repository.to_str().expect("a path of text")];
    let outcome = run(&url, &log, Some(&slow));
    assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{}", outcome.text());
    assert!(throttled() > before, "it had to wait");
    // What would take for ever is told at once.
    let outcome = run(&url, &create, Some(&spent));
    assert_eq!(outcome.code, Some(1), "{}", outcome.text());
    assert!(outcome.stderr.contains("the token has used its bytes a second"), "{}", outcome.stderr);
}

#[test]
fn the_load_generator_shows_its_token_and_tells_nobody() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "read,write", &[]);
    let node = tokens.launch().start();
    let report = tokens.beside("report.json");
    let url = node.url();
    let arguments = [
        "bench",
        "-t1",
        "-c1",
        "-d",
        "1s",
        "--workload",
        "get",
        "--keys",
        "10",
        "--fill",
        "--json",
        report.to_str().expect("a path of text"),
        &url,
    ];
    let refused = Ladoga::new(arguments).run();
    assert_ne!(refused.code, Some(0), "{}", refused.text());
    let outcome = Ladoga::new(arguments).env("LADOGA_TOKEN", &app).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.text(), outcome.stderr);
    assert!(!outcome.text().contains("Non-2xx"), "{}", outcome.text());
    let secret = &app[app.len() - 43..];
    let json = fs::read_to_string(&report).expect("a report");
    assert!(![outcome.text(), &outcome.stderr, &json].iter().any(|text| text.contains(secret)));
}

#[test]
fn a_token_that_could_not_be_printed_can_be_taken_back() {
    let tokens = Tokens::new();
    let path = tokens.path().to_str().expect("a path of text");
    let flags = ["create", "--tokens", path, "--id", "unseen", "--scopes", "all"];
    let outcome = Ladoga::new(["token"].into_iter().chain(flags)).stdout(full_disk()).run();
    let back = format!("`ladoga token revoke --tokens '{path}' --id unseen`");
    outcome.expect_failure(1, &["cannot print the result", "nobody has seen the token", &back]);
    tokens.revoke("unseen");
    assert_eq!(tokens.list(), "");
}
