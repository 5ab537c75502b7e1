use std::io::{BufReader, ErrorKind, Write};
use std::time::Duration;

use ladoga_tls::client::Duplex;

use super::dial::connect;
use super::{ClientError, Response, Url};

/// A request to a node.
pub(crate) struct Request<'r> {
    pub(crate) method: &'static str,
    /// Path and query.
    pub(crate) target: String,
    /// One more header field, by its lower-case name.
    pub(crate) field: Option<(&'static str, &'r str)>,
    pub(crate) body: Option<&'r [u8]>,
}

impl Request<'_> {
    /// Sends it, and reads the head of the answer.
    pub(crate) fn send(&self, url: &Url) -> Result<Response, ClientError> {
        self.send_with_patience(url, None)
    }

    /// The same, and takes the node for gone if it sends or takes nothing for so long.
    pub(crate) fn send_with_patience(
        &self,
        url: &Url,
        patience: Option<Duration>,
    ) -> Result<Response, ClientError> {
        let stream = connect(url, patience)?;
        let sent = self.write(stream.clone(), url);
        let reader = Box::new(BufReader::new(stream));
        match (Response::read_head(url, reader, self.method == "HEAD"), sent) {
            // A node that refuses a value does not read all of it, but answers why.
            (Ok(response), _) => Ok(response),
            (Err(_), Err(error)) => Err(ClientError::Broken { url: url.clone(), error }),
            (Err(error), Ok(())) => Err(error),
        }
    }

    fn write(&self, mut stream: Duplex, url: &Url) -> std::io::Result<()> {
        let Request { method, target, field, body } = self;
        let field = field.map_or_else(String::new, |(name, value)| format!("{name}: {value}\r\n"));
        let length = body.map_or_else(String::new, |body| format!("content-length: {}\r\n", body.len()));
        let (host, authorization) = (url.authority(), url.authorization());
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{authorization}{field}{length}\r\n"
        );
        stream.write_all(head.as_bytes())?;
        match stream.write_all(body.unwrap_or_default()) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            written => written,
        }
    }
}
