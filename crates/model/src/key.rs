use std::fmt;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// The largest value, in bytes (64 MiB).
pub const VALUE_BYTES_MAX: u64 = 64 << 20;

/// Why some bytes are no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// A key has at least one byte.
    Empty,
    /// A key has at most [`KEY_BYTES_MAX`] bytes; this one has `bytes`.
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Empty => write!(f, "the key is empty, expected 1 to {KEY_BYTES_MAX} bytes"),
            KeyError::TooLong { bytes } => {
                write!(f, "the key has {bytes} bytes, expected 1 to {KEY_BYTES_MAX}")
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// Checks that `key` is one: 1 to [`KEY_BYTES_MAX`] bytes, any bytes.
pub fn check_key(key: &[u8]) -> Result<(), KeyError> {
    match key.len() {
        0 => Err(KeyError::Empty),
        1..=KEY_BYTES_MAX => Ok(()),
        bytes => Err(KeyError::TooLong { bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_inclusive() {
        assert_eq!(check_key(b""), Err(KeyError::Empty));
        assert_eq!(check_key(b"k"), Ok(()));
        assert_eq!(check_key(&[0; KEY_BYTES_MAX]), Ok(()));
        assert_eq!(check_key(&[0; KEY_BYTES_MAX + 1]), Err(KeyError::TooLong { bytes: 4097 }));
    }
}
