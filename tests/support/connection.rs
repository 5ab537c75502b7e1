use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::response::{read_chunk, split_record};
use super::{DEADLINE, Response, entity};

/// A connection that sends exactly the bytes that it is told to send.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Connection {
        Connection::try_open(address).expect("a connection to the node")
    }

    pub(crate) fn try_open(address: SocketAddr) -> io::Result<Connection> {
        Connection::over(TcpStream::connect_timeout(&address, DEADLINE)?)
    }

    /// From another address: the loopback has more than one.
    pub(crate) fn open_from(source: Ipv4Addr, address: SocketAddr) -> Connection {
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&SocketAddr::from((source, 0)).into())?;
            socket.connect_timeout(&address.into(), DEADLINE)?;
            Connection::over(socket.into())
        };
        connect().expect("a connection to the node from another address")
    }

    fn over(stream: TcpStream) -> io::Result<Connection> {
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    /// Sends these bytes, in one write if the socket takes them.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("a node that reads");
    }

    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref())
    }

    /// Sends a request with the headers that its body needs.
    pub(crate) fn send_request(&mut self, method: &str, target: &str, body: Option<&[u8]>) {
        self.try_send_request(method, target, body).expect("a node that reads");
    }

    fn try_send_request(&mut self, method: &str, target: &str, body: Option<&[u8]>) -> io::Result<()> {
        let length = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.len()));
        let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: ladoga\r\n{length}\r\n").into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        self.try_send(bytes)
    }

    /// Whether something has arrived that was not read, be it the end.
    pub(crate) fn is_answered(&self) -> bool {
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true).expect("a socket");
        let arrived = stream.peek(&mut [0]);
        stream.set_nonblocking(false).expect("a socket");
        !self.stream.buffer().is_empty() || arrived.is_ok()
    }

    /// Reads an answer to anything but HEAD.
    pub(crate) fn response(&mut self) -> Response {
        self.try_response().expect("an answer")
    }

    pub(crate) fn try_response(&mut self) -> io::Result<Response> {
        Response::read(&mut self.stream, false)
    }

    /// Whether an answer, or the end of the connection, is there to be read.
    pub(crate) fn has_answer(&self) -> bool {
        let socket = self.stream.get_ref();
        socket.set_nonblocking(true).expect("a socket");
        let peeked = socket.peek(&mut [0]);
        socket.set_nonblocking(false).expect("a socket");
        !peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Reads an answer to HEAD.
    pub(crate) fn response_to_head(&mut self) -> Response {
        Response::read(&mut self.stream, true).expect("an answer")
    }

    /// Reads an answer up to the beginning of its body, for tests that read the body piece by piece, or never.
    pub(crate) fn response_head(&mut self) -> Response {
        Response::read_head(&mut self.stream).expect("the head of an answer")
    }

    /// Reads one record of a range whose head was read; `None` at its end.
    pub(crate) fn next_record(&mut self) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        Ok(read_chunk(&mut self.stream)?.map(|chunk| split_record(&chunk)))
    }

    /// Reads one chunk of an answer whose head was read; `None` for the last one.
    pub(crate) fn next_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        read_chunk(&mut self.stream)
    }

    /// Sends a request and reads the answer.
    pub(crate) fn request(&mut self, method: &str, target: &str, body: Option<&[u8]>) -> Response {
        self.try_request(method, target, body).expect("an answer")
    }

    /// As [`Connection::request`]; an error if the node went away before it had answered.
    pub(crate) fn try_request(
        &mut self,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
    ) -> io::Result<Response> {
        self.try_send_request(method, target, body)?;
        Response::read(&mut self.stream, method == "HEAD")
    }

    pub(crate) fn get(&mut self, key: impl AsRef<[u8]>) -> Response {
        self.request("GET", &entity(key), None)
    }

    /// The value of a key; `None` if there is none.
    pub(crate) fn value(&mut self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let response = self.get(key);
        match response.status {
            200 => Some(response.body),
            404 => None,
            _ => panic!("a read was answered {} {:?}", response.status, response.text()),
        }
    }

    /// Stores a value, which has to work.
    pub(crate) fn put(&mut self, key: impl AsRef<[u8]>, value: &[u8]) {
        let response = self.request("PUT", &entity(key), Some(value));
        assert_eq!((response.status, response.text()), (201, ""), "a write was refused");
    }

    /// Deletes a key, which has to work.
    pub(crate) fn delete(&mut self, key: impl AsRef<[u8]>) {
        let response = self.request("DELETE", &entity(key), None);
        assert_eq!((response.status, response.text()), (202, ""), "a deletion was refused");
    }

    /// Reads `length` bytes, whatever they are.
    pub(crate) fn try_read_exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// The same connection twice: one that sends, one that reads.
    pub(crate) fn split(self) -> (Connection, Connection) {
        assert!(self.stream.buffer().is_empty(), "something was received that nobody has read");
        let sender = self.stream.get_ref().try_clone().expect("a second descriptor");
        (Connection { stream: BufReader::new(sender) }, self)
    }

    /// Makes the system keep no more than about so many unread bytes.
    pub(crate) fn limit_receiving_to(&self, bytes: usize) {
        rustix::net::sockopt::set_socket_recv_buffer_size(self.stream.get_ref(), bytes)
            .expect("a connection");
    }

    /// Has reading fail if the node sends nothing for so long.
    pub(crate) fn limit_receiving_for(&self, patience: Duration) {
        self.stream.get_ref().set_read_timeout(Some(patience)).expect("a connection");
    }

    /// Has sending fail if the node takes nothing for so long.
    pub(crate) fn limit_sending_to(&self, patience: Duration) {
        self.stream.get_ref().set_write_timeout(Some(patience)).expect("a connection");
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish_sending(&self) {
        self.stream.get_ref().shutdown(Shutdown::Write).expect("a connection to half-close");
    }

    /// Waits until the node closes the connection, without having sent anything more.
    #[track_caller]
    pub(crate) fn expect_closed(&mut self) {
        let rest = self.rest();
        assert!(
            rest.is_empty(),
            "something came after the last answer: {:?}",
            rest.escape_ascii().to_string()
        );
    }

    /// Everything that comes until the node closes the connection.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest,
            // What was sent and never read makes a close a reset.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => rest,
            Err(error) => panic!("the connection was not closed: {error}"),
        }
    }
}
