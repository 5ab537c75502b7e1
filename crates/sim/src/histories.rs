//! What clients asked of every key and their answers, and whether those could have come one operation after the other.
//!
//! Only the promises of a majority are checked (see `is_checked`). The rest promises less, and is treated accordingly:
//! - A read below a majority is left out. What it spreads must not show in the others all the same.
//! - A write below a majority is one that nobody knows of, whatever its client was told: it may be seen at any time after it
//!   began, or be lost. But it takes effect once, as any other.
//! - The requests of a key go to the same number of nodes, all of them: majorities of different numbers need not meet.
//! - A value that expires becomes nothing at a time that is known, if it is still there: an operation that nobody asks for. Around
//!   that time, two coordinators may disagree as long as their times are apart. So if one has told that a value has expired, and
//!   another one, which has not come to that time, still tells the value, this is left out. Whether each goes by its time is
//!   checked by the `checker`.
//!
//! And each write that is seen has one version, for every reader: a version that was given up for another must never be seen.
//! That is checked for values, which name their write. A deletion has no name; that it takes effect once is checked by the
//! order alone.

use std::collections::BTreeMap;
use std::fmt;

use ladoga_history::{Input, Operation, Output, Verdict, Violation, check};
use ladoga_model::{Replicas, Version};
use ladoga_service::Error;

use crate::checker::is_checked;
use crate::clients::Wish;
use crate::request::{Answer, Request};
use crate::tally::Tally;
use crate::values::{Key, count_of, is_counter, is_plain, number_of};
use crate::written::{AHEAD_MS_MAX, Found};

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

impl Moment {
    /// As the order is checked by: between two of them there is room for one that is no event.
    const fn checked(self) -> u64 {
        2 * self.event
    }
}

#[derive(Debug, Default)]
pub(crate) struct Histories {
    keys: BTreeMap<Key, History>,
    /// How many things began or ended.
    events: u64,
    /// For each write that was seen or acknowledged, by its number: its version, and the request that was answered with it.
    versions: BTreeMap<u64, (Version, u64)>,
    counters: BTreeMap<Key, Tally>,
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
    /// The write whose value had expired, of a read that was told nothing therefore.
    expired: Option<u64>,
    /// Whether it was decided what has expired, and not by the time of the cluster.
    is_out_of_time: bool,
}

/// When values expire, by the number of the request that wrote them, in milliseconds of the world.
type Expiries = BTreeMap<u64, u64>;

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
    pub(crate) fn begins(&mut self, request: &Request) {
        let began = self.moment(request.began_us);
        if request.wish == Wish::Increment {
            self.counters.entry(request.key.clone()).or_default().begins(request);
        }
        let History(operations) = self.keys.entry(request.key.clone()).or_default();
        if operations.len() < OPERATIONS_MAX {
            let Request { number, node, replicas, .. } = *request;
            let input = input_of(request);
            let (ended, expired, is_out_of_time) = (None, None, false);
            operations.push(Recorded {
                number,
                node,
                replicas,
                input,
                began,
                ended,
                expired,
                is_out_of_time,
            });
        }
    }

    /// A client is told; maybe nothing, because the value that was written by request `expired` has expired; or that its write is
    /// refused because of what was written by request `in_its_way`.
    pub(crate) fn ends(
        &mut self,
        us: u64,
        request: &Request,
        answer: &Result<Answer, Error>,
        (expired, in_its_way): (Option<u64>, Option<u64>),
    ) {
        if let (Some(tally), Ok(answer)) = (self.counters.get_mut(&request.key), answer) {
            tally.ends(us, request, answer);
        }
        let ended = self.moment(us);
        let History(operations) = self.keys.entry(request.key.clone()).or_default();
        let is_full = operations.len() == OPERATIONS_MAX;
        if !is_full && let Ok(index) = operations.binary_search_by_key(&request.number, |known| known.number)
        {
            let known = &mut operations[index];
            let output = answer.as_ref().map(|answer| output_of(&request.key, answer));
            known.ended = Some((ended, output.map_err(Error::clone)));
            known.expired = expired;
            if let Input::CompareAndSet { expected, .. } = known.input
                && matches!(answer, Ok(Answer::Refused(_)))
                && expected.is_some()
                && expected == in_its_way
            {
                // A value may get a new version from who takes over for a coordinator that is gone (decision 0050): then its client
                // has learned what the key holds, and nothing else.
                known.input = Input::Read;
                known.ended = Some((ended, Ok(Output::Value(expected))));
            }
            known.is_out_of_time =
                matches!(answer, Ok(Answer::Read(Found { version: Some(_), as_of_ms: None, .. })));
        }
        if is_checked(request.replicas)
            && let Ok(answer) = answer
        {
            self.check_version(request, answer, expired);
        }
    }

    fn check_version(&mut self, request: &Request, answer: &Answer, expired: Option<u64>) {
        // What is written by what is there may be written again under another version: see below.
        if !is_plain(&request.key) {
            return;
        }
        let seen = match (answer, &request.wish) {
            (Answer::Written(version), Wish::Put { .. }) => version.map(|version| (request.number, version)),
            (Answer::Read(Found { version, value, .. }), _) => {
                value.as_deref().map(number_of).or(expired).zip(*version)
            }
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
                self.keys[&request.key].shown(u64::MAX, &[]),
            ));
        }
    }

    /// How many keys had as many requests as are kept, so that later ones are not checked.
    pub(crate) fn cut_short(&self) -> u64 {
        self.keys.values().filter(|History(operations)| operations.len() == OPERATIONS_MAX).count() as u64
    }

    /// The first key of which what clients were told has no order.
    pub(crate) fn disorder(&self, expiries: &Expiries) -> Option<String> {
        let wrong = self.counters.iter().find_map(|(key, tally)| tally.wrong(key));
        let none = Expiries::new();
        // What a counter holds names no request.
        let of_key = |key: &Key| if is_counter(key) { &none } else { expiries };
        wrong.or_else(|| self.keys.iter().find_map(|(key, history)| history.disorder(key, of_key(key))))
    }
}

/// What a request asks of a key, in the words of the checker: a write is named by its request, and so is its value.
fn input_of(request: &Request) -> Input {
    match request.wish {
        Wish::Put { .. } => Input::Write(request.number),
        Wish::Delete => Input::Delete,
        Wish::Get => Input::Read,
        Wish::PutIf { expected, .. } => {
            let expected = expected.map(|(_, write)| write);
            Input::CompareAndSet { expected, value: Some(request.number) }
        }
        Wish::Increment => Input::Increment,
    }
}

fn output_of(key: &[u8], answer: &Answer) -> Output {
    match answer {
        Answer::Written(_) => Output::Done,
        Answer::Refused(_) => Output::Refused,
        Answer::Counted(sum, _) => Output::Value(Some(*sum)),
        Answer::Read(found) if is_counter(key) => Output::Value(found.value.as_deref().map(count_of)),
        Answer::Read(found) => Output::Value(found.value.as_deref().map(number_of)),
    }
}

impl History {
    fn disorder(&self, key: &[u8], expiries: &Expiries) -> Option<String> {
        let operations = self.operations(expiries);
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

    /// As the checker has them.
    fn operations(&self, expiries: &Expiries) -> Vec<Operation> {
        let told = self.0.iter().filter(|known| !self.is_disputed(known, expiries));
        let mut operations: Vec<Operation> = told.map(Recorded::operation).collect();
        for known in &self.0 {
            let expiry = expiries.get(&known.number).filter(|_| self.may_have_expired_unseen(known.number));
            operations.extend(expiry.map(|&at_ms| Operation {
                invoked: self.after_all_before(at_ms.saturating_sub(AHEAD_MS_MAX) * 1000),
                input: Input::CompareAndSet { expected: Some(known.number), value: None },
                answer: None,
            }));
        }
        operations
    }

    /// Whether a read told a value of which another one, that had ended before, had told that it has expired. Or it did not know
    /// what time it is.
    fn is_disputed(&self, read: &Recorded, expiries: &Expiries) -> bool {
        let Some((ended, Ok(Output::Value(value)))) = &read.ended else { return false };
        let Some(write) = value.or(read.expired).filter(|write| expiries.contains_key(write)) else {
            return false;
        };
        let has_expired_before = |other: &Recorded| {
            let is_before = other.ended.as_ref().is_some_and(|(at, _)| at.event < ended.event);
            is_before && other.expired == Some(write) && is_checked(other.replicas) && !other.is_out_of_time
        };
        read.is_out_of_time || (value.is_some() && self.0.iter().any(has_expired_before))
    }

    /// Whether somebody was told that the value of a write has expired, or nothing at all, as long after that.
    fn may_have_expired_unseen(&self, write: u64) -> bool {
        self.0.iter().any(|known| match known.ended {
            Some((_, Ok(Output::Value(None)))) => known.expired.is_none_or(|expired| expired == write),
            _ => false,
        })
    }

    /// A moment after everything that had happened to the key before this time.
    fn after_all_before(&self, us: u64) -> u64 {
        let ends = self.0.iter().filter_map(|known| known.ended.as_ref().map(|(at, _)| *at));
        let moments = self.0.iter().map(|known| known.began).chain(ends);
        moments.filter(|at| at.us < us).map(Moment::checked).max().map_or(0, |last| last + 1)
    }

    fn explained(&self, violation: &Violation) -> String {
        let Violation { ordered, holds, stuck } = violation;
        let number_of = |operation: &Operation| {
            self.0
                .iter()
                .find(|known| known.began.checked() == operation.invoked)
                .map_or(0, |known| known.number)
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
            .filter(|known| known.began.checked() <= until)
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
            Some((at, Ok(output))) if is_checked(self.replicas) => Some((at.checked(), *output)),
            _ => None,
        };
        Operation { invoked: self.began.checked(), input: self.input, answer }
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
        let Recorded { number, node, replicas: Replicas { ack, from }, input, began, ended, .. } = self;
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
            Some((_, Ok(Output::Value(value)))) => match self.expired {
                None => Held(*value).to_string(),
                Some(expired) => format!("nothing: {expired} has expired"),
            },
        };
        write!(f, "{:>11}  {to:>11}  {node:>4}  {number:>7}  {asked:<20}  {told}", began.us)
    }
}

#[cfg(test)]
#[path = "histories_tests.rs"]
mod tests;
