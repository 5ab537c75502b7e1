use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The target of the lines at the start and end of the process. Everything else is quiet unless an operator has to act.
pub(crate) const LIFE: &str = "ladoga::life";

/// Where the driver of Cassandra logs each warning of each answer: near a quota, that is a line for each request. The door logs how many
/// there are: `ladoga_cassandra::warnings`.
const ANSWERS_OF_CASSANDRA: &str = "scylla::network::connection";

/// Begins to log to standard error: what `LADOGA_LOG` selects, or else what an operator has to act upon, and the start and end
/// of the process.
pub(crate) fn start(wanted: Option<Targets>, format: LogFormat) {
    let usual = || {
        Targets::new().with_default(LevelFilter::WARN).with_target(ANSWERS_OF_CASSANDRA, LevelFilter::ERROR)
    };
    let targets = wanted.unwrap_or_else(usual);
    let targets = targets.with_target(LIFE, LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    let log = tracing_subscriber::registry().with(targets);
    match format {
        LogFormat::Text => log.with(lines.with_target(false)).init(),
        LogFormat::Json => log.with(lines.json().flatten_event(true)).init(),
    }
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}
