use std::io::Write;

use ladoga_backup::{Backup, Error, LogPosition, NodeBackup, Repository, Taken, Writing};
use ladoga_env::Env;

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

/// Takes a backup.
pub(super) fn create(arguments: &CreateBackupArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    let env = ladoga_env::real::env()?;
    raise_descriptor_limit();
    give_way();
    let ack = arguments.ack.map(std::num::NonZeroUsize::get);
    let ((repository, writing), (begun_ms, cut)) =
        turn::create(&env, &arguments.changed, || Ok((env.clock.wall_ms(), Cut::take(&url, ack)?)))?;
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
    let Cut { cluster, ack, nodes: checkpoints, missing } = cut;
    let (mut nodes, mut taken) = (Vec::new(), Taken::default());
    for (name, url, mut checkpoint) in checkpoints {
        let listing = checkpoint.listing()?;
        let of = (name.as_str(), checkpoint.taken_ms);
        let pace = Pace::new(&*env.clock, rate);
        let end = LogEnd::of(&name, &url, &checkpoint);
        // The files may take longer than the node keeps its log. How far that is is noted once all of them are there.
        let early = position(repository, writing, end.as_ref(), (0, pace))?;
        let mut shown = Shown::new("fetched");
        let mut source = Paced::new(&mut checkpoint, pace);
        let (mut node, cost) =
            repository.take(writing, of, &listing, &mut source, &mut |progress| shown.show(progress))?;
        drop(shown);
        node.log = early;
        nodes.push((node, end));
        taken = taken.and(cost);
    }
    let pace = Pace::new(&*env.clock, rate);
    let reaches_ms_max = reaches_ms_max(nodes.iter().filter_map(|(_, end)| end.as_ref()));
    let with_log = |(mut node, end): (NodeBackup, Option<LogEnd>)| {
        node.log = position(repository, writing, end.as_ref(), (reaches_ms_max, pace))?.or(node.log);
        Ok(node)
    };
    let nodes = nodes.into_iter().map(with_log).collect::<Result<Vec<NodeBackup>, Failure>>()?;
    let ended_ms = env.clock.wall_ms();
    let backup = Backup { id, begun_ms, ended_ms, cluster, ack: ack as u32, missing, nodes };
    repository.publish(writing, &backup)?;
    Ok((backup, taken))
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
