use std::rc::Rc;

use ladoga_http1::StatusCode;
use ladoga_http1::server::Request;
use ladoga_runtime::Operation;
use ladoga_service::BackupStep;
use memchr::memchr;

use crate::auth::{Asker, PendingLine, is_refusal};
use crate::connection::{FetchedFile, Link};
use crate::door::Door;
use crate::http::backup_step;

/// A request that may belong into the audit log, as that has it.
pub(crate) struct Audited(Vec<u8>);

/// The same once it is known what it does.
pub(crate) struct AuditedRequest {
    /// Until it is over, if it is written down whatever it comes to.
    line: Option<PendingLine>,
    /// Else what it asks for, as it may be refused still.
    what: Vec<u8>,
    link: Rc<Link>,
    /// Whether it does nothing before its body has come: all others leave theirs unread.
    needs_body: bool,
    /// Of which file it is to have a piece.
    file: Option<Box<FetchedFile>>,
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
        let piece = operation.and_then(|operation| piece(link, operation, &self.0));
        let is_due = operation.is_some_and(|operation| is_due(door, operation))
            || piece.as_ref().is_some_and(|(file, offset)| is_first(link, file, *offset));
        let (what, line) =
            if is_due { (Vec::new(), pending_line(door, link, (self.0, true))) } else { (self.0, None) };
        let needs_body = operation == Some(Operation::Put);
        AuditedRequest { line, what, link: Rc::clone(link), needs_body, file: piece.map(|(file, _)| file) }
    }
}

impl AuditedRequest {
    /// Has it written down, if it belongs there, now that it is known what becomes of it.
    pub(crate) fn end<K>(mut self, door: &Door<K>, status: StatusCode) {
        // What was not sent may be asked for once more.
        if status == StatusCode::OK
            && let Some(file) = self.file.take()
        {
            self.link.guest.note_fetched(file);
        }
        let status = status.as_str();
        if self.line.is_none() && is_refusal(status) {
            self.line = pending_line(door, &self.link, (std::mem::take(&mut self.what), false));
        }
        self.line.take().into_iter().for_each(|line| line.end(status));
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

fn pending_line<K>(door: &Door<K>, link: &Link, of: (Vec<u8>, bool)) -> Option<PendingLine> {
    let audit = door.access.audit.as_ref()?;
    Some(PendingLine::new(audit, &door.core.clock, asker_on(link), of))
}

/// Who asks on a connection.
pub(super) fn asker_on(link: &Link) -> Asker {
    Asker { who: who_on(link), from: Some(link.peer_ip()) }
}

fn who_on(link: &Link) -> Option<Rc<str>> {
    link.caller().map(|caller| Rc::from(caller.id()))
}

/// What operators do is written down always; writes if they are wanted. Lines of a batch are by themselves.
fn is_due<K>(door: &Door<K>, operation: Operation) -> bool {
    match operation {
        Operation::Repair | Operation::Profile | Operation::Backup | Operation::BackupEnd => true,
        Operation::Put | Operation::Delete | Operation::Increment | Operation::Expire => {
            door.access.audit.as_ref().is_some_and(|audit| audit.has_writes())
        }
        _ => false,
    }
}

/// Of which file of a backup a piece is asked for, if that is so, and from where on.
fn piece(link: &Link, operation: Operation, what: &[u8]) -> Option<(Box<FetchedFile>, u64)> {
    if operation != Operation::BackupFile {
        return None;
    }
    let query = memchr(b'?', what).map_or(&b""[..], |mark| &what[mark + 1..]);
    let (checkpoint, name, offset) = match backup_step(operation, query).ok()? {
        BackupStep::Read { id, file, offset, .. } => (Some(id), file, offset),
        BackupStep::ReadLog { file, offset, .. } => (None, file, offset),
        _ => return None,
    };
    Some((Box::new(FetchedFile { who: who_on(link), checkpoint, name }), offset))
}

/// A file is fetched piece by piece. The first piece stands for all that follow it on its connection, wherever in the file it is.
fn is_first(link: &Link, file: &FetchedFile, offset: u64) -> bool {
    offset == 0 || !link.guest.is_fetching(file)
}
