use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::iter;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{self, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::command::{Ran, bench};
use crate::server::read_request;
use crate::support::{Directory, Ladoga};

/// A server that speaks TLS and answers `/N` with N bytes; `/close` is the last request of a connection.
struct SecureServer {
    address: SocketAddr,
    /// What signs for it: itself.
    certificate: String,
    handshakes: Arc<AtomicU64>,
    /// Whether it answers no request any more, and closes the connection.
    breaks_off: Arc<AtomicBool>,
}

impl SecureServer {
    fn start(name: &str) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
        Self::start_with(cert.der().clone(), &key, cert.pem(), WebPkiClientVerifier::no_client_auth())
    }

    /// One that demands a certificate, which it has signed itself.
    fn start_demanding(name: &str) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).expect("a certificate");
        let provider = Arc::new(ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        Self::start_with(cert.der().clone(), &key, cert.pem(), clients.build().expect("an authority"))
    }

    fn start_with(
        certificate: CertificateDer<'static>,
        key: &PrivateKeyDer<'static>,
        authority: String,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Self {
        let key = ring::sign::any_supported_type(key).expect("a key");
        let certified = sign::CertifiedKey::new(vec![certificate], key);
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions that the provider knows")
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (handshakes, breaks_off) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let config = Arc::new(config);
        let (counted, may_break_off) = (Arc::clone(&handshakes), Arc::clone(&breaks_off));
        // The threads end with the process: what they wait for ends with the client.
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (config, counted) = (Arc::clone(&config), Arc::clone(&counted));
                let breaks_off = Arc::clone(&may_break_off);
                thread::spawn(move || serve(socket, config, &counted, &breaks_off));
            }
        });
        Self { address, certificate: authority, handshakes, breaks_off }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    fn handshakes(&self) -> u64 {
        self.handshakes.load(Ordering::SeqCst)
    }

    /// A file that makes it trusted.
    fn authority(&self, directory: &Directory) -> PathBuf {
        let path = directory.path().join("authority.pem");
        fs::write(&path, &self.certificate).expect("a file");
        path
    }
}

fn serve(
    mut socket: TcpStream,
    config: Arc<ServerConfig>,
    handshakes: &AtomicU64,
    breaks_off: &AtomicBool,
) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let mut session = ServerConnection::new(config).ok()?;
    while session.is_handshaking() {
        session.complete_io(&mut socket).ok()?;
    }
    handshakes.fetch_add(1, Ordering::SeqCst);
    let (mut stream, mut buffered) = (StreamOwned::new(session, socket), Vec::new());
    loop {
        let request = read_request(&mut stream, &mut buffered)?;
        if breaks_off.load(Ordering::SeqCst) {
            return None;
        }
        let path = request.split(' ').nth(1).unwrap_or_default();
        let bytes = path.trim_start_matches('/').parse().unwrap_or(0);
        let close = if path == "/close" { "Connection: close\r\n" } else { "" };
        let mut answer = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: {bytes}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + bytes, b'x');
        stream.write_all(&answer).ok()?;
        stream.flush().ok()?;
        if path == "/close" {
            return None;
        }
    }
}

/// The line that wrk would be given. The connections stay, and their handshakes are none of the latency.
#[test]
fn a_server_that_signed_its_own_certificate_is_measured_as_by_wrk() {
    let server = SecureServer::start("some.where");
    let ran = bench(&format!("-t2 -c4 -d1s --latency {}", server.url("/10")));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("Requests/sec:") && !ran.out.contains("Socket errors"), "{}", ran.out);
    assert!(ran.err.contains("any certificate is accepted, as by wrk"), "{}", ran.err);
    // One a connection, and one to see whether the server is there, which it may not see to its end.
    assert!((4..=5).contains(&server.handshakes()), "{} handshakes", server.handshakes());
}

/// It was silent about it.
#[test]
fn a_lab_run_says_that_it_checks_no_certificate() {
    let (server, directory) = (SecureServer::start("some.where"), Directory::new());
    let line =
        format!("-d1s -c1 --workloads status --rates 50 --rounds 1 --no-profile --url {}", server.url(""));
    let words = ["lab", "run", "-o", "report.html"].into_iter().chain(line.split_whitespace());
    let ran = Ladoga::new(words).current_dir(directory.path()).run().expect_success();
    assert!(ran.stderr.contains("note: any certificate is accepted, as by wrk"), "{}", ran.stderr);
}

/// `openssl x509 -req` made them for decades, and wrk takes them.
#[test]
fn a_certificate_of_version_1_is_accepted() {
    let pem = include_bytes!("certificates/version1.pem");
    let certificate = CertificateDer::from_pem_slice(pem).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(pem).expect("a key");
    let server =
        SecureServer::start_with(certificate, &key, String::new(), WebPkiClientVerifier::no_client_auth());
    let ran = bench(&format!("-t1 -c1 -d1s {}", server.url("/10")));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("Socket errors"), "{}", ran.out);
}

#[test]
fn an_open_loop_runs_over_tls() {
    let server = SecureServer::start("localhost");
    let ran = bench(&format!("-t1 -c2 -d1s -R 50 -L {}", server.url("/")));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("Socket errors") && ran.out.contains("Detailed Percentile"), "{}", ran.out);
}

/// Larger than a record of TLS, than what one read takes, and than what a socket holds.
#[test]
fn large_bodies_pass_in_both_directions() {
    let server = SecureServer::start("localhost");
    let read = bench(&format!("-t1 -c2 -d1s {}", server.url("/3000000")));
    assert_eq!(read.code, 0, "{read:?}");
    assert!(!read.out.contains("Socket errors"), "{}", read.out);
    let write = bench(&format!("-t1 -c1 -d1s --workload put --value 9M -T 30s {}", server.url("/")));
    assert_eq!(write.code, 0, "{write:?}");
    assert!(!write.out.contains("Socket errors"), "{}", write.out);
}

#[test]
fn a_connection_that_the_server_ends_is_made_again() {
    let server = SecureServer::start("localhost");
    let ran = bench(&format!("-t1 -c1 -d1s {}", server.url("/close")));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("Socket errors"), "{}", ran.out);
    assert!(server.handshakes() > 3, "{} handshakes", server.handshakes());
}

#[test]
fn a_script_pipelines_over_tls_and_knows_the_scheme() {
    let server = SecureServer::start("localhost");
    let directory = Directory::new();
    let script = directory.path().join("batch.lua");
    let code = "function init()
           local get = wrk.format('GET', wrk.scheme == 'https' and '/70000' or '/wrong')
           batch = get .. get .. get
        end
        function request() return batch end
        function response(status, headers, body)
           if #body ~= 70000 then wrong = (wrong or 0) + 1 end
        end
        function setup(t) thread = t end
        function done() print('wrong: ' .. tostring(thread:get('wrong'))) end";
    fs::write(&script, code).expect("a file");
    let ran = bench(&format!("-t1 -c2 -d1s -s {} {}", script.display(), server.url("/")));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("wrong: nil") && !ran.out.contains("Socket errors"), "{}", ran.out);
    assert_eq!(server.handshakes(), 2);
}

#[test]
fn a_store_is_filled_over_tls() {
    let server = SecureServer::start("localhost");
    let line = format!("-t1 -c1 -d1s --workload get --keys 500 --fill {}", server.url("/"));
    let ran = bench(&line);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("filled with 500 of 500 keys"), "{}", ran.err);
}

/// Some servers close their connections without a TLS message; the error of rustls about that would not help.
#[test]
fn a_server_that_breaks_off_a_fill_is_told_as_such() {
    let server = SecureServer::start("localhost");
    let ran = bench(&format!("-t1 -c1 -d1s --workload get --keys 5 --fill {}", server.url("/")));
    assert_eq!(ran.code, 0, "{ran:?}");
    server.breaks_off.store(true, Ordering::SeqCst);
    let ran = bench(&format!("-t1 -c1 -d1s --workload get --keys 5 --fill {}", server.url("/")));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("the server closed the connection before it answered"), "{}", ran.err);
}

/// The server's own signature does not fit the key of its certificate: the error must not mention authorities, which were not
/// checked.
#[test]
fn a_signature_by_another_key_is_told_as_such() {
    let [one, other] = ["one", "other"].map(|name| {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        (cert.der().clone(), PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key"))
    });
    let server =
        SecureServer::start_with(one.0, &other.1, String::new(), WebPkiClientVerifier::no_client_auth());
    let ran = bench(&format!("-t1 -c1 -d1s {}", server.url("/")));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("signature does not fit its certificate"), "{}", ran.err);
}

/// With TLS 1.3, the server says so after the client has made the handshake.
#[test]
fn a_server_that_demands_a_certificate_is_told_as_such() {
    let server = SecureServer::start_demanding("some.where");
    let ran = bench(&format!("-t1 -c2 -d1s {}", server.url("/10")));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("the server demands a certificate. Show one with --cert FILE"), "{}", ran.err);
}

/// `ladoga bench` with the certificate of one server as the authority, against another.
fn bench_trusting(trusted: &SecureServer, server: &SecureServer) -> Ran {
    let directory = Directory::new();
    let authority = trusted.authority(&directory);
    bench(&format!("-t1 -c1 -d1s --ca {} {}", authority.display(), server.url("/")))
}

#[test]
fn a_certificate_is_checked_if_that_is_asked_for() {
    let server = SecureServer::start("127.0.0.1");
    let trusted = bench_trusting(&server, &server);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    assert!(!trusted.err.contains("any certificate"), "{}", trusted.err);
    let unknown = bench_trusting(&SecureServer::start("127.0.0.1"), &server);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(unknown.out.contains("Socket errors: connect 1"), "{}", unknown.out);
    let reason = "no trusted authority has signed the server's certificate";
    assert!(unknown.err.contains(reason), "{}", unknown.err);
}

#[test]
fn a_certificate_for_another_name_is_refused_if_it_is_checked() {
    let server = SecureServer::start("some.where");
    let ran = bench_trusting(&server, &server);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("the server's certificate is for another name"), "{}", ran.err);
}

#[test]
fn a_file_without_certificates_is_named() {
    let directory = Directory::new();
    let empty = directory.path().join("empty.pem");
    fs::write(&empty, "nothing").expect("a file");
    for file in [empty, directory.path().join("missing.pem")] {
        let ran = bench(&format!("-t1 -c1 -d1s --ca {} https://127.0.0.1:1", file.display()));
        assert_eq!(ran.code, 2, "{ran:?}");
        let named = format!("--ca: {} has no usable certificate", file.display());
        assert!(ran.err.contains(&named), "{}", ran.err);
    }
    let ran = bench("-t1 -c1 -d1s --verify http://127.0.0.1:1");
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("which only https:// has"), "{}", ran.err);
}

/// Each read was answered in time, so the command waited for an hour.
#[test]
fn a_handshake_that_comes_byte_by_byte_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
                // The head of a record of 16 KiB, and its bytes one at a time, for as long as anybody is there.
                for byte in [22, 3, 3, 64, 0].into_iter().chain(iter::repeat(2)) {
                    let is_gone = match socket.read(&mut [0]) {
                        Ok(count) => count == 0,
                        Err(error) => error.kind() != ErrorKind::WouldBlock,
                    };
                    if is_gone || socket.write_all(&[byte]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let ran = bench(&format!("-t1 -c1 -d1s {url}"));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("the server did not answer the TLS handshake in time"), "{}", ran.err);
}

#[test]
fn a_server_that_speaks_plain_http_is_told_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            // Whatever is asked: the first bytes of a handshake are no request.
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"); // Who has gone needs none.
        }
    });
    let directory = Directory::new();
    let script = directory.path().join("plain.lua");
    fs::write(&script, "function request() return wrk.format() end").expect("a file");
    for more in [String::new(), format!("-s {}", script.display())] {
        let ran = bench(&format!("-t1 -c1 -d1s {more} {url}"));
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains("the server does not speak TLS"), "{}", ran.err);
        assert!(ran.out.contains("Socket errors: connect"), "{}", ran.out);
    }
}
