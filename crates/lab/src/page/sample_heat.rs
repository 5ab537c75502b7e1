//! The heat map of a profile's samples: a column is a second, from bottom to top its parts, the darker the more.

use std::fmt::Write as _;

use serde_json::Value;

use super::heat::{LEVELS, level, pickable};
use super::plot::{Scale, axes, figure, time_scale, upwards};
use super::quantity::Quantity;
use crate::record::Run;

const HEIGHT: f64 = 190.0;
const SECOND_MS: f64 = 1000.0;
/// Of a long run the parts of a second are longer, so that the page stays small.
const SECONDS_FINE: f64 = 120.0;
const PART_MS: f64 = 20.0;
const PART_MS_LONG: f64 = 100.0;

/// Empty if the samples are malformed, which the flame graph reports.
pub(super) fn draw(run: &Run, number: usize, offset_ms: f64, data: &Value) -> String {
    let part_ms = if run.elapsed_s > SECONDS_FINE { PART_MS_LONG } else { PART_MS };
    let Some(cells) = cells(data, offset_ms, part_ms, run.elapsed_s) else { return String::new() };
    let x = time_scale(run.elapsed_s);
    let y = Scale::linear((0.0, SECOND_MS), upwards(HEIGHT));
    let mut svg = axes(HEIGHT, (&x, Quantity::Seconds), (&y, Quantity::Millis));
    let rows = (SECOND_MS / part_ms) as usize;
    let most = cells.iter().copied().max().unwrap_or(1).max(1);
    let mut paths: [String; LEVELS] = Default::default();
    for (cell, weight) in cells.iter().enumerate().filter(|(_, weight)| **weight > 0) {
        let (second, from_ms) = ((cell / rows) as f64, (cell % rows) as f64 * part_ms);
        let (left, right) = (x.at(second), x.at((second + 1.0).min(run.elapsed_s)));
        let (bottom, top) = (y.at(from_ms), y.at(from_ms + part_ms));
        let (wide, high) = (right - left, bottom - top);
        let _ = write!(paths[level(*weight, most)], "M{left:.1} {top:.1}h{wide:.1}v{high:.1}h-{wide:.1}z");
    }
    for (level, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let _ = write!(svg, "<path class=\"heat h{level}\" d=\"{path}\"/>");
    }
    svg.push_str(&pickable(HEIGHT));
    let attributes = format!(
        " class=\"heatmap samples\" tabindex=\"0\" data-run=\"{number}\" data-seconds=\"{}\"",
        run.elapsed_s
    );
    figure(
        "Samples over time",
        "little <span class=\"shades\"></span> much, by parts of a second",
        HEIGHT,
        &svg,
        &attributes,
    )
}

/// The weight of every part of every second.
fn cells(data: &Value, offset_ms: f64, part_ms: f64, seconds: f64) -> Option<Vec<u64>> {
    let (rows, cell_ms) = (data["samples"].as_array()?, data["cellMs"].as_f64()?);
    let mut cells = vec![0_u64; (seconds.ceil() * SECOND_MS / part_ms) as usize];
    let mut cell = 0_u64;
    for row in rows.chunks_exact(4) {
        cell = cell.saturating_add(row[0].as_u64()?);
        let at_ms = offset_ms + (cell as f64 + 0.5) * cell_ms;
        // Samples from before or after the run are left out.
        if at_ms >= 0.0
            && let Some(weight) = cells.get_mut((at_ms / part_ms) as usize)
        {
            *weight = weight.saturating_add(row[3].as_u64()?);
        }
    }
    Some(cells)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::page::fixture;

    #[test]
    fn samples_lie_in_their_parts_of_a_second() {
        let data = json!({ "cellMs": 20, "samples": [0, 0, 0, 5, 49, 0, 0, 7, 1, 0, 0, 11, 500, 0, 0, 3] });
        let found = cells(&data, 0.0, 20.0, 1.5).unwrap();
        assert_eq!((found.len(), found[0], found[49], found[50]), (100, 5, 7, 11));
        assert_eq!(found.iter().sum::<u64>(), 23, "what comes after the end is left out");
        assert_eq!(
            cells(&data, -15.0, 20.0, 1.5).unwrap().iter().sum::<u64>(),
            18,
            "and what came before it"
        );
        assert_eq!(cells(&json!({}), 0.0, 20.0, 1.0), None);
    }

    #[test]
    fn every_part_is_drawn() {
        let run = &fixture::report().runs[0];
        let data = json!({ "cellMs": 20, "samples": [0, 0, 0, 5, 49, 0, 0, 7] });
        let svg = draw(run, 3, 0.0, &data);
        assert!(
            svg.contains("data-run=\"3\"") && svg.matches("z\"").count() + svg.matches("zM").count() == 2,
            "{svg}"
        );
        assert!(!svg.contains("NaN") && !svg.contains("--"), "{svg}");
    }
}
