use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use ladoga_backup::ms_of_text;
use ladoga_model::Ttl;

use crate::node_arguments::NodeArguments;
use crate::settings::parse_size;

const BACKUP_HELP: &str = "\
A backup is taken from a running node, or from all nodes of its cluster, into a directory of this machine, or into a bucket of S3 or
of a server like it: a repository. Each file is in it once, so the second backup copies only what is new. Everything that was
acknowledged before the command began is in the backup. `ladoga restore` makes data directories of it.

A bucket is s3://BUCKET/PREFIX, reached by AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
AWS_ENDPOINT_URL (a server other than Amazon's) and AWS_CA_BUNDLE in the environment. The binary that `make run` builds has no S3;
`cargo build --release -p ladoga` builds one that has it.

Examples:
  ladoga backup create --to /mnt/backups
  ladoga backup log --to /mnt/backups
  ladoga backup list --to /mnt/backups
  ladoga backup verify --to /mnt/backups
  ladoga backup prune --to /mnt/backups --keep 14
  ladoga backup create --to s3://lake/backups
  ladoga restore --from /mnt/backups --data ./restored
  ladoga restore --from /mnt/backups --data ./restored --at 2026-11-25T17:00:00Z";

#[derive(Debug, Args)]
#[command(after_help = BACKUP_HELP)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    pub(crate) command: BackupCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Take a backup of a running node, or of its cluster
    #[command(after_help = CREATE_HELP)]
    Create(CreateBackupArguments),
    /// Fetch what was written since the last backup, for a restore to a point in time
    #[command(after_help = LOG_HELP)]
    Log(LogArguments),
    /// Show the backups that there are
    #[command(after_help = LIST_HELP)]
    List(RepositoryArguments),
    /// Read every byte of every backup, and name what is not as it was written
    #[command(after_help = VERIFY_HELP)]
    Verify(RepositoryArguments),
    /// Remove all backups but the newest of each node or cluster, and what only they needed
    #[command(after_help = PRUNE_HELP)]
    Prune(PruneArguments),
}

const CREATE_HELP: &str = "\
Every node is asked for a checkpoint, by hard links, which costs it neither space nor time worth mentioning; then this command
fetches the files that the repository does not have. Every block is verified before its file counts, so damage is not copied. If
the command is interrupted, the backups that there were are as they were; files that were fetched are not fetched again.

It gives way to everything else: it fetches 64 MiB a second unless --rate says otherwise, and runs with the lowest priority.

With tokens, it needs one with the scope admin and no prefixes.

A node of a cluster may be down: the backup is good if every write is still in it that was acknowledged by --ack nodes. If writes
of yours wait for fewer (replicas=1/3), say so with --ack, and all nodes must be there.

Exit codes: 0 if there is a new backup, whose name is printed; 1 if there is none; 2 if the command line is wrong.";

const LOG_HELP: &str = "\
The node has to run with --keep-log; so has each node of its cluster. What they keep of their logs is fetched, up to now; what the repository
has already is not fetched again, so this takes a moment. With it, `ladoga restore --at TIME` makes what there was at any time since a
backup. `ladoga backup create` fetches the log as well. A node of a cluster may be missing, as for `backup create`: see --ack. If a part of
the log is missing, because the node has not kept it for long enough or did not run with --keep-log, a line on standard error says so, and
the exit code is 1, once: take a backup then. What comes behind the gap is fetched all the same.

Commands that change one repository wait for each other: see --wait.

Example of a crontab: a backup each night, and what is written in between every two minutes
  1 3 * * *    ladoga backup create --to /mnt/backups && ladoga backup prune --to /mnt/backups --keep 14
  */2 * * * *  ladoga backup log --to /mnt/backups

Exit codes: 0 if the repository has everything that was acknowledged before; 1 if not; 2 if the command line is wrong.";

const LIST_HELP: &str = "\
One line for each backup, the oldest first: its name, its bytes, its nodes, those that are missing, and to which times one can restore.

Exit codes: 0 if all of them can be read; 1 if one is damaged, or there is no repository; 2 if the command line is wrong.";

const VERIFY_HELP: &str = "\
Each problem is one line on standard error, with its file and its offset. Files that no backup names are counted: an interrupted backup
leaves some, and so does a backup whose file below backups/ was removed, which cannot be told otherwise.

Exit codes: 0 if everything is as it was written; 1 if it is not, or cannot be read, or a backup is without the log behind it, or there is
no backup; 2 if the command line is wrong.";

const PRUNE_HELP: &str = "\
Several nodes or clusters may share a repository: each keeps its newest. A node or cluster that is gone keeps them for good; to be rid of
them, remove their files below backups/ (`ladoga backup list` names them), and prune. What is removed is printed, after how much it is.
Also removes what interrupted backups have left.

Example of a crontab: a backup each hour, kept for two days
  0 * * * *  ladoga backup create --to /mnt/backups && ladoga backup prune --to /mnt/backups --keep 48

Exit codes: 0 if it is done; 1 if it is not; 2 if the command line is wrong.";

#[derive(Debug, Args)]
pub(crate) struct RepositoryArguments {
    /// Directory of the backups, or a bucket: `s3://BUCKET/PREFIX`
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
}

/// A repository that is changed, by one command at a time.
#[derive(Debug, Args)]
pub(crate) struct ChangedArguments {
    #[command(flatten)]
    pub(crate) repository: RepositoryArguments,
    /// For how long to wait while another command changes the repository, such as 30s or 1h; 0: not at all
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = wait)]
    pub(crate) wait: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    #[command(flatten)]
    pub(crate) changed: ChangedArguments,
    /// The fewest nodes that acknowledge a write of yours [default: a majority of the cluster]
    #[arg(long, value_name = "N", value_parser = parse_ack)]
    pub(crate) ack: Option<NonZeroUsize>,
    /// How many bytes to fetch within a second, such as 200MiB; unlimited: as many as the node sends
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = backup_rate)]
    pub(crate) rate: BackupRate,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CreateBackupArguments {
    #[command(flatten)]
    pub(crate) changed: ChangedArguments,
    /// The fewest nodes that acknowledge a write of yours [default: a majority of the cluster]
    #[arg(long, value_name = "N", value_parser = parse_ack)]
    pub(crate) ack: Option<NonZeroUsize>,
    /// How many bytes to fetch within a second, such as 200MiB; unlimited: as many as the nodes send
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = backup_rate)]
    pub(crate) rate: BackupRate,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

fn wait(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let ttl =
        Ttl::parse(text.as_bytes()).map_err(|_| "expected a time such as 30s, 5m or 1h, or 0".to_owned())?;
    Ok(Duration::from_millis(ttl.ms()))
}

/// How many bytes are fetched within a second at most; none if it does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BackupRate(pub(crate) Option<u64>);

fn backup_rate(text: &str) -> Result<BackupRate, String> {
    if text == "unlimited" {
        return Ok(BackupRate(None));
    }
    let rate = parse_size(text).filter(|rate| *rate > 0);
    let expected = "expected bytes a second, such as 64MiB, or unlimited";
    rate.map(|rate| BackupRate(Some(rate))).ok_or_else(|| expected.to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct PruneArguments {
    #[command(flatten)]
    pub(crate) changed: ChangedArguments,
    /// How many backups to keep of each node or cluster, at least 1
    #[arg(long, value_name = "N", value_parser = parse_keep)]
    pub(crate) keep: NonZeroUsize,
}

fn parse_ack(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a number of nodes, at least 1".to_owned())
}

fn parse_keep(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a number of backups, at least 1".to_owned())
}

fn point_in_time(text: &str) -> Result<u64, String> {
    let expected = "expected a time in UTC such as 2026-11-25T17:00:00Z, or milliseconds since 1970";
    ms_of_text(text).ok_or_else(|| expected.to_owned())
}

const RESTORE_HELP: &str = "\
The directory must be new or empty. A node on its own is restored file by file. From a backup of a cluster, the newest cell of
every key is written: the directory is good for a node on its own and for any node of a new cluster, of any size. Restore the same
backup for each of its nodes, then start all of them. Versions, times of expiry and deletions stay as they were.

A cluster that keeps keys on fewer nodes than it has, and has the same nodes as before, can be restored with --node: then each
directory has what that node had.

If the repository has backups of several nodes or clusters, say with --backup which one is meant, or with --node, if only one has that URL.

With --at, everything is as it was at that time: from the newest backup that has nothing later, and the log of each node that was
fetched since (`ladoga serve --keep-log`, `ladoga backup log`). `ladoga backup list` shows the times that can be restored; any other
is refused. A value that was there then and has expired by now has expired.

Every byte is verified on the way. If the command is interrupted, the directory is none that a node would start with; empty it, and
begin again.

Examples:
  ladoga restore --from /mnt/backups --data ./restored
  ladoga restore --from s3://lake/backups --data ./restored
  ladoga restore --from /mnt/backups --backup 2026-11-23T12-00-05Z --data ./restored
  ladoga restore --from /mnt/backups --data ./restored --at 2026-11-25T17:00:00Z
  ladoga serve --data ./restored

Exit codes: 0 if the directory is complete; 1 if it is not; 2 if the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = RESTORE_HELP)]
pub(crate) struct RestoreArguments {
    /// Directory of the backups, or a bucket: `s3://BUCKET/PREFIX`
    #[arg(long, value_name = "DIR")]
    pub(crate) from: PathBuf,
    /// Which backup, as `ladoga backup list` names it [default: the newest, if all are of one node or cluster]
    #[arg(long, value_name = "ID")]
    pub(crate) backup: Option<String>,
    /// Data directory to make; new or empty
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// As it was at this time: such as 2026-11-25T17:00:00Z, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = point_in_time, conflicts_with = "node")]
    pub(crate) at: Option<u64>,
    /// Only what this node of the cluster had, as `ladoga backup list` names it
    #[arg(long, value_name = "URL")]
    pub(crate) node: Option<String>,
}
