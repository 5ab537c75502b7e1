use std::io::{BufReader, Error, ErrorKind, Write};
use std::time::Duration;

use ladoga_http1::answer::{Answers, Asked};
use ladoga_tls::client::Duplex;

use super::dial::connect;
use super::{ClientError, Url};

/// A node that says nothing for so long is gone; making a checkpoint may take a while.
const PATIENCE: Duration = Duration::from_mins(5);
/// No answer that is read as a whole is longer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A connection that carries one request after the other.
pub(crate) struct KeptConnection {
    url: Url,
    answers: Option<Answers<BufReader<Duplex>>>,
}

impl KeptConnection {
    /// One that is made with the first request.
    pub(crate) const fn new(url: Url) -> KeptConnection {
        KeptConnection { url, answers: None }
    }

    /// Sends a request without a body that may be sent twice, and reads the status and the body of the answer. A connection that the
    /// node has closed meanwhile is made again, once.
    pub(crate) fn ask(&mut self, method: &str, target: &str) -> Result<(u16, Vec<u8>), ClientError> {
        let is_used = self.answers.is_some();
        match self.ask_once(method, target) {
            Err(ClientError::Broken { .. }) if is_used => self.ask_once(method, target),
            answered => answered,
        }
    }

    fn ask_once(&mut self, method: &str, target: &str) -> Result<(u16, Vec<u8>), ClientError> {
        let mut answers = match self.answers.take() {
            Some(answers) => answers,
            None => self.connect()?,
        };
        let (host, authorization) = (self.url.authority(), self.url.authorization());
        let head = format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\n{authorization}\r\n");
        let answered = exchange(&mut answers, &head).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => {
                ClientError::NotHttp { url: self.url.clone(), reason: error.to_string() }
            }
            _ => ClientError::Broken { url: self.url.clone(), error },
        });
        let (status, body, is_kept) = answered?;
        self.answers = is_kept.then_some(answers);
        Ok((status, body))
    }

    fn connect(&self) -> Result<Answers<BufReader<Duplex>>, ClientError> {
        let stream = connect(&self.url, Some(PATIENCE))?;
        Ok(Answers::new(BufReader::with_capacity(64 << 10, stream)))
    }
}

fn exchange(answers: &mut Answers<BufReader<Duplex>>, head: &str) -> Result<(u16, Vec<u8>, bool), Error> {
    answers.stream().get_mut().write_all(head.as_bytes())?;
    let head = answers.head(Asked::Ordinary)?;
    let (status, is_kept) = (head.status, head.keep_alive);
    let mut body = Vec::new();
    while let Some(piece) = answers.piece()? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            let what = format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::InvalidData, what));
        }
        body.extend_from_slice(piece);
    }
    Ok((status, body, is_kept))
}
