use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::support::wait_until;

/// How a collector answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// It takes what it gets.
    Takes,
    /// `503`.
    Refuses,
    /// Not at all, until the client leaves.
    Hangs,
    /// With something that is not HTTP.
    Babbles,
}

/// A span, as far as the tests look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty if it has none.
    pub(crate) parent: String,
    pub(crate) name: String,
    /// 1 internal, 2 server, 3 client.
    pub(crate) kind: u64,
    pub(crate) began_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) attributes: Vec<(String, String)>,
    /// 2 if it failed.
    pub(crate) status: u64,
    /// `service.instance.id` and the other attributes of its node.
    pub(crate) resource: Vec<(String, String)>,
}

impl Span {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        value_of(&self.attributes, name)
    }

    pub(crate) fn of_node(&self, name: &str) -> Option<&str> {
        value_of(&self.resource, name)
    }
}

fn value_of<'a>(attributes: &'a [(String, String)], name: &str) -> Option<&'a str> {
    attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    /// Heads and bodies, as they came.
    bytes: Vec<u8>,
    requests: usize,
}

/// A collector of OpenTelemetry, as small as it can be.
pub(crate) struct Collector {
    address: std::net::SocketAddr,
    scheme: &'static str,
    received: Arc<Mutex<Received>>,
    is_over: Arc<AtomicBool>,
}

impl Collector {
    pub(crate) fn start(answers: Answers) -> Collector {
        Collector::serving("http", move |socket, received| serve(socket, answers, received))
    }

    /// One with the certificate of `localhost` in this directory, which lets in only clients of the authority there. Takes what it gets.
    pub(crate) fn secure(certs: &Path) -> Collector {
        let config = Arc::new(config(certs));
        Collector::serving("https", move |socket, received| {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a configuration");
            serve(StreamOwned::new(connection, socket), Answers::Takes, received);
        })
    }

    fn serving(
        scheme: &'static str,
        serve: impl Fn(TcpStream, &Mutex<Received>) + Send + Sync + 'static,
    ) -> Collector {
        let serve = Arc::new(serve);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (received, is_over) = (Arc::<Mutex<Received>>::default(), Arc::<AtomicBool>::default());
        let (of_thread, ends) = (Arc::clone(&received), Arc::clone(&is_over));
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let (received, serve) = (Arc::clone(&of_thread), Arc::clone(&serve));
                thread::spawn(move || serve(socket, &received));
            }
        });
        Collector { address, scheme, received, is_over }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.address.port())
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).spans.clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).requests
    }

    /// Whether this was in anything that came.
    pub(crate) fn has_seen(&self, bytes: &[u8]) -> bool {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.bytes.windows(bytes.len()).any(|window| window == bytes)
    }

    /// The spans of a trace, once there are so many.
    pub(crate) fn trace(&self, trace: &str, count: usize) -> Vec<Span> {
        let of_trace =
            || -> Vec<Span> { self.spans().into_iter().filter(|span| span.trace == trace).collect() };
        wait_until("the spans of a trace", || of_trace().len() >= count);
        of_trace()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        _ = TcpStream::connect(self.address);
    }
}

/// Who is who, by the files that `ladoga certs create` made.
fn config(certs: &Path) -> ServerConfig {
    let certificates = |name: &str| -> Vec<CertificateDer<'static>> {
        let found = CertificateDer::pem_file_iter(certs.join(name)).expect("a file");
        found.map(|certificate| certificate.expect("a certificate")).collect()
    };
    let key = PrivateKeyDer::from_pem_file(certs.join("localhost.key")).expect("a key");
    let mut roots = RootCertStore::empty();
    certificates("ca.pem").into_iter().for_each(|root| roots.add(root).expect("an authority"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(clients.build().expect("a verifier"))
        .with_single_cert(certificates("localhost.pem"), key)
        .expect("a certificate and its key")
}

/// Serves a connection until its client leaves.
fn serve<S: Read + Write>(socket: S, answers: Answers, received: &Mutex<Received>) {
    let mut reader = BufReader::new(socket);
    while let Some((head, body)) = request(&mut reader) {
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(head.to_ascii_lowercase().contains("content-type: application/x-protobuf\r\n"), "{head}");
        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
        received.requests += 1;
        received.bytes.extend_from_slice(head.as_bytes());
        received.bytes.extend_from_slice(&body);
        let answer: &[u8] = match answers {
            Answers::Takes => {
                received.spans.extend(spans_of(&body));
                b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"
            }
            Answers::Refuses => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            Answers::Hangs => b"",
            Answers::Babbles => b"\0\xff\r\n\r\nwhat is HTTP?\r\n\r\n",
        };
        drop(received);
        if reader.get_mut().write_all(answer).is_err() {
            return;
        }
    }
}

/// The next request: its head and its body; `None` once the client has left.
fn request<S: Read>(reader: &mut BufReader<S>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|length| length.trim().parse().ok()).expect("a length");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// A field of a message of Protocol Buffers.
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// The fields of a message, by their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut message)),
            1 => Field::Number(u64::from_le_bytes(take(&mut message, 8).try_into().expect("eight bytes"))),
            2 => {
                let length = varint(&mut message) as usize;
                Field::Bytes(take(&mut message, length))
            }
            5 => {
                let bytes = take(&mut message, 4).try_into().expect("four bytes");
                Field::Number(u64::from(u32::from_le_bytes(bytes)))
            }
            kind => panic!("there is no wire type {kind}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

fn take<'b>(message: &mut &'b [u8], count: usize) -> &'b [u8] {
    let (taken, rest) = message.split_at(count);
    *message = rest;
    taken
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(message, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
    }
    panic!("a number without an end")
}

fn parts(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).into_iter().filter_map(move |(found, field)| match field {
        Field::Bytes(bytes) if found == number => Some(bytes),
        _ => None,
    })
}

/// `ExportTraceServiceRequest`, as opentelemetry-proto has it.
fn spans_of(request: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for resource_spans in parts(request, 1) {
        let resource: Vec<_> =
            parts(resource_spans, 1).flat_map(|resource| parts(resource, 1).map(attribute)).collect();
        for scope_spans in parts(resource_spans, 2) {
            spans.extend(
                parts(scope_spans, 2).map(|bytes| Span { resource: resource.clone(), ..span(bytes) }),
            );
        }
    }
    spans
}

fn span(message: &[u8]) -> Span {
    let mut span = Span::default();
    for (number, field) in fields(message) {
        match (number, field) {
            (1, Field::Bytes(id)) => span.trace = hex(id),
            (2, Field::Bytes(id)) => span.id = hex(id),
            (4, Field::Bytes(id)) => span.parent = hex(id),
            (5, Field::Bytes(name)) => span.name = text(name),
            (6, Field::Number(kind)) => span.kind = kind,
            (7, Field::Number(ns)) => span.began_ns = ns,
            (8, Field::Number(ns)) => span.ended_ns = ns,
            (9, Field::Bytes(pair)) => span.attributes.push(attribute(pair)),
            (15, Field::Bytes(status)) => {
                let code = fields(status).into_iter().find(|(number, _)| *number == 3);
                span.status = code.map_or(0, |(_, code)| match code {
                    Field::Number(code) => code,
                    Field::Bytes(_) => panic!("a code is a number"),
                });
            }
            _ => {}
        }
    }
    span
}

fn attribute(pair: &[u8]) -> (String, String) {
    let name = parts(pair, 1).next().map(text).unwrap_or_default();
    let value = parts(pair, 2).next().and_then(|value| fields(value).into_iter().next());
    let value = match value {
        Some((_, Field::Bytes(bytes))) => text(bytes),
        Some((_, Field::Number(number))) => number.to_string(),
        None => String::new(),
    };
    (name, value)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
