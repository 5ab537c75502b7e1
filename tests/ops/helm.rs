use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repository;
use crate::support::{Directory, go_program, skip};

const CHART: &str = "ops/helm/ladoga";
const HELM: &str = "helm.sh/helm/v3/cmd/helm";
const VERSION: &str = "v3.22.0";
/// A helm that is built like this takes a much older one for granted.
const KUBERNETES: &str = "1.33.0";
/// With this variable, the files that are compared are written.
const WRITES: &str = "LADOGA_WRITE_GOLDEN";

fn helm(arguments: &[&str]) -> Option<(bool, String, String)> {
    let program = match go_program(HELM, VERSION) {
        Ok(program) => program,
        Err(reason) => {
            skip(&format!("no helm: {reason}"));
            return None;
        }
    };
    let home = Directory::new();
    let mut command = Command::new(&program);
    for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(name, home.path());
    }
    let output = command.args(arguments).output().expect("a program that was just built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((output.status.success(), text(&output.stdout), text(&output.stderr)))
}

fn chart() -> PathBuf {
    repository(CHART)
}

fn template(chart: &Path, settings: &[&str]) -> Option<(bool, String, String)> {
    let chart = chart.to_str().expect("a path of text");
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let fixed = ["template", "ladoga", chart, "--namespace", "default", "--kube-version", KUBERNETES];
    helm(&fixed.into_iter().chain(settings).collect::<Vec<_>>())
}

#[test]
fn helm_finds_nothing_wrong_with_the_chart() {
    let chart = chart();
    let arguments =
        ["lint", "--strict", chart.to_str().expect("a path"), "--set", "auth.existingSecret=ladoga-auth"];
    let Some((is_right, told, errors)) = helm(&arguments) else { return };
    assert!(is_right, "{told}{errors}");
}

/// What the chart makes is what people have reviewed.
#[track_caller]
fn check_golden(name: &str, found: &str) {
    let path = repository("tests/ops/golden").join(name);
    if std::env::var_os(WRITES).is_some() {
        fs::write(&path, found).expect("a file of the checkout");
    }
    let expected = fs::read_to_string(&path).expect("a file of the checkout");
    assert_eq!(found, expected, "{}: with {WRITES}=1, the test writes it anew", path.display());
}

#[test]
fn a_cluster_has_what_its_nodes_need() {
    let Some((is_right, cluster, errors)) = template(&chart(), &["auth.existingSecret=ladoga-auth"]) else {
        return;
    };
    assert!(is_right, "{errors}");
    check_golden("helm-cluster.yaml", &cluster);
    let node = |number: u32| format!("http://ladoga-{number}.ladoga-nodes.default.svc:8080");
    let nodes = (0..3).map(node).collect::<Vec<_>>().join(",");
    for part in [
        "podManagementPolicy: Parallel",
        "publishNotReadyAddresses: true",
        "path: /livez",
        "path: /readyz",
        "readOnlyRootFilesystem: true",
        "kind: PodDisruptionBudget",
        "secretName: ladoga-auth",
        "http://$(POD_NAME).ladoga-nodes.default.svc:8080",
        &nodes,
    ] {
        assert!(cluster.contains(part), "{part} is not in {cluster}");
    }
}

#[test]
fn a_node_on_its_own_has_no_others() {
    let settings = ["replicas=1", "auth.insecure=true", "settings.fsync=everysec", "service.redisPort=6379"];
    let Some((is_right, alone, errors)) = template(&chart(), &settings) else { return };
    assert!(is_right, "{errors}");
    check_golden("helm-alone.yaml", &alone);
    for part in ["LADOGA_CLUSTER", "LADOGA_PEER_SECRET", "PodDisruptionBudget", "secretName"] {
        assert!(!alone.contains(part), "{part} is in {alone}");
    }
    for part in ["name: LADOGA_FSYNC, value: \"everysec\"", "LADOGA_INSECURE", "value: \"0.0.0.0:6379\""] {
        assert!(alone.contains(part), "{part} is not in {alone}");
    }
}

/// Numbers of a file became "3.6e+06" and lists "[a b]", which the node refuses.
#[test]
fn settings_of_a_file_are_what_the_node_reads() {
    let directory = Directory::new();
    let values = directory.path().join("values.yaml");
    let settings = "changes_keep_ms: 3600000, traces_sample: 0.01, memory: 2147483648, allow_host: [a, b], \
                    numbers: [3600000, 2], plain: true, text: \"3600000\"";
    fs::write(&values, format!("auth: {{ insecure: true }}\nsettings: {{ {settings} }}\n")).expect("a file");
    let (chart, values) = (chart(), values.to_str().expect("a path of text").to_owned());
    let chart = chart.to_str().expect("a path of text");
    let Some((is_right, made, errors)) =
        helm(&["template", "ladoga", chart, "--kube-version", KUBERNETES, "-f", &values])
    else {
        return;
    };
    assert!(is_right, "{errors}");
    for part in [
        "LADOGA_CHANGES_KEEP_MS, value: \"3600000\"",
        "LADOGA_TRACES_SAMPLE, value: \"0.01\"",
        "LADOGA_MEMORY, value: \"2147483648\"",
        "LADOGA_ALLOW_HOST, value: \"a,b\"",
        "LADOGA_NUMBERS, value: \"3600000,2\"",
        "LADOGA_PLAIN, value: \"true\"",
        "LADOGA_TEXT, value: \"3600000\"",
    ] {
        assert!(made.contains(part), "{part} is not in {made}");
    }
}

#[test]
fn what_the_chart_cannot_do_is_said() {
    for (settings, said) in [
        (&[][..], "auth.existingSecret is empty, expected the name of a secret"),
        (&["auth.insecure=true", "settings.listen=0.0.0.0:1"], "settings.listen is made by the chart"),
        (
            &["auth.insecure=true", "settings.tls_cert=/etc/ladoga/tls.pem"],
            "settings.tls_cert is for TLS, which",
        ),
        // Each pod was started again for ever: the node refuses the list of nodes.
        (
            &["auth.insecure=true", "settings.engine=cassandra"],
            "replicas is 3, and a door to Cassandra (settings.engine) is no node of a cluster, expected replicas=1",
        ),
    ] {
        let Some((is_right, _, errors)) = template(&chart(), settings) else { return };
        assert!(!is_right && errors.contains(said), "{errors}");
    }
}
