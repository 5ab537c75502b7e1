use std::fmt;

use crate::Quote;

/// The longest time that a value can be given: a hundred years.
pub const TTL_MS_MAX: u64 = 36_500 * DAY_MS;
const DAY_MS: u64 = 86_400_000;
/// The latest moment at which a value can end: in the year 9999.
const MOMENT_MS_MAX: u64 = 253_370_764_800_000;

/// How long a value is to live: for at least a millisecond from the moment of its write on, at most [`TTL_MS_MAX`]; or until a moment
/// that was said instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl {
    ms: u64,
    /// Whether that is the moment, in milliseconds since 1970.
    is_moment: bool,
}

/// Text that is no time to live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TtlError {
    found: Quote,
}

impl fmt::Display for TtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = &self.found;
        write!(
            f,
            "ttl is {found}, expected a whole number and a unit: 1500ms, 60s, 5m, 12h or 30d, from 1ms to 36500d"
        )
    }
}

impl std::error::Error for TtlError {}

impl Ttl {
    /// A time to live of so many milliseconds, if that is within bounds.
    pub const fn of_ms(ms: u64) -> Option<Ttl> {
        if ms >= 1 && ms <= TTL_MS_MAX { Some(Ttl { ms, is_moment: false }) } else { None }
    }

    /// Until this moment, in milliseconds since 1970, if timestamps have room for it. One that is past makes a value that has expired.
    pub const fn until_ms(end_ms: u64) -> Option<Ttl> {
        if end_ms >= 1 && end_ms <= MOMENT_MS_MAX { Some(Ttl { ms: end_ms, is_moment: true }) } else { None }
    }

    /// Reads a whole number and a unit: `ms`, `s`, `m`, `h` or `d`.
    pub fn parse(text: &[u8]) -> Result<Ttl, TtlError> {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, unit) = text.split_at(digits);
        let unit_ms = match unit {
            b"ms" => Some(1),
            b"s" => Some(1_000),
            b"m" => Some(60_000),
            b"h" => Some(3_600_000),
            b"d" => Some(DAY_MS),
            _ => None,
        };
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse::<u64>().ok());
        let ms = unit_ms.zip(number).and_then(|(unit_ms, number)| number.checked_mul(unit_ms));
        ms.and_then(Ttl::of_ms).ok_or_else(|| TtlError { found: Quote::of(text) })
    }

    /// In milliseconds; if a moment was said, that.
    pub const fn ms(self) -> u64 {
        self.ms
    }

    /// When a value ends that is written at this time, in milliseconds since 1970.
    pub const fn ends_ms(self, now_ms: u64) -> u64 {
        if self.is_moment { self.ms } else { now_ms.saturating_add(self.ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_unit() {
        let ms = |text: &str| Ttl::parse(text.as_bytes()).map(Ttl::ms);
        assert_eq!(
            ["1ms", "1500ms", "60s", "5m", "12h", "30d"].map(ms),
            [Ok(1), Ok(1_500), Ok(60_000), Ok(300_000), Ok(43_200_000), Ok(2_592_000_000)]
        );
        assert_eq!(ms("36500d"), Ok(TTL_MS_MAX));
        assert_eq!(ms("007s"), Ok(7_000));
    }

    #[test]
    fn what_is_none_is_named() {
        let texts = [
            "",
            "0",
            "0s",
            "0ms",
            "5",
            "s",
            "-1s",
            "+1s",
            " 1s",
            "1 s",
            "1s ",
            "1.5s",
            "1e3s",
            "1S",
            "1sec",
            "1w",
            "1m30s",
            "36501d",
            "3153600000001ms",
            "18446744073709551616ms",
            "99999999999999999d",
            "none",
            "\u{661}s",
        ];
        for text in texts {
            let error = Ttl::parse(text.as_bytes()).expect_err(text).to_string();
            assert!(
                error.starts_with(&format!("ttl is {}, expected a whole", Quote::of(text.as_bytes()))),
                "{error}"
            );
        }
        assert_eq!(
            Ttl::parse(b"5").expect_err("no unit").to_string(),
            "ttl is '5', expected a whole number and a unit: 1500ms, 60s, 5m, 12h or 30d, from 1ms to 36500d"
        );
    }

    #[test]
    fn a_moment_is_the_same_whenever_the_value_is_written() {
        let until = Ttl::until_ms(5_000).expect("in bounds");
        assert_eq!([0, 5_000, 9_000].map(|now_ms| until.ends_ms(now_ms)), [5_000; 3]);
        assert_eq!(Ttl::until_ms(0), None);
        assert_eq!(Ttl::until_ms(MOMENT_MS_MAX + 1), None);
    }

    #[test]
    fn the_longest_ends_while_timestamps_have_room() {
        let longest = Ttl::of_ms(TTL_MS_MAX).expect("in bounds");
        let in_the_year_9999_ms = 253_370_764_800_000;
        assert!(longest.ends_ms(in_the_year_9999_ms) < crate::HybridClock::wall_ms(u64::MAX));
        assert_eq!(Ttl::of_ms(0), None);
        assert_eq!(Ttl::of_ms(TTL_MS_MAX + 1), None);
    }
}
