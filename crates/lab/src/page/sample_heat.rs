//! The heat map of a profile's samples: a column is a second, from bottom to top its parts, the darker the more. In a run of
//! hours a column is a minute or an hour, and the page's script draws a part of it by the second (`ladogaSampleScale`).

use std::fmt::Write as _;

use serde_json::Value;

use super::heat::{LEVELS, level_of_weight, pickable, shades};
use super::plot::{Scale, axes, figure, time_scale, upwards};
use super::quantity::Quantity;
use super::words::{bytes, micros};
use crate::record::Run;

const HEIGHT: f64 = 190.0;

/// How samples are read: what a column is, and its parts.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Grain {
    /// Of runs up to so many seconds.
    run_s_max: f64,
    column_ms: f64,
    part_ms: f64,
    /// One on the axis is so many milliseconds.
    unit_ms: f64,
    unit: Quantity,
}

const SECOND_MS: f64 = 1_000.0;
const MINUTE_MS: f64 = 60_000.0;
const HOUR_MS: f64 = 3_600_000.0;
/// From fine to coarse, so that the page of a long run stays small.
const GRAINS: [Grain; 4] = [
    Grain { run_s_max: 120.0, column_ms: SECOND_MS, part_ms: 20.0, unit_ms: 1.0, unit: Quantity::Millis },
    Grain { run_s_max: 600.0, column_ms: SECOND_MS, part_ms: 100.0, unit_ms: 1.0, unit: Quantity::Millis },
    Grain {
        run_s_max: 36_000.0,
        column_ms: MINUTE_MS,
        part_ms: SECOND_MS,
        unit_ms: SECOND_MS,
        unit: Quantity::Seconds,
    },
    Grain {
        run_s_max: f64::INFINITY,
        column_ms: HOUR_MS,
        part_ms: MINUTE_MS,
        unit_ms: MINUTE_MS,
        unit: Quantity::Minutes,
    },
];

fn grain(seconds: f64) -> Grain {
    let [.., coarsest] = GRAINS;
    GRAINS.into_iter().find(|grain| seconds <= grain.run_s_max).unwrap_or(coarsest)
}

/// Empty if the samples are malformed, which the flame graph reports.
pub(super) fn draw(run: &Run, number: usize, offset_ms: f64, data: &Value) -> String {
    let Grain { column_ms, part_ms, unit_ms, unit, .. } = grain(run.elapsed_s);
    let Some(cells) = cells(data, offset_ms, (column_ms, part_ms), run.elapsed_s) else {
        return String::new();
    };
    let x = time_scale(run.elapsed_s);
    let y = Scale::linear((0.0, column_ms / unit_ms), upwards(HEIGHT));
    let mut svg = axes(HEIGHT, (&x, Quantity::Seconds), (&y, unit));
    let rows = (column_ms / part_ms) as usize;
    let most = cells.iter().copied().max().unwrap_or(1).max(1);
    let mut paths: [String; LEVELS] = Default::default();
    for (cell, weight) in cells.iter().enumerate().filter(|(_, weight)| **weight > 0) {
        let (column, from_ms) = ((cell / rows) as f64, (cell % rows) as f64 * part_ms);
        let seconds = |columns: f64| (columns * column_ms / SECOND_MS).min(run.elapsed_s);
        let (left, right) = (x.at(seconds(column)), x.at(seconds(column + 1.0)));
        let (bottom, top) = (y.at(from_ms / unit_ms), y.at((from_ms + part_ms) / unit_ms));
        let (wide, high) = (right - left, bottom - top);
        let _ = write!(
            paths[level_of_weight(*weight, most)],
            "M{left:.1} {top:.1}h{wide:.1}v{high:.1}h-{wide:.1}z"
        );
    }
    for (level, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let _ = write!(svg, "<path class=\"heat h{level}\" d=\"{path}\"/>");
    }
    svg.push_str(&pickable(HEIGHT));
    let is_bytes = data["unit"] == "bytes";
    let attributes = format!(
        " class=\"heatmap samples\" tabindex=\"0\" data-run=\"{number}\" data-unit=\"{}\" data-seconds=\"{}\"",
        if is_bytes { "bytes" } else { "nanoseconds" },
        run.elapsed_s
    );
    let most_text = if is_bytes { bytes(most as f64) } else { micros(most as f64 / 1000.0) };
    let legend = format!("{} in a cell, a column is read from the bottom", shades("0", &most_text));
    figure("Samples over time", &legend, HEIGHT, &svg, &attributes)
}

/// The weight of every part of every column.
fn cells(data: &Value, offset_ms: f64, (column_ms, part_ms): (f64, f64), seconds: f64) -> Option<Vec<u64>> {
    let (rows, cell_ms) = (data["samples"].as_array()?, data["cellMs"].as_f64()?);
    let columns = (seconds * SECOND_MS / column_ms).ceil();
    let mut cells = vec![0_u64; (columns * column_ms / part_ms) as usize];
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
        let found = cells(&data, 0.0, (SECOND_MS, 20.0), 1.5).unwrap();
        assert_eq!((found.len(), found[0], found[49], found[50]), (100, 5, 7, 11));
        assert_eq!(found.iter().sum::<u64>(), 23, "what comes after the end is left out");
        assert_eq!(
            cells(&data, -15.0, (SECOND_MS, 20.0), 1.5).unwrap().iter().sum::<u64>(),
            18,
            "and what came before it"
        );
        assert_eq!(cells(&json!({}), 0.0, (SECOND_MS, 20.0), 1.0), None);
        let found = cells(&data, 0.0, (MINUTE_MS, SECOND_MS), 90.0).unwrap();
        assert_eq!((found.len(), found[0], found[1], found[11]), (120, 12, 11, 3));
    }

    #[test]
    fn a_run_of_hours_is_read_by_minutes_and_hours() {
        let columns = [3.0, 600.0, 3_600.0, 36_001.0].map(|seconds| grain(seconds).column_ms as u64);
        assert_eq!(columns, [1_000, 1_000, 60_000, 3_600_000]);
        let mut run = fixture::report().runs[0].clone();
        run.elapsed_s = 7_200.0;
        let data = json!({ "cellMs": 20, "samples": [0, 0, 0, 5, 50 * 3_600, 0, 0, 7] });
        let svg = draw(&run, 0, 0.0, &data);
        assert!(svg.contains(">40 s</text>") && svg.contains(">1 h</text>"), "{svg}");
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
