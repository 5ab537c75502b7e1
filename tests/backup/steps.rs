use std::path::{Path, PathBuf};

use crate::support::{Ladoga, Outcome, files_below};

/// `ladoga backup create`, to its end.
pub(crate) fn create(repository: &Path, url: &str) -> Outcome {
    Ladoga::new(
        ["backup", "create", "--url", url, "--to"].map(str::to_owned).into_iter().chain([text(repository)]),
    )
    .run()
}

/// The same, which has to work. Answers the name of the backup.
#[track_caller]
pub(crate) fn created(repository: &Path, url: &str) -> String {
    let outcome = create(repository, url).expect_success();
    outcome.text().split_whitespace().next().expect("the name of the backup").to_owned()
}

/// Another command about backups.
pub(crate) fn backup(command: &str, repository: &Path, more: &[&str]) -> Outcome {
    let repository = text(repository);
    Ladoga::new(["backup", command, "--to", &repository].into_iter().chain(more.iter().copied())).run()
}

/// `ladoga restore`, to its end.
pub(crate) fn restore(repository: &Path, data: &Path, more: &[&str]) -> Outcome {
    let (repository, data) = (text(repository), text(data));
    Ladoga::new(["restore", "--from", &repository, "--data", &data].into_iter().chain(more.iter().copied()))
        .run()
}

/// The files that a repository stores.
pub(crate) fn stored(repository: &Path) -> Vec<PathBuf> {
    files_below(&repository.join("files")).into_iter().map(|(path, _)| path).collect()
}

/// How many bytes a repository takes.
pub(crate) fn bytes(repository: &Path) -> u64 {
    files_below(repository).into_iter().map(|(_, bytes)| bytes).sum()
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("a path of text").to_owned()
}
