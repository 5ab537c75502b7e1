//! `EXEC` on a node on its own.

use ladoga_resp::{Reply, Request};
use ladoga_service::{Changed, KeyValue};

use super::call::{ATTEMPTS_MAX, StoreCall, contended};
use super::dispatch;
use super::failed::Failed;
use super::in_flight::Begun;
use super::overlay::Watched;
use super::serve::Conversation;
use super::served::Served;
use super::table::Command;
use super::transaction_room::TransactionRoom;

/// Commands that are done before others of the event loop have their turn.
const TURN_COMMANDS_MAX: usize = 64;

/// What queued commands came to; none for those about their connection, which are not done yet.
type Replies = Vec<Option<Served>>;

type Queued = (&'static Command, Request);

impl<K: KeyValue> Conversation<'_, K> {
    /// Serves what is queued in one step.
    pub(super) async fn exec_together(
        &mut self,
        call: StoreCall<K>,
        queued: Vec<Queued>,
        watched: Vec<Watched>,
        room: &TransactionRoom,
    ) -> Served {
        for _ in 0..ATTEMPTS_MAX {
            match attempt(&call, &queued, &watched, room).await {
                Err(failed) => return failed.into_reply().into(),
                Ok(Err(Changed(number))) if number < watched.len() => return Reply::NullArray.into(),
                Ok(Err(_)) => {}
                Ok(Ok(replies)) => {
                    let told = |(reply, (command, request)): (Option<Served>, &Queued)| {
                        reply.unwrap_or_else(|| self.tell_session(command.verb, request))
                    };
                    return Served::Many(replies.into_iter().zip(&queued).map(told).collect());
                }
            }
        }
        contended().into_reply().into()
    }
}

/// Does the commands over what is stored, and then all that they have written at once.
async fn attempt<K: KeyValue>(
    call: &StoreCall<K>,
    queued: &[Queued],
    watched: &[Watched],
    room: &TransactionRoom,
) -> Result<Result<Replies, Changed>, Failed> {
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
        let held = part.hold(served.held_bytes());
        if let Some(failure) = overlay.borrow_mut().take_failure() {
            return Err(failure);
        }
        held?;
        replies.push(Some(served));
    }
    drop(part);
    Ok(call.commit(&overlay).await?.map(|()| replies))
}
