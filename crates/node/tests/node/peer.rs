use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use ladoga_cluster::{Acquaintance, Incarnation, Memory, NodeId, NodeList, Refusal, Statement};
use ladoga_node::peers::wire::{Answer, Frame, Hello, Request, Versions, take_frame};

/// Longer than anything takes that does not hang.
const DEADLINE: Duration = Duration::from_secs(90);

/// When a test that hangs is given up.
pub(crate) struct Deadline(Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]
    pub(crate) fn begins() -> Deadline {
        Deadline(Instant::now())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.elapsed() > DEADLINE
    }
}

/// A node that the test plays: the node under test connects to it, and it answers as the test says.
///
/// By itself, it greets, reports how far it is, and has nothing to be compared.
pub(crate) struct Peer {
    asked: Receiver<(u32, Request)>,
    said: Arc<Said>,
}

/// What the test and the thread that reads share.
#[derive(Default)]
struct Said {
    output: Mutex<Option<TcpStream>>,
    /// Whether it answers nothing by itself any more.
    is_mute: AtomicBool,
    /// Whether it reports that it lost its data, and has not got them back.
    is_rebuilding: AtomicBool,
    /// Whether it reports that its disk is another one.
    has_another_disk: AtomicBool,
    /// Whether it reports that it knew the node with another disk.
    knew_another_disk: AtomicBool,
    /// Whether it reports that it hears this process, and then that it hears another one as the node.
    hears_another_process: AtomicBool,
    /// Whether it does nothing any more.
    is_frozen: AtomicBool,
    /// Frames that had reads.
    frames_of_reads: AtomicUsize,
    /// How many times it was asked to be compared.
    comparisons: AtomicUsize,
    /// How many statements it has answered.
    statements: AtomicUsize,
}

impl Said {
    fn answer(&self, number: u32, answer: &Answer) {
        let mut out = BytesMut::new();
        answer.put(&mut out, number);
        let output = self.output.lock().expect("no panic");
        output.as_ref().expect("a connection").write_all(&out).expect("a node that reads");
    }
}

impl Peer {
    /// Plays `id`, which speaks these versions of the protocol, for the node `other`.
    pub(crate) fn start(
        listener: TcpListener,
        (id, other): (NodeId, NodeId),
        versions: Versions,
        list: &NodeList,
    ) -> Peer {
        let (send, asked) = channel();
        let said = Arc::<Said>::default();
        let (saying, list) = (Arc::clone(&said), list.clone());
        thread::spawn(move || {
            let (socket, _) = listener.accept().expect("a node that connects");
            let mut socket = Frames::new(socket);
            socket.head();
            let mut output = socket.stream.try_clone().expect("a socket");
            output.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").expect("a node that reads");
            *saying.output.lock().expect("no panic") = Some(output);
            listen(&mut socket, &saying, &send, (id, other, versions, list));
            // Whoever connects from now on waits for a greeting.
            while saying.is_frozen.load(Ordering::SeqCst) {
                thread::park();
            }
        });
        Peer { asked, said }
    }

    /// The next request that is waited for; those before it are not answered.
    pub(crate) fn asked<T>(&self, mut is_it: impl FnMut(&Request) -> Option<T>) -> (u32, T) {
        loop {
            let (number, request) = self.asked.recv_timeout(DEADLINE).expect("a request");
            if let Some(found) = is_it(&request) {
                return (number, found);
            }
        }
    }

    /// The next request that matches, if one comes soon.
    pub(crate) fn asked_soon<T>(&self, mut is_it: impl FnMut(&Request) -> Option<T>) -> Option<(u32, T)> {
        const SOON: Duration = Duration::from_millis(20);
        while let Ok((number, request)) = self.asked.recv_timeout(SOON) {
            if let Some(found) = is_it(&request) {
                return Some((number, found));
            }
        }
        None
    }

    /// All requests up to one that is waited for.
    pub(crate) fn all_until(&self, is_it: impl Fn(&Request) -> bool) -> Vec<(u32, Request)> {
        let mut all = Vec::new();
        loop {
            all.push(self.asked.recv_timeout(DEADLINE).expect("a request"));
            if is_it(&all[all.len() - 1].1) {
                return all;
            }
        }
    }

    pub(crate) fn answer(&self, number: u32, answer: &Answer) {
        self.said.answer(number, answer);
    }

    /// How many frames had reads, so far.
    pub(crate) fn frames_of_reads(&self) -> usize {
        self.said.frames_of_reads.load(Ordering::SeqCst)
    }

    /// How many times it was asked to be compared, so far.
    pub(crate) fn comparisons(&self) -> usize {
        self.said.comparisons.load(Ordering::SeqCst)
    }

    /// How many statements it has answered, so far.
    pub(crate) fn statements(&self) -> usize {
        self.said.statements.load(Ordering::SeqCst)
    }

    /// Its connection is given up while it owes an answer, and it greets on no other one.
    pub(crate) fn freeze(&self) {
        self.is_mute(true);
        self.asked(|request| matches!(request, Request::Statement(_)).then_some(()));
        self.said.is_frozen.store(true, Ordering::SeqCst);
        let output = self.said.output.lock().expect("no panic");
        output.as_ref().expect("a connection").shutdown(Shutdown::Both).expect("a connection");
    }

    /// Whether it reports from now on that it is being rebuilt.
    pub(crate) fn is_rebuilding(&self, is_rebuilding: bool) {
        self.said.is_rebuilding.store(is_rebuilding, Ordering::SeqCst);
    }

    /// From now on, it reports that its disk is another one.
    pub(crate) fn has_another_disk(&self) {
        self.said.has_another_disk.store(true, Ordering::SeqCst);
    }

    /// From now on, it reports that it knew the node with another disk: what was on that is to be copied.
    pub(crate) fn knew_another_disk(&self) {
        self.said.knew_another_disk.store(true, Ordering::SeqCst);
    }

    /// It reports once that it hears this process, and from then on that it hears another one as the node.
    pub(crate) fn hears_another_process(&self) {
        self.said.hears_another_process.store(true, Ordering::SeqCst);
    }

    /// Whether it answers nothing but what the test says.
    pub(crate) fn is_mute(&self, is_mute: bool) {
        self.said.is_mute.store(is_mute, Ordering::SeqCst);
    }
}

fn listen(
    socket: &mut Frames,
    said: &Said,
    send: &Sender<(u32, Request)>,
    (id, other, versions, list): (NodeId, NodeId, Versions, NodeList),
) {
    let (mut known, mut session, mut other_sessions) = (Incarnation::NONE, 0, 0);
    let mut waiting = VecDeque::new();
    while let Some((number, request)) = next_request(socket, said, &mut waiting) {
        if let Request::Hello(Hello { statement, .. }) | Request::Statement(statement) = &request {
            (known, session) = (statement.incarnation, statement.session);
        }
        let hears_another = said.hears_another_process.load(Ordering::SeqCst);
        let statement = || {
            let mut met = vec![Acquaintance::default(); list.len()];
            let is_replacement = said.knew_another_disk.load(Ordering::SeqCst);
            met[other.index()] = Acquaintance { incarnation: known, is_replacement };
            let mut remembered = vec![Memory::default(); list.len()];
            if hears_another {
                remembered[other.index()].session = session + other_sessions;
            }
            let first = Incarnation::first(u64::from(id.0));
            let has_another_disk = said.has_another_disk.load(Ordering::SeqCst);
            Statement {
                remembered,
                incarnation: if has_another_disk { first.next(1) } else { first },
                is_whole: !said.is_rebuilding.load(Ordering::SeqCst),
                met,
                ..Statement::default()
            }
        };
        let answer = match request {
            Request::Hello(_) => Answer::Hello(Box::new(Hello { versions, ..hello(id, &list, statement()) })),
            _ if said.is_mute.load(Ordering::SeqCst) => {
                // If the test is over, the receiver is gone.
                let _ = send.send((number, request));
                continue;
            }
            Request::Statement(_) => {
                said.statements.fetch_add(1, Ordering::SeqCst);
                let statement = statement();
                other_sessions = u64::from(hears_another);
                Answer::Statement(Box::new(statement))
            }
            Request::Groups(_) | Request::Leaves { .. } | Request::List { .. } => {
                said.comparisons.fetch_add(1, Ordering::SeqCst);
                Answer::Refused(Refusal::Rebuilding)
            }
            request => {
                let _ = send.send((number, request));
                continue;
            }
        };
        said.answer(number, &answer);
    }
}

/// The next request with its number; none if the node has closed the connection.
fn next_request(
    socket: &mut Frames,
    said: &Said,
    waiting: &mut VecDeque<(u32, Request)>,
) -> Option<(u32, Request)> {
    if waiting.is_empty() {
        let frame = socket.next()?;
        Request::all_of(&frame, |number, request, _| waiting.push_back((number, request))).expect("requests");
        let has_reads = waiting.iter().any(|(_, request)| matches!(request, Request::Read { .. }));
        said.frames_of_reads.fetch_add(usize::from(has_reads), Ordering::SeqCst);
    }
    waiting.pop_front()
}

fn hello(id: NodeId, list: &NodeList, statement: Statement) -> Hello {
    Hello { versions: Versions::OWN, node: id.0, wall_ms: 0, statement, nodes: list.clone() }
}

/// A connection that the test makes to the node, as a peer does.
pub(crate) struct Caller(Frames);

impl Caller {
    pub(crate) fn greet(socket: TcpStream, id: NodeId, list: &NodeList) -> Caller {
        socket.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let mut caller = Caller(Frames::new(socket));
        let upgrade =
            b"GET /v0/peer HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: ladoga-peer/3\r\n\r\n";
        caller.0.stream.write_all(upgrade).expect("a node that reads");
        caller.0.head();
        caller.ask(&[(u32::MAX, Request::Hello(hello(id, list, Statement::default())))]);
        let (_, answer) = caller.answer();
        assert!(matches!(answer, Answer::Hello(_)), "{answer:?}");
        caller
    }

    /// Sends requests, with one write.
    pub(crate) fn ask(&mut self, requests: &[(u32, Request)]) {
        let mut out = BytesMut::new();
        requests.iter().for_each(|(number, request)| request.put(&mut out, *number));
        self.send(&out);
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.stream.write_all(bytes).expect("a node that reads");
    }

    /// Reads up to the end of the connection, and answers how many answers there were.
    pub(crate) fn answers_until_closed(&mut self) -> usize {
        let answers = std::iter::from_fn(|| self.0.next());
        answers.filter(|frame| Answer::of(frame) != Ok(Answer::Alive)).count()
    }

    /// The next answer, and to which request.
    pub(crate) fn answer(&mut self) -> (u32, Answer) {
        loop {
            let frame = self.0.next().expect("an answer");
            match Answer::of(&frame).expect("an answer") {
                Answer::Alive => {}
                answer => return (frame.request, answer),
            }
        }
    }
}

/// The frames of a connection, one by one.
struct Frames {
    stream: TcpStream,
    input: BytesMut,
}

impl Frames {
    fn new(stream: TcpStream) -> Frames {
        stream.set_nodelay(true).expect("a socket");
        Frames { stream, input: BytesMut::new() }
    }

    /// Takes the head of a request, or of an answer, off the input.
    fn head(&mut self) {
        loop {
            if let Some(end) = self.input.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                drop(self.input.split_to(end + 4));
                return;
            }
            assert!(self.read(), "a head was expected");
        }
    }

    /// The next frame; none if the node has closed the connection.
    fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = take_frame(&mut self.input).expect("a frame") {
                return Some(frame);
            }
            if !self.read() {
                return None;
            }
        }
    }

    fn read(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        let count = self.stream.read(&mut bytes).unwrap_or(0);
        self.input.extend_from_slice(&bytes[..count]);
        count > 0
    }
}
