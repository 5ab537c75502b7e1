use super::fixture;
use super::{read_report, render};
use crate::files;
use crate::record::Disturbance;
use crate::scratch::Scratch;

#[test]
fn the_page_holds_its_report_and_needs_no_network() {
    let report = fixture::report();
    let page = render(&report, None);
    let scratch = Scratch::new(&std::env::temp_dir(), 77).unwrap();
    let path = scratch.path().join("report.html");
    files::replace(&path, &page).unwrap();
    assert!(read_report(&path).unwrap() == report, "what was written is what is read");
    let links = page.match_indices("http://").map(|(at, _)| &page[at..(at + 16).min(page.len())]);
    assert!(links.into_iter().all(|link| link == "http://127.0.0.1"), "only commands name an address");
    assert!(!page.contains("https://") && !page.contains("NaN"));
    assert!(page.contains("A &lt;/script&gt; report"), "a title cannot end an element");
    for part in [
        "Interrupted: 2 of 3 runs",
        "SLO p99&lt;1ms: holds, found 900us",
        "Errors: up to 0.14 % in put at 1,000/s",
        "Rate not reached in put at 1,000/s and 1 more",
        "<span class=\"bad\">503</span></td><td data-label=\"count\">10</td><td data-label=\"share\">0.11 %</td>",
        "<a href=\"#stage-1\">get at 1,000/s</a>",
        "1,000 requests were due by the end and had no answer; no percentile contains them. 3 of them are errors.",
        "A request whose connection broke has none",
        "was due, or 3 s before it ended if that is later",
        "6.40 ms",
        "class=\"mark flush\"",
        "1 flushes up to 3.2 s",
        "Errors, share of requests",
        "5xx 0 to 1</span>",
        "Latency distribution, share of requests",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_second_in_which_all_connections_broke_has_only_errors() {
    let mut report = fixture::report();
    let row = &mut report.runs[0].seconds[5];
    (row.completed, row.errors, row.errors_by_kind) = (0, 800, [0, 0, 800]);
    let page = render(&report, None);
    for part in ["answered 0 to 1,000</span>", "no answer 0 to 800</span>", "no answer 0 % to 100.0 %</span>"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_run_that_the_generator_limited_is_named_on_top() {
    let mut report = fixture::report();
    let words = "was a limit in 1 of 2 runs</li>";
    assert!(!render(&report, None).contains(words));
    report.runs[0].generator.limits.push("the generator was late".to_owned());
    assert!(render(&report, None).contains(words));
}

/// All steal of the host was told as the work of other processes.
#[test]
fn what_the_host_took_is_not_of_other_processes() {
    let mut report = fixture::report();
    for other_cores in [None, Some(0.01)] {
        report.runs[0].disturbance = Disturbance { other_cores, steal_share: Some(0.05) };
        assert!(!render(&report, None).contains("ther processes"), "{other_cores:?}");
    }
    report.runs[0].disturbance.other_cores = Some(0.5);
    let page = render(&report, None);
    for part in ["Other processes disturbed 1 of 2 runs", "Other processes used 0.5 of the machine"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn many_stages_are_folded_and_rounds_stand_together() {
    let mut report = fixture::report();
    let run = report.runs[0].clone();
    let opened = "<details class=\"stage\" id=\"stage-0\" open>";
    assert!(render(&report, None).contains(opened), "two stages are not too many");
    report.runs.clear();
    for stage in 0..14 {
        for round in [1, 2] {
            let mut run = run.clone();
            run.stage = format!("stage {stage}");
            run.round = round;
            run.per_second = 1000.0 * f64::from(round);
            report.runs.push(run);
        }
    }
    let page = render(&report, None);
    assert_eq!(page.matches("<details class=\"stage\"").count(), 14);
    assert!(!page.contains(opened) && page.contains("class=\"open-all\""));
    assert!(page.contains("<td data-label=\"answered/s\">1,500<small>1,000 – 2,000</small>"), "their spread");
    assert_eq!(page.matches("<details class=\"round\">").count(), 14, "one round of two is shown at once");
    assert!(page.contains("14 stages</a>"), "the rows of the summary are links enough");
}

#[test]
fn what_is_no_report_is_refused_by_name() {
    let scratch = Scratch::new(&std::env::temp_dir(), 78).unwrap();
    let refused = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        files::replace(&path, text).unwrap();
        read_report(&path).unwrap_err().to_string()
    };
    assert!(
        refused("a.html", "hello")
            .contains("a.html is not a report of ladoga: it holds no data of a report; expected a page of")
    );
    let page = render(&fixture::report(), None).replacen("{\"format\":2,", "{\"format\":3,", 1);
    assert!(refused("b.html", &page).contains("its format is 3, this program reads 2"));
    let missing = read_report(&scratch.path().join("c.html")).unwrap_err();
    assert_eq!(missing.exit_code(), 2);
}
