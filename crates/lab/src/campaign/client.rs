//! Single requests, with a deadline, that can be given up.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cli::Target;
use crate::clock::Clock;
use crate::http::ResponseParser;
use crate::load::{CONNECT_TIMEOUT, connect, reachable};
use ladoga_tls::client::Stream;

/// How often a request that waits looks whether it is given up.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const RECEIVE_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// `GET` of a path of the target's server.
pub(super) fn get(
    target: &Target,
    path: &str,
    deadline: Duration,
    give_up: &AtomicBool,
) -> io::Result<Answer> {
    let resolved = target.resolve().map_err(io::Error::other)?;
    let tls = target.tls().map_err(io::Error::other)?;
    let address = reachable(&resolved, tls.as_ref())
        .map_err(|error| error.unwrap_or_else(|| io::ErrorKind::NotFound.into()))?;
    let (socket, mut stream) = connect(&address, CONNECT_TIMEOUT, tls.as_ref())?;
    socket.set_read_timeout(Some(LOOK_EVERY))?;
    let host = target.host_header();
    let fields: String =
        target.fields(&[]).iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    receive(&mut *stream, deadline, give_up)
}

fn receive(stream: &mut dyn Stream, deadline: Duration, give_up: &AtomicBool) -> io::Result<Answer> {
    let clock = Clock::start();
    let (mut parser, mut buffer) = (ResponseParser::new(true), vec![0; RECEIVE_BYTES]);
    let malformed = || io::Error::other("the answer is not HTTP");
    let answer = loop {
        if give_up.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if u128::from(clock.now_ns()) > deadline.as_nanos() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut buffer) {
            Ok(0) => break parser.end_of_input().ok_or(io::ErrorKind::UnexpectedEof)?,
            Ok(length) => {
                let (_, answer) = parser.advance(&buffer[..length], false).map_err(|_| malformed())?;
                if let Some(answer) = answer {
                    break answer;
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    };
    let body = parser.captured().map(|captured| captured.body.clone()).unwrap_or_default();
    Ok(Answer { status: answer.status, body })
}
