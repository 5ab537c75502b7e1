use std::io;

use ladoga_http1::server::{BadRequest, Request};

use super::socket::Departure;

/// What comes next on a connection.
pub(crate) enum Upcoming {
    /// A request.
    Request(Request),
    /// Nothing more: the client has sent all, or the node is to stop.
    End,
    /// What another event loop is to go on with.
    Move(Departure),
}

/// Why there is no next request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRequest {
    /// What arrived is none.
    #[error(transparent)]
    Bad(#[from] BadRequest),
    /// The client is gone.
    #[error(transparent)]
    Socket(#[from] io::Error),
}
