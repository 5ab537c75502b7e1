use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::StoreError;

/// Lets so much in at a time, and refuses the rest.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    inside: Arc<AtomicU64>,
    max: u64,
    /// What to say to those who are refused.
    bound: &'static str,
}

/// The right to be inside, given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    inside: Arc<AtomicU64>,
    amount: u64,
}

impl Gate {
    pub(crate) fn new(max: u64, bound: &'static str) -> Gate {
        Gate { inside: Arc::default(), max, bound }
    }

    /// Goes in as one.
    pub(crate) fn enter(&self) -> Result<Permit, StoreError> {
        self.enter_with(1)
    }

    /// Goes in with `amount`. One alone is let in with any amount.
    pub(crate) fn enter_with(&self, amount: u64) -> Result<Permit, StoreError> {
        let before = self.inside.fetch_add(amount, Ordering::Relaxed);
        let permit = Permit { inside: Arc::clone(&self.inside), amount };
        if before > 0 && before.saturating_add(amount) > self.max {
            return Err(StoreError::OverCapacity { bound: self.bound });
        }
        Ok(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.inside.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_makes_room() {
        let gate = Gate::new(2, "full");
        let first = gate.enter().expect("room");
        let second = gate.enter().expect("room");
        assert_eq!(gate.enter().expect_err("full"), StoreError::OverCapacity { bound: "full" });
        drop(first);
        let third = gate.enter().expect("room again");
        assert!(gate.enter().is_err());
        drop((second, third));
        let alone = gate.enter_with(10).expect("nobody else is inside");
        assert!(gate.enter().is_err());
        drop(alone);
        assert!(gate.enter().is_ok());
    }
}
