use ladoga_model::Version;

use super::*;

const NODES: Replicas = Replicas { ack: 2, from: 3 };

/// A history, one event after the other.
#[derive(Default)]
struct Told {
    histories: Histories,
    us: u64,
    number: u64,
}

impl Told {
    fn begins(&mut self, key: &str, wish: Wish) -> Request {
        self.number += 1;
        self.us += 1;
        let (key, replicas) = (key.as_bytes().to_vec(), NODES);
        let request = Request { number: self.number, began_us: self.us, node: 0, key, wish, replicas };
        self.histories.begins(&request);
        request
    }

    fn ends(&mut self, request: &Request, answer: Answer, because_of: (Option<u64>, Option<u64>)) {
        self.us += 1;
        self.histories.ends(self.us, request, &Ok(answer), because_of);
    }

    /// One request after the other; answers its number.
    fn tell(&mut self, key: &str, wish: Wish, answer: Answer) -> u64 {
        let request = self.begins(key, wish);
        self.ends(&request, answer, (None, None));
        request.number
    }

    fn put(&mut self, key: &str) -> u64 {
        let value = (self.number + 1).to_le_bytes().to_vec();
        self.tell(key, Wish::Put { value, ttl: None }, Answer::Written(Some(version(self.number + 1))))
    }

    fn reads(&mut self, key: &str, write: Option<u64>) {
        let value = write.map(|write| write.to_le_bytes().to_vec());
        self.tell(key, Wish::Get, Answer::Read(found(write, value)));
    }

    /// Nothing, because this has expired.
    fn reads_expired(&mut self, key: &str, write: u64) {
        let request = self.begins(key, Wish::Get);
        self.ends(&request, Answer::Read(found(Some(write), None)), (Some(write), None));
    }

    fn disorder(&self, expiries: &[(u64, u64)]) -> Option<String> {
        self.histories.disorder(&expiries.iter().copied().collect())
    }
}

fn version(write: u64) -> Version {
    Version { timestamp: write, node: 0 }
}

fn found(write: Option<u64>, value: Option<Vec<u8>>) -> Found {
    Found { version: write.map(version), value, as_of_ms: Some(1..=1) }
}

/// It expires as early as any clock has it.
const SOON: u64 = AHEAD_MS_MAX;

#[test]
fn a_value_that_expires_becomes_nothing_once_and_not_before_its_time() {
    let mut told = Told::default();
    let write = told.put("key");
    told.reads("key", Some(write));
    told.reads_expired("key", write);
    told.reads("key", None);
    assert_eq!(told.disorder(&[(write, SOON)]), None);
    assert!(told.disorder(&[]).is_some(), "it never expires");
    assert!(told.disorder(&[(write, SOON + 1)]).is_some(), "it expires later");
    let next = told.put("key");
    told.reads("key", Some(next));
    assert_eq!(told.disorder(&[(write, SOON)]), None);
    told.reads("key", None);
    assert!(told.disorder(&[(write, SOON)]).is_some(), "what does not expire is lost");
}

#[test]
fn two_coordinators_may_disagree_about_what_expires_and_about_nothing_else() {
    let mut told = Told::default();
    let write = told.put("key");
    told.reads_expired("key", write);
    // This one's clock is behind.
    told.reads("key", Some(write));
    told.reads_expired("key", write);
    assert_eq!(told.disorder(&[(write, SOON)]), None);
    told.put("key");
    told.reads_expired("key", write);
    assert!(told.disorder(&[(write, SOON)]).is_some(), "it is overwritten");

    let mut told = Told::default();
    let write = told.put("key");
    told.reads("key", None);
    told.reads("key", Some(write));
    assert!(told.disorder(&[(write, SOON)]).is_some(), "nobody said that it had expired");
}

#[test]
fn what_has_expired_and_was_not_seen_may_have_taken_the_place_of_something() {
    let mut told = Told::default();
    told.put("key");
    let lost = told.begins("key", Wish::Put { value: 2_u64.to_le_bytes().to_vec(), ttl: None });
    told.reads("key", None);
    assert_eq!(told.disorder(&[(lost.number, SOON)]), None);
    assert!(told.disorder(&[]).is_some());
}

#[test]
fn a_count_is_at_least_what_was_acknowledged_and_no_more_than_was_asked_for() {
    let counted = |added: u64, unknown: u64, read: u64| {
        let mut told = Told::default();
        for count in 1..=added {
            told.tell("counter", Wish::Increment, Answer::Counted(count, version(count)));
        }
        for _ in 0..unknown {
            told.begins("counter", Wish::Increment);
        }
        let value = Some(read.to_string().into_bytes());
        told.tell("counter", Wish::Get, Answer::Read(found(Some(read), value)));
        told.disorder(&[])
    };
    assert_eq!([counted(3, 2, 3), counted(3, 2, 5), counted(3, 0, 3)], [None, None, None]);
    for (wrong, what) in [(counted(3, 2, 2), "one is lost"), (counted(3, 2, 6), "one is counted twice")] {
        assert!(wrong.is_some_and(|wrong| wrong.contains("were added")), "{what}");
    }
}

#[test]
fn two_clients_that_add_one_are_not_told_the_same_number() {
    let mut told = Told::default();
    let [one, other] = [told.begins("counter", Wish::Increment), told.begins("counter", Wish::Increment)];
    told.ends(&one, Answer::Counted(1, version(1)), (None, None));
    told.ends(&other, Answer::Counted(1, version(2)), (None, None));
    told.tell("counter", Wish::Get, Answer::Read(found(Some(2), Some(b"2".to_vec()))));
    assert!(told.disorder(&[]).is_some_and(|wrong| wrong.contains("not linearizable")));
}

fn put_if(number: u64, expected: Option<u64>) -> Wish {
    let value = number.to_le_bytes().to_vec();
    Wish::PutIf { value, expected: expected.map(|write| (version(write), write)) }
}

#[test]
fn of_two_that_expect_the_same_one_is_refused() {
    let mut told = Told::default();
    let first = told.tell("compared", put_if(1, None), Answer::Written(Some(version(1))));
    let second = told.tell("compared", put_if(2, Some(first)), Answer::Written(Some(version(2))));
    let refused = told.begins("compared", put_if(3, Some(first)));
    told.ends(&refused, Answer::Refused(Some(version(2))), (None, Some(second)));
    told.reads("compared", Some(second));
    assert_eq!(told.disorder(&[]), None);
    told.tell("compared", put_if(told.number + 1, Some(first)), Answer::Written(Some(version(9))));
    assert!(told.disorder(&[]).is_some(), "it overwrites what its client had not seen");
}

#[test]
fn who_is_refused_although_nothing_is_in_its_way_is_told_what_is_not_so() {
    let mut told = Told::default();
    let first = told.tell("compared", put_if(1, None), Answer::Written(Some(version(1))));
    let refused = told.begins("compared", put_if(2, Some(first)));
    // The same value under another version: nothing is wrong with that.
    told.ends(&refused, Answer::Refused(Some(version(7))), (None, Some(first)));
    assert_eq!(told.disorder(&[]), None);
    let refused = told.begins("compared", put_if(3, Some(first)));
    told.ends(&refused, Answer::Refused(Some(version(8))), (None, Some(99)));
    assert!(told.disorder(&[]).is_some(), "what nobody wrote was in its way");

    let mut told = Told::default();
    let refused = told.begins("compared", put_if(1, None));
    told.ends(&refused, Answer::Refused(None), (None, None));
    assert!(told.disorder(&[]).is_some(), "there is nothing, and that was asked for");
}

#[test]
fn a_key_with_more_requests_than_are_kept_is_told() {
    let mut told = Told::default();
    (1..OPERATIONS_MAX).for_each(|_| _ = told.put("key1"));
    told.put("key2");
    assert_eq!(told.histories.cut_short(), 0);
    told.put("key1");
    assert_eq!(told.histories.cut_short(), 1);
}
