//! The records that every comparison uses: 16-byte keys, values that do not compress.

use crate::random::{Random, mix};

/// `key:` and twelve digits, the keys of `redis-benchmark -r` and of the scripts in `bench/wrk/`.
pub(crate) const KEY_BYTES: usize = 16;
const POOL_BYTES: usize = 1 << 20;

/// Values are windows into a pool of noise, found by the key's number: nothing has to be remembered to check one.
#[derive(Debug, Clone)]
pub(crate) struct Dataset {
    pool: Vec<u8>,
    value_bytes: usize,
}

impl Dataset {
    pub(crate) fn new(value_bytes: usize) -> Self {
        let mut random = Random::new(7);
        let pool = (0..POOL_BYTES + value_bytes).map(|_| b'!' + random.below(94) as u8).collect();
        Self { pool, value_bytes }
    }

    pub(crate) fn value(&self, number: u64) -> &[u8] {
        let from = mix(number) as usize % POOL_BYTES;
        &self.pool[from..from + self.value_bytes]
    }
}

pub(crate) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"key:000000000000";
    write_digits(&mut key[4..], number);
    key
}

/// Writes the number over all of `digits`, zeros in front.
pub(crate) fn write_digits(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_redis_benchmark() {
        assert_eq!(&key(123_456), b"key:000000123456");
    }

    #[test]
    fn a_value_is_found_again_by_its_number() {
        let dataset = Dataset::new(100);
        assert_eq!(dataset.value(5).len(), 100);
        assert_eq!(dataset.value(5), Dataset::new(100).value(5));
        assert_ne!(dataset.value(5), dataset.value(6));
    }
}
