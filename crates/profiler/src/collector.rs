//! The thread that takes samples out of the rings while a profile runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::ProfileError;
use crate::own::OwnThread;
use crate::recorder::Recorder;
use crate::source::Source;
use crate::sys::{calls, files};

const FOLLOW_INTERVAL_NS: u64 = 100_000_000;
const RENAMED_THREADS_MAX: usize = 64;

pub(crate) struct Collector {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Recorder>>,
}

impl Collector {
    pub(crate) fn start(source: Box<dyn Source>) -> Result<Self, ProfileError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("profiler".to_owned())
            .spawn(move || collect(source, &stopped))
            .map_err(|source| ProfileError::System { action: "starting the profiler's thread", source })?;
        Ok(Collector { stop, thread: Some(thread) })
    }

    pub(crate) fn finish(mut self) -> Result<Recorder, ProfileError> {
        self.end().unwrap_or(Err(ProfileError::CollectorLost))
    }

    fn end(&mut self) -> Option<Result<Recorder, ProfileError>> {
        let thread = self.thread.take()?;
        self.stop.store(true, Ordering::Release);
        thread.thread().unpark();
        Some(thread.join().map_err(|_| ProfileError::CollectorLost))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn collect(mut source: Box<dyn Source>, stop: &AtomicBool) -> Recorder {
    let _own = OwnThread::register();
    let mut recorder = Recorder::default();
    let mut followed_ns = 0;
    while !stop.load(Ordering::Acquire) {
        let now_ns = calls::monotonic_ns();
        if now_ns - followed_ns >= FOLLOW_INTERVAL_NS {
            followed_ns = now_ns;
            follow(source.as_mut(), &mut recorder);
        }
        source.drain(&mut recorder);
        std::thread::park_timeout(source.interval());
    }
    source.stop(&mut recorder);
    source.drain(&mut recorder);
    recorder.finish();
    recorder
}

/// Names are read while the threads live; the profiler itself is left out.
fn follow(source: &mut dyn Source, recorder: &mut Recorder) {
    recorder.left_out = OwnThread::all();
    let ids: Vec<u32> = files::thread_ids().into_iter().filter(|id| !recorder.is_left_out(*id)).collect();
    for id in &ids {
        // Read again each time, since a thread names itself only after it has started. Except if there are many threads.
        if (ids.len() <= RENAMED_THREADS_MAX || !recorder.thread_names.contains_key(id))
            && let Some(name) = files::thread_name(*id)
        {
            recorder.thread_names.insert(*id, name);
        }
    }
    source.follow_threads(&ids, recorder);
}
