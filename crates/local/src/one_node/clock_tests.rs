use bytes::Bytes;
use ladoga_env::sim;
use ladoga_service::{Changed, KeyChange, KeyValue, NewValue, Precondition, Seen};
use ladoga_storage::Durability;

use super::tests::{Lone, context, newest};
use super::*;

/// What docs/operations.md says about a clock that is set.
#[test]
fn what_expires_goes_by_the_wall_clock_as_it_is() {
    const HOUR_MS: i64 = 3_600_000;
    let (env, _disk, clock) = sim::env(1);
    let lone = Lone::open(&env, Durability::Never);
    lone.on_a_loop(async |service| {
        let living = |ttl_ms| Context { ttl: Ttl::of_ms(ttl_ms), ..context(Precondition::None) };
        let put = async |key: &'static [u8], ttl_ms: i64| {
            let value = Bytes::from_static(b"value");
            service.put(&living(ttl_ms as u64), key, value, ()).await.expect("room")
        };
        let has =
            async |key: &'static [u8]| newest(&service, key).await.is_some_and(|cell| cell.value.is_some());

        let first = put(b"before", HOUR_MS).await;
        clock.jump_wall_ms(2 * HOUR_MS);
        assert!(!has(b"before").await, "its moment has come by this clock");
        let second = put(b"ahead", HOUR_MS).await;
        clock.jump_wall_ms(-2 * HOUR_MS);
        assert!(has(b"before").await, "no compaction has removed it");
        let third = put(b"behind", HOUR_MS).await;
        assert!(first < second && second < third, "versions do not go back");

        clock.jump_wall_ms(HOUR_MS);
        assert!(!has(b"before").await && !has(b"behind").await);
        assert!(has(b"ahead").await, "it lives for as much longer as the clock was ahead");
        clock.jump_wall_ms(2 * HOUR_MS);
        assert!(!has(b"ahead").await);
    });
}

/// It went by when the request arrived: what clients had been told to have expired while that was behind a sync came back, for good.
#[test]
fn what_is_decided_goes_by_when_it_is_committed() {
    const TTL_MS: u64 = 1_000;
    let (env, _disk, clock) = sim::env(1);
    let lone = Lone::open(&env, Durability::Always);
    lone.on_a_loop(async |service| {
        const KEY: &[u8] = b"key";
        let present = context(Precondition::IfMatchAny);
        let living = Context { ttl: Ttl::of_ms(TTL_MS), ..context(Precondition::None) };
        let begin = async || service.put(&living, KEY, Bytes::from_static(b"5"), ()).await.expect("room");
        let expires = || clock.jump_wall_ms(TTL_MS as i64);
        let failed = |current| Error::PreconditionFailed { current: Some(current) };

        let version = begin().await;
        let kept = service.expire(&context(Precondition::None), KEY, None);
        expires();
        assert_eq!(kept.await, Err(Error::NotFound { current: Some(version) }));

        let version = begin().await;
        let (put, deleted) =
            (service.put(&present, KEY, Bytes::from_static(b"6"), ()), service.delete(&present, KEY));
        let admitted = service.admit_conditional(&present, KEY, 1);
        expires();
        assert_eq!(put.await, Err(failed(version)));
        assert_eq!(deleted.await, Err(failed(version)));
        assert_eq!(admitted.await, Err(failed(version)));

        let version = begin().await;
        let write = KeyWrite {
            key: Bytes::from_static(KEY),
            precondition: Precondition::IfMatchAny,
            change: KeyChange::Delete,
        };
        let together = service.write_together(&context(Precondition::None), vec![write]);
        expires();
        assert_eq!(together.await.expect("a store").map_err(|not| not.error), Err(failed(version)));

        let seen = Seen { version: Some(begin().await), is_there: true };
        let written =
            NewValue { value: Some(model::Value::Inline(Bytes::from_static(b"7"))), expires_at_ms: 0 };
        let key = || Bytes::from_static(KEY);
        let transaction = Transaction { seen: vec![(key(), seen)], writes: vec![(key(), written)] };
        let transacted = service.transact(transaction).expect("a node on its own has transactions");
        expires();
        assert_eq!(transacted.await, Ok(Err(Changed(0))));

        begin().await;
        let added = service.increment(&context(Precondition::None), KEY, 1);
        expires();
        assert_eq!(added.await.map(|(number, stamp)| (number, stamp.expires_at_ms)), Ok((1, 0)));
    });
}
