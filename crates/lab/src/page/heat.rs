//! The latency heat map: time to the right, latency upwards, the darker the more requests.

use std::fmt::Write as _;

use super::plot::{BOTTOM, LEFT, RIGHT, Scale, TOP, WIDTH, axes, figure, time_scale, upwards};
use super::quantity::Quantity;
use super::words::count;
use crate::record::{Heat, Run, bucket_low_us};

const HEIGHT: f64 = 230.0;
/// Shades from few to many.
pub(super) const LEVELS: usize = 7;

/// `number` names the run to the page's script.
pub(super) fn draw(run: &Run, number: usize) -> String {
    let heat = &run.heat;
    let seconds = run.elapsed_s;
    let Some((low, high)) = buckets(heat) else {
        return "<p class=\"missing\">No heat map: no request ended.</p>\n".to_owned();
    };
    let x = time_scale(seconds);
    let y = Scale::log((bucket_low_us(low), bucket_low_us(high + 1)), upwards(HEIGHT));
    let mut svg = axes(HEIGHT, (&x, Quantity::Seconds), (&y, Quantity::Micros));
    for (level, path) in cells(heat, &x, &y).iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let _ = write!(svg, "<path class=\"heat h{level}\" d=\"{path}\"/>");
    }
    svg.push_str(&pickable(HEIGHT));
    let attributes = format!(
        " class=\"heatmap\" tabindex=\"0\" data-low=\"{low}\" data-high=\"{high}\" data-run=\"{number}\" data-seconds=\"{seconds}\""
    );
    let legend = format!("{} requests in a cell", shades("1", &count(most(heat) as f64)));
    figure("Latency heat map", &legend, HEIGHT, &svg, &attributes)
}

/// The area of a chart of that height in which the page's script lets a range of time be chosen.
pub(super) fn pickable(height: f64) -> String {
    let (wide, high) = (WIDTH - LEFT - RIGHT, height - TOP - BOTTOM);
    format!(
        "<g class=\"lit\"></g><rect class=\"chosen\" x=\"{LEFT}\" y=\"{TOP}\" width=\"0\" height=\"{high}\"/>\
         <rect class=\"pick\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{wide}\" height=\"{high}\"/>"
    )
}

/// What the lightest and the darkest shade stand for.
pub(super) fn shades(least: &str, most: &str) -> String {
    format!("{least} <span class=\"shades\"></span> <span class=\"most\">{most}</span>")
}

/// The largest count of a cell.
fn most(heat: &Heat) -> u64 {
    heat.columns.iter().flatten().map(|(_, count)| *count).max().unwrap_or(1)
}

/// The lowest and the highest bucket that is not empty.
fn buckets(heat: &Heat) -> Option<(usize, usize)> {
    let used = || heat.columns.iter().flatten().map(|(bucket, _)| usize::from(*bucket));
    Some((used().min()?, used().max()?))
}

/// One path of rectangles for every shade.
fn cells(heat: &Heat, x: &Scale, y: &Scale) -> [String; LEVELS] {
    let mut paths: [String; LEVELS] = Default::default();
    let most = most(heat);
    for (column, cells) in heat.columns.iter().enumerate() {
        let seconds = |column: usize| column as f64 * heat.column_ms as f64 / 1000.0;
        let (from, to) = (x.at(seconds(column)), x.at(seconds(column + 1)));
        for (bucket, count) in cells {
            let bucket = usize::from(*bucket);
            let (bottom, top) = (y.at(bucket_low_us(bucket)), y.at(bucket_low_us(bucket + 1)));
            let _ = write!(
                paths[level(*count, most)],
                "M{from:.1} {top:.1}h{:.1}v{:.1}h-{:.1}z",
                to - from,
                bottom - top,
                to - from
            );
        }
    }
    paths
}

/// Weights are a few samples more or less, which a logarithm would not tell apart: the shade follows the root.
pub(super) fn level_of_weight(weight: u64, most: u64) -> usize {
    let part = (weight as f64 / most.max(1) as f64).sqrt();
    ((part * LEVELS as f64) as usize).min(LEVELS - 1)
}

/// Counts differ by factors, so shades follow their logarithm: a single slow request is seen.
pub(super) fn level(count: u64, most: u64) -> usize {
    let part = (count as f64).ln_1p() / (most as f64).ln_1p();
    ((part * LEVELS as f64) as usize).min(LEVELS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_request_has_a_shade_of_its_own() {
        assert_eq!((level(1, 100_000), level(100_000, 100_000)), (0, LEVELS - 1));
        assert_eq!(level(1, 1), LEVELS - 1);
    }

    #[test]
    fn one_sample_and_nine_have_different_shades() {
        let [one, nine] = [2_000_000, 18_000_000].map(|weight| level_of_weight(weight, 18_000_000));
        assert_eq!((one, nine), (2, LEVELS - 1), "two milliseconds of eighteen");
        assert_eq!(level_of_weight(0, 0), 0);
    }

    #[test]
    fn every_cell_is_drawn_once() {
        let heat =
            Heat { column_ms: 100, columns: vec![vec![(3, 1), (9, 50)], vec![], vec![(4, 2)]], fine: None };
        assert_eq!(buckets(&heat), Some((3, 9)));
        let y = Scale::log((bucket_low_us(3), bucket_low_us(10)), upwards(HEIGHT));
        let paths = cells(&heat, &time_scale(0.3), &y).concat();
        assert_eq!((paths.matches('z').count(), most(&heat)), (3, 50));
        assert!(!paths.contains("NaN") && !paths.contains("--"), "{paths}");
    }
}
