use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::contest::{Contest, Row};
use crate::stop::{OrFail, Outcome};

/// A file of JSON lines to which every finished comparison is appended, one line a row of its table.
#[derive(Debug)]
pub(crate) struct Results {
    path: PathBuf,
    machine: String,
}

impl Results {
    pub(crate) fn new(path: PathBuf, machine: String) -> Self {
        Self { path, machine }
    }

    /// Prints the comparison and keeps it.
    pub(crate) fn publish(&self, contest: &Contest) -> Outcome {
        println!("{}", contest.markdown());
        let lines: Vec<String> =
            contest.rows().iter().map(|row| self.line(contest, row).to_string()).collect();
        self.append(&format!("{}\n", lines.join("\n")))
            .or_fail(|| format!("cannot append to {}", self.path.display()))
    }

    fn append(&self, lines: &str) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        OpenOptions::new().append(true).create(true).open(&self.path)?.write_all(lines.as_bytes())
    }

    fn line(&self, contest: &Contest, row: &Row) -> Value {
        let figures: serde_json::Map<String, Value> = contest
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
        json!({
            "time": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            "comparison": contest.id,
            "title": contest.title,
            "subject": row.name,
            "figures": figures,
            "commands": row.commands,
            "machine": self.machine,
        })
    }
}
