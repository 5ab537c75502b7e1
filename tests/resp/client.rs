use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::support::{DEADLINE, Launch, Node, Port, files_below, find_bytes, flip_bit, wait_for, wait_until};

/// A node that clients of Redis can use.
pub(crate) struct RespNode {
    pub(crate) node: Node,
    port: Port,
}

impl RespNode {
    pub(crate) fn start() -> RespNode {
        RespNode::launch(Launch::new().flag("--fsync", "never"))
    }

    pub(crate) fn launch(launch: Launch) -> RespNode {
        let port = Port::claim();
        let node = launch.flag("--resp", &port.address().to_string()).start();
        RespNode { node, port }
    }

    /// Nodes of one cluster, which take requests from each other.
    pub(crate) fn cluster(count: usize) -> Vec<RespNode> {
        let launches: Vec<_> = (0..count).map(|_| Launch::patient().flag("--fsync", "never")).collect();
        let urls = launches.iter().map(Launch::url).collect::<Vec<_>>().join(",");
        let spawn = |launch: Launch| {
            let port = Port::claim();
            let launch = launch.flag("--cluster", &urls).flag("--memory", "32MiB").flag("--threads", "2");
            // A machine that is busy with other tests is no frozen peer.
            let patience = [("PEER", "20000"), ("PEER_CONNECT", "20000"), ("QUORUM", "60000")];
            let launch = patience.into_iter().fold(launch, |launch, (name, timeout_ms)| {
                launch.env(&format!("LADOGA_{name}_TIMEOUT_MS"), timeout_ms)
            });
            let launch = launch.env("LADOGA_RESP_FLUSH", "true");
            RespNode { node: launch.flag("--resp", &port.address().to_string()).spawn(), port }
        };
        let mut nodes: Vec<RespNode> = launches.into_iter().map(spawn).collect();
        nodes.iter_mut().for_each(|node| node.node.wait_until_it_serves());
        for node in &nodes {
            wait_until("a node that reaches the others", || {
                let mut client = node.connect();
                client.ask(&format!("LADOGA.REPLICAS {count}/{count}")) == "+OK\r\n"
                    && client.ask("GET probe") == "$-1\r\n"
            });
        }
        nodes
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    pub(crate) fn connect(&self) -> RespClient {
        RespClient::open(self.address())
    }
}

/// Damages what is stored in the directory of a node that is stopped.
pub(crate) fn damage(data: &Path, stored: &[u8]) {
    let place = |(file, _): (PathBuf, u64)| find_bytes(&file, stored).map(|offset| (file, offset));
    let (file, offset) = files_below(data).into_iter().find_map(place).expect("it is in a file");
    flip_bit(&file, offset, 3);
}

/// A connection that speaks the protocol of Redis.
pub(crate) struct RespClient {
    stream: BufReader<TcpStream>,
}

/// A request as clients send it.
pub(crate) fn request(arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl RespClient {
    pub(crate) fn open(address: SocketAddr) -> RespClient {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a connection");
        stream.set_nodelay(true).expect("a connection");
        RespClient { stream: BufReader::new(stream) }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("a node that reads");
    }

    /// Sends a command whose arguments have spaces between, and reads its reply, as it arrived.
    #[track_caller]
    pub(crate) fn ask(&mut self, command: &str) -> String {
        let arguments: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        String::from_utf8_lossy(&self.ask_bytes(&arguments)).into_owned()
    }

    #[track_caller]
    pub(crate) fn ask_bytes(&mut self, arguments: &[&[u8]]) -> Vec<u8> {
        self.send(&request(arguments));
        self.reply()
    }

    /// The same with one reply of one line, or none if the connection has ended.
    pub(crate) fn try_ask(&mut self, command: &str) -> Option<String> {
        let arguments: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.stream.get_mut().write_all(&request(&arguments)).ok()?;
        self.try_reply()
    }

    fn try_reply(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).ok().filter(|_| line.ends_with("\r\n"))?;
        let items = line.strip_prefix('*').map_or(0, |count| count.trim_end().parse().expect("a count"));
        for _ in 0..items {
            line.push_str(&self.try_reply()?);
        }
        Some(line)
    }

    /// The next line, which may be the beginning of a reply.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line");
        line
    }

    /// The next reply, as it arrived.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).expect("a reply");
        assert!(line.ends_with(b"\r\n"), "the connection ended: {}", line.escape_ascii());
        let count = || -> i64 { String::from_utf8_lossy(&line[1..line.len() - 2]).parse().expect("a count") };
        match line[0] {
            b'$' | b'=' if count() >= 0 => {
                let mut value = vec![0; count() as usize + 2];
                self.stream.read_exact(&mut value).expect("a value");
                line.extend_from_slice(&value);
            }
            kind @ (b'*' | b'~' | b'%') => {
                let items = count().max(0) * if kind == b'%' { 2 } else { 1 };
                for _ in 0..items {
                    let item = self.reply();
                    line.extend_from_slice(&item);
                }
            }
            _ => {}
        }
        line
    }

    /// Everything that comes until the node closes the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).expect("the connection is closed in order");
        rest
    }

    pub(crate) fn finish_sending(&self) {
        self.stream().shutdown(Shutdown::Write).expect("a connection");
    }
}

/// A process that ends with the test.
pub(crate) struct Ending(pub(crate) Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until somebody listens there.
pub(crate) fn wait_until_it_listens(address: SocketAddr) {
    wait_for("a server that listens", || TcpStream::connect(address).ok());
}
