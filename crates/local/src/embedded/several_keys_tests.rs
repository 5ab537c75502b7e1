//! What updates are told of their keys.

use std::path::Path;

use bytes::Bytes;
use ladoga_env::sim;
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_storage::{Background, Durability};
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::store::{LocalStore, NewCell, NewestCell};

/// More than a number has.
const LONG: &[u8] = &[7; 21];

fn cell(timestamp: u64, value: &[u8]) -> NewCell<Local> {
    let stamp = Stamp::new(Version { timestamp, node: 0 });
    Cell { stamp, value: Some(Value::Inline(Bytes::copy_from_slice(value))) }
}

/// Runs on an event loop of a store that is empty.
fn on_a_loop(durability: Durability, work: impl AsyncFnOnce(Local)) {
    let (env, _disk, _clock) = sim::env(1);
    let options = Options { background: Background::Manual, ..Options::new(16 << 20, durability) };
    let store = Embedded::open_replica(env, Path::new("/data"), options).expect("a store that opens");
    let store = Arc::new(store);
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async { work(store.attach(&Supervisor::default())).await });
    store.close().expect("a store that closes");
}

fn value(newest: Option<NewestCell>) -> Option<Value<Bytes, u64>> {
    newest.and_then(|newest| newest.value)
}

/// A number may have any number of zeros before it.
#[test]
fn long_numbers_are_numbers_for_updates_of_several_keys_as_well() {
    on_a_loop(Durability::Never, async |local| {
        let padded = cell(1, &[&[b'0'; 1_000][..], b"41"].concat());
        local.update(b"n", 2_000, |_| (Some(padded), ())).await.expect("it is stored");
        let told = local.update_together(vec![Bytes::from_static(b"n")], &[], |mut newest| {
            (Vec::new(), newest.pop().flatten())
        });
        let told = value(told.await.expect("an answer"));
        assert_eq!(ladoga_service::incremented(told.as_ref(), 1), Ok(42));
    });
}

/// All values of the keys together may be more than there is memory for: those of many updates that only ask whether there is one, too.
#[test]
fn of_long_values_updates_are_told_the_length() {
    for durability in [Durability::Always, Durability::Never] {
        on_a_loop(durability, async |local| {
            let keys = || [&b"long"[..], b"short", b"none"].map(Bytes::from_static).to_vec();
            let told = |local: &Local| {
                local.update_together(keys(), &[], |newest| {
                    (Vec::new(), newest.into_iter().map(value).collect::<Vec<_>>())
                })
            };
            for (key, stored) in [(&b"long"[..], cell(1, LONG)), (b"short", cell(1, &LONG[1..]))] {
                local.update(key, 100, |_| (Some(stored), ())).await.expect("it is stored");
            }
            let short = Some(Value::Inline(Bytes::from_static(&LONG[1..])));
            let expected = vec![Some(Value::Large(LONG.len() as u64)), short.clone(), None];
            // In a group with updates of the same keys, before and behind it.
            let of_one = local.update(b"long", 100, |newest| (None, value(newest)));
            let first = told(&local);
            assert_eq!(of_one.await, Ok(expected[0].clone()));
            let whole = local.inspect(b"long", value);
            let stamped = Stamp::new(Version { timestamp: 2, node: 0 });
            let restamped = local.restamp(b"long", move |_| (Some(stamped), ()));
            let replaced = local.update(b"short", 100, |_| (Some(cell(2, b"new")), ()));
            let last = told(&local);
            let whole_value = Some(Value::Inline(Bytes::from_static(LONG)));
            let first = first.await.expect("an answer");
            // Whether what shares a group with one that needs the value is told more is left open.
            assert!(first == expected || first == [whole_value.clone(), short, None], "{first:?}");
            assert_eq!(whole.await, Ok(whole_value.clone()));
            restamped.await.expect("it gets another stamp");
            replaced.await.expect("it is replaced");
            let new = Some(Value::Inline(Bytes::from_static(b"new")));
            let last = last.await.expect("an answer");
            assert_eq!(last[1..], [new.clone(), None]);
            assert_eq!(told(&local).await, Ok(vec![Some(Value::Large(LONG.len() as u64)), new, None]));
            let found = local.inspect(b"long", |newest| newest).await.expect("an answer");
            let found = found.expect("it is there");
            assert_eq!((found.stamp, found.value), (stamped, whole_value));
        });
    }
}
