use std::rc::Rc;

use ladoga_model::TraceContext;

use super::error::PeerError;
use super::peer_link::PeerLink;
use crate::wire::{Answer, Request};

/// A stream, or an upload, that a peer has open for this node. It is closed when it is dropped.
///
/// Its number belongs to the connection that it was opened on. On another connection, the same number may be another stream:
/// once the connection is gone, requests to the stream fail without being sent.
pub(crate) struct RemoteStream {
    link: Rc<PeerLink>,
    number: u32,
    /// Which of the link's connections.
    connection: u64,
    is_open: bool,
}

impl PeerLink {
    /// Opens a stream or an upload. If the peer answered something else, that is returned.
    pub(crate) fn open(
        self: &Rc<Self>,
        request: (&Request, Option<TraceContext>),
    ) -> impl Future<Output = Result<RemoteStream, Result<Answer, PeerError>>> + use<> {
        let link = Rc::clone(self);
        // The caller may be gone: then the stream is closed with the answer.
        self.ask_for(request, move |answer| match answer {
            Ok(Answer::Opened(number)) => {
                let connection = link.connection.get();
                Ok(RemoteStream { link: Rc::clone(&link), number, connection, is_open: true })
            }
            answer => Err(answer),
        })
    }
}

impl RemoteStream {
    /// The peer that has it.
    pub(crate) fn link(&self) -> &PeerLink {
        &self.link
    }

    /// Sends a request about it, by its number.
    pub(crate) fn ask(
        &self,
        request: impl FnOnce(u32) -> Request,
    ) -> impl Future<Output = Result<Answer, PeerError>> + 'static {
        self.ask_as_part(request, None)
    }

    /// The same with one that may be a part of a span.
    pub(crate) fn ask_as_part(
        &self,
        request: impl FnOnce(u32) -> Request,
        of: Option<TraceContext>,
    ) -> impl Future<Output = Result<Answer, PeerError>> + 'static {
        let asked = self.is_there().then(|| self.link.ask_as_part(&request(self.number), of));
        async move {
            match asked {
                Some(asked) => asked.await,
                None => Err(PeerError::Broken("the connection of the stream is gone".into())),
            }
        }
    }

    /// The peer has closed it by itself.
    pub(crate) fn mark_closed(&mut self) {
        self.is_open = false;
    }

    fn is_there(&self) -> bool {
        self.link.is_up() && self.link.connection.get() == self.connection
    }
}

impl Drop for RemoteStream {
    fn drop(&mut self) {
        if self.is_open && self.is_there() {
            self.link.tell(&Request::Close { stream: self.number });
        }
    }
}
