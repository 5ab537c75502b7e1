use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::load::Load;
use crate::support::{Browser, Directory, Node, Page, wait_for};

/// Of a sheet with more than a heading.
const SHEET_LENGTH_MIN: usize = 600;

/// How much of the graph a function has, by a part of its name; none if it is not drawn.
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
    let mut page = browser.open(&file, 1400, 900);
    assert!(share(&mut page, "ladoga_server::").is_some_and(|share| share > 0.0));
    for part in [", commit ", "serve", "ladoga profile --kind cpu --seconds 3 --hz 499 -o cpu.html"] {
        assert!(page.text("dl.head").contains(part), "{part} in {}", page.text("dl.head"));
    }
    colours_are_those_of_the_legend(&mut page);
    let is_at_base = "(e => e.scrollTop + e.clientHeight >= e.scrollHeight - 2 && e.getBoundingClientRect().bottom <= innerHeight)\
                      (document.querySelector('.flame-scroll'))";
    assert_eq!(page.evaluate(is_at_base), true, "it opens where one begins to read, within the window");
    page.screenshot("profile-flame");
    page.write(".search", "ladoga_(server|front)::");
    assert!(page.text(".tip").contains("% match the search"), "{}", page.text(".tip"));
    page.screenshot("profile-flame-search");
    page.click("button.filter");
    assert!(
        share(&mut page, "ladoga_server::").is_some_and(|share| share > 0.99),
        "only what matches is left"
    );
    page.write(".search", "ladoga_(");
    assert!(page.text(".tip").contains("searched as plain text"), "{}", page.text(".tip"));
    page.focus(".search");
    page.press("Escape");
    let whole = share(&mut page, "committer").expect("a thread");
    assert!(whole < 1.0, "{whole}");
    let at = point(&page.evaluate("ladogaProfile.flame.place('committer')"));
    page.hover("canvas", at);
    assert!(page.text(".hover").starts_with("committer"), "{}", page.text(".hover"));
    page.drag("canvas", at, at);
    assert!(page.text(".tip").starts_with("committer"), "{}", page.text(".tip"));
    assert_eq!(share(&mut page, "event-loop"), None, "only the thread that was clicked is left");
    page.screenshot("profile-flame-zoom");
    page.click("button.reset");
    assert!(share(&mut page, "event-loop").is_some());
    assert_eq!(page.complaints(), [""; 0]);
    let mut phone = browser.open(&file, 390, 800);
    phone.screenshot("profile-flame-phone");
    assert_eq!(phone.evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
    assert_eq!(phone.complaints(), [""; 0]);
}

/// Each kind of frame has hues of its own: the swatch of another kind is never the nearest.
fn colours_are_those_of_the_legend(page: &mut Page<'_>) {
    let worst = page.evaluate(
        "(() => { const hue = colour => Number(colour.match(/^hsl\\((\\d+)/)[1]); \
         const swatches = ladogaFrameLegend().slice(0, 4).map(([colour]) => hue(colour)); \
         const kinds = [n => 'ours::f' + n, n => 'std::f' + n, n => 'f' + n + '_[k]', n => 'f' + n]; \
         return kinds.flatMap((name, kind) => Array.from({ length: 200 }, (_, n) => name(n)).filter(text => { \
         const far = swatches.map(swatch => Math.abs(swatch - hue(ladogaFrameColour(text, false)))); \
         return far.indexOf(Math.min(...far)) !== kind; })); })()",
    );
    assert_eq!(worst, serde_json::json!([]), "frames in the colour of another kind");
}

/// The rows from the base in which a frame of exactly this name is drawn.
fn rows(page: &mut Page<'_>, name: &str) -> Vec<u64> {
    let frames = page.evaluate("ladogaProfile.flame.frames()");
    let named = frames.as_array().expect("frames").iter().filter(|frame| frame["name"] == name);
    named.map(|frame| frame["row"].as_f64().expect("a row") as u64).collect()
}

/// What stands on the whole, widest first.
fn threads(page: &mut Page<'_>) -> Vec<String> {
    let frames = page.evaluate("ladogaProfile.flame.frames()");
    let threads =
        frames.as_array().expect("frames").iter().filter(|frame| frame["row"].as_f64() == Some(1.0));
    threads.map(|frame| frame["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_flame_graph_folds_and_turns_and_is_walked_by_keys() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let mut page = browser.open(&profile_page(&directory, "html"), 1400, 900);
    assert!(!rows(&mut page, "[runtime]").is_empty());
    let folded = page.evaluate("document.querySelector('canvas').clientHeight").as_f64().expect("a height");
    page.click("button.fold");
    let unfolded = page.evaluate("document.querySelector('canvas').clientHeight").as_f64().expect("a height");
    assert!(rows(&mut page, "[runtime]").is_empty() && unfolded > folded, "{folded} to {unfolded}");
    page.click("button.fold");

    let at = |page: &mut Page<'_>| point(&page.evaluate("ladogaProfile.flame.place('committer')")).1;
    let (base, total) = (at(&mut page), page.evaluate("ladogaProfile.flame.total()"));
    assert_eq!(rows(&mut page, "committer"), [1], "threads stand on what is the whole");
    page.click("button.icicle");
    assert!(base > 0.8 && at(&mut page) < 0.2, "threads stand on top");
    page.click("button.icicle");
    page.click("button.reverse");
    assert!(rows(&mut page, "committer").iter().any(|row| *row > 1), "threads are callers of all now");
    assert_eq!(page.evaluate("ladogaProfile.flame.total()"), total);
    page.screenshot("profile-flame-reverse");
    page.click("button.reverse");

    page.focus("canvas");
    page.press("ArrowUp");
    let widest = page.text(".tip");
    page.press("Enter");
    let widened = threads(&mut page);
    assert!(widened.len() == 1 && widest.starts_with(&widened[0]), "{widened:?} is widened, of {widest}");
    page.press("Escape");
    assert!(threads(&mut page).len() > 1);
    page.press("/");
    assert_eq!(page.evaluate("document.activeElement.className"), "search");
    let sheets = page.print("profile-flame");
    assert!(sheets.len() <= 2 && sheets.iter().all(|length| *length > SHEET_LENGTH_MIN), "{sheets:?}");
    assert_eq!(page.complaints(), [""; 0]);
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
    page.hover("#heat", at);
    assert!(page.text(".hover").contains("threads at a time"), "{}", page.text(".hover"));

    page.click("#whole");
    assert_eq!(shown(&mut page), all);
    page.evaluate(
        "(s => { s.value = '=committer'; s.dispatchEvent(new Event('change')) })(document.querySelector('#thread'))",
    );
    let of_thread = shown(&mut page);
    assert!(of_thread > 0 && of_thread < all, "{of_thread} of {all}");
    let sheets = page.print("profile-heatmap");
    assert!(sheets.len() <= 2 && sheets.iter().all(|length| *length > SHEET_LENGTH_MIN), "{sheets:?}");
    assert_eq!(page.complaints(), [""; 0]);
    let mut phone = browser.open(&file, 390, 800);
    phone.swipe("#heat", (0.3, 0.2), (0.6, 0.6));
    assert!(phone.text("#chosen").starts_with("Range"), "a finger selects: {}", phone.text("#chosen"));
    phone.screenshot("profile-heatmap-phone");
    assert_eq!(phone.evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
    assert_eq!(phone.complaints(), [""; 0]);
}

/// Writes another profile into the page of a heat map.
fn change_data(file: &Path, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(file).expect("a page");
    let (head, rest) = text.split_once("type=\"application/json\">").expect("the data");
    let (data, tail) = rest.split_once("</script>").expect("its end");
    let mut data: Value = serde_json::from_str(data).expect("JSON");
    change(&mut data);
    let data = data.to_string().replace('<', "\\u003c");
    fs::write(file, format!("{head}type=\"application/json\">{data}</script>{tail}")).expect("a page");
}

/// Beside a range without samples, each frame was larger than by any noise.
#[test]
fn a_range_without_samples_leaves_nothing_to_tell() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let file = profile_page(&directory, "heatmap");
    change_data(&file, |data| {
        // All of them a second after the beginning.
        let cells = 1_000 / data["cellMs"].as_u64().expect("a length");
        let sample = |index| [if index == 0 { cells } else { 0 }, 0, 0, 1_000_000];
        data["samples"] = (0..100).flat_map(sample).collect::<Vec<u64>>().into();
    });
    let mut page = browser.open(&file, 1400, 900);
    let noise = |page: &mut Page<'_>| -> Vec<bool> {
        let frames = page.evaluate("ladogaProfile.flame.frames()");
        let frames = frames.as_array().expect("frames").iter();
        frames.map(|frame| frame["isNoise"].as_bool().expect("a difference")).collect()
    };
    page.evaluate("ladogaProfile.select('a', 0, 500)");
    page.evaluate("ladogaProfile.select('b', 1000, 2000)");
    let found = noise(&mut page);
    assert!(!found.is_empty() && found.iter().all(|is_noise| *is_noise), "{found:?}");
    let told = "Everything is grey, as nothing can be told: 0 and 100 samples, 20 needed on each side.";
    assert!(page.text("#chosen").ends_with(told), "{}", page.text("#chosen"));
    page.evaluate("ladogaProfile.select('a', 1000, 2000)");
    page.evaluate("ladogaProfile.select('b', 1000, 2000)");
    assert!(page.text("#chosen").ends_with("grey is within noise."), "{}", page.text("#chosen"));
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn a_search_lights_up_the_heat_map_and_keys_walk_over_it() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let mut page = browser.open(&profile_page(&directory, "heatmap"), 1400, 900);
    let sum = |page: &mut Page<'_>, what: &str| {
        let cells = page.evaluate(what);
        cells.as_array().expect("cells").iter().map(nanoseconds).sum::<u64>()
    };
    let all = sum(&mut page, "ladogaProfile.heat()");
    page.write(".search", "^committer$");
    let lit = sum(&mut page, "ladogaProfile.lit()");
    assert!(lit > 0 && lit < all, "{lit} of {all}");
    page.screenshot("profile-heatmap-search");
    page.click("button.filter");
    assert_eq!(sum(&mut page, "ladogaProfile.heat()"), lit, "the heat map is filtered too");
    page.click("button.filter");
    page.focus("#heat");
    for key in ["ArrowDown", "ArrowDown", "Shift+ArrowRight"] {
        page.press(key);
    }
    // The first press chooses the first cell, the second the one below it, and the third goes on by a second.
    assert_eq!(page.text("#chosen"), "Range 0.02 s to 1.04 s.");
    page.press("Escape");
    assert_eq!(page.text("#chosen"), "The whole run.");
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn a_heat_map_of_hours_has_three_scales() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let file = profile_page(&directory, "heatmap");
    change_data(&file, |data| {
        let cells_an_hour = 3600 * 1000 / data["cellMs"].as_u64().expect("a length");
        data["cells"] = (2 * cells_an_hour + 1).into();
        // One sample in the first cell, and one two hours later.
        data["samples"] = vec![0, 0, 0, 1_000_000, 2 * cells_an_hour, 0, 0, 2_000_000].into();
    });
    let mut page = browser.open(&file, 1400, 900);
    assert_eq!(page.evaluate("ladogaProfile.scales"), serde_json::json!(["Seconds", "Minutes", "Hours"]));
    for (scale, cell) in [(2, "0.00 s to 1:00.00"), (1, "0.00 s to 1.00 s"), (0, "0.00 s to 0.02 s")] {
        page.evaluate(&format!("ladogaProfile.useScale({scale})"));
        let at = point(&page.evaluate("ladogaProfile.place(0)"));
        page.drag("#heat", at, at);
        assert_eq!(page.text("#chosen"), format!("Range {cell}."));
        assert_eq!(nanoseconds(&page.evaluate("ladogaProfile.flame.total()")), 1_000_000, "scale {scale}");
    }
    page.evaluate("ladogaProfile.useScale(1)");
    page.screenshot("profile-heatmap-hours");
    assert_eq!(page.complaints(), [""; 0]);
}
