use std::rc::Rc;
use std::sync::Arc;

use super::super::audited::asker_on;
use crate::auth::{Access, Asker, PendingLine};
use crate::connection::{Core, Link};
use crate::http::{BatchAction, BatchOperation};

/// What the audit log has of the lines of a batch: who sends it, and where it is written down.
#[derive(Clone)]
pub(super) struct BatchAudit {
    access: Arc<Access>,
    core: Rc<Core>,
    asker: Asker,
}

impl BatchAudit {
    /// Of the request that a connection has in turn, on a node with an audit log.
    pub(super) fn of(access: &Arc<Access>, core: &Rc<Core>, link: &Link) -> Option<BatchAudit> {
        access.audit.as_ref()?;
        Some(BatchAudit { access: Arc::clone(access), core: Rc::clone(core), asker: asker_on(link) })
    }

    /// Remembers a line, unless nothing that can become of it is written down.
    pub(super) fn begin(&self, operation: &BatchOperation) -> Option<PendingLine> {
        let audit = self.access.audit.as_ref()?;
        let word = match operation.action {
            BatchAction::Get(_) => "get",
            BatchAction::Put { .. } => "put",
            BatchAction::Delete(_) => "delete",
            BatchAction::Increment { .. } => "increment",
        };
        let is_due = !matches!(operation.action, BatchAction::Get(_)) && audit.has_writes();
        if !is_due && self.asker.who.is_none() {
            return None;
        }
        let what = [b"batch ", word.as_bytes(), b" ", &operation.key].concat();
        Some(PendingLine::new(audit, &self.core.clock, self.asker.clone(), (what, is_due)))
    }
}
