//! The files that a person names on the command line, and what the system says about itself.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// A new file, or an old one emptied.
#[expect(
    clippy::disallowed_methods,
    reason = "reports are no part of a store; its disk seam is not for them"
)]
pub(crate) fn create(path: &Path) -> io::Result<BufWriter<std::fs::File>> {
    std::fs::File::create(path).map(BufWriter::new)
}

pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

/// Replaces a file as a whole: whoever reads it sees the old text or the new one.
#[expect(
    clippy::disallowed_methods,
    reason = "reports are no part of a store; its disk seam is not for them"
)]
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    std::fs::write(&part, text)?;
    std::fs::rename(&part, path)
}

/// A directory of its own for a node that is measured, gone with everything in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    #[expect(
        clippy::disallowed_methods,
        reason = "a directory for a node of its own; the node's files go through its seam"
    )]
    pub(crate) fn new(parent: &Path, number: u32) -> io::Result<Self> {
        let path = parent.join(format!("ladoga-lab-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("ladoga lab: {} was left behind: {error}", self.0.display());
        }
    }
}
