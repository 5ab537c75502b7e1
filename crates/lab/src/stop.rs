use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{LabError, Outcome};
use crate::files;

const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];
/// After the first Ctrl-C, the run has so many looks to end by itself, printing and writing included. Looks are counted instead
/// of time, so that time in which the process was suspended does not count.
const GRACE_LOOKS: u32 = 14;
const LOOK: Duration = Duration::from_millis(50);
/// How long printing the last message may take: standard error may be a pipe that nobody reads.
const LAST_WORDS: Duration = Duration::from_millis(50);
const BROKEN_OFF: &str = "ladoga bench: interrupted; some operations did not finish and were aborted\n";

/// Set by the first Ctrl-C, so that the results so far are printed; a second one ends the process.
pub(crate) fn stop_flag() -> Outcome<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(LabError::system("listen for Ctrl-C"))?;
    }
    Ok(stop)
}

/// Which signal came last; 0 for none.
#[derive(Clone, Default)]
pub(crate) struct LastSignal(Arc<AtomicUsize>);

impl LastSignal {
    pub(crate) fn listen() -> Outcome<LastSignal> {
        let last = LastSignal::default();
        for signal in SIGNALS {
            signal_hook::flag::register_usize(signal, Arc::clone(&last.0), signal as usize)
                .map_err(LabError::system("listen for Ctrl-C"))?;
        }
        Ok(last)
    }

    /// The exit code of an interrupted command, as in a shell.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(code_of(self.0.load(Ordering::Relaxed) as i32))
    }
}

/// Ends the process within a second of the first Ctrl-C, whatever it is doing.
pub(crate) struct Interruption {
    /// Set by the first Ctrl-C.
    pub(crate) stop: Arc<AtomicBool>,
    signal: Arc<AtomicI32>,
}

impl Interruption {
    /// Makes Ctrl-C set the flag, and end the process if that does not end by itself: a script may never return, and a server,
    /// a resolver or a pipe may never answer; none of them can be woken.
    pub(crate) fn prepare() -> Outcome<Interruption> {
        let interruption = Interruption { stop: stop_flag()?, signal: Arc::new(AtomicI32::new(SIGINT)) };
        let mut signals = Signals::new(SIGNALS).map_err(LabError::system("listen for Ctrl-C"))?;
        let received = Arc::clone(&interruption.signal);
        let body = move || {
            let Some(signal) = signals.forever().next() else { return };
            received.store(signal, Ordering::Relaxed);
            for _ in 0..GRACE_LOOKS {
                std::thread::park_timeout(LOOK);
            }
            break_off(signal)
        };
        std::thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(body)
            .map_err(LabError::system("start a thread"))?;
        Ok(interruption)
    }

    /// The exit code of an interrupted command, as in a shell.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(code_of(self.signal.load(Ordering::Relaxed)))
    }
}

fn code_of(signal: i32) -> u8 {
    128 + signal as u8
}

/// Ends the process without waiting for anybody: other threads may hold any lock, and go on until the end.
fn break_off(signal: i32) -> ! {
    let (said_in, said) = channel();
    // On a thread of its own, as both may take for ever.
    let last_words = std::thread::Builder::new().spawn(move || {
        files::remove_unfinished();
        // Not by `eprintln`, whose lock may be held by who hangs.
        let _ = rustix::io::write(std::io::stderr(), BROKEN_OFF.as_bytes());
        let _ = said_in.send(());
    });
    if last_words.is_ok() {
        let _ = said.recv_timeout(LAST_WORDS);
    }
    signal_hook::low_level::exit(i32::from(code_of(signal)))
}
