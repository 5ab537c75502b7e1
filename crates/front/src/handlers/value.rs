use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use ladoga_runtime::{Displaced, OverCapacity, Permit, Taken};

use crate::connection::{Core, Link};
use crate::http::Refusal;
use crate::slow::waiting_ns;

/// A value of up to this length needs no memory from the gate: it is part of the memory of its connection. For a longer value
/// the reservation is doubled as it fills, so that no client reserves more than twice of what it sent.
pub(super) const VALUE_BYTES_UNCOUNTED: u64 = 8 << 10;

/// A value in memory, and the right to have it there, if it needs one.
pub(super) type Received = (Bytes, Option<Permit>);

/// Reads a value of `bytes` into memory, reserving memory as the bytes arrive. A value that came in one piece, as most do, is
/// not copied.
pub(super) async fn read_value(core: &Core, link: &Link, bytes: u64) -> Result<Received, Refusal> {
    link.body_begins();
    let first = next_piece(link).await?.unwrap_or_default();
    if first.len() as u64 == bytes && bytes <= VALUE_BYTES_UNCOUNTED {
        return Ok((first, None));
    }
    // Apart, so that a small value does not have to carry what a longer one needs.
    Box::pin(read_with_room(core, link, bytes, first)).await
}

async fn read_with_room(core: &Core, link: &Link, bytes: u64, first: Bytes) -> Result<Received, Refusal> {
    let mut room = Room::new(core, link);
    let value = if first.len() as u64 == bytes {
        room.hold(bytes, bytes, bytes).await?;
        first
    } else {
        room.read_rest(bytes, &first).await?
    };
    Ok((value, room.permit))
}

/// The room that a value takes while it arrives, and until it is dropped.
pub(super) struct Room<'a> {
    core: &'a Core,
    link: &'a Link,
    permit: Option<Permit>,
    held_bytes: u64,
}

impl<'a> Room<'a> {
    pub(super) const fn new(core: &'a Core, link: &'a Link) -> Room<'a> {
        Room { core, link, permit: None, held_bytes: VALUE_BYTES_UNCOUNTED }
    }
}

impl Room<'_> {
    async fn read_rest(&mut self, bytes: u64, first: &[u8]) -> Result<Bytes, Refusal> {
        let mut value = Vec::new();
        self.extend(&mut value, first, bytes).await?;
        while let Some(piece) = self.next_piece().await? {
            self.extend(&mut value, &piece, bytes).await?;
        }
        self.mark_complete();
        check_complete(value.len() as u64, bytes)?;
        Ok(Bytes::from(value))
    }

    async fn extend(&mut self, value: &mut Vec<u8>, piece: &[u8], bytes: u64) -> Result<(), Refusal> {
        let needed = value.len() + piece.len();
        if needed > value.capacity() {
            let doubled = VALUE_BYTES_UNCOUNTED.max(2 * value.capacity() as u64).min(bytes);
            let capacity = doubled.max(needed as u64);
            self.hold(capacity, needed as u64, bytes).await?;
            value.reserve_exact(capacity as usize - value.len());
        }
        value.extend_from_slice(piece);
        Ok(())
    }

    /// All of it has arrived: the client is not waited for any more.
    pub(super) fn mark_complete(&self) {
        if let Some(permit) = &self.permit {
            permit.rests();
        }
    }

    /// Reserves memory for `bytes` of a value, of which `arrived_bytes` of `value_bytes` have arrived. The time that other
    /// clients take to give way does not count against this one.
    pub(super) async fn hold(
        &mut self,
        bytes: u64,
        arrived_bytes: u64,
        value_bytes: u64,
    ) -> Result<(), Refusal> {
        if bytes <= self.held_bytes {
            return Ok(());
        }
        self.link.body_pauses();
        let permit = match self.permit.take() {
            None => {
                let permit = self.core.bodies.enter(self.link.address(), bytes).map_err(refused)?;
                permit.moved(arrived_bytes);
                permit
            }
            Some(permit) => {
                permit.rests();
                permit.grow(bytes - self.held_bytes).map_err(refused)?;
                permit
            }
        };
        let ((), waited_ns) = waiting_ns(&*self.core.clock, permit.granted()).await;
        self.link.asked.waited(|waits| waits.admission_ns += waited_ns);
        if arrived_bytes < value_bytes {
            permit.waits();
        }
        (self.permit, self.held_bytes) = (Some(permit), bytes);
        self.link.body_resumes();
        Ok(())
    }

    /// The next piece, unless it has to give way; `None` at the end.
    pub(super) async fn next_piece(&self) -> Result<Option<Bytes>, Refusal> {
        let Some(permit) = &self.permit else { return next_piece(self.link).await };
        let piece = next_piece_unless_displaced(self.link, permit).await;
        piece.map_err(|end| end.into_refusal(self.core, Taken::Value))
    }
}

/// What has arrived is discarded, and the rest is not read, so this is the connection's last request.
fn refused(error: OverCapacity) -> Refusal {
    Refusal::from(error).and_close()
}

/// Why there is no next piece.
pub(super) enum BodyEnd {
    /// The client's fault.
    Refused(Refusal),
    /// Others were faster.
    Displaced(Displaced),
}

impl BodyEnd {
    pub(super) fn into_refusal(self, core: &Core, taken: Taken) -> Refusal {
        match self {
            BodyEnd::Refused(refusal) => refusal,
            BodyEnd::Displaced(Displaced) => {
                core.metrics.displaced(taken);
                Refusal::displaced()
            }
        }
    }
}

/// As [`next_piece`], for a value that may have to give way.
pub(super) async fn next_piece_unless_displaced(
    link: &Link,
    permit: &Permit,
) -> Result<Option<Bytes>, BodyEnd> {
    let mut next = pin!(next_piece(link));
    let piece = poll_fn(|context| match permit.poll_displaced(context) {
        Poll::Ready(displaced) => Poll::Ready(Err(BodyEnd::Displaced(displaced))),
        Poll::Pending => next.as_mut().poll(context).map_err(BodyEnd::Refused),
    });
    let piece = piece.await?;
    if let Some(piece) = &piece {
        permit.moved(piece.len() as u64);
    }
    Ok(piece)
}

/// Checks that a body has the length that its head promised. The connection checks it too; but what is stored depends on it.
pub(super) fn check_complete(found: u64, promised: u64) -> Result<(), Refusal> {
    if found == promised {
        return Ok(());
    }
    Err(Refusal::bad_request(format_args!(
        "the body ended after {found} bytes; Content-Length promised {promised}"
    ))
    .and_close())
}

/// The next piece of a body, not empty; `None` at its end.
pub(super) async fn next_piece(link: &Link) -> Result<Option<Bytes>, Refusal> {
    let piece = poll_fn(|context| link.poll_piece(context)).await;
    piece.map_err(|error| Refusal::bad_request(format_args!("the body is incomplete: {error}")).and_close())
}
