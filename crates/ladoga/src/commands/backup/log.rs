use std::io::{Write, stdout};

use ladoga_backup::{Error, LogListing, LogSource, PIECE_BYTES_MAX, Repository, Shipped, text_of_ms};
use ladoga_storage::{KeptSegment, LogFile};
use serde_json::Value;

use super::super::{Failure, complain, node_url, repository};
use super::checkpoint::refusal;
use super::paced::Pace;
use crate::backup_arguments::LogArguments;
use crate::client::{KeptConnection, Url};
use crate::settings::format_size;

/// Fetches what a node keeps of its log, and nothing else.
pub(super) fn log(arguments: &LogArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    let env = ladoga_env::real::env()?;
    let path = &arguments.repository.to;
    let (repository, writing) = Repository::create(&repository::disk_of(&env, path)?, path)?;
    let mut source = NodeLog::new(&url, Pace::new(&*env.clock, arguments.rate.0));
    let shipped = repository.ship(&writing, &url.to_string(), &mut source)?;
    let reaches_ms = tell_gaps(&shipped);
    let (segments, size) = (shipped.segments, format_size(shipped.bytes));
    writeln!(stdout(), "log up to {}; {segments} segments, {size} copied", text_of_ms(reaches_ms))?;
    if !has_base(&repository, &shipped)? {
        complain(format_args!(
            "no backup has this log behind it yet: nothing can be restored with it before the next `ladoga backup create`"
        ));
    }
    Ok(())
}

/// Says which times cannot be restored. Answers up to when the log reaches.
pub(super) fn tell_gaps(shipped: &Shipped) -> u64 {
    for gap in &shipped.gaps {
        complain(format_args!("{gap}; times from there to the next backup cannot be restored"));
    }
    shipped.chain.as_ref().map_or(0, |chain| chain.reaches_ms)
}

fn has_base(repository: &Repository, shipped: &Shipped) -> Result<bool, Failure> {
    let Some(chain) = &shipped.chain else { return Ok(false) };
    for id in repository.ids()?.iter().rev() {
        // One that is damaged is named by `verify`.
        let Ok(backup) = repository.backup(id) else { continue };
        let positions = backup.nodes.iter().filter_map(|node| node.log);
        if positions.into_iter().any(|position| position.chain == chain.name) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The log that a node keeps.
pub(super) struct NodeLog<'c> {
    url: Url,
    connection: KeptConnection,
    pace: Pace<'c>,
}

impl<'c> NodeLog<'c> {
    pub(super) fn new(url: &Url, pace: Pace<'c>) -> NodeLog<'c> {
        NodeLog { url: url.clone(), connection: KeptConnection::new(url.clone()), pace }
    }

    fn ask(&mut self, method: &str, target: &str) -> Result<Vec<u8>, Error> {
        let asked = self.connection.ask(method, target);
        let (status, body) = asked.map_err(|error| Error::Source(error.to_string()))?;
        match status {
            200 => Ok(body),
            // One of an earlier release makes a checkpoint, whatever else it is asked for. It is released when nobody reads it.
            201 => Err(Error::Source(format!("{} is of a release that keeps no log", self.url))),
            _ => Err(Error::Source(refusal(&self.url, status, &body))),
        }
    }
}

impl LogSource for NodeLog<'_> {
    fn list(&mut self, after: u64) -> Result<LogListing, Error> {
        let body = self.ask("POST", &format!("/v0/backup?log_after={after}"))?;
        let wrong =
            || Error::Source(format!("{} answered the request for its log with something else", self.url));
        parse(&body).ok_or_else(wrong)
    }

    fn read(&mut self, file: LogFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let (file, bytes) = (file.name(), bytes_max.min(PIECE_BYTES_MAX));
        let mut pace = self.pace;
        let target = format!("/v0/backup?file={file}&offset={offset}&bytes={bytes}");
        let piece = pace.read(|| self.ask("GET", &target));
        self.pace = pace;
        piece
    }
}

fn parse(body: &[u8]) -> Option<LogListing> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let number = |json: &Value, name: &str| json[name].as_str()?.parse::<u64>().ok();
    let segment = |json: &Value| {
        let (first_sequence, end_sequence) = (number(json, "first_sequence")?, number(json, "end_sequence")?);
        let segment =
            KeptSegment { number: json["number"].as_u64()?, first_sequence, end_sequence, kept_ms: 0 };
        (first_sequence < end_sequence).then_some(segment)
    };
    let store = json["store"].as_str().filter(|text| text.len() == 32)?;
    Some(LogListing {
        store: u128::from_str_radix(store, 16).ok()?,
        reaches_ms: json["reaches_ms"].as_u64()?,
        end_sequence: number(&json, "end_sequence")?,
        segments: json["segments"].as_array()?.iter().map(segment).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_of_its_log_is_read_or_refused() {
        let listed = |segments: &str| {
            let store = "0".repeat(31) + "7";
            let head = format!("{{\"store\":\"{store}\",\"reaches_ms\":5,\"end_sequence\":\"9\"");
            parse(format!("{head},\"segments\":[{segments}]}}").as_bytes())
        };
        let segment = "{\"number\":3,\"first_sequence\":\"1\",\"end_sequence\":\"9\"}";
        let expected = KeptSegment { number: 3, first_sequence: 1, end_sequence: 9, kept_ms: 0 };
        let listing = listed(segment).expect("a listing");
        assert_eq!((listing.store, listing.reaches_ms, listing.end_sequence), (7, 5, 9));
        assert_eq!(listing.segments, [expected]);
        assert_eq!(listed("").expect("a listing").segments, []);
        for wrong in ["{}", &segment.replace("\"9\"", "\"1\""), &segment.replace("\"9\"", "9"), "7"] {
            assert_eq!(listed(wrong), None, "{wrong}");
        }
        assert_eq!(parse(b""), None);
    }
}
