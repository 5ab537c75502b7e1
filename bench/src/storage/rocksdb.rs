//! `RocksDB`, through `db_bench` as Debian's package `rocksdb-tools` has it.

use std::path::Path;
use std::process::Command;

use super::{KEY_BYTES, MEMORY_BYTES, VALUE_BYTES};
use crate::process::{find_program, line_of, output_of};
use crate::stop::{OrFail, Outcome, failed};

/// What one of the benchmarks in a run of `db_bench` printed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) per_second: f64,
    /// Of the reads: found, asked.
    found: Option<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    /// In the order of the benchmarks; those that measure nothing are left out.
    pub(crate) lines: Vec<Line>,
    pub(crate) command: String,
    /// Its own warning about its figures.
    pub(crate) warning: Option<String>,
}

/// A run of `db_bench` on a folder, with settings that every run has and those of this one.
pub(crate) fn run(folder: &Path, benchmarks: &str, records: u64, more: &[String]) -> Outcome<Run> {
    let mut command = Command::new(find_program("db_bench")?);
    command.arg(format!("--benchmarks={benchmarks}")).arg(format!("--db={}", folder.display()));
    command.args([format!("--num={records}"), format!("--key_size={KEY_BYTES}")]);
    command.args([format!("--value_size={VALUE_BYTES}"), "--compression_ratio=1".to_owned()]);
    command.args(["--compression_type=lz4".to_owned(), "--bloom_bits=10".to_owned()]);
    command.arg(format!("--cache_size={MEMORY_BYTES}")).args(more);
    let parent = folder.parent().unwrap_or(Path::new("/"));
    let line = line_of(&command, parent);
    // It repeats its warnings on the other stream, which only a failure shows.
    let text = output_of(&mut command)?;
    let lines = parse(&text);
    if let Some((found, asked)) =
        lines.iter().filter_map(|line| line.found).find(|(found, asked)| found < asked)
    {
        return failed(format!("db_bench found {found} of {asked}: a miss is no read"));
    }
    let warning = text.lines().find_map(|line| line.strip_prefix("WARNING: ")).map(str::to_owned);
    Ok(Run { lines, command: line, warning })
}

impl Run {
    pub(crate) fn last(&self) -> Outcome<f64> {
        self.lines
            .last()
            .map(|line| line.per_second)
            .or_fail(|| format!("`{}` printed no figure", self.command))
    }

    pub(crate) fn first(&self) -> Outcome<f64> {
        self.lines
            .first()
            .map(|line| line.per_second)
            .or_fail(|| format!("`{}` printed no figure", self.command))
    }
}

/// Lines such as `readrandom   :       1.789 micros/op 558503 ops/sec 0.036 seconds 20000 operations;   61.8 MB/s (20000 of
/// 20000 found)`; progress may precede them on the same line.
fn parse(text: &str) -> Vec<Line> {
    text.split(['\n', '\r']).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Line> {
    let (_, figures) = line.split_once(" micros/op ")?;
    let (per_second, rest) = figures.split_once(" ops/sec")?;
    let found = rest.rsplit_once('(').and_then(|(_, found)| {
        let (found, asked) = found.strip_suffix(" found)")?.split_once(" of ")?;
        Some((found.parse().ok()?, asked.parse().ok()?))
    });
    Some(Line { per_second: per_second.trim().parse().ok()?, found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_db_bench_prints_is_understood() {
        let text = "DB path: [x]\n... finished 100 ops\rfilluniquerandom :       3.666 micros/op 272442 ops/sec \
                    0.073 seconds 20000 operations;   30.1 MB/s\nreadrandom   :       1.789 micros/op 558503 ops/sec \
                    0.036 seconds 20000 operations;   61.8 MB/s (19999 of 20000 found)\n";
        assert_eq!(
            parse(text),
            [
                Line { per_second: 272_442.0, found: None },
                Line { per_second: 558_503.0, found: Some((19_999, 20_000)) },
            ]
        );
    }
}
