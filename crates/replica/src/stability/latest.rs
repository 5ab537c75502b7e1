use parking_lot::Mutex;
use tokio::sync::Notify;

/// A value, for tasks that wait for it to change.
///
/// Tasks are woken in the order in which they began to wait. (`tokio::sync::watch` wakes them in a random order, so that no
/// simulation could be repeated.)
#[derive(Debug, Default)]
pub(crate) struct Latest<T> {
    state: Mutex<Counted<T>>,
    changed: Notify,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counted<T> {
    value: T,
    /// How often it has changed.
    changes: u64,
}

impl<T: Copy + PartialEq> Latest<T> {
    pub(crate) fn new(value: T) -> Latest<T> {
        Latest { state: Mutex::new(Counted { value, changes: 0 }), changed: Notify::new() }
    }

    pub(crate) fn get(&self) -> T {
        self.state.lock().value
    }

    /// Changes it, and wakes who waits if it is another one by that.
    pub(crate) fn change(&self, change: impl FnOnce(&mut T)) {
        let mut state = self.state.lock();
        let before = state.value;
        change(&mut state.value);
        let is_another = state.value != before;
        state.changes += u64::from(is_another);
        drop(state);
        if is_another {
            self.changed.notify_waiters();
        }
    }

    /// Waits until it is as it should be.
    pub(crate) async fn until(&self, is_so: impl Fn(T) -> bool) {
        loop {
            // From before the look on, so that no change is missed.
            let changed = self.changed.notified();
            if is_so(self.get()) {
                return;
            }
            changed.await;
        }
    }

    /// Waits until it has changed, and is as it should be.
    pub(crate) async fn until_changed(&self, is_so: impl Fn(T) -> bool) {
        let changes = self.state.lock().changes;
        loop {
            // From before the look on, so that no change is missed.
            let changed = self.changed.notified();
            let Counted { value, changes: now } = *self.state.lock();
            if now != changes && is_so(value) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn who_waits_is_woken_by_a_change_that_it_waits_for() {
        let latest = Latest::new(1);
        let mut context = Context::from_waker(Waker::noop());
        let (mut until, mut changed) =
            (pin!(latest.until(|value| value > 2)), pin!(latest.until_changed(|_| true)));
        assert!(until.as_mut().poll(&mut context).is_pending());
        assert!(changed.as_mut().poll(&mut context).is_pending());
        latest.change(|value| *value = 1);
        assert!(changed.as_mut().poll(&mut context).is_pending(), "it is the same");
        latest.change(|value| *value = 2);
        assert_eq!(changed.as_mut().poll(&mut context), Poll::Ready(()));
        assert!(until.as_mut().poll(&mut context).is_pending());
        latest.change(|value| *value = 3);
        assert_eq!(until.as_mut().poll(&mut context), Poll::Ready(()));
        assert!(pin!(latest.until(|value| value == 3)).poll(&mut context).is_ready(), "it is so already");
    }
}
