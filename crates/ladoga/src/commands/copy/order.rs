use std::collections::BTreeMap;

/// Up to where everything is done, of what is done in any order. Everything has a number, from 0 on without gaps.
#[derive(Debug)]
pub(super) struct Order<T> {
    next: u64,
    /// Done, behind something that is not.
    waiting: BTreeMap<u64, T>,
}

impl<T> Order<T> {
    pub(super) const fn new() -> Order<T> {
        Order { next: 0, waiting: BTreeMap::new() }
    }

    /// How much is done without a gap.
    pub(super) const fn count(&self) -> u64 {
        self.next
    }

    /// Notes that something is done; answers what is done without a gap from now on, in order.
    pub(super) fn finish(&mut self, number: u64, what: T) -> impl Iterator<Item = T> {
        self.waiting.insert(number, what);
        std::iter::from_fn(|| {
            let done = self.waiting.remove(&self.next)?;
            self.next += 1;
            Some(done)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_passed_over() {
        let mut order = Order::new();
        let mut finish = |number: u64| order.finish(number, number).collect::<Vec<_>>();
        assert!(finish(1).is_empty());
        assert!(finish(3).is_empty());
        assert_eq!(finish(0), [0, 1]);
        assert_eq!(finish(2), [2, 3]);
        assert_eq!(finish(4), [4]);
    }
}
