use quick_xml::Reader;
use quick_xml::events::Event;

use crate::asking::kinds;
use crate::load::Load;
use crate::pprof::Pprof;
use crate::support::{Connection, Launch, Node, Response, assert_refusal, skip, wait_for};

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

/// Takes profiles until one names what the node does: on a machine that is busy with something else, it may not get far
/// within a second.
fn until(connection: &mut Connection, target: &str, names_it: impl Fn(&Response) -> bool) -> Response {
    wait_for("a profile that names what the node does", || {
        let response = profile(connection, target);
        names_it(&response).then_some(response)
    })
}

/// Takes profiles until one has stacks that name all of each of `wanted`. Answers the text.
fn until_named(node: &Node, target: &str, wanted: &[&[&str]]) -> String {
    let found = until(&mut node.connect(), target, |response| {
        assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"));
        let stacks = folded(response.text());
        let missing = wanted.iter().find(|parts| weight_of(&stacks, parts) == 0);
        if let Some(missing) = missing {
            eprintln!("{target}: {missing:?} is not in {} stacks", stacks.len());
        }
        missing.is_none()
    });
    found.text().to_owned()
}

#[test]
fn a_cpu_profile_names_the_functions_of_a_busy_node() {
    let node = Node::start();
    let _load = Load::on(&node);
    let text = until_named(
        &node,
        "cpu?seconds=1&format=folded&hz=997",
        &[
            // A thread, its outermost function of ours, what it does there.
            &["event-loop-", "ladoga_server::event_loop", "ladoga_local::embedded::local::Local"],
            &["committer", "ladoga_storage::engine::write"],
            &["ladoga_http1::"],
        ],
    );
    assert_eq!(weight_of(&folded(&text), &["profile-cpu"]), 0, "who waits for the profile is no part of it");
}

#[test]
fn an_allocation_profile_names_who_asks_for_memory() {
    let node = Node::start();
    let _load = Load::on(&node);
    let text = until_named(&node, "alloc?seconds=1&format=folded", &[&["event-loop-", "ladoga_server::"]]);
    assert_eq!(weight_of(&folded(&text), &["ladoga_profiler::"]), 0, "{text}");
}

#[test]
fn a_lock_profile_names_what_is_waited_for() {
    let node = Node::start();
    if !kinds(&node).contains(&"lock") {
        return;
    }
    let _load = Load::on(&node);
    let sync: &[&str] = &["committer", "ladoga_storage::wal", "[waits: disk]"];
    let text = until_named(&node, "lock?seconds=1&format=folded", &[sync]);
    let stacks = folded(&text);
    // Threads that wait for work do not count; waits for the disk, or for a lock, do.
    for idle in [
        &["io-", "[waits: condition]"][..],
        &["committer", "[waits: condition]"],
        &["background", "[waits: condition]"],
        &["profile"],
    ] {
        assert_eq!(weight_of(&stacks, idle), 0, "{idle:?} has nothing to do:\n{text}");
    }
}

/// A node in a user namespace of its own has no rights over the kernel, as in most containers.
#[test]
fn without_rights_the_node_samples_itself() {
    let wrapper = ["unshare", "--user", "--map-root-user"];
    let can = std::process::Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").status();
    if !can.is_ok_and(|status| status.success()) {
        return skip("no user namespace can be made");
    }
    let node = Launch::new().wrapper(&wrapper.map(str::to_owned)).start();
    let _load = Load::on(&node);
    let text = until_named(&node, "cpu?seconds=1&format=folded", &[&["event-loop-", "ladoga_server::"]]);
    assert!(!text.contains("_[k]"), "the kernel's functions cannot be known");
    let page = profile(&mut node.connect(), "cpu?seconds=1&format=html");
    assert!(page.text().contains("CAP_PERFMON is needed"), "the page does not say what is missing");
    let refused = node.connect().request("GET", "/debug/profile/lock?seconds=1", None);
    assert_refusal(&refused, 501, "lock");
    assert!(refused.text().contains("CAP_PERFMON"), "{}", refused.text());
}

#[test]
fn every_format_can_be_read_back() {
    let node = Node::start();
    let _load = Load::on(&node);
    // One connection takes them all, so every answer has the length that it announces.
    let mut connection = node.connect();

    let svg = until(&mut connection, "cpu?seconds=1&format=svg", |svg| {
        titles(svg.text()).iter().any(|title| title.contains("ladoga_server::"))
    });
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));

    let names_ours = |name: &String| name.contains("ladoga_server::");
    let pprof = until(&mut connection, "cpu?seconds=1&format=pprof", |pprof| {
        Pprof::parse(&pprof.body).samples.iter().any(|sample| sample.functions.iter().any(names_ours))
    });
    let pprof = Pprof::parse(&pprof.body);
    let types: Vec<(&str, &str)> = pprof.types.iter().map(|(name, unit)| (&**name, &**unit)).collect();
    assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert!(pprof.duration_ns >= 1_000_000_000, "{}", pprof.duration_ns);
    assert!(pprof.samples.iter().all(|sample| sample.values.len() == 2 && sample.values[1] > 0));

    for format in ["html", "heatmap"] {
        let page = until(&mut connection, &format!("cpu?seconds=1&format={format}"), |page| {
            let data = page_data(page.text());
            let names = data["tree"]["names"].as_array().expect("names");
            names.iter().any(|name| name.as_str().is_some_and(|name| name.contains("ladoga_server::")))
        });
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let data = page_data(page.text());
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
