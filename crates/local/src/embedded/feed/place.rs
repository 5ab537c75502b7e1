use bytes::Bytes;
use ladoga_service::KeySpan;

use super::token::Scanned;

/// What a follower is to read, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Place {
    /// What comes behind this place, from the ring.
    Live(Live),
    /// What came after a timestamp, from the tables.
    Scanning(Scanning),
}

/// What a token says of a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Everything up to this timestamp was told.
    pub(super) since: u64,
    /// How far the tables were read for what comes after it.
    pub(super) scanned: Option<Scanned>,
    /// The place in the ring with which it goes on, behind what was read from the tables; `None` if there is none: of some keys,
    /// everything up to a timestamp alone was told.
    pub(super) at: Option<u64>,
}

/// A place in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Live {
    /// Everything up to here was told.
    pub(in super::super) at: u64,
    /// Of a replica: everything with this timestamp or an earlier one was told, and nothing of it comes any more. Of a node on its
    /// own, that is the place itself.
    pub(in super::super) settled: Option<u64>,
    /// What the tables may have told already, if they have just been read.
    pub(in super::super) raced: Option<Raced>,
}

/// Changes that arrived while the tables of a replica were read, and are not newer than what was wanted of those: some of them were
/// told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Raced {
    /// At this place at the latest.
    pub(in super::super) until: u64,
    /// With this timestamp at the latest.
    pub(in super::super) up_to: u64,
}

/// The end of the feed, when a scan begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Mark {
    /// Its place.
    pub(in super::super) at: u64,
    /// As of a place in the ring.
    pub(in super::super) settled: Option<u64>,
    /// No cell that was there has a later timestamp.
    pub(in super::super) newest: u64,
}

impl Mark {
    /// Up to which timestamp everything is told, once the tables are read.
    fn told(&self) -> u64 {
        self.settled.unwrap_or(self.newest)
    }
}

/// A scan of the tables for what came after a timestamp and up to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Scanning {
    /// Everything up to here was told before.
    since: u64,
    /// Of the keys before the one below, everything up to this timestamp, too: by an earlier scan, which broke off. What has come to
    /// those since then is read at last: each scan that breaks off gets further, however much that is.
    before: Option<Scanned>,
    /// Where this one ends, and the ring goes on.
    mark: Mark,
    /// The first key of all.
    first: Bytes,
    /// The first one that is left.
    start: Bytes,
    /// Behind the last one of all.
    end: Option<Bytes>,
}

/// Some keys, and after which timestamp their cells are wanted, and up to which.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Leg {
    pub(in super::super) start: Bytes,
    pub(in super::super) end: Option<Bytes>,
    pub(in super::super) after: u64,
    pub(in super::super) up_to: u64,
}

impl Live {
    /// Up to which timestamp everything was told.
    pub(in super::super) fn told(&self) -> u64 {
        self.settled.unwrap_or(self.at)
    }

    /// The same further on: everything up to `at` was told, and `settled` holds there.
    pub(in super::super) fn further(self, at: u64, settled: u64) -> Live {
        Live {
            at,
            settled: self.settled.map(|before| before.max(settled)),
            raced: self.raced.filter(|raced| at < raced.until),
        }
    }
}

impl Place {
    pub(in super::super) const fn at(at: u64, settled: Option<u64>) -> Place {
        Place::Live(Live { at, settled, raced: None })
    }

    /// Behind a scan of a replica, and what the ring tells from here on to its end the scan may have told.
    pub(super) const fn behind_a_scan(at: u64, settled: u64, mark: Mark) -> Place {
        let raced = Raced { until: mark.at, up_to: mark.newest };
        Place::Live(Live { at, settled: Some(settled), raced: Some(raced) })
    }

    /// To be read from the tables: what came after `since` and `before`, as a token has them, up to `mark`.
    pub(in super::super) fn scanning(
        span: &KeySpan,
        (since, before): (u64, Option<Scanned>),
        mark: Mark,
    ) -> Place {
        let (first, end) = (span.start.clone(), span.end.clone());
        // What an earlier scan has read of other keys does not matter.
        let before = before.filter(|before| first < before.key);
        let start = before.as_ref().map_or(&first, |before| &before.key).clone();
        Place::Scanning(Scanning { since, before, mark, first, start, end })
    }

    /// A scan that broke off goes on at this key; what has come since it began is in the ring, behind `mark`.
    pub(super) fn still_scanning(span: &KeySpan, since: u64, key: Bytes, mark: Mark) -> Place {
        let (first, end) = (span.start.clone(), span.end.clone());
        let start = key.max(first.clone());
        Place::Scanning(Scanning { since, before: None, mark, first, start, end })
    }

    /// What a token says of it.
    pub(super) fn progress(&self) -> Progress {
        match self {
            Place::Live(live) => {
                let since = live.told();
                let scanned = live.raced.map(|_| Scanned::all(since));
                Progress { since, scanned, at: Some(live.at) }
            }
            // Nothing of it was read yet.
            Place::Scanning(Scanning { since, first, start, .. }) if start == first => {
                Progress { since: *since, scanned: None, at: None }
            }
            Place::Scanning(Scanning { since, before, mark, start, .. }) => {
                let told = before.as_ref().map_or(u64::MAX, |before| before.up_to).min(mark.told());
                let at = if before.is_none() { Some(mark.at) } else { None };
                Progress { since: *since, scanned: Some(Scanned { up_to: told, key: start.clone() }), at }
            }
        }
    }
}

impl Scanning {
    /// What is to be read next.
    pub(in super::super) fn leg(&self) -> Leg {
        let Scanning { since, mark, start, end, .. } = self;
        Leg { start: start.clone(), end: end.clone(), after: *since, up_to: mark.newest }
    }

    /// The leg is read up to this key, or to its end, at `last` of the ring. Answers where that is.
    pub(in super::super) fn read_up_to(mut self, next: Option<Bytes>, last: u64) -> Place {
        match (next, self.before.take()) {
            (Some(next), before) => Place::Scanning(Scanning { start: next, before, ..self }),
            (None, Some(Scanned { up_to, key })) => {
                let (since, start) = (up_to.min(self.mark.told()), self.first.clone());
                let end = Some(self.end.take().map_or(key.clone(), |end| end.min(key)));
                Place::Scanning(Scanning { since, start, end, ..self })
            }
            (None, None) => {
                let Mark { at, settled, newest } = self.mark;
                // Of a node on its own, what comes is newer than all that was read.
                let raced =
                    settled.map(|_| Raced { until: last, up_to: newest }).filter(|raced| at < raced.until);
                Place::Live(Live { at, settled, raced })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: &'static str, end: Option<&'static str>) -> KeySpan {
        KeySpan { start: Bytes::from(start), end: end.map(Bytes::from), is_reverse: false }
    }

    fn scanned(up_to: u64, key: &'static str) -> Scanned {
        Scanned { up_to, key: Bytes::from(key) }
    }

    /// Of a node on its own.
    fn lone(timestamp: u64) -> Mark {
        Mark { at: timestamp, settled: None, newest: timestamp }
    }

    fn leg(place: &Place) -> Leg {
        let Place::Scanning(scanning) = place else { panic!("it is live: {place:?}") };
        scanning.leg()
    }

    fn read_up_to(place: Place, next: Option<&'static str>) -> Place {
        let Place::Scanning(scanning) = place else { panic!("it is live: {place:?}") };
        scanning.read_up_to(next.map(Bytes::from), 30)
    }

    fn expected(start: &'static str, end: Option<&'static str>, after: u64, up_to: u64) -> Leg {
        Leg { start: Bytes::from(start), end: end.map(Bytes::from), after, up_to }
    }

    /// What a token says: everything up to when, of which keys up to when too, and where the ring goes on.
    fn said(since: u64, scanned: Option<(u64, &'static str)>, at: Option<u64>) -> Progress {
        Progress { since, scanned: scanned.map(|(up_to, key)| self::scanned(up_to, key)), at }
    }

    #[test]
    fn a_scan_is_one_leg_and_then_live() {
        let place = Place::scanning(&span("a", None), (5, None), lone(9));
        assert_eq!(leg(&place), expected("a", None, 5, 9));
        assert_eq!(place.progress(), said(5, None, None), "nothing was read");
        let place = read_up_to(place, Some("m"));
        assert_eq!(place.progress(), said(5, Some((9, "m")), Some(9)));
        assert_eq!(leg(&place), expected("m", None, 5, 9));
        assert_eq!(read_up_to(place, None), Place::at(9, None));
        assert_eq!(Place::at(9, None).progress(), said(9, None, Some(9)));
    }

    #[test]
    fn a_scan_that_broke_off_goes_on_and_then_reads_what_changed_behind_it() {
        let place = Place::scanning(&span("a", Some("z")), (5, Some(scanned(9, "m"))), lone(20));
        assert_eq!(leg(&place), expected("m", Some("z"), 5, 20));
        let place = read_up_to(place, Some("q"));
        assert_eq!(leg(&place), expected("q", Some("z"), 5, 20));
        assert_eq!(place.progress(), said(5, Some((9, "q")), None), "of those before m, no more is told");
        let place = read_up_to(place, None);
        assert_eq!(leg(&place), expected("a", Some("m"), 9, 20));
        assert_eq!(place.progress(), said(9, None, None));
        let place = read_up_to(place, Some("c"));
        assert_eq!(leg(&place), expected("c", Some("m"), 9, 20));
        assert_eq!(place.progress(), said(9, Some((20, "c")), Some(20)));
        assert_eq!(read_up_to(place, None), Place::at(20, None));
    }

    #[test]
    fn a_scan_of_other_keys_is_read_as_far_as_it_matters() {
        let place = Place::scanning(&span("n", None), (5, Some(scanned(9, "m"))), lone(20));
        assert_eq!(leg(&place), expected("n", None, 5, 20));
        let place = Place::scanning(&span("a", Some("c")), (5, Some(scanned(9, "m"))), lone(20));
        assert_eq!(leg(&place), expected("m", Some("c"), 5, 20), "which is empty");
        let place = read_up_to(place, None);
        assert_eq!(leg(&place), expected("a", Some("c"), 9, 20));
        assert_eq!(read_up_to(place, None), Place::at(20, None));
        let place = Place::still_scanning(&span("n", None), 5, Bytes::from("m"), lone(9));
        assert_eq!(leg(&place), expected("n", None, 5, 9));
        let place = Place::still_scanning(&span("a", None), 5, Bytes::from("m"), lone(9));
        assert_eq!(leg(&place), expected("m", None, 5, 9));
    }

    /// Its tokens promise what is settled, while the tables are read for all that was there.
    #[test]
    fn a_scan_of_a_replica_goes_on_in_the_ring_where_that_was() {
        let mark = Mark { at: 3, settled: Some(11), newest: 20 };
        let place = Place::scanning(&span("a", None), (5, None), mark);
        assert_eq!(leg(&place), expected("a", None, 5, 20));
        let place = read_up_to(place, Some("m"));
        assert_eq!(place.progress(), said(5, Some((11, "m")), Some(3)));
        let raced = Raced { until: 30, up_to: 20 };
        let live = Live { at: 3, settled: Some(11), raced: Some(raced) };
        let place = read_up_to(place, None);
        assert_eq!(place, Place::Live(live));
        assert_eq!(place.progress(), said(11, Some((11, "")), Some(3)));
        assert_eq!(Place::behind_a_scan(3, 11, Mark { at: 30, settled: Some(12), newest: 20 }), place);
        assert_eq!(live.further(29, 10), Live { at: 29, settled: Some(11), raced: Some(raced) });
        let live = live.further(30, 12);
        assert_eq!(live, Live { at: 30, settled: Some(12), raced: None });
        assert_eq!(Place::Live(live).progress(), said(12, None, Some(30)));
        // What another node has told may be older than what is settled here.
        let place = Place::scanning(&span("a", None), (5, Some(scanned(15, "m"))), mark);
        let place = read_up_to(place, Some("q"));
        assert_eq!(place.progress(), said(5, Some((11, "q")), None));
        assert_eq!(read_up_to(place, None).progress(), said(11, None, None));
    }
}
