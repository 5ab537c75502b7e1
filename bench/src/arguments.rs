//! The command line.

use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
ladoga-bench COMPARISON [--records N] [--seconds S] [--rounds R] [--memory SIZE] [--threads N]
             [--only PART] [--dir DIR] [--store DIR]
ladoga-bench page [--results FILE] [-o FILE] [--svg DIR]
ladoga-bench readme [--results FILE] [--check]

  all          every comparison at full size, then the page of all results
  smoke        every comparison, tiny: does it still compile and run? no time means anything
  list         the comparisons and what each claims
  help         this text
  p1 … p15     one of them
  lookup       a part of p9, the engine alone
  storage      p4 and p5
  turns        two builds of the node in turns, each round a process of its own; needs --before
  page         one page with the machine, the versions, every figure and its charts, of what was measured last
  readme       writes the figures of README.md, and keeps the results that they come from

  --records N    instead of each comparison's own number of records
  --seconds S    how long each measured run takes
  --rounds R     how many rounds alternate between us and the reference
  --memory SIZE  the node's memory budget, such as 512MiB
  --threads N    the node's event-loop threads
  --only PART    of p15: those of its parts whose names contain this (put-well, get-well, put-one-well, get-one-well,
                 put-frozen, get-frozen, put-handoff, get-handoff, put-rebuild, get-rebuild); of p11: the values
                 (small, large); of p4 and p5: the engine (ladoga, fjall, RocksDB)
  --dir DIR      where data directories are made (default bench/out/data); it decides which file system is measured
  --store DIR    of lookup: the store to read, filled first where there is none, and kept: so that two binaries can be
                 compared on the same data
  --before FILE  of turns: the node of before; LADOGA_BIN names that of after, or it is built
  --before-bench FILE
                 of turns: this program as it was built with the code of before, for p4, p5, lookup, p14 and p15
  --comparisons NAME,…
                 of turns: which comparisons, instead of all
  --results FILE of page and readme: the results (default bench/out/results.jsonl)
  -o FILE        of page: what to write (default bench/out/page.html)
  --svg DIR      of page: writes each chart into this directory, as a file of its own, and no page unless there is an -o
  --check        of readme: writes nothing; fails if README.md has not the figures of bench/results-readme.jsonl

LADOGA_BIN names a binary of the node to use instead of building one.
";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// What to run, as typed.
    pub(crate) comparison: String,
    pub(crate) records: Option<u64>,
    pub(crate) seconds: Option<u64>,
    pub(crate) rounds: Option<usize>,
    pub(crate) memory: Option<String>,
    pub(crate) threads: Option<usize>,
    pub(crate) only: Option<String>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) store: Option<PathBuf>,
    pub(crate) before: Option<PathBuf>,
    pub(crate) before_bench: Option<PathBuf>,
    pub(crate) comparisons: Option<String>,
    pub(crate) results: Option<PathBuf>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) check: bool,
}

/// Flags that belong to one command, which takes no others.
const OF_PAGE: [&str; 3] = ["--results", "-o", "--svg"];
const OF_README: [&str; 2] = ["--results", "--check"];

impl Arguments {
    /// The error names the argument and what was expected.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut rest = arguments.into_iter();
        let mut flags = Vec::new();
        while let Some(argument) = rest.next() {
            if matches!(&*argument, "--help" | "-h") {
                return Ok(Self { comparison: "help".to_owned(), ..Self::default() });
            }
            if !argument.starts_with('-') {
                if !parsed.comparison.is_empty() {
                    return Err(format!(
                        "expected one comparison, found `{}` and `{argument}`",
                        parsed.comparison
                    ));
                }
                parsed.comparison = argument.to_lowercase();
                continue;
            }
            if argument == "--check" {
                parsed.check = true;
            } else {
                let value = rest.next().ok_or_else(|| format!("{argument} needs a value"))?;
                parsed.set(&argument, value)?;
            }
            flags.push(argument);
        }
        if parsed.comparison.is_empty() {
            return Err("expected the name of a comparison".to_owned());
        }
        for flag in &flags {
            let flag = flag.as_str();
            let fits = match parsed.comparison.as_str() {
                "page" => OF_PAGE.contains(&flag),
                "readme" => OF_README.contains(&flag),
                _ => !OF_PAGE.contains(&flag) && !OF_README.contains(&flag),
            };
            if !fits {
                return Err(format!("{flag} is no flag of `{}`", parsed.comparison));
            }
        }
        Ok(parsed)
    }

    /// What was asked for beside the name, each with a blank before it. Directories of this machine say nothing to others.
    pub(crate) fn flags(&self) -> String {
        let numbers = [
            ("records", self.records),
            ("seconds", self.seconds),
            ("rounds", self.rounds.map(|rounds| rounds as u64)),
            ("threads", self.threads.map(|threads| threads as u64)),
        ];
        let texts = [
            ("memory", self.memory.as_deref()),
            ("only", self.only.as_deref()),
            ("dir", self.dir.as_ref().map(|_| "DIR")),
            ("store", self.store.as_ref().map(|_| "DIR")),
        ];
        let numbers = numbers.iter().filter_map(|(name, number)| Some(format!(" --{name} {}", (*number)?)));
        let texts = texts.iter().filter_map(|(name, text)| Some(format!(" --{name} {}", (*text)?)));
        numbers.chain(texts).collect()
    }

    fn set(&mut self, flag: &str, value: String) -> Result<(), String> {
        match flag {
            "--records" => self.records = Some(positive(flag, &value)?),
            "--seconds" => self.seconds = Some(positive(flag, &value)?),
            "--rounds" => self.rounds = Some(positive(flag, &value)? as usize),
            "--threads" => self.threads = Some(positive(flag, &value)? as usize),
            "--memory" => self.memory = Some(value),
            "--only" => self.only = Some(value),
            "--dir" => self.dir = Some(PathBuf::from(value)),
            "--before" => self.before = Some(PathBuf::from(value)),
            "--before-bench" => self.before_bench = Some(PathBuf::from(value)),
            "--comparisons" => self.comparisons = Some(value),
            "--store" => self.store = Some(PathBuf::from(value)),
            "--results" => self.results = Some(PathBuf::from(value)),
            "-o" => self.output = Some(PathBuf::from(value)),
            "--svg" => self.svg = Some(PathBuf::from(value)),
            unknown => return Err(format!("unknown flag `{unknown}`")),
        }
        Ok(())
    }
}

fn positive(flag: &str, value: &str) -> Result<u64, String> {
    match value.replace('_', "").parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{flag} is `{value}`, expected a whole number from 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_stand_before_or_after_the_comparison() {
        let parsed = parse("--records 1_000 P9 --rounds 2").expect("a valid line");
        assert_eq!((parsed.comparison.as_str(), parsed.records, parsed.rounds), ("p9", Some(1000), Some(2)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, part) in [
            ("", "name of a comparison"),
            ("p1 p2", "`p1` and `p2`"),
            ("p1 --records", "needs a value"),
            ("p1 --records 0", "whole number"),
            ("p1 --size 4", "`--size`"),
            ("p1 -x 4", "`-x`"),
            ("page -o", "needs a value"),
            ("p1 -o page.html", "-o is no flag of `p1`"),
            ("page --check", "--check is no flag of `page`"),
            ("readme --rounds 3", "--rounds is no flag of `readme`"),
        ] {
            assert!(parse(line).expect_err(line).contains(part), "{line}");
        }
    }

    #[test]
    fn a_check_has_no_value() {
        let parsed = parse("readme --check --results a.jsonl").expect("a valid line");
        assert!(parsed.check && parsed.results == Some(PathBuf::from("a.jsonl")));
    }

    #[test]
    fn the_flags_of_a_run_name_no_directory() {
        let parsed = parse("p1 --dir /data --rounds 4 --memory 1GiB --threads 1").expect("a valid line");
        assert_eq!(parsed.flags(), " --rounds 4 --threads 1 --memory 1GiB --dir DIR");
        assert_eq!(parse("all").expect("a valid line").flags(), "");
    }
}
