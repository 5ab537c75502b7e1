//! What a connection makes of bytes.

use http::StatusCode;
use ladoga_http1::server::{BadBody, BadRequest, Connection, HeadLimits, Piece, ReplyHead, ReplyLength};

/// A request with its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Vec<u8>,
}

/// Why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The client has sent everything, or wanted nothing more.
    Done,
    /// What came is no request.
    Request(BadRequest),
    /// What came is no body.
    Body(BadBody),
}

pub(crate) const LIMITS: HeadLimits = HeadLimits { line_bytes_max: 16 << 10, fields_bytes_max: 16 << 10 };

/// The requests in pieces that arrive one after the other.
pub(crate) fn read<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<Seen>, End) {
    let (mut connection, mut pieces, mut seen) = (Connection::new(LIMITS, 0), pieces.into_iter(), Vec::new());
    loop {
        let end = match next(&mut connection, &mut pieces) {
            Ok(Some(request)) => {
                seen.push(request);
                let length = ReplyLength::Known(0);
                let head = ReplyHead { status: StatusCode::NOT_FOUND, fields: &[], length, date: "now" };
                connection.begin_answer(&head, false);
                connection.sent(connection.unsent().len());
                if connection.keeps_alive() {
                    connection.rest(0);
                    continue;
                }
                End::Done
            }
            Ok(None) => End::Done,
            Err(end) => end,
        };
        return (seen, end);
    }
}

fn next<'p>(
    connection: &mut Connection,
    pieces: &mut impl Iterator<Item = &'p [u8]>,
) -> Result<Option<Seen>, End> {
    let mut arrive = |connection: &mut Connection| match pieces.next() {
        Some(bytes) => connection.receive(bytes, || 0),
        None => connection.end_input(),
    };
    let request = loop {
        match connection.next_request(0).map_err(End::Request)? {
            Some(request) => break request,
            None if connection.has_ended() => return Ok(None),
            None => arrive(connection),
        }
    };
    let text = |part: &[u8]| String::from_utf8(part.to_vec()).expect("text");
    let (path, query) = (text(request.path()), text(request.query()));
    let seen = |body| Some(Seen { method: request.method.to_string(), path, query, body });
    // One that is cut arrives in pieces: both ways have to see the same.
    if let Some(body) = connection.take_arrived_body() {
        return Ok(seen(body.to_vec()));
    }
    connection.begin_body(0);
    let mut body = Vec::new();
    loop {
        match connection.next_piece(0).map_err(End::Body)? {
            Some(Piece::Bytes(piece)) => body.extend_from_slice(&piece),
            Some(Piece::End) => break,
            None => arrive(connection),
        }
    }
    Ok(seen(body))
}
