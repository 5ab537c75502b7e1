//! Clients that add to one number, and what became of that as they were told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::cluster::{Cluster, target};
use crate::support::{Connection, Node};

pub(crate) fn addresses(cluster: &Cluster) -> Vec<SocketAddr> {
    cluster.nodes.iter().map(Node::address).collect()
}

/// Has clients end, also if the test fails before it would tell them.
pub(crate) struct OverWhenDropped<'o>(pub(crate) &'o AtomicBool);

impl Drop for OverWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What became of increments, as their clients were told.
#[derive(Default)]
pub(crate) struct Added {
    added: AtomicU64,
    /// Nobody knows whether they happened.
    unknown: AtomicU64,
    /// How many were refused, by what the refusals say.
    refused: Mutex<BTreeMap<String, u64>>,
}

impl Added {
    /// Has so many clients add to a key through all nodes while `meanwhile` goes on.
    pub(crate) fn add_through(
        &self,
        addresses: &[SocketAddr],
        (key, replicas): (&str, &str),
        clients: usize,
        meanwhile: impl FnOnce(),
    ) {
        let (is_over, target) = (AtomicBool::new(false), target(key, replicas));
        thread::scope(|scope| {
            let _over = OverWhenDropped(&is_over);
            for client in 0..clients {
                let (address, target, is_over) = (addresses[client % addresses.len()], &target, &is_over);
                scope.spawn(move || self.add(address, target, is_over));
            }
            meanwhile();
        });
    }

    /// Adds to a key until it is over; a client that hears nothing goes on over another connection.
    pub(crate) fn add(&self, address: SocketAddr, target: &str, is_over: &AtomicBool) {
        let mut connection = None;
        while !is_over.load(Ordering::Relaxed) {
            let Some(open) = connection.as_mut() else {
                connection = Connection::try_open(address).ok();
                if connection.is_none() {
                    thread::sleep(Duration::from_millis(5));
                }
                continue;
            };
            let Ok(answer) = open.try_request("POST", &format!("{target}&increment=1"), None) else {
                self.unknown.fetch_add(1, Ordering::Relaxed);
                connection = None;
                continue;
            };
            match answer.status {
                200 => _ = self.added.fetch_add(1, Ordering::Relaxed),
                504 if answer.text().contains("may have happened") => {
                    self.unknown.fetch_add(1, Ordering::Relaxed);
                }
                503 | 504 => {
                    let text = format!("{} {}", answer.status, answer.text());
                    *self.refused.lock().expect("no client panicked").entry(text).or_default() += 1;
                }
                _ => panic!("{answer:?}"),
            }
            if answer.closes() {
                connection = None;
            }
        }
    }

    /// How many were added, of how many nobody knows, and how many were refused.
    pub(crate) fn figures(&self) -> [u64; 3] {
        let refused = self.refusals().values().sum();
        [self.added.load(Ordering::Relaxed), self.unknown.load(Ordering::Relaxed), refused]
    }

    /// How many were refused, by what the refusals say.
    pub(crate) fn refusals(&self) -> BTreeMap<String, u64> {
        self.refused.lock().expect("no client panicked").clone()
    }

    /// Checks that at least so many were added, and that each was counted once.
    #[track_caller]
    pub(crate) fn check(&self, cluster: &Cluster, (key, replicas): (&str, &str), added_min: u64) {
        let sum = cluster.get(0, key, replicas).expect("a number");
        let sum: u64 = String::from_utf8(sum).expect("digits").parse().expect("a number");
        let [added, unknown, refused] = self.figures();
        eprintln!("{key} {replicas}: {added} added, {unknown} unknown, {refused} refused, the sum is {sum}");
        assert!(added >= added_min, "{added} were added, {unknown} unknown, {:?}", self.refusals());
        assert!(added <= sum && sum <= added + unknown, "{added} added, {unknown} unknown, the sum is {sum}");
    }
}
