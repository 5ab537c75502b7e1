use std::rc::Rc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::event_loop::EventLoop;
use super::follow_load::FollowLoad;
use super::limits::Limits;
use super::placement::Placement;
use super::protocol::Protocol;

/// How often connections are checked for timeouts, at least and at most.
const SWEEP_MS_MIN: u64 = 5;
const SWEEP_MS_MAX: u64 = 250;

/// Looks at every connection from time to time: one timer for all of them, and none for a request.
pub(super) async fn sweep<P: Protocol>(event_loop: Rc<EventLoop<P>>) {
    let loops = event_loop.shared.metrics.loops.len();
    let placement = event_loop.shared.placement;
    let mut follow_load =
        (placement == Placement::AsLoadAsks).then(|| FollowLoad::new(event_loop.context.index, loops));
    let is_restless = placement == Placement::Restless;
    let sweep_ms = if is_restless { SWEEP_MS_MIN } else { sweep_ms(&event_loop.shared.limits) };
    let mut ticks = tokio::time::interval(Duration::from_millis(sweep_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        event_loop.context.look_at_the_clock();
        event_loop.protocol.time_passes();
        event_loop.connections.sweep();
        if let Some(follow_load) = &mut follow_load {
            follow_load.look(&event_loop);
        }
        if is_restless {
            event_loop.connections.ask_to_move(usize::MAX);
        }
    }
}

/// A quarter of the shortest timeout: a timeout may strike that much later than configured.
fn sweep_ms(limits: &Limits) -> u64 {
    let shortest_ms = limits.request_timeout_ms.min(limits.answer_timeout_ms).min(limits.idle_timeout_ms);
    (shortest_ms / 4).clamp(SWEEP_MS_MIN, SWEEP_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_timeouts_are_looked_at_more_often() {
        assert_eq!(sweep_ms(&Limits::default()), SWEEP_MS_MAX);
        assert_eq!(sweep_ms(&Limits { answer_timeout_ms: 100, ..Limits::default() }), 25);
        assert_eq!(sweep_ms(&Limits { idle_timeout_ms: 0, ..Limits::default() }), SWEEP_MS_MIN);
    }
}
