use std::fs;

use serde_json::{Value, json};

use crate::data_of;
use crate::support::{Directory, Ladoga, Node};

/// A report whose rounds are known: the latencies are `scale` times what they would be, with a little noise.
fn with_known_rounds(mut data: Value, rounds: u64, scale: f64, errors: u64) -> String {
    let round = |round: u64| {
        let noise = 1.0 + (round * 7 % 5) as f64 / 200.0;
        let latency =
            [90.0, 100.0, 200.0, 400.0, 900.0, 1_500.0, 2_000.0].map(|micros| micros * noise * scale);
        let [mean, p50, p90, p99, p999, p9999, max] = latency;
        let mut run = data["runs"][0].clone();
        run["round"] = json!(round);
        run["per_second"] = json!(1_000.0 * noise);
        run["latency"] = json!({
            "mean": mean, "p50": p50, "p90": p90, "p99": p99, "p999": p999, "p9999": p9999, "max": max,
        });
        let answer = |class: &str, count: u64| json!({ "class": class, "count": count, "latency": null });
        run["answers"] = json!([answer("2xx", 1_000 - errors), answer("503", errors)]);
        (run["unanswered"], run["lost"], run["connect_errors"]) = (json!(0), json!(0), json!(0));
        run
    };
    data["runs"] = (1..=rounds).map(round).collect();
    let data = data.to_string().replace('<', "\\u003c");
    format!("<script id=\"report\" type=\"application/json\">{data}</script>")
}

#[test]
fn a_report_is_compared_with_itself_and_with_others() {
    let (directory, node) = (Directory::new(), Node::start());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let line = format!("bench -t1 -c1 -d 2s -R 200 --workload status {} --html", node.url());
    let words = line.split_whitespace().map(str::to_owned).chain([path("measured.html")]);
    Ladoga::new(words).run().expect_success();
    let measured = data_of(directory.path().join("measured.html").as_path());
    let mut elsewhere = measured.clone();
    elsewhere["machine"]["cores"] = json!(1_000);
    for (name, data, rounds, scale, errors) in [
        ("before.html", &measured, 10, 1.0, 0),
        ("slower.html", &measured, 10, 3.0, 0),
        ("failing.html", &measured, 10, 1.0, 10),
        ("short.html", &measured, 2, 3.0, 0),
        ("elsewhere.html", &elsewhere, 10, 1.0, 0),
    ] {
        fs::write(path(name), with_known_rounds(data.clone(), rounds, scale, errors)).expect("a report");
    }

    let compare = |after: &str| {
        let words = ["lab", "compare", &path("before.html"), &path(after), "-o", &path("page.html")];
        Ladoga::new(words).run().expect_success().text().to_owned()
    };
    let line_of = |text: &str, figure: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(figure));
        line.unwrap_or_else(|| panic!("no line of {figure} in {text}")).to_owned()
    };
    let words = ["lab", "compare", &path("before.html"), &path("slower.html"), "-o", &path("before.html")];
    Ladoga::new(words).run().expect_failure(2, &["before.html, a report that is compared"]);
    let same = compare("before.html");
    assert!(same.contains("within noise") && !same.contains("worse") && !same.contains("better"), "{same}");
    assert!(same.contains("permutation test") && same.contains("Holm"), "the test is named: {same}");
    assert!(!same.contains("Different: "), "{same}");
    let again = Ladoga::new(["lab", "compare", &path("before.html"), &path("page.html")]).run();
    again.expect_failure(
        2,
        &["page.html is not a report", "it is the page of a comparison", "expected a page of"],
    );
    let page = fs::read_to_string(path("page.html")).expect("a page");
    assert!(page.contains("within noise"));
    // Whoever divides the two medians finds another figure.
    for text in [&same, &page] {
        assert!(text.contains("change (median of pairs)"), "the column is named: {text}");
        assert!(
            text.contains("The change is the median over pairs of rounds (each round before with each"),
            "{text}"
        );
    }

    let slower = compare("slower.html");
    for figure in ["p50", "p99 ", "p99.9", "max"] {
        let line = line_of(&slower, figure);
        assert!(line.contains("+200.0 % [+") && line.contains("worse (p "), "{line}");
    }
    assert!(line_of(&slower, "answered/s").contains("within noise"), "{slower}");
    assert!(line_of(&slower, "errors").contains("none on either side"), "{slower}");

    let failing = compare("failing.html");
    let errors = line_of(&failing, "errors");
    assert!(errors.contains("1.00 %") && errors.contains("worse"), "{errors}");

    let short = line_of(&compare("short.html"), "p99 ");
    assert!(
        short.contains("cannot be told: 10 and 2 rounds on the two sides, ") && short.contains(" needed"),
        "{short}"
    );

    let mut other = measured.clone();
    other["runs"][0]["stage"] = json!("something else");
    fs::write(path("other.html"), with_known_rounds(other, 2, 1.0, 0)).expect("a report");
    let nothing = Ladoga::new(["lab", "compare", &path("before.html"), &path("other.html")]).run();
    nothing.expect_failure(2, &["no run in common", "Before: Load test of http://", "After: something else"]);

    let elsewhere = compare("elsewhere.html");
    assert!(
        elsewhere.contains("Different: the number of cores.") && elsewhere.contains("After: 1000."),
        "{elsewhere}"
    );
}

#[test]
fn what_is_no_report_is_named() {
    let directory = Directory::new();
    let path = directory.path().join("other.html");
    fs::write(&path, "hello").expect("a file");
    let file = path.display().to_string();
    Ladoga::new(["lab", "compare", &file, &file]).run().expect_failure(2, &["other.html", "is not a report"]);
    Ladoga::new(["lab", "compare", "/no/such/file", &file]).run().expect_failure(2, &["/no/such/file"]);
    Ladoga::new(["lab", "compare", &file]).run().expect_failure(2, &["AFTER"]);
}
