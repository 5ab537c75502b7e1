//! What became of earlier ballots of the same request.
//!
//! A ballot that was outbid after its cell was sent may have left it on a replica. The request remembers each of those, and looks
//! for it on the next majority of promises:
//!
//! - It is the newest cell: the request goes on with it. The same value is accepted again, or is on a majority already.
//! - Everything there is older: it is on a minority at most, and the promises keep it there. The next cell that is accepted buries
//!   it. So that has to be one: if there is nothing to change, it is the newest cell, once more.
//! - Something newer is there: nobody knows whether that took the earlier cell into account. The answer is "may have happened".
//!
//! A ballot is forgotten once something newer is known to be on a majority, and not before. To find one of the later ones on some
//! replica does not do: the next majority may lack that replica, and have the earlier one as its newest cell again.

use ladoga_model::Version;

/// A ballot whose cell a replica may have.
#[derive(Debug, Clone, Hash)]
struct Ballot<T> {
    version: Version,
    /// What the client is to be told, if the cell is its change; none if it only keeps older ones out.
    answer: Option<T>,
}

/// The ballots of a request that may be somewhere, the oldest first.
#[derive(Debug, Clone, Hash)]
pub struct Ballots<T>(Vec<Ballot<T>>);

/// What a request has to do, by the newest cell of a majority of promises.
#[derive(Debug, PartialEq, Eq)]
pub enum Course<T> {
    /// Nothing: a majority has its change. The answer.
    Done(T),
    /// To have the newest cell accepted once more. With an answer, it is the change; without one, it only keeps older ones out.
    Again(Option<T>),
    /// To say that nobody knows whether it happened.
    Unknown,
    /// To decide by the newest cell.
    Decide,
}

impl<T: Clone> Ballots<T> {
    /// Of a request that begins; with a version under which a replica may have the change already.
    pub fn new(earlier: Option<(Version, T)>) -> Ballots<T> {
        let ballot = |(version, answer)| Ballot { version, answer: Some(answer) };
        Ballots(earlier.into_iter().map(ballot).collect())
    }

    /// Whether none can be anywhere.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one may be somewhere that carries something of the request, and not only what was there before.
    pub fn carry_something(&self) -> bool {
        self.0.iter().any(|ballot| ballot.answer.is_some())
    }

    /// Another one, newer than those before, may be somewhere.
    pub fn left(&mut self, version: Version, answer: Option<T>) {
        self.0.push(Ballot { version, answer });
    }

    /// The versions under which something of the request may be somewhere.
    pub fn versions(&self) -> impl Iterator<Item = Version> {
        self.0.iter().map(|ballot| ballot.version)
    }

    /// A newer cell is on a majority.
    pub fn buried(&mut self) {
        self.0.clear();
    }

    /// What follows from the newest cell of a majority of promises; `is_stable` if each of them has it.
    pub fn course(&mut self, newest: Option<Version>, is_stable: bool) -> Course<T> {
        let Some(index) = self.0.iter().position(|ballot| Some(ballot.version) == newest) else {
            let is_own = |ballot: &&Ballot<T>| ballot.answer.is_some();
            let is_overtaken = self.0.iter().filter(is_own).any(|ballot| Some(ballot.version) < newest);
            return if is_overtaken { Course::Unknown } else { Course::Decide };
        };
        let is_last = index + 1 == self.0.len();
        match self.0[index].answer.clone() {
            Some(answer) if is_stable && is_last => Course::Done(answer),
            None if is_stable => {
                // Those up to it are never the newest on a majority any more.
                self.0.drain(..=index);
                Course::Decide
            }
            answer => Course::Again(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn version(timestamp: u64) -> Version {
        Version { timestamp, node: 1 }
    }

    fn left(ballots: &[(u64, Option<u8>)]) -> Ballots<u8> {
        let mut all = Ballots::new(None);
        ballots.iter().for_each(|&(at, answer)| all.left(version(at), answer));
        all
    }

    #[test]
    fn a_request_goes_on_with_its_own_cell_and_not_after_one_that_may_be_built_on_it() {
        let mut ballots = left(&[(5, Some(1))]);
        assert_eq!(ballots.course(Some(version(4)), true), Course::Decide);
        assert_eq!(ballots.course(None, true), Course::Decide);
        assert_eq!(ballots.course(Some(version(5)), false), Course::Again(Some(1)));
        assert_eq!(ballots.course(Some(version(5)), true), Course::Done(1));
        assert_eq!(ballots.course(Some(version(6)), true), Course::Unknown);
        assert_eq!(
            left(&[(5, None)]).course(Some(version(6)), true),
            Course::Decide,
            "nothing of it is anywhere"
        );
        assert_eq!(left(&[(4, Some(1)), (5, None)]).course(Some(version(6)), true), Course::Unknown);
        let mut ballots = Ballots::new(Some((version(5), 1)));
        assert_eq!(ballots.course(Some(version(5)), true), Course::Done(1));
        ballots.buried();
        assert!(ballots.is_empty() && ballots.course(Some(version(6)), true) == Course::Decide);
    }

    #[test]
    fn a_change_that_a_majority_has_is_done_if_no_later_ballot_is_somewhere() {
        let mut ballots = left(&[(5, Some(1)), (7, None)]);
        assert_eq!(ballots.course(Some(version(5)), true), Course::Again(Some(1)));
    }

    /// It was forgotten as soon as the later one was seen, on one replica. Without that one, the earlier cell was taken for another
    /// request's, and the change was made a second time.
    #[test]
    fn an_earlier_ballot_is_known_again_when_the_later_one_is_out_of_sight() {
        let mut ballots = left(&[(5, Some(1)), (7, Some(2))]);
        assert_eq!(ballots.course(Some(version(7)), false), Course::Again(Some(2)));
        assert_eq!(ballots.course(Some(version(5)), false), Course::Again(Some(1)));
        assert_eq!(ballots.course(Some(version(6)), false), Course::Unknown);
    }

    /// What is to bury the change was seen on one replica, and counted as if a majority had it: the client was refused, and then its
    /// change was there.
    #[test]
    fn what_buries_a_change_counts_once_a_majority_has_it() {
        let mut ballots = left(&[(5, Some(1)), (7, None)]);
        assert_eq!(ballots.course(Some(version(7)), false), Course::Again(None));
        assert_eq!(ballots.course(Some(version(5)), false), Course::Again(Some(1)));
        assert_eq!(ballots.course(Some(version(7)), true), Course::Decide);
        assert!(ballots.is_empty());
    }
}
