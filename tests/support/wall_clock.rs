use std::fs;
use std::path::{Path, PathBuf};

use super::{Directory, Launch, skip_without};

/// The directories of the library: Debian's, and others'.
const LIBRARIES: &str = "/usr/lib";
const NAME: &str = "faketime/libfaketimeMT.so.1";

/// What `libfaketime` makes for a process, named by its id, and leaves there if that is killed. The program `faketime` does not start
/// what gets the same id later.
const SHARED_MEMORY: [&str; 2] = ["/dev/shm/sem.faketime_sem_", "/dev/shm/faketime_shm_"];

/// Removes what a process that was killed leaves of its clock. Nobody else may have got its id yet.
pub(super) fn remove_shared_memory(pid: u32) {
    for name in SHARED_MEMORY {
        let _ = fs::remove_file(format!("{name}{pid}"));
    }
}

/// Wall clocks of nodes, one for each, that show the time of this machine until a test sets them. Between a node and the system
/// is `libfaketime`; monotonic clocks stay as they are.
pub(crate) struct WallClocks {
    library: PathBuf,
    directory: Directory,
}

impl WallClocks {
    /// `None`, and the reason is reported, if this machine has no `libfaketime`: then the test is skipped.
    pub(crate) fn new() -> Option<WallClocks> {
        let below =
            fs::read_dir(LIBRARIES).into_iter().flatten().flatten().map(|entry| entry.path().join(NAME));
        let Some(library) = below.chain([Path::new(LIBRARIES).join(NAME)]).find(|path| path.exists()) else {
            let reason = format!("no libfaketime (Debian's package faketime), expected {LIBRARIES}/*/{NAME}");
            skip_without("faketime", &reason);
            return None;
        };
        Some(WallClocks { library, directory: Directory::new() })
    }

    /// Makes a launch use the clock of this number.
    pub(crate) fn place(&self, launch: Launch, clock: usize) -> Launch {
        self.set_ahead(clock, 0);
        launch
            .env("LD_PRELOAD", &self.library.display().to_string())
            .env("FAKETIME_TIMESTAMP_FILE", &self.file(clock).display().to_string())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    }

    /// Sets a clock so many seconds ahead of that of this machine, at once.
    pub(crate) fn set_ahead(&self, clock: usize, seconds: i64) {
        let (file, new) = (self.file(clock), self.directory.path().join("new"));
        fs::write(&new, format!("{seconds:+}\n")).expect("a file for a clock");
        fs::rename(&new, &file).expect("a file that is replaced as a whole");
    }

    fn file(&self, clock: usize) -> PathBuf {
        self.directory.path().join(clock.to_string())
    }
}
