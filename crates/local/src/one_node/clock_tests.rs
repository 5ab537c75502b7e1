use bytes::Bytes;
use ladoga_env::sim;
use ladoga_service::{KeyValue, Precondition};
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
