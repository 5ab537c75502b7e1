use std::rc::Rc;

use ladoga_http1::StatusCode;
use ladoga_http1::server::Request;
use ladoga_runtime::Operation;
use ladoga_service::BackupStep;
use memchr::memchr;

use crate::auth::{Asker, Audit, PendingLine};
use crate::connection::Link;
use crate::door::Door;
use crate::http::backup_step;

/// A request that may belong into the audit log, as that has it.
pub(crate) struct Audited(Vec<u8>);

/// The same once it is known what it does, and who asks.
pub(crate) struct AuditedRequest {
    /// Until it is over.
    line: Option<PendingLine>,
    link: Rc<Link>,
    /// Whether it does nothing before its body has come: all others leave theirs unread.
    needs_body: bool,
}

impl Audited {
    /// Remembers what is asked for, if there is an audit log.
    pub(crate) fn begin<K>(door: &Door<K>, request: &Request) -> Option<Audited> {
        door.access.audit.as_ref()?;
        Some(Audited([request.method.as_str().as_bytes(), b" ", request.path_and_query()].concat()))
    }

    /// It has begun.
    pub(crate) fn begun<K>(
        self,
        door: &Door<K>,
        link: &Rc<Link>,
        operation: Option<Operation>,
    ) -> AuditedRequest {
        let line = door.access.audit.as_ref().map(|audit| {
            let is_due = operation.is_some_and(|operation| is_due(audit, operation, &self.0));
            PendingLine::new(audit, &door.core.clock, asker_on(link), (self.0, is_due))
        });
        AuditedRequest { line, link: Rc::clone(link), needs_body: operation == Some(Operation::Put) }
    }
}

impl AuditedRequest {
    /// Has it written down, if it belongs there, now that it is known what becomes of it.
    pub(crate) fn end(mut self, status: StatusCode) {
        self.line.take().into_iter().for_each(|line| line.end(status.as_str()));
    }
}

impl Drop for AuditedRequest {
    fn drop(&mut self) {
        // Of a value that did not come whole, nothing is stored.
        if let Some(line) = &mut self.line
            && self.needs_body
            && !self.link.http().has_whole_body()
        {
            line.leave_out();
        }
    }
}

/// Who asks on a connection.
pub(super) fn asker_on(link: &Link) -> Asker {
    Asker { who: link.caller().map(|caller| Rc::from(caller.id())), from: link.peer_ip() }
}

/// What operators do is written down always; writes if they are wanted. Lines of a batch are by themselves.
fn is_due(audit: &Audit, operation: Operation, what: &[u8]) -> bool {
    match operation {
        Operation::Repair | Operation::Profile | Operation::Backup | Operation::BackupEnd => true,
        Operation::BackupFile => begins_a_file(what),
        Operation::Put | Operation::Delete | Operation::Increment | Operation::Expire => audit.has_writes(),
        _ => false,
    }
}

/// A file of a backup, or of the log, is fetched piece by piece: the first one stands for all.
fn begins_a_file(what: &[u8]) -> bool {
    let query = memchr(b'?', what).map_or(&b""[..], |mark| &what[mark + 1..]);
    matches!(
        backup_step(Operation::BackupFile, query),
        Ok(BackupStep::Read { offset: 0, .. } | BackupStep::ReadLog { offset: 0, .. })
    )
}
