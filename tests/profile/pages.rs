use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::load::Load;
use crate::support::{Browser, Directory, Node, Page};

/// How much of the graph a function has, by a part of its name; none where it is not drawn.
fn share(page: &mut Page<'_>, part: &str) -> Option<f64> {
    let frames = page.evaluate("ladogaProfile.flame.frames()");
    let has_part = |frame: &&Value| frame["name"].as_str().is_some_and(|name| name.contains(part));
    frames.as_array().expect("frames").iter().find(has_part).and_then(|frame| frame["share"].as_f64())
}

/// A file with a profile of a node that is busy in the second of three seconds.
fn profile_page(directory: &Directory, kind: &str, format: &str) -> PathBuf {
    let node = Node::start();
    let mut connection = node.connect();
    connection.send_request("GET", &format!("/debug/profile/{kind}?seconds=3&format={format}"), None);
    crate::support::wait_until("the profile", || crate::asking::is_taken(&node, kind));
    let load = Load::on(&node);
    let page = connection.response();
    drop(load);
    assert_eq!(page.status, 200);
    let file = directory.path().join(format!("{kind}.{format}.html"));
    fs::write(&file, page.body).expect("a file for the page");
    file
}

#[test]
fn a_flame_graph_widens_and_is_searched() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let file = profile_page(&directory, "cpu", "html");
    let mut page = browser.open(&file, 1280, 900);
    assert!(share(&mut page, "ladoga_node::").is_some_and(|share| share > 0.0));
    page.screenshot("profile-flame");
    page.evaluate(
        "(s => { s.value = 'ladoga_'; s.dispatchEvent(new Event('input')) })(document.querySelector('#search'))",
    );
    assert!(page.text("#tip").contains("% match the search"), "{}", page.text("#tip"));
    page.screenshot("profile-flame-search");
    // The widest function in the second row from below, which is a thread.
    page.drag("#flame", (0.1, 1.0 - 27.0 / 1000.0), (0.1, 1.0 - 27.0 / 1000.0));
    page.screenshot("profile-flame-zoom");
    assert_eq!(page.complaints(), [""; 0]);
    let mut phone = browser.open(&file, 390, 800);
    phone.screenshot("profile-flame-phone");
    assert_eq!(phone.complaints(), [""; 0]);
}
