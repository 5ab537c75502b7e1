//! The files that a person names on the command line, and what the system says about itself.

use std::io::{self, BufWriter};
use std::path::Path;

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
