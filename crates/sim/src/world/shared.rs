//! What clients and the world share: the clients, the checks, the trace.

use std::cell::RefCell;
use std::sync::Arc;

use ladoga_model::Version;
use ladoga_replica::simulated::given_up;
use ladoga_service::Error;
use parking_lot::Mutex;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::checker::Checker;
use crate::clients::{Clients, Wish};
use crate::histories::Histories;
use crate::request::{Answer, Request};
use crate::{Settings, Summary};

/// What clients and the world share.
pub(super) struct Shared {
    pub(super) clients: RefCell<Clients>,
    pub(super) summary: RefCell<Summary>,
    pub(super) checker: Arc<Mutex<Checker>>,
    pub(super) histories: RefCell<Histories>,
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
        let Request { number, key, wish, replicas, .. } = request;
        self.clients.borrow_mut().ended(*number);
        self.checker.lock().given_up(given_up());
        self.histories.borrow_mut().ends(self.now_us(), request, &answer);
        let mut summary = self.summary.borrow_mut();
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                summary.failed += 1;
                return self.trace(|| format!("request {number} failed: {error}"));
            }
        };
        summary.succeeded += 1;
        let mut checker = self.checker.lock();
        match answer {
            Answer::Written(version) => {
                self.trace(|| format!("request {number}: {version:?} is written"));
                let value = if let Wish::Put(value) = wish { Some(value.as_slice()) } else { None };
                checker.told_written(key, *replicas, (version, value), floor);
            }
            Answer::Read(version, value) => {
                self.trace(|| format!("request {number}: {version:?} is read"));
                checker.told_read(key, *replicas, (version, value.as_deref()), floor);
            }
        }
    }
}
