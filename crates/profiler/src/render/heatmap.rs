//! The heat map's page: samples over time in cells of 20 ms; ranges open as flame graphs, two of them as a difference.

use serde_json::json;

use super::html::{FLAME_SCRIPT, fill, head, origin};
use super::subtitle;
use super::tree::{NameTree, script_json};
use crate::Profile;

/// One cell.
const CELL_NS: u64 = 20_000_000;
const PAGE: &str = include_str!("../assets/heatmap.html");
const SCRIPT: &str = concat!(include_str!("../assets/scales.js"), include_str!("../assets/heatmap.js"));

pub(super) fn render(profile: &Profile) -> String {
    let mut tree = NameTree::new();
    let cells_max = profile.duration_ns.div_ceil(CELL_NS).max(1);
    // Per sample: cells since the sample before it, thread, node, weight.
    let mut rows: Vec<u64> = Vec::with_capacity(profile.samples.len() * 4);
    let mut last_cell = 0;
    for sample in &profile.samples {
        let cell = (sample.at_ns / CELL_NS).min(cells_max - 1);
        let leaf = tree.leaf(profile, sample.thread, sample.stack);
        rows.extend([cell - last_cell, u64::from(sample.thread), u64::from(leaf), sample.weight]);
        last_cell = cell;
    }
    let threads: Vec<&str> = profile.threads.iter().map(|thread| thread.name.as_str()).collect();
    let data = json!({
        "kind": profile.kind.name(),
        "head": subtitle(profile),
        "origin": origin(profile),
        "unit": profile.kind.unit(),
        "cellMs": CELL_NS / 1_000_000,
        "cells": cells_max,
        "startedMs": profile.started_unix_ns / 1_000_000,
        "threads": threads,
        "tree": tree.to_json(),
        "samples": rows,
    });
    let words = [profile.kind.title(), &subtitle(profile), &head(profile, "heatmap.html")];
    fill(PAGE, words, &script_json(&data), &[FLAME_SCRIPT, SCRIPT])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture;

    #[test]
    fn samples_are_in_their_cells() {
        let page = render(&fixture::profile());
        let data = page.split("type=\"application/json\">").nth(1).expect("data");
        let data: serde_json::Value =
            serde_json::from_str(data.split("</script>").next().expect("end")).expect("JSON");
        assert_eq!((&data["cells"], &data["startedMs"]), (&json!(100), &json!(1_700_000_000_000_u64)));
        let steps: Vec<u64> = data["samples"]
            .as_array()
            .expect("rows")
            .iter()
            .step_by(4)
            .filter_map(serde_json::Value::as_u64)
            .collect();
        assert_eq!(steps, [0, 0, 1, 49, 49]);
        assert_eq!(data["threads"][1], "work;er </script>");
        assert!(!page.contains("{{") && !page.contains("http://") && !page.contains("https://"));
    }
}
