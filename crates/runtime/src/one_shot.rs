use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// One value, for the one task of this event loop that waits for it: `set` once, taken once, in either order.
///
/// It takes no lock, and lies in memory that both sides share. (Between threads, use `tokio::sync::oneshot`.)
pub struct OneShot<T>(Cell<Shot<T>>);

enum Shot<T> {
    /// The task that waits, if one does already.
    Awaited(Option<Waker>),
    Set(T),
}

impl<T> Default for OneShot<T> {
    fn default() -> OneShot<T> {
        OneShot(Cell::new(Shot::Awaited(None)))
    }
}

impl<T> OneShot<T> {
    /// Hands the value to the task that waits, now or later.
    pub fn set(&self, value: T) {
        if let Shot::Awaited(Some(waker)) = self.0.replace(Shot::Set(value)) {
            waker.wake();
        }
    }

    /// Waits for the value, and takes it.
    pub async fn take(&self) -> T {
        poll_fn(|context| self.poll_take(context)).await
    }

    /// Takes the value if it is there, or has the task of `context` woken when it is.
    pub fn poll_take(&self, context: &Context<'_>) -> Poll<T> {
        match self.0.replace(Shot::Awaited(None)) {
            Shot::Set(value) => Poll::Ready(value),
            Shot::Awaited(waker) => {
                let waker = waker.filter(|waker| waker.will_wake(context.waker()));
                self.0.set(Shot::Awaited(Some(waker.unwrap_or_else(|| context.waker().clone()))));
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_is_woken_once_and_who_comes_later_need_not_wait() {
        let (first, last) = (Arc::<Woken>::default(), Arc::<Woken>::default());
        let wakes = |woken: &Arc<Woken>| woken.0.load(Ordering::Relaxed);
        let shot = OneShot::default();
        let mut taken = pin!(shot.take());
        let wakers = [&first, &last].map(|woken| Waker::from(Arc::clone(woken)));
        for waker in [&wakers[0], &wakers[1], &wakers[1]] {
            assert!(taken.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        shot.set(7);
        assert_eq!((wakes(&first), wakes(&last)), (0, 1), "the task that asked last");
        assert_eq!(taken.as_mut().poll(&mut Context::from_waker(&wakers[0])), Poll::Ready(7));

        let shot = OneShot::default();
        shot.set("early");
        assert_eq!(shot.poll_take(&Context::from_waker(Waker::noop())), Poll::Ready("early"));
    }
}
