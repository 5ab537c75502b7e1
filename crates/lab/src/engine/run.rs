use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::source::Maker;
use super::worker::Worker;
use super::{Plan, Station};
use crate::clock::Clock;
use crate::error::{LabError, Outcome};
use crate::stats::{
    self, INTERVALS_HELD, Interval, Lent, Over, Recorder, Second, Seconds, StealMeter, ThreadOutcome,
};

/// How often the finished intervals of threads are collected.
const COLLECT: Duration = Duration::from_millis(50);
/// So many times as long, a stopped thread is waited for; a script may never return.
const STOP_COLLECTS_MAX: u32 = 6;
/// Empty intervals that each thread has ready.
const INTERVALS_READY: usize = INTERVALS_HELD + 2;

/// Sees each second of a run once it has ended, and its intervals before it.
pub(crate) trait Watcher {
    fn second(&mut self, second: &Second, latencies: &Histogram<u64>);

    /// `number` counts intervals from the start of the run.
    fn interval(&mut self, _number: u64, _latencies: &Histogram<u64>) {}

    /// All threads have ended. What they held is told after this, as adding it up takes a while.
    fn ended(&mut self) {}
}

enum Event {
    /// A thread is connected and waits for the start.
    Ready,
    Done(Outcome<Box<ThreadOutcome>>),
}

/// The threads of a run. Its calls, in their order: `muster wait_ready go`, then whatever else the threads' makers
/// offer, then `dismiss`.
pub(crate) struct Crew {
    plan: Plan,
    clock: Clock,
    stop: Arc<AtomicBool>,
    events: Receiver<Event>,
    intervals: Receiver<Box<Interval>>,
    starts: Vec<Sender<u64>>,
    /// Where emptied intervals go back to. Any thread may fill them again.
    returns: Vec<Sender<Box<Interval>>>,
    /// What threads found that a script has.
    lent: Vec<Arc<Lent>>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    /// Starts the threads; each makes its station and connects, and then waits.
    pub(crate) fn muster(plan: Plan, makers: Vec<Box<dyn Maker>>, stop: &Arc<AtomicBool>) -> Outcome<Self> {
        assert_eq!(makers.len(), plan.threads);
        let (events_in, events) = channel();
        let (intervals_in, intervals) = channel();
        let mut crew = Self {
            plan,
            clock: Clock::start(),
            stop: Arc::clone(stop),
            events,
            intervals,
            starts: Vec::new(),
            returns: Vec::new(),
            lent: Vec::new(),
            threads: Vec::new(),
        };
        for (thread, maker) in makers.into_iter().enumerate() {
            let (start_in, start) = channel();
            let (return_in, empty) = channel();
            for _ in 0..INTERVALS_READY {
                let _ = return_in.send(Box::new(Interval::new())); // The other end is in scope.
            }
            let lent = Arc::new(Lent::default());
            let counted = plan.warmup_ns..plan.duration_ns;
            let (is_open_loop, misses_are_good) = (plan.rate.is_some(), plan.misses_are_good);
            let (lends, full) = (Arc::clone(&lent), intervals_in.clone());
            let recorder = Recorder::new(is_open_loop, misses_are_good, counted, lends, full, empty);
            let (events, shared) = (events_in.clone(), (crew.clock, Arc::clone(stop)));
            let body = move || serve(plan, thread, maker, recorder, shared, &start, events);
            let handle = std::thread::Builder::new()
                .name(format!("load-{thread}"))
                .spawn(body)
                .map_err(LabError::system("start a thread"))?;
            crew.starts.push(start_in);
            crew.returns.push(return_in);
            crew.lent.push(lent);
            crew.threads.push(handle);
        }
        Ok(crew)
    }

    /// Waits until every thread is connected, or one has failed.
    pub(crate) fn wait_ready(&self) -> Outcome<()> {
        for _ in 0..self.plan.threads {
            match self.events.recv() {
                Ok(Event::Ready) => {}
                Ok(Event::Done(Err(error))) => return Err(error),
                Ok(Event::Done(Ok(_))) | Err(_) => return Err(LabError::ThreadLost),
            }
        }
        Ok(())
    }

    /// The run: starts the threads at one moment and collects what they find.
    pub(crate) fn go(&mut self, watcher: &mut dyn Watcher) -> Outcome<stats::RunOutcome> {
        let steal = StealMeter::start();
        let start_ns = self.clock.now_ns();
        for start in &self.starts {
            let _ = start.send(start_ns); // A thread that is gone shows below.
        }
        let mut seconds = Seconds::new(self.plan.threads);
        let (mut series, mut done, mut failure) = (Vec::new(), Vec::new(), None);
        let mut stop_collects = 0;
        while done.len() < self.plan.threads && failure.is_none() && stop_collects < STOP_COLLECTS_MAX {
            match self.events.recv_timeout(COLLECT) {
                Ok(Event::Done(Ok(outcome))) => done.push(outcome),
                Ok(Event::Done(Err(error))) => failure = Some(error),
                Ok(Event::Ready) => {}
                // Only then: what a thread held is not added up while the others end.
                Err(RecvTimeoutError::Timeout) => {
                    stop_collects += u32::from(self.stop.load(Ordering::Relaxed));
                    self.collect(&mut seconds, &mut series, watcher);
                }
                Err(RecvTimeoutError::Disconnected) => failure = Some(LabError::ThreadLost),
            }
        }
        if let Some(error) = failure {
            self.stop.store(true, Ordering::Relaxed);
            return Err(error);
        }
        watcher.ended();
        self.collect(&mut seconds, &mut series, watcher);
        tell(seconds.finish(), &mut series, watcher);
        let threads_given_up = self.plan.threads - done.len();
        done.extend(self.take_lent(self.clock.now_ns() - start_ns));
        let mut outcome = stats::RunOutcome::of_threads(self.plan.rate, done);
        outcome.threads_given_up = threads_given_up;
        outcome.steal_share = steal.share();
        outcome.seconds = series;
        outcome.is_interrupted = self.stop.load(Ordering::Relaxed);
        Ok(outcome)
    }

    /// What threads have found that a script does not give back. Those that have ended have nothing lent.
    fn take_lent(&self, elapsed_ns: u64) -> impl Iterator<Item = Box<ThreadOutcome>> {
        let is_open_loop = self.plan.rate.is_some();
        let lent = self.lent.iter().filter_map(|lent| lent.take());
        lent.map(move |outcome| outcome.given_up(is_open_loop, elapsed_ns))
    }

    fn collect(&self, seconds: &mut Seconds, series: &mut Vec<Second>, watcher: &mut dyn Watcher) {
        let mut next_return = self.returns.iter().cycle();
        while let Ok(mut interval) = self.intervals.try_recv() {
            tell(seconds.add(&interval), series, watcher);
            interval.clear();
            if let Some(back) = next_return.next() {
                let _ = back.send(interval); // A thread that is done needs no more.
            }
        }
    }

    /// Waits for the threads to end. If a command channel holds them, it must be dropped first.
    pub(crate) fn dismiss(self) {
        drop(self.starts);
        for thread in self.threads {
            let _ = thread.join(); // A thread that panicked has shown as lost.
        }
    }
}

fn tell(over: Vec<Over>, series: &mut Vec<Second>, watcher: &mut dyn Watcher) {
    for over in over {
        match over {
            Over::Interval(number, latencies) => watcher.interval(number, &latencies),
            Over::Second(second, latencies) => {
                watcher.second(&second, &latencies);
                series.push(second);
            }
        }
    }
}

/// The life of a thread.
fn serve(
    plan: Plan,
    thread: usize,
    maker: Box<dyn Maker>,
    recorder: Recorder,
    shared: (Clock, Arc<AtomicBool>),
    start: &Receiver<u64>,
    events: Sender<Event>,
) {
    let prepared = maker.make().and_then(|Station { address, tls, source, afterwards }| {
        let mut worker = Worker::new(plan, thread, (address, tls, source), recorder, shared)?;
        worker.connect();
        Ok((worker, afterwards))
    });
    let (worker, afterwards) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = events.send(Event::Done(Err(error))); // Nobody listens if another thread failed too.
            return;
        }
    };
    let _ = events.send(Event::Ready);
    // Without a start the run was aborted.
    let Ok(start_ns) = start.recv() else { return };
    let result = worker.run(start_ns);
    let _ = events.send(Event::Done(result));
    drop(events);
    afterwards();
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
