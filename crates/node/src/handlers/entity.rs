use std::rc::Rc;

use ladoga_cluster::{Cell, Content};
use ladoga_http1::StatusCode;
use ladoga_model::{Stamp, Version};

use super::reply::{Outcome, Reply};
use super::service::Call;
use crate::coordinate::{self, Plan, open_found};
use crate::http::{Answer, EntityTarget, OCTETS, Refusal, Route};
use crate::server::{EventLoop, Streamed};
use crate::store::{self, CellKind, CellValue, LocalStore, Lookup, Pieces, Store, StoreError, Value};

/// `GET` and `HEAD` of an entity.
pub(super) fn get<S: Store>(
    call: &Call<'_, S>,
    route: Route,
    target: &EntityTarget,
) -> Result<Reply, Refusal> {
    let store = call.store()?;
    if let Some(plan) = Plan::of(call.event_loop, &store, target, call.waited_ms) {
        return Ok(get_from_cluster(call, route, plan));
    }
    match store.get(target.key()) {
        Lookup::Now(found) => with_value(call, route, found),
        Lookup::Later(found) => {
            let event_loop = Rc::clone(call.event_loop);
            let link = Rc::clone(call.link);
            Ok(Reply::later(async move {
                let call = Call { event_loop: &event_loop, link: &link, waited_ms: 0 };
                Ok(with_value(&call, route, found.await)?.outcome().await)
            }))
        }
    }
}

/// How often a large value that was replaced before it could be opened is looked for again.
const OPENS_MAX: usize = 3;

fn get_from_cluster<S: Store>(call: &Call<'_, S>, route: Route, plan: Plan<S>) -> Reply {
    let event_loop = Rc::clone(call.event_loop);
    let link = Rc::clone(call.link);
    Reply::later(async move {
        let call = Call { event_loop: &event_loop, link: &link, waited_ms: 0 };
        for _ in 0..OPENS_MAX {
            let Some(Cell { content: Content::Value(found), .. }) = coordinate::read(&plan).await? else {
                return Err(Refusal::not_found());
            };
            if let Some(value) = open_found(&plan, found).await? {
                return Ok(with_value(&call, route, Ok(Some(value)))?.outcome().await);
            }
        }
        Err(Refusal::over_capacity("the value is replaced faster than it can be read"))
    })
}

fn with_value<S: Store>(
    call: &Call<'_, S>,
    route: Route,
    found: Result<Option<Value>, StoreError>,
) -> Result<Reply, Refusal> {
    let value = found?.ok_or_else(Refusal::not_found)?;
    match (value, route) {
        (Value::Inline(value), Route::Head) => Ok(Reply::now(Answer::value_withheld(value.len() as u64))),
        (Value::Inline(value), _) => Ok(Reply::now(Answer::value(value))),
        (Value::Large { bytes, .. }, Route::Head) => Ok(Reply::now(Answer::value_withheld(bytes))),
        (Value::Large { bytes, pieces }, _) => large_value(call, bytes, pieces),
    }
}

/// Streams a value, once its first piece is read: what is wrong with that one can still be said.
fn large_value<S: Store>(call: &Call<'_, S>, bytes: u64, pieces: Box<dyn Pieces>) -> Result<Reply, Refusal> {
    let permit = call.event_loop.node.streams.enter(call.link.address(), 1)?;
    Ok(Reply::later(async move {
        permit.granted().await;
        let first = pieces.next().await?;
        Ok(Outcome::Stream(Streamed { content_type: OCTETS, bytes: Some(bytes), first, end: b"", permit }))
    }))
}

/// `DELETE` of an entity.
pub(super) fn delete<S: Store>(call: &Call<'_, S>, target: EntityTarget) -> Result<Reply, Refusal> {
    let store = call.store()?;
    if let Some(plan) = Plan::of(call.event_loop, &store, &target, call.waited_ms) {
        return Ok(Reply::later(async move {
            coordinate::write(plan, None).await?;
            Ok(Outcome::Answer(Answer::empty(StatusCode::ACCEPTED)))
        }));
    }
    store.admit(CellKind::Delete, 0)?;
    let event_loop = Rc::clone(call.event_loop);
    Ok(Reply::later(async move {
        let stamp = stamp(&event_loop);
        let admitted = coordinate::admit_alone(&event_loop, stamp).await?;
        let applied =
            store.apply([store::Cell { key: target.key(), stamp, value: CellValue::Tombstone }]).await;
        drop(admitted);
        applied?;
        Ok(Outcome::Answer(Answer::empty(StatusCode::ACCEPTED)))
    }))
}

/// The version of a write that happens now, and on this node alone.
pub(super) fn stamp<S: Store>(event_loop: &EventLoop<S>) -> Stamp {
    let node = &event_loop.node;
    let timestamp = node.versions.next();
    let stamp = Stamp::new(Version { timestamp, node: node.config.node() });
    Stamp { copies: u8::from(node.config.nodes() > 1), ..stamp }
}
