use std::io;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::logging::LIFE;

/// How often files are looked at. They are read and compared: times of files are too coarse to tell two changes apart. What has to be
/// found twice counts within two seconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Files that are looked at again and again.
pub(crate) trait Reload: Send {
    /// Reads them, and has them count if they have changed, or if somebody asked for it.
    fn look(&mut self, is_asked: bool);
}

/// Has the files read anew when they change, and on `SIGHUP`; for as long as the process lives. If there are none, the signal is
/// handled all the same: it would end the process.
pub(crate) fn watch(mut files: Vec<Box<dyn Reload>>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Here, so that no signal ends the process from now on.
    let mut hang_up = runtime.block_on(async { signal(SignalKind::hangup()) })?;
    let looking = async move {
        loop {
            let is_asked = tokio::time::timeout(LOOK_EVERY, hang_up.recv()).await.is_ok();
            if is_asked && files.is_empty() {
                tracing::info!(target: LIFE, "SIGHUP: no tokens and no TLS, so there is nothing to read anew");
            }
            files.iter_mut().for_each(|file| file.look(is_asked));
        }
    };
    thread::Builder::new().name("reload".to_owned()).spawn(move || runtime.block_on(looking))?;
    Ok(())
}
