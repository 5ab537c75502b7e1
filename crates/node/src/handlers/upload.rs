use std::mem::take;
use std::rc::Rc;

use hyper::StatusCode;
use hyper::body::Incoming;

use super::entity::stamp;
use super::reply::{Outcome, Reply};
use super::service::Call;
use super::value::{check_complete, next_piece};
use crate::coordinate::{self, Plan};
use crate::http::{EntityTarget, Head, Refusal};
use crate::server::Link;
use crate::store::{Cell, CellValue, Later, LocalStore, Store, StoreError, Upload};

/// `PUT` of a value that is not held in memory.
pub(super) fn upload<S: Store>(
    call: &Call<'_, S>,
    store: Rc<S::Local>,
    target: EntityTarget,
    plan: Option<Plan<S>>,
    body: Incoming,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let permit = call.event_loop.node.uploads.enter()?;
    let bytes = hyper::body::Body::size_hint(&body).exact().unwrap_or_default();
    let event_loop = Rc::clone(call.event_loop);
    let link = Rc::clone(call.link);
    Ok(Reply::later_or(take(head), async move |head| {
        if let Some(plan) = plan {
            let spread = receive(&link, Ok(coordinate::spread(plan).await), body, bytes).await?;
            drop(permit);
            spread.commit().await?;
            return Ok(Outcome::Answer(take(head).empty(StatusCode::CREATED)));
        }
        let finished = receive(&link, store.upload().await, body, bytes).await?;
        drop(permit);
        let stamp = stamp(&event_loop);
        let admitted = coordinate::admit_alone(&event_loop, stamp).await?;
        let cell = Cell { key: target.key(), stamp, value: CellValue::Uploaded(finished) };
        let applied = store.apply([cell]).await;
        drop(admitted);
        applied?;
        Ok(Outcome::Answer(take(head).empty(StatusCode::CREATED)))
    }))
}

/// Writes the body as it arrives. Where that fails, what is left of the body is not read, so nothing can follow it.
async fn receive<U: Upload>(
    link: &Link,
    upload: Result<U, StoreError>,
    body: Incoming,
    bytes: u64,
) -> Result<U::Finished, Refusal> {
    let written = write_pieces(link, upload, body, bytes).await.map_err(Refusal::and_close)?;
    Ok(written.await?.finish().await?)
}

/// While one piece is written, the next one is read, and no third. Answers the last one's write.
async fn write_pieces<U: Upload>(
    link: &Link,
    upload: Result<U, StoreError>,
    mut body: Incoming,
    bytes: u64,
) -> Result<Later<Result<U, StoreError>>, Refusal> {
    let upload = upload?;
    link.body_begins();
    let mut found = 0;
    let Some(first) = next_piece(link, &mut body).await? else {
        return Err(check_complete(0, bytes).err().unwrap_or_else(Refusal::length_required));
    };
    found += first.len() as u64;
    let mut writing = upload.write(first);
    while let Some(piece) = next_piece(link, &mut body).await? {
        found += piece.len() as u64;
        // The disk's time is not the client's.
        link.body_pauses();
        let upload = writing.await?;
        link.body_resumes();
        writing = upload.write(piece);
    }
    link.body_ends();
    check_complete(found, bytes)?;
    Ok(writing)
}
