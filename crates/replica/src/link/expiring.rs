use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;

/// A request that ends at a certain time, with whatever answers it has.
pub(crate) trait Expires {
    /// That time has come.
    fn expire(self: Rc<Self>);
}

/// Requests in flight, the oldest first: all have the same time-out.
///
/// A request that has ended leaves its place at once, wherever that is. Behind a request to a frozen peer there may be tens of
/// thousands of others: otherwise their memory would stay in use, and would all be freed in one turn.
#[derive(Default)]
pub(crate) struct Expiring {
    places: RefCell<Places>,
}

#[derive(Default)]
struct Places {
    /// The number of the oldest.
    first: u64,
    /// When each ends; `None` if it has ended.
    entries: VecDeque<(u64, Option<Weak<dyn Expires>>)>,
}

/// A request's place among them, which it has for as long as it lives.
pub(crate) struct Place {
    expiring: Rc<Expiring>,
    number: u64,
    /// The task that ends it before the others.
    ends_sooner: Option<AbortHandle>,
}

impl Place {
    /// Lets the request end after this time, if that is before those that began at the same time; within the runtime of the event loop.
    pub(crate) fn sooner(mut self, left: Duration, request: Weak<dyn Expires>) -> Place {
        let ending = tokio::task::spawn_local(async move {
            tokio::time::sleep(left).await;
            if let Some(request) = request.upgrade() {
                request.expire();
            }
        });
        self.ends_sooner = Some(ending.abort_handle());
        self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.expiring.leave(self.number);
        if let Some(task) = &self.ends_sooner {
            task.abort();
        }
    }
}

impl Expiring {
    /// Lets a request end at a time, which is not before that of earlier ones.
    pub(crate) fn enter(self: &Rc<Self>, deadline_ms: u64, request: Weak<dyn Expires>) -> Place {
        let mut places = self.places.borrow_mut();
        let number = places.first + places.entries.len() as u64;
        places.entries.push_back((deadline_ms, Some(request)));
        Place { expiring: Rc::clone(self), number, ends_sooner: None }
    }

    fn leave(&self, number: u64) {
        let mut places = self.places.borrow_mut();
        let Some(index) = number.checked_sub(places.first) else { return };
        places.entries[index as usize].1 = None;
        while places.entries.pop_front_if(|(_, request)| request.is_none()).is_some() {
            places.first += 1;
        }
    }

    /// Takes out a request whose time has come.
    pub(crate) fn next(&self, now_ms: u64) -> Option<Weak<dyn Expires>> {
        let mut places = self.places.borrow_mut();
        loop {
            let (_, request) = places.entries.pop_front_if(|(deadline_ms, _)| *deadline_ms <= now_ms)?;
            places.first += 1;
            if request.is_some() {
                return request;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Request {
        expired: Cell<bool>,
        place: Place,
    }

    impl Expires for Request {
        fn expire(self: Rc<Self>) {
            self.expired.set(true);
        }
    }

    fn begin(expiring: &Rc<Expiring>, deadline_ms: u64) -> Rc<Request> {
        Rc::new_cyclic(|request: &Weak<Request>| Request {
            expired: Cell::new(false),
            place: expiring.enter(deadline_ms, request.clone()),
        })
    }

    fn expire(expiring: &Expiring, now_ms: u64) {
        while let Some(request) = expiring.next(now_ms) {
            request.upgrade().expect("what is over has left").expire();
        }
    }

    #[test]
    fn whose_time_has_come_is_told_and_nobody_else() {
        let expiring = Rc::<Expiring>::default();
        let requests = [5, 5, 6].map(|deadline_ms| begin(&expiring, deadline_ms));
        expire(&expiring, 4);
        assert!(requests.iter().all(|request| !request.expired.get()));
        expire(&expiring, 5);
        assert_eq!(requests.each_ref().map(|request| request.expired.get()), [true, true, false]);
        drop(requests);
        assert!(expiring.next(6).is_none(), "all are over");
    }

    /// Their memory was kept, and given back in one turn, for as long as the oldest request waited for a frozen peer.
    #[test]
    fn what_is_over_behind_one_that_is_not_keeps_no_memory() {
        let expiring = Rc::<Expiring>::default();
        let oldest = begin(&expiring, 5);
        let others: Vec<_> = (0..1000).map(|_| begin(&expiring, 5)).collect();
        let weak: Vec<_> = others.iter().map(Rc::downgrade).collect();
        drop(others);
        assert!(weak.iter().all(|request| request.strong_count() == 0 && request.weak_count() == 0));
        assert!(expiring.places.borrow().entries.iter().skip(1).all(|(_, request)| request.is_none()));
        drop(oldest);
        assert!(expiring.places.borrow().entries.is_empty());
        let next = begin(&expiring, 7);
        expire(&expiring, 7);
        assert!(next.expired.get(), "numbers go on");
    }

    /// It slept on for the rest of the time, one for each ballot of a forwarded request.
    #[test]
    fn what_was_to_end_sooner_and_is_over_keeps_no_task() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let expiring = Rc::<Expiring>::default();
            let begin = |left| {
                Rc::new_cyclic(|request: &Weak<Request>| Request {
                    expired: Cell::new(false),
                    place: expiring.enter(u64::MAX, request.clone()).sooner(left, request.clone()),
                })
            };
            let over = begin(Duration::from_hours(1));
            let task = over.place.ends_sooner.clone().expect("a task");
            drop(over);
            tokio::task::yield_now().await;
            assert!(task.is_finished());
            let next = begin(Duration::from_millis(1));
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(next.expired.get());
        });
    }
}
