//! Which states are one: those from which the same can follow, with the same verdict.

use std::hash::{Hash, Hasher};

use ladoga_history::{Input, Operation};
use xxhash_rust::xxh3::xxh3_128;

use super::{Machine, Purpose, System};

/// All that is hashed, one after the other.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        unreachable!("all bytes are looked at together")
    }
}

impl System {
    pub(crate) fn fingerprint(&self) -> u128 {
        let mut bytes = Bytes::default();
        let System { replicas, clocks, asked, messages, fresh, faults, .. } = self;
        (replicas, clocks, asked, messages, fresh, faults).hash(&mut bytes);
        for request in &self.requests {
            match request.machine {
                Machine::Over => request.is_gone.hash(&mut bytes),
                _ => request.hash(&mut bytes),
            }
        }
        (self.lost, self.known_lost, &self.given_up, &self.returned).hash(&mut bytes);
        for (index, operation) in self.history.iter().enumerate() {
            (operation.input, operation.answer.map(|(_, output)| output)).hash(&mut bytes);
            self.ended_before(index).hash(&mut bytes);
        }
        xxh3_128(&bytes.0)
    }

    /// Which operations were over when this one began, as bits: of the times nothing else counts.
    fn ended_before(&self, index: usize) -> u64 {
        let operation = &self.history[index];
        let is_read = operation.input == Input::Read && operation.answer.is_none();
        let is_take_over = matches!(self.requests[index].purpose, Purpose::TakeOver { .. });
        if is_read && (is_take_over || !self.is_under_way(index)) {
            return 0;
        }
        let is_before = |other: &Operation| other.answer.is_some_and(|(at, _)| at < operation.invoked);
        let before = self.history.iter().enumerate().filter(|(_, other)| is_before(other));
        before.fold(0, |bits, (index, _)| bits | 1 << index)
    }
}
