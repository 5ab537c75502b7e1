use ladoga_http1::StatusCode;
use ladoga_http1::server::Request;
use ladoga_runtime::Operation;

use crate::auth::{Audit, AuditLine};
use crate::connection::Link;
use crate::door::Door;

/// A request that may belong into the audit log, as that has it.
pub(crate) struct Audited(Vec<u8>);

impl Audited {
    /// Remembers what is asked for, if there is an audit log.
    pub(crate) fn begin<K>(door: &Door<K>, request: &Request) -> Option<Audited> {
        door.access.audit.as_ref()?;
        Some(Audited([request.method.as_str().as_bytes(), b" ", request.path_and_query()].concat()))
    }

    /// Has it written down, now that it is known what becomes of it.
    pub(crate) fn end<K>(
        self,
        door: &Door<K>,
        link: &Link,
        operation: Option<Operation>,
        status: StatusCode,
    ) {
        let Some(audit) = &door.access.audit else { return };
        if !belongs(audit, operation, status) {
            return;
        }
        let caller = link.caller();
        audit.record(&AuditLine {
            wall_ms: door.core.clock.wall_ms(),
            who: caller.as_ref().map(|caller| caller.id()),
            from: link.peer_ip(),
            what: &self.0,
            status: status.as_str(),
        });
    }
}

/// What is refused to who asks, and what operators do, is written down always; writes if they are wanted. Lines of a batch are by
/// themselves.
fn belongs(audit: &Audit, operation: Option<Operation>, status: StatusCode) -> bool {
    let is_refused =
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    is_refused
        || match operation {
            Some(Operation::Repair | Operation::Profile | Operation::Backup) => true,
            Some(Operation::Put | Operation::Delete | Operation::Increment | Operation::Expire) => {
                audit.has_writes()
            }
            _ => false,
        }
}
