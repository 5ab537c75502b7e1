use std::time::Duration;

use crate::recorder::Recorder;

/// Where samples of one kind come from. Created and ended on the session's thread, driven on the collector's.
pub(crate) trait Source: Send {
    /// Takes what has come since the last call; called once more after the end of the profile.
    fn drain(&mut self, recorder: &mut Recorder);

    /// Threads come and go: attaches to new ones. Called about ten times a second.
    fn follow_threads(&mut self, _ids: &[u32], _recorder: &mut Recorder) {}

    /// Stops the sampling; a last `drain` follows.
    fn stop(&mut self, recorder: &mut Recorder);

    /// Between two drains. It bounds how much a ring must hold.
    fn interval(&self) -> Duration;
}
