//! The flame graph as a page of its own: data, script and style in one file.

use serde_json::json;

use super::subtitle;
use super::tree::{NameTree, escape, script_json};
use crate::Profile;

pub(super) const STYLE: &str = include_str!("../assets/page.css");
/// A function that draws flame graphs and their differences on a canvas, for any page.
pub const FLAME_SCRIPT: &str =
    concat!(include_str!("../assets/noise.js"), include_str!("../assets/flame.js"));
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
        "unit": profile.kind.unit(),
        "tree": tree.to_json(),
        "values": values,
        // How far chance can move a value: for differences.
        "squares": squares,
    });
    page(profile.kind.title(), &subtitle(profile), &script_json(&data))
}

/// The page of a flame graph, or of a difference.
pub(crate) fn page(title: &str, subtitle: &str, data: &str) -> String {
    fill(PAGE, [title, subtitle], data, &[FLAME_SCRIPT, START_SCRIPT])
}

/// Puts the parts into a page. The data comes last: it may contain anything.
pub(super) fn fill(page: &str, [title, subtitle]: [&str; 2], data: &str, scripts: &[&str]) -> String {
    page.replace("{{style}}", STYLE)
        .replace("{{script}}", &scripts.join("\n"))
        .replace("{{title}}", title)
        .replace("{{subtitle}}", &escape(subtitle))
        .replace("{{data}}", data)
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
    }
}
