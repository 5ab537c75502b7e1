//! Where those who come back go on.

use bytes::Bytes;
use ladoga_model::{HybridClock, Quote};
use ladoga_service::{Error, Followed, Since};

use super::place::{Mark, Place};
use super::shared::Feed;
use super::token::{FeedName, Token};

/// For how long the oldest token can still be used when it is given.
const OLDEST_GOOD_FOR_MS: u64 = 60_000;

impl Feed {
    /// The oldest timestamp after which all deletions are still there.
    pub(in super::super) fn horizon(&self) -> u64 {
        if !self.is_of_replica() {
            return self.oldest_kept();
        }
        // What is not settled is not dropped, however old it is.
        let aged = self.oldest_kept().min(self.settled() + 1);
        self.kept.dropped_before().max(self.given.reserved()).max(aged).saturating_sub(1)
    }

    /// A token of this place, if one may be given.
    pub(in super::super) fn token_of(&self, place: &Place) -> Option<Box<str>> {
        let (since, scanned) = place.progress();
        let feed = match (self.cluster(), place) {
            (Some((cluster, ring)), Place::Live(live)) if live.raced.is_none() => {
                FeedName::Cluster { cluster, ring, at: live.at }
            }
            (Some((cluster, _)), _) => FeedName::Cluster { cluster, ring: 0, at: 0 },
            (None, _) => {
                let newest = scanned.as_ref().map_or(since, |scanned| scanned.up_to.max(since));
                FeedName::Directory(self.given.feed().filter(|_| newest <= self.given.reserved())?)
            }
        };
        // Or else deletions could be gone once it is used.
        self.given.feed()?;
        Some(Token { feed, since, scanned }.encode())
    }

    /// Where to begin, once it is prepared.
    pub(in super::super) fn place_of(&self, followed: &Followed) -> Result<Place, Error> {
        let (span, mark) = (&followed.span, self.mark());
        let text: &Bytes = match &followed.since {
            Since::Now => return Ok(Place::at(mark.at, mark.settled)),
            Since::Beginning => return Ok(Place::scanning(span, (0, None), mark)),
            Since::Token(text) => text,
        };
        let Some(Token { feed, since, scanned }) = Token::decode(text) else {
            return Err(Error::NoToken { found: Quote::of(text) });
        };
        let up_to = scanned.as_ref().map_or(since, |scanned| scanned.up_to);
        match (self.cluster(), feed) {
            (Some((own, own_ring)), FeedName::Cluster { cluster, ring, at }) if own == cluster => {
                let is_of_this_ring = ring == own_ring && scanned.is_none();
                if is_of_this_ring && at <= mark.at && self.behind(at).is_some() {
                    return Ok(Place::at(at, Some(since)));
                }
            }
            (Some(_), _) => return Err(self.gone("the token is of another cluster")),
            (None, FeedName::Directory(feed)) if self.given.feed() == Some(feed) => {
                if since.max(up_to) > self.given.reserved() {
                    return Err(
                        self.gone("the token is newer than the data directory, which may be a backup")
                    );
                }
            }
            (None, _) => return Err(self.gone("the token is of another data directory")),
        }
        let horizon = self.horizon();
        // Who has been told nothing yet needs no deletions.
        if [since, up_to].into_iter().any(|needed| 0 < needed && needed < horizon) {
            return Err(self.gone("the token is too old: deletions that came after it may be gone"));
        }
        if scanned.is_none() && mark.settled.is_none() && self.behind(since).is_some() {
            return Ok(Place::at(since, None));
        }
        let mark = match mark.settled {
            // Of what other nodes have told, nothing is missing here.
            Some(settled) => Mark { settled: Some(settled.max(since)), ..mark },
            None => Mark { at: mark.at.max(up_to), newest: mark.newest.max(up_to), ..mark },
        };
        Ok(Place::scanning(span, (since, scanned), mark))
    }

    fn gone(&self, reason: &'static str) -> Error {
        // It has to be good for long enough to be used.
        let oldest_ms = HybridClock::wall_ms(self.horizon()) + (self.kept_ms / 2).min(OLDEST_GOOD_FOR_MS);
        let oldest = HybridClock::at_wall_ms(oldest_ms);
        let place = if self.is_of_replica() {
            // What is not settled may still be told.
            Place::at(0, Some(oldest.min(self.settled())))
        } else {
            Place::at(oldest.min(self.given.reserved()), None)
        };
        Error::ChangesGone { reason, oldest: self.token_of(&place).unwrap_or_default() }
    }
}
