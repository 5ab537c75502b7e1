use std::io::Write;

use ladoga_backup::{Backup, Error, Listing, LogPosition, Repository, Taken, Writing};
use ladoga_env::{Clock, Env};

use super::super::{Failure, complain, counted, node_url, output_of_work};
use super::Shown;
use super::checkpoint::Checkpoint;
use super::cut::Cut;
use super::logs::tell_gaps;
use super::node_log::{self, NodeLog};
use super::paced::{Pace, Paced};
use super::turn;
use crate::backup_arguments::{BackupRate, CreateBackupArguments};
use crate::client::Url;
use crate::settings::{format_size, raise_descriptor_limit};

/// Between two nodes' files, logs are fetched again if the last time was so long ago.
const LOGS_AGAIN_NS: u64 = 10 * 60 * 1_000_000_000;

/// Takes a backup.
pub(super) fn create(arguments: &CreateBackupArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    let env = ladoga_env::real::env()?;
    raise_descriptor_limit();
    give_way();
    let ack = arguments.ack.map(std::num::NonZeroUsize::get);
    let ((repository, writing), (begun_ms, cut)) = turn::create(&env, &arguments.changed, || {
        Ok((env.clock.wall_ms(), Cut::take(&*env.clock, &url, ack)?))
    })?;
    let id = repository.new_id(&env)?;
    let (backup, taken) = fetch(&env, (&repository, &writing), (id, begun_ms), (cut, arguments.rate))?;
    tell(&backup, taken)
}

fn fetch(
    env: &Env,
    (repository, writing): (&Repository, &Writing),
    (id, begun_ms): (String, u64),
    (cut, BackupRate(rate)): (Cut, BackupRate),
) -> Result<(Backup, Taken), Failure> {
    let Cut { cluster, ack, nodes: checkpoints, missing, .. } = cut;
    let mut parts = checkpoints.into_iter().map(NodeToFetch::of).collect::<Result<Vec<_>, Failure>>()?;
    repository.expect_room_for(parts.iter().map(|part| (part.of_node(), &part.listing)))?;
    let mut taken = Taken::default();
    let mut nodes = Vec::new();
    fetch_in_turn(
        &*env.clock,
        &mut parts,
        |part| {
            let pace = Pace::new(&*env.clock, rate);
            // How far that is is noted once all of the files are there.
            part.log = position(repository, writing, part.end.as_ref(), (0, pace))?.or(part.log.take());
            Ok(())
        },
        |part| {
            let mut shown = Shown::new("fetched");
            let of = (&*part.name, part.checkpoint.taken_ms);
            let mut source = Paced::new(&mut part.checkpoint, Pace::new(&*env.clock, rate));
            let mut show = |progress| shown.show(progress);
            let (node, cost) = repository.take(writing, of, &part.listing, &mut source, &mut show)?;
            nodes.push(node);
            taken = taken.and(cost);
            Ok(())
        },
    )?;
    let pace = Pace::new(&*env.clock, rate);
    let reaches_ms_max = reaches_ms_max(parts.iter().filter_map(|part| part.end.as_ref()));
    for (node, part) in nodes.iter_mut().zip(parts) {
        node.log = position(repository, writing, part.end.as_ref(), (reaches_ms_max, pace))?.or(part.log);
    }
    let ended_ms = env.clock.wall_ms();
    let backup = Backup { id, begun_ms, ended_ms, cluster, ack: ack as u32, missing, nodes };
    repository.publish(writing, &backup)?;
    Ok((backup, taken))
}

/// What there is to fetch of a node.
struct NodeToFetch {
    name: String,
    checkpoint: Checkpoint,
    listing: Listing,
    end: Option<LogEnd>,
    /// Where the checkpoint ends in the log that was fetched so far.
    log: Option<LogPosition>,
}

impl NodeToFetch {
    fn of((name, url, mut checkpoint): (String, Url, Checkpoint)) -> Result<NodeToFetch, Failure> {
        let listing = checkpoint.listing()?;
        let end = LogEnd::of(&name, &url, &checkpoint);
        Ok(NodeToFetch { name, checkpoint, listing, end, log: None })
    }

    /// Whose checkpoint it is, and of when.
    const fn of_node(&self) -> (&str, u64) {
        (self.name.as_str(), self.checkpoint.taken_ms)
    }
}

/// Fetches the files of one node after the other. The logs of all come before: the files of all may take longer than any keeps its log.
/// For the same reason they come again before the files of a node if the last time was long ago; each time costs each node a flush.
fn fetch_in_turn<P>(
    clock: &dyn Clock,
    parts: &mut [P],
    mut fetch_log: impl FnMut(&mut P) -> Result<(), Failure>,
    mut fetch_files: impl FnMut(&mut P) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut logs_due_ns = 0;
    for place in 0..parts.len() {
        if place == 0 || clock.monotonic_ns() >= logs_due_ns {
            parts.iter_mut().try_for_each(&mut fetch_log)?;
            logs_due_ns = clock.monotonic_ns() + LOGS_AGAIN_NS;
        }
        fetch_files(&mut parts[place])?;
    }
    Ok(())
}

/// Where a checkpoint ends in the log that its node keeps.
struct LogEnd {
    name: String,
    url: Url,
    store: u128,
    /// The first group that may not be in it.
    sequence: u64,
    /// Which directory of its node it is of, in a cluster.
    incarnation: Option<u64>,
}

impl LogEnd {
    fn of(name: &str, url: &Url, checkpoint: &Checkpoint) -> Option<LogEnd> {
        let (store, sequence) = checkpoint.log?;
        let incarnation = checkpoint.part.as_ref().and_then(|part| part.incarnation);
        Some(LogEnd { name: name.to_owned(), url: url.clone(), store, sequence, incarnation })
    }
}

/// Up to when all of these nodes have everything in their logs; as in `Logs::find`.
fn reaches_ms_max<'l>(ends: impl Iterator<Item = &'l LogEnd>) -> u64 {
    // One that does not answer now does not when it is asked for its log, either.
    let reaches_ms = |end: &LogEnd| Some(node_log::begin(&end.url).ok()?.listing.reaches_ms);
    ends.filter_map(reaches_ms).min().unwrap_or(0)
}

/// Fetches the log that a node keeps. Answers where in it a checkpoint ends.
fn position(
    repository: &Repository,
    writing: &Writing,
    end: Option<&LogEnd>,
    (reaches_ms_max, pace): (u64, Pace<'_>),
) -> Result<Option<LogPosition>, Failure> {
    let Some(LogEnd { name, url, store, sequence, incarnation }) = end else { return Ok(None) };
    let (shipped, done) = repository.ship(writing, (name, reaches_ms_max), &mut NodeLog::new(url, pace));
    tell_gaps(&shipped);
    match done {
        // A backup is worth having without it, and prune makes room in the list of a log only once there is one.
        Err(error @ (Error::Source(_) | Error::Absent(_) | Error::ListTooLong { .. })) => {
            complain(format_args!("the log behind the backup was not fetched: {error}"));
            return Ok(None);
        }
        done => done?,
    }
    let is_behind = |chain: &ladoga_backup::Chain| {
        (chain.name.store, chain.incarnation) == (*store, *incarnation) && chain.has_all_from(*sequence)
    };
    let chain = shipped.chain.filter(is_behind);
    Ok(chain.map(|chain| LogPosition { chain: chain.name, sequence: *sequence }))
}

/// Has this process do nothing as long as another one on its machine, such as a node, wants to do something.
fn give_way() {
    const LOWEST: i32 = 19;
    // Where it is not permitted, the backup is taken all the same.
    let _ = rustix::process::setpriority_process(None, LOWEST);
}

fn tell(backup: &Backup, taken: Taken) -> Result<(), Failure> {
    for missing in &backup.missing {
        complain(format_args!("{} is not in the backup: {}", missing.url, missing.why));
    }
    let (new, kept) = (counted(taken.new_files, "file"), taken.kept_files);
    let (size, copied) = (format_size(backup.bytes()), format_size(taken.new_bytes));
    let verb = if kept == 1 { "was" } else { "were" };
    Ok(writeln!(output_of_work(), "{}  {size}; {new} of {copied} copied, {kept} {verb} there", backup.id)?)
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;
