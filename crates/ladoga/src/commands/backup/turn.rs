use std::thread;
use std::time::Duration;

use ladoga_backup::{Error, Repository, Writing};
use ladoga_env::Env;

use super::super::{Failure, complain, repository};
use crate::backup_arguments::ChangedArguments;

/// How often is looked whether the repository is free.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The repository once nobody else changes it, made if there is none, and what the node answers.
///
/// What it answers may not keep, so it is asked when the repository is free. Only if there is none it is asked first: a node that refuses
/// must not leave an empty repository behind, which looks like one with backups in it. If somebody else was faster, it is asked again.
pub(super) fn create<T>(
    env: &Env,
    changed: &ChangedArguments,
    ask: impl Fn() -> Result<T, Failure>,
) -> Result<((Repository, Writing), T), Failure> {
    let path = &changed.repository.to;
    let disk = repository::disk_of(env, path)?;
    let take = || wait(env, changed.wait, || Repository::create(&disk, path));
    ask_in_turn(Repository::is_there(&disk, path)?, ask, take)
}

fn ask_in_turn<R, T>(
    is_there: bool,
    ask: impl Fn() -> Result<T, Failure>,
    take: impl FnOnce() -> Result<Turn<R>, Failure>,
) -> Result<(R, T), Failure> {
    let early = if is_there { None } else { Some(ask()?) };
    let Turn { taken, has_waited } = take()?;
    match early.filter(|_| !has_waited) {
        Some(answered) => Ok((taken, answered)),
        None => Ok((taken, ask()?)),
    }
}

/// A right that was waited for, or not.
struct Turn<T> {
    taken: T,
    has_waited: bool,
}

/// The right to change a repository that is there, once nobody else does.
pub(super) fn lock(
    env: &Env,
    repository: &Repository,
    changed: &ChangedArguments,
) -> Result<Writing, Failure> {
    wait(env, changed.wait, || repository.lock()).map(|turn| turn.taken)
}

/// Tries it until the repository is free, or the time is over. Commands that a clock starts at one minute meet, and all of them count.
fn wait<T>(
    env: &Env,
    patience: Duration,
    mut take: impl FnMut() -> Result<T, Error>,
) -> Result<Turn<T>, Failure> {
    let began_ns = env.clock.monotonic_ns();
    let mut has_waited = false;
    loop {
        let busy = match take() {
            Err(busy @ Error::Busy { .. }) => busy,
            taken => return Ok(Turn { taken: taken?, has_waited }),
        };
        let waited = Duration::from_nanos(env.clock.monotonic_ns().saturating_sub(began_ns));
        let left = patience.saturating_sub(waited);
        if left.is_zero() {
            let over = if has_waited {
                format!("; that did not end within {patience:?} (--wait)")
            } else {
                String::new()
            };
            return Err(Failure::Failed(format!("{busy}{over}")));
        }
        if !has_waited {
            complain(format_args!("{busy}; waiting for its end, {patience:?} at most"));
            has_waited = true;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The first answer was a checkpoint that the node had given up by the time the repository was free.
    #[test]
    fn who_had_to_wait_asks_again() {
        let env = ladoga_env::real::env().expect("an environment");
        for (is_there, is_busy, asked) in
            [(false, true, 2), (false, false, 1), (true, true, 1), (true, false, 1)]
        {
            let (asks, attempts) = (Cell::new(0), Cell::new(0));
            let ask = || {
                asks.set(asks.get() + 1);
                Ok((asks.get(), attempts.get()))
            };
            let take = || {
                wait(&env, Duration::from_mins(1), || {
                    attempts.set(attempts.get() + 1);
                    let busy = Error::Busy { path: "there".into() };
                    if is_busy && attempts.get() == 1 { Err(busy) } else { Ok(()) }
                })
            };
            let ((), (number, after)) = ask_in_turn(is_there, ask, take).expect("its turn");
            assert_eq!((number, asks.get()), (asked, asked), "{is_there} {is_busy}");
            let is_early = !is_there && !is_busy;
            assert_eq!(after, if is_early { 0 } else { attempts.get() }, "{is_there} {is_busy}");
        }
    }
}
