use std::path::Path;

use ladoga_env::Env;
use ladoga_env::sim::{self, PowerCut, SimDisk};
use ladoga_model::{Replicas, Value};
use ladoga_runtime::Supervisor;
use ladoga_service::{KeyChange, KeyWritten, NotWritten, Precondition, StoreError};
use ladoga_storage::{Background, Durability, Options};
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::embedded::Embedded;
use crate::store::CellGate;
use crate::{LoneVersions, VersionClock};

type Service = OneNode<Embedded, Arc<LoneVersions>>;

const POLICIES: [PowerCut; 3] = [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random];

fn context() -> Context {
    Context::new(Replicas { ack: 1, from: 1 })
}

/// Opens the store of a node on its own, and works on one of its event loops.
fn on_a_loop<T>(env: &Env, durability: Durability, work: impl AsyncFnOnce(Service) -> T) -> T {
    let options = Options { background: Background::Manual, ..Options::new(16 << 20, durability) };
    let store = Embedded::open(env.clone(), Path::new("/data"), options).expect("a store that opens");
    let versions = Arc::new(LoneVersions::new(VersionClock::new(Arc::clone(&env.clock))));
    versions.clock().continue_after(store.last_timestamp());
    let store = Arc::new(store);
    store.gate(Arc::clone(&versions) as Arc<dyn CellGate>);
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let done = runtime.expect("a runtime").block_on(async {
        let local = Rc::new(store.attach(&Supervisor::default()));
        work(OneNode::new(Arc::clone(&store), local, versions)).await
    });
    // Without power it cannot be closed.
    let _ = store.close();
    done
}

fn write(key: &str, change: KeyChange) -> KeyWrite {
    KeyWrite { key: Bytes::copy_from_slice(key.as_bytes()), precondition: Precondition::None, change }
}

/// A value that says which round it is of, and is long enough to be torn.
fn of_round(round: u64, bytes: usize) -> KeyChange {
    KeyChange::Put(Bytes::from(format!("{round:bytes$}")), None)
}

async fn text(service: &Service, key: &str) -> Option<String> {
    let found = service.get(&context(), key.as_bytes()).wait().await.expect("it can be read");
    match found?.value? {
        Value::Inline(bytes) => Some(String::from_utf8(bytes.to_vec()).expect("text")),
        Value::Large(_) => None,
    }
}

/// The number that a key has; 0 if there is none.
async fn number(service: &Service, key: &str) -> u64 {
    text(service, key).await.map_or(0, |text| text.trim().parse().expect("a number"))
}

async fn written(service: &Service, writes: Vec<KeyWrite>) -> Vec<KeyWritten> {
    service.write_together(&context(), writes).await.expect("a store that writes").expect("all of them")
}

/// Puts, increments, a deletion in every other round; one key twice.
fn round_of(round: u64) -> Vec<KeyWrite> {
    let of_parity = if round.is_multiple_of(2) { KeyChange::Delete } else { of_round(round, 10) };
    vec![
        write("first", of_round(round, 20_000)),
        write("sum", KeyChange::Increment(1)),
        write("parity", of_parity),
        write("twice", of_round(0, 10)),
        write("last", of_round(round, 3_000)),
        write("twice", of_round(round, 10)),
    ]
}

/// Works until the power goes off. Answers how many rounds were acknowledged.
async fn rounds(service: Service, disk: &SimDisk) -> u64 {
    for round in 1..=8 {
        match service.write_together(&context(), round_of(round)).await {
            Ok(written) => assert_eq!(written.expect("there are no conditions").len(), 6),
            Err(error) => {
                assert!(!disk.is_powered(), "it failed with the power on: {error}");
                return round - 1;
            }
        }
    }
    8
}

fn assert_is_whole(
    cut: impl Fn(&SimDisk, u64, PowerCut),
    (number_of_cut, policy): (u64, PowerCut),
    durability: Durability,
) -> bool {
    let (env, disk, _clock) = sim::env(number_of_cut);
    let acknowledged = on_a_loop(&env, durability, async |service| {
        cut(&disk, number_of_cut, policy);
        rounds(service, &disk).await
    });
    let is_cut = !disk.is_powered();
    disk.clear_faults();
    disk.power_on();
    on_a_loop(&env, durability, async |service| {
        let round = number(&service, "first").await;
        let what =
            format!("{durability:?}, cut {number_of_cut}, {policy:?}: round {round} of {acknowledged}");
        let is_kept = durability != Durability::Always || round >= acknowledged;
        assert!(is_kept && round <= acknowledged + 1, "{what}");
        for key in ["sum", "twice", "last"] {
            assert_eq!(number(&service, key).await, round, "{key}: {what}");
        }
        assert_eq!(
            number(&service, "parity").await,
            if round.is_multiple_of(2) { 0 } else { round },
            "{what}"
        );
        // And it goes on.
        written(&service, round_of(round + 1)).await;
    });
    is_cut
}

#[test]
fn a_power_cut_at_every_sync_leaves_all_of_the_writes_or_none() {
    for policy in POLICIES {
        let mut sync = 0;
        while assert_is_whole(SimDisk::cut_power_at_sync, (sync, policy), Durability::Always) {
            sync += 1;
        }
        assert!(sync >= 8, "only {sync} places for a cut");
    }
}

#[test]
fn a_power_cut_at_every_operation_leaves_all_of_the_writes_or_none() {
    for durability in [Durability::Always, Durability::Never] {
        for policy in POLICIES {
            let mut operation = 0;
            while assert_is_whole(SimDisk::cut_power_at_operation, (operation, policy), durability) {
                operation += 1;
            }
            assert!(operation >= 8, "only {operation} places for a cut");
        }
    }
}

/// More than fits into one record of the log is queued at once: the group is cut between those that happen together.
#[test]
fn a_group_that_is_written_in_parts_keeps_each_of_them_whole() {
    const MANY: u64 = 8;
    let key = |one: u64, number: usize| format!("{one}-{number}");
    for policy in POLICIES {
        for operation in 0.. {
            let (env, disk, _clock) = sim::env(operation);
            let acknowledged = on_a_loop(&env, Durability::Always, async |service| {
                disk.cut_power_at_operation(operation, policy);
                let queued: Vec<_> = (1..=MANY)
                    .map(|one| {
                        let writes = (0..3).map(|number| write(&key(one, number), of_round(one, 50_000)));
                        service.write_together(&context(), writes.collect())
                    })
                    .collect();
                let mut acknowledged = Vec::new();
                for one in queued {
                    acknowledged.push(one.await.is_ok());
                }
                acknowledged
            });
            let is_cut = !disk.is_powered();
            disk.clear_faults();
            disk.power_on();
            on_a_loop(&env, Durability::Always, async |service| {
                for (one, acknowledged) in (1..=MANY).zip(acknowledged) {
                    let what = format!("{one}, cut {operation}, {policy:?}");
                    let first = number(&service, &key(one, 0)).await;
                    assert!(first == one || !acknowledged, "it is lost: {what}");
                    for other in 1..3 {
                        assert_eq!(number(&service, &key(one, other)).await, first, "{what}");
                    }
                }
            });
            if !is_cut {
                assert!(operation >= 4, "only {operation} places for a cut");
                break;
            }
        }
    }
}

#[test]
fn one_condition_that_is_not_met_keeps_all_of_them_from_being_written() {
    for durability in [Durability::Always, Durability::Never] {
        let (env, _disk, _clock) = sim::env(1);
        on_a_loop(&env, durability, async |service| {
            let before = written(&service, round_of(1)).await;
            let versions: Vec<Version> = before.iter().map(|written| written.stamp.version).collect();
            assert!(versions.is_sorted() && versions.windows(2).all(|two| two[0] < two[1]), "{versions:?}");
            let stale = KeyWrite {
                precondition: Precondition::IfMatch([versions[3]].into()),
                ..write("twice", KeyChange::Delete)
            };
            let mut writes = round_of(2);
            writes.push(stale);
            let refused = service.write_together(&context(), writes).await.expect("an answer");
            // It sees the writes before it.
            let Err(NotWritten { index: 6, error: Error::PreconditionFailed { current: Some(current) } }) =
                refused
            else {
                panic!("{refused:?}")
            };
            assert!(current > versions[5]);
            for key in ["first", "sum", "twice", "last", "parity"] {
                assert_eq!(number(&service, key).await, 1, "{key}");
            }
            let current = KeyWrite {
                precondition: Precondition::IfMatch([versions[5]].into()),
                ..write("twice", KeyChange::Delete)
            };
            let done = written(&service, vec![current, write("sum", KeyChange::Increment(40))]).await;
            assert_eq!((done[0].sum, done[1].sum), (None, Some(41)));
            assert_eq!((text(&service, "twice").await, number(&service, "sum").await), (None, 41));
        });
    }
}

#[test]
fn what_memory_does_not_have_is_read_before_it_is_decided() {
    let (env, disk, _clock) = sim::env(1);
    on_a_loop(&env, Durability::Always, async |service| {
        written(&service, round_of(1)).await;
    });
    disk.set_cached(false);
    on_a_loop(&env, Durability::Always, async |service| {
        let sums = written(&service, round_of(2)).await;
        assert_eq!(sums[1].sum, Some(2));
    });
}

#[test]
fn a_full_disk_takes_writes_that_only_delete() {
    let (env, disk, _clock) = sim::env(1);
    on_a_loop(&env, Durability::Always, async |service| {
        for key in ["a", "b", "c"] {
            written(&service, vec![write(key, of_round(1, 10))]).await;
        }
        let used = (1 << 40) - env.disk.free_bytes(Path::new("/data")).expect("free bytes");
        disk.set_capacity(used + 2_048);
        // Looks how much room there is.
        let upload = service.upload(&context(), b"large").await.expect("an upload");
        assert!(upload.write(Bytes::from(vec![7; 2 << 20])).await.is_err());
        service.admit_together().expect("it may be that they only delete");
        // In one group with a write that there is no room for.
        let put = service.put(&context(), b"other", Bytes::from_static(b"value"), ());
        let deletes = ["a", "b"].map(|key| write(key, KeyChange::Delete)).into();
        let deleted = service.write_together(&context(), deletes);
        let put = put.await;
        assert!(matches!(put, Err(Error::Store(StoreError::NoRoom { .. }))), "{put:?}");
        assert_eq!(deleted.await.expect("a store that deletes").map(|deleted| deleted.len()), Ok(2));
        for change in [of_round(2, 10), KeyChange::Increment(1)] {
            let mixed = vec![write("c", KeyChange::Delete), write("d", change)];
            let refused = service.write_together(&context(), mixed).await;
            assert!(matches!(refused, Err(Error::Store(StoreError::NoRoom { .. }))), "{refused:?}");
        }
        assert_eq!((text(&service, "a").await, text(&service, "b").await), (None, None));
        assert!(text(&service, "c").await.is_some(), "none of them happened");
        disk.set_capacity(None);
    });
}

#[test]
fn what_does_not_fit_into_one_record_is_refused_before_anything_is_written() {
    let (env, _disk, _clock) = sim::env(1);
    on_a_loop(&env, Durability::Always, async |service| {
        let writes = (0..20).map(|number| write(&number.to_string(), of_round(1, 41_000)));
        let refused = service.write_together(&context(), writes.collect()).await;
        let Err(Error::Store(StoreError::TooLargeTogether { bytes, bytes_max })) = refused else {
            panic!("{refused:?}")
        };
        assert!(bytes > 800_000 && bytes_max < bytes, "{bytes} of {bytes_max}");
        assert_eq!(number(&service, "0").await, 0);
    });
}

/// They were told as fewer bytes than there may be.
#[test]
fn what_has_too_many_keys_for_the_memory_is_told_as_what_it_takes_there() {
    let (env, _disk, _clock) = sim::env(1);
    on_a_loop(&env, Durability::Always, async |service| {
        let deletes = (0..7_000).map(|number| write(&number.to_string(), KeyChange::Delete));
        let refused = service.write_together(&context(), deletes.collect()).await;
        let Err(Error::Store(StoreError::TooLargeTogether { bytes, bytes_max })) = refused else {
            panic!("{refused:?}")
        };
        assert!(bytes_max < bytes, "{bytes} of {bytes_max}");
    });
}
