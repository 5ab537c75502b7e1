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
/// must not leave an empty repository behind, which looks like one with backups in it.
pub(super) fn create<T>(
    env: &Env,
    changed: &ChangedArguments,
    ask: impl FnOnce() -> Result<T, Failure>,
) -> Result<((Repository, Writing), T), Failure> {
    let path = &changed.repository.to;
    let disk = repository::disk_of(env, path)?;
    let take = || wait(env, changed.wait, || Repository::create(&disk, path));
    if Repository::is_there(&disk, path)? {
        let taken = take()?;
        return Ok((taken, ask()?));
    }
    let answered = ask()?;
    Ok((take()?, answered))
}

/// The right to change a repository that is there, once nobody else does.
pub(super) fn lock(
    env: &Env,
    repository: &Repository,
    changed: &ChangedArguments,
) -> Result<Writing, Failure> {
    wait(env, changed.wait, || repository.lock())
}

/// Tries it until the repository is free, or the time is over. Commands that a clock starts at one minute meet, and all of them count.
fn wait<T>(env: &Env, patience: Duration, mut take: impl FnMut() -> Result<T, Error>) -> Result<T, Failure> {
    let began_ns = env.clock.monotonic_ns();
    let mut has_told = false;
    loop {
        let busy = match take() {
            Err(busy @ Error::Busy { .. }) => busy,
            taken => return Ok(taken?),
        };
        let waited = Duration::from_nanos(env.clock.monotonic_ns().saturating_sub(began_ns));
        let left = patience.saturating_sub(waited);
        if left.is_zero() {
            let over = if has_told {
                format!("; that did not end within {patience:?} (--wait)")
            } else {
                String::new()
            };
            return Err(Failure::Failed(format!("{busy}{over}")));
        }
        if !has_told {
            complain(format_args!("{busy}; waiting for its end, {patience:?} at most"));
            has_told = true;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}
