use std::io::{BufReader, Error, ErrorKind, Write};
use std::time::Duration;

use ladoga_http1::answer::{Answers, Asked};
use ladoga_tls::client::Duplex;

use super::dial::connect;
use super::refusal::refusal;
use super::throttled;
use super::{ClientError, Url, unreadable};

/// A node that says nothing for so long is gone; making a checkpoint may take a while.
const PATIENCE: Duration = Duration::from_mins(5);
/// A node that says nothing for so long when all that is left is to tell it so, or all that is asked is whether it lives, is not waited
/// for.
const HURRY: Duration = Duration::from_secs(5);
/// No answer that is read as a whole is longer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A connection that carries one request after the other.
pub(crate) struct KeptConnection {
    url: Url,
    patience: Duration,
    answers: Option<Answers<BufReader<Duplex>>>,
}

/// What a node answers, as a whole.
pub(crate) struct Answered {
    pub(crate) status: u16,
    content_type: Option<String>,
    pub(crate) body: Vec<u8>,
    is_kept: bool,
    pause: Option<Duration>,
}

impl Answered {
    /// What is printed of a refusal.
    pub(crate) fn refusal(&self, url: &Url) -> String {
        refusal(url, self.status, self.content_type.as_deref(), &self.body)
    }
}

impl KeptConnection {
    /// One that is made with the first request.
    pub(crate) const fn new(url: Url) -> KeptConnection {
        KeptConnection::with_patience(url, PATIENCE)
    }

    const fn with_patience(url: Url, patience: Duration) -> KeptConnection {
        KeptConnection { url, patience, answers: None }
    }

    /// Sends a request without a body that may be sent twice, and reads the answer. A connection that the
    /// node has closed meanwhile is made again, once. If the token has used its rate, the request is sent again when
    /// the node says, if that is soon.
    pub(crate) fn ask(&mut self, method: &str, target: &str) -> Result<Answered, ClientError> {
        throttled::once_admitted(|| self.ask_again(method, target), |answered| answered.pause)
    }

    /// Sends a last request over a connection of its own, and does not wait for long: the node may have stopped meanwhile.
    pub(crate) fn tell(&self, method: &str, target: &str) {
        let mut connection = KeptConnection::with_patience(self.url.clone(), HURRY);
        // Whoever tells something in passing has nobody to say to that it did not arrive.
        let _ = connection.ask_once(method, target);
    }

    /// Whether a node answers soon, whatever it says.
    pub(crate) fn is_answered(url: &Url) -> bool {
        KeptConnection::with_patience(url.clone(), HURRY).ask_once("GET", "/livez").is_ok()
    }

    fn ask_again(&mut self, method: &str, target: &str) -> Result<Answered, ClientError> {
        let is_used = self.answers.is_some();
        match self.ask_once(method, target) {
            Err(ClientError::Broken { .. }) if is_used => self.ask_once(method, target),
            answered => answered,
        }
    }

    fn ask_once(&mut self, method: &str, target: &str) -> Result<Answered, ClientError> {
        let mut answers = match self.answers.take() {
            Some(answers) => answers,
            None => self.connect()?,
        };
        let (host, authorization) = (self.url.authority(), self.url.authorization());
        let head = format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\n{authorization}\r\n");
        let answered = exchange(&mut answers, &head)
            .map_err(|error| unreadable(&self.url, error).within(Some(self.patience)))?;
        self.answers = answered.is_kept.then_some(answers);
        Ok(answered)
    }

    fn connect(&self) -> Result<Answers<BufReader<Duplex>>, ClientError> {
        let stream = connect(&self.url, Some(self.patience))?;
        Ok(Answers::new(BufReader::with_capacity(64 << 10, stream)))
    }
}

fn exchange(answers: &mut Answers<BufReader<Duplex>>, head: &str) -> Result<Answered, Error> {
    answers.stream().get_mut().write_all(head.as_bytes())?;
    let head = answers.head(Asked::Ordinary)?;
    let (status, is_kept) = (head.status, head.keep_alive);
    let pause = throttled::pause_of(status, head.header("retry-after"));
    let content_type = head.header("content-type").and_then(|text| str::from_utf8(text).ok());
    let content_type = content_type.map(str::to_owned);
    let mut body = Vec::new();
    while let Some(piece) = answers.piece()? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            let what = format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::InvalidData, what));
        }
        body.extend_from_slice(piece);
    }
    Ok(Answered { status, content_type, body, is_kept, pause })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// It was waited for twice, and said to be a "resource temporarily unavailable".
    #[test]
    fn a_node_that_falls_silent_is_waited_for_once() {
        // Connections are made, and nobody takes them.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", silent.local_addr().expect("an address"));
        let url = Url::parse(&url).expect("a URL");
        let mut kept = KeptConnection::with_patience(url.clone(), Duration::from_millis(50));
        // It is one that has been used.
        kept.answers = Some(kept.connect().expect("a connection"));
        let error = kept.ask("GET", "/v0/backup").err().expect("nothing to read");
        assert_eq!(error.to_string(), format!("{url} sent nothing for 0.05 s"));
        silent.set_nonblocking(true).expect("a listener");
        let connections = std::iter::from_fn(|| silent.accept().ok()).count();
        assert_eq!(connections, 1, "it is not asked again");
    }
}
