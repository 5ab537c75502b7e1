//! Which program a profile is of: pages that are read a year later have to say so.

use std::sync::OnceLock;

use crate::sys::files;

/// One for the process, as there is one program in it.
static VERSION: OnceLock<&'static str> = OnceLock::new();

/// Says which version of which commit this program is. To be called once, before the first profile; a second call
/// changes nothing.
pub fn name_program(version: &'static str) {
    VERSION.get_or_init(|| version);
}

/// The version given to [`name_program`]; `unknown` if it was not called.
pub fn program_version() -> &'static str {
    VERSION.get().copied().unwrap_or("unknown")
}

/// The process that a profile was taken of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Version and commit.
    pub version: String,
    /// As it was started, settings included.
    pub command: String,
    /// The kernel's number.
    pub process: u32,
}

impl Program {
    /// This process.
    pub(crate) fn this() -> Program {
        Program {
            version: program_version().to_owned(),
            command: files::command_line(),
            process: std::process::id(),
        }
    }
}
