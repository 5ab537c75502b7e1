//! What an operator has beside the binary: the package, its service, manual and completions, dashboards and alerts.
//!
//! - `install`: manual pages, completions, the Debian package and the unit of systemd
//! - `service`: what a supervisor is told (`Type=notify`), settings that are only checked, logs as JSON
//! - `make`: how `make cluster` ends
//! - `slow`: requests that the log tells of; `hot`: what clients ask for most; `watch`: what a node does, look after look
//! - `upgrade`: what earlier releases wrote, and nodes of two releases; `helm`: the chart
//! - `traces`: of requests, at a collector (`collector`) of OpenTelemetry; in a build without them, that they are refused
//! - `telemetry`: every metric that a dashboard or an alert names exists, of a node with TLS (`certs`, `secure`) too; a real Prometheus reads a node
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

#[path = "../tls/certs.rs"]
#[expect(dead_code, reason = "made for the tests of TLS")]
mod certs;
#[cfg(feature = "otel")]
mod collector;
mod helm;
mod hot;
mod install;
mod make;
#[path = "../tls/secure.rs"]
#[expect(dead_code, reason = "made for the tests of TLS")]
mod secure;
mod service;
mod slow;
mod telemetry;
#[cfg(feature = "otel")]
mod traces;
#[cfg(not(feature = "otel"))]
#[path = "no_traces.rs"]
mod traces;
mod upgrade;
mod watch;

use std::path::PathBuf;

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// What a program prints on both outputs, and whether it succeeded; `None` if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let output = match std::process::Command::new(program).args(arguments).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            support::skip_without(program, &format!("{program} is not installed"));
            return None;
        }
        other => other.unwrap_or_else(|error| panic!("{program}: {error}")),
    };
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}
