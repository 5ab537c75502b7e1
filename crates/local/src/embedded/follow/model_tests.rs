//! The feed against a model: whatever is written, flushed, compacted, restarted, and however slowly somebody reads, who follows ends
//! up with what is stored; and the versions of a key rise.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_env::sim::{self, PowerCut, SimClock, SimDisk, SimRng};
use ladoga_env::{Env, Rng};
use ladoga_model::{Cell, Replicas, Stamp, Ttl, Value, Version};
use ladoga_runtime::Supervisor;
use ladoga_service::{Context, Error, Followed, Follower, KeySpan, KeyValue, Since};
use ladoga_storage::{Background, Durability, Options};
use tokio::runtime::{Builder, LocalOptions};

use super::super::{Embedded, Local};
use super::told::{KnownCell, State, Text, differing, key_span, parse, values};
use crate::store::{LocalStore, Store};
use crate::{LoneVersions, OneNode, VersionClock};

pub(super) const KEPT_MS: u64 = 3_600_000;
const KEYS: u64 = 40;
/// More requests than it takes to read all of that twice, a piece at a time.
pub(super) const POLLS_MAX: u32 = 200;

pub(super) type Service = OneNode<Embedded, Arc<LoneVersions>>;

/// Somebody who follows, and keeps what was told.
pub(super) struct Client {
    pub(super) span: KeySpan,
    pub(super) since: Since,
    pub(super) state: State,
    /// What this connection was told of each key.
    pub(super) told: BTreeMap<String, u64>,
    pub(super) follower: Option<Box<dyn Follower>>,
}

impl Client {
    pub(super) fn new(start: &'static str, end: Option<&'static str>) -> Client {
        let span = key_span(start, end);
        Client { span, since: Since::Beginning, state: State::new(), told: BTreeMap::new(), follower: None }
    }

    pub(super) async fn connect(&mut self, service: &Service) -> Result<(), Error> {
        self.told.clear();
        let followed = Followed { span: self.span.clone(), since: self.since.clone() };
        self.follower = Some(service.follow(followed, Box::new(Text)).await?);
        Ok(())
    }

    /// Reads a piece; answers whether there is nothing more now.
    pub(super) async fn read(&mut self) -> bool {
        let follower = self.follower.take().expect("it is connected");
        let (piece, rest) = follower.next().await.expect("a piece");
        self.follower = Some(rest);
        for (key, known) in parse(piece.bytes) {
            let before = self.told.insert(key.clone(), known.timestamp);
            assert!(
                before.is_none_or(|before| before < known.timestamp),
                "{key}: {known:?} after {before:?}"
            );
            self.state.insert(key, known);
        }
        if let Some(token) = piece.token {
            self.since = Since::Token(Bytes::from(token.into_string()));
        }
        piece.is_all
    }

    pub(super) async fn read_all(&mut self) {
        while !self.read().await {}
    }

    /// Asks for a piece, over a connection of its own; answers whether there is nothing more now.
    async fn poll(&mut self, service: &Service) -> bool {
        self.connect(service).await.expect("it may go on");
        let is_all = self.read().await;
        self.follower = None;
        is_all
    }

    pub(super) async fn poll_all(&mut self, service: &Service) {
        for _ in 0..POLLS_MAX {
            if self.poll(service).await {
                return;
            }
        }
        panic!("it is told the same again and again: {:?}", self.since);
    }
}

pub(super) struct World {
    pub(super) env: Env,
    pub(super) disk: SimDisk,
    pub(super) clock: SimClock,
    rng: SimRng,
    durability: Durability,
    pub(super) model: State,
    clients: Vec<Client>,
}

impl World {
    pub(super) fn new(seed: u64, durability: Durability) -> World {
        let (env, disk, clock) = sim::env(seed);
        let clients = vec![Client::new("", None), Client::new("k10", Some("k25")), Client::new("k3", None)];
        World { env, disk, clock, rng: SimRng::new(seed), durability, model: State::new(), clients }
    }

    pub(super) fn open(&self) -> Arc<Embedded> {
        let mut options = Options::new(16 << 20, self.durability);
        options.background = Background::Manual;
        options.table_bytes = Some(16 << 10);
        let store =
            Embedded::open_to_follow(self.env.clone(), Path::new("/data"), options, KEPT_MS, || Ok(()));
        Arc::new(store.expect("a store that opens"))
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.env.clock.wall_ms()
    }

    fn note(&mut self, key: &str, timestamp: u64, expires_ms: u64, value: Option<String>) {
        let known = KnownCell { timestamp, expires_ms, value };
        let newest = self.model.entry(key.to_owned()).or_insert_with(|| known.clone());
        if newest.timestamp < timestamp {
            *newest = known;
        }
    }

    pub(super) async fn put(&mut self, service: &Service, key: &str, ttl_ms: Option<u64>) {
        let length = [10, 200, 3_000, 30_000][self.rng.below(4) as usize];
        let value = format!("{}-{}", self.rng.next_u64(), "v".repeat(length));
        let ttl = ttl_ms.map(|ms| Ttl::parse(format!("{ms}ms").as_bytes()).expect("a duration"));
        let context = Context { ttl, ..context() };
        let put = service.put(&context, key.as_bytes().to_vec(), Bytes::from(value.clone()), ());
        let version = put.await.expect("room");
        let expires_ms = ttl.map_or(0, |ttl| ttl.ends_ms(self.now_ms()));
        self.note(key, version.timestamp, expires_ms, Some(value));
    }

    /// A write that is committed after others that got a later version.
    async fn put_late(&mut self, service: &Service, versions: &LoneVersions, local: &Local, key: &str) {
        let stamp = Stamp::new(Version { timestamp: versions.clock().next(), node: 0 });
        for _ in 0..3 {
            let other = self.key();
            self.put(service, &other, None).await;
        }
        let value = format!("late-{}", self.rng.next_u64());
        let cell = Cell { stamp, value: Some(Value::Inline(value.as_bytes())) };
        let renewed = local.apply([(key.as_bytes(), cell)]).await.expect("room");
        self.note(key, renewed.unwrap_or(stamp.version).timestamp, 0, Some(value));
    }

    fn key(&self) -> String {
        format!("k{:02}", self.rng.below(KEYS))
    }

    async fn step(
        &mut self,
        store: &Arc<Embedded>,
        (service, versions, local): (&Service, &LoneVersions, &Local),
    ) {
        let (key, client) = (self.key(), self.rng.below(self.clients.len() as u64) as usize);
        match self.rng.below(100) {
            0..40 => self.put(service, &key, None).await,
            40..50 => {
                let deleted = service.delete(&context(), key.as_bytes().to_vec()).await.expect("room");
                self.note(&key, deleted.timestamp, 0, None);
            }
            50..55 => self.put(service, &key, Some(1 + self.rng.below(100_000))).await,
            55..60 => self.put_late(service, versions, local, &key).await,
            60..65 => {
                let number = format!("n{}", self.rng.below(3));
                let (sum, stamp) =
                    service.increment(&context(), number.clone().into_bytes(), 1).await.expect("room");
                self.note(&number, stamp.version.timestamp, 0, Some(sum.to_string()));
            }
            65..70 => store.engine.seal().expect("room"),
            70..80 => {
                store.engine.step().expect("a sound disk");
            }
            80..85 => self.clock.advance(Duration::from_secs(self.rng.below(100))),
            85..90 => {
                if self.clients[client].follower.is_some() {
                    self.clients[client].read().await;
                }
            }
            90..95 => drop(self.clients[client].poll(service).await),
            _ => self.clients[client].connect(service).await.expect("it may go on"),
        }
    }

    /// A process, from its start to its end.
    fn live(&mut self, steps: u64) {
        let store = self.open();
        on_a_loop(&store, async |local| {
            let versions = versions(&store, &self.env);
            let local = Rc::new(local);
            let service = OneNode::new(Arc::clone(&store), Rc::clone(&local), Arc::clone(&versions));
            for _ in 0..steps {
                self.step(&store, (&service, &*versions, &*local)).await;
            }
            for client in &mut self.clients {
                match &client.follower {
                    Some(_) => client.read_all().await,
                    None => client.poll_all(&service).await,
                }
            }
            let now_ms = self.now_ms();
            for (number, client) in self.clients.iter_mut().enumerate() {
                let (found, expected) =
                    (values(&client.state, &client.span, now_ms), values(&self.model, &client.span, now_ms));
                assert!(found == expected, "client {number}: {:?}", differing(&found, &expected));
                // Half of them leave before the process does, and miss its last writes.
                client.follower = None;
            }
            for _ in 0..self.rng.below(20) {
                let key = self.key();
                self.put(&service, &key, None).await;
            }
        });
        self.end(store);
    }

    fn end(&self, store: Arc<Embedded>) {
        match (self.rng.below(3), self.durability) {
            (0, _) => store.close().expect("a store that closes"),
            (1, Durability::Always) => {
                self.disk.power_cut(PowerCut::Random);
                drop(store);
                self.disk.power_on();
            }
            _ => {
                self.disk.kill_process();
                drop(store);
            }
        }
    }
}

pub(super) fn context() -> Context {
    Context::new(Replicas { ack: 1, from: 1 })
}

pub(super) fn versions(store: &Arc<Embedded>, env: &Env) -> Arc<LoneVersions> {
    let versions = Arc::new(LoneVersions::new(VersionClock::new(Arc::clone(&env.clock))));
    versions.clock().continue_after(store.last_timestamp());
    store.gate(Arc::clone(&versions) as _);
    store.order(Arc::clone(&versions) as _);
    versions
}

pub(super) fn on_a_loop<T>(store: &Arc<Embedded>, work: impl AsyncFnOnce(Local) -> T) -> T {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async { work(store.attach(&Supervisor::default())).await })
}

#[test]
fn who_follows_ends_up_with_what_is_stored() {
    for durability in [Durability::Always, Durability::Never] {
        for seed in 0..12 {
            let mut world = World::new(seed, durability);
            for _ in 0..4 {
                world.live(150);
            }
        }
    }
}
