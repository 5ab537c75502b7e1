//! Who asks what: a few keys, each with one or several writers and any number of readers; now and then, one key many times.

use ladoga_env::Rng;
use ladoga_env::sim::SimRng;
use ladoga_model::Replicas;

use crate::LARGE_BYTES_MIN;
use crate::checker::Key;

const KEYS: usize = 10;
const WRITERS_MAX: usize = 3;
/// After how many requests a crowd comes, on average, how many more requests it asks at most, and how fast.
const CROWDS_EVERY: u64 = 10;
const CROWD_MAX: u64 = 6;
const CROWD_PAUSE_MS_MAX: u64 = 40;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    Put(Vec<u8>),
    Delete,
    Get,
}

pub(crate) struct KeyPlan {
    pub(crate) key: Key,
    pub(crate) replicas: Replicas,
    /// How many write it at the same time.
    writers_max: usize,
    /// The writes that are under way.
    writing: Vec<u64>,
}

pub(crate) struct Clients {
    pub(crate) keys: Vec<KeyPlan>,
    next: u64,
    /// The key that everybody asks for now, and how many requests more.
    crowd: (usize, u64),
}

impl Clients {
    /// Keys with replicas of every kind; every other key has a majority of all.
    pub(crate) fn new(nodes: usize, rng: &SimRng) -> Clients {
        let plan = |n: usize| {
            let from = if n.is_multiple_of(2) { nodes as u32 } else { 1 + rng.below(nodes as u64) as u32 };
            let majority = Replicas::majority_of(from);
            let ack = if n % 4 == 1 { 1 + rng.below(u64::from(from)) as u32 } else { majority.ack };
            KeyPlan {
                key: format!("key{n}").into_bytes(),
                replicas: Replicas { ack, from },
                writers_max: if n.is_multiple_of(3) { WRITERS_MAX } else { 1 },
                writing: Vec::new(),
            }
        };
        Clients { keys: (0..KEYS).map(plan).collect(), next: 0, crowd: (0, 0) }
    }

    /// A small write of this key, unless as many as may be are under way.
    pub(crate) fn next_write(&mut self, index: usize) -> Option<(u64, Wish)> {
        let number = self.next_number();
        let plan = &mut self.keys[index];
        (plan.writing.len() < plan.writers_max).then(|| {
            plan.writing.push(number);
            (number, Wish::Put(number.to_le_bytes().to_vec()))
        })
    }

    /// How long it is until the next request. In a crowd, a write meets another one of which its node has not heard yet.
    pub(crate) fn pause_ms(&self, rng: &SimRng) -> u64 {
        if self.crowd.1 > 0 { rng.below(CROWD_PAUSE_MS_MAX) } else { 20 + rng.below(1000) }
    }

    /// The number of the next request.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The next request: of which key, under which number, what.
    pub(crate) fn next(&mut self, rng: &SimRng) -> (usize, u64, Wish) {
        if self.crowd.1 > 0 {
            self.crowd.1 -= 1;
        } else {
            let requests = if rng.below(CROWDS_EVERY) == 0 { 1 + rng.below(CROWD_MAX) } else { 0 };
            self.crowd = (rng.below(self.keys.len() as u64) as usize, requests);
        }
        let index = self.crowd.0;
        let number = self.next_number();
        let plan = &self.keys[index];
        let is_write = plan.writing.len() < plan.writers_max && rng.below(5) < 3;
        let wish = match rng.below(4) {
            _ if !is_write => Wish::Get,
            0 => Wish::Delete,
            _ => {
                let mut value = number.to_le_bytes().to_vec();
                // A large value takes several round trips: in a crowd, much happens meanwhile.
                let is_large = rng.below(if self.crowd.1 > 0 { 2 } else { 4 }) == 0;
                let bytes = if is_large {
                    LARGE_BYTES_MIN + rng.below(4096) as usize
                } else {
                    8 + rng.below(300) as usize
                };
                value.resize(bytes, number as u8);
                Wish::Put(value)
            }
        };
        if is_write {
            self.keys[index].writing.push(number);
        }
        (index, number, wish)
    }

    /// A write ended, whatever became of it.
    pub(crate) fn ended(&mut self, number: u64) {
        for plan in &mut self.keys {
            plan.writing.retain(|&writing| writing != number);
        }
    }
}
