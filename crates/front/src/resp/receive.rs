//! What a connection waits for: more of a request, and the memory for it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use ladoga_resp::Reply;
use ladoga_runtime::Taken;
use ladoga_service::KeyValue;

use super::failed::Failed;
use super::measured::Measured;
use super::request_room::RequestRoom;
use super::serve::{Conversation, Parting};
use super::table::find;

/// What an argument takes of memory beside its bytes, about.
const ARGUMENT_BYTES: u64 = 64;
/// A request of up to this length takes no room of its own: the memory of its connection, which is counted, has it.
const REQUEST_BYTES_UNCOUNTED: u64 = 16 << 10;

impl<K: KeyValue> Conversation<'_, K> {
    /// Takes room for a request of which so many bytes are wanted, twice as much as have arrived at most; gives back what the one
    /// before had.
    pub(super) async fn make_room(&mut self, wanted_bytes: u64) -> Result<(), Failed> {
        let arguments_bytes = self.link.buffers().parser.progress().0 as u64 * ARGUMENT_BYTES;
        let arrived_bytes = self.link.buffers().input.len() as u64 + arguments_bytes;
        if wanted_bytes.max(arrived_bytes) <= REQUEST_BYTES_UNCOUNTED {
            self.room.iter().for_each(|room| room.give_back());
            return Ok(());
        }
        let doubled = REQUEST_BYTES_UNCOUNTED.max(2 * arrived_bytes).min(wanted_bytes.max(arrived_bytes));
        let held_bytes = self.room.as_ref().map_or(0, |room| room.held_bytes());
        if doubled <= held_bytes {
            return Ok(());
        }
        if self.session.transaction.is_open() {
            // Otherwise it would be refused once all of it has arrived.
            let fits =
                self.session.transaction.room.check(wanted_bytes.max(arrived_bytes), &self.link.held.bodies);
            fits?;
        }
        self.link.pauses();
        Ok(self.room_in_turn().hold_request(doubled).await?)
    }

    /// Refuses the request that arrives, of which the command may be known. Nothing can follow it.
    pub(super) fn refuse_arriving(&self, failed: Failed) -> Parting {
        let door = &self.door.door;
        let started_ns = door.core.clock.monotonic_ns();
        let command = {
            let buffers = self.link.buffers();
            buffers.parser.complete_argument(&buffers.input, 0).and_then(find)
        };
        let measured = command
            .map_or_else(|| Measured::unknown(started_ns), |command| Measured::of(command, started_ns));
        measured.end(door, true);
        Parting::Say(failed.into_reply())
    }

    /// That of the request that arrives.
    pub(super) fn room_in_turn(&mut self) -> Rc<RequestRoom> {
        Rc::clone(self.room.get_or_insert_with(|| RequestRoom::new(&self.link.held)))
    }

    /// The same within a request, which has to go on.
    pub(super) async fn receive_more(&mut self) -> Result<(), Parting> {
        self.link.flush().await?;
        self.receive().await?;
        if self.link.buffers().has_ended { Err(Parting::Over) } else { Ok(()) }
    }

    /// Waits until something arrives, the client has sent all, the node is to stop, or the connection to move. What the connection holds
    /// meanwhile it may have to give back: for the request in turn, or for the transaction that waits for its end.
    pub(super) async fn receive(&mut self) -> Result<(), Parting> {
        let before = self.link.buffers().input.len();
        self.link.held.wait_for_request();
        let received = poll_fn(|context| {
            if let Poll::Ready(taken) = self.link.held.poll_displaced(context) {
                return Poll::Ready(Err(self.displaced(taken)));
            }
            match self.link.poll_receive(context) {
                Poll::Pending if self.is_over() || self.is_to_move() => Poll::Ready(Ok(())),
                Poll::Pending => Poll::Pending,
                Poll::Ready(received) => Poll::Ready(received.map_err(Parting::from)),
            }
        });
        received.await?;
        self.link.held.rest((self.link.buffers().input.len() - before) as u64);
        Ok(())
    }

    /// Others needed the memory of what waits for more from the client: of a request for its rest, or of a transaction for its end.
    fn displaced(&self, taken: Taken) -> Parting {
        self.door.door.core.metrics.displaced(taken);
        let buffers = self.link.buffers();
        let is_within_request = buffers.parser.is_within_request() || !buffers.input.is_empty();
        Parting::Say(Reply::error(if is_within_request {
            "the request arrived too slowly, or takes more memory than one client may have, and the node needed that for other requests; \
             send it again, faster or later"
        } else {
            "the transaction waited too long for its EXEC, and the node needed its memory for other requests; nothing of it \
             happened, send it again"
        }))
    }
}
