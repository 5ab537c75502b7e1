use std::rc::Rc;

use ladoga_http1::server::Request;
use ladoga_runtime::{AccessKind, Operation};
use ladoga_service::KeyValue;

use super::admit::admit;
use super::call::{Call, Outcome, Reply, check_majority};
use super::rounded::tell_rounded;
use super::traced_request::begin_traced;
use super::{backup, batch, changes, entity, put, range};
use crate::admin;
use crate::connection::Link;
use crate::door::Door;
use crate::http::{Conditions, EntityChange, EntityTarget, Refusal, change, operation};

/// Serves a request.
pub(crate) fn handle<K: KeyValue>(
    door: &Rc<Door<K>>,
    link: &Rc<Link>,
    request: Request,
    started_ns: u64,
) -> (Option<Operation>, Reply) {
    let call = Call { door, link, waited_ms: 0 };
    match operation(&request.method, request.path()) {
        Ok((operation, need)) => {
            let operation = of_post(operation, request.query());
            let reply = admit(door, link, &request, need).and_then(|()| {
                // Whoever is not let in has no say in what is recorded, and takes no room from others.
                if let Some(traces) = &door.core.traces {
                    begin_traced(traces, link, &request, started_ns);
                }
                call.reply(operation, request)
            });
            (Some(operation), reply.unwrap_or_else(|refusal| Reply::Now(refusal.into())))
        }
        Err(refusal) => (None, Reply::Now(refusal.into())),
    }
}

/// A `POST` changes what its query says.
fn of_post(operation: Operation, query: &[u8]) -> Operation {
    match operation {
        Operation::Increment if matches!(change(query), Ok(EntityChange::Expire(_))) => Operation::Expire,
        operation => operation,
    }
}

impl<K: KeyValue> Call<'_, K> {
    fn reply(&self, operation: Operation, request: Request) -> Result<Reply, Refusal> {
        let door = self.door;
        match operation {
            Operation::Get | Operation::Head => self.read(operation, request),
            Operation::Put | Operation::Delete => self.write(operation, request),
            Operation::Increment | Operation::Expire => self.change(request),
            Operation::Range => range::range(self, &request),
            Operation::Changes => changes::changes(self, &request),
            Operation::Batch => batch::batch(self, &request),
            Operation::Status => admin::status(door, self.is_trusted()).map(Reply::now),
            Operation::Live => Ok(Reply::now(admin::live())),
            Operation::Ready => admin::ready(door, request.query(), self.is_trusted()).map(Reply::now),
            Operation::Cluster => admin::cluster(door).map(Reply::now),
            Operation::Peer => {
                admin::admit_peer(door, self.link, &request).map(|of_loop| Reply::Now(Outcome::Peer(of_loop)))
            }
            Operation::Repair => admin::repair(door).map(Reply::now),
            Operation::Backup | Operation::BackupFile | Operation::BackupEnd => {
                backup::backup(self, operation, &request)
            }
            Operation::Metrics => admin::metrics(door, &request).map(Reply::now),
            Operation::Hot => Ok(Reply::now(admin::hot(door, self.link))),
            Operation::Profile => {
                let is_anybodys = door.access.guard.is_none();
                let profile = admin::profile(&door.core, self.link, &request, is_anybodys)?;
                Ok(Reply::later(async move { Ok(Outcome::Answer(profile.await?)) }))
            }
        }
    }

    /// A read of one entity. An invalid request is refused before anything is waited for.
    fn read(&self, operation: Operation, request: Request) -> Result<Reply, Refusal> {
        let conditions = Conditions::of(&request).map_err(Refusal::bad_request)?;
        let target =
            EntityTarget::parse(request.into_query(), self.door.nodes).map_err(Refusal::bad_request)?;
        target.check_read().map_err(Refusal::bad_request)?;
        self.admit_key(AccessKind::Read, target.key())?;
        self.once_it_is_ready(move |call| {
            let reply = entity::get(call, operation, &target, conditions)?;
            Ok(tell_rounded(call, target.replicas(), reply))
        })
    }

    /// The same for a write.
    fn write(&self, operation: Operation, request: Request) -> Result<Reply, Refusal> {
        let conditions = Conditions::of(&request).map_err(Refusal::bad_request)?;
        let precondition = conditions.of_write().map_err(Refusal::bad_request)?;
        let body = request.body;
        let target =
            EntityTarget::parse(request.into_query(), self.door.nodes).map_err(Refusal::bad_request)?;
        target.check_ttl(operation == Operation::Put).map_err(Refusal::bad_request)?;
        self.admit_key(AccessKind::Write, target.key())?;
        if !precondition.is_none() {
            check_majority(target.replicas())?;
        }
        let bytes = if operation == Operation::Put { put::value_bytes(body)? } else { 0 };
        let asked = target.replicas();
        self.once_it_is_ready(move |call| {
            let reply = match operation {
                Operation::Put => put::put(call, (target, bytes), precondition)?,
                _ => entity::delete(call, target, precondition)?,
            };
            Ok(tell_rounded(call, asked, reply))
        })
    }

    /// The same for a write of what depends on what is there.
    fn change(&self, request: Request) -> Result<Reply, Refusal> {
        let conditions = Conditions::of(&request).map_err(Refusal::bad_request)?;
        let precondition = conditions.of_write().map_err(Refusal::bad_request)?;
        let change = change(request.query()).map_err(Refusal::bad_request)?;
        let target =
            EntityTarget::parse(request.into_query(), self.door.nodes).map_err(Refusal::bad_request)?;
        self.admit_key(AccessKind::Write, target.key())?;
        check_majority(target.replicas())?;
        let asked = target.replicas();
        self.once_it_is_ready(move |call| {
            let reply = match change {
                EntityChange::Increment(by) => entity::increment(call, (target, by), precondition)?,
                EntityChange::Expire(life) => entity::expire(call, (target, life.ttl()), precondition)?,
            };
            Ok(tell_rounded(call, asked, reply))
        })
    }
}
