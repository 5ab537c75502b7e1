use std::io::{BufReader, Write};
use std::thread;

use ladoga_tls::client::Duplex;

use super::dial::connect;
use super::{ClientError, Response, Url};

/// What ends a body in chunks.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Sends a `POST` whose body is what `next` gives, up to `None`, while `read` reads the answer. If the answer ends before the body, the
/// rest is not sent.
pub(crate) fn exchange<T>(
    url: &Url,
    target: &str,
    next: impl FnMut() -> Option<Vec<u8>> + Send,
    read: impl FnOnce(Response) -> T,
) -> Result<T, ClientError> {
    let stream = connect(url, None)?;
    let (sender, closer) = (stream.clone(), stream.clone());
    let (host, authorization) = (url.authority(), url.authorization());
    let head = format!(
        "POST {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{authorization}transfer-encoding: chunked\r\n\r\n"
    );
    thread::scope(|scope| {
        // What is wrong with sending shows in the answer, or in its absence.
        let sending = scope.spawn(move || send(sender, &head, next));
        let outcome = Response::read_head(url, Box::new(BufReader::new(stream)), false).map(read);
        if !sending.is_finished() {
            // Nobody reads answers any more, so nothing more may be sent.
            closer.shut_down();
        }
        outcome
    })
}

fn send(mut stream: Duplex, head: &str, mut next: impl FnMut() -> Option<Vec<u8>>) -> std::io::Result<()> {
    stream.write_all(head.as_bytes())?;
    while let Some(bytes) = next() {
        if bytes.is_empty() {
            continue;
        }
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(&bytes);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk)?;
    }
    stream.write_all(LAST_CHUNK)
}
