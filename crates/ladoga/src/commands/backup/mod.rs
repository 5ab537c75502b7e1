//! Backups.
//!
//! - `create`: takes one; `paced`: no faster than it may; `log`: what was written since
//! - `turn`: one command at a time changes a repository
//! - `checkpoint`: the copy that a node keeps while it is fetched; `cut`: those of the nodes of a cluster, which fit together
//! - `node_log`: the log that a node keeps; `logs`: those of the nodes of a cluster

mod checkpoint;
mod create;
mod cut;
mod log;
mod logs;
mod node_log;
mod paced;
mod turn;

use std::io::{IsTerminal, Write, stderr};
use std::path::Path;

use ladoga_backup::{Error, Progress, prune, verify};

use super::{Failure, complain, counted, output_of_work, repository};
use crate::backup_arguments::{BackupCommand, PruneArguments};
use crate::settings::format_size;

/// Takes, lists, verifies or prunes backups.
pub(crate) fn backup(command: &BackupCommand) -> Result<(), Failure> {
    match command {
        BackupCommand::Create(arguments) => create::create(arguments),
        BackupCommand::Log(arguments) => log::log(arguments),
        BackupCommand::List(repository) => list(&repository.to),
        BackupCommand::Verify(repository) => verify_all(&repository.to),
        BackupCommand::Prune(arguments) => remove_old(arguments),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            // What is meant has to be typed.
            Error::SeveralOrigins { .. } => Failure::Usage(error.to_string()),
            error => Failure::Failed(error.to_string()),
        }
    }
}

fn list(dir: &Path) -> Result<(), Failure> {
    let env = ladoga_env::real::env()?;
    let repository = repository::open(&env, dir)?;
    let (mut out, mut damaged) = (output_of_work(), 0);
    for id in repository.ids()? {
        let backup = match repository.backup(&id) {
            Ok(backup) => backup,
            // It was pruned since the names were listed.
            Err(Error::Unknown { .. }) => continue,
            Err(error) => {
                complain(format_args!("{error}"));
                damaged += 1;
                continue;
            }
        };
        let missing: Vec<&str> = backup.missing.iter().map(|node| &*node.url).collect();
        let without =
            if missing.is_empty() { String::new() } else { format!(", without {}", missing.join(" ")) };
        let log = match repository.span(&backup) {
            Ok(span) => span.map_or_else(String::new, |span| format!(", to any time {span}")),
            Err(error) => {
                complain(format_args!("{error}"));
                damaged += 1;
                String::new()
            }
        };
        writeln!(out, "{id}  {}  {}{without}{log}", format_size(backup.bytes()), backup.urls())?;
    }
    match damaged {
        0 => Ok(()),
        _ => Err(Failure::Failed("not all backups can be read, as named above".to_owned())),
    }
}

fn verify_all(dir: &Path) -> Result<(), Failure> {
    let env = ladoga_env::real::env()?;
    let repository = repository::open(&env, dir)?;
    let mut shown = Shown::new("verified");
    let verified = verify(&repository, &mut |progress| shown.show(progress))?;
    drop(shown);
    for problem in &verified.problems {
        complain(format_args!("{problem}"));
    }
    let size = format_size(verified.bytes);
    let (backups, files) = (counted(verified.backups as u64, "backup"), counted(verified.files, "file"));
    let mut out = output_of_work();
    writeln!(out, "{}: {backups}, {files}, {size}", dir.display())?;
    if verified.unnamed_files > 0 {
        let (unnamed, size) = (counted(verified.unnamed_files, "file"), format_size(verified.unnamed_bytes));
        writeln!(
            out,
            "besides, {unnamed} of {size} that no backup names: of a backup that was not completed, or whose file below backups/ is gone"
        )?;
    }
    if !verified.without_log.is_empty() {
        let backups = counted(verified.without_log.len() as u64, "backup");
        let ids = verified.without_log.join(" ");
        writeln!(
            out,
            "besides, {backups} without all of the log behind it: the list of the log below log/ is gone, or it is another one; restore by \
             its ID works, and later times cannot be restored from it: {ids}"
        )?;
    }
    match verified.problems.len() {
        0 if verified.backups == 0 => Err(Failure::Failed(format!(
            "there is no backup in {}, so nothing can be restored from it: run `ladoga backup create`",
            dir.display()
        ))),
        // Who meant to remove the log knows; who did not has to hear of it.
        0 if !verified.without_log.is_empty() => Err(Failure::Failed(
            "nothing is damaged, but log is missing: later times cannot be restored from the backups named above".to_owned(),
        )),
        0 => Ok(writeln!(out, "no problem found")?),
        1 => Err(Failure::Failed("1 problem found, named above".to_owned())),
        count => Err(Failure::Failed(format!("{count} problems found, named above"))),
    }
}

fn remove_old(arguments: &PruneArguments) -> Result<(), Failure> {
    let env = ladoga_env::real::env()?;
    let repository = repository::open(&env, &arguments.changed.repository.to)?;
    let writing = turn::lock(&env, &repository, &arguments.changed)?;
    let pruned = prune(&repository, &writing, arguments.keep.get())?;
    let (backups, files) = (counted(pruned.backups.len() as u64, "backup"), counted(pruned.files, "file"));
    let left = counted(pruned.backups_left as u64, "backup");
    let mut out = output_of_work();
    writeln!(out, "removed {backups} and {files}; {left} left")?;
    for (id, nodes) in &pruned.backups {
        writeln!(out, "removed {id}  {nodes}")?;
    }
    Ok(())
}

/// Progress on a terminal; nothing elsewhere.
pub(super) struct Shown {
    is_shown: bool,
    what: &'static str,
    last_percent: u64,
}

impl Shown {
    pub(super) fn new(what: &'static str) -> Shown {
        Shown { is_shown: stderr().is_terminal(), what, last_percent: u64::MAX }
    }

    pub(super) fn show(&mut self, progress: Progress) {
        let percent =
            progress.done_bytes.saturating_mul(100).checked_div(progress.total_bytes).unwrap_or(100);
        if self.is_shown && percent != self.last_percent {
            self.last_percent = percent;
            let (done, total) = (format_size(progress.done_bytes), format_size(progress.total_bytes));
            _ = write!(stderr(), "\r\x1b[K{done} of {total} {}", self.what);
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if self.is_shown {
            _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
