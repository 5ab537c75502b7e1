//! The command line.

use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
ladoga-bench COMPARISON [--records N] [--seconds S] [--rounds R] [--memory SIZE] [--threads N]
             [--only PART] [--dir DIR] [--store DIR]

  all          every comparison at full size
  smoke        every comparison, tiny: does it still compile and run? no time means anything
  list         the comparisons and what each claims
  help         this text
  p1 … p15     one of them
  lookup       a part of p9, the engine alone
  storage      p4 and p5
  turns        two builds of the node in turns, each round a process of its own; needs --before

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
}

impl Arguments {
    /// The error names the argument and what was expected.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut rest = arguments.into_iter();
        while let Some(argument) = rest.next() {
            if matches!(&*argument, "--help" | "-h") {
                return Ok(Self { comparison: "help".to_owned(), ..Self::default() });
            }
            if !argument.starts_with("--") {
                if !parsed.comparison.is_empty() {
                    return Err(format!(
                        "expected one comparison, found `{}` and `{argument}`",
                        parsed.comparison
                    ));
                }
                parsed.comparison = argument.to_lowercase();
                continue;
            }
            let value = rest.next().ok_or_else(|| format!("{argument} needs a value"))?;
            parsed.set(&argument, value)?;
        }
        if parsed.comparison.is_empty() {
            return Err("expected the name of a comparison".to_owned());
        }
        Ok(parsed)
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
        ] {
            assert!(parse(line).expect_err(line).contains(part), "{line}");
        }
    }
}
