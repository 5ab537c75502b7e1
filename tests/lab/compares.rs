use std::fs;

use serde_json::{Value, json};

use crate::data_of;
use crate::support::{Directory, Ladoga, Node};

/// A report with seconds whose latencies are known: `scale` times what they would be.
fn with_known_seconds(mut data: Value, scale: f64) -> String {
    let second = |second: u64| {
        let latency = [100.0, 400.0, 900.0, 2_000.0].map(|micros| scale * (micros + (second % 5) as f64));
        json!({ "second": second, "completed": 1_000 + second % 3, "errors": 0, "latency": latency })
    };
    data["runs"][0]["seconds"] = (0..12).map(second).collect();
    let data = data.to_string().replace('<', "\\u003c");
    format!("<script id=\"report\" type=\"application/json\">{data}</script>")
}

#[test]
fn a_report_is_compared_with_itself_and_with_a_slower_one() {
    let (directory, node) = (Directory::new(), Node::start());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let line = format!("bench -t1 -c1 -d 500ms -R 200 --workload status {} --html", node.url());
    let words = line.split_whitespace().map(str::to_owned).chain([path("measured.html")]);
    Ladoga::new(words).run().expect_success();
    let measured = data_of(directory.path().join("measured.html").as_path());
    for (name, scale) in [("before.html", 1.0), ("slower.html", 3.0)] {
        fs::write(path(name), with_known_seconds(measured.clone(), scale)).expect("a report");
    }

    let compare = |after: &str| {
        let words = ["lab", "compare", &path("before.html"), &path(after), "-o", &path("page.html")];
        Ladoga::new(words).run().expect_success()
    };
    let same = compare("before.html");
    assert!(same.text().contains("within noise") && !same.text().contains("worse"), "{}", same.text());
    assert!(same.text().contains("Mann-Whitney"), "the test is named: {}", same.text());
    assert!(fs::read_to_string(path("page.html")).expect("a page").contains("within noise"));

    let changed = compare("slower.html");
    let line_of = |figure: &str| {
        let line = changed.text().lines().find(|line| line.trim_start().starts_with(figure));
        line.expect("a line of the figure").to_owned()
    };
    for figure in ["p50", "p99 ", "p99.9", "max"] {
        let line = line_of(figure);
        assert!(line.contains("+200.0 %") && line.contains("worse (p < 0.0001)"), "{line}");
    }
    assert!(line_of("answered/s").contains("within noise"), "{}", changed.text());
}

#[test]
fn what_is_no_report_is_named() {
    let directory = Directory::new();
    let path = directory.path().join("other.html");
    fs::write(&path, "hello").expect("a file");
    let file = path.display().to_string();
    Ladoga::new(["lab", "compare", &file, &file]).run().expect_failure(2, &["other.html", "is no report"]);
    Ladoga::new(["lab", "compare", "/no/such/file", &file]).run().expect_failure(2, &["/no/such/file"]);
    Ladoga::new(["lab", "compare", &file]).run().expect_failure(2, &["AFTER"]);
}
