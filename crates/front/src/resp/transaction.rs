use std::rc::Rc;

use ladoga_model::check_key;
use ladoga_resp::{Reply, Request, write_array_head};
use ladoga_service::{KeyValue, Seen};

use super::call::StoreCall;
use super::dispatch;
use super::failed::Failed;
use super::in_flight::Begun;
use super::overlay::{Watched, seen_of};
use super::queued::Transaction;
use super::request_room::RequestRoom;
use super::serve::{Conversation, Parting};
use super::served::Served;
use super::table::{Command, Verb};
use super::watching::Watching;
use crate::auth::Caller;

/// Commands that are served before other connections have their turn.
const TURN_COMMANDS_MAX: usize = 64;
/// Keys that one connection may watch.
const WATCHED_KEYS_MAX: usize = 1_024;

impl<K: KeyValue> Conversation<'_, K> {
    /// Serves `MULTI` and what belongs to it.
    pub(super) async fn serve_transaction(
        &mut self,
        verb: Verb,
        request: &Request,
    ) -> Result<Served, Parting> {
        let generation = self.session.caller.as_ref().map(Caller::generation);
        let transaction = &mut self.session.transaction;
        match verb {
            Verb::Multi => Ok(transaction.begin(generation).into()),
            Verb::Discard => Ok(transaction.discard().into()),
            Verb::Unwatch => Ok(transaction.unwatch().into()),
            Verb::Watch => self.watch(request).await,
            _ => self.exec().await,
        }
    }

    async fn watch(&mut self, request: &Request) -> Result<Served, Parting> {
        if self.session.transaction.queued.is_some() {
            return Ok(Reply::error("WATCH inside MULTI is not allowed").into());
        }
        let call = match self.call(RequestRoom::new(&self.link.held)).await? {
            Ok(call) => call,
            Err(failed) => return Ok(failed.into_reply().into()),
        };
        for number in 1..request.len() {
            if number % TURN_COMMANDS_MAX == 0 {
                tokio::task::yield_now().await;
            }
            let key = request.bytes(number);
            if check_key(&key).is_err() {
                // There is never anything under it.
                continue;
            }
            if self.session.transaction.watched.iter().any(|(known, _)| *known == key) {
                continue;
            }
            if self.session.transaction.watched.len() == WATCHED_KEYS_MAX {
                return Ok(
                    Reply::error(format_args!("at most {WATCHED_KEYS_MAX} keys can be watched")).into()
                );
            }
            match seen(&call, &key).await {
                Ok(seen) => {
                    if let Err(full) = self.session.transaction.watch(&key, seen, &self.link.held) {
                        return Ok(full.into_reply().into());
                    }
                }
                Err(failed) => return Ok(failed.into_reply().into()),
            }
        }
        Ok(Served::OK)
    }

    /// Serves what is queued: in one step on a node on its own, else one after the other.
    async fn exec(&mut self) -> Result<Served, Parting> {
        if !self.session.transaction.is_open() {
            // What is watched stays so.
            return Ok(Reply::error("EXEC without MULTI").into());
        }
        let Transaction { queued, generation, is_spoiled, watched, room, .. } =
            std::mem::take(&mut self.session.transaction);
        let queued = queued.unwrap_or_default();
        if is_spoiled {
            let words = "EXECABORT Transaction discarded because of previous errors.";
            return Ok(Reply::Error(words.to_owned()).into());
        }
        let call = match self.call(RequestRoom::new(&self.link.held)).await? {
            Ok(call) => call,
            Err(failed) => return Ok(failed.into_reply().into()),
        };
        for (key, known) in &watched {
            match seen(&call, key).await {
                Ok(found) if found.is_as(*known) => {}
                Ok(_) => return Ok(Reply::NullArray.into()),
                Err(failed) => return Ok(failed.into_reply().into()),
            }
        }
        // Each was allowed when it was queued.
        if let Err(refused) = self.authorize_queued(&queued, generation) {
            return Ok(refused.into());
        }
        // Whether they take effect, the reply of `EXEC` says, and it may say so of each by itself.
        for (command, request) in &queued {
            self.audited(command, request).into_iter().for_each(|audited| audited.end("exec"));
        }
        if call.may_transact() {
            return self.exec_together(call, queued, watched, room).await;
        }
        // What its commands need beside what is queued is counted with it.
        let call = StoreCall { room: RequestRoom::of_transaction(&self.link.held, room), ..call };
        self.exec_in_order(call, queued, watched).await
    }

    /// Others may come in between; a key that is watched is written only if it is as it was.
    async fn exec_in_order(
        &mut self,
        call: StoreCall<K>,
        queued: Vec<(&'static Command, Request)>,
        watched: Vec<Watched>,
    ) -> Result<Served, Parting> {
        let watching = Rc::new(Watching::new(watched));
        let mut call = if watching.is_empty() { call } else { call.watching(Rc::clone(&watching)) };
        let wants_reply = self.session.wants_reply();
        self.link.flush().await?;
        let sent_before = self.link.buffers().all_sent_bytes;
        let tells_session = queued.iter().any(|(command, _)| command.is_of_session);
        let mut told_before = tells_session.then(|| self.session.told());
        if wants_reply {
            write_array_head(&mut self.link.buffers().output, queued.len());
        }
        for (number, (command, request)) in queued.into_iter().enumerate() {
            if number % TURN_COMMANDS_MAX == TURN_COMMANDS_MAX - 1 {
                tokio::task::yield_now().await;
            }
            let served = if command.is_of_session {
                let served = self.tell_session(command.verb, &request);
                // The commands behind it may ask for other copies.
                call.replicas = self.session.replicas;
                served
            } else {
                match dispatch::begin(&call, command, request) {
                    Begun::Served(served) => served,
                    Begun::Serving(serving) => serving.await,
                }
            };
            // How much waits to be sent does not tell: long replies go out while there are more.
            let is_unsent = self.link.buffers().all_sent_bytes == sent_before;
            if matches!(served, Served::WatchedKeyChanged) && !watching.has_written() && is_unsent {
                // Nothing was written, and nothing was said: as if the key had changed before.
                if let Some(told) = told_before.take() {
                    self.session.go_back_to(told);
                }
                let mut buffers = self.link.buffers();
                buffers.output.clear();
                if wants_reply {
                    Reply::NullArray.write(&mut buffers.output, self.session.dialect);
                }
                return Ok(Served::Written);
            }
            if wants_reply {
                let link = self.link;
                let _writing = link.unread.hold(served.held_bytes());
                self.write_wanted(served).await?;
            }
        }
        Ok(Served::Written)
    }
}

/// What a key is like.
async fn seen<K: KeyValue>(call: &StoreCall<K>, key: &[u8]) -> Result<Seen, Failed> {
    Ok(seen_of(call.cell(key).await?.as_ref()))
}
