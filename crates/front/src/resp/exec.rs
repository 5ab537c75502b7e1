//! `EXEC` on a node on its own.

use ladoga_resp::{Reply, Request, write_array_head};
use ladoga_service::{Changed, KeyValue};

use super::call::{ATTEMPTS_MAX, StoreCall, contended};
use super::dispatch;
use super::failed::Failed;
use super::in_flight::Begun;
use super::overlay::Watched;
use super::serve::{Conversation, Parting};
use super::served::Served;
use super::table::Command;
use super::transaction_room::TransactionRoom;

/// Commands that are done before others of the event loop have their turn.
const TURN_COMMANDS_MAX: usize = 64;

/// What queued commands came to; none for those about their connection, which are not done yet.
type Replies = Vec<Option<Served>>;

type Queued = (&'static Command, Request);

/// A queued command, once what it was to write is written.
enum Done {
    Served(Served),
    /// It is about its connection, which is told when it has its turn to be replied to.
    Untold(Queued),
}

impl<K: KeyValue> Conversation<'_, K> {
    /// Serves what is queued in one step.
    pub(super) async fn exec_together(
        &mut self,
        call: StoreCall<K>,
        queued: Vec<Queued>,
        watched: Vec<Watched>,
        room: TransactionRoom,
    ) -> Result<Served, Parting> {
        for _ in 0..ATTEMPTS_MAX {
            match attempt(&call, &queued, &watched, &room).await {
                Err(failed) => return Ok(failed.into_reply().into()),
                Ok(Err(Changed(number))) if number < watched.len() => return Ok(Reply::NullArray.into()),
                Ok(Err(_)) => {}
                Ok(Ok((replies, of_replies))) => {
                    let done = |(reply, queued): (Option<Served>, Queued)| {
                        reply.map_or_else(|| Done::Untold(queued), Done::Served)
                    };
                    let done = replies.into_iter().zip(queued).map(done).collect();
                    // From here on, what was read is only what replies have of it.
                    drop(call);
                    let written = self.write_done(done).await;
                    // They may be parts of the commands.
                    drop((room, of_replies));
                    return written;
                }
            }
        }
        Ok(contended().into_reply().into())
    }

    /// Replies to commands that are done. The connection is told of those about it behind the reply to the one before: a `HELLO` changes
    /// how the replies behind it are written.
    async fn write_done(&mut self, done: Vec<Done>) -> Result<Served, Parting> {
        let wants_reply = self.session.wants_reply();
        if wants_reply {
            write_array_head(&mut self.link.buffers().output, done.len());
        }
        for done in done {
            let served = match done {
                Done::Served(served) => served,
                Done::Untold((command, request)) => self.tell_session(command.verb, &request),
            };
            if wants_reply {
                self.write_wanted(served).await?;
            }
        }
        Ok(Served::Written)
    }
}

/// Does the commands over what is stored, and then all that they have written at once. Answers what they are replied, and what that holds.
async fn attempt<K: KeyValue>(
    call: &StoreCall<K>,
    queued: &[Queued],
    watched: &[Watched],
    room: &TransactionRoom,
) -> Result<Result<(Replies, Option<TransactionRoom>), Changed>, Failed> {
    let (part, overlay) = call.overlaid(watched.to_vec(), Some(room));
    let mut replies = Vec::with_capacity(queued.len());
    for (number, (command, request)) in queued.iter().enumerate() {
        if number % TURN_COMMANDS_MAX == TURN_COMMANDS_MAX - 1 {
            tokio::task::yield_now().await;
        }
        if command.is_of_session {
            replies.push(None);
            continue;
        }
        overlay.borrow_mut().begin(request);
        let served = match dispatch::begin(&part, command, request.clone()) {
            Begun::Served(served) => served,
            Begun::Serving(serving) => serving.await,
        };
        // Values of many keys are counted as they are found.
        let is_counted = matches!(served, Served::Many(_));
        let held = if is_counted { Ok(()) } else { part.hold(served.held_bytes()) };
        if let Some(failure) = overlay.borrow_mut().take_failure() {
            return Err(failure);
        }
        held?;
        replies.push(Some(served));
    }
    drop(part);
    let of_replies = overlay.borrow_mut().take_room();
    Ok(call.commit(&overlay).await?.map(|()| (replies, of_replies)))
}
