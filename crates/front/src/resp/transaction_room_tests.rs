use std::sync::Arc;

use ladoga_env::Clock;
use ladoga_env::sim::SimClock;
use ladoga_runtime::{Address, Gate};

use super::held::HeldPermits;
use super::transaction_room::{NoRoom, TransactionRoom};

/// It is no multiple of the steps in which room is taken.
const ROOM: u64 = 1_398_101;

#[test]
fn a_transaction_takes_no_more_than_one_client_may_have() {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
    let gate = Gate::new(ROOM, 0, "bytes", clock);
    let (held, mut room) =
        (HeldPermits::new(gate.clone(), Address::of_client(None)), TransactionRoom::default());
    let bytes_max = gate.address_max();
    room.hold(100_000, &held).expect("room");
    let mut beside = TransactionRoom::beside(&room);
    // It may have been rounded up.
    let (permit, beside_bytes) = room.into_held();
    beside.hold(bytes_max - beside_bytes, &held).expect("as much as may be");
    assert!(matches!(beside.hold(1, &held), Err(NoRoom::Ever(_))));
    assert_eq!(beside.into_held().1, bytes_max - beside_bytes);
    drop(permit);

    let mut alone = TransactionRoom::default();
    alone.hold(bytes_max, &held).expect("as much as may be");
    assert_eq!(alone.into_held().1, bytes_max);
}
