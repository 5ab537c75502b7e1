use serde_json::Value;

use super::results::comparison_of;
use super::series::Series;
use crate::machine::Machine;
use crate::versions::Versions;

/// A file of results, read back. Lines that cannot be read are counted: a run that was killed may leave half of one.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Archive {
    /// In the order of the file.
    pub(crate) published: Vec<Published>,
    pub(crate) stopped: Vec<Stopped>,
    /// The numbers of the lines that are none of ours, or of a program that wrote less than this one reads.
    pub(crate) unreadable: Vec<usize>,
}

/// A contest as it was published.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    pub(crate) id: String,
    pub(crate) part: String,
    pub(crate) title: String,
    /// In seconds since 1970.
    pub(crate) time: u64,
    pub(crate) is_smoke: bool,
    pub(crate) with_ratios: bool,
    pub(crate) columns: Vec<Column>,
    /// The first one is ours.
    pub(crate) rows: Vec<PublishedRow>,
    pub(crate) notes: Vec<String>,
    /// What repeats it.
    pub(crate) command: String,
    pub(crate) machine: Machine,
    pub(crate) versions: Versions,
    /// Its lines, as they are in the file.
    pub(crate) lines: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) decimals: usize,
    pub(crate) compared: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PublishedRow {
    pub(crate) subject: String,
    pub(crate) commands: Vec<String>,
    /// In the order of the columns.
    pub(crate) series: Vec<Series>,
}

/// A comparison that came to no end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stopped {
    pub(crate) comparison: String,
    pub(crate) time: u64,
    /// `skipped: …` or `failed: …`
    pub(crate) reason: String,
}

/// More decimals than that are none of ours.
const DECIMALS_MAX: usize = 9;

impl Archive {
    pub(crate) fn read(text: &str) -> Self {
        let mut archive = Self::default();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let value: Value = serde_json::from_str(line).unwrap_or_default();
            if let Some(stopped) = stopped(&value) {
                archive.stopped.push(stopped);
            } else if let Some(published) = published(&value, line) {
                archive.add(published);
            } else {
                archive.unreadable.push(number);
            }
        }
        archive
    }

    /// A row belongs to the one before it if that is of the same contest, and does not have such a row yet.
    fn add(&mut self, new: Published) {
        if let Some(last) = self.published.last_mut()
            && (&last.id, &last.part, &last.title, last.time) == (&new.id, &new.part, &new.title, new.time)
            && last.columns == new.columns
            && new.rows.iter().all(|row| last.row(&row.subject).is_none())
        {
            last.rows.extend(new.rows);
            last.lines.extend(new.lines);
        } else {
            self.published.push(new);
        }
    }

    /// The newest of each contest, in the order in which contests first came. Of two of the same second, the later line wins.
    pub(crate) fn latest(&self) -> Vec<&Published> {
        let mut latest: Vec<&Published> = Vec::new();
        for published in &self.published {
            match latest.iter_mut().find(|one| (&one.id, &one.part) == (&published.id, &published.part)) {
                Some(known) if known.time <= published.time => *known = published,
                Some(_) => {}
                None => latest.push(published),
            }
        }
        latest
    }

    /// Why the last run of a comparison has no figures, if that came after them.
    pub(crate) fn stopped_since(&self, comparison: &str, time: u64) -> Option<&Stopped> {
        let of_it = self.stopped.iter().filter(|one| one.comparison == comparison && one.time >= time);
        of_it.max_by_key(|one| one.time)
    }
}

impl Published {
    /// The name of the comparison that it is of.
    pub(crate) fn comparison(&self) -> &str {
        comparison_of(&self.id)
    }

    pub(crate) fn row(&self, subject: &str) -> Option<&PublishedRow> {
        self.rows.iter().find(|row| row.subject == subject)
    }

    /// A figure of a subject; none if there is no such row or column, or no round has a value.
    pub(crate) fn series(&self, subject: &str, figure: &str) -> Option<&Series> {
        let column = self.columns.iter().position(|column| column.name == figure)?;
        self.row(subject)?.series.get(column).filter(|series| series.count() > 0)
    }

    /// Why the figures of a subject count for nothing, if so. One bad answer is enough: no comparison asks for what a subject may
    /// refuse, but for the 503 of one that is overloaded, which is not in its column.
    pub(crate) fn why_void(&self, subject: &str) -> Option<String> {
        let is_bad =
            |column: &str| self.series(subject, column).and_then(Series::max).is_some_and(|most| most > 0.0);
        let (_, words) = BAD.into_iter().find(|(column, _)| is_bad(column))?;
        Some(format!("{subject} {words}"))
    }
}

/// The columns that tell whether a row counts, each with what is said of one that does not.
const BAD: [(&str, &str); 3] = [
    ("bad answers", "gave bad answers"),
    ("bad or unanswered", "gave bad answers, or none"),
    ("other bad", "gave bad answers beside 503, or none"),
];

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(text).collect()
}

fn stopped(line: &Value) -> Option<Stopped> {
    let reason = ["skipped", "failed"].iter().find_map(|how| Some(format!("{how}: {}", line[how].as_str()?)));
    Some(Stopped { comparison: text(&line["comparison"])?, time: line["time"].as_u64()?, reason: reason? })
}

fn published(line: &Value, written: &str) -> Option<Published> {
    let columns: Vec<Column> =
        line["columns"].as_array()?.iter().map(column).collect::<Option<Vec<Column>>>()?;
    let figures = &line["figures"];
    let series = columns
        .iter()
        .map(|column| series(&figures[column.name.as_str()]["rounds"]))
        .collect::<Option<_>>()?;
    let version = |pair: &Value| Some((text(&pair[0])?, text(&pair[1])?));
    Some(Published {
        id: text(&line["comparison"])?,
        part: text(&line["part"])?,
        title: text(&line["title"])?,
        time: line["time"].as_u64()?,
        is_smoke: line["smoke"].as_bool()?,
        with_ratios: line["ratios"].as_bool()?,
        columns,
        rows: vec![PublishedRow {
            subject: text(&line["subject"])?,
            commands: texts(&line["commands"])?,
            series,
        }],
        notes: texts(&line["notes"])?,
        command: text(&line["command"])?,
        machine: Machine::from_json(&line["machine"])?,
        versions: line["versions"].as_array()?.iter().map(version).collect::<Option<_>>()?,
        lines: vec![written.to_owned()],
    })
}

fn column(value: &Value) -> Option<Column> {
    Some(Column {
        name: text(&value["name"])?,
        decimals: (value["decimals"].as_u64()? as usize).min(DECIMALS_MAX),
        compared: value["compared"].as_bool()?,
    })
}

/// What is no number was none when it was measured.
fn series(rounds: &Value) -> Option<Series> {
    Some(rounds.as_array()?.iter().map(|round| round.as_f64().unwrap_or(f64::NAN)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Line, NOON, file};
    use super::*;

    const FAST: &[(&str, usize, bool, &[f64])] = &[("requests/s", 0, true, &[3.0, 1.0, 2.0])];
    const SLOW: &[(&str, usize, bool, &[f64])] = &[("requests/s", 0, true, &[f64::NAN, 0.5])];

    fn line(subject: &'static str, figures: &'static [(&str, usize, bool, &[f64])]) -> Line<'static> {
        Line { subject, figures, ..Line::default() }
    }

    #[test]
    fn rows_of_a_contest_belong_together() {
        let archive = Archive::read(&file(&[line("ladoga", FAST), line("nginx", SLOW)]));
        assert_eq!((archive.published.len(), archive.unreadable.len()), (1, 0));
        let contest = &archive.published[0];
        let names: Vec<&str> = contest.rows.iter().map(|row| row.subject.as_str()).collect();
        assert_eq!(names, ["ladoga", "nginx"]);
        assert_eq!(contest.series("ladoga", "requests/s").and_then(Series::median), Some(2.0));
        assert_eq!(contest.series("nginx", "requests/s").map(Series::count), Some(1), "null is no round");
        assert_eq!(contest.series("redis", "requests/s"), None);
        assert_eq!(contest.series("ladoga", "p99"), None);
        assert_eq!(contest.lines.len(), 2);
    }

    #[test]
    fn a_figure_without_any_round_is_none() {
        const NONE: &[(&str, usize, bool, &[f64])] = &[("requests/s", 0, true, &[f64::NAN, f64::INFINITY])];
        let archive = Archive::read(&file(&[line("ladoga", NONE)]));
        assert_eq!(archive.published[0].series("ladoga", "requests/s"), None);
    }

    #[test]
    fn the_newest_run_of_a_contest_wins_whatever_its_title() {
        let old = Line { title: "GET of 1000 records", time: NOON - 60, ..line("ladoga", SLOW) };
        let other = Line { part: "other", time: NOON - 90, ..line("ladoga", SLOW) };
        let again = line("ladoga", SLOW);
        let archive = Archive::read(&file(&[line("ladoga", FAST), old, other, again]));
        let latest = archive.latest();
        assert_eq!(archive.published.len(), 4);
        let found: Vec<_> = latest.iter().map(|one| (one.part.as_str(), one.time)).collect();
        assert_eq!(found, [("", NOON), ("other", NOON - 90)]);
        let median = latest[0].series("ladoga", "requests/s").and_then(Series::median);
        assert_eq!(median, Some(0.5), "of the same second, the later line");
    }

    #[test]
    fn what_cannot_be_read_is_counted() {
        let whole = file(&[line("ladoga", FAST)]);
        let half = &whole[..whole.len() / 2];
        let older = "{\"comparison\":\"p1\",\"subject\":\"ladoga\",\"time\":1,\"figures\":{}}";
        let text = format!("{whole}\n{older}\n[]\nnull\n{half}");
        let archive = Archive::read(&text);
        assert_eq!(archive.published.len(), 1);
        assert_eq!(archive.unreadable, [3, 4, 5, 6]);
        assert_eq!(Archive::read(""), Archive::default());
    }

    #[test]
    fn numbers_that_are_none_of_ours_are_kept_in_bounds() {
        let mut value = line("ladoga", FAST).json();
        value["columns"][0]["decimals"] = serde_json::json!(u64::MAX);
        value["figures"]["requests/s"]["rounds"] = serde_json::json!([1e300, "3", null, -1.0]);
        let archive = Archive::read(&value.to_string());
        assert_eq!(archive.published[0].columns[0].decimals, DECIMALS_MAX);
        assert_eq!(archive.published[0].series("ladoga", "requests/s").map(Series::count), Some(2));
    }

    #[test]
    fn why_a_comparison_has_no_rows_is_kept() {
        let text =
            "{\"comparison\":\"p1\",\"time\":5,\"smoke\":false,\"skipped\":\"wrk is not installed\"}\n";
        let archive = Archive::read(text);
        let found = archive.stopped_since("p1", 5).map(|one| one.reason.as_str());
        assert_eq!(found, Some("skipped: wrk is not installed"));
        assert_eq!(archive.stopped_since("p1", 6), None, "there are figures since");
        assert_eq!(archive.stopped_since("p2", 0), None);
    }
}
