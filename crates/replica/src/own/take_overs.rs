use std::cell::RefCell;
use std::collections::HashSet;

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many coordinators that are gone are taken over for at a time.
const TAKE_OVERS_MAX: usize = 4;

/// The keys that coordinators are taken over for now, on one event loop.
#[derive(Debug)]
pub(crate) struct TakeOvers {
    keys: RefCell<HashSet<Bytes>>,
    places: Semaphore,
}

/// One of them.
pub(crate) struct TakingOver<'t> {
    of: &'t TakeOvers,
    key: Bytes,
    _place: SemaphorePermit<'t>,
}

impl TakeOvers {
    /// A place for one more; `None` if there are enough, or the key has one.
    pub(crate) fn begin(&self, key: &Bytes) -> Option<TakingOver<'_>> {
        self.begin_at(self.places.try_acquire().ok()?, key)
    }

    /// The same once there is a place; `None` if the key has one.
    pub(crate) async fn begin_in_turn(&self, key: &Bytes) -> Option<TakingOver<'_>> {
        self.begin_at(self.places.acquire().await.expect("it is never closed"), key)
    }

    fn begin_at<'t>(&'t self, place: SemaphorePermit<'t>, key: &Bytes) -> Option<TakingOver<'t>> {
        let is_new = self.keys.borrow_mut().insert(key.clone());
        is_new.then(|| TakingOver { of: self, key: key.clone(), _place: place })
    }
}

impl Default for TakeOvers {
    fn default() -> TakeOvers {
        TakeOvers { keys: RefCell::default(), places: Semaphore::new(TAKE_OVERS_MAX) }
    }
}

impl Drop for TakingOver<'_> {
    fn drop(&mut self) {
        self.of.keys.borrow_mut().remove(&self.key);
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
