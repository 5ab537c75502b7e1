use ladoga_model::Ttl;

/// The longest time to live that Cassandra takes: 20 years.
const SECONDS_MAX: u64 = 20 * 365 * 86_400;
/// Cassandra may be set so that nothing can expire later: 2038-01-18, a day before its seconds end.
const MOMENT_MS_MAX: u64 = 2_147_385_600_000;

/// The clocks of nodes may be so far ahead of the door's before Cassandra takes a row away that has not ended.
const SKEW_SECONDS: u64 = 1;

/// When a value ends, in milliseconds since 1970 and 0 if it never does, and what Cassandra is told: whole seconds, and 0 for none. The
/// moment counts; Cassandra only takes the row away some time later, or never if the moment is beyond what it knows.
pub(crate) fn lifetime(ttl: Option<Ttl>, now_ms: u64) -> (u64, i32) {
    let Some(ttl) = ttl else { return (0, 0) };
    let expires_at_ms = ttl.ends_ms(now_ms);
    (expires_at_ms, seconds_left(expires_at_ms, now_ms))
}

/// The same of a moment that is known. Cassandra counts from the second in which the row is written, not from the moment: of the seconds
/// that it is told, up to a whole one is over already.
pub(crate) fn seconds_left(expires_at_ms: u64, now_ms: u64) -> i32 {
    if expires_at_ms == 0 || expires_at_ms > MOMENT_MS_MAX {
        return 0;
    }
    let seconds = expires_at_ms.div_ceil(1_000).saturating_sub(now_ms / 1_000) + SKEW_SECONDS;
    if seconds > SECONDS_MAX { 0 } else { seconds as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    #[test]
    fn the_moment_is_exact_and_seconds_are_rounded_up_with_one_for_clocks() {
        assert_eq!(lifetime(None, NOW_MS), (0, 0));
        for (ms, seconds) in [(1, 2), (1_000, 2), (1_001, 3), (86_400_000, 86_401)] {
            assert_eq!(lifetime(Ttl::of_ms(ms), NOW_MS), (NOW_MS + ms, seconds), "{ms}");
        }
        for (ago_ms, seconds) in [(5, 1), (1_000_000, 1)] {
            let past = Ttl::until_ms(NOW_MS - ago_ms);
            assert_eq!(lifetime(past, NOW_MS), (NOW_MS - ago_ms, seconds), "{ago_ms}");
        }
    }

    /// A lock for a second that was taken at 10.95 was free again at 11.0.
    #[test]
    fn cassandra_takes_nothing_away_before_its_end_though_its_clock_is_a_second_ahead() {
        // As Cassandra reckons: from the second in which the row is written.
        let gone_ms =
            |now_ms: u64, seconds: i32| (now_ms / 1_000 + u64::from(seconds.cast_unsigned())) * 1_000;
        for now_ms in (NOW_MS..NOW_MS + 1_000).step_by(25) {
            for ttl_ms in [1, 25, 999, 1_000, 1_001, 1_500, 60_000] {
                let (ends_ms, seconds) = lifetime(Ttl::of_ms(ttl_ms), now_ms);
                let late_ms = gone_ms(now_ms, seconds) - ends_ms;
                assert!((1_000..2_000).contains(&late_ms), "{ttl_ms} at {now_ms}: {late_ms}");
            }
        }
    }

    #[test]
    fn what_cassandra_cannot_say_it_is_not_told() {
        let until = |end_ms| lifetime(Ttl::until_ms(end_ms), NOW_MS).1;
        assert_eq!(until(MOMENT_MS_MAX), ((MOMENT_MS_MAX - NOW_MS) / 1_000 + SKEW_SECONDS) as i32);
        assert_eq!(until(MOMENT_MS_MAX + 1), 0);
        let longest = SECONDS_MAX - SKEW_SECONDS;
        assert_eq!(seconds_left(1_000 * longest + 1, 0), 0);
        assert_eq!(seconds_left(1_000 * longest, 0), SECONDS_MAX as i32);
    }
}
