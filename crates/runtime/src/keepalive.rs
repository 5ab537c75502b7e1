use std::time::Duration;

use ladoga_env::KeepAlive;

/// When a peer's connection counts as dead whose other end is gone. One that is frozen is still there. The default of the
/// system is two hours, and a quarter of one: a network that was cut would leave connections behind on the side that has
/// nothing to say.
pub const KEEP_ALIVE: KeepAlive = KeepAlive {
    asks_after: Duration::from_secs(5),
    asks_every: Duration::from_secs(2),
    unheard_max: Duration::from_secs(15),
};
