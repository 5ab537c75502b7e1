use std::cell::{Cell, RefCell};

use super::ending::yield_once;

/// So many reads wait for memory together.
const READS_MAX: usize = 64;
/// Longer keys are fetched by the look-up itself: here they would only take room.
const KEY_BYTES_MAX: usize = 256;
/// After a read that met nobody, how many are served before the next one looks again.
const UNMET_READS: u32 = 16;

/// Reads that arrived on different connections in one turn of the event loop.
///
/// A look-up waits for memory several times in a row. Here each connection that has read a request lets the others that are ready
/// read theirs; the first that comes back has all of their look-ups fetched ahead, one step of all of them after the other. Then each
/// is served by its own task. Where requests come one by one, nobody waits for anybody.
#[derive(Default)]
pub(crate) struct Together {
    keys: RefCell<Keys>,
    /// How many reads do without looking for others.
    unmet: Cell<u32>,
}

/// Keys, one behind the other, and where each ends.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Together {
    /// Lets the other connections of this turn read their requests. `fetch` is called with the keys of some of them, if they are
    /// several; it changes nothing.
    pub(crate) async fn meet(&self, key: &[u8], fetch: impl Fn(&[&[u8]])) {
        if self.enter(key, &fetch) {
            yield_once().await;
            self.fetch_all(&fetch);
        }
    }

    /// Whether there may be others.
    fn enter(&self, key: &[u8], fetch: &impl Fn(&[&[u8]])) -> bool {
        let unmet = self.unmet.get();
        if unmet > 0 || key.len() > KEY_BYTES_MAX {
            self.unmet.set(unmet.saturating_sub(1));
            return false;
        }
        if self.keys.borrow().ends.len() == READS_MAX {
            self.fetch_all(fetch);
        }
        let Keys { bytes, ends } = &mut *self.keys.borrow_mut();
        bytes.extend_from_slice(key);
        ends.push(bytes.len());
        true
    }

    /// Has all of them fetched, unless another one was here before.
    fn fetch_all(&self, fetch: &impl Fn(&[&[u8]])) {
        let Keys { bytes, ends } = &mut *self.keys.borrow_mut();
        match ends.len() {
            0 => return,
            1 => self.unmet.set(UNMET_READS),
            count => {
                let (mut keys, mut start) = ([&b""[..]; READS_MAX], 0);
                for (key, &end) in keys.iter_mut().zip(&*ends) {
                    *key = &bytes[start..end];
                    start = end;
                }
                fetch(&keys[..count]);
            }
        }
        bytes.clear();
        ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// What was fetched, one list of keys a call.
    type Fetched = RefCell<Vec<Vec<Vec<u8>>>>;

    fn fetch_into(fetched: &Fetched) -> impl Fn(&[&[u8]]) {
        |keys| fetched.borrow_mut().push(keys.iter().map(|key| key.to_vec()).collect())
    }

    #[test]
    fn those_who_are_there_at_the_same_time_are_fetched_by_the_first() {
        let (together, fetched) = (Together::default(), Fetched::default());
        let mut context = Context::from_waker(Waker::noop());
        let [mut a, mut b] = [&b"a"[..], b"bb"].map(|key| Box::pin(together.meet(key, fetch_into(&fetched))));
        assert_eq!(a.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(b.as_mut().poll(&mut context), Poll::Pending);
        assert!(fetched.borrow().is_empty());
        assert_eq!(a.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!(*fetched.borrow(), [[b"a".to_vec(), b"bb".to_vec()]]);
        // One that comes now is not fetched twice, nor is one that is gone.
        let mut c = Box::pin(together.meet(b"c", fetch_into(&fetched)));
        assert_eq!(c.as_mut().poll(&mut context), Poll::Pending);
        drop(c);
        assert_eq!(b.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!(fetched.borrow().len(), 1, "one key is not worth it");
    }

    #[test]
    fn who_meets_nobody_does_not_wait_for_a_while() {
        let (together, fetched) = (Together::default(), Fetched::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut waited = Vec::new();
        for read in 0..2 * (UNMET_READS + 1) {
            let mut meeting = pin!(together.meet(b"a", fetch_into(&fetched)));
            if meeting.as_mut().poll(&mut context).is_pending() {
                waited.push(read);
                assert_eq!(meeting.as_mut().poll(&mut context), Poll::Ready(()));
            }
        }
        assert_eq!(waited, [0, UNMET_READS + 1]);
        assert!(fetched.borrow().is_empty());
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let (together, fetched) = (Together::default(), Fetched::default());
        let mut context = Context::from_waker(Waker::noop());
        let key = |number: usize| vec![number as u8; 1 + number % KEY_BYTES_MAX];
        let mut all: Vec<_> = (0..READS_MAX + 3)
            .map(|number| {
                let (together, fetched) = (&together, &fetched);
                Box::pin(async move { together.meet(&key(number), fetch_into(fetched)).await })
            })
            .collect();
        for meeting in &mut all {
            assert_eq!(meeting.as_mut().poll(&mut context), Poll::Pending);
        }
        for meeting in &mut all {
            assert_eq!(meeting.as_mut().poll(&mut context), Poll::Ready(()));
        }
        let expected: Vec<_> = (0..READS_MAX + 3).map(key).collect();
        assert_eq!(*fetched.borrow(), [&expected[..READS_MAX], &expected[READS_MAX..]]);
        let mut long = pin!(together.meet(&[b'k'; KEY_BYTES_MAX + 1], fetch_into(&fetched)));
        assert_eq!(long.as_mut().poll(&mut context), Poll::Ready(()), "a long key waits for nobody");
    }
}
