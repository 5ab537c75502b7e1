use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// How many bytes a client may still send after its last answer. A client that is sending a value reads no answer before it is
/// done, and a reset would discard the answer.
const LINGER_BYTES_MAX: usize = 128 << 20;

/// Why a connection has to end before everything is said, as the sweeper decides, and the task that drives it.
pub(crate) struct Ending<W> {
    why: Cell<Option<W>>,
    task: RefCell<Option<Waker>>,
}

impl<W: Copy> Ending<W> {
    /// Of a connection that nothing ends.
    pub(crate) const fn none() -> Ending<W> {
        Ending { why: Cell::new(None), task: RefCell::new(None) }
    }

    /// Why it has to end, if it has to.
    pub(crate) const fn why(&self) -> Option<W> {
        self.why.get()
    }

    /// Ends the connection.
    pub(crate) fn end(&self, why: W) {
        self.why.set(Some(why));
        self.wake();
    }

    /// The last answer is about to be sent. It has its own time, whatever made it the last.
    pub(crate) fn begin_anew(&self) {
        self.why.set(None);
    }

    /// The task to wake when the connection has to end.
    pub(crate) fn driven_by(&self, waker: &Waker) {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }

    /// Has the task look at the connection.
    pub(crate) fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// What `future` comes to, unless the connection has to end before.
    pub(crate) async fn unless_ended<T>(&self, future: impl Future<Output = T>) -> Result<T, W> {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.driven_by(context.waker());
            match self.why() {
                Some(why) => Poll::Ready(Err(why)),
                None => future.as_mut().poll(context).map(Ok),
            }
        })
        .await
    }
}

/// Discards what a client sends after its last answer, to its end, if it may be sending.
pub(crate) async fn hear_out(
    mut poll_discard: impl FnMut(&mut Context<'_>) -> Poll<io::Result<usize>>,
    mut may_be_sending: bool,
) -> io::Result<()> {
    let mut discarded = 0;
    while discarded < LINGER_BYTES_MAX {
        let read = poll_fn(|context| match poll_discard(context) {
            Poll::Pending if !may_be_sending => Poll::Ready(Ok(0)),
            read => read,
        });
        match read.await? {
            0 => break,
            count => discarded += count,
        }
        may_be_sending = true;
    }
    Ok(())
}

/// Lets others have their turn.
pub(crate) async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_has_to_end_does_not_wait_for_its_work() {
        let ending = Ending::none();
        let mut working = pin!(ending.unless_ended(std::future::pending::<()>()));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(working.as_mut().poll(&mut context), Poll::Pending);
        ending.end("late");
        assert_eq!(working.as_mut().poll(&mut context), Poll::Ready(Err("late")));
        ending.begin_anew();
        let mut done = pin!(ending.unless_ended(std::future::ready(7)));
        assert_eq!(done.as_mut().poll(&mut context), Poll::Ready(Ok(7)));
    }

    #[test]
    fn a_client_that_may_be_sending_is_heard_to_its_end() {
        let mut arriving = [3, 2, 0].into_iter();
        let mut heard = pin!(hear_out(|_| Poll::Ready(Ok(arriving.next().expect("it ends"))), false));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(heard.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
        let mut silent = pin!(hear_out(|_| Poll::Pending, false));
        assert!(silent.as_mut().poll(&mut context).is_ready());
        let mut waited_for = pin!(hear_out(|_| Poll::Pending, true));
        assert!(waited_for.as_mut().poll(&mut context).is_pending());
    }
}
