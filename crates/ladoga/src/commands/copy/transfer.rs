use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::super::Failure;
use super::super::tally::ProgressLine;
use super::Sides;
use super::order::Order;
use super::source::{Lot, Source, Span};
use super::state::StateFile;
use super::stored::Stored;
use super::target::store;

/// Lots that are read and not done yet, for each request: a slow one holds the others up only after so many.
const LOTS_A_REQUEST: usize = 4;
/// How often the state is written.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// What a thread tells.
enum Event {
    /// All was read, in so many lots, or cannot be.
    Read(Result<u64, Failure>),
    /// The lot of this number is stored, or cannot be.
    Stored(u64, Result<(Stored, Vec<u8>), Failure>),
}

/// Numbered lots, for whoever is free.
type Lots = Arc<Mutex<Receiver<(u64, Lot)>>>;

/// Copies the records of a span, and keeps the state up to date. Threads that are left at a failure end with the process.
pub(super) fn transfer(
    sides: &Sides,
    whole: &Span,
    requests: usize,
    state: &mut StateFile,
) -> Result<(), Failure> {
    let span = Span { after: state.progress.after.clone().or(whole.after.clone()), ..whole.clone() };
    let (events, happened) = channel();
    let (permits, permitted) = channel();
    for _ in 0..requests * LOTS_A_REQUEST {
        // It is received below.
        let _ = permits.send(());
    }
    let (lots, taken) = channel();
    let taken: Lots = Arc::new(Mutex::new(taken));
    let source = Source::new(&sides.from, span, sides.patience);
    let reading = events.clone();
    thread::spawn(move || {
        let mut number = 0;
        let read = source.read(|lot| {
            let is_wanted = permitted.recv().is_ok() && lots.send((number, lot)).is_ok();
            number += 1;
            is_wanted
        });
        drop(lots);
        let _ = reading.send(Event::Read(read.map(|()| number)));
    });
    for _ in 0..requests {
        let (sides, lots, events) = (sides.clone(), Arc::clone(&taken), events.clone());
        thread::spawn(move || send_lots(&sides, &lots, &events));
    }
    drop(events);
    watch(&happened, &permits, state)
}

fn send_lots(sides: &Sides, lots: &Lots, events: &Sender<Event>) {
    loop {
        let next = lots.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, lot)) = next else { return };
        let last_key = lot.last_key().unwrap_or_default();
        let stored = store(sides, &lot).map(|stored| (stored, last_key));
        if events.send(Event::Stored(number, stored)).is_err() {
            return;
        }
    }
}

/// Counts what is done until everything is.
fn watch(happened: &Receiver<Event>, permits: &Sender<()>, state: &mut StateFile) -> Result<(), Failure> {
    let (mut order, mut progress) = (Order::new(), ProgressLine::of("records"));
    let mut lots = None;
    loop {
        let event = happened.recv_timeout(SAVE_EVERY);
        let outcome = match event {
            Ok(Event::Read(read)) => read.map(|count| lots = Some(count)),
            Ok(Event::Stored(number, Ok(done))) => {
                for (stored, last_key) in order.finish(number, done) {
                    state.progress.advance(stored, last_key);
                    // The reader is gone once it has read everything.
                    let _ = permits.send(());
                }
                Ok(())
            }
            Ok(Event::Stored(_, Err(failure))) => Err(failure),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                if lots != Some(order.count()) {
                    let reason = "a thread ended before its records were stored, which is a bug";
                    return Err(Failure::Failed(reason.to_owned()));
                }
                state.progress.is_copied = true;
                return state.save();
            }
        };
        if outcome.is_err() {
            // The first failure says what is wrong, not this.
            let _ = state.save();
            return outcome;
        }
        progress.tell(state.progress.records);
        state.save_from_time_to_time(SAVE_EVERY)?;
    }
}
