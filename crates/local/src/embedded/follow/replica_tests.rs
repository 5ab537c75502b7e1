//! The feed of replicas against a model: cells arrive at three nodes in any order, and those who follow move from node to node with
//! their tokens. Who follows ends up with what is newest; and over a connection, the versions of a key never fall.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ladoga_env::sim::{self, SimClock, SimRng};
use ladoga_env::{Env, Rng};
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_runtime::Supervisor;
use ladoga_service::{Error, Followed, Follower, KeySpan, Since};
use ladoga_storage::{Background, Durability, Options};
use tokio::runtime::{Builder, LocalOptions};

use super::super::{Embedded, Local};
use super::model_tests::{KEPT_MS, POLLS_MAX};
use super::told::{KnownCell, State, Text, differing, key_span, parse, values};
use crate::VersionClock;
use crate::store::{Arrivals, CellChange, CellObserver, LocalStore, Store, SupersededCell};

const NODES: usize = 3;
const KEYS: u64 = 40;

/// Of whom nothing is wanted: but of a store without an observer, it is not known which cells are newest.
struct Nobody;

impl CellObserver for Nobody {
    fn begins(&self) {}

    fn replaced(&self, _: &[CellChange]) {}

    fn superseded(&self, _: &[SupersededCell]) {}

    fn scan_completed(&self) {}
}

struct Settled {
    before: AtomicU64,
    versions: Arc<VersionClock>,
}

impl Arrivals for Settled {
    fn cluster(&self) -> u64 {
        7
    }

    fn directory(&self) -> u64 {
        9
    }

    fn settled_before(&self) -> u64 {
        self.before.load(Ordering::Relaxed)
    }

    fn newest(&self) -> u64 {
        self.versions.last()
    }

    fn time_ms(&self) -> u64 {
        self.versions.wall_ms()
    }
}

type Arriving = (String, Stamp, Option<String>);

/// One process of a node, and what is still on its way to it.
struct Node {
    store: Arc<Embedded>,
    local: Rc<Local>,
    settled: Arc<Settled>,
    arriving: Vec<Arriving>,
}

impl Node {
    async fn apply(&self, (key, stamp, value): &Arriving) {
        let value = value.as_ref().map(|value| Value::Inline(value.as_bytes()));
        self.local.apply([(key.as_bytes(), Cell { stamp: *stamp, value })]).await.expect("room");
    }

    /// What is as old as this, or whatever the number says, arrives.
    async fn arrive(&mut self, before: u64) {
        let (now, later) =
            self.arriving.drain(..).partition(|(_, stamp, _)| stamp.version.timestamp < before);
        self.arriving = later;
        let now: Vec<Arriving> = now;
        for arriving in &now {
            self.apply(arriving).await;
        }
    }
}

struct Client {
    span: KeySpan,
    since: Since,
    state: State,
    /// What this connection was told of each key.
    told: State,
    at: Option<(usize, Box<dyn Follower>)>,
}

impl Client {
    fn new(start: &'static str, end: Option<&'static str>) -> Client {
        let (state, told) = (State::new(), State::new());
        Client { span: key_span(start, end), since: Since::Beginning, state, told, at: None }
    }

    async fn connect(&mut self, number: usize, node: &Node) -> Result<(), Error> {
        self.told.clear();
        let followed = Followed { span: self.span.clone(), since: self.since.clone() };
        self.at = Some((number, node.local.follow(followed, Box::new(Text)).await?));
        Ok(())
    }

    async fn read(&mut self) -> bool {
        let (number, follower) = self.at.take().expect("it is connected");
        let (piece, rest) = follower.next().await.expect("a piece");
        self.at = Some((number, rest));
        for (key, known) in parse(piece.bytes) {
            let before = self.told.insert(key.clone(), known.clone());
            assert!(
                before.as_ref().is_none_or(|before| before.timestamp <= known.timestamp),
                "{key}: {before:?}"
            );
            // Another node may tell again what this one was told, or what came before it.
            if self.state.get(&key).is_none_or(|newest| newest.timestamp <= known.timestamp) {
                self.state.insert(key, known);
            }
        }
        if let Some(token) = piece.token {
            self.since = Since::Token(Bytes::from(token.into_string()));
        }
        piece.is_all
    }

    /// Asks this node for a piece, over a connection of its own; answers whether there is nothing more now.
    async fn poll(&mut self, number: usize, node: &Node) -> bool {
        self.connect(number, node).await.expect("it may go on");
        let is_all = self.read().await;
        self.at = None;
        is_all
    }

    async fn poll_all(&mut self, number: usize, node: &Node) {
        for _ in 0..POLLS_MAX {
            if self.poll(number, node).await {
                return;
            }
        }
        panic!("it is told the same again and again: {:?}", self.since);
    }
}

struct World {
    env: Env,
    clock: SimClock,
    rng: SimRng,
    versions: Arc<VersionClock>,
    settled: [u64; NODES],
    model: State,
    clients: Vec<Client>,
}

impl World {
    fn new(seed: u64) -> World {
        let (env, _disk, clock) = sim::env(seed);
        let versions = Arc::new(VersionClock::new(Arc::clone(&env.clock)));
        let clients = vec![Client::new("", None), Client::new("k10", Some("k25")), Client::new("k3", None)];
        World {
            env,
            clock,
            rng: SimRng::new(seed),
            versions,
            settled: [0; NODES],
            model: State::new(),
            clients,
        }
    }

    fn start(&self, number: usize) -> Node {
        let mut options = Options::new(16 << 20, Durability::Never);
        options.background = Background::Manual;
        options.table_bytes = Some(16 << 10);
        let dir = format!("/node-{number}");
        let store = Embedded::open_replica_to_follow(self.env.clone(), Path::new(&dir), options, KEPT_MS);
        let store = Arc::new(store.expect("a store that opens"));
        let before = AtomicU64::new(self.settled[number]);
        let settled = Arc::new(Settled { before, versions: Arc::clone(&self.versions) });
        store.arrivals(Arc::clone(&settled) as _);
        store.observe(Arc::new(Nobody)).expect("a thread");
        let local = Rc::new(store.attach(&Supervisor::default()));
        Node { store, local, settled, arriving: Vec::new() }
    }

    /// A write that two nodes have at once, or all of them, and the others later.
    async fn write(&mut self, nodes: &mut [Node], is_deletion: bool) {
        let key = format!("k{:02}", self.rng.below(KEYS));
        let stamp = Stamp::new(Version { timestamp: self.versions.next(), node: 0 });
        let length = [10, 200, 3_000, 30_000][self.rng.below(4) as usize];
        let value = (!is_deletion).then(|| format!("{}-{}", self.rng.next_u64(), "v".repeat(length)));
        let arriving = (key.clone(), stamp, value.clone());
        let late = self.rng.below(2 * NODES as u64) as usize;
        for (number, node) in nodes.iter_mut().enumerate() {
            if number == late {
                node.arriving.push(arriving.clone());
            } else {
                node.apply(&arriving).await;
            }
        }
        self.model.insert(key, KnownCell { timestamp: stamp.version.timestamp, expires_ms: 0, value });
    }

    /// What is older than now has arrived at a node; deletions that are older than that at all nodes may go.
    async fn settle(&mut self, nodes: &mut [Node], number: usize) {
        let before = self.versions.next();
        nodes[number].arrive(before).await;
        nodes[number].settled.before.store(before, Ordering::Relaxed);
        self.settled[number] = before;
        let all = self.settled.into_iter().min().unwrap_or(0);
        nodes.iter().for_each(|node| node.store.drop_tombstones_before(all));
    }

    async fn step(&mut self, nodes: &mut [Node]) {
        let number = self.rng.below(NODES as u64) as usize;
        let client = self.rng.below(self.clients.len() as u64) as usize;
        match self.rng.below(100) {
            0..50 => self.write(nodes, false).await,
            50..60 => self.write(nodes, true).await,
            60..67 => {
                let some = self.rng.below(self.versions.last());
                nodes[number].arrive(some.max(self.settled[number])).await;
            }
            67..70 => self.settle(nodes, number).await,
            70..74 => nodes[number].store.engine.seal().expect("room"),
            74..80 => {
                nodes[number].store.engine.step().expect("a sound disk");
            }
            80..83 => self.clock.advance(Duration::from_secs(self.rng.below(60))),
            83..87 => drop(self.clients[client].poll(number, &nodes[number]).await),
            87..94 => {
                if self.clients[client].at.is_some() {
                    self.clients[client].read().await;
                }
            }
            94..99 => self.clients[client].connect(number, &nodes[number]).await.expect("it may go on"),
            _ => {
                for client in &mut self.clients {
                    client.at.take_if(|(at, _)| *at == number);
                }
                nodes[number].store.close().expect("a store that closes");
                let arriving = std::mem::take(&mut nodes[number].arriving);
                nodes[number] = self.start(number);
                nodes[number].arriving = arriving;
            }
        }
    }

    async fn run(&mut self, steps: u64) {
        let mut nodes: Vec<Node> = (0..NODES).map(|number| self.start(number)).collect();
        for node in &nodes {
            node.local.keep_deletions().await.expect("room");
        }
        for _ in 0..steps {
            self.step(&mut nodes).await;
        }
        for node in &mut nodes {
            node.arrive(u64::MAX).await;
        }
        for (number, (client, node)) in self.clients.iter_mut().zip(&nodes).enumerate() {
            match client.at {
                Some(_) => while !client.read().await {},
                None => client.poll_all(number, node).await,
            }
            let (found, expected) =
                (values(&client.state, &client.span, 0), values(&self.model, &client.span, 0));
            assert!(found == expected, "client {number}: {:?}", differing(&found, &expected));
            client.at = None;
        }
        nodes.iter().for_each(|node| node.store.close().expect("a store that closes"));
    }
}

fn on_a_loop(work: impl AsyncFnOnce()) {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(work());
}

#[test]
fn who_follows_at_any_node_ends_up_with_what_is_newest() {
    for seed in 0..16 {
        let mut world = World::new(seed);
        for _ in 0..3 {
            on_a_loop(async || world.run(300).await);
        }
    }
}

/// Until the day that deletions are kept is over, counted from what has settled.
#[test]
fn a_token_of_any_node_is_good_until_deletions_behind_it_may_be_gone() {
    on_a_loop(async || {
        let mut world = World::new(1);
        let mut nodes: Vec<Node> = (0..NODES).map(|number| world.start(number)).collect();
        for number in 0..NODES {
            world.settle(&mut nodes, number).await;
        }
        for node in &nodes {
            node.local.keep_deletions().await.expect("room");
        }
        let mut client = Client::new("", None);
        client.since = Since::Now;
        client.connect(0, &nodes[0]).await.expect("it begins");
        assert!(client.read().await && client.state.is_empty());
        world.clock.advance(Duration::from_millis(KEPT_MS - 60_000));
        for number in 0..NODES {
            world.settle(&mut nodes, number).await;
            client.connect(number, &nodes[number]).await.expect("it is young enough");
        }
        client.at = None;
        world.clock.advance(Duration::from_mins(2));
        let mut oldest = Box::default();
        for number in 0..NODES {
            world.settle(&mut nodes, number).await;
            // Not even by the node that gave it, once it is another process.
            nodes[number].store.close().expect("a store that closes");
            nodes[number] = world.start(number);
            match client.connect(number, &nodes[number]).await {
                Err(Error::ChangesGone { reason, oldest: good }) if reason.contains("too old") => {
                    oldest = good;
                }
                other => panic!("{other:?}"),
            }
        }
        client.since = Since::Token(Bytes::from(oldest.into_string()));
        client.connect(1, &nodes[1]).await.expect("it was said to be good");
        client.since = Since::Beginning;
        client.connect(2, &nodes[2]).await.expect("it needs no deletions");
        nodes.iter().for_each(|node| node.store.close().expect("a store that closes"));
    });
}
