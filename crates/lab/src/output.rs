//! Standard output and standard error, which may be closed or full. `println!` and `eprintln!` would panic then, and what was
//! measured would be lost.

use std::fmt;
use std::io::{self, ErrorKind, Write};

use crate::error::{LabError, Outcome};

/// Standard output. Writing to it never fails: after an error, the rest is dropped, so that the work goes on.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The first error.
    failure: Option<io::Error>,
}

impl Output {
    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) {
        _ = writeln!(self, "{line}");
    }

    /// To be called when everything else is done. Fails if something could not be printed; a reader that is gone, as that of
    /// `| head -1`, is no failure.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        _ = self.flush();
        match self.failure {
            Some(source) if source.kind() != ErrorKind::BrokenPipe => {
                Err(LabError::System { what: "print the result", source })
            }
            _ => Ok(()),
        }
    }

    fn attempt(&mut self, write: impl FnOnce(&mut io::Stdout) -> io::Result<()>) {
        if self.failure.is_none() {
            self.failure = write(&mut io::stdout()).err();
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|stdout| stdout.write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(Write::flush);
        Ok(())
    }
}

/// Writes a line to standard error: an error, a note or progress. If nobody can read it, the work goes on all the same.
pub(crate) fn stderr_line(line: fmt::Arguments<'_>) {
    _ = writeln!(io::stderr(), "{line}");
}
