//! What a connection waits for: more of a request, and the memory for it.

use std::future::poll_fn;
use std::task::Poll;

use ladoga_resp::Reply;
use ladoga_runtime::{Permit, Taken};
use ladoga_service::KeyValue;

use super::failed::Failed;
use super::serve::{Conversation, Parting};

/// What an argument takes of memory beside its bytes, about.
const ARGUMENT_BYTES: u64 = 64;
/// A request of up to this length takes no room of its own: the memory of its connection, which is counted, has it.
const REQUEST_BYTES_UNCOUNTED: u64 = 16 << 10;

/// What holds memory while the client is waited for.
#[derive(Clone, Copy)]
enum Unfinished {
    /// A request, for its rest.
    Request,
    /// A transaction, for its end.
    Transaction,
}

impl<K: KeyValue> Conversation<'_, K> {
    /// Takes room for a request of which so many bytes are wanted, twice as much as have arrived at most; gives back what the one
    /// before had.
    pub(super) async fn make_room(&mut self, wanted_bytes: u64) -> Result<(), Parting> {
        let arguments_bytes = self.link.buffers().parser.progress().0 as u64 * ARGUMENT_BYTES;
        let arrived_bytes = self.link.buffers().input.len() as u64 + arguments_bytes;
        if wanted_bytes.max(arrived_bytes) <= REQUEST_BYTES_UNCOUNTED {
            self.room = None;
            return Ok(());
        }
        let doubled = REQUEST_BYTES_UNCOUNTED.max(2 * arrived_bytes).min(wanted_bytes.max(arrived_bytes));
        let held_bytes = self.room.as_ref().map_or(0, |(_, bytes)| *bytes);
        if doubled <= held_bytes {
            return Ok(());
        }
        let bodies = &self.door.door.core.bodies;
        if self.session.transaction.is_open() {
            // Otherwise it would be refused once all of it has arrived.
            let fits = self.session.transaction.room.check(wanted_bytes.max(arrived_bytes), bodies);
            fits.map_err(|none| Parting::Say(Failed::from(none).into_reply()))?;
        }
        let permit = match self.room.take() {
            None => bodies.enter(self.link.address(), doubled),
            Some((permit, _)) => {
                permit.rests();
                permit.grow(doubled - held_bytes).map(|()| permit)
            }
        };
        let permit = permit.map_err(|full| Parting::Say(Failed::from(full).into_reply()))?;
        self.link.pauses();
        permit.granted().await;
        self.room = Some((permit, doubled));
        Ok(())
    }

    /// Waits until something arrives, the client has sent all, the node is to stop, or the connection to move. What it holds meanwhile
    /// it may have to give back: the request in turn, or the transaction that waits for its end.
    pub(super) async fn receive(&mut self) -> Result<(), Parting> {
        if let Some(room) = self.room.take() {
            let received = self.receive_by(Some((&room.0, Unfinished::Request)), Taken::Value).await;
            self.room = Some(room);
            return received;
        }
        let queued = std::mem::take(&mut self.session.transaction.room);
        let held = queued.permit().map(|permit| (permit, Unfinished::Transaction));
        let received = self.receive_by(held, Taken::Value).await;
        self.session.transaction.room = queued;
        received
    }

    /// The same within a request, of whose memory it may hold some.
    pub(super) async fn receive_for_room(&mut self) -> Result<(), Parting> {
        let room = self.room.take();
        let received = self.receive_more(room.as_ref().map(|(permit, _)| permit)).await;
        self.room = room;
        received
    }

    /// The same within a request, which has to go on.
    pub(super) async fn receive_more(&mut self, permit: Option<&Permit>) -> Result<(), Parting> {
        self.link.flush().await?;
        self.receive_by(permit.map(|permit| (permit, Unfinished::Request)), Taken::Upload).await?;
        if self.link.buffers().has_ended { Err(Parting::Over) } else { Ok(()) }
    }

    /// The same with what the client has taken, which it may have to give back.
    async fn receive_by(&mut self, held: Option<(&Permit, Unfinished)>, taken: Taken) -> Result<(), Parting> {
        let before = self.link.buffers().input.len();
        let permit = held.map(|(permit, _)| permit);
        permit.into_iter().for_each(Permit::waits);
        let received = poll_fn(|context| {
            if let Some((permit, unfinished)) = held
                && permit.poll_displaced(context).is_ready()
            {
                return Poll::Ready(Err(self.displaced(taken, unfinished)));
            }
            match self.link.poll_receive(context) {
                Poll::Pending if self.is_over() || self.is_to_move() => Poll::Ready(Ok(())),
                Poll::Pending => Poll::Pending,
                Poll::Ready(received) => Poll::Ready(received.map_err(Parting::from)),
            }
        });
        received.await?;
        if let Some(permit) = permit {
            permit.moved((self.link.buffers().input.len() - before) as u64);
            permit.rests();
        }
        Ok(())
    }

    /// Others needed the memory of what waits for more from the client.
    fn displaced(&self, taken: Taken, unfinished: Unfinished) -> Parting {
        self.door.door.core.metrics.displaced(taken);
        Parting::Say(Reply::error(match unfinished {
            Unfinished::Request => {
                "the request arrived too slowly, and the node needed its memory for other requests; send it again, faster or \
                 later"
            }
            Unfinished::Transaction => {
                "the transaction waited too long for its EXEC, and the node needed its memory for other requests; nothing of \
                 it happened, send it again"
            }
        }))
    }
}
