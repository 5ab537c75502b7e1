//! The flame graph as a page of its own: data, script and style in one file.

use serde_json::json;

use super::subtitle;
use super::tree::{NameTree, escape, script_json};
use crate::{Kind, Profile, date};

/// The style of flame graphs, their surroundings and the tooltip. Colours are variables of the page.
pub const FLAME_STYLE: &str = include_str!("../assets/flame.css");
const STYLE: &str = include_str!("../assets/page.css");
/// Functions that draw flame graphs and their differences on a canvas, and tell at the pointer what it is on, for any
/// page: `ladogaFlame(tree, unit, element).show(values)`, and `.show(after, before, ladogaNoiseOfRounds(nodes, noise))`.
pub const FLAME_SCRIPT: &str = concat!(
    include_str!("../assets/hover.js"),
    include_str!("../assets/noise.js"),
    include_str!("../assets/stacks.js"),
    include_str!("../assets/flame_parts.js"),
    include_str!("../assets/flame.js")
);
const PAGE: &str = include_str!("../assets/flame.html");
const START_SCRIPT: &str = include_str!("../assets/start.js");

pub(super) fn render(profile: &Profile) -> String {
    let mut tree = NameTree::new();
    let (mut values, mut squares): (Vec<u64>, Vec<f64>) = (Vec::new(), Vec::new());
    for sample in &profile.samples {
        let leaf = tree.leaf(profile, sample.thread, sample.stack) as usize;
        values.resize(values.len().max(tree.len()), 0);
        values[leaf] += sample.weight;
        squares.resize(values.len(), 0.0);
        squares[leaf] += (sample.weight as f64).powi(2);
    }
    let data = json!({
        "kind": profile.kind.name(),
        "origin": origin(profile),
        "unit": profile.kind.unit(),
        "tree": tree.to_json(),
        "values": values,
        // How far chance can move a value: for differences.
        "squares": squares,
    });
    page([profile.kind.title(), &subtitle(profile), &head(profile, "html")], &script_json(&data))
}

/// The page of a flame graph, or of a difference; the title, the text below it, and its [`facts`].
pub(crate) fn page(words: [&str; 3], data: &str) -> String {
    fill(PAGE, words, data, &[FLAME_SCRIPT, START_SCRIPT])
}

/// Puts the parts into a page. The data comes last: it may contain anything.
pub(super) fn fill(page: &str, [title, subtitle, head]: [&str; 3], data: &str, scripts: &[&str]) -> String {
    page.replace("{{style}}", &[FLAME_STYLE, STYLE].concat())
        .replace("{{script}}", &scripts.join("\n"))
        .replace("{{title}}", title)
        .replace("{{subtitle}}", &escape(subtitle))
        .replace("{{head}}", head)
        .replace("{{data}}", data)
}

/// What it is of and when it was taken, in a line: for the page of a difference.
pub(super) fn origin(profile: &Profile) -> String {
    let Profile { program, started_unix_ns, .. } = profile;
    let taken = date(started_unix_ns / 1_000_000_000);
    format!("{taken} · ladoga {} · {}: {}", program.version, program.process, program.command)
}

/// The origin of the profile, and how to take it again.
pub(super) fn head(profile: &Profile, extension: &str) -> String {
    let Profile { kind, program, .. } = profile;
    let seconds = (profile.duration_ns as f64 / 1e9).round().max(1.0);
    let rows = [
        ("taken", date(profile.started_unix_ns / 1_000_000_000)),
        ("program", format!("ladoga {}", program.version)),
        ("process", format!("{}: {}", program.process, program.command)),
        (
            "again",
            format!(
                "ladoga profile --kind {kind} --seconds {seconds}{} -o {kind}.{extension}",
                rate(profile)
            ),
        ),
    ];
    facts(&rows)
}

/// How often samples are taken, as it is asked for.
fn rate(profile: &Profile) -> String {
    match profile.kind {
        Kind::Cpu => format!(" --hz {}", (1e9 / profile.period.max(1) as f64).round()),
        Kind::Alloc => format!(" --alloc-interval {}", profile.period),
        Kind::Lock => String::new(),
    }
}

/// Names and values, for the head of a page.
pub(crate) fn facts(rows: &[(&str, String)]) -> String {
    let row = |(name, text): &(&str, String)| format!("<dt>{name}</dt><dd>{}</dd>", escape(text));
    format!("<dl class=\"head\">{}</dl>", rows.iter().map(row).collect::<String>())
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
            "<dd>ladoga profile --kind cpu --seconds 2 --hz 499 -o cpu.html</dd>",
        ] {
            assert!(page.contains(part), "{part} in the head");
        }
    }
}
