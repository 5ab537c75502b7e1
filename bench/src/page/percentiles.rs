//! Latency by percentile: a line for each server through its medians, with the lowest and the highest round.

use std::fmt::Write as _;

use ladoga_lab::page::{BOTTOM, LEFT, Quantity, RIGHT, Scale, TOP, WIDTH, upwards, y_axis};

use super::text::clean;
use crate::report::{Published, Series};

pub(super) const HEIGHT: f64 = 280.0;
/// Between the points of two servers at one percentile.
const BESIDE: f64 = 12.0;
const CAP: f64 = 4.0;
/// An axis that is longer can be drawn, but not read.
const MICROS_MAX: f64 = 1e15;
const MICROS_MIN: f64 = 1e-3;

/// The columns that are percentiles, with their names: `p50`, `p99.9`, `max`.
fn percentiles(contest: &Published) -> Vec<(usize, &str)> {
    let columns = contest.columns.iter().enumerate();
    columns
        .filter_map(|(index, column)| Some((index, column.name.strip_suffix(", ms")?)))
        .filter(|(_, name)| {
            let number = name.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
            *name == "max" || number.is_some()
        })
        .collect()
}

/// None if no round has a latency.
pub(super) fn draw(contest: &Published, colour: impl Fn(usize) -> usize) -> Option<String> {
    let percentiles = percentiles(contest);
    let series = |row: usize, column: usize| contest.rows[row].series.get(column);
    let ends = (0..contest.rows.len())
        .flat_map(|row| percentiles.iter().filter_map(move |(column, _)| series(row, *column)))
        .flat_map(|series| [series.min(), series.max()])
        .flatten()
        .filter(|value| *value > 0.0) // It would be infinitely far down.
        .map(micros);
    let (low, high) =
        ends.fold((f64::MAX, 0.0), |(low, high): (f64, f64), one| (low.min(one), high.max(one)));
    if high == 0.0 {
        return None;
    }
    let y = Scale::log((low * 0.8, high * 1.25), upwards(HEIGHT));
    let step = (WIDTH - RIGHT - LEFT) / percentiles.len() as f64;
    let x = |index: usize| LEFT + step * (index as f64 + 0.5);
    let mut svg = y_axis(&y, Quantity::Micros);
    for (index, (_, name)) in percentiles.iter().enumerate() {
        let _ = write!(
            svg,
            "<text class=\"x\" x=\"{:.1}\" y=\"{}\">{}</text>",
            x(index),
            HEIGHT - 6.0,
            clean(name)
        );
    }
    let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{}H{}\"/>", HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (row, subject) in contest.rows.iter().enumerate() {
        let beside = (row as f64 - (contest.rows.len() as f64 - 1.0) / 2.0) * BESIDE;
        let points: Vec<Point<'_>> = percentiles
            .iter()
            .enumerate()
            .filter_map(|(index, (column, name))| {
                let series = series(row, *column)?;
                Some(Point { x: x(index) + beside, name, median: series.median()?, series })
            })
            .collect();
        svg.push_str(&line(&points, &y, colour(row), &subject.subject));
    }
    Some(svg)
}

struct Point<'a> {
    x: f64,
    name: &'a str,
    median: f64,
    series: &'a Series,
}

fn line(points: &[Point<'_>], y: &Scale, colour: usize, subject: &str) -> String {
    let place = |value: f64| y.at(micros(value));
    let path: Vec<String> =
        points.iter().map(|point| format!("{:.1} {:.1}", point.x, place(point.median))).collect();
    let mut svg = String::new();
    if !path.is_empty() {
        let _ = write!(svg, "<path class=\"line c{colour}\" d=\"M{}\"/>", path.join("L"));
    }
    for Point { x, name, median, series } in points {
        let title = clean(&format!("{subject}, {name}: {} ms", series.text(3)));
        let _ = write!(
            svg,
            "<g><title>{title}</title><circle class=\"c{colour}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
            place(*median)
        );
        if let (2.., Some(min), Some(max)) = (series.count(), series.min(), series.max()) {
            let (low, high, from, to) = (place(min), place(max), x - CAP, x + CAP);
            let _ = write!(
                svg,
                "<path class=\"whisker c{colour}\" d=\"M{x:.1} {low:.1}V{high:.1}M{from:.1} {low:.1}H{to:.1}M{from:.1} {high:.1}H{to:.1}\"/>"
            );
        }
        svg.push_str("</g>");
    }
    svg
}

/// In the bounds of the axis, from milliseconds.
fn micros(millis: f64) -> f64 {
    (millis * 1000.0).clamp(MICROS_MIN, MICROS_MAX)
}
