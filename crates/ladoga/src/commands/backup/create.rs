use std::io::{Write, stdout};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use ladoga_backup::{Backup, LogPosition, Repository, Taken, Writing};
use ladoga_env::Env;

use super::super::{Failure, complain, node_url, repository};
use super::Shown;
use super::cut::Cut;
use super::log::{NodeLog, tell_gaps};
use super::paced::{Pace, Paced};
use crate::backup_arguments::{BackupRate, CreateBackupArguments};
use crate::client::{KeptConnection, Url};
use crate::settings::{format_size, raise_descriptor_limit};

/// How often nodes are told that their checkpoints are still wanted: while one is fetched, the others wait.
const WISH_EVERY: Duration = Duration::from_secs(10);

/// Takes a backup.
pub(super) fn create(arguments: &CreateBackupArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    let env = ladoga_env::real::env()?;
    raise_descriptor_limit();
    give_way();
    let path = &arguments.repository.to;
    let (repository, writing) = Repository::create(&repository::disk_of(&env, path)?, path)?;
    let begun_ms = env.clock.wall_ms();
    let id = repository.new_id(&env)?;
    let cut = Cut::take(&url, arguments.ack.map(std::num::NonZeroUsize::get))?;
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
    let wishes: Vec<Sender<()>> =
        checkpoints.iter().map(|(_, url, checkpoint)| keep(url, checkpoint.wish())).collect();
    for ((name, url, mut checkpoint), wished) in checkpoints.into_iter().zip(wishes) {
        let listing = checkpoint.listing()?;
        let of = (name.as_str(), checkpoint.taken_ms);
        let pace = Pace::new(&*env.clock, rate);
        let log = checkpoint.log.filter(|_| cluster.is_empty());
        let fetch_log = || position(repository, writing, log, (name.as_str(), NodeLog::new(&url, pace)));
        // The files may take longer than the node keeps its log.
        let early = fetch_log()?;
        let mut shown = Shown::new("fetched");
        let mut source = Paced::new(&mut checkpoint, pace);
        let (mut node, cost) =
            repository.take(writing, of, &listing, &mut source, &mut |progress| shown.show(progress))?;
        drop(shown);
        node.log = fetch_log()?.or(early);
        nodes.push(node);
        taken = taken.and(cost);
        drop(wished);
    }
    let ended_ms = env.clock.wall_ms();
    let backup = Backup { id, begun_ms, ended_ms, cluster, ack: ack as u32, missing, nodes };
    repository.publish(writing, &backup)?;
    Ok((backup, taken))
}

/// Fetches the log that a node keeps. Answers where in it a checkpoint ends: which store's, and the first group behind it.
fn position(
    repository: &Repository,
    writing: &Writing,
    log: Option<(u128, u64)>,
    (name, mut source): (&str, NodeLog<'_>),
) -> Result<Option<LogPosition>, Failure> {
    let Some((store, sequence)) = log else { return Ok(None) };
    let shipped = repository.ship(writing, name, &mut source)?;
    tell_gaps(&shipped);
    let chain = shipped.chain.filter(|chain| chain.name.store == store && chain.has_all_from(sequence));
    Ok(chain.map(|chain| LogPosition { chain: chain.name, sequence }))
}

/// Has this process do nothing as long as another one on its machine, such as a node, wants to do something.
fn give_way() {
    const LOWEST: i32 = 19;
    // Where it is not permitted, the backup is taken all the same.
    let _ = rustix::process::setpriority_process(None, LOWEST);
}

/// Tells a node every few seconds that its checkpoint is wanted, until what it answers is dropped. Each node has a thread of its own,
/// for which nobody waits: one that does not answer any more holds up neither the others nor the end.
fn keep(url: &Url, wish: String) -> Sender<()> {
    let (wished, is_wished) = channel();
    let mut connection = KeptConnection::new(url.clone());
    thread::spawn(move || {
        while is_wished.recv_timeout(WISH_EVERY) == Err(RecvTimeoutError::Timeout) {
            // What goes wrong shows when its files are read.
            let _ = connection.ask("GET", &wish);
        }
    });
    wished
}

fn tell(backup: &Backup, taken: Taken) -> Result<(), Failure> {
    for missing in &backup.missing {
        complain(format_args!("{} is not in the backup: {}", missing.url, missing.why));
    }
    let (new, kept) = (taken.new_files, taken.kept_files);
    let (size, copied) = (format_size(backup.bytes()), format_size(taken.new_bytes));
    Ok(writeln!(stdout(), "{}  {size}; {new} files of {copied} copied, {kept} were there", backup.id)?)
}
