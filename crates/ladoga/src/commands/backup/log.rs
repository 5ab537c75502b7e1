use std::io::Write;

use ladoga_backup::{Chain, Repository, text_of_ms};

use super::super::{Failure, complain, counted, node_url, output_of_work};
use super::cut::too_few;
use super::logs::Logs;
use super::paced::Pace;
use super::turn;
use crate::backup_arguments::LogArguments;
use crate::settings::format_size;

/// Fetches what a node keeps of its log, or each node of its cluster, and nothing else.
pub(super) fn log(arguments: &LogArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    let env = ladoga_env::real::env()?;
    let ack = arguments.ack.map(std::num::NonZeroUsize::get);
    let find = || Logs::find(&url, ack, Pace::new(&*env.clock, arguments.rate.0));
    let ((repository, writing), logs) = turn::create(&env, &arguments.changed, find)?;
    let fetched = logs.fetch(&repository, &writing)?;
    for missing in &fetched.missing {
        complain(format_args!("{} is missing: {}", missing.url, missing.why));
    }
    for chain in &fetched.chains {
        if !has_base(&repository, chain)? {
            let of = if fetched.all > 1 { format!("of {} ", chain.url) } else { String::new() };
            complain(format_args!(
                "no backup has this log {of}behind it yet: nothing can be restored with it before the next `ladoga backup create`"
            ));
        }
    }
    let (segments, size) = (counted(fetched.segments, "segment"), format_size(fetched.bytes));
    let (missing, broken, all, ack) = (fetched.missing.len(), fetched.broken, fetched.all, fetched.ack);
    if missing >= ack {
        return Err(Failure::Failed(format!(
            "{segments}, {size} copied, but the log goes no further: {}",
            too_few(missing, all, ack)
        )));
    }
    writeln!(output_of_work(), "log up to {}; {segments}, {size} copied", text_of_ms(fetched.reaches_ms))?;
    if broken > 0 && missing + broken >= ack {
        let reason = "not all of the log was there to be fetched, as named above: run `ladoga backup create`";
        return Err(Failure::Failed(reason.to_owned()));
    }
    Ok(())
}

fn has_base(repository: &Repository, chain: &Chain) -> Result<bool, Failure> {
    for id in repository.ids()?.iter().rev() {
        // One that is damaged is named by `verify`.
        let Ok(backup) = repository.backup(id) else { continue };
        let mut positions = backup.nodes.iter().filter_map(|node| node.log);
        if positions.any(|position| position.chain == chain.name) {
            return Ok(true);
        }
    }
    Ok(false)
}
