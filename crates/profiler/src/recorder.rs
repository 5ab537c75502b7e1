//! Samples as addresses, while a profile runs. Symbols come later, once per address.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::thinning::{RawSample, Thinning};

/// 64 MB of samples at most; if there are more, one stands for several.
pub(crate) const SAMPLES_MAX: usize = if cfg!(test) { 20_000 } else { 2_000_000 };
/// 24 MB of stacks at most.
pub(crate) const STACK_NODES_MAX: usize = 1_000_000;

/// The stacks of addresses form a tree; node 0 is the root.
#[derive(Default)]
pub(crate) struct Recorder {
    children: HashMap<(u32, u64), u32, BuildHasherDefault<AddressHasher>>,
    /// Parent and address of each node but the root.
    pub(crate) nodes: Vec<(u32, u64)>,
    pub(crate) samples: Vec<RawSample>,
    /// How many there were, whether one of their own is left or not.
    pub(crate) taken: u64,
    thinning: Thinning,
    /// Those that were lost on their way here.
    pub(crate) dropped: u64,
    /// Names of threads, as they were while they lived.
    pub(crate) thread_names: HashMap<u32, String>,
    pub(crate) notes: Vec<String>,
    /// Threads that only serve profiles.
    pub(crate) left_out: Vec<u32>,
}

impl Recorder {
    pub(crate) fn is_left_out(&self, thread: u32) -> bool {
        self.left_out.contains(&thread)
    }

    /// Takes a stack, leaf first. All but the leaf are return addresses: the call is before them.
    pub(crate) fn intern(&mut self, addresses: &[u64]) -> Option<u32> {
        let mut node = 0;
        for (depth, address) in addresses.iter().enumerate().rev() {
            let address = if depth == 0 { *address } else { address.wrapping_sub(1) };
            node = match self.children.get(&(node, address)) {
                Some(child) => *child,
                None if self.nodes.len() == STACK_NODES_MAX => return None,
                None => {
                    self.nodes.push((node, address));
                    let id = self.nodes.len() as u32;
                    self.children.insert((node, address), id);
                    id
                }
            };
        }
        Some(node)
    }

    pub(crate) fn record(&mut self, sample: RawSample) {
        self.taken += 1;
        if self.samples.len() == SAMPLES_MAX {
            self.thinning.halve(&mut self.samples);
        }
        self.samples.extend(self.thinning.add(sample));
    }

    /// The end of the profile: no sample comes any more.
    pub(crate) fn finish(&mut self) {
        self.samples.extend(self.thinning.rest());
        let group = self.thinning.group();
        if group > 1 {
            self.note_once(&format!(
                "too many samples: one of {group} was kept, with the weight of all of them"
            ));
        }
    }

    pub(crate) fn note_once(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }
}

/// Addresses need no protection against chosen keys, and the collector's time counts as overhead.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
