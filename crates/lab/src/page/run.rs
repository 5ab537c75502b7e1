//! One run, with its charts.

use std::array::from_fn;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::plot::{LEFT, Line, Mark, Plot, RIGHT, Scale, WIDTH, time_scale, upwards};
use super::quantity::{Quantity, percent};
use super::words::{NONE, count, escape, micros};
use super::{heat, sample_heat};
use crate::record::{AnswerCount, KindProfile, NodeSample, Profiled, Run, SecondRow, bucket_low_us};
use crate::stats::ERROR_KINDS;

const HEIGHT: f64 = 150.0;
const TALL: f64 = 230.0;
const MIB: f64 = (1 << 20) as f64;

pub(super) fn section(run: &Run, number: usize, cores: usize) -> String {
    let mut out = format!("<section class=\"run\" id=\"run-{number}\">\n");
    let lines = [run.repeat.as_str(), run.command.as_str()].into_iter().filter(|line| !line.is_empty());
    let lines = lines.map(escape).collect::<Vec<_>>().join("\n");
    let _ = writeln!(out, "<pre class=\"command\">{lines}</pre>");
    out.push_str(&remarks(run, cores));
    out.push_str(&answers(run));
    out.push_str(&methods(run));
    out.push_str("<div class=\"charts\">\n");
    out.push_str(&heat::draw(run, number));
    out.push_str(&spectrum(run));
    out.push_str(&distribution(run));
    out.push_str(&throughput(run));
    out.push_str(&error_rate(run));
    out.push_str(&latency_over_time(run));
    out.push_str(&node_charts(run));
    out.push_str("</div>\n");
    for (index, profile) in run.profiles.iter().enumerate() {
        out.push_str(&flame(run, profile, number, index));
    }
    out.push_str("</section>\n");
    out
}

fn remarks(run: &Run, cores: usize) -> String {
    let mut remarks = run.notes.clone();
    if run.is_interrupted {
        remarks.push("Interrupted: these are the results up to then.".to_owned());
    }
    if run.connect_errors > 0 {
        remarks.push(format!("{} connections failed.", count(run.connect_errors as f64)));
    }
    // A closed loop owes nothing, and yet may have lost what was on its way.
    let unanswered = run.unanswered.max(run.lost());
    if unanswered > 0 {
        let [unanswered, lost] = [unanswered, run.lost()].map(|requests| count(requests as f64));
        remarks.push(format!(
            "{unanswered} requests were due by the end and had no answer; no percentile contains them. {lost} of them are errors."
        ));
    }
    if let Some(rate) = run.missed_rate() {
        let queue = if run.queue_grew() { " Latencies are those of a queue that grew." } else { "" };
        let [asked, answered] = [rate, run.per_second].map(count);
        remarks.push(format!(
            "The rate was not reached: {asked}/s were asked for, {answered}/s answered.{queue}"
        ));
    }
    if let Some(busy) = run.disturbance.notable_other_cores(cores) {
        remarks.push(format!("Other processes used {busy:.1} of the machine's {cores} cores meanwhile."));
    }
    remarks.extend(run.generator.limits.iter().map(|limit| format!("{limit}.")));
    let paragraph =
        |out: String, remark: &String| format!("{out}<p class=\"remark\">{}</p>\n", escape(remark));
    remarks.iter().fold(String::new(), paragraph)
}

/// Answers by their status, with a colour: a percentile of successes and failures together is that of neither.
fn answers(run: &Run) -> String {
    if run.answers.iter().all(|answer| answer.class == "2xx") {
        return String::new();
    }
    counted("answer", &run.answers, |answer| if run.is_error(answer) { "bad" } else { "good" })
}

/// Requests by their method, if there are several, for the same reason.
fn methods(run: &Run) -> String {
    if run.methods.len() < 2 { String::new() } else { counted("request", &run.methods, |_| "") }
}

fn counted(what: &str, rows: &[AnswerCount], class: impl Fn(&AnswerCount) -> &'static str) -> String {
    let heads = ["count", "share", "p50", "p90", "p99", "p99.9", "max"];
    let head = |name: &&str| format!("<th>{name}</th>");
    let names: String = heads.iter().map(head).collect();
    let mut out = format!(
        "<div class=\"scroll\"><table class=\"cards\">\n<thead><tr><th>{what}</th>{names}</tr></thead>\n<tbody>\n"
    );
    let all: u64 = rows.iter().map(|row| row.count).sum();
    for row in rows.iter().filter(|row| row.count > 0) {
        let share = percent(row.count as f64 / all as f64);
        let latency = row.latency.map(|of| [of.p50, of.p90, of.p99, of.p999, of.max].map(micros));
        // With -B only the last answer of a batch has one.
        let latency = latency.unwrap_or_else(|| from_fn(|_| NONE.to_owned()));
        let cells = [count(row.count as f64), share].into_iter().chain(latency).zip(heads);
        let labelled = |(cell, head): (String, &str)| format!("<td data-label=\"{head}\">{cell}</td>");
        let cells: String = cells.map(labelled).collect();
        let (class, name) = (class(row), escape(&row.class));
        let _ = writeln!(out, "<tr><td><span class=\"{class}\">{name}</span></td>{cells}</tr>");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// Of each second; nothing if no second has an error.
fn error_rate(run: &Run) -> String {
    if run.seconds.iter().all(|row| row.errors == 0) {
        return String::new();
    }
    let share = |row: &SecondRow, errors: u64| (row.ended() > 0).then(|| errors as f64 / row.ended() as f64);
    let lines = errors(run, share);
    let values = lines.iter().flat_map(|line| &line.points).filter_map(|(_, share)| *share);
    let y = Scale::linear((0.0, values.fold(0.0, f64::max) * 1.1), upwards(HEIGHT));
    over_time(run, "Errors, share of requests", y, Quantity::Share, lines, Vec::new())
}

/// The colours of [`ERROR_KINDS`].
const ERROR_COLOURS: [usize; ERROR_KINDS.len()] = [1, 4, 2];

/// A line a kind of errors that there are; one for all of them in a report that does not tell them apart.
fn errors(run: &Run, value: impl Fn(&SecondRow, u64) -> Option<f64>) -> Vec<Line> {
    let line = |name: &str, colour, of: &dyn Fn(&SecondRow) -> u64| Line {
        name: name.to_owned(),
        colour,
        points: run.seconds.iter().map(|row| (row.second as f64 + 0.5, value(row, of(row)))).collect(),
    };
    let kinds = ERROR_KINDS.into_iter().zip(ERROR_COLOURS).enumerate();
    let found = kinds.filter(|(kind, _)| run.seconds.iter().any(|row| row.errors_by_kind[*kind] > 0));
    let lines: Vec<Line> =
        found.map(|(kind, (name, colour))| line(name, colour, &|row| row.errors_by_kind[kind])).collect();
    if lines.is_empty() { vec![line("errors", 4, &|row| row.errors)] } else { lines }
}

fn throughput(run: &Run) -> String {
    let points: Vec<(f64, Option<f64>)> =
        run.seconds.iter().map(|row| (row.second as f64 + 0.5, Some(row.completed as f64))).collect();
    let most = points.iter().filter_map(|(_, y)| *y).fold(run.rate.unwrap_or(0.0), f64::max);
    let mut lines = vec![Line { name: "answered".to_owned(), colour: 0, points }];
    if let Some(rate) = run.rate {
        let points = vec![(0.0, Some(rate)), (run.elapsed_s, Some(rate))];
        lines.insert(0, Line { name: "asked for".to_owned(), colour: 3, points });
    }
    if run.seconds.iter().any(|row| row.errors > 0) {
        lines.extend(errors(run, |_, count| Some(count as f64)));
    }
    let y = Scale::linear((0.0, most * 1.1), upwards(HEIGHT));
    over_time(run, "Requests a second", y, Quantity::Count, lines, Vec::new())
}

fn latency_over_time(run: &Run) -> String {
    let line = |index: usize, name: &str, colour| {
        let point = |row: &SecondRow| (row.second as f64 + 0.5, row.latency.map(|latency| latency[index]));
        Line { name: name.to_owned(), colour, points: run.seconds.iter().map(point).collect() }
    };
    let all = || run.seconds.iter().filter_map(|row| row.latency).flatten();
    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    if high == 0.0 {
        return missing("Latency over time", "no whole second in which a request ended");
    }
    let y = Scale::log((low.max(1.0) * 0.8, high * 1.2), upwards(HEIGHT));
    let lines = vec![line(0, "p50", 0), line(1, "p99", 1), line(2, "p99.9", 2), line(3, "max", 3)];
    over_time(run, "Latency over time", y, Quantity::Micros, lines, Vec::new())
}

fn over_time(run: &Run, title: &str, y: Scale, y_is: Quantity, lines: Vec<Line>, marks: Vec<Mark>) -> String {
    let x = time_scale(run.elapsed_s);
    Plot { title, height: HEIGHT, x, y, x_is: Quantity::Seconds, y_is, lines, marks }.draw()
}

/// How many requests took how long, whenever they were made.
fn distribution(run: &Run) -> String {
    let mut counts: BTreeMap<u8, u64> = BTreeMap::new();
    for (bucket, count) in run.heat.columns.iter().flatten() {
        *counts.entry(*bucket).or_default() += count;
    }
    let (Some((low, _)), Some((high, _))) = (counts.first_key_value(), counts.last_key_value()) else {
        return String::new(); // The heat map says that no request ended.
    };
    let (low, high) = (usize::from(*low), usize::from(*high));
    let all: u64 = counts.values().sum();
    let point = |bucket: usize| {
        let count = counts.get(&(bucket as u8)).copied().unwrap_or(0);
        // In the middle of the bucket, on an axis of logarithms.
        ((bucket_low_us(bucket) * bucket_low_us(bucket + 1)).sqrt(), Some(count as f64 / all as f64))
    };
    let points: Vec<(f64, Option<f64>)> = (low..=high).map(point).collect();
    let most = points.iter().filter_map(|(_, share)| *share).fold(0.0, f64::max);
    Plot {
        title: "Latency distribution, share of requests",
        height: HEIGHT,
        x: Scale::log((bucket_low_us(low), bucket_low_us(high + 1)), (LEFT, WIDTH - RIGHT)),
        y: Scale::linear((0.0, most * 1.1), upwards(HEIGHT)),
        x_is: Quantity::Micros,
        y_is: Quantity::Share,
        lines: vec![Line { name: String::new(), colour: 0, points }],
        marks: Vec::new(),
    }
    .draw()
}

/// The percentile spectrum: every nine further to the right is ten times as rare.
fn spectrum(run: &Run) -> String {
    spectra("Latency by percentile", &[("", 0, &run.spectrum)])
}

/// A name, a colour and a spectrum.
pub(super) type Named<'a> = (&'a str, usize, &'a [(f64, f64)]);

/// Spectra with their names and colours, in one drawing.
pub(super) fn spectra(title: &str, of: &[Named<'_>]) -> String {
    let rarity = |percentile: f64| 1.0 / (1.0 - percentile / 100.0);
    let line = |(name, colour, points): &Named<'_>| Line {
        name: (*name).to_owned(),
        colour: *colour,
        points: points.iter().map(|(percentile, value)| (rarity(*percentile), Some(*value))).collect(),
    };
    let lines: Vec<Line> = of.iter().map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let values = || points().filter_map(|(_, value)| *value);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    if high == 0.0 {
        return missing(title, "no request ended");
    }
    let rarest = points().map(|(x, _)| *x).fold(10.0, f64::max);
    let x = Scale::log((1.0, rarest), (LEFT, WIDTH - RIGHT));
    let y = Scale::log((low.max(1.0) * 0.8, high * 1.2), upwards(TALL));
    Plot {
        title,
        height: TALL,
        x,
        y,
        x_is: Quantity::Rarity,
        y_is: Quantity::Micros,
        lines,
        marks: Vec::new(),
    }
    .draw()
}

fn node_charts(run: &Run) -> String {
    let node = &run.node;
    let mut out = String::new();
    let points = |at: fn(&NodeSample) -> f64, figure: fn(&NodeSample) -> Option<f64>| {
        node.samples.iter().map(|sample| (at(sample), figure(sample))).collect::<Vec<_>>()
    };
    let read_at: fn(&NodeSample) -> f64 = |sample| sample.at_s;
    let marks: Vec<Mark> = node.samples.iter().flat_map(marks_of).collect();
    let mut chart = |title: &str, points: Vec<(f64, Option<f64>)>, marks| {
        let most = points.iter().filter_map(|(_, y)| *y).fold(0.0, f64::max);
        if points.iter().any(|(_, y)| y.is_some()) {
            let y = Scale::linear((0.0, (most * 1.15).max(1e-3)), upwards(HEIGHT));
            let lines = vec![Line { name: String::new(), colour: 0, points }];
            out.push_str(&over_time(run, title, y, Quantity::Plain, lines, marks));
        }
    };
    chart("Server: cores busy", points(read_at, |sample| sample.cpu_cores), Vec::new());
    let resident = points(read_at, |sample| Some(sample.resident_bytes? / MIB));
    chart("Server: memory resident, MiB", resident, Vec::new());
    let written = points(NodeSample::scraped_at_s, |sample| Some(sample.written_bytes_per_s? / MIB));
    chart("Server: written, MiB/s; flushes ┆ and compactions ┃", written, marks);
    for reason in &node.missing {
        let _ = writeln!(out, "<p class=\"missing\"><b>Server</b>: {}.</p>", escape(reason));
    }
    out
}

fn marks_of(sample: &NodeSample) -> Vec<Mark> {
    let mark = |happened: Option<f64>, class, what| {
        let times = happened.filter(|times| *times > 0.0)?;
        let at = sample.scraped_at_s();
        Some(Mark { at, class, title: format!("{times:.0} {what} up to {at:.1} s") })
    };
    let flush = mark(sample.flushes, "flush", "flushes");
    let compaction = mark(sample.compactions, "compaction", "compactions");
    flush.into_iter().chain(compaction).collect()
}

fn missing(title: &str, reason: &str) -> String {
    format!("<p class=\"missing\"><b>{}</b> not shown: {}.</p>\n", escape(title), escape(reason))
}

fn flame(run: &Run, profile: &KindProfile, number: usize, index: usize) -> String {
    let question = profile.question();
    match &profile.found {
        Profiled::Missing(reason) => missing(question, reason),
        Profiled::Samples { offset_ms, data } => format!(
            "<div class=\"profile\" data-run=\"{number}\" data-profile=\"{index}\">\n<h3>{question}</h3>\n<p>{}</p>\n{}\
             <p class=\"range\" aria-live=\"polite\">The whole run. Drag over the heat map above to see a part of it.</p>\n\
             <div class=\"bar\"><button type=\"button\" class=\"whole\">Whole run</button>\
             <button type=\"button\" class=\"against\" aria-pressed=\"false\">Against the rest</button></div>\n\
             <div class=\"flame-graph\"></div>\n</div>\n",
            escape(data["head"].as_str().unwrap_or_default()),
            sample_heat::draw(run, number, *offset_ms, data)
        ),
    }
}
