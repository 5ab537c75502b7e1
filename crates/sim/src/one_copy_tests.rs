use ladoga_model::{Replicas, Ttl};
use ladoga_service::Error;

use super::*;
use crate::written::Found;

/// Requests for a key, a millisecond from each other, and what was wrong with an answer.
#[derive(Default)]
struct Asked {
    keys: OneCopyKeys,
    number: u64,
    wrong: Vec<String>,
}

impl Asked {
    fn begins(&mut self, wish: impl FnOnce(Vec<u8>) -> Wish) -> Request {
        self.number += 1;
        let (number, replicas) = (self.number, Replicas { ack: 1, from: 1 });
        let wish = wish(number.to_le_bytes().to_vec());
        let request =
            Request { number, began_us: 1000 * number, node: 0, key: b"key1".to_vec(), wish, replicas };
        self.keys.begins(&request);
        request
    }

    fn ends(&mut self, request: &Request, answer: &Result<Answer, Error>) {
        self.number += 1;
        self.wrong.extend(self.keys.ends(1000 * self.number, request, answer));
    }

    /// Answers its number.
    fn writes(&mut self, wish: impl FnOnce(Vec<u8>) -> Wish) -> u64 {
        let request = self.begins(wish);
        self.ends(&request, &Ok(Answer::Written(None)));
        request.number
    }

    fn reads(&mut self, write: Option<u64>) {
        let request = self.begins(|_| Wish::Get);
        let value = write.map(|write| write.to_le_bytes().to_vec());
        self.ends(&request, &Ok(Answer::Read(Found { version: None, value, as_of_ms: None })));
    }
}

fn put(value: Vec<u8>) -> Wish {
    Wish::Put { value, ttl: None }
}

fn delete(_: Vec<u8>) -> Wish {
    Wish::Delete
}

#[test]
fn what_was_acknowledged_last_is_read() {
    let mut asked = Asked::default();
    asked.reads(None);
    let first = asked.writes(put);
    asked.reads(Some(first));
    let second = asked.writes(put);
    asked.reads(Some(second));
    asked.writes(delete);
    asked.reads(None);
    assert_eq!(asked.wrong, Vec::<String>::new());
    asked.reads(Some(second));
    let of_second = format!("gave the value of request {second}");
    assert!(asked.wrong[0].contains(&of_second), "{:?}", asked.wrong);
}

#[test]
fn nothing_is_read_in_the_place_of_a_value_only_if_a_deletion_may_have_come_later() {
    let mut asked = Asked::default();
    asked.writes(delete);
    let deletion = asked.begins(delete);
    let value = asked.begins(put);
    asked.ends(&value, &Ok(Answer::Written(None)));
    asked.reads(None);
    asked.ends(&deletion, &Err(Error::Undecided));
    asked.reads(None);
    assert_eq!(asked.wrong, Vec::<String>::new());
    let not_done = asked.begins(delete);
    asked.ends(&not_done, &Err(Error::Draining));
    // After so long, nobody brings it any more.
    asked.number += OPEN_US / 1000;
    asked.writes(put);
    asked.reads(None);
    assert!(asked.wrong[0].contains("gave nothing"), "{:?}", asked.wrong);
}

#[test]
fn a_value_may_expire_at_any_time() {
    let mut asked = Asked::default();
    let first = asked.writes(put);
    asked.writes(|value| Wish::Put { value, ttl: Ttl::of_ms(1) });
    asked.reads(None);
    assert_eq!(asked.wrong, Vec::<String>::new());
    asked.reads(Some(first));
    assert_eq!(asked.wrong.len(), 1);
}

#[test]
fn what_was_acknowledged_goes_with_its_disk() {
    let mut asked = Asked::default();
    let first = asked.writes(put);
    asked.writes(put);
    let under_way = asked.begins(put);
    asked.keys.lose(|key| key == b"another key");
    asked.keys.lose(|key| key == b"key1");
    asked.ends(&under_way, &Ok(Answer::Written(None)));
    asked.reads(None);
    asked.reads(Some(first));
    assert_eq!(asked.wrong, Vec::<String>::new());
    asked.writes(put);
    asked.reads(None);
    assert_eq!(asked.wrong.len(), 1);
}

/// It counted as acknowledged.
#[test]
fn what_was_refused_is_not_expected() {
    let mut asked = Asked::default();
    let first = asked.writes(put);
    let refused = asked.begins(put);
    asked.ends(&refused, &Ok(Answer::Refused(None)));
    asked.reads(Some(first));
    assert_eq!(asked.wrong, Vec::<String>::new());
}
