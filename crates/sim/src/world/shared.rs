//! What clients and the world share: the clients, the checks, the trace.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use ladoga_model::Version;
use ladoga_replica::simulated::{given_up, overtaken};
use ladoga_service::Error;
use parking_lot::Mutex;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::checker::{Checker, is_checked};
use crate::clients::{Clients, Wish};
use crate::follower::Follower;
use crate::histories::Histories;
use crate::one_copy::OneCopyKeys;
use crate::questions::Questions;
use crate::request::{Answer, Request};
use crate::values::{Key, is_counter, number_of};
use crate::written::Found;
use crate::{Settings, Summary};

/// What clients and the world share.
pub(super) struct Shared {
    pub(super) clients: RefCell<Clients>,
    pub(super) summary: RefCell<Summary>,
    pub(super) checker: Arc<Mutex<Checker>>,
    pub(super) histories: RefCell<Histories>,
    pub(super) one_copy: RefCell<OneCopyKeys>,
    pub(super) follower: RefCell<Follower>,
    /// Keys that are to be read by a majority.
    pub(super) unread: RefCell<BTreeSet<Key>>,
    /// What is to be answered in the end.
    pub(super) questions: RefCell<Questions>,
    /// Of everything that happened: two runs that differ have different ones.
    pub(super) trace: RefCell<u64>,
    pub(super) settings: Settings,
    pub(super) began: Instant,
}

impl Shared {
    pub(super) fn trace(&self, text: impl FnOnce() -> String) {
        let line = format!("{:>9} us  {}", self.now_us(), text());
        let mut trace = self.trace.borrow_mut();
        *trace = xxh3_64_with_seed(line.as_bytes(), *trace);
        if self.settings.is_traced {
            println!("{line}");
        }
    }

    /// The time of the world.
    pub(super) fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// A request has ended, with this answer or none.
    pub(super) fn ended(&self, request: &Request, floor: Version, answer: Result<Answer, Error>) {
        let Request { number, began_us, node: _, key, wish, replicas } = request;
        self.clients.borrow_mut().ended(*number);
        self.checker.lock().given_up(given_up());
        self.checker.lock().overtaken(overtaken());
        let expired = match &answer {
            Ok(Answer::Read(Found { version: Some(version), value: None, .. })) => {
                self.checker.lock().expiring(*version)
            }
            _ => None,
        };
        let in_its_way = match &answer {
            Ok(Answer::Refused(Some(version))) => self.checker.lock().writer_of(*version),
            _ => None,
        };
        self.histories.borrow_mut().ends(self.now_us(), request, &answer, (expired, in_its_way));
        let wrong = self.one_copy.borrow_mut().ends(self.now_us(), request, &answer);
        wrong.into_iter().for_each(|wrong| self.checker.lock().breaks(wrong));
        let mut summary = self.summary.borrow_mut();
        self.note_seen(request, &answer);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                summary.failed += 1;
                return self.trace(|| format!("request {number} failed: {error}"));
            }
        };
        summary.succeeded += 1;
        self.questions.borrow_mut().answered(*number);
        let mut checker = self.checker.lock();
        let since = (floor, began_us / 1000);
        match answer {
            Answer::Written(version) => {
                self.trace(|| format!("request {number}: {version:?} is written"));
                let (value, ttl) = match wish {
                    Wish::Put { value, ttl } => (Some(value.as_slice()), *ttl),
                    Wish::PutIf { value, .. } => (Some(value.as_slice()), None),
                    Wish::Delete | Wish::Get | Wish::Increment => (None, None),
                };
                checker.told_written(key, *replicas, (version, value, ttl), since);
            }
            Answer::Refused(version) => {
                self.trace(|| format!("request {number}: refused because of {version:?}"));
                checker.told_refused(key, version, floor);
            }
            Answer::Counted(sum, version) => {
                self.trace(|| format!("request {number}: {version:?} is written, {sum} there are"));
                let text = sum.to_string();
                checker.told_written(key, *replicas, (Some(version), Some(text.as_bytes()), None), since);
            }
            Answer::Read(found) => {
                if is_checked(*replicas) {
                    self.unread.borrow_mut().remove(key);
                }
                let what = if expired.is_some() { "has expired" } else { "is read" };
                self.trace(|| format!("request {number}: {:?} {what}", found.version));
                checker.told_read(key, *replicas, &found, since);
            }
        }
    }

    /// A client may go by what it was told.
    fn note_seen(&self, request: &Request, answer: &Result<Answer, Error>) {
        if is_counter(&request.key) {
            return;
        }
        let seen = match answer {
            Ok(Answer::Read(Found { version, value, .. })) => version.zip(value.as_deref().map(number_of)),
            Ok(Answer::Written(_)) if request.wish == Wish::Delete => None,
            Ok(Answer::Written(version)) => version.map(|version| (version, request.number)),
            Ok(Answer::Refused(version)) => {
                version.and_then(|version| Some((version, self.checker.lock().writer_of(version)?)))
            }
            Ok(Answer::Counted(..)) | Err(_) => return,
        };
        self.clients.borrow_mut().saw(&request.key, seen);
    }
}
