//! How replies are written.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use ladoga_resp::{Reply, write_bulk_head};
use ladoga_runtime::{Displaced, Permit, Taken};
use ladoga_service::{KeyValue, StoreError};

use super::failed::Failed;
use super::serve::{Conversation, Parting};
use super::served::{LargeReply, Served};

/// Replies that wait for others to be written with them.
const REPLIES_BYTES_MAX: usize = 64 << 10;
/// A value up to this length is copied behind its head; a longer one goes out from where it is.
const COPIED_BYTES_MAX: usize = 16 << 10;

impl<K: KeyValue> Conversation<'_, K> {
    /// Writes a reply, unless the client wants none.
    pub(super) async fn write(&mut self, served: Served) -> Result<(), Parting> {
        if !self.session.wants_reply() && !matches!(served, Served::Last(_)) {
            return Ok(());
        }
        match served {
            Served::Silent => return Ok(()),
            Served::WatchedKeyChanged => Failed::WatchedKeyChanged
                .into_reply()
                .write(&mut self.link.buffers().output, self.session.dialect),
            Served::Last(reply) => return Err(Parting::Say(reply)),
            Served::Large(large) => return self.write_large(large).await,
            Served::Reply(Reply::Bulk(value)) if value.len() > COPIED_BYTES_MAX => {
                write_bulk_head(&mut self.link.buffers().output, value.len() as u64);
                self.link.write_all(&value).await?;
                self.link.buffers().output.extend_from_slice(b"\r\n");
            }
            Served::Reply(reply) => reply.write(&mut self.link.buffers().output, self.session.dialect),
        }
        if self.link.buffers().unsent().len() > REPLIES_BYTES_MAX {
            self.link.flush().await?;
        }
        Ok(())
    }

    /// Writes a value that is not in memory, as fast as the client takes it, with one piece read ahead.
    async fn write_large(&mut self, large: LargeReply) -> Result<(), Parting> {
        let LargeReply { bytes, first: mut piece, permit } = large;
        write_bulk_head(&mut self.link.buffers().output, bytes);
        while let Some((bytes, rest)) = piece {
            let next = rest.next();
            let written = self.write_unless_displaced(&permit, &bytes).await?;
            if let Err(Displaced) = written {
                self.door.door.core.metrics.displaced(Taken::Stream);
                self.door.door.core.metrics.cut_off();
                return Err(Parting::Abort);
            }
            self.door.door.core.metrics.sent(bytes.len() as u64);
            piece = match next.await {
                Ok(piece) => piece,
                Err(error) => return Err(self.cannot_go_on(&error)),
            };
        }
        self.link.buffers().output.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn cannot_go_on(&self, error: &StoreError) -> Parting {
        tracing::warn!(%error, "a reply was aborted");
        self.door.door.core.metrics.cut_off();
        Parting::Abort
    }

    async fn write_unless_displaced(
        &self,
        permit: &Permit,
        mut bytes: &[u8],
    ) -> io::Result<Result<(), Displaced>> {
        while !bytes.is_empty() {
            let count = poll_fn(|context| {
                if let Poll::Ready(displaced) = permit.poll_displaced(context) {
                    return Poll::Ready(Ok(Err(displaced)));
                }
                match self.link.poll_write_behind(context, bytes) {
                    Poll::Pending => {
                        permit.waits();
                        Poll::Pending
                    }
                    Poll::Ready(Ok(count)) => {
                        permit.moved(count as u64);
                        permit.rests();
                        Poll::Ready(Ok(Ok(count)))
                    }
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                }
            });
            match count.await? {
                Ok(count) => bytes = &bytes[count..],
                Err(displaced) => return Ok(Err(displaced)),
            }
        }
        Ok(Ok(()))
    }
}
