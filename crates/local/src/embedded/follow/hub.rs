use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use ladoga_env::Clock;
use ladoga_service::KeySpan;
use slab::Slab;

use super::super::feed::{Feed, Group};

/// After it has looked at what is new, it looks again no sooner than after this time, and ten times as long as that took: writes
/// pay little for those who wait, however many they are.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_SHARE: u32 = 10;

/// The followers of one event loop that wait for changes of their keys. Those are woken, and nobody else.
pub(in super::super) struct Hub {
    feed: Arc<Feed>,
    clock: Arc<dyn Clock>,
    waiting: RefCell<Slab<WaitingFollower>>,
    /// Everything up to this timestamp was looked at, for all who wait.
    seen: Cell<u64>,
    task: RefCell<Option<Waker>>,
}

struct WaitingFollower {
    start: Bytes,
    end: Option<Bytes>,
    /// None of its keys changed between where it began to wait and here.
    after: u64,
    is_due: bool,
    task: Waker,
}

impl Hub {
    pub(in super::super) fn new(feed: Arc<Feed>, clock: Arc<dyn Clock>) -> Hub {
        Hub { feed, clock, waiting: RefCell::default(), seen: Cell::new(0), task: RefCell::default() }
    }

    /// Wakes those who wait, for as long as the event loop runs.
    pub(in super::super) async fn run(self: Rc<Self>) {
        loop {
            poll_fn(|context| self.poll_news(context)).await;
            let began_ns = self.clock.monotonic_ns();
            self.tell();
            let took = Duration::from_nanos(self.clock.monotonic_ns().saturating_sub(began_ns));
            tokio::time::sleep(PAUSE_MIN.max(took * PAUSE_SHARE)).await;
        }
    }

    fn poll_news(&self, context: &Context<'_>) -> Poll<()> {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            *task = Some(context.waker().clone());
        }
        if self.waiting.borrow().iter().all(|(_, waiting)| waiting.is_due) {
            return Poll::Pending;
        }
        self.feed.poll_after(self.seen.get(), context)
    }

    /// Waits for changes of these keys after this timestamp, unless there may be some now.
    pub(super) fn enter(&self, span: &KeySpan, after: u64, context: &Context<'_>) -> Option<usize> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            self.seen.set(self.seen.get().max(after));
        }
        // Those up to there were looked at already, and not for this one.
        if after < self.seen.get() {
            return None;
        }
        let (start, end, task) = (span.start.clone(), span.end.clone(), context.waker().clone());
        let number = waiting.insert(WaitingFollower { start, end, after, is_due: false, task });
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
        Some(number)
    }

    /// Ready if there may be changes for who waits under this number.
    pub(super) fn poll(&self, number: usize, context: &Context<'_>) -> Poll<()> {
        let waiting = &mut self.waiting.borrow_mut()[number];
        if waiting.is_due {
            return Poll::Ready(());
        }
        if !waiting.task.will_wake(context.waker()) {
            waiting.task.clone_from(context.waker());
        }
        Poll::Pending
    }

    /// Waits no more; answers up to which timestamp there is nothing for it.
    pub(super) fn leave(&self, number: usize) -> u64 {
        self.waiting.borrow_mut().remove(number).after
    }

    /// Looks at what is new.
    fn tell(&self) {
        let mut waiting = self.waiting.borrow_mut();
        let Some((groups, last)) = self.feed.behind(self.seen.get()) else {
            // Some of it is gone: each has to look for itself.
            self.seen.set(self.feed.last().unwrap_or(0).max(self.seen.get()));
            waiting.iter_mut().for_each(|(_, one)| one.wake());
            return;
        };
        let keys = sorted_keys(&groups, self.seen.get());
        for (_, one) in waiting.iter_mut().filter(|(_, one)| !one.is_due) {
            if has_one_of(&keys, &one.start, one.end.as_ref()) {
                one.wake();
            } else {
                one.after = one.after.max(last);
            }
        }
        self.seen.set(last);
    }
}

impl WaitingFollower {
    fn wake(&mut self) {
        if !std::mem::replace(&mut self.is_due, true) {
            self.task.wake_by_ref();
        }
    }
}

fn sorted_keys(groups: &[Arc<Group>], after: u64) -> Vec<&Bytes> {
    let changes = groups.iter().flat_map(|group| group.after(after));
    let mut keys: Vec<&Bytes> = changes.map(|change| &change.key).collect();
    keys.sort_unstable();
    keys
}

fn has_one_of(keys: &[&Bytes], start: &Bytes, end: Option<&Bytes>) -> bool {
    let first = keys.get(keys.partition_point(|&key| key < start));
    first.is_some_and(|&key| end.is_none_or(|end| key < end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_between_others() {
        let keys = ["b", "d", "d", "f"].map(Bytes::from);
        let keys: Vec<&Bytes> = keys.iter().collect();
        let has = |start: &'static str, end: Option<&'static str>| {
            has_one_of(&keys, &Bytes::from(start), end.map(Bytes::from).as_ref())
        };
        assert!(has("", None) && has("f", None) && has("d", Some("e")) && has("a", Some("c")));
        assert!(!has("g", None) && !has("d\0", Some("f")) && !has("a", Some("b")) && !has("e", Some("e")));
        assert!(!has_one_of(&[], &Bytes::new(), None));
    }
}
