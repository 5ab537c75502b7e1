use std::io::{self, IsTerminal, StdoutLock, Write, stdout};

/// Standard output. Its errors say that it is what could not be written.
pub(super) struct Output {
    stdout: StdoutLock<'static>,
    reader: OutputReader,
}

enum OutputReader {
    /// The command is there for it: it ends once the reader is gone, which is no failure.
    Needed,
    /// There is work to do besides.
    Welcome,
    /// It was not needed.
    Gone,
}

/// For a command that is done once nobody reads what it prints, as `head` does with an export.
pub(super) fn output() -> Output {
    Output { stdout: stdout().lock(), reader: OutputReader::Needed }
}

/// For a command whose exit code says more than whether it could print: once the reader is gone it goes on, to nobody. So what it
/// does is done to its end, and what it finds is not taken for a success.
pub(super) fn output_of_work() -> Output {
    Output { stdout: stdout().lock(), reader: OutputReader::Welcome }
}

impl Output {
    pub(super) fn is_terminal(&self) -> bool {
        self.stdout.is_terminal()
    }

    fn printed<T>(&mut self, result: io::Result<T>, as_if: T) -> io::Result<T> {
        match (result, &self.reader) {
            (Err(error), OutputReader::Welcome | OutputReader::Gone)
                if error.kind() == io::ErrorKind::BrokenPipe =>
            {
                self.reader = OutputReader::Gone;
                Ok(as_if)
            }
            (result, _) => result.map_err(not_printed),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if matches!(self.reader, OutputReader::Gone) {
            return Ok(bytes.len());
        }
        let written = self.stdout.write(bytes);
        self.printed(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if matches!(self.reader, OutputReader::Gone) {
            return Ok(());
        }
        let flushed = self.stdout.flush();
        self.printed(flushed, ())
    }
}

/// The kind stays: what is interrupted is tried again, and that nobody reads is no failure.
fn not_printed(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, format!("cannot print the result: {error}")),
    }
}
