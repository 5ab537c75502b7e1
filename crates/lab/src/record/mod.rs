//! The content of a report. It is in the report's page as JSON, from which `ladoga lab compare` reads it back.
//!
//! Times are in microseconds unless the name has another unit; a run's own times are in seconds since its start.

mod heat;
mod machine;
mod node;
mod of_outcome;

pub(crate) use heat::{Heat, HeatRecorder, bucket_low_us};
pub(crate) use machine::Machine;
pub(crate) use node::{NodeSample, NodeSeries};
pub(crate) use of_outcome::{Described, run_of};

use serde::{Deserialize, Serialize};

use crate::stats::{Class, Due, ERROR_KINDS, Failures, NO_ANSWER};

/// The name of the server that is ours.
pub(crate) const OWN: &str = "ladoga";
/// Changes when an older program could not read a report any more.
pub(crate) const FORMAT: u32 = 2;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) format: u32,
    pub(crate) title: String,
    /// The command line that made it.
    pub(crate) command: String,
    pub(crate) started_unix_s: u64,
    pub(crate) machine: Machine,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) runs: Vec<Run>,
    /// How many runs it would have when it is whole.
    pub(crate) planned: usize,
    pub(crate) is_interrupted: bool,
    /// What a reader has to know.
    pub(crate) notes: Vec<String>,
    /// The bounds that were asked for, and whether they hold. Reports of older programs do not have it.
    #[serde(default)]
    pub(crate) slo: Vec<JudgedBound>,
}

/// A bound of an SLO, and the measured value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JudgedBound {
    /// As it was typed.
    pub(crate) bound: String,
    pub(crate) found: String,
    pub(crate) holds: bool,
}

/// A server that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    pub(crate) name: String,
    /// How it was started, or at which address it was found.
    pub(crate) what: String,
    /// Its program, by a hash of its bytes; none if its process is not known.
    #[serde(default)]
    pub(crate) build: Option<String>,
}

impl Report {
    /// How many of its runs were not cut off.
    pub(crate) fn whole_runs(&self) -> usize {
        self.runs.iter().filter(|run| !run.is_interrupted).count()
    }

    /// How many of its runs were made, in words.
    pub(crate) fn made(&self) -> String {
        let whole = self.whole_runs();
        let cut = if whole < self.runs.len() { " (and one in part)" } else { "" };
        format!("{whole} of {} runs{cut}", self.planned)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// What was done, in words: the same stage in another report is the same work.
    pub(crate) stage: String,
    /// The name of a [`Subject`].
    pub(crate) subject: String,
    /// From 1.
    pub(crate) round: u32,
    /// When the first request was due. Reports of older programs do not have it.
    #[serde(default)]
    pub(crate) started_unix_ms: Option<u64>,
    /// Requests a second; none in a closed loop.
    pub(crate) rate: Option<f64>,
    pub(crate) connections: u64,
    pub(crate) threads: u64,
    /// The load alone.
    pub(crate) command: String,
    /// Repeats this run, with its node and its store.
    #[serde(default)]
    pub(crate) repeat: String,
    pub(crate) elapsed_s: f64,
    pub(crate) is_interrupted: bool,
    pub(crate) requests: u64,
    pub(crate) per_second: f64,
    pub(crate) answers: Vec<AnswerCount>,
    /// The same requests by their method. Reports of older programs do not have it.
    #[serde(default)]
    pub(crate) methods: Vec<AnswerCount>,
    pub(crate) connect_errors: u64,
    pub(crate) unanswered: u64,
    /// Requests without an answer that count as errors. Reports of older programs do not have it.
    #[serde(default)]
    pub(crate) lost: Option<u64>,
    /// Requests without an answer that are more than may be on their way. Reports of older programs do not have it.
    #[serde(default)]
    pub(crate) behind: Option<u64>,
    pub(crate) latency: Option<Latency>,
    pub(crate) uncorrected: Option<Latency>,
    /// Percentile and value, up to the highest one.
    pub(crate) spectrum: Vec<(f64, f64)>,
    pub(crate) seconds: Vec<SecondRow>,
    pub(crate) heat: Heat,
    pub(crate) generator: Generator,
    /// Reports of older programs do not have it.
    #[serde(default)]
    pub(crate) disturbance: Disturbance,
    pub(crate) node: NodeSeries,
    /// One of each kind that was wanted.
    pub(crate) profiles: Vec<KindProfile>,
    /// None for a run that follows no publication.
    #[serde(default)]
    pub(crate) conditions: Option<Conditions>,
    pub(crate) published: Vec<Published>,
    pub(crate) notes: Vec<String>,
    /// Whether a 404 is the expected answer.
    #[serde(default)]
    pub(crate) expects_misses: bool,
}

impl Run {
    /// Whether any request was answered as it should be.
    pub(crate) fn has_good_answer(&self) -> bool {
        self.answers.iter().any(|answer| answer.count > 0 && !self.is_error(answer))
    }

    /// The rate that was asked for, if it was not reached.
    pub(crate) fn missed_rate(&self) -> Option<f64> {
        self.rate.filter(|_| !Due::is_reached(self.due().kept_share()))
    }

    /// What was due in an open loop. Older programs did not tell what was behind from what was on its way.
    pub(crate) fn due(&self) -> Due {
        let failed = self.answers.iter().filter(|answer| !Class::named(&answer.class).is_answer());
        Due {
            answered: self.requests,
            failed: failed.map(|answer| answer.count).sum(),
            unanswered: self.unanswered,
            behind: self.behind.unwrap_or(self.unanswered),
        }
    }

    /// Whether latencies are those of a queue that grew: of connections that answered until the end, requests are behind.
    pub(crate) fn queue_grew(&self) -> bool {
        self.due().behind > self.lost()
    }

    pub(crate) fn failures(&self) -> Failures {
        let answers = self.answers.iter().map(|answer| (Class::named(&answer.class), answer.count));
        Failures::of(answers, self.connect_errors, self.lost(), self.expects_misses)
    }

    /// Requests without an answer that count as errors. Older programs did not tell them from those on their way.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.unwrap_or(self.unanswered)
    }

    /// Whether answers of this class are errors here.
    pub(crate) fn is_error(&self, answer: &AnswerCount) -> bool {
        Class::named(&answer.class).is_failure(self.expects_misses)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AnswerCount {
    /// `2xx`, another status, `timeout`, `broken` or `unsent`; or a method.
    pub(crate) class: String,
    pub(crate) count: u64,
    pub(crate) latency: Option<Latency>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) p9999: f64,
    pub(crate) max: f64,
}

/// One whole second of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct SecondRow {
    pub(crate) second: u64,
    /// Answers.
    pub(crate) completed: u64,
    pub(crate) errors: u64,
    /// By [`ERROR_KINDS`]. Reports of older programs do not have it.
    #[serde(default)]
    pub(crate) errors_by_kind: [u64; ERROR_KINDS.len()],
    /// p50, p99, p99.9 and the largest of what was due in it; none if nothing was.
    pub(crate) latency: Option<[f64; 4]>,
}

impl SecondRow {
    /// What ended in it, with an answer or without: errors are a share of that.
    pub(crate) const fn ended(&self) -> u64 {
        self.completed + self.errors_by_kind[NO_ANSWER]
    }
}

/// The condition of the load generator itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Generator {
    pub(crate) lateness_p99: Option<f64>,
    pub(crate) cpu_us_per_request: Option<f64>,
    /// What limited the result besides the server, in words.
    pub(crate) limits: Vec<String>,
}

/// The load of the machine that is neither the load generator's nor the measured server's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Disturbance {
    /// Cores that other processes kept busy; none if the server's process is not known.
    pub(crate) other_cores: Option<f64>,
    /// Of the machine's time, the share that its host gave to others.
    pub(crate) steal_share: Option<f64>,
}

/// Other processes that use this part of the machine disturb the measurement.
const OTHERS_SHARE: f64 = 0.05;
const STEAL_SHARE: f64 = 0.02;

impl Disturbance {
    pub(crate) fn is_notable(&self, cores: usize) -> bool {
        self.notable_other_cores(cores).is_some() || self.steal_share.is_some_and(|share| share > STEAL_SHARE)
    }

    /// What other processes kept busy, if it is that much. What the host took is none of it.
    pub(crate) fn notable_other_cores(&self, cores: usize) -> Option<f64> {
        self.other_cores.filter(|busy| *busy > OTHERS_SHARE * cores as f64)
    }
}

/// A profile of the server while a run went on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KindProfile {
    /// As `ladoga profile --kind` has it.
    pub(crate) kind: String,
    pub(crate) found: Profiled,
}

impl KindProfile {
    /// The question that a profile of this kind answers.
    pub(crate) fn question(&self) -> &'static str {
        match self.kind.as_str() {
            "alloc" => "Who asked for the server's memory",
            "lock" => "Where the server's threads waited",
            _ => "Where the server's CPU time went",
        }
    }
}

/// What a profile found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Profiled {
    /// The node's samples over time, as its heat map has them.
    Samples {
        /// When it began, in milliseconds since the start of the run.
        offset_ms: f64,
        data: serde_json::Value,
    },
    /// Why there are none.
    Missing(String),
}

/// What a published load test did, and a run of ours after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Conditions {
    /// Which publication.
    pub(crate) source: String,
    pub(crate) load: String,
    pub(crate) store: String,
    pub(crate) answers: String,
    pub(crate) connections: u64,
    pub(crate) server_threads: Option<u64>,
}

/// A figure of a published load test, and ours beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Published {
    pub(crate) figure: String,
    /// Before their optimisation, if there was one.
    #[serde(default)]
    pub(crate) before: Option<f64>,
    /// None if it was not published, and ours is of interest.
    pub(crate) theirs: Option<f64>,
    pub(crate) ours: Option<f64>,
    pub(crate) unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    Micros,
    PerSecond,
}
