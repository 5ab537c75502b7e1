use std::collections::HashMap;

use bytes::Bytes;

/// Different keys, numbered in the order in which they came first.
#[derive(Default)]
pub(crate) struct DistinctKeys {
    pub(crate) keys: Vec<Bytes>,
    numbers: HashMap<Bytes, usize>,
}

impl DistinctKeys {
    /// The number of a key.
    pub(crate) fn number(&mut self, key: &Bytes) -> usize {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.keys.len();
        self.numbers.insert(key.clone(), number);
        self.keys.push(key.clone());
        number
    }
}
