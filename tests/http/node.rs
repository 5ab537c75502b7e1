use crate::support::{Launch, Node, value, wait_until};

#[test]
fn a_node_that_serves_says_so() {
    let node = Node::start();
    let mut connection = node.connect();
    for _ in 0..3 {
        assert_eq!(connection.request("GET", "/v0/status", None).status, 200);
    }
    assert_eq!(connection.request("GET", "/v0/status?x=y", None).status, 200);
}

#[test]
fn metrics_are_in_the_format_of_prometheus() {
    let node = Node::start();
    let mut connection = node.connect();
    let response = connection.request("GET", "/metrics", None);
    assert_eq!(response.status, 200);
    let content_type = response.header("content-type").unwrap_or_default();
    assert!(content_type.starts_with("text/plain"), "{content_type}");
    let metrics = node.metrics();
    assert!(metrics.series().count() > 20);
    for bound in ["wait", "entries", "bytes"] {
        let label = format!("bound=\"{bound}\"");
        assert_eq!(metrics.sum("ladoga_commit_queue_refused_total", &[&label]), Some(0.0), "{label}");
    }
}

#[test]
fn metrics_are_open_metrics_for_who_prefers_it() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("k", b"value");
    // What Prometheus sends.
    let accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                  application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    connection.send(format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"));
    let response = connection.response();
    let expected = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!((response.status, response.header("content-type")), (200, Some(expected)));
    let text = response.text();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    assert!(
        text.contains("\n# TYPE ladoga_requests counter\nladoga_requests_total{operation=\"put\""),
        "{text}"
    );
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"));
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 20 && !names.iter().any(|name| name.ends_with("_total")), "{names:?}");
}

#[test]
fn metrics_count_requests_by_operation_and_status_and_what_the_storage_does() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("k", b"value");
    connection.get("k");
    connection.get("absent");
    connection.delete("k");
    connection.request("GET", "/nothing", None);
    let metrics = node.metrics();
    for (operation, status) in [("put", 201), ("get", 200), ("get", 404), ("delete", 202), ("none", 400)] {
        let (operation, status) = (format!("operation=\"{operation}\""), format!("status=\"{status}\""));
        for (name, bucket) in [
            ("ladoga_requests_total", ""),
            ("ladoga_request_duration_seconds_count", ""),
            ("ladoga_request_duration_seconds_bucket", "le=\"+Inf\""),
        ] {
            assert_eq!(metrics.sum(name, &[&operation, &status, bucket]), Some(1.0), "{operation} {status}");
        }
    }
    for (name, least) in [
        ("ladoga_request_body_bytes_total", 5.0),
        ("ladoga_response_body_bytes_total", 5.0),
        ("ladoga_memtable_bytes", 5.0),
        ("ladoga_wal_records_total", 2.0),
        ("ladoga_wal_sync_duration_seconds_count", 2.0),
        ("ladoga_wal_sync_duration_seconds_sum", 1e-9),
        ("ladoga_sealed_memtables", 0.0),
        ("ladoga_flushes_total", 0.0),
        ("ladoga_compactions_total", 0.0),
        ("ladoga_write_stall_duration_seconds_count", 0.0),
        ("ladoga_write_slowdown_seconds_total", 0.0),
        ("ladoga_block_cache_hits_total", 0.0),
        ("ladoga_block_cache_misses_total", 0.0),
        ("ladoga_record_cache_hits_total", 0.0),
        ("ladoga_corrupt_reads_total", 0.0),
        ("ladoga_disk_free_bytes", 1.0),
    ] {
        let figure = metrics.sum(name, &[]);
        assert!(figure.is_some_and(|figure| figure >= least), "{name} is {figure:?}");
    }
    for level in 0..7 {
        for name in ["ladoga_level_tables", "ladoga_level_bytes", "ladoga_level_records"] {
            assert_eq!(metrics.sum(name, &[&*format!("level=\"{level}\"")]), Some(0.0));
        }
    }
}

#[test]
fn large_values_count_as_soon_as_they_are_written() {
    let node = Node::start();
    for times in 1..=2 {
        node.connect().put("large", &value(1, 300 << 10));
        let metrics = node.metrics();
        assert_eq!(metrics.sum("ladoga_blob_bytes", &[]), Some(f64::from(times * (300 << 10))));
        assert_eq!(metrics.sum("ladoga_blob_files", &[]), Some(f64::from(times)));
    }
}

#[test]
fn a_write_that_waits_for_no_sync_is_committed_by_its_event_loop() {
    let inline = |node: &Node| node.metrics().sum("ladoga_commit_inline_groups_total", &[]);
    for fsync in ["everysec", "never"] {
        let node = Launch::new().flag("--fsync", fsync).start();
        let mut connection = node.connect();
        wait_until("a commit on the event loop", || {
            connection.put("k", b"value");
            inline(&node).expect("a counter") > 0.0
        });
    }
    let node = Launch::new().flag("--fsync", "always").start();
    node.connect().put("k", b"value");
    assert_eq!(inline(&node), Some(0.0), "it waits for its sync");
}
