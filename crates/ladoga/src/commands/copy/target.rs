use std::time::Duration;

use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use serde_json::Value;

use super::super::Failure;
use super::super::patience::{Attempts, SILENCE_MAX, Trouble};
use super::super::record::{Record, key_of, record};
use super::Sides;
use super::large::{copy_value, put_again};
use super::source::{Item, Lot};
use super::stored::Stored;
use crate::client::{Request, Response};

/// The answers to a lot take less than this.
const ANSWERS_BYTES_MAX: usize = 4 << 20;
/// When a line is sent again that was refused for lack of capacity: only whole answers say when.
const LINE_PAUSE: Duration = Duration::from_secs(1);

/// Stores a lot. What a record says about its expiry is made a time to live just before it is sent, each time.
pub(super) fn store(sides: &Sides, lot: &Lot) -> Result<Stored, Failure> {
    let (clock, mut stored, mut attempts) = (RealClock::new(), Stored::default(), sides.patience.begin());
    let mut left: Vec<&[u8]> = Vec::with_capacity(lot.items.len());
    for item in &lot.items {
        match item {
            Item::Line(line) => left.push(line),
            Item::Large { key, .. } => stored.add(copy_value(sides, key, &clock)?),
        }
    }
    while !left.is_empty() {
        let body = render(sides, &left, &mut stored, (&clock, &mut attempts))?;
        left = body.lines;
        if left.is_empty() {
            break;
        }
        let before = left.len();
        match send(sides, &body.bytes, &mut left) {
            Ok(None) => {}
            Ok(Some(trouble)) | Err(trouble) if left.len() == before => attempts.failed(trouble)?,
            Ok(Some(trouble)) | Err(trouble) => {
                attempts.succeeded();
                attempts.failed(trouble)?;
            }
        }
        stored.records += (before - left.len()) as u64;
    }
    Ok(stored)
}

/// A batch, and the records that its lines store.
struct Body<'l> {
    bytes: Vec<u8>,
    lines: Vec<&'l [u8]>,
}

/// Makes a batch of records. Those that do not fit into one are stored, and those that have expired are counted.
fn render<'l>(
    sides: &Sides,
    left: &[&'l [u8]],
    stored: &mut Stored,
    (clock, attempts): (&RealClock, &mut Attempts),
) -> Result<Body<'l>, Failure> {
    let mut body = Body { bytes: Vec::new(), lines: Vec::with_capacity(left.len()) };
    for line in left {
        let wrong = |reason| Failure::Failed(format!("the source sent a line that is no record: {reason}"));
        match record(line, clock.wall_ms()).map_err(wrong)? {
            Record::Line(operation) => {
                body.bytes.extend_from_slice(&operation);
                body.lines.push(line);
            }
            Record::Large(large) => {
                let Stored { records, expired } = put_again(&sides.to, &large, (clock, attempts))?;
                stored.records += records;
                stored.expired += expired;
            }
            Record::Expired => stored.expired += 1,
            Record::Blank => {}
        }
    }
    Ok(body)
}

/// Sends a batch. Leaves in `left` what has to be sent again, and answers why.
fn send(sides: &Sides, body: &[u8], left: &mut Vec<&[u8]>) -> Result<Option<Trouble>, Trouble> {
    let target = "/v0/batch".to_owned();
    let request = Request { method: "POST", target, fields: Vec::new(), body: Some(body) };
    let response = request.send_with_patience(&sides.to, Some(SILENCE_MAX))?;
    if response.status != 200 {
        return Err(Trouble::refused(response));
    }
    let answers = answers(response)?;
    let mut lines = answers.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let (mut again, mut why) = (Vec::new(), None);
    for sent in left.drain(..) {
        match lines.next().map(|answer| status(sides, sent, answer)) {
            Some(Ok(())) => {}
            Some(Err(Trouble::Lasting(failure))) => return Err(Trouble::Lasting(failure)),
            Some(Err(passing)) => {
                again.push(sent);
                why = Some(passing);
            }
            None => {
                let reason = format!("{} answered fewer lines than it was sent", sides.to);
                again.push(sent);
                why = Some(Trouble::Passing { reason, pause: None });
            }
        }
    }
    *left = again;
    Ok(why)
}

fn answers(response: Response) -> Result<Vec<u8>, Trouble> {
    let mut answers = Vec::new();
    response.lines(|piece| {
        if answers.len() + piece.len() > ANSWERS_BYTES_MAX {
            let reason = format!("the answers to a batch take more than {ANSWERS_BYTES_MAX} bytes");
            return Err(Trouble::Lasting(Failure::Failed(reason)));
        }
        answers.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(answers)
}

/// Whether the answer says that the record is stored.
fn status(sides: &Sides, sent: &[u8], answer: &[u8]) -> Result<(), Trouble> {
    let answer: Option<Value> = serde_json::from_slice(answer).ok();
    let status = answer.as_ref().and_then(|answer| answer["status"].as_u64());
    let status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or_default();
    if status == 201 {
        return Ok(());
    }
    let why = answer.as_ref().and_then(|answer| answer["error"].as_str()).unwrap_or("it does not say why");
    let key = key_of(sent).unwrap_or_default();
    let reason = format!("{} answered {status} for '{}': {why}", sides.to, key.escape_ascii());
    Err(Trouble::of_status(status, reason, Some(LINE_PAUSE)))
}
