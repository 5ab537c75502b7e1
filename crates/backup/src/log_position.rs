use std::fmt;
use std::str::FromStr;

use crate::listing::hex_128;

const GENERATION_DIGITS: usize = 8;

/// What a chain is called: which store's, and the how manieth of it. Another one begins when segments are missing, or when the
/// store was brought back to an earlier state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainName {
    /// What the store is called.
    pub store: u128,
    /// Which of its chains, from 0 on.
    pub generation: u32,
}

/// A place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPosition {
    /// In which chain.
    pub chain: ChainName,
    /// The first group that is behind it.
    pub sequence: u64,
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-{:08}", self.store, self.generation)
    }
}

impl FromStr for ChainName {
    type Err = ();

    fn from_str(text: &str) -> Result<ChainName, ()> {
        let (store, generation) = text.split_once('-').ok_or(())?;
        let is_number =
            generation.len() == GENERATION_DIGITS && generation.bytes().all(|byte| byte.is_ascii_digit());
        let generation = generation.parse().ok().filter(|_| is_number).ok_or(())?;
        Ok(ChainName { store: hex_128(store).ok_or(())?, generation })
    }
}
