use quick_xml::Reader;
use quick_xml::events::Event;

use crate::load::Load;
use crate::pprof::Pprof;
use crate::support::{Connection, Node, Response};

fn profile(connection: &mut Connection, target: &str) -> Response {
    let response = connection.request("GET", &format!("/debug/profile/{target}"), None);
    assert_eq!(response.status, 200, "{target}: {}", response.text());
    response
}

/// Folded stacks, each with its weight; every line has to be one.
fn folded(text: &str) -> Vec<(Vec<&str>, u64)> {
    text.lines().map(|line| stack(line).unwrap_or_else(|| panic!("no folded stack: {line:?}"))).collect()
}

fn stack(line: &str) -> Option<(Vec<&str>, u64)> {
    let (stack, weight) = line.rsplit_once(' ')?;
    Some((stack.split(';').collect(), weight.parse().ok()?))
}

/// The weight of stacks in which all of `parts` are named.
fn weight_of(stacks: &[(Vec<&str>, u64)], parts: &[&str]) -> u64 {
    let has_all = |frames: &[&str]| parts.iter().all(|part| frames.iter().any(|frame| frame.contains(part)));
    stacks.iter().filter(|(frames, _)| has_all(frames)).map(|(_, weight)| weight).sum()
}

#[test]
fn a_cpu_profile_names_the_functions_of_a_busy_node() {
    let node = Node::start();
    let _load = Load::on(&node);
    let response = profile(&mut node.connect(), "cpu?seconds=2&format=folded&hz=997");
    assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"));
    let stacks = folded(response.text());
    let total: u64 = stacks.iter().map(|(_, weight)| weight).sum();
    for parts in [
        // A thread, its outermost function of ours, what it does there.
        &["event-loop-", "ladoga_node::server::event_loop", "ladoga_node::embedded::local::Local"][..],
        &["committer", "ladoga_storage::engine::write"],
        &["hyper::"],
    ] {
        let found = weight_of(&stacks, parts);
        assert!(found > 0 && found <= total, "{parts:?}: {found} of {total} in\n{}", response.text());
    }
    assert_eq!(weight_of(&stacks, &["profile-cpu"]), 0, "who waits for the profile is no part of it");
}

#[test]
fn an_allocation_profile_names_who_asks_for_memory() {
    let node = Node::start();
    let _load = Load::on(&node);
    let response = profile(&mut node.connect(), "alloc?seconds=2&format=folded");
    let stacks = folded(response.text());
    assert!(weight_of(&stacks, &["ladoga_"]) > 0, "nothing in\n{}", response.text());
    assert_eq!(weight_of(&stacks, &["ladoga_profiler::"]), 0, "{}", response.text());
}

#[test]
fn a_lock_profile_names_what_is_waited_for() {
    let node = Node::start();
    let _load = Load::on(&node);
    let response = profile(&mut node.connect(), "lock?seconds=2&format=folded");
    let stacks = folded(response.text());
    let found = weight_of(&stacks, &["committer", "ladoga_storage::wal", "[waits: disk]"]);
    assert!(found > 0, "no sync of the log in\n{}", response.text());
    assert_eq!(
        weight_of(&stacks, &["io-"]),
        0,
        "who has nothing to do is no part of it:\n{}",
        response.text()
    );
}

#[test]
fn every_format_can_be_read_back() {
    let node = Node::start();
    let _load = Load::on(&node);
    // One connection takes them all, so every answer is as long as it says.
    let mut connection = node.connect();

    let svg = profile(&mut connection, "cpu?seconds=1&format=svg");
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));
    assert!(titles(svg.text()).iter().any(|title| title.contains("ladoga_node::")));

    let pprof = profile(&mut connection, "cpu?seconds=1&format=pprof");
    let pprof = Pprof::parse(&pprof.body);
    let types: Vec<(&str, &str)> = pprof.types.iter().map(|(name, unit)| (&**name, &**unit)).collect();
    assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert!(pprof.duration_ns >= 1_000_000_000, "{}", pprof.duration_ns);
    assert!(pprof.samples.iter().all(|sample| sample.values.len() == 2 && sample.values[1] > 0));
    let names_ours = |name: &String| name.contains("ladoga_node::");
    assert!(pprof.samples.iter().any(|sample| sample.functions.iter().any(names_ours)));

    for format in ["html", "heatmap"] {
        let page = profile(&mut connection, &format!("cpu?seconds=1&format={format}"));
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let data = page_data(page.text());
        let names = data["tree"]["names"].as_array().expect("names");
        assert!(names.iter().any(|name| name.as_str().is_some_and(|name| name.contains("ladoga_node::"))));
        if format == "heatmap" {
            assert_heatmap(&data);
        } else {
            assert!(data["values"].as_array().is_some_and(|values| !values.is_empty()));
        }
        for network in ["http://", "https://", " src=", "@import", "url("] {
            assert!(!page.text().contains(network), "{format} has {network:?}");
        }
    }
}

/// The texts of all `title` elements of a picture, which has to be well-formed.
fn titles(picture: &str) -> Vec<String> {
    let mut reader = Reader::from_str(picture);
    let mut titles = Vec::new();
    let mut open = Vec::new();
    loop {
        match reader.read_event().expect("a well-formed picture") {
            Event::Start(element) => {
                open.push(element.name().as_ref().to_vec());
                if element.name().as_ref() == b"title" {
                    titles.push(String::new());
                }
            }
            Event::End(_) => drop(open.pop()),
            Event::Text(text) if open.last().is_some_and(|name| name == b"title") => {
                titles.last_mut().expect("it was begun").push_str(&text.decode().expect("text"));
            }
            Event::Eof => {
                assert!(open.is_empty(), "elements that do not end: {open:?}");
                return titles;
            }
            _ => {}
        }
    }
}

/// What a page carries.
fn page_data(page: &str) -> serde_json::Value {
    let (_, data) = page.split_once("type=\"application/json\">").expect("a page with data");
    let (data, _) = data.split_once("</script>").expect("the end of the data");
    serde_json::from_str(data).expect("JSON")
}

/// Cells of 20 ms over a second, and every sample in one of them.
fn assert_heatmap(data: &serde_json::Value) {
    let cells = data["cells"].as_u64().expect("a number of cells");
    assert!(cells >= 50 && data["cellMs"] == 20, "{cells} cells");
    let rows = data["samples"].as_array().expect("samples");
    assert!(!rows.is_empty() && rows.len().is_multiple_of(4), "{} numbers", rows.len());
    let steps = rows.iter().step_by(4).map(|step| step.as_u64().expect("cells since the last sample"));
    assert!(steps.sum::<u64>() < cells);
}
