//! How replies are written.

use std::future::poll_fn;

use bytes::Bytes;
use ladoga_resp::{Reply, Request, write_array_head, write_bulk_head};
use ladoga_runtime::Taken;
use ladoga_service::{KeyValue, Piece, StoreError};

use super::call::StoreCall;
use super::expected::READS_BYTES_MAX;
use super::failed::Failed;
use super::serve::{Conversation, Parting};
use super::served::{LargeReply, Served};
use super::strings;
use crate::connection::next_piece;

/// Replies that wait for others to be written with them.
const REPLIES_BYTES_MAX: usize = 64 << 10;
/// A value up to this length is copied behind its head; a longer one goes out from where it is.
const COPIED_BYTES_MAX: usize = 16 << 10;

impl<K: KeyValue> Conversation<'_, K> {
    /// Writes a reply, unless the client wants none.
    pub(super) async fn write(&mut self, served: Served) -> Result<(), Parting> {
        let is_written = matches!(served, Served::Written);
        if is_written || (!self.session.wants_reply() && !matches!(served, Served::Last(_))) {
            return Ok(());
        }
        let link = self.link;
        let _writing = link.unread.hold(served.held_bytes());
        self.write_wanted(served).await
    }

    /// Writes a reply, and all that are in it.
    pub(super) async fn write_wanted(&mut self, served: Served) -> Result<(), Parting> {
        if !matches!(served, Served::Many(_)) {
            return self.write_one(served).await;
        }
        let mut left = vec![served];
        while let Some(served) = left.pop() {
            match served {
                Served::Many(all) => {
                    write_array_head(&mut self.link.buffers().output, all.len());
                    left.extend(all.into_iter().rev());
                }
                one => self.write_one(one).await?,
            }
        }
        Ok(())
    }

    async fn write_one(&mut self, served: Served) -> Result<(), Parting> {
        match served {
            Served::Silent | Served::Written => return Ok(()),
            Served::Many(_) => unreachable!("they are written one by one"),
            Served::WatchedKeyChanged => self.write_reply(&Failed::WatchedKeyChanged.into_reply()),
            Served::Last(reply) => return Err(Parting::Say(reply)),
            Served::Large(large) => self.write_large(large).await?,
            Served::Held(Reply::Bulk(value), _room) => self.write_bulk(&value).await?,
            Served::Held(reply, _room) => {
                let mut bytes = Vec::new();
                reply.write(&mut bytes, self.session.dialect);
                drop(reply);
                self.door.door.core.metrics.sent(bytes.len() as u64);
                self.write_all(&bytes).await?;
            }
            Served::Reply(Reply::Bulk(value)) if value.len() > COPIED_BYTES_MAX => {
                self.write_bulk(&value).await?;
            }
            Served::Reply(reply) => {
                if let Reply::Bulk(value) = &reply {
                    self.door.door.core.metrics.sent(value.len() as u64);
                }
                self.write_reply(&reply);
            }
        }
        if self.link.buffers().unsent().len() > REPLIES_BYTES_MAX {
            self.write_all(&[]).await?;
        }
        Ok(())
    }

    fn write_reply(&self, reply: &Reply) {
        reply.write(&mut self.link.buffers().output, self.session.dialect);
    }

    /// Writes a value from where it is.
    async fn write_bulk(&mut self, value: &Bytes) -> Result<(), Parting> {
        self.door.door.core.metrics.sent(value.len() as u64);
        write_bulk_head(&mut self.link.buffers().output, value.len() as u64);
        self.write_all(value).await?;
        self.link.buffers().output.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Writes what is to be sent, and then all the bytes. Requests behind them go on, and what their replies hold counts while the client
    /// does not take these.
    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Parting> {
        let Conversation { link, in_flight, .. } = self;
        let mut left = bytes;
        poll_fn(|context| {
            let written = link.poll_write_all(context, &mut left);
            if written.is_pending() && !in_flight.is_empty() {
                link.unread.hold_beside(in_flight.poll_behind(context));
            }
            written
        })
        .await?;
        Ok(())
    }

    /// Writes a value that is not in memory, as fast as the client takes it, with one piece read ahead.
    async fn write_large(&mut self, large: LargeReply) -> Result<(), Parting> {
        let LargeReply { mut value, from, bytes } = large;
        // Nobody waits for these while others are waited for.
        self.link.flush().await?;
        let permit = match self.link.held.enter(&self.door.door.streams, 1, Taken::Stream) {
            Ok(permit) => permit,
            Err(full) => {
                self.write_reply(&Failed::from(full).into_reply());
                return Ok(());
            }
        };
        permit.granted().await;
        let mut passed = value.pieces.skip(from);
        let mut piece = match value.pieces.next().await {
            Ok(piece) => piece,
            Err(error) => {
                self.write_reply(&Failed::from(error).into_reply());
                return Ok(());
            }
        };
        write_bulk_head(&mut self.link.buffers().output, bytes);
        let mut left = bytes;
        while left > 0 {
            let Some((mut bytes, rest)) = piece else { return Err(self.cannot_go_on(&ends_early())) };
            let skipped = passed.min(bytes.len() as u64);
            passed -= skipped;
            bytes = bytes.split_off(skipped as usize);
            bytes.truncate(left.min(bytes.len() as u64) as usize);
            left -= bytes.len() as u64;
            let next = (left > 0).then(|| next_piece(rest, &self.door.door.core.limits));
            self.write_all(&bytes).await?;
            self.door.door.core.metrics.sent(bytes.len() as u64);
            drop(bytes);
            piece = match next {
                Some(next) => self.piece(next.await)?,
                None => None,
            };
        }
        self.link.buffers().output.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn piece(&self, piece: Result<Option<Piece>, StoreError>) -> Result<Option<Piece>, Parting> {
        piece.map_err(|error| self.cannot_go_on(&error))
    }

    fn cannot_go_on(&self, error: &StoreError) -> Parting {
        tracing::warn!(%error, "a reply was aborted");
        self.door.door.core.metrics.cut_off();
        Parting::Abort
    }

    /// Serves `MGET` of more keys than are read at a time: some, which are written before the next are read. So it holds no more than
    /// one value has, or a few short ones: if they are longer than was expected, those behind are dropped, and read again in their turn.
    pub(super) async fn write_values(
        &mut self,
        call: &StoreCall<K>,
        request: &Request,
    ) -> Result<Served, Parting> {
        if !self.session.wants_reply() {
            return Ok(Served::Written);
        }
        let link = self.link;
        write_array_head(&mut link.buffers().output, request.len() - 1);
        let mut first = 1;
        while first < request.len() {
            let numbers = first..request.len().min(first + link.held.expected.reads_max());
            let mut values = strings::values(call, request, numbers).await;
            let (fitting, held_bytes) = fitting(&values);
            values.truncate(fitting);
            let _writing = link.unread.hold(held_bytes);
            first += fitting;
            for value in values {
                self.write_wanted(value).await?;
            }
            tokio::task::yield_now().await;
        }
        Ok(Served::Written)
    }
}

/// How many of these may be held at the same time, and how much they hold. The first one always may.
fn fitting(values: &[Served]) -> (usize, u64) {
    let mut held_bytes = 0;
    for (number, value) in values.iter().enumerate() {
        let bytes = value.held_bytes();
        if number > 0 && held_bytes + bytes > READS_BYTES_MAX {
            return (number, held_bytes);
        }
        held_bytes += bytes;
    }
    (values.len(), held_bytes)
}

fn ends_early() -> StoreError {
    StoreError::Unreadable { reason: "a value ends before its length".to_owned() }
}
