use std::io::{BufReader, ErrorKind, Write};
use std::time::Duration;

use ladoga_tls::client::Duplex;

use super::dial::connect;
use super::{ClientError, Response, SILENCE_MAX, Url, throttled};

/// A request to a node.
pub(crate) struct Request<'r> {
    pub(crate) method: &'static str,
    /// Path and query.
    pub(crate) target: String,
    /// More header fields, by their lower-case names.
    pub(crate) fields: Vec<(&'static str, &'r str)>,
    pub(crate) body: Option<&'r [u8]>,
}

impl Request<'_> {
    /// Sends it, and reads the head of the answer.
    pub(crate) fn send_in_time(&self, url: &Url) -> Result<Response, ClientError> {
        self.send_with_patience(url, Some(SILENCE_MAX))
    }

    /// The same; if the token has used its rate, it is sent again when the node says, if that is soon.
    pub(crate) fn send_once_admitted(&self, url: &Url) -> Result<Response, ClientError> {
        throttled::once_admitted(|| self.send_in_time(url), Response::pause)
    }

    /// Sends it, and takes the node for gone if it sends or takes nothing for so long.
    pub(crate) fn send_with_patience(
        &self,
        url: &Url,
        patience: Option<Duration>,
    ) -> Result<Response, ClientError> {
        let stream = connect(url, patience)?;
        let sent = self.write(stream.clone(), url);
        let reader = Box::new(BufReader::new(stream));
        let error = match (Response::read_head(url, reader, self.method == "HEAD"), sent) {
            // A node that refuses a value does not read all of it, but answers why.
            (Ok(response), _) => return Ok(response.within(patience)),
            // Nor does one that does not want this client.
            (Err(refused @ ClientError::Unreachable { .. }), _) => return Err(refused),
            (Err(_), Err(error)) => ClientError::Broken { url: url.clone(), error },
            (Err(error), Ok(())) => error,
        };
        Err(error.within(patience))
    }

    fn write(&self, mut stream: Duplex, url: &Url) -> std::io::Result<()> {
        let Request { method, target, fields, body } = self;
        let fields: String = fields.iter().flat_map(|(name, value)| [*name, ": ", *value, "\r\n"]).collect();
        let length = body.map_or_else(String::new, |body| format!("content-length: {}\r\n", body.len()));
        let (host, authorization) = (url.authority(), url.authorization());
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{authorization}{fields}{length}\r\n"
        );
        stream.write_all(head.as_bytes())?;
        match stream.write_all(body.unwrap_or_default()) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            written => written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn a_node_that_says_nothing_is_not_waited_for() {
        // Connections are made, and nobody takes them.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", silent.local_addr().expect("an address"));
        let url = Url::parse(&url).expect("a URL");
        let request =
            Request { method: "GET", target: "/v0/status".to_owned(), fields: Vec::new(), body: None };
        let patience = Duration::from_millis(50);
        let error = request.send_with_patience(&url, Some(patience)).err().expect("nothing to read");
        assert_eq!(error.to_string(), format!("{url} sent nothing for 0.05 s"));
    }

    #[test]
    fn a_node_that_says_nothing_more_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let url = Url::parse(&url).expect("a URL");
        let node = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(format!("{head}1\r\n\n\r\n").as_bytes()).expect("a client");
            stream
        });
        let request = Request { method: "GET", target: "/".to_owned(), fields: Vec::new(), body: None };
        let response = request.send_with_patience(&url, Some(Duration::from_secs(3))).expect("a head");
        let error = response.lines(|_| Ok::<_, ClientError>(())).expect_err("nothing more to read");
        assert_eq!(error.to_string(), format!("{url} sent nothing for 3 s"));
        drop(node.join());
    }
}
