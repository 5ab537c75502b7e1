use ladoga_model::Ttl;

/// The longest time to live that Cassandra takes: 20 years.
const SECONDS_MAX: u64 = 20 * 365 * 86_400;
/// Cassandra may be set so that nothing can expire later: 2038-01-18, a day before its seconds end.
const MOMENT_MS_MAX: u64 = 2_147_385_600_000;

/// When a value ends, in milliseconds since 1970 and 0 if it never does, and what Cassandra is told: whole seconds, rounded up, and 0
/// for none. The moment counts; Cassandra only takes the row away some time later, or never if the moment is beyond what it knows.
pub(crate) fn lifetime(ttl: Option<Ttl>, now_ms: u64) -> (u64, i32) {
    let Some(ttl) = ttl else { return (0, 0) };
    let expires_at_ms = ttl.ends_ms(now_ms);
    (expires_at_ms, seconds_left(expires_at_ms, now_ms))
}

/// The same of a moment that is known.
pub(crate) fn seconds_left(expires_at_ms: u64, now_ms: u64) -> i32 {
    if expires_at_ms == 0 || expires_at_ms > MOMENT_MS_MAX {
        return 0;
    }
    let seconds = expires_at_ms.saturating_sub(now_ms).div_ceil(1_000).max(1);
    if seconds > SECONDS_MAX { 0 } else { seconds as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    #[test]
    fn seconds_are_rounded_up_and_the_moment_is_exact() {
        assert_eq!(lifetime(None, NOW_MS), (0, 0));
        for (ms, seconds) in [(1, 1), (1_000, 1), (1_001, 2), (86_400_000, 86_400)] {
            assert_eq!(lifetime(Ttl::of_ms(ms), NOW_MS), (NOW_MS + ms, seconds), "{ms}");
        }
        let past = Ttl::until_ms(NOW_MS - 5);
        assert_eq!(lifetime(past, NOW_MS), (NOW_MS - 5, 1));
    }

    #[test]
    fn what_cassandra_cannot_say_it_is_not_told() {
        let until = |end_ms| lifetime(Ttl::until_ms(end_ms), NOW_MS).1;
        assert_eq!(until(MOMENT_MS_MAX), ((MOMENT_MS_MAX - NOW_MS) / 1_000) as i32);
        assert_eq!(until(MOMENT_MS_MAX + 1), 0);
        assert_eq!(seconds_left(1_000 * (SECONDS_MAX + 1), 0), 0);
        assert_eq!(seconds_left(1_000 * SECONDS_MAX, 0), SECONDS_MAX as i32);
    }
}
