use crate::support::{Ladoga, Outcome, Running};

/// What it came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Starts `ladoga bench` with words that blanks divide.
pub(crate) fn start(line: &str) -> Running {
    Ladoga::new(std::iter::once("bench").chain(line.split_whitespace())).start()
}

/// Runs `ladoga bench` to its end.
pub(crate) fn bench(line: &str) -> Ran {
    Ran::of(&start(line).wait())
}

impl Ran {
    pub(crate) fn of(outcome: &Outcome) -> Ran {
        let code = outcome.code.expect("an exit code, because no signal ended it");
        Ran { code, out: outcome.text().to_owned(), err: outcome.stderr.clone() }
    }

    /// The value of a percentile such as `99.000%`, in milliseconds; the first one of that name.
    pub(crate) fn percentile_ms(&self, name: &str) -> f64 {
        percentile_ms(&self.out, name)
    }

    /// What stands after a word.
    pub(crate) fn number_after(&self, word: &str) -> f64 {
        let rest = self.out.split(word).nth(1).unwrap_or_else(|| panic!("no {word} in {}", self.out));
        let digits: String =
            rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        digits.parse().unwrap_or_else(|_| panic!("no number after {word} in {}", self.out))
    }
}

pub(crate) fn percentile_ms(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.trim_start().starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    let word = line.split_whitespace().nth(1).unwrap_or_else(|| panic!("no value in {line}"));
    let number = |unit: &str| word.strip_suffix(unit)?.parse::<f64>().ok();
    let ms = number("us").map(|us| us / 1000.0).or(number("ms")).or(number("s").map(|s| s * 1000.0));
    ms.unwrap_or_else(|| panic!("no time in {line}"))
}
