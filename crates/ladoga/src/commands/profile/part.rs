use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::commands::Failure;

/// A file beside the one that is wanted, which takes its name once it is whole. Dropped before that, it is removed.
pub(super) struct Part {
    /// None for a pipe or a device: there is nothing beside it, and it keeps its name.
    path: Option<PathBuf>,
    /// As it was typed.
    wanted: PathBuf,
    /// Where it is, or would be: for a link the place that it leads to.
    real: PathBuf,
    file: fs::File,
}

#[expect(clippy::disallowed_methods, reason = "a profile is no part of a store; its disk seam is not for it")]
impl Part {
    /// Whether it can be written, as far as that shows before it is.
    pub(super) fn check(wanted: &Path) -> Result<(), Failure> {
        if is_stream(wanted) { Ok(()) } else { Part::create(wanted).map(drop) }
    }

    pub(super) fn create(wanted: &Path) -> Result<Part, Failure> {
        if wanted.is_dir() {
            return Err(Failure::Failed(format!("cannot write {}: it is a directory", wanted.display())));
        }
        let real = fs::canonicalize(wanted).unwrap_or_else(|_| wanted.to_owned());
        let is_stream = is_stream(wanted);
        let path = if is_stream { real.clone() } else { beside(&real) };
        let file = fs::OpenOptions::new().write(true).create(!is_stream).truncate(!is_stream).open(&path);
        let file = file.map_err(|error| cannot_write(wanted, &error))?;
        Ok(Part { path: (!is_stream).then_some(path), wanted: wanted.to_owned(), real, file })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| cannot_write(&self.wanted, &error))
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        fs::rename(path, &self.real).map_err(|error| cannot_write(&self.wanted, &error))
    }
}

#[expect(clippy::disallowed_methods, reason = "as above")]
impl Drop for Part {
    fn drop(&mut self) {
        // If it was completed, it has been renamed.
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether it is a pipe or a device.
fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "as above")]
mod tests {
    use super::*;

    /// A link was replaced by the profile, and what it led to kept the old one.
    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let directory = std::env::temp_dir().join(format!("ladoga-profile-part-{}", std::process::id()));
        fs::create_dir_all(directory.join("there")).expect("a directory");
        let (link, file) = (directory.join("link.html"), directory.join("there/file.html"));
        fs::write(&file, "earlier").expect("room");
        std::os::unix::fs::symlink("there/file.html", &link).expect("a link");
        Part::check(&link).expect("it can be written");
        let mut part = Part::create(&link).expect("a file beside it");
        part.write(b"later").expect("room");
        assert_eq!(fs::read(&file).expect("the earlier one"), b"earlier");
        part.finish().expect("it is replaced");
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).expect("the later one"), b"later");
        assert_eq!(fs::read_dir(directory.join("there")).expect("a directory").count(), 1);
        fs::remove_dir_all(&directory).expect("its files");
    }

    #[test]
    fn a_device_stays_a_device() {
        Part::check(Path::new("/dev/null")).expect("it can be written");
        let mut part = Part::create(Path::new("/dev/null")).expect("a device");
        part.write(b"nothing").expect("it takes all");
        part.finish().expect("it keeps its name");
        assert!(is_stream(Path::new("/dev/null")));
    }
}
