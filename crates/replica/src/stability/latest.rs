use parking_lot::Mutex;
use tokio::sync::Notify;

/// A value, for whoever waits for it to change.
///
/// Tasks are woken in the order in which they began to wait. (`tokio::sync::watch` wakes them in an order that it dices, so
/// that no simulation could be repeated.)
#[derive(Debug, Default)]
pub(crate) struct Latest<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy + PartialEq> Latest<T> {
    pub(super) fn new(value: T) -> Latest<T> {
        Latest { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(crate) fn get(&self) -> T {
        *self.value.lock()
    }

    /// Changes it, and wakes who waits if it is another one by that.
    pub(super) fn change(&self, change: impl FnOnce(&mut T)) {
        let mut value = self.value.lock();
        let before = *value;
        change(&mut value);
        let is_another = *value != before;
        drop(value);
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
        loop {
            self.changed.notified().await;
            if is_so(self.get()) {
                return;
            }
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
