use std::rc::Rc;

use bytes::Bytes;
use ladoga_http1::StatusCode;
use ladoga_runtime::{Permit, Taken};
use ladoga_service::{Context, Error, KeyValue, Later, StoreError, Upload};

use super::call::{Call, Outcome, Reply};
use super::value::{check_complete, next_piece_unless_displaced};
use crate::connection::{Core, Link};
use crate::http::{Answer, EntityTarget, Refusal};
use crate::slow::waiting_ns;

/// `PUT` of a value that is not held in memory.
pub(super) fn upload<K: KeyValue>(
    call: &Call<'_, K>,
    service: Rc<K>,
    (context, target): (Context, EntityTarget),
    bytes: u64,
) -> Result<Reply, Refusal> {
    let permit = call.door.uploads.enter(call.link.address(), 1)?;
    let (core, link) = (Rc::clone(&call.door.core), Rc::clone(call.link));
    Ok(Reply::later(async move {
        if !context.precondition.is_none() {
            service.admit_conditional(&context, target.key(), bytes).await.map_err(refused)?;
        }
        let ((), waited_ns) = waiting_ns(&*core.clock, permit.granted()).await;
        link.asked.waited(|waits| waits.admission_ns += waited_ns);
        let arriving = Arriving { core: &core, link: &link, permit: &permit };
        let upload = service.upload(&context, target.key()).await;
        let finished = receive(arriving, upload, bytes).await?;
        drop(permit);
        let version = service.put_uploaded(&context, target, finished).await?;
        Ok(Outcome::Answer(Answer::empty(StatusCode::CREATED).with_version(version)))
    }))
}

/// What is refused before the value is read: it is not read at all, so nothing can follow it.
fn refused(error: Error) -> Refusal {
    Refusal::from(error).and_close()
}

/// A large value on its way in.
struct Arriving<'a> {
    core: &'a Core,
    link: &'a Link,
    permit: &'a Permit,
}

impl Arriving<'_> {
    async fn next_piece(&self) -> Result<Option<Bytes>, Refusal> {
        let piece = next_piece_unless_displaced(self.link, self.permit).await;
        piece.map_err(|end| end.into_refusal(self.core, Taken::Upload))
    }
}

/// Writes the body as it arrives. If that fails, the rest of the body is not read, so this is the connection's last request.
async fn receive<U: Upload>(
    arriving: Arriving<'_>,
    upload: Result<U, Error>,
    bytes: u64,
) -> Result<U::Finished, Refusal> {
    let written = write_pieces(arriving, upload, bytes).await.map_err(Refusal::and_close)?;
    Ok(written.await?.finish().await?)
}

/// While one piece is written, the next one is read, and no third. Answers the last one's write.
async fn write_pieces<U: Upload>(
    arriving: Arriving<'_>,
    upload: Result<U, Error>,
    bytes: u64,
) -> Result<Later<Result<U, StoreError>>, Refusal> {
    let Arriving { link, permit, .. } = arriving;
    let upload = upload?;
    link.charge(bytes);
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
