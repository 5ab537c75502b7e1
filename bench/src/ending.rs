//! Ends what was started when this program is told to end: a server that outlived it would spoil the next measurement.

use std::fs;
use std::process::exit;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::stop::{OrFail, Outcome};

/// How long children have to end by themselves. One that measures in turns has children of its own.
const PATIENCE: Duration = Duration::from_secs(5);

/// From now on SIGINT, SIGTERM and SIGHUP end the children before they end this process.
pub(crate) fn end_children_on_signal() -> Outcome {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).or_fail(|| "cannot listen for signals".to_owned())?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            end(&children());
            exit(128 + signal);
        }
    });
    Ok(())
}

fn end(children: &[i32]) {
    for &child in children {
        send(child, Signal::TERM);
        // A frozen one hears nothing.
        send(child, Signal::CONT);
    }
    let started = Instant::now();
    while children.iter().any(|&child| is_running(child)) && started.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
    }
    for &child in children {
        send(child, Signal::KILL);
    }
}

/// Sends it, unless the child has ended.
fn send(child: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(child) {
        let _ = kill_process(pid, signal);
    }
}

/// The processes that threads of this one have started and not yet waited for.
fn children() -> Vec<i32> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Whether it is there, and no zombie.
fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn children_end_also_a_frozen_one() {
        let mut sleeps = [(); 2].map(|()| Command::new("sleep").arg("600").spawn().expect("sleep starts"));
        let pids = sleeps.each_ref().map(|child| child.id().cast_signed());
        send(pids[1], Signal::STOP);
        assert!(pids.iter().all(|&pid| children().contains(&pid) && is_running(pid)));
        end(&pids);
        assert!(!pids.iter().any(|&pid| is_running(pid)));
        for child in &mut sleeps {
            assert!(!child.wait().expect("it is our child").success());
        }
        assert!(!pids.iter().any(|pid| children().contains(pid)));
    }
}
