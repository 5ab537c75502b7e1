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
    /// Of the keys before the one below, everything up to this timestamp, too: by an earlier scan, which broke off.
    before: Option<Scanned>,
    /// Where this one ends, and the ring goes on.
    mark: Mark,
    /// What is left to be read.
    part: Part,
    /// The first key that is left of that part.
    start: Bytes,
    /// Behind the last one of all.
    end: Option<Bytes>,
}

/// A scan reads first what has come since an earlier one, of the keys that this had read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Those keys.
    Before,
    /// All others.
    Rest,
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

    /// To be read from the tables: what came after `since` and `before`, as a token has them, up to `mark`.
    pub(in super::super) fn scanning(
        span: &KeySpan,
        (since, before): (u64, Option<Scanned>),
        mark: Mark,
    ) -> Place {
        let (start, end) = (span.start.clone(), span.end.clone());
        // What an earlier scan has read of other keys does not matter.
        let before = before.filter(|before| start < before.key);
        let part = if before.is_some() { Part::Before } else { Part::Rest };
        Place::Scanning(Scanning { since, before, mark, part, start, end })
    }

    /// As a token has it: everything up to a timestamp was told, and how far a scan is.
    pub(super) fn progress(&self) -> (u64, Option<Scanned>) {
        match self {
            Place::Live(live) => (live.told(), None),
            Place::Scanning(Scanning { since, before, part: Part::Before, .. }) => (*since, before.clone()),
            Place::Scanning(Scanning { since, mark, start, .. }) => {
                (*since, Some(Scanned { up_to: mark.told(), key: start.clone() }))
            }
        }
    }
}

impl Scanning {
    /// What is to be read next.
    pub(in super::super) fn leg(&self) -> Leg {
        let Scanning { since, before, mark, part, start, end } = self;
        let (start, up_to) = (start.clone(), mark.newest);
        match (part, before) {
            (Part::Before, Some(Scanned { up_to: after, key })) => {
                let end = end.as_ref().map_or(key, |end| end.min(key));
                Leg { start, end: Some(end.clone()), after: *after, up_to }
            }
            _ => Leg { start, end: end.clone(), after: *since, up_to },
        }
    }

    /// The leg is read up to this key, or to its end, at `last` of the ring. Answers where that is.
    pub(in super::super) fn read_up_to(mut self, next: Option<Bytes>, last: u64) -> Place {
        match (next, self.part, self.before.take()) {
            (Some(next), _, before) => Place::Scanning(Scanning { start: next, before, ..self }),
            (None, Part::Before, Some(before)) => {
                let start = self.start.max(before.key);
                Place::Scanning(Scanning { part: Part::Rest, start, before: None, ..self })
            }
            (None, ..) => {
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

    #[test]
    fn a_scan_is_one_leg_and_then_live() {
        let place = Place::scanning(&span("a", None), (5, None), lone(9));
        assert_eq!(leg(&place), expected("a", None, 5, 9));
        let place = read_up_to(place, Some("m"));
        assert_eq!(place.progress(), (5, Some(scanned(9, "m"))));
        assert_eq!(leg(&place), expected("m", None, 5, 9));
        assert_eq!(read_up_to(place, None), Place::at(9, None));
        assert_eq!(Place::at(9, None).progress(), (9, None));
    }

    #[test]
    fn a_scan_that_broke_off_goes_on_and_reads_what_changed_behind_it() {
        let place = Place::scanning(&span("a", Some("z")), (5, Some(scanned(9, "m"))), lone(20));
        assert_eq!(leg(&place), expected("a", Some("m"), 9, 20));
        let place = read_up_to(place, Some("c"));
        assert_eq!(leg(&place), expected("c", Some("m"), 9, 20));
        assert_eq!(place.progress(), (5, Some(scanned(9, "m"))), "nothing is new before all of it is");
        let place = read_up_to(place, None);
        assert_eq!(leg(&place), expected("m", Some("z"), 5, 20));
        assert_eq!(place.progress(), (5, Some(scanned(20, "m"))));
        let place = read_up_to(place, Some("q"));
        assert_eq!(place.progress(), (5, Some(scanned(20, "q"))));
        assert_eq!(read_up_to(place, None), Place::at(20, None));
    }

    #[test]
    fn a_scan_of_other_keys_is_read_as_far_as_it_matters() {
        let place = Place::scanning(&span("n", None), (5, Some(scanned(9, "m"))), lone(20));
        assert_eq!(leg(&place), expected("n", None, 5, 20));
        let place = Place::scanning(&span("a", Some("c")), (5, Some(scanned(9, "m"))), lone(20));
        assert_eq!(leg(&place), expected("a", Some("c"), 9, 20));
        let place = read_up_to(place, None);
        assert_eq!(leg(&place), expected("m", Some("c"), 5, 20), "which is empty");
        assert_eq!(read_up_to(place, None), Place::at(20, None));
    }

    /// Its tokens promise what is settled, while the tables are read for all that was there.
    #[test]
    fn a_scan_of_a_replica_goes_on_in_the_ring_where_that_was() {
        let mark = Mark { at: 3, settled: Some(11), newest: 20 };
        let place = Place::scanning(&span("a", None), (5, None), mark);
        assert_eq!(leg(&place), expected("a", None, 5, 20));
        let place = read_up_to(place, Some("m"));
        assert_eq!(place.progress(), (5, Some(scanned(11, "m"))));
        let raced = Raced { until: 30, up_to: 20 };
        let live = Live { at: 3, settled: Some(11), raced: Some(raced) };
        let place = read_up_to(place, None);
        assert_eq!(place, Place::Live(live));
        assert_eq!(place.progress(), (11, None));
        assert_eq!(live.further(29, 10), Live { at: 29, settled: Some(11), raced: Some(raced) });
        assert_eq!(live.further(30, 12), Live { at: 30, settled: Some(12), raced: None });
    }
}
