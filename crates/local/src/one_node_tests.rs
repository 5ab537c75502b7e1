use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ladoga_env::sim::{self, PowerCut, SimDisk};
use ladoga_env::{Clock, Env};
use ladoga_model::Replicas;
use ladoga_runtime::Supervisor;
use ladoga_service::{Precondition, StoreError};
use ladoga_storage::{Background, Durability, Options};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::embedded::Embedded;
use crate::store::CellGate;
use crate::{LoneVersions, VersionClock};

const ONE: Replicas = Replicas { ack: 1, from: 1 };

/// A node on its own, over a disk that outlives it.
pub(super) struct Lone {
    pub(super) store: Arc<Embedded>,
    pub(super) versions: Arc<LoneVersions>,
}

pub(super) type Service = OneNode<Embedded, Arc<LoneVersions>>;

impl Lone {
    pub(super) fn open(env: &Env, durability: Durability) -> Lone {
        let options = Options { background: Background::Manual, ..Options::new(16 << 20, durability) };
        let store = Embedded::open(env.clone(), Path::new("/data"), options).expect("a store that opens");
        let versions = Arc::new(LoneVersions::new(VersionClock::new(Arc::clone(&env.clock))));
        versions.clock().continue_after(store.last_timestamp());
        let store = Arc::new(store);
        store.gate(Arc::clone(&versions) as Arc<dyn CellGate>);
        Lone { store, versions }
    }

    /// Runs on one of its event loops.
    pub(super) fn on_a_loop<T>(&self, work: impl AsyncFnOnce(Service) -> T) -> T {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.expect("a runtime").block_on(async {
            let local = Rc::new(self.store.attach(&Supervisor::default()));
            work(OneNode::new(Arc::clone(&self.store), local, Arc::clone(&self.versions))).await
        })
    }
}

pub(super) fn context(precondition: Precondition) -> Context {
    Context { precondition, ..Context::new(ONE) }
}

pub(super) async fn newest(service: &Service, key: &[u8]) -> Option<StoredCell> {
    service.get(&context(Precondition::None), key).wait().await.expect("it can be read")
}

async fn number(service: &Service, key: &'static [u8]) -> Option<i64> {
    match newest(service, key).await?.value? {
        model::Value::Inline(bytes) => str::from_utf8(&bytes).ok()?.parse().ok(),
        model::Value::Large(_) => None,
    }
}

#[derive(Debug, Clone)]
enum Act {
    Put(u8),
    Delete,
    Increment(i8),
    Expire(Option<Ttl>),
}

#[derive(Debug, Clone, Copy)]
enum If {
    Nothing,
    /// What was answered to the last write of the key.
    Current,
    /// What was answered to an older one, or to none.
    Stale,
    Present,
    Absent,
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) key: u8,
    act: Act,
    when: If,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    // No time passes.
    let ttl = proptest::option::of((1_u64..1 << 40).prop_map(|ms| Ttl::of_ms(ms).expect("in bounds")));
    let act = prop_oneof![
        any::<u8>().prop_map(Act::Put),
        Just(Act::Delete),
        any::<i8>().prop_map(Act::Increment),
        ttl.prop_map(Act::Expire),
    ];
    let when = prop_oneof![
        3 => Just(If::Nothing), 3 => Just(If::Current), 1 => Just(If::Stale), 2 => Just(If::Present), 2 => Just(If::Absent),
    ];
    let step = (0_u8..3, act, when).prop_map(|(key, act, when)| Step { key, act, when });
    proptest::collection::vec(step, 1..24)
}

/// What a key has: its value and how long that lives, and the version of that or of its deletion.
pub(super) type State = (Option<Living>, Version);
pub(super) type Living = (Vec<u8>, Option<Ttl>);

/// What a step asks for is not so.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MustFail {
    Precondition,
    NotFound,
}

/// What may be under each key: one state, or two if the last write got no answer.
#[derive(Default, Clone)]
pub(super) struct Expected(BTreeMap<u8, Vec<Option<State>>>);

impl Expected {
    pub(super) fn state(&self, key: u8) -> Option<State> {
        self.0.get(&key).and_then(|states| states[0].clone())
    }

    pub(super) fn with(&self, key: u8, state: Option<State>) -> Expected {
        let mut next = self.clone();
        next.0.insert(key, vec![state]);
        next
    }

    pub(super) fn precondition(&self, step: &Step) -> Precondition {
        let version = self.state(step.key).map(|(_, version)| version);
        match step.when {
            If::Nothing => Precondition::None,
            If::Current => Precondition::IfMatch(version.into_iter().collect()),
            If::Stale => {
                let stale = version.map_or(7, |version| version.timestamp - 1);
                Precondition::IfMatch([Version { timestamp: stale, node: 0 }].into())
            }
            If::Present => Precondition::IfMatchAny,
            If::Absent => Precondition::IfNoneMatchAny,
        }
    }

    /// What the key has after a step, unless that must not succeed.
    pub(super) fn after(&self, step: &Step) -> Result<Option<Living>, MustFail> {
        let value = self.state(step.key).and_then(|(value, _)| value);
        if value.is_none() && matches!(step.act, Act::Expire(_)) {
            return Err(MustFail::NotFound);
        }
        let is_true = match step.when {
            If::Nothing => true,
            If::Current | If::Present => value.is_some(),
            If::Stale => false,
            If::Absent => value.is_none(),
        };
        match (&step.act, is_true) {
            (_, false) => Err(MustFail::Precondition),
            (Act::Put(byte), true) => Ok(Some((byte.to_string().into_bytes(), None))),
            (Act::Delete, true) => Ok(None),
            (Act::Increment(by), true) => {
                let (number, ttl) = value.map_or((0, None), |(value, ttl)| {
                    (String::from_utf8(value).unwrap().parse::<i64>().unwrap(), ttl)
                });
                Ok(Some(((number + i64::from(*by)).to_string().into_bytes(), ttl)))
            }
            (Act::Expire(ttl), true) => Ok(value.map(|(value, _)| (value, *ttl))),
        }
    }
}

pub(super) async fn take(service: &Service, step: &Step, context: &Context) -> Result<Version, Error> {
    let key = vec![step.key];
    match step.act {
        Act::Put(byte) => service.put(context, key, Bytes::from(byte.to_string()), ()).await,
        Act::Delete => service.delete(context, key).await,
        Act::Increment(by) => {
            service.increment(context, key, i64::from(by)).await.map(|(_, stamp)| stamp.version)
        }
        Act::Expire(ttl) => service.expire(context, key, ttl).await.map(|stamp| stamp.version),
    }
}

/// Whether a cell is this value, or a deletion.
pub(super) fn is_of(cell: &StoredCell, living: Option<&Living>, now_ms: u64) -> bool {
    match (&cell.value, living) {
        (None, None) => true,
        (Some(model::Value::Inline(found)), Some((bytes, ttl))) => {
            found == bytes && cell.stamp.expires_at_ms == ttl.map_or(0, |ttl| ttl.ends_ms(now_ms))
        }
        _ => false,
    }
}

/// Takes the steps until one gets no answer because the power is off.
async fn run(service: Service, (disk, now_ms): (&SimDisk, u64), steps: &[Step]) -> Expected {
    let mut expected = Expected::default();
    for step in steps {
        let context = context(expected.precondition(step));
        let (before, after) = (expected.state(step.key), expected.after(step));
        match (take(&service, step, &context).await, after) {
            (Ok(version), Ok(value)) => {
                assert!(before.is_none_or(|(_, before)| before < version));
                let found = newest(&service, &[step.key]).await.expect("it is there");
                assert_eq!(found.stamp.version, version, "{step:?}");
                assert!(is_of(&found, value.as_ref(), now_ms), "{step:?}: {:?}", found.stamp);
                expected.0.insert(step.key, vec![Some((value, version))]);
            }
            (Err(Error::PreconditionFailed { current }), Err(MustFail::Precondition))
            | (Err(Error::NotFound { current }), Err(MustFail::NotFound)) => {
                assert_eq!(current, before.map(|(_, version)| version), "{step:?}");
            }
            (Err(Error::Store(StoreError::Failed { .. })), after) if !disk.is_powered() => {
                let may_be = after.ok().map(|value| Some((value, Version::MAX)));
                expected.0.insert(step.key, std::iter::once(before).chain(may_be).collect());
                return expected;
            }
            (answer, after) => panic!("{step:?}: {answer:?}, expected {after:?}"),
        }
    }
    expected
}

/// An acknowledged conditional write is there after a crash, and a refused one never; whatever got no answer is there whole, or
/// not at all.
fn assert_survives(steps: &[Step], sync: u64, policy: PowerCut, seed: u64) -> bool {
    let (env, disk, clock) = sim::env(seed);
    let lone = Lone::open(&env, Durability::Always);
    disk.cut_power_at_sync(sync, policy);
    let now_ms = clock.wall_ms();
    let expected = lone.on_a_loop(async |service| run(service, (&disk, now_ms), steps).await);
    let is_cut = !disk.is_powered();
    drop(lone);
    disk.clear_faults();
    disk.power_on();
    let lone = Lone::open(&env, Durability::Always);
    lone.on_a_loop(async |service| {
        for (key, states) in expected.0 {
            let found = newest(&service, &[key]).await;
            let is_one = states.iter().any(|state| match (state, &found) {
                (None, None) => true,
                (Some((value, version)), Some(cell)) => {
                    is_of(cell, value.as_ref(), now_ms)
                        && (*version == Version::MAX || *version == cell.stamp.version)
                }
                _ => false,
            });
            let found = found.map(|cell| (cell.stamp.version, cell.value.map(|value| value.inline_bytes())));
            assert!(
                is_one,
                "key {key}: {found:?}, expected one of {states:?}; cut at sync {sync}, {policy:?}"
            );
        }
        // And it goes on.
        service.increment(&context(Precondition::None), b"another", 1).await.expect("a write");
    });
    is_cut
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_at_every_sync_and_what_was_refused_does_not_happen() {
    let config = Config { failure_persistence: None, ..Config::with_cases(12) };
    let runs = TestRunner::new(config).run(&(steps(), any::<u64>()), |(steps, seed)| {
        for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
            let mut sync = 0;
            while assert_survives(&steps, sync, policy, seed) {
                sync += 1;
            }
        }
        Ok(())
    });
    runs.expect("no history that is none");
}

/// Says that it is over, also by a panic: or the others would go on for ever.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A write that had got its version and came to its commit behind an update was lost, though it had been acknowledged and the
/// update had not seen it.
#[test]
fn a_plain_write_that_meets_an_update_on_the_way_is_not_lost() {
    const KEY: &[u8] = b"key";
    const ROUNDS: i64 = 400;
    const ADDERS: usize = 2;
    const STEP: i64 = 1_000_000;
    for durability in [Durability::Always, Durability::Never] {
        let (env, _disk, _clock) = sim::env(1);
        let lone = Lone::open(&env, durability);
        let is_over = AtomicBool::new(false);
        let (is_adding, when_adding) = channel();
        thread::scope(|scope| {
            for _ in 0..ADDERS {
                let (lone, is_over, is_adding) = (&lone, &is_over, is_adding.clone());
                scope.spawn(move || {
                    lone.on_a_loop(async |service| {
                        while !is_over.load(Ordering::Relaxed) {
                            let before = number(&service, KEY).await.unwrap_or(0);
                            let added_to = service.increment(&context(Precondition::None), KEY, 1).await;
                            let (sum, _) = added_to.expect("a number");
                            assert!(sum > before, "{sum} after {before}");
                            // Nobody listens once all are at it.
                            let _ = is_adding.send(());
                        }
                    });
                });
            }
            let _ends = Ends(&is_over);
            lone.on_a_loop(async |service| {
                for _ in 0..ADDERS {
                    when_adding.recv_timeout(Duration::from_secs(90)).expect("one who adds");
                }
                for round in 1..=ROUNDS {
                    let value = Bytes::from((round * STEP).to_string());
                    let written = service.put(&context(Precondition::None), KEY, value, ()).await;
                    let version = written.expect("a write");
                    let found = newest(&service, KEY).await.expect("it is there");
                    assert!(found.stamp.version >= version);
                    let found = number(&service, KEY).await.expect("a number");
                    assert_eq!(found / STEP, round, "{found}: the write is lost");
                }
            });
        });
        lone.store.close().expect("a store that closes");
    }
}

#[test]
fn many_who_add_to_one_number_lose_none_on_any_loop() {
    const ADDS: i64 = 200;
    for durability in [Durability::Always, Durability::Never] {
        let (env, _disk, _clock) = sim::env(1);
        let lone = Lone::open(&env, durability);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    lone.on_a_loop(async |service| {
                        let context = context(Precondition::None);
                        for _ in 0..ADDS / 20 {
                            let added: Vec<_> =
                                (0..20).map(|_| service.increment(&context, b"sum", 1)).collect();
                            for one in added {
                                one.await.expect("a number");
                            }
                        }
                    });
                });
            }
        });
        let sum = lone.on_a_loop(async |service| number(&service, b"sum").await);
        assert_eq!(sum, Some(2 * ADDS));
        lone.store.close().expect("a store that closes");
    }
}
