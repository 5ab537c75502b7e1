//! Where those who come back go on.

use bytes::Bytes;
use ladoga_model::{HybridClock, Quote};
use ladoga_service::{Error, Followed, Since};

use super::place::{Mark, Place, Progress};
use super::shared::Feed;
use super::token::{FeedName, Scanned, Token};

/// For how long the oldest token can still be used when it is given.
const OLDEST_GOOD_FOR_MS: u64 = 60_000;

impl Feed {
    /// The oldest timestamp after which all deletions are still there.
    pub(in super::super) fn horizon(&self) -> u64 {
        if !self.is_of_replica() {
            // The wall clock may have been ahead, and right again since.
            return self.oldest_kept().max(self.engine.deletions_dropped_up_to());
        }
        // What is not settled is not dropped, however old it is.
        let aged = self.oldest_kept().min(self.settled() + 1);
        self.kept.dropped_before().max(self.given.reserved()).max(aged).saturating_sub(1)
    }

    /// A token of this place, if one may be given.
    pub(in super::super) fn token_of(&self, place: &Place) -> Option<Box<str>> {
        let Progress { since, scanned, at } = place.progress();
        let feed = match self.cluster() {
            Some((cluster, ring)) => {
                let (ring, at) = at.map_or((0, 0), |at| (ring, at));
                FeedName::Cluster { cluster, ring, at }
            }
            None => {
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
        let Some(token) = Token::decode(text) else {
            return Err(Error::NoToken { found: Quote::of(text) });
        };
        self.check_feed(&token)?;
        let at = self.place_in_ring(&token, &mark);
        let Token { since, scanned, .. } = token;
        let (horizon, up_to) = (self.horizon(), scanned.as_ref().map_or(since, |scanned| scanned.up_to));
        let is_live = at.is_some() && scanned.as_ref().is_none_or(|scanned| scanned.key.is_empty());
        // Who has been told nothing yet needs no deletions, and the ring of a replica has them all.
        let is_too_old = [since, up_to].into_iter().any(|needed| 0 < needed && needed < horizon);
        if is_too_old && !(is_live && self.is_of_replica()) {
            return Err(self.gone("the token is too old: deletions that came after it may be gone"));
        }
        Ok(match (scanned, at, mark.settled) {
            (None, Some(at), settled) => Place::at(at, settled.map(|_| since)),
            (Some(_), Some(at), Some(_)) if is_live => Place::behind_a_scan(at, since, mark),
            (Some(Scanned { up_to, key }), Some(at), settled) => {
                // Of a node on its own, the ring tells what is newer than its place.
                let newest = if settled.is_some() { mark.newest } else { at };
                let mark = Mark { at, settled: settled.map(|_| up_to), newest };
                Place::still_scanning(span, since, key, mark)
            }
            // Of what other nodes have told, nothing is missing here.
            (scanned, None, Some(settled)) => {
                Place::scanning(span, (since, scanned), Mark { settled: Some(settled.max(since)), ..mark })
            }
            (scanned, None, None) => {
                let mark = Mark { at: mark.at.max(up_to), newest: mark.newest.max(up_to), ..mark };
                Place::scanning(span, (since, scanned), mark)
            }
        })
    }

    /// Whether a token is of this feed.
    fn check_feed(&self, token: &Token) -> Result<(), Error> {
        match (self.cluster(), token.feed) {
            (Some((own, _)), FeedName::Cluster { cluster, .. }) if own == cluster => Ok(()),
            (Some(_), _) => Err(self.gone("the token is of another cluster")),
            (None, FeedName::Directory(feed)) if self.given.feed() == Some(feed) => {
                let up_to = token.scanned.as_ref().map_or(0, |scanned| scanned.up_to);
                if token.since.max(up_to) > self.given.reserved() {
                    return Err(
                        self.gone("the token is newer than the data directory, which may be a backup")
                    );
                }
                Ok(())
            }
            (None, _) => Err(self.gone("the token is of another data directory")),
        }
    }

    /// From where on the ring has everything that was not told of the keys that were read, if it still goes back so far.
    fn place_in_ring(&self, token: &Token, mark: &Mark) -> Option<u64> {
        let at = match (self.cluster(), token.feed) {
            (Some((_, own)), FeedName::Cluster { ring, at, .. }) => {
                Some(at).filter(|&at| ring == own && at <= mark.at)?
            }
            _ => token.scanned.as_ref().map_or(token.since, |scanned| scanned.up_to),
        };
        self.behind(at).map(|_| at)
    }

    fn gone(&self, reason: &'static str) -> Error {
        // It has to be good for long enough to be used.
        let oldest_ms = HybridClock::wall_ms(self.horizon()) + (self.kept_ms / 2).min(OLDEST_GOOD_FOR_MS);
        let oldest = HybridClock::at_wall_ms(oldest_ms);
        let place = if self.is_of_replica() {
            // What is not settled may still be told.
            Place::at(0, Some(oldest.min(self.settled())))
        } else {
            // What comes behind the end of the feed is still to be told.
            let end = self.last().unwrap_or(0).min(self.given.reserved());
            Place::at(oldest.min(end), None)
        };
        Error::ChangesGone { reason, oldest: self.token_of(&place).unwrap_or_default() }
    }
}
