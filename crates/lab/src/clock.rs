use std::time::Instant;

/// The monotonic clock of a run: nanoseconds since it was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the one place of the lab that reads the clock")]
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}

/// The time of day, in milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    wall().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The time of day, for what is written into files; schedules never use it.
#[expect(clippy::disallowed_methods, reason = "the one place of the lab that reads the clock")]
pub(crate) fn wall() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
