use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use ladoga_access::{Scope, Scopes};
use ladoga_http1::StatusCode;
use ladoga_model::{Cell, Ttl, Version};
use ladoga_runtime::{AccessKind, Address};
use ladoga_service::{Context, Error, KeyValue, Lookup, Precondition, StoredCell, Upload, Value};

use super::super::call::check_majority;
use super::audited::BatchAudit;
use crate::auth::Caller;
use crate::connection::Core;
use crate::door::Door;
use crate::http::{BatchAction, BatchOperation, Conditions, LineAnswer, ReadVerdict, Refusal};

/// What the lines of a batch have in common.
pub(super) struct LineCall<K: KeyValue> {
    pub(super) door: Rc<Door<K>>,
    pub(super) service: Rc<K>,
    pub(super) context: Context,
    pub(super) address: Address,
    /// On a node with tokens, who asks.
    pub(super) caller: Option<Caller>,
    /// Whether a line is paid for already: the batch was admitted as a request, which is the first of them.
    pub(super) is_paid: bool,
    /// On a node with an audit log, what that has of its lines.
    pub(super) audit: Option<BatchAudit>,
}

/// What serves a line that memory cannot answer at once.
pub(super) type LineServing = Pin<Box<dyn Future<Output = LineAnswer>>>;

/// What becomes of a line at its beginning.
pub(super) enum LineBegun {
    Served(LineAnswer),
    Serving(LineServing),
}

fn later(answer: impl Future<Output = Result<LineAnswer, Refusal>> + 'static) -> LineBegun {
    LineBegun::Serving(Box::pin(async move { answer.await.unwrap_or_else(LineAnswer::from) }))
}

impl<K: KeyValue> LineCall<K> {
    /// Begins to serve a line.
    pub(super) fn begin(&mut self, operation: BatchOperation) -> LineBegun {
        let audited = self.audit.as_ref().and_then(|audit| audit.begin(&operation));
        let begun = self.begin_unaudited(operation);
        match (audited, begun) {
            (None, begun) => begun,
            (Some(audited), LineBegun::Served(answer)) => {
                audited.end(answer.status().as_str());
                LineBegun::Served(answer)
            }
            (Some(audited), LineBegun::Serving(serving)) => LineBegun::Serving(Box::pin(async move {
                let answer = serving.await;
                audited.end(answer.status().as_str());
                answer
            })),
        }
    }

    fn begin_unaudited(&mut self, operation: BatchOperation) -> LineBegun {
        if let Err(refusal) = self.admit(&operation) {
            return LineBegun::Served(refusal.into());
        }
        count_line(&self.door.core, &operation);
        let BatchOperation { key, action } = operation;
        let begun = match action {
            BatchAction::Get(conditions) => Ok(self.get(&key, conditions)),
            BatchAction::Put { value, ttl, precondition } => self.put(key, value, (precondition, ttl)),
            BatchAction::Delete(precondition) => self.delete(key, precondition),
            BatchAction::Increment { by, precondition } => self.increment(key, by, precondition),
        };
        begun.unwrap_or_else(|refusal| LineBegun::Served(refusal.into()))
    }

    /// Refuses an operation that a request of its own would be refused for, too.
    fn admit(&mut self, operation: &BatchOperation) -> Result<(), Refusal> {
        let Some(caller) = &mut self.caller else { return Ok(()) };
        let clock = &self.door.core.clock;
        caller.still(clock.wall_ms()).map_err(Refusal::unauthorized)?;
        check_line(caller, operation)?;
        if std::mem::take(&mut self.is_paid) {
            return Ok(());
        }
        // Its bytes are charged as the body arrives.
        caller.admit(clock.monotonic_ns(), 0).map_err(Refusal::throttled)
    }

    fn get(&self, key: &[u8], conditions: Conditions) -> LineBegun {
        match self.service.get(&self.context, key) {
            Lookup::Now(found) => LineBegun::Served(found_answer(found, &conditions)),
            Lookup::Later(found) => {
                LineBegun::Serving(Box::pin(async move { found_answer(found.await, &conditions) }))
            }
        }
    }

    fn write_context(&self, precondition: Precondition, ttl: Option<Ttl>) -> Result<Context, Refusal> {
        if !precondition.is_none() {
            check_majority(self.context.replicas)?;
        }
        Ok(Context { precondition, ttl, ..self.context.clone() })
    }

    fn put(
        &self,
        key: Bytes,
        value: Bytes,
        (precondition, ttl): (Precondition, Option<Ttl>),
    ) -> Result<LineBegun, Refusal> {
        let context = self.write_context(precondition, ttl)?;
        self.service.admit_put(&context, &key, value.len() as u64)?;
        if value.len() as u64 >= self.service.upload_bytes_min() {
            return self.put_large(key, value, context);
        }
        let written = self.service.put(&context, key, value, ());
        Ok(later(async move { Ok(written_answer(StatusCode::CREATED, written.await?)) }))
    }

    /// The same of a value that is not kept in memory.
    fn put_large(&self, key: Bytes, value: Bytes, context: Context) -> Result<LineBegun, Refusal> {
        let permit = self.door.uploads.enter(self.address, 1)?;
        let service = Rc::clone(&self.service);
        Ok(later(async move {
            permit.granted().await;
            let upload = service.upload(&context, &key).await?;
            let finished = upload.write(value).await?.finish().await?;
            drop(permit);
            let version = service.put_uploaded(&context, key, finished).await?;
            Ok(written_answer(StatusCode::CREATED, version))
        }))
    }

    fn delete(&self, key: Bytes, precondition: Precondition) -> Result<LineBegun, Refusal> {
        let context = self.write_context(precondition, None)?;
        let deleted = self.service.delete(&context, key);
        Ok(later(async move { Ok(written_answer(StatusCode::ACCEPTED, deleted.await?)) }))
    }

    fn increment(&self, key: Bytes, by: i64, precondition: Precondition) -> Result<LineBegun, Refusal> {
        check_majority(self.context.replicas)?;
        let context = self.write_context(precondition, None)?;
        let added = self.service.increment(&context, key, by);
        Ok(later(async move {
            let (sum, stamp) = added.await?;
            Ok(LineAnswer::sum(stamp, sum))
        }))
    }
}

/// Whether who asks may do this.
pub(super) fn check_line(caller: &Caller, operation: &BatchOperation) -> Result<(), Refusal> {
    let needed = match operation.action {
        BatchAction::Get(_) => Scopes::of(&[Scope::Read]),
        BatchAction::Put { .. } => Scopes::of(&[Scope::Write]),
        BatchAction::Delete(_) => Scopes::of(&[Scope::Delete]),
        BatchAction::Increment { .. } => Scopes::of(&[Scope::Read, Scope::Write]),
    };
    caller.check(needed).and_then(|()| caller.check_key(&operation.key)).map_err(Refusal::denied)
}

/// A client asks for the key of a line that it may ask for.
pub(super) fn count_line(core: &Core, operation: &BatchOperation) {
    let is_read = matches!(operation.action, BatchAction::Get(_));
    core.count_access(if is_read { AccessKind::Read } else { AccessKind::Write }, &operation.key);
}

pub(super) fn written_answer(status: StatusCode, version: Version) -> LineAnswer {
    LineAnswer::empty(status).with_version(Some(version))
}

/// What a read is answered.
fn found_answer(found: Result<Option<StoredCell>, Error>, conditions: &Conditions) -> LineAnswer {
    let found = match found {
        Ok(found) => found,
        Err(error) => return Refusal::from(error).into(),
    };
    let version = found.as_ref().map(|cell| cell.stamp.version);
    let of_value = version.filter(|_| found.as_ref().is_some_and(|cell| cell.value.is_some()));
    match conditions.of_read(of_value) {
        ReadVerdict::Send => {}
        ReadVerdict::Failed => {
            let reason = "if_match is not met by what is stored under the key";
            return Refusal::precondition_failed(reason, version).into();
        }
        ReadVerdict::NotModified => {
            return LineAnswer::empty(StatusCode::NOT_MODIFIED).with_version(of_value);
        }
    }
    match found {
        Some(Cell { stamp, value: Some(Value::Inline(value)) }) => LineAnswer::value(stamp, value),
        Some(Cell { stamp, value: Some(Value::Large(value)) }) => LineAnswer::large(stamp, value),
        Some(Cell { value: None, .. }) | None => Refusal::not_found(version).into(),
    }
}
