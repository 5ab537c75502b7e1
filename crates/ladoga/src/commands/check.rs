use std::io::{IsTerminal, Write, stderr};

use ladoga_storage::Error;

use super::{Failure, complain, counted, output_of_work};
use crate::arguments::CheckArguments;
use crate::settings::format_size;

/// Verifies a data directory.
pub(crate) fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let env = ladoga_env::real::env()?;
    let dir = &arguments.dir;
    let shows_progress = stderr().is_terminal();
    let report = ladoga_storage::check(&env, dir, &mut |progress| {
        if shows_progress {
            let (done, total) = (format_size(progress.done_bytes), format_size(progress.total_bytes));
            _ = write!(stderr(), "\r\x1b[K{done} of {total} verified");
        }
    });
    if shows_progress {
        _ = write!(stderr(), "\r\x1b[K");
    }
    let report = report.map_err(|error| match error {
        // Nothing that a node made is without this file.
        Error::Io { ref path, operation: "open", .. } if path.ends_with("CURRENT") => {
            Failure::Failed(format!(
                "{} is not a data directory of a node: {error}. Expected the directory that `ladoga serve --data` has; if this was \
                 one, the file that says which tables count is lost, and with it the data: restore a backup",
                dir.display()
            ))
        }
        error => Failure::Failed(error.to_string()),
    })?;
    let mut problems: Vec<String> = report.errors.iter().map(Error::to_string).collect();
    problems.extend(ladoga_node::peers::check_files(&*env.disk, dir));
    for problem in &problems {
        complain(format_args!("{problem}"));
    }
    let mut out = output_of_work();
    writeln!(
        out,
        "{}: {}, {}, {}, {}, {} in the log",
        dir.display(),
        counted(report.tables, "table"),
        counted(report.blocks, "block"),
        counted(report.records, "record"),
        counted(report.blobs, "large value"),
        counted(report.log_groups, "group"),
    )?;
    if report.lost_groups > 0 {
        let (groups, verb) =
            (counted(report.lost_groups, "group"), if report.lost_groups == 1 { "was" } else { "were" });
        writeln!(out, "{groups} {verb} lost in a power cut, before being synced")?;
    }
    match problems.len() {
        0 => Ok(writeln!(out, "no problem found")?),
        1 => Err(Failure::Failed("1 problem found, named above".to_owned())),
        count => Err(Failure::Failed(format!("{count} problems found, named above"))),
    }
}
