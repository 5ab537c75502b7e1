use std::io::Write;

use ladoga_backup::{
    AheadOfTime, Backup, NodeBackup, Repository, RestoredAt, restore_at, restore_cells, restore_files,
    text_of_ms,
};
use ladoga_env::Env;

use super::backup::Shown;
use super::{Failure, complain, counted, output_of_work, repository};
use crate::backup_arguments::RestoreArguments;
use crate::settings::{format_size, raise_descriptor_limit};

/// Makes a data directory of a backup.
pub(crate) fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    let env = ladoga_env::real::env()?;
    raise_descriptor_limit();
    repository::expect_directory(&arguments.data, "a new or empty one of this machine")?;
    let repository = repository::open(&env, &arguments.from)?;
    if let Some(at_ms) = arguments.at {
        return restore_to(&env, &repository, at_ms, arguments);
    }
    let (backup, unread) = match &arguments.backup {
        Some(id) => (repository.backup(id)?, Vec::new()),
        None => repository.newest(arguments.node.as_deref())?,
    };
    for error in &unread {
        complain(format_args!("{error}; nobody knows whose backup it is"));
    }
    let mut shown = Shown::new("restored");
    let target = &arguments.data;
    let (restored, what) = match files_of(&backup, arguments)? {
        Some(node) => {
            let restored = restore_files(&env, &repository, node, target, &mut |at| shown.show(at))?;
            (restored, "file")
        }
        None => {
            let restored = restore_cells(&env, &repository, &backup, target, &mut |at| shown.show(at))?;
            (restored, "cell")
        }
    };
    drop(shown);
    let (size, dir, urls) = (format_size(restored.bytes), target.display(), backup.urls());
    let count = counted(restored.count, what);
    writeln!(output_of_work(), "{dir}: {count}, {size}, of the backup {} of {urls}", backup.id)?;
    Ok(())
}

/// Makes a data directory of what there was at a point in time.
fn restore_to(
    env: &Env,
    repository: &Repository,
    at_ms: u64,
    arguments: &RestoreArguments,
) -> Result<(), Failure> {
    let mut shown = Shown::new("restored");
    let (target, wanted) = (&arguments.data, arguments.backup.as_deref());
    let RestoredAt { backup, restored, passed_over, left_out } =
        restore_at(env, repository, (at_ms, wanted), target, &mut |at| shown.show(at))?;
    drop(shown);
    for damaged in &passed_over {
        complain(format_args!("{damaged}; an older backup was taken instead"));
    }
    for AheadOfTime { url, until_ms } in &left_out {
        let until = text_of_ms(*until_ms);
        complain(format_args!(
            "the clock of {url} was set back: what it wrote since counts as of up to {until}, which is still to come, and was left out"
        ));
    }
    let (dir, at, size) = (target.display(), text_of_ms(at_ms), format_size(restored.bytes));
    let (id, urls) = (&backup.id, backup.urls());
    writeln!(
        output_of_work(),
        "{dir}: as of {at}, {size}, of the backup {id} of {urls} and the log behind it"
    )?;
    Ok(())
}

/// The node whose files are the data directory; none if the cells of several have to be merged.
fn files_of<'b>(backup: &'b Backup, arguments: &RestoreArguments) -> Result<Option<&'b NodeBackup>, Failure> {
    let Some(wanted) = &arguments.node else {
        return Ok(backup.nodes.first().filter(|_| backup.cluster.is_empty()));
    };
    let found = backup.nodes.iter().find(|node| node.url == *wanted);
    let nodes: Vec<&str> = backup.nodes.iter().map(|node| &*node.url).collect();
    let (id, nodes) = (&backup.id, nodes.join(", "));
    let unknown = || format!("--node is '{wanted}', expected one of those in the backup {id}: {nodes}");
    found.map(Some).ok_or_else(|| Failure::Usage(unknown()))
}
