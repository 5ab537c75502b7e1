use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::certs::Certs;
use crate::support::{Connection, Directory, Launch, Node, Port, Response, skip_without, wait_until};
use crate::{repository, run};

/// The names of metrics in an expression of Prometheus.
fn metrics_in(expression: &str) -> impl Iterator<Item = String> {
    expression
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| word.starts_with("ladoga_"))
        .map(str::to_owned)
}

fn node_of_a_cluster() -> Node {
    let other = Port::claim();
    let launch = Launch::new();
    let nodes = format!("{},{}", launch.url(), other.url());
    launch.flag("--cluster", &nodes).start()
}

/// What a node of a cluster has, and what one with TLS has.
fn metrics_of_nodes() -> [Response; 2] {
    let host = "127.0.0.1";
    let certs = Certs::of(&[host]);
    let with_tls = certs.start(certs.launch(host));
    [
        node_of_a_cluster().connect().request("GET", "/metrics", None),
        certs.trusting().open(with_tls.address()).request("GET", "/metrics", None),
    ]
}

/// The families that nodes have, histograms by the names of their series.
fn families(metrics: &[Response]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let lines = metrics.iter().flat_map(|metrics| metrics.text().lines());
    for line in lines.filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a name and a kind");
        if kind == "histogram" {
            names.extend(["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")));
        } else {
            names.insert(name.to_owned());
        }
    }
    names
}

#[test]
fn what_alerts_and_dashboards_name_exists() {
    let exist = families(&metrics_of_nodes());
    let alerts = fs::read_to_string(repository("ops/prometheus/alerts.yml")).expect("alerts");
    let dashboard = fs::read_to_string(repository("ops/grafana/ladoga.json")).expect("a dashboard");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let expressions: Vec<&str> =
        targets.map(|target| target["expr"].as_str().expect("an expression")).collect();
    let named: BTreeSet<String> =
        metrics_in(&alerts).chain(expressions.into_iter().flat_map(metrics_in)).collect();
    assert!(named.len() > 25, "only {named:?} were found");
    let missing: Vec<_> = named.difference(&exist).collect();
    assert!(missing.is_empty(), "{missing:?} are none of {exist:#?}");
}

/// The manual named the expiry of certificates, of which no alert told.
#[test]
fn what_the_manual_says_to_alert_on_has_an_alert() {
    let manual = fs::read_to_string(repository("docs/operations.md")).expect("the manual");
    let alerts = fs::read_to_string(repository("ops/prometheus/alerts.yml")).expect("alerts");
    let (_, after) = manual.split_once("Alert on these: ").expect("what to alert on");
    let (named, _) = after.split_once("\n\n").expect("the end of a paragraph");
    let named: BTreeSet<String> = metrics_in(named).collect();
    assert!(!named.is_empty(), "the manual names no metric");
    let has_alert: BTreeSet<String> = metrics_in(&alerts).collect();
    let missing: Vec<_> = named.difference(&has_alert).collect();
    assert!(missing.is_empty(), "{missing:?} have no alert");
}

#[test]
fn prometheus_takes_the_alerts() {
    let alerts = repository("ops/prometheus/alerts.yml");
    let Some((is_right, text)) = run("promtool", &["check", "rules", alerts.to_str().expect("a path")])
    else {
        return;
    };
    assert!(is_right, "{text}");
    let config = repository("ops/prometheus/prometheus.yml");
    let Some((is_right, text)) = run("promtool", &["check", "config", config.to_str().expect("a path")])
    else {
        return;
    };
    assert!(is_right, "{text}");
}

/// Ends what was started.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn a_real_prometheus_reads_a_node() {
    let (node, directory, port) = (Node::start(), Directory::new(), Port::claim());
    let example = fs::read_to_string(repository("ops/prometheus/prometheus.yml")).expect("settings");
    let alerts = repository("ops/prometheus/alerts.yml");
    let config = example
        .replace("127.0.0.1:8080", &node.address().to_string())
        .replace("15s", "200ms")
        .replace("alerts.yml", alerts.to_str().expect("a path"));
    let path = directory.path().join("prometheus.yml");
    fs::write(&path, config).expect("a file");
    let started = Command::new("prometheus")
        .arg(format!("--config.file={}", path.display()))
        .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
        .arg(format!("--web.listen-address={}", port.address()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _prometheus = match started {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return skip_without("prometheus", "prometheus is not installed");
        }
        other => Started(other.expect("prometheus")),
    };
    let ask = |query: &str| -> Option<Value> {
        let mut connection = Connection::try_open(port.address()).ok()?;
        let response = connection.try_request("GET", &format!("/api/v1/query?query={query}"), None).ok()?;
        let answer: Value = serde_json::from_slice(&response.body).ok()?;
        answer["data"]["result"][0]["value"][1].as_str().map(|value| Value::from(value.to_owned()))
    };
    wait_until("that Prometheus has read the node", || ask("up") == Some("1".into()));
    node.connect().put("key", b"value");
    wait_until("that it sees the write", || {
        ask("ladoga_requests_total%7Boperation%3D%22put%22%7D") == Some("1".into())
    });
    assert_eq!(ask("ALERTS"), None, "a node that is well raises no alert");
}
