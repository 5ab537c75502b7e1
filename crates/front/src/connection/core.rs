use std::cell::{Ref, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use ladoga_http1::server::Timeouts;
use ladoga_runtime::{AccessKind, Gate, LoopContext};
use ladoga_server::Limits;

use super::together::Together;
use crate::slow::SlowLog;

/// What all connections of one event loop share.
pub struct Core {
    context: Rc<LoopContext>,
    pub(crate) limits: Limits,
    /// Bytes of values on their way into memory, small ones apart: this loop's share of them.
    pub(crate) bodies: Gate,
    pub(crate) slow: SlowLog,
    /// Reads that arrived in the same turn.
    pub(crate) together: Together,
    /// The time of day as answers have it, as of the last look.
    date: RefCell<String>,
}

/// A connection's clock, figures and end are those of its event loop.
impl Deref for Core {
    type Target = LoopContext;

    fn deref(&self) -> &LoopContext {
        &self.context
    }
}

impl Core {
    /// Of an event loop.
    pub fn new(context: Rc<LoopContext>, limits: Limits, bodies: Gate) -> Core {
        let slow = SlowLog::new(limits.slow_request_ms);
        let (together, date) = (Together::default(), RefCell::default());
        let core = Core { context, limits, bodies, slow, together, date };
        core.look_at_the_date();
        core
    }

    /// A client asks for a key.
    pub(crate) fn count_access(&self, kind: AccessKind, key: &[u8]) {
        self.metrics.hot.count(kind, key, || self.clock.monotonic_ns());
    }

    pub(crate) fn look_at_the_date(&self) {
        let now = UNIX_EPOCH + Duration::from_millis(self.clock.wall_ms());
        self.date.replace(httpdate::fmt_http_date(now));
    }

    /// The time of day as answers have it, as of the last look.
    pub(crate) fn date(&self) -> Ref<'_, str> {
        Ref::map(self.date.borrow(), String::as_str)
    }

    /// The bounds of a node, as far as they are those of its connections.
    pub(super) fn timeouts(&self) -> Timeouts {
        Timeouts {
            request_ms: self.limits.request_timeout_ms,
            body_bytes_per_second_min: self.limits.body_bytes_per_second_min,
            answer_ms: self.limits.answer_timeout_ms,
            idle_ms: self.limits.idle_timeout_ms,
        }
    }
}
