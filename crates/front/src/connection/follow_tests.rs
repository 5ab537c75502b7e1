use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_env::sim::SimClock;
use ladoga_runtime::{Address, Gate, Permit};
use tokio::time::{Instant, timeout};

use super::follow::{NoPlace, stream_permit};
use super::link_tests::connected;
use crate::http::Refusal;

/// Far longer than anybody waits. It passes at once, as nothing else happens.
const VERY_LONG: Duration = Duration::from_hours(1);

/// All places, held by somebody else who is served.
fn all_taken() -> (Gate, Permit) {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
    let gate = Gate::new(8, 0, "places", clock);
    let other = Address::of_client(Some(IpAddr::from(Ipv4Addr::new(10, 0, 0, 1))));
    let held = gate.enter(other, 8).expect("room");
    (gate, held)
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(test);
}

#[test]
fn who_waits_for_changes_waits_no_longer_for_a_place() {
    block_on(async {
        let ((link, _client, _), (gate, held)) = (connected(), all_taken());
        for wait in [Duration::ZERO, Duration::from_secs(5)] {
            let began = Instant::now();
            let place = stream_permit(&link.core, &link, &gate, Some(began + wait));
            let why = timeout(VERY_LONG, place).await.expect("an answer in time").expect_err("no place");
            assert!(matches!(why, NoPlace::Full(_)) && began.elapsed() < wait + Duration::from_secs(1));
            assert_eq!(Refusal::from(why).status().as_u16(), 503, "not that nothing has changed");
        }
        drop(held);
        let place = stream_permit(&link.core, &link, &gate, Some(Instant::now())).await;
        assert!(matches!(place, Ok(Some(_))), "who does not wait gets what is free");
    });
}

#[test]
fn who_leaves_waits_for_no_place() {
    block_on(async {
        let ((link, client, _), (gate, _held)) = (connected(), all_taken());
        drop(client);
        let place = stream_permit(&link.core, &link, &gate, None);
        assert_eq!(timeout(VERY_LONG, place).await.expect("it is noticed").err(), Some(NoPlace::Left));
    });
}
