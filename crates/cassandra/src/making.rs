//! What is made once, by a task of its own, for all who wait for it: who gives up ends nothing, and who comes later waits no longer.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;

/// What the task that is under way is going to tell, if there is one.
pub(crate) struct Making<T>(Mutex<Option<watch::Receiver<Option<T>>>>);

impl<T> Default for Making<T> {
    fn default() -> Making<T> {
        Making(Mutex::new(None))
    }
}

impl<T: Clone + Send + Sync + 'static> Making<T> {
    /// What the task comes to that is under way, or that this begins. None if it is given up, as the runtime ends, or panics.
    pub(crate) async fn result<F: Future<Output = T> + Send + 'static>(
        &self,
        runtime: &Handle,
        make: impl FnOnce() -> F,
    ) -> Option<T> {
        let mut told = self.joined(runtime, make);
        let told = told.wait_for(Option::is_some).await.ok()?;
        told.clone()
    }

    fn joined<F: Future<Output = T> + Send + 'static>(
        &self,
        runtime: &Handle,
        make: impl FnOnce() -> F,
    ) -> watch::Receiver<Option<T>> {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A task that has ended tells nothing any more.
        if let Some(told) = under_way.as_ref().filter(|told| told.has_changed().is_ok()) {
            return told.clone();
        }
        let (tell, told) = watch::channel(None);
        let work = make();
        runtime.spawn(async move {
            let _ = tell.send(Some(work.await));
        });
        *under_way = Some(told.clone());
        told
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::FutureExt;
    use futures::future::join_all;
    use tokio::runtime::Builder;
    use tokio::sync::Semaphore;

    use super::*;

    /// Each waited for those before it to fail, one after the other.
    #[test]
    fn all_wait_for_one_task_and_it_goes_on_without_them() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let handle = runtime.handle().clone();
        let (making, begun, gate) = (Making::default(), AtomicU32::new(0), Arc::new(Semaphore::new(0)));
        let result = || {
            making.result(&handle, || {
                let (number, gate) = (begun.fetch_add(1, Ordering::Relaxed), Arc::clone(&gate));
                async move {
                    gate.acquire().await.expect("it is open").forget();
                    number
                }
            })
        };
        runtime.block_on(async {
            assert_eq!(result().now_or_never(), None, "who gives up");
            let all = join_all((0..9).map(|_| result()));
            gate.add_permits(1);
            assert_eq!(all.await, [Some(0); 9]);
            gate.add_permits(1);
            assert_eq!(result().await, Some(1), "a new one: the first has ended");
        });
        assert_eq!(begun.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn who_waits_for_a_task_that_is_given_up_is_told() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let handle = runtime.handle().clone();
        let making = Making::<u32>::default();
        let mut told = making.joined(&handle, pending);
        drop(runtime);
        assert!(told.wait_for(Option::is_some).now_or_never().expect("at once").is_err());
    }
}
