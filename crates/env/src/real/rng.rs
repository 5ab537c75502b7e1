use super::syscall;
use crate::Rng;
use crate::rng::{GOLDEN_GAMMA, mix};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// `SplitMix64` over one atomic counter, seeded by the system. One addition a number, no lock.
#[derive(Debug)]
pub struct RealRng {
    state: AtomicU64,
}

impl RealRng {
    /// Seeds from `getrandom`; fails if that does.
    pub fn from_system() -> io::Result<Self> {
        let mut seed = [0; 8];
        syscall::random_bytes(&mut seed)?;
        Ok(Self { state: AtomicU64::new(u64::from_le_bytes(seed)) })
    }
}

impl Rng for RealRng {
    fn next_u64(&self) -> u64 {
        mix(self.state.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_generators_differ_and_one_does_not_repeat() {
        let (a, b) = (RealRng::from_system().unwrap(), RealRng::from_system().unwrap());
        let first = a.next_u64();
        assert_ne!(first, a.next_u64());
        assert_ne!(first, b.next_u64());
    }
}
