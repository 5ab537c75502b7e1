//! Runs the command as a person would.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// What it came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Starts `ladoga bench` with words that blanks divide.
pub(crate) fn start(line: &str) -> Child {
    // `cargo test` builds the examples beside the tests.
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples").join("bench");
    assert!(program.exists(), "{} is missing: cargo build -p ladoga-lab --examples", program.display());
    let mut command = Command::new(program);
    command.args(line.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

pub(crate) fn wait(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

pub(crate) fn bench(line: &str) -> Ran {
    wait(start(line))
}

impl Ran {
    /// The value of a percentile such as `99.000%`, in milliseconds.
    pub(crate) fn percentile_ms(&self, name: &str) -> f64 {
        let line = self.out.lines().find(|line| line.trim_start().starts_with(name));
        let word =
            line.unwrap_or_else(|| panic!("no {name} in {}", self.out)).split_whitespace().nth(1).unwrap();
        let number = |unit: &str| word.strip_suffix(unit).and_then(|digits| digits.parse::<f64>().ok());
        number("us").map(|us| us / 1000.0).or(number("ms")).or(number("s").map(|s| s * 1000.0)).unwrap()
    }

    /// What stands after a word.
    pub(crate) fn number_after(&self, word: &str) -> f64 {
        let rest = self.out.split(word).nth(1).unwrap_or_else(|| panic!("no {word} in {}", self.out));
        let digits: String =
            rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        digits.parse().unwrap()
    }
}

/// A file that is gone when the test is over.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("ladoga-lab-{}-{name}", std::process::id())))
    }

    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    pub(crate) fn with(name: &str, text: &str) -> Self {
        let scratch = Self::new(name);
        std::fs::write(&scratch.0, text).unwrap();
        scratch
    }

    pub(crate) fn read(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // A test that failed early has not made it.
    }
}
