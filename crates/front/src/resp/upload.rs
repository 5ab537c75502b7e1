use bytes::Bytes;
use ladoga_resp::{Piece, Reply, Request, Step};
use ladoga_runtime::AccessKind;
use ladoga_service::{Error, KeyValue, Later, Precondition, StoreError, Upload};

use super::arguments::{Condition, SetOptions, Unit};
use super::audited::end_with;
use super::call::{StoreCall, check_write};
use super::dispatch;
use super::failed::Failed;
use super::found::{NewLifetime, reply_to};
use super::measured::Measured;
use super::serve::{Conversation, Parting};
use super::served::{CommandResult, Served};
use super::table::{Command, Verb, find};

type Finished<K> = <<K as KeyValue>::Upload as Upload>::Finished;

impl<K: KeyValue> Conversation<'_, K> {
    /// A large argument is next: a value that is stored as it is goes to where such values are, everything else is awaited.
    pub(super) async fn take_large(&mut self, bytes: u64) -> Result<(), Parting> {
        self.link.serves();
        let Some((command, key)) = self.uploaded_value() else {
            self.link.buffers().parser.hold();
            return Ok(());
        };
        let core = &self.door.door.core;
        let mut measured = Measured::of_upload(core, command, &key, core.clock.monotonic_ns());
        self.answer_all().await?;
        match self.upload(command, key, bytes, &mut measured).await {
            Ok(served) => self.write_measured(served, measured).await,
            Err(parting) => {
                if let Parting::Say(_) = &parting {
                    measured.end(&self.door.door, true);
                }
                Err(parting)
            }
        }
    }

    /// Stores a value as it arrives. If it is refused, nothing can follow it.
    async fn upload(
        &mut self,
        command: &'static Command,
        key: Bytes,
        bytes: u64,
        measured: &mut Measured,
    ) -> Result<Served, Parting> {
        self.authorize_large(command, &key).map_err(Parting::Say)?;
        self.door.door.core.count_access(AccessKind::Write, &key);
        let room = self.room_in_turn();
        let mut call = self.call(room).await?.map_err(refused)?;
        call.trace = measured.trace(call.replicas);
        check_write(&key, bytes).map_err(refused)?;
        call.admit(&call.context(), &key, bytes).await.map_err(|error| refused(error.into()))?;
        let permit = call.upload_permit().await.map_err(|full| refused(full.into()))?;
        let upload =
            call.service.upload(&call.context(), &key).await.map_err(|error| refused(error.into()))?;
        // From here on it is read: what was refused before is not paid for.
        self.charge(bytes);
        let finished = self.receive_value(upload, measured).await?;
        let request = self.receive_rest(measured).await?;
        self.link.serves();
        drop(permit);
        // It goes with the request.
        self.room = None;
        let checked = dispatch::command(&request)
            .and_then(|command| self.authorize_options(command, &request).map(|()| command));
        let audited = checked.as_ref().ok().and_then(|command| self.audited(command, &request));
        let served = Served::of(match checked {
            Ok(command) => put_uploaded(call, command.verb, request, finished).await,
            Err(reply) => Err(Failed::Told(reply)),
        });
        end_with(audited, &served);
        Ok(served)
    }

    /// What stores the next argument as it is, and under which key, if that is so.
    fn uploaded_value(&self) -> Option<(&'static Command, Bytes)> {
        let buffers = self.link.buffers();
        let command = find(buffers.parser.complete_argument(&buffers.input, 0)?)?;
        let position = match command.verb {
            Verb::Set | Verb::SetNx => 2,
            Verb::SetEx | Verb::PSetEx => 3,
            _ => return None,
        };
        let (complete, _) = buffers.parser.progress();
        let key = buffers.parser.complete_argument(&buffers.input, 1)?;
        let is_it = complete == position && !self.session.transaction.is_open();
        is_it.then(|| (command, Bytes::copy_from_slice(key)))
    }

    /// Writes the value as it arrives: while one piece is written, the next one is read, and no third.
    async fn receive_value(
        &mut self,
        upload: K::Upload,
        measured: &mut Measured,
    ) -> Result<Finished<K>, Parting> {
        {
            let buffers = &mut *self.link.buffers();
            buffers.parser.stream(&mut buffers.input);
        }
        let failed = |error: StoreError| refused(error.into());
        let mut writing: Later<Result<K::Upload, StoreError>> = Box::pin(std::future::ready(Ok(upload)));
        loop {
            let piece = {
                let buffers = &mut *self.link.buffers();
                buffers.parser.next_piece(&mut buffers.input)
            };
            match piece {
                Piece::Bytes(piece) => {
                    // The disk's time is not the client's.
                    self.link.pauses();
                    let upload = writing.await.map_err(failed)?;
                    self.door.door.core.metrics.received(piece.len() as u64);
                    writing = upload.write(piece);
                }
                Piece::Incomplete => self.receive_more_of(measured).await?,
                Piece::End => break,
            }
        }
        writing.await.map_err(failed)?.finish().await.map_err(failed)
    }

    /// The request, once what stands behind the value has arrived.
    async fn receive_rest(&mut self, measured: &mut Measured) -> Result<Request, Parting> {
        loop {
            let step = {
                let buffers = &mut *self.link.buffers();
                buffers.parser.next(&mut buffers.input)
            };
            match step {
                Ok(Step::Request(request)) => return Ok(request),
                // What the value before is compared with.
                Ok(Step::Large { .. }) => self.link.buffers().parser.hold(),
                Ok(Step::Incomplete { bytes }) => {
                    self.make_room(bytes as u64).await.map_err(refused)?;
                    self.receive_more_of(measured).await?;
                }
                Err(error) => return Err(Parting::Say(Reply::error(error))),
            }
        }
    }

    /// Waits for more of a command, which was not whole before.
    async fn receive_more_of(&mut self, measured: &mut Measured) -> Result<(), Parting> {
        self.receive_more().await?;
        measured.note_arrival(self.door.door.core.clock.monotonic_ns());
        Ok(())
    }
}

/// What is refused before the value is read: it is not read at all, so nothing can follow it.
fn refused(failed: Failed) -> Parting {
    Parting::Say(failed.into_reply())
}

/// Stores a value that was uploaded, as the command says.
async fn put_uploaded<K: KeyValue>(
    call: StoreCall<K>,
    verb: Verb,
    request: Request,
    value: Finished<K>,
) -> CommandResult {
    let key = request.bytes(1);
    match verb {
        Verb::SetNx => {
            let put = call.put_uploaded(key, value, Precondition::IfNoneMatchAny, None).await;
            unless_refused(put, (Served::flag(true), Served::flag(false)))
        }
        Verb::SetEx | Verb::PSetEx => {
            let (unit, command) =
                if verb == Verb::SetEx { (Unit::SECONDS, "setex") } else { (Unit::MILLISECONDS, "psetex") };
            let ttl = unit.ttl(&request[2], command)?;
            call.put_uploaded(key, value, Precondition::None, Some(ttl)).await?;
            Ok(Served::OK)
        }
        _ => set_uploaded(call, request, value).await,
    }
}

async fn set_uploaded<K: KeyValue>(
    call: StoreCall<K>,
    request: Request,
    value: Finished<K>,
) -> CommandResult {
    let SetOptions { condition, gets, life } = SetOptions::parse(&request, 3)?;
    let key = request.bytes(1);
    let precondition = match condition {
        Condition::None if !gets && life != NewLifetime::Kept => Precondition::None,
        Condition::Absent if !gets => Precondition::IfNoneMatchAny,
        Condition::Present if !gets && life != NewLifetime::Kept => Precondition::IfMatchAny,
        _ => return set_uploaded_by_value(call, &request, (condition, gets, life), value).await,
    };
    let ttl = if let NewLifetime::For(ttl) = life { Some(ttl) } else { None };
    let put = call.put_uploaded(key, value, precondition, ttl).await;
    unless_refused(put, (Served::OK, Served::NULL))
}

/// The same where the value before has to be looked at. The new one is there once: if another one comes in between, the client has
/// to send it again.
async fn set_uploaded_by_value<K: KeyValue>(
    call: StoreCall<K>,
    request: &Request,
    (condition, gets, life): (Condition, bool, NewLifetime),
    value: Finished<K>,
) -> CommandResult {
    let key = request.bytes(1);
    let found = call.find(&key, gets || condition.needs_value()).await?;
    let is_true = condition.is_true_of(found.as_ref().map(|found| &found.value[..]), request);
    if is_true {
        let ttl = life.ttl(found.as_ref().map_or(0, |found| found.expires_at_ms));
        let precondition = match &found {
            Some(found) => Precondition::IfMatch([found.version].into()),
            None => Precondition::IfNoneMatchAny,
        };
        match call.put_uploaded(key, value, precondition, ttl).await {
            Err(Failed::Service(Error::PreconditionFailed { .. })) => {
                let words = "the key was written while the value arrived; nothing was written";
                return Err(Error::Contended(words).into());
            }
            put => put?,
        }
    }
    Ok(match (gets, is_true) {
        (true, _) => reply_to(found.as_ref()),
        (false, true) => Served::OK,
        (false, false) => Served::NULL,
    })
}

fn unless_refused(put: Result<(), Failed>, (done, not_done): (Served, Served)) -> CommandResult {
    match put {
        Ok(()) => Ok(done),
        Err(Failed::Service(Error::PreconditionFailed { .. })) => Ok(not_done),
        Err(failed) => Err(failed),
    }
}
