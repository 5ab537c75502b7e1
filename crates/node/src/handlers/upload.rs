use std::rc::Rc;

use bytes::Bytes;
use ladoga_http1::StatusCode;

use super::entity::stamp;
use super::reply::{Outcome, Reply};
use super::service::Call;
use super::value::{check_complete, next_piece_unless_displaced};
use crate::coordinate::{self, Plan};
use crate::fair::Permit;
use crate::http::{Answer, EntityTarget, Refusal};
use crate::metrics::Taken;
use crate::server::{EventLoop, Link};
use crate::store::{Cell, CellValue, Later, LocalStore, Store, StoreError, Upload};

/// `PUT` of a value that is not held in memory.
pub(super) fn upload<S: Store>(
    call: &Call<'_, S>,
    store: Rc<S::Local>,
    target: EntityTarget,
    plan: Option<Plan<S>>,
    bytes: u64,
) -> Result<Reply, Refusal> {
    let permit = call.event_loop.node.uploads.enter(call.link.address(), 1)?;
    let event_loop = Rc::clone(call.event_loop);
    let link = Rc::clone(call.link);
    Ok(Reply::later(async move {
        permit.granted().await;
        let arriving = Arriving { event_loop: &event_loop, link: &link, permit: &permit };
        if let Some(plan) = plan {
            let spread = receive(arriving, Ok(coordinate::spread(plan).await), bytes).await?;
            drop(permit);
            spread.commit().await?;
            return Ok(Outcome::Answer(Answer::empty(StatusCode::CREATED)));
        }
        let finished = receive(arriving, store.upload().await, bytes).await?;
        drop(permit);
        let stamp = stamp(&event_loop);
        let admitted = coordinate::admit_alone(&event_loop, stamp).await?;
        let cell = Cell { key: target.key(), stamp, value: CellValue::Uploaded(finished) };
        let applied = store.apply([cell]).await;
        drop(admitted);
        applied?;
        Ok(Outcome::Answer(Answer::empty(StatusCode::CREATED)))
    }))
}

/// A large value on its way in.
struct Arriving<'a, S: Store> {
    event_loop: &'a EventLoop<S>,
    link: &'a Link,
    permit: &'a Permit,
}

impl<S: Store> Arriving<'_, S> {
    async fn next_piece(&self) -> Result<Option<Bytes>, Refusal> {
        let piece = next_piece_unless_displaced(self.link, self.permit).await;
        piece.map_err(|end| end.into_refusal(&self.event_loop.core, Taken::Upload))
    }
}

/// Writes the body as it arrives. Where that fails, what is left of the body is not read, so nothing can follow it.
async fn receive<S: Store, U: Upload>(
    arriving: Arriving<'_, S>,
    upload: Result<U, StoreError>,
    bytes: u64,
) -> Result<U::Finished, Refusal> {
    let written = write_pieces(arriving, upload, bytes).await.map_err(Refusal::and_close)?;
    Ok(written.await?.finish().await?)
}

/// While one piece is written, the next one is read, and no third. Answers the last one's write.
async fn write_pieces<S: Store, U: Upload>(
    arriving: Arriving<'_, S>,
    upload: Result<U, StoreError>,
    bytes: u64,
) -> Result<Later<Result<U, StoreError>>, Refusal> {
    let Arriving { link, permit, .. } = arriving;
    let upload = upload?;
    link.body_begins();
    permit.waits();
    let mut found = 0;
    let Some(first) = arriving.next_piece().await? else {
        return Err(check_complete(0, bytes).err().unwrap_or_else(Refusal::length_required));
    };
    found += first.len() as u64;
    let mut writing = upload.write(first);
    while let Some(piece) = arriving.next_piece().await? {
        found += piece.len() as u64;
        // The disk's time is not the client's.
        link.body_pauses();
        permit.rests();
        let upload = writing.await?;
        link.body_resumes();
        permit.waits();
        writing = upload.write(piece);
    }
    permit.rests();
    check_complete(found, bytes)?;
    Ok(writing)
}
