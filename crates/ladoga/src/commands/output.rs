use std::io::{self, IsTerminal, StdoutLock, Write, stdout};

/// Standard output. Its errors say that it is what could not be written.
pub(super) struct Output(StdoutLock<'static>);

pub(super) fn output() -> Output {
    Output(stdout().lock())
}

impl Output {
    pub(super) fn is_terminal(&self) -> bool {
        self.0.is_terminal()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(not_printed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(not_printed)
    }
}

/// The kind stays: what is interrupted is tried again, and that nobody reads is no failure.
fn not_printed(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, format!("cannot print the result: {error}")),
    }
}
