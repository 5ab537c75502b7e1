use std::sync::Arc;

use ladoga_access::moment_text;
use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use ladoga_tls::{NodeTls, TlsFiles};

use super::{Looks, Reload};
use crate::logging::LIFE;

/// Warns of what an operator should know of them.
pub(crate) fn tell_objections(tls: &NodeTls) {
    for objection in tls.objections(RealClock::new().wall_ms()) {
        tracing::warn!("{objection}");
    }
}

/// The files of TLS.
pub(crate) struct WatchedTls {
    tls: Arc<NodeTls>,
    looks: Looks<TlsFiles>,
}

impl WatchedTls {
    /// Of this node, which was started with these.
    pub(crate) fn new(tls: Arc<NodeTls>, files: TlsFiles) -> WatchedTls {
        WatchedTls { tls, looks: Looks::after(files) }
    }
}

impl Reload for WatchedTls {
    fn look(&mut self, is_asked: bool) {
        let paths = self.tls.paths();
        let Some(found) = self.looks.look(paths.read(), is_asked) else { return };
        match self.tls.replace(found.as_ref().map_err(Clone::clone)) {
            Ok(()) => {
                let (file, end_s) = (paths.certificate.display(), self.tls.state().own().not_after_s);
                let end = moment_text(u64::try_from(end_s).unwrap_or(0).saturating_mul(1_000));
                tracing::info!(target: LIFE, "read {file} and the other files of TLS anew: it expires {end}");
                tell_objections(&self.tls);
            }
            Err(problem) => tracing::error!("TLS stays as it was: {problem}"),
        }
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
