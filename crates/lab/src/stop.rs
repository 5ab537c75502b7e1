use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{LabError, Outcome};
use crate::files;

const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];
/// Signals within this time of the first one are the same wish: a terminal signals all that run in it, and a script there
/// signals those that it has started once more; GNU `timeout` signals its child, and then the group of its child.
pub const SAME_WISH: Duration = Duration::from_secs(1);
/// After the first Ctrl-C, the run has so many looks to end by itself, printing and writing included. Looks are counted instead
/// of time, so that time in which the process was suspended does not count.
const GRACE_LOOKS: u32 = 14;
const LOOK: Duration = Duration::from_millis(50);
const SAME_WISH_LOOKS: u32 = (SAME_WISH.as_millis() / LOOK.as_millis()) as u32;
/// How long printing the last message may take: standard error may be a pipe that nobody reads.
const LAST_WORDS: Duration = Duration::from_millis(50);
const BROKEN_OFF: &str = "ladoga bench: interrupted; some operations did not finish and were aborted\n";

/// What the first Ctrl-C asks for: that the results so far are printed.
pub(crate) struct Interruption {
    /// Set by the first Ctrl-C.
    pub(crate) stop: Arc<AtomicBool>,
    /// Which signal came last; 0 for none.
    signal: Arc<AtomicUsize>,
}

impl Interruption {
    /// Ctrl-C sets the flag, and ends the process within a second if that does not end by itself: a script may never return,
    /// and a server, a resolver or a pipe may never answer; none of them can be woken.
    pub(crate) fn within_a_second() -> Outcome<Interruption> {
        Self::listen(|_, signal| {
            look_away(GRACE_LOOKS);
            break_off(signal)
        })
    }

    /// Ctrl-C sets the flag. A second one ends the process at once, unless it comes within [`SAME_WISH`]: a node has to be
    /// stopped, its directory removed and a report written, which takes its time.
    pub(crate) fn until_a_second_wish() -> Outcome<Interruption> {
        Self::listen(|signals, _| {
            look_away(SAME_WISH_LOOKS);
            _ = signals.pending().count(); // They were the same wish.
            if let Some(signal) = signals.forever().next() {
                _ = signal_hook::low_level::emulate_default_handler(signal); // It ends the process.
            }
        })
    }

    /// `then` gets the first signal and all later ones, on a thread of its own.
    fn listen(then: impl FnOnce(&mut Signals, i32) + Send + 'static) -> Outcome<Interruption> {
        let interruption =
            Interruption { stop: Arc::new(AtomicBool::new(false)), signal: Arc::new(AtomicUsize::new(0)) };
        for signal in SIGNALS {
            let Interruption { stop, signal: last } = &interruption;
            // In this order: who sees the flag sees why.
            signal_hook::flag::register_usize(signal, Arc::clone(last), signal as usize)
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(stop)))
                .map_err(LabError::system("listen for Ctrl-C"))?;
        }
        let mut signals = Signals::new(SIGNALS).map_err(LabError::system("listen for Ctrl-C"))?;
        let body = move || {
            let Some(signal) = signals.forever().next() else { return };
            then(&mut signals, signal);
        };
        std::thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(body)
            .map_err(LabError::system("start a thread"))?;
        Ok(interruption)
    }

    /// The exit code of an interrupted command, as in a shell.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(code_of(self.signal.load(Ordering::Relaxed) as i32))
    }
}

fn look_away(looks: u32) {
    for _ in 0..looks {
        std::thread::park_timeout(LOOK);
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
