use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::contest::{Contest, Row};
use crate::machine::Machine;
use crate::stop::{OrFail, Outcome, Stop};
use crate::versions::Versions;

/// Where figures come from.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) machine: Machine,
    pub(crate) versions: Versions,
    /// The smoke's figures mean nothing.
    pub(crate) is_smoke: bool,
    /// The flags of this run, each with a blank before it.
    pub(crate) flags: String,
}

impl Origin {
    /// The command line that repeats a comparison.
    fn command(&self, comparison: &str) -> String {
        if self.is_smoke {
            return "cargo run --manifest-path bench/Cargo.toml -- smoke".to_owned();
        }
        format!("{COMMAND} {comparison}{}", self.flags)
    }
}

/// How this program is called.
pub(crate) const COMMAND: &str = "cargo run --release --manifest-path bench/Cargo.toml --";

/// A file of JSON lines to which every finished comparison is appended, one line a row of its table.
#[derive(Debug)]
pub(crate) struct Results {
    path: PathBuf,
    origin: Origin,
}

impl Results {
    pub(crate) fn new(path: PathBuf, origin: Origin) -> Self {
        Self { path, origin }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Prints the contest and keeps it.
    pub(crate) fn publish(&self, contest: &Contest) -> Outcome {
        println!("{}", contest.markdown());
        let time = now();
        self.append(contest.rows().iter().map(|row| self.line(contest, row, time)))
    }

    /// Keeps why a comparison has no rows.
    pub(crate) fn note_stop(&self, comparison: &str, stop: &Stop) -> Outcome {
        let (how, reason) = match stop {
            Stop::Skipped(reason) => ("skipped", reason),
            Stop::Failed(reason) => ("failed", reason),
        };
        let mut line = json!({ "time": now(), "comparison": comparison, "smoke": self.origin.is_smoke });
        line[how] = json!(reason);
        self.append([line])
    }

    fn append(&self, lines: impl IntoIterator<Item = Value>) -> Outcome {
        let mut lines = text_of(lines);
        let mut append = || {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(&self.path)?;
            if ends_within_a_line(&mut file)? {
                lines.insert(0, '\n');
            }
            file.write_all(lines.as_bytes())
        };
        append().or_fail(|| format!("cannot append to {}", self.path.display()))
    }

    fn line(&self, contest: &Contest, row: &Row, time: u64) -> Value {
        let figures: Map<String, Value> = contest
            .figures()
            .iter()
            .zip(&row.series)
            .map(|(figure, series)| {
                let value = json!({
                    "median": series.median(), "min": series.min(), "max": series.max(), "rounds": series.values(),
                });
                (figure.name.to_owned(), value)
            })
            .collect();
        let columns: Vec<Value> = contest
            .figures()
            .iter()
            .map(|one| json!({ "name": one.name, "decimals": one.decimals, "compared": one.compared }))
            .collect();
        let Origin { machine, versions, is_smoke, .. } = &self.origin;
        json!({
            "time": time,
            "comparison": contest.id,
            "part": contest.part,
            "title": contest.title,
            "subject": row.name,
            "columns": columns,
            "figures": figures,
            "ratios": contest.has_ratios(),
            "notes": contest.notes(),
            "commands": row.commands,
            "command": self.origin.command(comparison_of(contest.id)),
            "machine": machine.to_json(),
            "versions": versions.iter().map(|(name, version)| json!([name, version])).collect::<Vec<_>>(),
            "smoke": is_smoke,
        })
    }
}

/// What a run that was killed has left: the next line must not become a part of it.
fn ends_within_a_line(file: &mut File) -> std::io::Result<bool> {
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok(last != *b"\n")
}

/// A file with these lines.
pub(crate) fn text_of<T: fmt::Display>(lines: impl IntoIterator<Item = T>) -> String {
    lines.into_iter().fold(String::new(), |text, line| text + &line.to_string() + "\n")
}

/// The comparison that publishes contests of this name: `resp` has `resp-get` and others.
pub(crate) fn comparison_of(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::super::{Archive, Figure};
    use super::*;

    const FIGURES: [Figure; 2] = [Figure::compared("requests/s", 0), Figure::shown("a, first", 3)];

    #[test]
    fn what_is_published_is_what_is_read() {
        let folder = std::env::temp_dir().join(format!("ladoga-bench-results-{}", std::process::id()));
        let machine = Machine {
            cores: 2,
            cpu: "a \"cpu\"".to_owned(),
            memory_gib: 23.5,
            kernel: "6.18".to_owned(),
            file_system: "ext4".to_owned(),
            busy: 0.25,
        };
        let versions = vec![("ladoga".to_owned(), "abc".to_owned())];
        let origin =
            Origin { machine: machine.clone(), versions, is_smoke: false, flags: " --rounds 2".to_owned() };
        let results = Results::new(folder.join("results.jsonl"), origin);
        let mut contest = Contest::new("resp-get", "a title", &FIGURES).part("always").without_ratios();
        for name in ["ladoga", "redis"] {
            let subject = contest.subject(name);
            contest.add(subject, &[1.5, f64::NAN]);
            contest.command(subject, "a command");
        }
        contest.note("a remark");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(results.path(), "half of a li").expect("a file");
        results.publish(&contest).expect("a file");
        results.note_stop("p2", &Stop::Failed("it ended".to_owned())).expect("a file");
        let text = fs::read_to_string(results.path()).expect("a file");
        fs::remove_dir_all(&folder).expect("a folder");
        let archive = Archive::read(&text);
        assert_eq!((archive.published.len(), &archive.unreadable[..]), (1, &[1][..]), "{text}");
        let read = &archive.published[0];
        assert_eq!((read.id.as_str(), read.part.as_str(), read.comparison()), ("resp-get", "always", "resp"));
        assert_eq!(read.command, format!("{COMMAND} resp --rounds 2"));
        assert_eq!((&read.machine, read.with_ratios, read.is_smoke), (&machine, false, false));
        let columns: Vec<_> =
            read.columns.iter().map(|one| (one.name.as_str(), one.decimals, one.compared)).collect();
        assert_eq!(columns, [("requests/s", 0, true), ("a, first", 3, false)], "in their order");
        assert_eq!((read.rows.len(), &read.notes[..]), (2, &["a remark".to_owned()][..]));
        assert_eq!(archive.stopped[0].reason, "failed: it ended");
    }
}
