//! Who asks what: a few keys, each with one writer and any number of readers.

use ladoga_env::Rng;
use ladoga_env::sim::SimRng;
use ladoga_model::Replicas;

use crate::LARGE_BYTES_MIN;
use crate::checker::Key;

const KEYS: usize = 10;

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
    /// The write that is under way.
    pub(crate) writing: Option<u64>,
}

pub(crate) struct Clients {
    pub(crate) keys: Vec<KeyPlan>,
    next: u64,
}

impl Clients {
    /// Keys with replicas of every kind; every other key has a majority of all.
    pub(crate) fn new(nodes: usize, rng: &SimRng) -> Clients {
        let plan = |n: usize| {
            let from = if n.is_multiple_of(2) { nodes as u32 } else { 1 + rng.below(nodes as u64) as u32 };
            let majority = Replicas::majority_of(from);
            let ack = if n % 4 == 1 { 1 + rng.below(u64::from(from)) as u32 } else { majority.ack };
            KeyPlan { key: format!("key{n}").into_bytes(), replicas: Replicas { ack, from }, writing: None }
        };
        Clients { keys: (0..KEYS).map(plan).collect(), next: 1 }
    }

    /// The next request: of which key, under which number, what.
    pub(crate) fn next(&mut self, rng: &SimRng) -> (usize, u64, Wish) {
        let index = rng.below(self.keys.len() as u64) as usize;
        let number = self.next;
        self.next += 1;
        let is_write = self.keys[index].writing.is_none() && rng.below(5) < 3;
        let wish = match rng.below(4) {
            _ if !is_write => Wish::Get,
            0 => Wish::Delete,
            _ => {
                let mut value = number.to_le_bytes().to_vec();
                let is_large = rng.below(4) == 0;
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
            self.keys[index].writing = Some(number);
        }
        (index, number, wish)
    }

    /// A write ended, whatever became of it.
    pub(crate) fn ended(&mut self, number: u64) {
        for plan in &mut self.keys {
            if plan.writing == Some(number) {
                plan.writing = None;
            }
        }
    }
}
