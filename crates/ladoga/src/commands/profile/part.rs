use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::commands::Failure;

/// A file beside the one that is wanted, which takes its name once it is whole. Dropped before that, it is removed.
pub(super) struct Part {
    path: PathBuf,
    wanted: PathBuf,
    file: fs::File,
}

#[expect(clippy::disallowed_methods, reason = "a profile is no part of a store; its disk seam is not for it")]
impl Part {
    pub(super) fn create(wanted: &Path) -> Result<Part, Failure> {
        let mut name = wanted.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = wanted.with_file_name(name);
        if wanted.is_dir() {
            return Err(Failure::Failed(format!("cannot write {}: it is a directory", wanted.display())));
        }
        let file = fs::File::create(&path).map_err(|error| cannot_write(wanted, &error))?;
        Ok(Part { path, wanted: wanted.to_owned(), file })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| cannot_write(&self.wanted, &error))
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        fs::rename(&self.path, &self.wanted).map_err(|error| cannot_write(&self.wanted, &error))
    }
}

#[expect(clippy::disallowed_methods, reason = "as above")]
impl Drop for Part {
    fn drop(&mut self) {
        // If it was completed, it has been renamed.
        let _ = fs::remove_file(&self.path);
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.display()))
}
