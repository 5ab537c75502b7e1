use std::sync::Arc;

use ladoga_access::moment_text;
use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use ladoga_tls::{NodeTls, Reloaded};

use super::Reload;
use crate::logging::LIFE;

/// Warns of what an operator should know of them.
pub(crate) fn tell_objections(tls: &NodeTls) {
    for objection in tls.objections(RealClock::new().wall_ms()) {
        tracing::warn!("{objection}");
    }
}

/// The files of TLS.
pub(crate) struct WatchedTls(pub(crate) Arc<NodeTls>);

impl Reload for WatchedTls {
    fn look(&mut self, is_asked: bool) {
        match self.0.look(is_asked) {
            Reloaded::Same => {}
            Reloaded::Anew => {
                let (file, end_s) = (self.0.paths().certificate.display(), self.0.state().own().not_after_s);
                let end = moment_text(u64::try_from(end_s).unwrap_or(0).saturating_mul(1_000));
                tracing::info!(target: LIFE, "read {file} and the other files of TLS anew: it expires {end}");
                tell_objections(&self.0);
            }
            Reloaded::Kept(problem) => tracing::error!("TLS stays as it was: {problem}"),
        }
    }
}
