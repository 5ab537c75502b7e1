//! wrk: closed-loop load, for throughput.

use std::process::Command;

use crate::process::{find_program, output_of};
use crate::stop::{OrFail, Outcome, failed};

/// What to ask for. The scripts are in `bench/wrk/`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Script {
    Get,
    Put { value_bytes: usize },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Wrk {
    pub(crate) script: Script,
    pub(crate) records: u64,
    pub(crate) seconds: u64,
    /// Of the random numbers: each round has its own.
    pub(crate) seed: u64,
}

/// What wrk counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counted {
    pub(crate) requests: u64,
    pub(crate) per_second: f64,
    /// Answers other than 2xx and 3xx, and socket errors.
    pub(crate) bad: u64,
}

pub(crate) const CONNECTIONS: usize = 64;

impl Wrk {
    /// The command line as people type it, from the root of the checkout.
    pub(crate) fn line(&self) -> String {
        let (file, arguments) = self.script_and_arguments();
        let options = format!("-t1 -c{CONNECTIONS} -d{}s -s bench/wrk/{file}", self.seconds);
        format!("wrk {options} http://127.0.0.1:PORT -- {}", arguments.join(" "))
    }

    pub(crate) fn run(&self, url: &str) -> Outcome<Counted> {
        let (file, arguments) = self.script_and_arguments();
        let script = crate::context::bench_folder().join("wrk").join(file);
        let mut command = Command::new(find_program("wrk")?);
        command.args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{}s", self.seconds), "-s"]);
        command.arg(script).args([url, "--"]).args(arguments).arg(self.seed.to_string());
        let text = output_of(&mut command)?;
        let counted = parse(&text).or_fail(|| format!("wrk printed something else: {text}"))?;
        if counted.requests == 0 { failed("wrk got no answer") } else { Ok(counted) }
    }

    fn script_and_arguments(&self) -> (&'static str, Vec<String>) {
        match self.script {
            Script::Get => ("get.lua", vec![self.records.to_string()]),
            Script::Put { value_bytes } => {
                ("put.lua", vec![self.records.to_string(), value_bytes.to_string()])
            }
        }
    }
}

/// What wrk, and what prints the same text, has counted.
pub(crate) fn parse(text: &str) -> Option<Counted> {
    let mut counted = Counted { requests: 0, per_second: 0.0, bad: 0 };
    let mut seen = false;
    for line in text.lines().map(str::trim) {
        if let Some((requests, _)) = line.split_once(" requests in ") {
            counted.requests = requests.parse().ok()?;
        } else if let Some(rate) = line.strip_prefix("Requests/sec:") {
            counted.per_second = rate.trim().parse().ok()?;
            seen = true;
        } else if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses:") {
            counted.bad += count.trim().parse::<u64>().ok()?;
        } else if let Some(errors) = line.strip_prefix("Socket errors:") {
            // `connect 0, read 0, write 0, timeout 0`
            counted.bad += errors
                .split(',')
                .filter_map(|part| part.split_whitespace().last()?.parse::<u64>().ok())
                .sum::<u64>();
        }
    }
    seen.then_some(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_prints_is_understood() {
        let text = "Running 1s test\n  163428 requests in 1.10s, 25.87MB read\n  \
                    Socket errors: connect 0, read 1, write 0, timeout 2\n  Non-2xx or 3xx responses: 4\n\
                    Requests/sec: 148325.09\nTransfer/sec:     23.48MB\n";
        assert_eq!(parse(text), Some(Counted { requests: 163_428, per_second: 148_325.09, bad: 7 }));
        assert_eq!(parse("unable to connect"), None);
    }
}
