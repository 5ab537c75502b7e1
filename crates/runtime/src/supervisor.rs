use std::any::Any;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::thread::{self, JoinHandle};

use ladoga_env::{Turn, Worker, WorkerHandle, Workers};
use tokio::sync::watch;

/// Tasks and threads that a node cannot do without. If one of them panics, the node shuts down: otherwise nobody would notice
/// that, say, one of its event loops no longer accepts connections.
///
/// A task that serves one connection or one request is not one of them: its panic ends that connection only.
#[derive(Debug, Clone, Default)]
pub struct Supervisor {
    first: Arc<watch::Sender<Option<Panicked>>>,
}

/// A panic that ends a node, which is a fault of this program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} panicked ({why})")]
pub struct Panicked {
    what: String,
    why: String,
}

impl Supervisor {
    /// Starts a task of the calling event loop.
    pub fn spawn_local(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        let supervisor = self.clone();
        let mut task = Box::pin(task);
        let guarded = poll_fn(move |context| {
            let polled = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context)));
            polled.unwrap_or_else(|panic| {
                let thread = thread::current();
                let of = thread.name().unwrap_or("a thread without a name");
                supervisor.record_panic(format!("the task '{name}' of {of}"), &*panic);
                Poll::Ready(())
            })
        });
        tokio::task::spawn_local(guarded);
    }

    /// Starts a thread.
    pub fn spawn(&self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        let (supervisor, what) = (self.clone(), format!("the thread {name}"));
        thread::Builder::new().name(name).spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                supervisor.record_panic(what, &*panic);
            }
        })
    }

    /// Starts a worker.
    pub fn start(
        &self,
        workers: &dyn Workers,
        name: &str,
        worker: impl Worker + 'static,
    ) -> io::Result<Arc<dyn WorkerHandle>> {
        let what = format!("the thread {name}");
        workers.start(name, Box::new(Guarded { supervisor: self.clone(), what, worker }))
    }

    fn record_panic(&self, what: String, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let why = text.unwrap_or("without a text").lines().collect::<Vec<_>>().join(" ");
        let panicked = Panicked { what, why };
        tracing::error!("{panicked}; the node stops");
        self.first.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(panicked);
            is_first
        });
    }

    /// The first panic, if there was one.
    pub fn check(&self) -> Result<(), Panicked> {
        self.first.borrow().clone().map_or(Ok(()), Err)
    }

    /// Waits for the first panic.
    pub fn panicked(&self) -> impl Future<Output = Panicked> + use<> {
        let mut first = self.first.subscribe();
        let sender = Arc::clone(&self.first);
        async move {
            let found = first.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
            drop(sender);
            found.expect("who sends it is kept until then")
        }
    }
}

struct Guarded<W> {
    supervisor: Supervisor,
    what: String,
    worker: W,
}

impl<W: Worker> Worker for Guarded<W> {
    fn turn(&mut self) -> Turn {
        let turn = catch_unwind(AssertUnwindSafe(|| self.worker.turn()));
        turn.unwrap_or_else(|panic| {
            self.supervisor.record_panic(self.what.clone(), &*panic);
            Turn::Over
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_panic_is_told_with_its_place_and_its_text_in_one_line() {
        let supervisor = Supervisor::default();
        supervisor.spawn("well".to_owned(), || {}).expect("a thread").join().expect("no panic");
        assert_eq!(supervisor.check(), Ok(()));
        for (name, text) in [("first", "on\npurpose"), ("second", "later")] {
            let thread = supervisor.spawn(name.to_owned(), move || panic!("{text}"));
            thread.expect("a thread").join().expect("a panic that is caught");
        }
        let told = supervisor.check().expect_err("a panic").to_string();
        assert_eq!(told, "the thread first panicked (on purpose)");
    }
}
