use std::cell::RefCell;
use std::collections::HashSet;

use bytes::Bytes;

/// How many coordinators that are gone are taken over for at a time.
const TAKE_OVERS_MAX: usize = 4;

/// The keys that coordinators are taken over for now, on one event loop.
#[derive(Debug, Default)]
pub(crate) struct TakeOvers(RefCell<HashSet<Bytes>>);

/// One of them.
pub(crate) struct TakingOver<'t> {
    of: &'t TakeOvers,
    key: Bytes,
}

impl TakeOvers {
    /// A place for one more; `None` if there are enough, or the key has one.
    pub(crate) fn begin(&self, key: &Bytes) -> Option<TakingOver<'_>> {
        let mut keys = self.0.borrow_mut();
        let has_room = keys.len() < TAKE_OVERS_MAX && keys.insert(key.clone());
        has_room.then(|| TakingOver { of: self, key: key.clone() })
    }
}

impl Drop for TakingOver<'_> {
    fn drop(&mut self) {
        self.of.0.borrow_mut().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_and_there_are_only_so_many() {
        let take_overs = TakeOvers::default();
        let key = |n: usize| Bytes::from(vec![n as u8]);
        let begun: Vec<_> = (0..TAKE_OVERS_MAX).map(|n| take_overs.begin(&key(n))).collect();
        assert!(begun.iter().all(Option::is_some));
        assert!(take_overs.begin(&key(9)).is_none());
        drop(begun);
        let _first = take_overs.begin(&key(1)).expect("room");
        assert!(take_overs.begin(&key(1)).is_none() && take_overs.begin(&key(2)).is_some());
    }
}
