use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::{RngExt, SeedableRng};

use super::chooser::Chooser;
use super::random::Random;
use super::{Name, Renderer, Workload};
use crate::engine::Requests;
use crate::error::Outcome;
use crate::http::Batch;

/// YCSB's share of inserts and updates in its workloads that mostly read.
const FEW: f64 = 0.05;
const HALF: f64 = 0.5;

/// Makes the requests of one thread.
pub(crate) struct WorkloadRequests {
    name: Name,
    keys: Option<u64>,
    renderer: Renderer,
    chooser: Chooser,
    random: Random,
    next_key: Arc<AtomicU64>,
    /// Inserts that may be on their way.
    connections: u64,
    /// By connection: a key that comes next, because a pair of requests is half done.
    second_half: Vec<Option<u64>>,
}

impl WorkloadRequests {
    pub(crate) fn new(
        workload: &Workload,
        renderer: Renderer,
        thread: usize,
        own_connections: usize,
    ) -> Self {
        let keys = workload.keys.unwrap_or(u64::MAX);
        // Without a bound on the keys nothing is chosen: they come one after the other.
        let chooser = Chooser::new(workload.distribution, if workload.keys.is_some() { keys } else { 1 });
        Self {
            name: workload.name,
            keys: workload.keys,
            renderer,
            chooser,
            random: Random::seed_from_u64(workload.seed.wrapping_add(thread as u64 + 1)),
            next_key: Arc::clone(&workload.next_key),
            connections: workload.connections,
            second_half: vec![None; own_connections],
        }
    }

    fn new_key(&self) -> u64 {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    /// One key after the other; from the beginning after the last one.
    fn following_key(&self) -> u64 {
        self.new_key() % self.keys.unwrap_or(u64::MAX)
    }

    fn chosen_key(&mut self) -> u64 {
        let count = match self.name {
            // What is still on its way must not be read: a connection has one insert on its way at most.
            Name::YcsbD => self.next_key.load(Ordering::Relaxed).saturating_sub(self.connections),
            _ => self.keys.unwrap_or(1),
        };
        self.chooser.choose(&mut self.random, count.saturating_sub(1))
    }

    fn mixed(&mut self, write_share: f64, out: &mut Vec<u8>) {
        let is_write = self.random.random::<f64>() < write_share;
        let key = self.chosen_key();
        if is_write { self.renderer.put(key, out) } else { self.renderer.get(key, out) }
    }

    /// A first request, and after it a `PUT` or `GET` of the same key on the same connection.
    fn second_of_pair(&mut self, connection: usize, out: &mut Vec<u8>) -> bool {
        let Some(key) = self.second_half[connection].take() else { return false };
        match self.name {
            Name::PutGet => self.renderer.get(key, out),
            _ => self.renderer.put(key, out),
        }
        true
    }

    /// The keys that share all but the last `open_digits` digits of the largest key.
    fn range(&mut self, open_digits: u32, out: &mut Vec<u8>) {
        let prefixes = (self.keys.unwrap_or(1) / 10_u64.pow(open_digits)).max(1);
        // Prefixes of one length only, or some ranges would be ten times as long.
        let from = if prefixes >= 10 { prefixes / 10 } else { 0 };
        let key = self.chosen_key();
        self.renderer.range(from + key % (prefixes - from), out);
    }

    /// YCSB asks for 1 to 100 records, 50 on average: a range of about a hundred or of about ten keys.
    fn short_range(&mut self, out: &mut Vec<u8>) {
        let open_digits = if self.random.random::<f64>() < 0.4 { 2 } else { 1 };
        self.range(open_digits, out);
    }
}

impl Requests for WorkloadRequests {
    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Outcome<Option<Batch>> {
        let start = out.len();
        match self.name {
            Name::Status => self.renderer.plain("GET", "/v0/status", out),
            Name::Put => self.renderer.put(self.following_key(), out),
            Name::PutOverwrite => self.mixed(1.0, out),
            Name::Delete => self.renderer.delete(self.following_key(), out),
            Name::Range => self.range(2, out),
            Name::YcsbA => self.mixed(HALF, out),
            Name::YcsbB => self.mixed(FEW, out),
            Name::PutGet => {
                if !self.second_of_pair(connection, out) {
                    let key = self.chosen_key();
                    self.second_half[connection] = Some(key);
                    self.renderer.put(key, out);
                }
            }
            Name::YcsbD | Name::YcsbE if self.random.random::<f64>() < FEW => {
                self.renderer.put(self.new_key(), out);
            }
            Name::Get | Name::GetHot | Name::YcsbC | Name::YcsbD => self.mixed(0.0, out),
            Name::YcsbE => self.short_range(out),
            Name::YcsbF => {
                if !self.second_of_pair(connection, out) {
                    let key = self.chosen_key();
                    let is_modified = self.random.random::<f64>() < HALF;
                    self.second_half[connection] = is_modified.then_some(key);
                    self.renderer.get(key, out);
                }
            }
        }
        Ok(Some(Batch::single(&out[start..])))
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::workload::Knobs;

    const KNOBS: Knobs = Knobs { keys: None, value: None, distribution: None, seed: 1 };

    fn lines(name: Name, knobs: &Knobs, count: usize) -> Vec<String> {
        let workload = Workload::new(name, knobs, 4);
        let mut requests = WorkloadRequests::new(&workload, Renderer::new("h", &[], None), 0, 1);
        let line = |_| {
            let mut out = Vec::new();
            assert_eq!(requests.next(0, &mut out).unwrap().unwrap(), Batch::parse(&out).unwrap());
            let text = String::from_utf8(out).unwrap();
            text.split(" HTTP/1.1").next().unwrap().to_owned()
        };
        (0..count).map(line).collect()
    }

    #[test]
    fn every_workload_makes_whole_requests_for_any_number_of_keys() {
        for name in Name::value_variants() {
            for keys in [None, Some(1), Some(2), Some(15), Some(1234)] {
                let knobs = Knobs { keys, ..KNOBS };
                assert_eq!(lines(*name, &knobs, 100), lines(*name, &knobs, 100), "a seed repeats itself");
            }
        }
    }

    #[test]
    fn new_keys_are_new_and_pairs_stay_together() {
        let id = |line: &str| line.rsplit('=').next().unwrap().to_owned();
        let put = lines(Name::Put, &KNOBS, 3);
        assert_eq!(put, ["PUT /v0/entity?id=key0", "PUT /v0/entity?id=key1", "PUT /v0/entity?id=key2"]);
        let over = lines(Name::Delete, &Knobs { keys: Some(2), ..KNOBS }, 3);
        assert_eq!(id(&over[2]), "key0", "from the beginning after the last one");
        for pair in lines(Name::PutGet, &KNOBS, 20).chunks(2) {
            assert!(
                pair[0].starts_with("PUT ") && pair[1].starts_with("GET ") && id(&pair[0]) == id(&pair[1])
            );
        }
        let share = |name, method| {
            let lines = lines(name, &KNOBS, 10_000);
            lines.iter().filter(|line| line.starts_with(method)).count() as f64 / lines.len() as f64
        };
        assert!((0.48..0.52).contains(&share(Name::YcsbA, "PUT")));
        assert!((0.04..0.06).contains(&share(Name::YcsbB, "PUT")));
        assert!((0.04..0.06).contains(&share(Name::YcsbE, "PUT")));
        assert!((0.31..0.36).contains(&share(Name::YcsbF, "PUT")), "a third of its requests are writes");
    }

    #[test]
    fn ranges_have_about_a_hundred_keys() {
        for line in lines(Name::Range, &KNOBS, 50) {
            let digits = line.split("start=key").nth(1).unwrap().split('&').next().unwrap();
            assert_eq!(digits.len(), 4, "{line}");
        }
    }
}
