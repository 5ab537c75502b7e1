use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use ladoga_http1::StatusCode;

use crate::auth::{Access, AuditLine};
use crate::connection::{Core, Link};
use crate::http::{BatchAction, BatchOperation};

/// What the audit log has of the lines of a batch: who sends it, and where it is written down.
#[derive(Clone)]
pub(super) struct BatchAudit {
    access: Arc<Access>,
    core: Rc<Core>,
    who: Option<Rc<str>>,
    from: Option<IpAddr>,
}

/// A line that may belong there.
pub(super) struct AuditedLine {
    audit: BatchAudit,
    what: Vec<u8>,
    is_write: bool,
}

impl BatchAudit {
    /// Of the request that a connection has in turn, on a node with an audit log.
    pub(super) fn of(access: &Arc<Access>, core: &Rc<Core>, link: &Link) -> Option<BatchAudit> {
        access.audit.as_ref()?;
        let who = link.caller().map(|caller| Rc::from(caller.id()));
        Some(BatchAudit { access: Arc::clone(access), core: Rc::clone(core), who, from: link.peer_ip() })
    }

    /// Remembers a line, unless nothing that can become of it is written down.
    pub(super) fn begin(&self, operation: &BatchOperation) -> Option<AuditedLine> {
        let audit = self.access.audit.as_ref()?;
        let word = match operation.action {
            BatchAction::Get(_) => "get",
            BatchAction::Put { .. } => "put",
            BatchAction::Delete(_) => "delete",
            BatchAction::Increment { .. } => "increment",
        };
        let is_write = !matches!(operation.action, BatchAction::Get(_)) && audit.has_writes();
        if !is_write && self.who.is_none() {
            return None;
        }
        let what = [b"batch ", word.as_bytes(), b" ", &operation.key].concat();
        Some(AuditedLine { audit: self.clone(), what, is_write })
    }
}

impl AuditedLine {
    /// Has it written down, if it belongs there.
    pub(super) fn end(&self, status: StatusCode) {
        let is_refused = matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
        );
        let BatchAudit { access, core, who, from } = &self.audit;
        let Some(audit) = access.audit.as_ref().filter(|_| is_refused || self.is_write) else { return };
        audit.record(&AuditLine {
            wall_ms: core.clock.wall_ms(),
            who: who.as_deref(),
            from: *from,
            what: &self.what,
            status: status.as_str(),
        });
    }
}
