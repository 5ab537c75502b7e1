use bytes::Bytes;
use ladoga_env::Clock;
use ladoga_env::sim::{self, PowerCut};
use ladoga_model as model;
use ladoga_service::{Changed, Error, KeyValue, NewValue, Precondition, Seen, StoreError, Transaction};
use ladoga_storage::Durability;

use super::tests::{Lone, Service, context, newest};
use super::*;

type Uploaded = <<Service as KeyValue>::Upload as Upload>::Finished;

fn key(key: &'static str) -> Bytes {
    Bytes::from_static(key.as_bytes())
}

fn put(value: &str) -> NewValue<Uploaded> {
    NewValue { value: Some(model::Value::Inline(Bytes::copy_from_slice(value.as_bytes()))), expires_at_ms: 0 }
}

async fn transact(
    service: &Service,
    seen: Vec<(Bytes, Seen)>,
    writes: Vec<(Bytes, NewValue<Uploaded>)>,
) -> Result<Result<(), Changed>, Error> {
    service.transact(Transaction { seen, writes }).expect("a node on its own has transactions").await
}

async fn seen(service: &Service, of: &'static str) -> (Bytes, Seen) {
    let cell = newest(service, of.as_bytes()).await;
    let is_there = cell.as_ref().is_some_and(|cell| cell.value.is_some());
    (key(of), Seen { version: cell.map(|cell| cell.stamp.version), is_there })
}

async fn text(service: &Service, key: &str) -> Option<String> {
    match newest(service, key.as_bytes()).await?.value? {
        ladoga_service::Value::Inline(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        ladoga_service::Value::Large(_) => None,
    }
}

#[test]
fn a_transaction_happens_if_nothing_that_it_saw_has_changed() {
    for durability in [Durability::Always, Durability::Never] {
        let (env, _disk, clock) = sim::env(1);
        let lone = Lone::open(&env, durability);
        let now_ms = clock.wall_ms();
        lone.on_a_loop(async |service| {
            let (a, b) = (seen(&service, "a").await, seen(&service, "b").await);
            let both = || vec![(key("a"), put("1")), (key("b"), put("1"))];
            assert_eq!(transact(&service, vec![a.clone(), b.clone()], both()).await, Ok(Ok(())));
            assert_eq!(transact(&service, vec![a, b], both()).await, Ok(Err(Changed(0))));
            let (a, b) = (seen(&service, "a").await, seen(&service, "b").await);
            service
                .put(&context(Precondition::None), b"b", Bytes::from_static(b"2"), ())
                .await
                .expect("a write");
            assert_eq!(transact(&service, vec![a.clone(), b], both()).await, Ok(Err(Changed(1))));
            assert_eq!(text(&service, "b").await.as_deref(), Some("2"));
            // A deletion, and a value that ends.
            let expires = NewValue { expires_at_ms: now_ms + 60_000, ..put("3") };
            let gone = NewValue { value: None, expires_at_ms: 0 };
            let writes = vec![(key("a"), gone), (key("b"), expires)];
            assert_eq!(transact(&service, vec![a], writes).await, Ok(Ok(())));
            assert_eq!(text(&service, "a").await, None);
            let cell = newest(&service, b"b").await.expect("it is there");
            assert_eq!(cell.stamp.expires_at_ms, now_ms + 60_000);
            // What is written behind it is newer.
            service
                .put(&context(Precondition::None), b"b", Bytes::from_static(b"4"), ())
                .await
                .expect("a write");
            assert_eq!(text(&service, "b").await.as_deref(), Some("4"));
        });
        lone.store.close().expect("a store that closes");
    }
}

/// Transactions, one behind the other, each of which writes its number under three keys: after a cut, all three have the same, and
/// no older one than the last that was acknowledged.
#[test]
fn a_power_cut_leaves_all_of_a_transaction_or_nothing() {
    const KEYS: [&str; 3] = ["a", "b", "c"];
    for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
        for seed in 0..4 {
            let mut sync = 0;
            loop {
                let (env, disk, _clock) = sim::env(seed);
                let lone = Lone::open(&env, Durability::Always);
                disk.cut_power_at_sync(sync, policy);
                let acknowledged = lone.on_a_loop(async |service| {
                    for number in 1..=6 {
                        let value = format!("{number}{}", "x".repeat(number * 1_000));
                        let writes = KEYS.map(|of| (key(of), put(&value))).into();
                        match transact(&service, Vec::new(), writes).await {
                            Ok(Ok(())) => {}
                            Err(Error::Store(StoreError::Failed { .. })) if !disk.is_powered() => {
                                return number - 1;
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                    6
                });
                let is_cut = !disk.is_powered();
                drop(lone);
                disk.clear_faults();
                disk.power_on();
                let lone = Lone::open(&env, Durability::Always);
                lone.on_a_loop(async |service| {
                    let mut found = Vec::new();
                    for key in KEYS {
                        found.push(text(&service, key).await);
                    }
                    assert!(found.iter().all(|one| *one == found[0]), "sync {sync}, {policy:?}: {found:?}");
                    let number =
                        found[0].as_ref().map_or(0, |text| text[..1].parse::<usize>().expect("a number"));
                    assert!(number >= acknowledged, "{number} after {acknowledged}; sync {sync}, {policy:?}");
                });
                if !is_cut {
                    break;
                }
                sync += 1;
            }
            assert!(sync > 3, "it was cut {sync} times only");
        }
    }
}
