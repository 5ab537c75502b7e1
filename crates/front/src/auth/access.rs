use std::fmt;
use std::sync::Arc;

use super::audit::Audit;
use super::guard::Guard;
use super::hosts::Hosts;
use ladoga_tls::NodeTls;

/// Who may do what on a node, and what is written down about it.
#[derive(Default)]
pub struct Access {
    /// Its tokens. Without them, whoever reaches it may do anything.
    pub guard: Option<Arc<Guard>>,
    /// Without tokens, under which names it may be asked.
    pub hosts: Hosts,
    /// Its TLS. Without it, everything is sent as it is.
    pub tls: Option<Arc<NodeTls>>,
    /// Its audit log.
    pub audit: Option<Arc<Audit>>,
}

impl Access {
    /// Waits until the audit log is written.
    pub fn close(&self) {
        self.audit.iter().for_each(|audit| audit.close());
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("has_tokens", &self.guard.is_some())
            .field("has_tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}
