//! The flame graph as a page of its own: data, script and style in one file.

use serde_json::json;

use super::subtitle;
use super::tree::{NameTree, escape, script_json};
use crate::{Profile, date};

/// How flame graphs, what stands around them, and the words at the pointer look. Colours are variables of the page.
pub const FLAME_STYLE: &str = include_str!("../assets/flame.css");
const STYLE: &str = include_str!("../assets/page.css");
/// Functions that draw flame graphs and their differences on a canvas, and tell at the pointer what it is on, for any
/// page: `ladogaFlame(tree, unit, element).show(values, before)`.
pub const FLAME_SCRIPT: &str = concat!(
    include_str!("../assets/hover.js"),
    include_str!("../assets/stacks.js"),
    include_str!("../assets/flame_parts.js"),
    include_str!("../assets/flame.js")
);
const PAGE: &str = include_str!("../assets/flame.html");
const START_SCRIPT: &str = include_str!("../assets/start.js");

pub(super) fn render(profile: &Profile) -> String {
    let mut tree = NameTree::new();
    let mut values: Vec<u64> = Vec::new();
    for sample in &profile.samples {
        let leaf = tree.leaf(profile, sample.thread, sample.stack) as usize;
        values.resize(values.len().max(tree.len()), 0);
        values[leaf] += sample.weight;
    }
    let data = json!({ "unit": profile.kind.unit(), "tree": tree.to_json(), "values": values });
    fill(PAGE, profile, &script_json(&data), &[FLAME_SCRIPT, START_SCRIPT])
}

/// Puts the parts into a page. The data comes last: it may contain anything.
pub(super) fn fill(page: &str, profile: &Profile, data: &str, scripts: &[&str]) -> String {
    page.replace("{{style}}", &[FLAME_STYLE, STYLE].concat())
        .replace("{{script}}", &scripts.join("\n"))
        .replace("{{title}}", profile.kind.title())
        .replace("{{subtitle}}", &escape(&subtitle(profile)))
        .replace("{{head}}", &head(profile))
        .replace("{{data}}", data)
}

/// What a reader needs to know where it comes from, and to do it again.
fn head(profile: &Profile) -> String {
    let Profile { kind, program, .. } = profile;
    let seconds = (profile.duration_ns as f64 / 1e9).round().max(1.0);
    let rows = [
        ("taken", date(profile.started_unix_ns / 1_000_000_000)),
        ("program", format!("ladoga {}", program.version)),
        ("process", format!("{}: {}", program.process, program.command)),
        ("again", format!("ladoga profile --kind {kind} --seconds {seconds}")),
    ];
    let row = |(name, text): (&str, String)| format!("<dt>{name}</dt><dd>{}</dd>", escape(&text));
    format!("<dl class=\"head\">{}</dl>", rows.map(row).concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture;

    #[test]
    fn the_page_holds_its_data_and_needs_no_network() {
        let page = render(&fixture::profile());
        let data = page.split("type=\"application/json\">").nth(1).expect("data");
        let data: serde_json::Value =
            serde_json::from_str(data.split("</script>").next().expect("end")).expect("JSON");
        assert_eq!(data["tree"]["names"][0], "main");
        assert_eq!(data["tree"]["parent"], json!([-1, 0, 1, 1, 3, -1, 5, 6, 7]));
        assert_eq!(data["values"], json!([0, 0, 20_000_000, 10_000_000, 10_000_000, 0, 0, 0, 10_000_000]));
        assert!(!page.contains("{{") && !page.contains("http://") && !page.contains("https://"));
        for part in [
            "<dd>2023-11-14 22:13 UTC</dd>",
            "<dd>ladoga 1.2.3 (commit abc)</dd>",
            "<dd>42: app --name &lt;/script&gt;</dd>",
            "<dd>ladoga profile --kind cpu --seconds 2</dd>",
        ] {
            assert!(page.contains(part), "{part} in the head");
        }
    }
}
