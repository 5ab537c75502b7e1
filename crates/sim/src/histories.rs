//! What clients asked of every key and their answers, and whether those could have come one operation after the other.
//!
//! Only the promises of a majority are checked (see `is_checked`). The rest promises less, and is treated accordingly:
//! - A read below a majority is left out. What it spreads must not show in the others all the same.
//! - A write below a majority is one that nobody knows of, whatever its client was told: it may be seen at any time after it
//!   began, or be lost. But it takes effect once, as any other.
//! - The requests of a key go to the same number of nodes, all of them: majorities of different numbers need not meet.
//!
//! And each write that is seen has one version, for every reader: a version that was given up for another must never be seen.
//! That is checked for values, which name their write. A deletion has no name; that it takes effect once is checked by the
//! order alone.

use std::collections::BTreeMap;
use std::fmt;

use ladoga_history::{Input, Operation, Output, Verdict, Violation, check};
use ladoga_model::{Replicas, Version};
use ladoga_service::Error;

use crate::checker::{Key, is_checked};
use crate::clients::Wish;
use crate::request::{Answer, Request};

/// The number of operations that are kept of a key. Later ones are left out, and those that had not ended by then count as
/// unknown: so everything that can have been seen is there.
const OPERATIONS_MAX: usize = 500;
/// How much of a history is shown, up to what cannot be explained.
const LINES_MAX: usize = 60;

/// When something began or ended. No two things do at one `event`: that is what the order is checked by.
#[derive(Debug, Clone, Copy)]
struct Moment {
    event: u64,
    us: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Histories {
    keys: BTreeMap<Key, History>,
    /// How many things began or ended.
    events: u64,
    /// For each write that was seen or acknowledged, by its number: its version, and the request that was answered with it.
    versions: BTreeMap<u64, (Version, u64)>,
    violation: Option<String>,
}

/// By the numbers of the requests, which grow.
#[derive(Debug, Default)]
struct History(Vec<Recorded>);

/// A request, and its outcome.
#[derive(Debug)]
struct Recorded {
    number: u64,
    node: usize,
    replicas: Replicas,
    input: Input,
    began: Moment,
    ended: Option<(Moment, Result<Output, Error>)>,
}

impl Histories {
    /// The first write that was seen under two versions.
    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    fn moment(&mut self, us: u64) -> Moment {
        self.events += 1;
        Moment { event: self.events, us }
    }

    /// A client asks.
    pub(crate) fn begins(&mut self, us: u64, request: &Request) {
        let began = self.moment(us);
        let History(operations) = self.keys.entry(request.key.clone()).or_default();
        if operations.len() < OPERATIONS_MAX {
            let Request { number, node, replicas, .. } = *request;
            let input = input_of(request);
            operations.push(Recorded { number, node, replicas, input, began, ended: None });
        }
    }

    /// A client is told.
    pub(crate) fn ends(&mut self, us: u64, request: &Request, answer: &Result<Answer, Error>) {
        let ended = self.moment(us);
        let History(operations) = self.keys.entry(request.key.clone()).or_default();
        let is_full = operations.len() == OPERATIONS_MAX;
        if !is_full && let Ok(index) = operations.binary_search_by_key(&request.number, |known| known.number)
        {
            operations[index].ended = Some((ended, answer.as_ref().map(output_of).map_err(Error::clone)));
        }
        if is_checked(request.replicas)
            && let Ok(answer) = answer
        {
            self.check_version(request, answer);
        }
    }

    fn check_version(&mut self, request: &Request, answer: &Answer) {
        let seen = match (answer, &request.wish) {
            (Answer::Written(version), Wish::Put(_)) => version.map(|version| (request.number, version)),
            (Answer::Read(Some(version), Some(value)), _) => Some((number_of(value), *version)),
            _ => None,
        };
        let Some((write, version)) = seen else { return };
        let (known, by) = *self.versions.entry(write).or_insert((version, request.number));
        if known != version && self.violation.is_none() {
            self.violation = Some(format!(
                "{}: the write of request {write} took effect under {known:?}, as request {by} was told, and under \
                 {version:?}, as request {} was told: a version that was given up was seen\n{}",
                request.key.escape_ascii(),
                request.number,
                self.keys[&request.key].shown(self.events, &[]),
            ));
        }
    }

    /// The first key of which what clients were told has no order.
    pub(crate) fn disorder(&self) -> Option<String> {
        self.keys.iter().find_map(|(key, history)| history.disorder(key))
    }
}

/// What a request asks of a key, in the words of the checker: a write is named by its request, and so is its value.
fn input_of(request: &Request) -> Input {
    match request.wish {
        Wish::Put(_) => Input::Write(request.number),
        Wish::Delete => Input::Delete,
        Wish::Get => Input::Read,
    }
}

fn output_of(answer: &Answer) -> Output {
    match answer {
        Answer::Written(_) => Output::Done,
        Answer::Read(_, value) => Output::Value(value.as_deref().map(number_of)),
    }
}

/// The number of the request that wrote a value.
fn number_of(value: &[u8]) -> u64 {
    let (number, _) = value.split_first_chunk().expect("every value begins with the number of its request");
    u64::from_le_bytes(*number)
}

impl History {
    fn disorder(&self, key: &[u8]) -> Option<String> {
        let operations: Vec<Operation> = self.0.iter().map(Recorded::operation).collect();
        let key = key.escape_ascii();
        match check(&operations) {
            Verdict::Linearizable => None,
            Verdict::Violation(violation) => Some(format!("{key}: {}", self.explained(&violation))),
            Verdict::Undecided => Some(format!(
                "{key}: {} operations are too much to look for their order; let fewer happen at a time",
                operations.len()
            )),
        }
    }

    fn explained(&self, violation: &Violation) -> String {
        let Violation { ordered, holds, stuck } = violation;
        let number_of = |operation: &Operation| {
            self.0.iter().find(|known| known.began.event == operation.invoked).map_or(0, |known| known.number)
        };
        let order: Vec<u64> = ordered.iter().map(number_of).collect();
        let until = stuck.answer.map_or(u64::MAX, |(at, _)| at);
        format!(
            "what clients were told is not linearizable: after {} operations it holds {}, and nothing explains request {}\n{}",
            ordered.len(),
            Held(*holds),
            number_of(stuck),
            self.shown(until, &order)
        )
    }

    /// What happened until this event, one request a line, with its place in an order if it is in that.
    fn shown(&self, until: u64, order: &[u64]) -> String {
        let lines: Vec<String> = self
            .0
            .iter()
            .filter(|known| known.began.event <= until)
            .map(|known| {
                let place = order.iter().position(|&number| number == known.number);
                format!("{known}  {}", place.map_or_else(String::new, |place| format!("{}.", place + 1)))
            })
            .collect();
        let left_out = lines.len().saturating_sub(LINES_MAX);
        let title = "    from us        to us  node  request  asked                 told";
        let before = if left_out > 0 { format!("\n  ({left_out} before)") } else { String::new() };
        format!("{title}{before}\n{}", lines[left_out..].join("\n"))
    }
}

impl Recorded {
    /// As the checker has it.
    fn operation(&self) -> Operation {
        let answer = match &self.ended {
            Some((at, Ok(output))) if is_checked(self.replicas) => Some((at.event, *output)),
            _ => None,
        };
        Operation { invoked: self.began.event, input: self.input, answer }
    }
}

/// What a key holds.
struct Held(Option<u64>);

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, "{value}"),
            None => write!(f, "nothing"),
        }
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recorded { number, node, replicas: Replicas { ack, from }, input, began, ended } = self;
        let asked = match input {
            Input::Read => "read".to_owned(),
            Input::Write(_) => "write".to_owned(),
            Input::Delete => "delete".to_owned(),
            Input::CompareAndSet { expected, .. } => format!("write if {}", Held(*expected)),
            Input::Increment => "increment".to_owned(),
        };
        let asked = format!("{asked} {ack}/{from}");
        let to = ended.as_ref().map_or_else(String::new, |(at, _)| at.us.to_string());
        let told = match ended {
            None => "?".to_owned(),
            Some((_, Err(error))) => format!("? ({error})"),
            Some((_, Ok(Output::Done))) => "done".to_owned(),
            Some((_, Ok(Output::Refused))) => "refused".to_owned(),
            Some((_, Ok(Output::Value(value)))) => Held(*value).to_string(),
        };
        write!(f, "{:>11}  {to:>11}  {node:>4}  {number:>7}  {asked:<20}  {told}", began.us)
    }
}
