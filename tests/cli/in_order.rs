use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

/// An answer to one request. Who has used its rate may come back at once.
#[derive(Clone)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

/// A server that gives answers, one after the other, and is gone then.
pub(crate) struct InOrder {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl InOrder {
    pub(crate) fn start(answers: Vec<Said>) -> InOrder {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        InOrder { address, server: thread::spawn(move || serve(&listener, answers)) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    #[track_caller]
    pub(crate) fn expect_all_asked_for(self) {
        // If it still waits for a client, this is one that asks for nothing.
        drop(TcpStream::connect(self.address));
        self.server.join().expect("a client that asks for all of it");
    }
}

fn serve(listener: &TcpListener, answers: Vec<Said>) {
    for Said { status, content_type, body } in answers {
        let (mut stream, _) = listener.accept().expect("a client");
        let head = BufReader::new(&stream).lines().map_while(Result::ok);
        assert!(head.take_while(|line| !line.is_empty()).count() > 0, "a request");
        let length = body.len();
        let retry_after = if status == 429 { "Retry-After: 0\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status} Said\r\nContent-Type: {content_type}\r\n{retry_after}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).expect("a client that reads");
    }
}
