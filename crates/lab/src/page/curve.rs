//! The page of a search for the knee: latency over rate.

use std::fmt::Write as _;

use serde_json::Value;

use super::document::machine;
use super::embedded;
use super::frame::{command, facts, page};
use super::plot::{LEFT, Line, Mark, Plot, RIGHT, Scale, WIDTH, upwards};
use super::quantity::Quantity;
use super::summary::strip;
use super::words::{count, date, escape, micros};
use crate::record::Machine;

const HEIGHT: f64 = 260.0;
const NAMES: [&str; 4] = ["p50", "p99", "p99.9", "max"];

/// A rate that was tried.
pub(crate) struct CurvePoint {
    pub(crate) rate: f64,
    pub(crate) answered_per_s: f64,
    /// p50, p99, p99.9 and the largest, in microseconds; none if nothing was answered.
    pub(crate) latency: Option<[f64; 4]>,
    /// `holds`, or which bounds broke.
    pub(crate) verdict: String,
}

/// The search and its result.
pub(crate) struct Curve {
    pub(crate) title: String,
    pub(crate) command: String,
    pub(crate) started_unix_s: u64,
    pub(crate) conclusion: String,
    /// What else than the server limited the search.
    pub(crate) caveat: Option<String>,
    /// The highest rate that held.
    pub(crate) knee: Option<f64>,
    /// By their rates.
    pub(crate) points: Vec<CurvePoint>,
}

/// The whole file; `data` is its content for programs.
pub(crate) fn render_curve(curve: &Curve, data: &Value) -> String {
    let rows = [
        ("measured", date(curve.started_unix_s)),
        ("lab", format!("ladoga {}", ladoga_profiler::program_version())),
        ("machine", machine(&Machine::read())),
    ];
    let class = if curve.knee.is_some() { "good" } else { "bad" };
    let mut findings = vec![(class, curve.conclusion.clone())];
    findings.extend(curve.caveat.clone().map(|caveat| ("bad", caveat)));
    let mut body = format!(
        "{}{}{}<div class=\"charts\">\n{}</div>\n",
        facts(&rows),
        command(&curve.command),
        strip(&findings),
        chart(curve)
    );
    body.push_str(
        "<div class=\"scroll\"><table class=\"cards\">\n<thead><tr><th>rate</th><th>answered/s</th><th>p50</th><th>p99</th>\
         <th>p99.9</th><th>max</th><th class=\"text\">verdict</th></tr></thead>\n<tbody>\n",
    );
    for point in &curve.points {
        let cells = match point.latency {
            Some(latency) => NAMES.into_iter().zip(latency.map(micros)).map(labelled).collect(),
            None => NAMES.into_iter().map(|name| labelled((name, "–".to_owned()))).collect::<String>(),
        };
        let (rate, answered) = (count(point.rate), count(point.answered_per_s));
        let verdict = escape(&point.verdict);
        let _ = writeln!(
            body,
            "<tr><td>{rate}/s</td>{}{cells}<td class=\"text wide\" data-label=\"verdict\">{verdict}</td></tr>",
            labelled(("answered/s", answered))
        );
    }
    body.push_str("</tbody></table></div>\n");
    page(&curve.title, &body, &embedded::script_json(data), "")
}

/// A cell that tells on a phone what it is.
fn labelled((name, text): (&str, String)) -> String {
    format!("<td data-label=\"{name}\">{text}</td>")
}

fn chart(curve: &Curve) -> String {
    let points = &curve.points;
    let latencies = || points.iter().filter_map(|point| point.latency).flatten();
    let (low, high) = (latencies().fold(f64::MAX, f64::min), latencies().fold(0.0, f64::max));
    if high == 0.0 {
        return "<p class=\"missing\">No request was answered.</p>\n".to_owned();
    }
    let line = |(index, name): (usize, &str)| Line {
        name: name.to_owned(),
        colour: index,
        points: points
            .iter()
            .map(|point| (point.rate, point.latency.map(|latency| latency[index])))
            .collect(),
    };
    let most = points.iter().map(|point| point.rate).fold(0.0, f64::max);
    Plot {
        title: "Latency over rate, requests a second",
        height: HEIGHT,
        x: Scale::linear((0.0, most), (LEFT, WIDTH - RIGHT)),
        y: Scale::log((low.max(1.0) * 0.8, high * 1.2), upwards(HEIGHT)),
        x_is: Quantity::Count,
        y_is: Quantity::Micros,
        lines: NAMES.into_iter().enumerate().map(line).collect(),
        marks: curve
            .knee
            .map(|knee| Mark { at: knee, class: "knee", title: "the knee".to_owned() })
            .into_iter()
            .collect(),
    }
    .draw()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_curve_and_its_verdicts_are_on_the_page() {
        let point = |rate: f64, latency, verdict: &str| CurvePoint {
            rate,
            answered_per_s: rate,
            latency,
            verdict: verdict.to_owned(),
        };
        let points = vec![
            point(1000.0, Some([100.0, 200.0, 300.0, 400.0]), "holds"),
            point(2000.0, Some([150.0, 900.0, 5000.0, 9000.0]), "p99<500us: found <900 µs"),
            point(4000.0, None, "the rate was not kept"),
        ];
        let curve = Curve {
            title: "Knee".to_owned(),
            command: "ladoga bench --find-knee".to_owned(),
            started_unix_s: 0,
            conclusion: "Knee: 1000".to_owned(),
            caveat: Some("The server may hold more".to_owned()),
            knee: Some(1000.0),
            points,
        };
        let page = render_curve(&curve, &json!({ "knee": 1000 }));
        for part in [
            "p99&lt;500us: found &lt;900 µs",
            "<td>2,000/s</td>",
            "Latency over rate",
            "\"knee\":1000",
            "<dt>machine</dt>",
            "<li class=\"bad\">The server may hold more</li>",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }
}
