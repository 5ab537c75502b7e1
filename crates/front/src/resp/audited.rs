use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::in_flight::Begun;
use super::served::Served;
use crate::auth::{Access, AuditLine};
use crate::connection::Core;

/// A command that belongs into the audit log.
pub(super) struct AuditedCommand {
    pub(super) access: Arc<Access>,
    pub(super) core: Rc<Core>,
    pub(super) who: Option<Box<str>>,
    pub(super) from: Option<IpAddr>,
    pub(super) what: Vec<u8>,
}

impl AuditedCommand {
    /// Has it written down.
    pub(super) fn end(&self, status: &str) {
        let AuditedCommand { access, core, who, from, what } = self;
        let Some(audit) = &access.audit else { return };
        let (wall_ms, who, from) = (core.clock.wall_ms(), who.as_deref(), *from);
        audit.record(&AuditLine { wall_ms, who, from, what, status });
    }

    /// The same by what it is answered.
    pub(super) fn end_with(&self, served: &Served) {
        self.end(if served.is_error() { "error" } else { "ok" });
    }

    /// Has it written down once it is served, if it belongs there.
    pub(super) fn follow_if(audited: Option<AuditedCommand>, begun: Begun) -> Begun {
        match audited {
            None => begun,
            Some(audited) => audited.follow(begun),
        }
    }

    fn follow(self, begun: Begun) -> Begun {
        match begun {
            Begun::Served(served) => {
                self.end_with(&served);
                Begun::Served(served)
            }
            Begun::Serving(serving) => Begun::Serving(Box::pin(async move {
                let served = serving.await;
                self.end_with(&served);
                served
            })),
        }
    }
}
