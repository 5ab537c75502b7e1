//! Axes and lines. All charts of a run have the same width and the same margins, so that equal times are below each other.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::embedded::script_json;
use super::quantity::Quantity;
use super::words::escape;

/// The colours of light and of dark pages, and how charts look: all that a drawing needs that stands alone.
pub const CHART_STYLE: &str = concat!(include_str!("assets/colours.css"), include_str!("assets/charts.css"));

/// How wide a drawing is. It is scaled to the width that there is.
pub const WIDTH: f64 = 560.0;
/// The margin left of a chart, in units of the drawing.
pub const LEFT: f64 = 76.0;
/// The margin right of a chart.
pub const RIGHT: f64 = 12.0;
/// The margin above a chart.
pub const TOP: f64 = 10.0;
/// The margin below a chart.
pub const BOTTOM: f64 = 24.0;
/// Of a linear axis.
const LENGTH_MIN: f64 = 1e-100;
/// An axis of more powers of ten has a tick at some of them.
const DECADES_MAX: usize = 8;

/// Numbers to places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    from: f64,
    to: f64,
    is_log: bool,
    /// In seconds.
    is_time: bool,
    at_from: f64,
    at_to: f64,
}

/// Between the ticks of a run of many minutes, in seconds.
const TIME_STEPS: [f64; 10] =
    [120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0, 21_600.0, 43_200.0];

impl Scale {
    /// From one number to another, at these places.
    pub fn linear((from, to): (f64, f64), (at_from, at_to): (f64, f64)) -> Self {
        // An axis of no length, or next to none, would divide by zero.
        let to = if to - from > LENGTH_MIN { to } else { from + 1.0 };
        Self { from, to, is_log: false, is_time: false, at_from, at_to }
    }

    /// The same, logarithmic. `from` is more than zero.
    pub fn log((from, to): (f64, f64), (at_from, at_to): (f64, f64)) -> Self {
        let to = if to > from { to } else { from * 10.0 };
        Self { from: from.log10(), to: to.log10(), is_log: true, is_time: false, at_from, at_to }
    }

    /// The place of a number; what lies outside is at the edge.
    pub fn at(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let part = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.at_from + part * (self.at_to - self.at_from)
    }

    /// As the page's script takes it: both ends, their places, and whether it is logarithmic.
    fn ends(&self) -> Value {
        let Self { from, to, is_log, at_from, at_to, .. } = *self;
        json!({ "from": from, "to": to, "log": is_log, "at": [at_from, at_to] })
    }

    /// Round numbers on the axis.
    pub fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let decades = (self.from - 1e-9).ceil() as i32..=(self.to + 1e-9).floor() as i32;
            let tens: Vec<f64> = decades.map(|decade| 10_f64.powi(decade)).collect();
            if tens.len() < 2 {
                return self.ticks_between_tens();
            }
            let step = tens.len().div_ceil(DECADES_MAX);
            return tens.into_iter().step_by(step).collect();
        }
        let rough = (self.to - self.from) / 4.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let of_time = || TIME_STEPS.into_iter().find(|step| *step >= rough);
        let is_long = self.is_time && rough > TIME_STEPS[0] / 2.0;
        let step = if is_long { of_time() } else { step }.unwrap_or(power * 10.0);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }
}

impl Scale {
    /// For an axis that shows less than two powers of ten.
    fn ticks_between_tens(&self) -> Vec<f64> {
        let is_seen = |tick: &f64| (self.from - 1e-9..=self.to + 1e-9).contains(&tick.log10());
        let decades = self.from.floor() as i32..=self.to.floor() as i32;
        let of_decade = |decade| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powi(decade));
        decades.flat_map(of_decade).filter(is_seen).collect()
    }
}

pub(super) struct Line {
    pub(super) name: String,
    /// One of the style's colours, from 0.
    pub(super) colour: usize,
    /// A gap if there is no value.
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// With no more digits than a chart shows, so that pages stay small.
fn short(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(4 - number.abs().log10().floor() as i32);
    (number * scale).round() / scale
}

/// Something that happened at a moment.
pub(super) struct Mark {
    pub(super) at: f64,
    /// One of the style's marks.
    pub(super) class: &'static str,
    pub(super) title: String,
}

pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    pub(super) height: f64,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) x_is: Quantity,
    pub(super) y_is: Quantity,
    pub(super) lines: Vec<Line>,
    pub(super) marks: Vec<Mark>,
}

/// The place of a time axis that begins with a run.
pub(super) fn time_scale(seconds: f64) -> Scale {
    Scale { is_time: true, ..Scale::linear((0.0, seconds), (LEFT, WIDTH - RIGHT)) }
}

/// The ends of a vertical axis.
pub const fn upwards(height: f64) -> (f64, f64) {
    (height - BOTTOM, TOP)
}

impl Plot<'_> {
    pub(super) fn draw(&self) -> String {
        let mut svg = String::new();
        svg.push_str(&axes(self.height, (&self.x, self.x_is), (&self.y, self.y_is)));
        for mark in &self.marks {
            let x = self.x.at(mark.at);
            let _ = write!(
                svg,
                "<path class=\"mark {}\" d=\"M{x:.1} {TOP}V{:.1}\"><title>{}</title></path>",
                mark.class,
                self.height - BOTTOM,
                escape(&mark.title)
            );
        }
        for line in &self.lines {
            let _ = write!(svg, "<path class=\"line c{}\" d=\"{}\"/>", line.colour, self.path(line));
        }
        let attributes = " class=\"plot\" tabindex=\"0\"";
        let drawn = figure(self.title, &self.legend(), self.height, &svg, attributes);
        drawn.replacen("</figure>", &format!("{}</figure>", self.values()), 1)
    }

    fn path(&self, line: &Line) -> String {
        let (mut path, mut is_down) = (String::new(), false);
        for (index, (x, y)) in line.points.iter().enumerate() {
            let Some(y) = y else {
                is_down = false;
                continue;
            };
            let (x, y) = (self.x.at(*x), self.y.at(*y));
            let _ = write!(path, "{}{x:.1} {y:.1}", if is_down { "L" } else { "M" });
            let is_alone = !is_down && line.points.get(index + 1).is_none_or(|(_, next)| next.is_none());
            if is_alone {
                path.push_str("h1"); // A point without neighbours would not be seen.
            }
            is_down = true;
        }
        path
    }

    /// The names of the lines, and how far each of them goes.
    fn legend(&self) -> String {
        let key = |line: &Line| {
            let values = || line.points.iter().filter_map(|(_, y)| *y);
            let Some(most) = values().reduce(f64::max) else { return String::new() };
            let least = values().fold(most, f64::min);
            let [least, most] = [least, most].map(|value| self.y_is.value(value));
            let range = if least == most { most } else { format!("{least} to {most}") };
            let name = if line.name.is_empty() { "" } else { &format!("{} ", escape(&line.name)) };
            format!("<span class=\"item\"><span class=\"key c{}\"></span>{name}{range}</span> ", line.colour)
        };
        self.lines.iter().map(key).collect()
    }

    /// The numbers behind the lines, for the words at the pointer.
    fn values(&self) -> String {
        let point = |(x, y): &(f64, Option<f64>)| y.map(|y| [short(*x), short(y)]);
        let line = |line: &Line| {
            let points: Vec<_> = line.points.iter().filter_map(point).collect();
            json!({ "name": line.name, "colour": line.colour, "points": points })
        };
        let mark = |mark: &Mark| json!([short(mark.at), mark.title]);
        let values = json!({
            "x": self.x_is.name(),
            "y": self.y_is.name(),
            "across": self.x.ends(),
            "upwards": self.y.ends(),
            "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
            "marks": self.marks.iter().map(mark).collect::<Vec<_>>(),
        });
        format!("<script class=\"values\" type=\"application/json\">{}</script>", script_json(&values))
    }
}

/// A drawing with its title and its legend, which is HTML. `attributes` are those of the drawing, with a blank before them.
pub fn figure(title: &str, legend: &str, height: f64, svg: &str, attributes: &str) -> String {
    let label = escape(title);
    format!(
        "<figure><figcaption><b>{label}</b> {legend}</figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\"{attributes}>{svg}</svg></figure>\n"
    )
}

pub(super) fn axes(height: f64, (x, x_is): (&Scale, Quantity), (y, y_is): (&Scale, Quantity)) -> String {
    let mut svg = y_axis(y, y_is);
    let (right, bottom) = (WIDTH - RIGHT, height - BOTTOM);
    for tick in x.ticks() {
        let at = x.at(tick);
        // The last one would reach over the edge.
        let class = if at > right - 20.0 { "x end" } else { "x" };
        let _ = write!(
            svg,
            "<text x=\"{at:.1}\" y=\"{}\" class=\"{class}\">{}</text>",
            height - 6.0,
            escape(&x_is.axis(tick))
        );
    }
    let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>");
    svg
}

/// The numbers of a vertical axis, and the lines at them.
pub fn y_axis(y: &Scale, y_is: Quantity) -> String {
    let (mut svg, right) = (String::new(), WIDTH - RIGHT);
    for tick in y.ticks() {
        let at = y.at(tick);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" class=\"y\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            escape(&y_is.axis(tick))
        );
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::linear((0.0, 10.0), (0.0, 1.0)).ticks(), [0.0, 5.0, 10.0]);
        assert_eq!(Scale::linear((0.0, 20_345.0), (0.0, 1.0)).ticks(), [0.0, 10_000.0, 20_000.0]);
        assert_eq!(Scale::log((30.0, 20_000.0), (0.0, 1.0)).ticks(), [100.0, 1000.0, 10_000.0]);
        assert_eq!(Scale::log((150.0, 700.0), (0.0, 1.0)).ticks(), [200.0, 500.0]);
        assert_eq!(Scale::log((1e-9, 1e9), (0.0, 1.0)).ticks(), [1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9]);
        assert_eq!(Scale::linear((0.0, 0.0), (0.0, 1.0)).ticks().len(), 3, "nothing is no reason to fail");
        assert_eq!(time_scale(100.0).ticks(), [0.0, 50.0, 100.0]);
        assert_eq!(time_scale(3_600.0).ticks(), [0.0, 900.0, 1_800.0, 2_700.0, 3_600.0]);
    }

    #[test]
    fn places_follow_the_scale() {
        let log = Scale::log((10.0, 1000.0), (100.0, 0.0));
        assert!((log.at(100.0) - 50.0).abs() < 1e-9);
        assert!(
            (log.at(0.0) - 100.0).abs() < 1e-9 && log.at(1e9).abs() < 1e-9,
            "what lies outside is at the edge"
        );
    }

    #[test]
    fn a_hole_breaks_the_line() {
        let line = |points| Line { name: "a".to_owned(), colour: 0, points };
        let plot = |lines| Plot {
            title: "t<",
            height: 100.0,
            x: Scale::linear((0.0, 4.0), (0.0, 4.0)),
            y: Scale::linear((0.0, 10.0), (0.0, 10.0)),
            x_is: Quantity::Seconds,
            y_is: Quantity::Plain,
            lines,
            marks: Vec::new(),
        };
        let points = vec![(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(3.0))];
        let svg = plot(vec![line(points)]).draw();
        assert!(svg.contains("d=\"M0.0 1.0L1.0 2.0M3.0 3.0h1\""), "{svg}");
        assert!(svg.contains("t&lt;") && !svg.contains("NaN"), "{svg}");
        assert!(svg.contains("a 1.00 to 3.00"), "the legend says how far the line goes: {svg}");
        assert!(svg.contains("\"points\":[[0.0,1.0],[1.0,2.0],[3.0,3.0]]"), "{svg}");
    }
}
