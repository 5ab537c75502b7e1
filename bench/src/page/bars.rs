//! Bars from zero, with the lowest and the highest round across their ends.

use std::fmt::Write as _;

use ladoga_lab::page::{Quantity, RIGHT, Scale, WIDTH};

use super::text::{clean, short};
use crate::report::Series;

const CAPTION: f64 = 24.0;
const ROW: f64 = 42.0;
const TEXT: f64 = 16.0;
const BAR: f64 = 12.0;
const GAP: f64 = 10.0;
const AXIS: f64 = 24.0;
const FIRST: f64 = 1.0;
const CAP: f64 = 4.0;
const CAPTION_LETTERS_MAX: usize = 56;
const NAME_LETTERS_MAX: usize = 24;

/// What is compared with each other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bars {
    pub(super) caption: String,
    pub(super) bars: Vec<Bar>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) colour: usize,
    /// Without a value it was not measured.
    pub(super) series: Series,
}

/// The height, and the drawing. All groups have one scale.
pub(super) fn draw(groups: &[Bars], decimals: usize) -> (f64, String) {
    let all = || groups.iter().flat_map(|group| &group.bars);
    let most = all().filter_map(|bar| bar.series.max()).fold(0.0, f64::max);
    let scale = Scale::linear((0.0, most), (FIRST, WIDTH - RIGHT));
    let rows: usize = groups.iter().map(|group| group.bars.len().max(1)).sum();
    let bottom = groups.len() as f64 * (CAPTION + GAP) + rows as f64 * ROW;
    let mut svg = axis(&scale, bottom);
    let mut y = 0.0;
    for group in groups {
        let caption = clean(&short(&group.caption, CAPTION_LETTERS_MAX));
        let _ = write!(
            svg,
            "<text class=\"caption\" x=\"{FIRST}\" y=\"{:.0}\">{caption}</text>",
            y + CAPTION - 6.0
        );
        y += CAPTION;
        if group.bars.is_empty() {
            let _ = write!(svg, "<text x=\"{FIRST}\" y=\"{:.0}\">not measured</text>", y + TEXT);
            y += ROW;
        }
        for bar in &group.bars {
            svg.push_str(&row(bar, y, &scale, decimals));
            y += ROW;
        }
        y += GAP;
    }
    (bottom + AXIS, svg)
}

fn axis(scale: &Scale, bottom: f64) -> String {
    let mut svg = String::new();
    for tick in scale.ticks() {
        let at = scale.at(tick);
        let class = if at > WIDTH - RIGHT - 30.0 {
            "end"
        } else if tick == 0.0 {
            ""
        } else {
            "x"
        };
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1} 0V{bottom:.0}\"/><text class=\"{class}\" x=\"{at:.1}\" y=\"{:.0}\">{}</text>",
            bottom + AXIS - 7.0,
            clean(&tick_text(tick))
        );
    }
    let _ = write!(svg, "<path class=\"axis\" d=\"M{FIRST} 0V{bottom:.0}H{}\"/>", WIDTH - RIGHT);
    svg
}

fn tick_text(tick: f64) -> String {
    if tick >= 1e15 {
        return format!("{tick:.1e}");
    }
    // Ticks are round: those below ten may have a fraction.
    if tick >= 10.0 { Quantity::Count.axis(tick) } else { Quantity::Plain.axis(tick) }
}

fn row(bar: &Bar, y: f64, scale: &Scale, decimals: usize) -> String {
    let name = clean(&short(&bar.name, NAME_LETTERS_MAX));
    let mut svg = format!("<text class=\"name\" x=\"{}\" y=\"{:.0}\">{name}</text>", FIRST + 5.0, y + TEXT);
    let text = match bar.series.count() {
        0 => "not measured".to_owned(),
        _ => bar.series.text(decimals),
    };
    let _ = write!(svg, "<text class=\"y\" x=\"{}\" y=\"{:.0}\">{text}</text>", WIDTH - RIGHT, y + TEXT);
    let (Some(median), Some(min), Some(max)) = (bar.series.median(), bar.series.min(), bar.series.max())
    else {
        return svg;
    };
    let top = y + TEXT + 6.0;
    let [median, min, max] = [median, min, max].map(|value| scale.at(value));
    let _ = write!(
        svg,
        "<rect class=\"c{}\" x=\"{FIRST}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>",
        bar.colour,
        median - FIRST
    );
    if bar.series.count() > 1 {
        let middle = top + BAR / 2.0;
        let (from, to) = (middle - CAP, middle + CAP);
        let _ = write!(
            svg,
            "<path class=\"whisker\" d=\"M{min:.1} {middle:.1}H{max:.1}M{min:.1} {from:.1}V{to:.1}M{max:.1} {from:.1}V{to:.1}\"/>"
        );
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[f64]) -> String {
        let series = values.iter().copied().collect();
        let bars = vec![Bar { name: "<b>".to_owned(), colour: 0, series }];
        let (height, svg) = draw(&[Bars { caption: "c".to_owned(), bars }], 1);
        assert!(height.is_finite() && height > 0.0);
        for wrong in ["NaN", "inf", "<b>"] {
            assert!(!svg.contains(wrong), "{wrong} in {svg}");
        }
        svg
    }

    #[test]
    fn a_bar_ends_at_its_median_and_its_whisker_at_the_extremes() {
        let svg = drawn(&[100.0, 50.0, 200.0]);
        assert!(svg.contains("width=\"273.5\""), "half of 547: {svg}");
        assert!(svg.contains("H548.0M137.8 "), "{svg}");
        assert!(svg.contains("100.0 (50.0..200.0)"), "{svg}");
    }

    #[test]
    fn one_round_has_no_whisker() {
        assert!(!drawn(&[100.0]).contains("whisker"));
    }

    #[test]
    fn whatever_was_measured_can_be_drawn() {
        assert!(drawn(&[]).contains("not measured"));
        assert!(drawn(&[f64::NAN, f64::INFINITY]).contains("not measured"));
        for values in
            [&[0.0][..], &[0.0, f64::NAN], &[f64::MAX, 1.0], &[f64::MIN_POSITIVE], &[5e-324], &[-3.0, 2.0]]
        {
            let svg = drawn(values);
            assert!(svg.len() < 4000, "{values:?}: {svg}");
            assert!(!svg.contains("width=\"-"), "{values:?}: {svg}");
        }
    }

    #[test]
    fn what_was_not_measured_is_named() {
        let (_, svg) = draw(&[Bars { caption: "PUT".to_owned(), bars: Vec::new() }], 0);
        assert!(svg.contains("PUT") && svg.contains("not measured"), "{svg}");
    }
}
