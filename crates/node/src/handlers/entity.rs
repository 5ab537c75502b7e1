use std::mem::take;
use std::rc::Rc;

use hyper::StatusCode;
use ladoga_cluster::{Cell, Content};
use ladoga_model::{Stamp, Version};

use super::reply::{Outcome, Reply};
use super::service::Call;
use crate::coordinate::{self, Plan, open_found};
use crate::http::{EntityTarget, Head, Refusal, Route};
use crate::server::{EventLoop, NoPieces, Streamed};
use crate::store::{self, CellKind, CellValue, LocalStore, Lookup, Pieces, Store, StoreError, Value};

/// Up to this length a value is copied into the buffer of its connection, which stays as large as it once was.
const VALUE_IN_BUFFER_BYTES_MAX: usize = 64 << 10;

/// `GET` and `HEAD` of an entity.
pub(super) fn get<S: Store>(
    call: &Call<'_, S>,
    route: Route,
    target: &EntityTarget,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let store = call.store()?;
    if let Some(plan) = Plan::of(call.event_loop, &store, target, call.waited_ms) {
        return Ok(get_from_cluster(call, route, plan, head));
    }
    match store.get(target.key()) {
        Lookup::Now(found) => with_value(call, route, found, head),
        Lookup::Later(found) => {
            let event_loop = Rc::clone(call.event_loop);
            let link = Rc::clone(call.link);
            Ok(Reply::later_or(take(head), async move |head| {
                let call = Call { event_loop: &event_loop, link: &link, waited_ms: 0 };
                Ok(with_value(&call, route, found.await, head)?.outcome().await)
            }))
        }
    }
}

/// How often a large value that was replaced before it could be opened is looked for again.
const OPENS_MAX: usize = 3;

fn get_from_cluster<S: Store>(call: &Call<'_, S>, route: Route, plan: Plan<S>, head: &mut Head) -> Reply {
    let event_loop = Rc::clone(call.event_loop);
    let link = Rc::clone(call.link);
    Reply::later_or(take(head), async move |head| {
        let call = Call { event_loop: &event_loop, link: &link, waited_ms: 0 };
        for _ in 0..OPENS_MAX {
            let Some(Cell { content: Content::Value(found), .. }) = coordinate::read(&plan).await? else {
                return Err(Refusal::not_found());
            };
            if let Some(value) = open_found(&plan, found).await? {
                return Ok(with_value(&call, route, Ok(Some(value)), head)?.outcome().await);
            }
        }
        Err(Refusal::over_capacity("the value is replaced faster than it can be read"))
    })
}

fn with_value<S: Store>(
    call: &Call<'_, S>,
    route: Route,
    found: Result<Option<Value>, StoreError>,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let value = found?.ok_or_else(Refusal::not_found)?;
    match (value, route) {
        (Value::Inline(value), Route::Head) => Ok(Reply::now(take(head).value_withheld(value.len() as u64))),
        (Value::Inline(value), _) if value.len() > VALUE_IN_BUFFER_BYTES_MAX => {
            let streamed = streamed(call, value.len() as u64, head);
            Ok(Reply::Now(Outcome::Stream(Streamed { first: Some((value, Box::new(NoPieces))), ..streamed })))
        }
        (Value::Inline(value), _) => Ok(Reply::now(take(head).value(value))),
        (Value::Large { bytes, .. }, Route::Head) => Ok(Reply::now(take(head).value_withheld(bytes))),
        (Value::Large { bytes, pieces }, _) => large_value(call, bytes, pieces, head),
    }
}

/// Streams a value, once its first piece is read: what is wrong with that one can still be said.
fn large_value<S: Store>(
    call: &Call<'_, S>,
    bytes: u64,
    pieces: Box<dyn Pieces>,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let permit = call.event_loop.node.streams.enter(call.link.address(), 1)?;
    let streamed = streamed(call, bytes, head);
    Ok(Reply::later_or(take(head), async move |_| {
        permit.granted().await;
        let first = pieces.next().await?;
        Ok(Outcome::Stream(Streamed { first, permit: Some(permit), ..streamed }))
    }))
}

/// A value of this length, without any of it.
fn streamed<S: Store>(call: &Call<'_, S>, bytes: u64, head: &Head) -> Streamed {
    let delivery = head.delivery();
    Streamed {
        head: delivery.value_head(bytes, call.event_loop.core.clock.wall_ms()),
        first: None,
        end: b"",
        keeps_alive: delivery.keeps_alive,
        permit: None,
    }
}

/// `DELETE` of an entity.
pub(super) fn delete<S: Store>(
    call: &Call<'_, S>,
    target: EntityTarget,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let store = call.store()?;
    if let Some(plan) = Plan::of(call.event_loop, &store, &target, call.waited_ms) {
        return Ok(Reply::later_or(take(head), async move |head| {
            coordinate::write(plan, None).await?;
            Ok(Outcome::Answer(take(head).empty(StatusCode::ACCEPTED)))
        }));
    }
    store.admit(CellKind::Delete, 0)?;
    let event_loop = Rc::clone(call.event_loop);
    Ok(Reply::later_or(take(head), async move |head| {
        let stamp = stamp(&event_loop);
        let admitted = coordinate::admit_alone(&event_loop, stamp).await?;
        let applied =
            store.apply([store::Cell { key: target.key(), stamp, value: CellValue::Tombstone }]).await;
        drop(admitted);
        applied?;
        Ok(Outcome::Answer(take(head).empty(StatusCode::ACCEPTED)))
    }))
}

/// The version of a write that happens now, and on this node alone.
pub(super) fn stamp<S: Store>(event_loop: &EventLoop<S>) -> Stamp {
    let node = &event_loop.node;
    let timestamp = node.versions.next();
    let stamp = Stamp::new(Version { timestamp, node: node.config.node() });
    Stamp { copies: u8::from(node.config.nodes() > 1), ..stamp }
}
