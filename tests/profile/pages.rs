use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::load::Load;
use crate::support::{Browser, Directory, Node, Page, wait_for};

/// How much of the graph a function has, by a part of its name; none where it is not drawn.
fn share(page: &mut Page<'_>, part: &str) -> Option<f64> {
    let frames = page.evaluate("ladogaProfile.flame.frames()");
    let has_part = |frame: &&Value| frame["name"].as_str().is_some_and(|name| name.contains(part));
    frames.as_array().expect("frames").iter().find(has_part).and_then(|frame| frame["share"].as_f64())
}

/// A file with a profile of a busy node in which all of its threads were seen: on a machine that is busy with something
/// else that may take more than one.
fn profile_page(directory: &Directory, format: &str) -> PathBuf {
    let node = Node::start();
    let _load = Load::on(&node);
    let mut connection = node.connect();
    let page = wait_for("a profile with all threads in it", || {
        let target = format!("/debug/profile/cpu?seconds=3&format={format}");
        let response = connection.request("GET", &target, None);
        assert_eq!(response.status, 200);
        ["\"committer\"", "\"event-loop"]
            .iter()
            .all(|name| response.text().contains(name))
            .then_some(response)
    });
    let file = directory.path().join(format!("{format}.html"));
    fs::write(&file, page.body).expect("a file for the page");
    file
}

#[test]
fn a_flame_graph_widens_and_is_searched() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let file = profile_page(&directory, "html");
    let mut page = browser.open(&file, 1280, 900);
    assert!(share(&mut page, "ladoga_server::").is_some_and(|share| share > 0.0));
    page.screenshot("profile-flame");
    page.evaluate(
        "(s => { s.value = 'ladoga_'; s.dispatchEvent(new Event('input')) })(document.querySelector('#search'))",
    );
    assert!(page.text("#tip").contains("% match the search"), "{}", page.text("#tip"));
    page.screenshot("profile-flame-search");
    let whole = share(&mut page, "committer").expect("a thread");
    assert!(whole < 1.0, "{whole}");
    let at = point(&page.evaluate("ladogaProfile.flame.place('committer')"));
    page.drag("#flame", at, at);
    assert!(page.text("#tip").starts_with("committer"), "{}", page.text("#tip"));
    assert_eq!(share(&mut page, "event-loop"), None, "only the thread that was clicked is left");
    page.screenshot("profile-flame-zoom");
    page.click("#reset");
    assert!(share(&mut page, "event-loop").is_some());
    assert_eq!(page.complaints(), [""; 0]);
    let mut phone = browser.open(&file, 390, 800);
    phone.screenshot("profile-flame-phone");
    assert_eq!(phone.evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
    assert_eq!(phone.complaints(), [""; 0]);
}

fn point(parts: &Value) -> (f64, f64) {
    let part = |at: usize| parts[at].as_f64().expect("a part of a length");
    (part(0), part(1))
}

/// A weight, which is a whole number, and in the browser a float.
fn nanoseconds(weight: &Value) -> u64 {
    weight.as_f64().expect("a weight") as u64
}

/// The weight of the cells between two, both included.
fn weight(heat: &[u64], from: usize, to: usize) -> u64 {
    heat[from..=to].iter().sum()
}

#[test]
fn a_range_of_the_heat_map_opens_its_flame_graph_and_a_second_one_the_difference() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let file = profile_page(&directory, "heatmap");
    let mut page = browser.open(&file, 1280, 900);
    let heat = page.evaluate("ladogaProfile.heat()");
    let heat: Vec<u64> = heat.as_array().expect("cells").iter().map(nanoseconds).collect();
    assert!(heat.len() >= 150, "{} cells in three seconds", heat.len());
    let shown = |page: &mut Page<'_>| nanoseconds(&page.evaluate("ladogaProfile.flame.total()"));
    let all = weight(&heat, 0, heat.len() - 1);
    assert_eq!((shown(&mut page), page.text("#chosen").as_str()), (all, "The whole run."));
    page.screenshot("profile-heatmap");

    // A cell with samples, but not with all of them.
    let cell = heat.iter().position(|weight| *weight > 0 && *weight < all).expect("a cell with samples");
    let place =
        |page: &mut Page<'_>, cell: usize| point(&page.evaluate(&format!("ladogaProfile.place({cell})")));
    let at = place(&mut page, cell);
    page.drag("#heat", at, at);
    assert!(page.text("#chosen").starts_with("Range"), "{}", page.text("#chosen"));
    assert_eq!(shown(&mut page), heat[cell]);
    page.screenshot("profile-heatmap-cell");

    // From the cell on, a second range of a second, which may reach into the next column.
    page.click("#range-b");
    let last = (cell + 50).min(heat.len() - 1);
    let (from, to) = (place(&mut page, cell), place(&mut page, last));
    page.drag("#heat", from, to);
    assert!(page.text("#chosen").starts_with("Difference"), "{}", page.text("#chosen"));
    assert_eq!(shown(&mut page), weight(&heat, cell, last));
    let frames = page.evaluate("ladogaProfile.flame.frames()");
    assert!(
        frames
            .as_array()
            .expect("frames")
            .iter()
            .all(|frame| frame["before"].is_f64() || frame["before"].is_i64())
    );
    page.screenshot("profile-heatmap-difference");

    page.click("#whole");
    assert_eq!(shown(&mut page), all);
    page.evaluate(
        "(s => { s.value = '=committer'; s.dispatchEvent(new Event('change')) })(document.querySelector('#thread'))",
    );
    let of_thread = shown(&mut page);
    assert!(of_thread > 0 && of_thread < all, "{of_thread} of {all}");
    assert_eq!(page.complaints(), [""; 0]);
    let mut phone = browser.open(&file, 390, 800);
    phone.screenshot("profile-heatmap-phone");
    assert_eq!(phone.evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
    assert_eq!(phone.complaints(), [""; 0]);
}
