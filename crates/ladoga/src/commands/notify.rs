use std::time::Duration;

use sd_notify::NotifyState;

/// Tells systemd, if it has started this process and asked for it (`Type=notify`), how the node is.
pub(super) fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "could not tell systemd how the node is");
    }
}

/// How often systemd wants to hear from this process (`WatchdogSec=`): twice in the time after which it would kill it.
pub(super) fn watchdog_period() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}
