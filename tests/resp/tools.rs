use std::process::{Command, Output};

use crate::client::RespNode;
use crate::support::skip_without;

/// Runs a tool of Redis; none if it is not on this machine.
fn run(program: &str, node: &RespNode, arguments: &[&str]) -> Option<Output> {
    let port = node.address().port().to_string();
    let output = Command::new(program).args(["-h", "127.0.0.1", "-p", &port]).args(arguments).output();
    match output {
        Ok(output) => Some(output),
        Err(error) => {
            skip_without("redis-cli", &format!("{program} cannot be started: {error}"));
            None
        }
    }
}

#[test]
fn redis_cli_works() {
    let node = RespNode::start();
    for (arguments, expected) in [
        (&["SET", "lake", "deep and cold"][..], "OK\n"),
        (&["-3", "GET", "lake"], "\"deep and cold\"\n"),
        (&["GET", "lake"], "\"deep and cold\"\n"),
        (&["--scan", "--pattern", "l*"], "lake\n"),
    ] {
        let is_plain = arguments[0] == "--scan";
        let arguments = if is_plain { arguments.to_vec() } else { [&["--no-raw"], arguments].concat() };
        let Some(output) = run("redis-cli", &node, &arguments) else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        // A scan is written as it is.
        assert_eq!(text.replace('"', ""), expected.replace('"', ""), "{arguments:?}");
    }
}

#[test]
fn redis_benchmark_works() {
    let node = RespNode::start();
    let tests = "ping,set,get,incr,mset";
    for pipeline in ["1", "16"] {
        let arguments = ["-q", "-n", "2000", "-c", "4", "-P", pipeline, "-t", tests, "-r", "1000"];
        let Some(output) = run("redis-benchmark", &node, &arguments) else { return };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !text.contains("Error"), "{text} {errors}");
        for test in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"] {
            assert!(text.contains(&format!("{test}: ")), "{test} is not in {text}");
        }
    }
    let counter = node.connect().ask("INCRBY counter:__rand_int__ 0");
    assert_eq!(counter, ":0\r\n", "it fills in numbers");
}
