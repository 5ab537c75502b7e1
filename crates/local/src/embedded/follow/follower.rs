use std::collections::HashMap;
use std::future::{Future, ready};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ladoga_model::{self as model, Cell};
use ladoga_service::{
    ChangeFormat, ChangePiece, ChangedTo, Error, Followed, Follower, KeySpan, StoreError, Told,
};
use ladoga_storage::{Engine, Error as EngineError, NewerStep, Value};

use super::super::feed::{Change, Feed, Group, Leg, Live, Place, Presence, Raced, Scanning, told};
use super::super::pool::DiskHandle;
use super::super::read_error;
use super::hub::Hub;
use crate::store::Later;

/// What is told at once, before the last change of a piece.
const PIECE_BYTES: usize = 64 << 10;
/// Changes of other keys that are looked at for one piece, from the ring and from the tables.
const LOOKS_MAX: u32 = 16 << 10;

/// Somebody who follows the changes of some keys.
pub(in super::super) struct EmbeddedFollower {
    reached: Reached,
    span: KeySpan,
    format: Box<dyn ChangeFormat>,
    place: Place,
    waiting: Ticket,
    _presence: Presence,
}

/// What a follower reaches the store by.
pub(in super::super) struct Reached {
    pub(in super::super) feed: Arc<Feed>,
    pub(in super::super) hub: Rc<Hub>,
    pub(in super::super) engine: Arc<Engine>,
    pub(in super::super) disk: DiskHandle,
    /// Calls [`Feed::begin`] in the turn of the commit.
    pub(in super::super) begin: Arc<dyn Fn() + Send + Sync>,
}

/// A number that the hub gave, given back when this is dropped.
struct Ticket {
    hub: Rc<Hub>,
    number: Option<usize>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Ticket {
    fn leave(&mut self) -> Option<u64> {
        self.number.take().map(|number| self.hub.leave(number))
    }
}

impl Reached {
    /// Begins to keep what is followed, reserves time for tokens, moves the end of the feed on: if any of that is due.
    fn prepare(&self) -> Option<impl Future<Output = Result<(), StoreError>> + use<>> {
        if !self.feed.is_to_prepare() {
            return None;
        }
        let (feed, begin) = (Arc::clone(&self.feed), Arc::clone(&self.begin));
        Some(self.disk.submit(move || {
            if let Err(error) = feed.prepare(&*begin) {
                // What is followed goes on; but its tokens may stand still until there is room again.
                tracing::warn!(%error, "cannot save how far the feed of changes is");
            }
            Ok(())
        }))
    }
}

impl EmbeddedFollower {
    /// Begins to follow.
    pub(in super::super) fn begin(
        reached: Reached,
        followed: Followed,
        format: Box<dyn ChangeFormat>,
    ) -> Later<Result<Box<dyn Follower>, Error>> {
        let Some(presence) = reached.feed.enter() else { return Box::pin(ready(Err(Error::NoChanges))) };
        Box::pin(async move {
            if let Some(prepared) = reached.prepare() {
                prepared.await?;
            }
            if !reached.feed.is_prepared() {
                let reason = "the feed of changes cannot begin: the disk is full, or writes have failed";
                return Err(StoreError::Failed { reason: reason.to_owned() }.into());
            }
            let place = reached.feed.place_of(&followed)?;
            if matches!(place, Place::Scanning(_)) {
                reached.feed.count_catch_up();
            }
            let waiting = Ticket { hub: Rc::clone(&reached.hub), number: None };
            let span = followed.span;
            let follower = EmbeddedFollower { reached, span, format, place, waiting, _presence: presence };
            Ok(Box::new(follower) as Box<dyn Follower>)
        })
    }

    /// The next piece from the ring; `None` if it does not go back so far.
    fn read_ring(&mut self, mut live: Live) -> Option<ChangePiece> {
        let feed = &self.reached.feed;
        // Asked first: what is settled by then is in the ring, or was before it.
        let settled = feed.settled();
        let (groups, last) = feed.behind(live.at)?;
        let overtaken = Overtaken::of(&groups, live);
        let (mut bytes, mut looks, from, now_ms) = (Vec::new(), 0, live.at, feed.expiry_ms());
        for group in &groups {
            for change in group.after(from) {
                let is_full = bytes.len() >= PIECE_BYTES || looks >= LOOKS_MAX;
                // Cells of one timestamp are told together, or else a token could not come between them.
                if is_full && change.at > live.at {
                    self.place = Place::Live(live);
                    return Some(self.piece(bytes, false));
                }
                looks += 1;
                live = live.further(change.at, group.settled());
                if is_inside(&self.span, &change.key) && !overtaken.has(change) {
                    let Change { key, cell, .. } = change;
                    let value = cell.value.as_ref().map(told);
                    tell(&mut *self.format, &mut bytes, key, Cell { stamp: cell.stamp, value }, now_ms);
                }
            }
        }
        self.place = Place::Live(live.further(last, settled));
        Some(self.piece(bytes, true))
    }

    fn piece(&self, bytes: Vec<u8>, is_all: bool) -> ChangePiece {
        ChangePiece { bytes, token: self.reached.feed.token_of(&self.place), is_all }
    }

    async fn told_next(mut self: Box<Self>) -> Result<Told, StoreError> {
        if let Some(nothing_until) = self.waiting.leave()
            && let Place::Live(live) = &mut self.place
        {
            *live = live.further(nothing_until.max(live.at), 0);
        }
        if let Some(prepared) = self.reached.prepare() {
            prepared.await?;
        }
        if let Place::Live(live) = self.place {
            if let Some(piece) = self.read_ring(live) {
                return Ok((piece, self as Box<dyn Follower>));
            }
            // It was slow: what it has missed is in the tables.
            self.reached.feed.count_catch_up();
            self.place = Place::scanning(&self.span, (live.told(), None), self.reached.feed.mark_from(live));
        }
        let Place::Scanning(scanning) = self.place.clone() else {
            unreachable!("it was live, and is no more")
        };
        self.read_tables(scanning).await
    }

    /// The next piece from the tables. Each is read from a snapshot of its own, so that a slow reader keeps nothing.
    async fn read_tables(self: Box<Self>, scanning: Scanning) -> Result<Told, StoreError> {
        let EmbeddedFollower { reached, span, mut format, waiting, _presence: presence, .. } = *self;
        let (engine, feed, leg) = (Arc::clone(&reached.engine), Arc::clone(&reached.feed), scanning.leg());
        let begin = Arc::clone(&reached.begin);
        let read = reached.disk.submit(move || {
            let (bytes, next) = read_leg(&engine, &feed, &leg, &mut *format)?;
            if next.is_none() && feed.is_of_replica() {
                // In the turn of the commit: what was read is in the ring before its end.
                begin();
            }
            Ok((bytes, next, feed.last().unwrap_or(0), format))
        });
        let (bytes, next, last, format) = read.await?;
        let place = scanning.read_up_to(next, last);
        let follower = EmbeddedFollower { reached, span, format, place, waiting, _presence: presence };
        Ok((follower.piece(bytes, false), Box::new(follower) as Box<dyn Follower>))
    }
}

impl Follower for EmbeddedFollower {
    fn next(self: Box<Self>) -> Later<Result<Told, StoreError>> {
        Box::pin(self.told_next())
    }

    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Place::Live(live) = self.place else { return Poll::Ready(()) };
        if let Some(number) = self.waiting.number {
            return self.reached.hub.poll(number, context);
        }
        self.waiting.number = self.reached.hub.enter(&self.span, live.at, context);
        if self.waiting.number.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

/// Changes that the tables may have told already, together with newer ones of the same keys: told again, they would come after those.
#[derive(Default)]
struct Overtaken<'g>(HashMap<&'g [u8], u64>, u64);

impl<'g> Overtaken<'g> {
    /// Where the last such change of each key is.
    fn of(groups: &'g [Arc<Group>], live: Live) -> Overtaken<'g> {
        let Some(Raced { until, up_to }) = live.raced else { return Overtaken::default() };
        let behind = groups.iter().flat_map(|group| group.after(live.at));
        let raced =
            behind.take_while(|change| change.at <= until).filter(|change| change.timestamp() <= up_to);
        Overtaken(raced.map(|change| (&change.key[..], change.at)).collect(), up_to)
    }

    fn has(&self, change: &Change) -> bool {
        let Overtaken(last, up_to) = self;
        change.timestamp() <= *up_to && last.get(&change.key[..]).is_some_and(|&last| change.at < last)
    }
}

fn is_inside(span: &KeySpan, key: &[u8]) -> bool {
    &span.start[..] <= key && span.end.as_ref().is_none_or(|end| key < &end[..])
}

fn tell(format: &mut dyn ChangeFormat, out: &mut Vec<u8>, key: &[u8], cell: Cell<&[u8], u64>, now_ms: u64) {
    let to = match cell.value {
        _ if cell.stamp.is_expired(now_ms) => ChangedTo::Expired,
        Some(value) => ChangedTo::Value(value),
        // By a clock that was set back since.
        None if cell.stamp.expires_at_ms != 0 => ChangedTo::Expired,
        None => ChangedTo::Nothing,
    };
    format.change(out, key, cell.stamp, to);
}

/// Some of a leg, and the key at which it goes on, if it does. On a thread that may wait.
fn read_leg(
    engine: &Engine,
    feed: &Feed,
    leg: &Leg,
    format: &mut dyn ChangeFormat,
) -> Result<(Vec<u8>, Option<Bytes>), StoreError> {
    let Leg { start, end, after, up_to } = leg;
    let snapshot = engine.snapshot();
    // Asked behind the snapshot: nothing that is dropped later is missing in it.
    if *after > 0 && *after < feed.horizon() {
        let kept = "deletions are kept no longer than it took to read what changed";
        return Err(StoreError::Unreadable { reason: kept.to_owned() });
    }
    let (mut bytes, mut looks, mut at, now_ms) = (Vec::new(), LOOKS_MAX, start.clone(), feed.expiry_ms());
    let mut newer =
        snapshot.newer(start, end.as_deref(), *after, *up_to).map_err(|error| read_error(&error))?;
    while bytes.len() < PIECE_BYTES {
        match newer.step(&mut looks) {
            Ok(NewerStep::Found(key, cell)) => {
                let value = cell.value.as_ref().map(|value| match value {
                    Value::Inline(bytes) => model::Value::Inline(&bytes[..]),
                    Value::Large(blob) => model::Value::Large(blob.len()),
                });
                tell(format, &mut bytes, &key, Cell { stamp: cell.stamp, value }, now_ms);
                at = Bytes::from([&key[..], &[0]].concat());
            }
            Ok(NewerStep::NotYet(key)) => return Ok((bytes, Some(key))),
            Ok(NewerStep::End) => return Ok((bytes, None)),
            // The next piece has another snapshot.
            Err(EngineError::SnapshotTooOld { .. }) => break,
            Err(error) => return Err(read_error(&error)),
        }
    }
    Ok((bytes, Some(at)))
}

#[cfg(test)]
mod tests {
    use ladoga_model::{Stamp, Version};

    use super::super::told::Text;
    use super::*;

    #[test]
    fn what_has_expired_by_any_clock_is_told_as_such() {
        let told = |expires_at_ms, value: Option<model::Value<&[u8], u64>>| {
            let stamp = Stamp { expires_at_ms, ..Stamp::new(Version { timestamp: 7, node: 0 }) };
            let mut out = Vec::new();
            tell(&mut Text, &mut out, b"k", Cell { stamp, value }, 50);
            String::from_utf8(out).expect("text")
        };
        assert_eq!(told(0, Some(model::Value::Inline(b"v"))), "k 7 0 put v\n");
        assert_eq!(told(51, Some(model::Value::Inline(b"v"))), "k 7 51 put v\n");
        assert_eq!(told(50, Some(model::Value::Large(9))), "k 7 50 expire\n");
        assert_eq!(told(0, None), "k 7 0 delete\n");
        // A compaction has dropped its value as expired, before the clock was set back.
        assert_eq!(told(51, None), "k 7 51 expire\n");
    }
}
