use std::cmp::Ordering;
use std::io::{Write, stderr};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::vec::IntoIter;

use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use serde_json::{Map, Value};

use super::super::Failure;
use super::super::patience::Patience;
use super::super::record::Member;
use super::super::tally::ProgressLine;
use super::Sides;
use super::compare::{Compared, Difference, Seen, expire_together};
use super::large::digest;
use super::source::{Item, Lot, Source, Span};
use crate::client::Url;

/// Lots of each side that are read ahead.
const LOTS_AHEAD: usize = 4;

/// Reads both sides in the order of keys and compares them. Fails only if one of them cannot be read.
pub(super) fn verify(sides: &Sides, whole: &Span) -> Result<Compared, Failure> {
    let mut from = Reader::start(&sides.from, whole, sides.patience);
    let mut to = Reader::start(&sides.to, whole, sides.patience);
    let (clock, mut compared, mut progress) =
        (RealClock::new(), Compared::default(), ProgressLine::of("records compared"));
    let (mut one, mut other) = (from.next()?, to.next()?);
    while one.is_some() || other.is_some() {
        let order = match (&one, &other) {
            (Some(one), Some(other)) => one.key.cmp(&other.key),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let mine = if order == Ordering::Greater { None } else { one.take() };
        let theirs = if order == Ordering::Less { None } else { other.take() };
        compare(sides, (mine.as_ref(), theirs.as_ref()), clock.wall_ms(), &mut compared)?;
        if mine.is_some() {
            one = from.next()?;
        }
        if theirs.is_some() {
            other = to.next()?;
        }
        progress.tell(compared.records());
    }
    drop(progress);
    for difference in compared.described() {
        _ = writeln!(stderr(), "{difference}");
    }
    _ = writeln!(stderr(), "{} records are the same", compared.same);
    Ok(compared)
}

/// Compares what the sides have under one key.
fn compare(
    sides: &Sides,
    seen: (Option<&Seen>, Option<&Seen>),
    now_ms: u64,
    compared: &mut Compared,
) -> Result<(), Failure> {
    let (key, difference) = match seen {
        (Some(from), Some(to)) => {
            let is_same = match (&from.value, &to.value) {
                (Some(one), Some(other)) => one == other,
                _ => is_same_value(sides, &from.key)?,
            };
            let difference = if !is_same {
                Some(Difference::Value)
            } else if expire_together(from, to) {
                None
            } else {
                Some(Difference::Expiry)
            };
            (&from.key, difference)
        }
        // It may have expired before the other side was read.
        (Some(only), None) | (None, Some(only)) if only.is_about_to_expire(now_ms) => return Ok(()),
        (Some(from), None) => (&from.key, Some(Difference::OnlySource)),
        (None, Some(to)) => (&to.key, Some(Difference::OnlyTarget)),
        (None, None) => return Ok(()),
    };
    match difference {
        None => compared.same += 1,
        Some(difference) => compared.differs(key, difference),
    }
    Ok(())
}

fn is_same_value(sides: &Sides, key: &[u8]) -> Result<bool, Failure> {
    let of =
        |url| digest(url, key, sides.patience).map(|digest| digest.map(|digest| digest.as_ref().to_vec()));
    Ok(of(&sides.from)? == of(&sides.to)?)
}

/// The records of a side, one after the other.
struct Reader {
    read: Receiver<Result<Vec<Seen>, Failure>>,
    lot: IntoIter<Seen>,
}

impl Reader {
    fn start(url: &Url, whole: &Span, patience: Patience) -> Reader {
        let source = Source::new(url, whole.clone(), patience);
        let (sender, read) = sync_channel(LOTS_AHEAD);
        thread::spawn(move || {
            let mut wrong = None;
            let ended = source.read(|lot| match seen(&lot) {
                Ok(seen) => sender.send(Ok(seen)).is_ok(),
                Err(failure) => {
                    wrong = Some(failure);
                    false
                }
            });
            if let Some(failure) = wrong.or(ended.err()) {
                // If nobody listens any more, nobody wants to know.
                let _ = sender.send(Err(failure));
            }
        });
        Reader { read, lot: Vec::new().into_iter() }
    }

    fn next(&mut self) -> Result<Option<Seen>, Failure> {
        loop {
            if let Some(seen) = self.lot.next() {
                return Ok(Some(seen));
            }
            match self.read.recv() {
                Ok(lot) => self.lot = lot?.into_iter(),
                Err(_) => return Ok(None),
            }
        }
    }
}

fn seen(lot: &Lot) -> Result<Vec<Seen>, Failure> {
    let one = |item: &Item| match item {
        Item::Line(line) => {
            parse(line).map_err(|reason| Failure::Failed(format!("a line that is no record: {reason}")))
        }
        Item::Large { key, expires_ms } => {
            Ok(Seen { key: key.clone(), expires_ms: *expires_ms, value: None })
        }
    };
    lot.items.iter().map(one).collect()
}

fn parse(line: &[u8]) -> Result<Seen, String> {
    let members: Map<String, Value> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let expires_ms = members.get("expires_ms").map_or(Some(0), Value::as_u64);
    Ok(Seen {
        key: Member::of(&members, "key")?.bytes()?,
        expires_ms: expires_ms.ok_or("expires_ms is no whole number")?,
        value: Some(Member::of(&members, "value")?.bytes()?),
    })
}
