use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use ladoga_env::Clock;

use super::audit::Audit;
use super::audit_line::AuditLine;

/// The status of what nobody waited for to its end.
const UNKNOWN: &str = "unknown";

/// A line of the audit log about something that has begun, and has not come to its end.
///
/// A write goes on if its connection breaks, or is ended. So if nobody is left who could tell what it came to, it is written down all the
/// same.
pub(crate) struct PendingLine {
    audit: Arc<Audit>,
    clock: Arc<dyn Clock>,
    asker: Asker,
    what: Vec<u8>,
    /// Whether it is written whatever this comes to, and not only if it is refused.
    is_due: bool,
}

/// Who asks, and from where.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) who: Option<Rc<str>>,
    pub(crate) from: Option<IpAddr>,
}

/// Whether a request with this status is written down whatever it was to do.
pub(crate) fn is_refusal(status: &str) -> bool {
    matches!(status, "401" | "403" | "429")
}

impl PendingLine {
    pub(crate) fn new(
        audit: &Arc<Audit>,
        clock: &Arc<dyn Clock>,
        asker: Asker,
        (what, is_due): (Vec<u8>, bool),
    ) -> PendingLine {
        PendingLine { audit: Arc::clone(audit), clock: Arc::clone(clock), asker, what, is_due }
    }

    /// It came to this.
    pub(crate) fn end(mut self, status: &str) {
        if std::mem::take(&mut self.is_due) || is_refusal(status) {
            self.record(status);
        }
    }

    /// Nothing of it happened, and it was not refused either.
    pub(crate) fn leave_out(&mut self) {
        self.is_due = false;
    }

    fn record(&self, status: &str) {
        let PendingLine { audit, clock, asker: Asker { who, from }, what, .. } = self;
        audit.record(&AuditLine { wall_ms: clock.wall_ms(), who: who.as_deref(), from: *from, what, status });
    }
}

impl Drop for PendingLine {
    fn drop(&mut self) {
        if self.is_due {
            self.record(UNKNOWN);
        }
    }
}
