use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ladoga_node::Guard;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::store::{parse_tokens, read_tokens};
use crate::logging::LIFE;

/// How soon a change of the file counts. It is read and compared: times of files are too coarse to tell two changes apart.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The file of tokens, as it is looked at.
struct Watched {
    path: PathBuf,
    guard: Arc<Guard>,
    /// What was found last.
    last: Result<Vec<u8>, String>,
    hang_up: Signal,
}

/// Has the tokens read anew when the file changes, and on `SIGHUP`; for as long as the process lives.
pub(super) fn watch(path: PathBuf, content: Vec<u8>, guard: Arc<Guard>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Here, so that no signal ends the process from now on.
    let hang_up = runtime.block_on(async { signal(SignalKind::hangup()) })?;
    let watched = Watched { path, guard, last: Ok(content), hang_up };
    thread::Builder::new().name("tokens".to_owned()).spawn(move || watched.run(&runtime))?;
    Ok(())
}

impl Watched {
    fn run(mut self, runtime: &Runtime) {
        runtime.block_on(async {
            loop {
                let is_asked = tokio::time::timeout(LOOK_EVERY, self.hang_up.recv()).await.is_ok();
                self.look(is_asked);
            }
        });
    }

    fn look(&mut self, is_asked: bool) {
        let found = read_tokens(&self.path);
        if found == self.last && !is_asked {
            return;
        }
        self.last = found;
        let parsed = self.last.as_ref().map_err(Clone::clone);
        match parsed.and_then(|content| parse_tokens(&self.path, content)) {
            Ok(file) => {
                let count = file.tokens.len();
                self.guard.replace(file);
                tracing::info!(target: LIFE, "read {} anew: {count} tokens count", self.path.display());
            }
            Err(problem) => {
                tracing::error!("the tokens stay as they were: {problem}");
                self.guard.keep(problem);
            }
        }
    }
}
