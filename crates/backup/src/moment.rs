//! Moments in UTC: names of backups, which say when they began and sort by it, and points in time as people write them (RFC 3339).

const DAY_S: u64 = 86_400;

/// A moment in UTC as a part of a file name: `2026-11-23T12-00-05Z`.
pub(crate) fn name_of_ms(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (days, second) = (seconds / DAY_S, seconds % DAY_S);
    // Howard Hinnant, "chrono-compatible low-level date algorithms"; of no day before 1970.
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}Z")
}

/// A point in time as RFC 3339 has it: `2026-11-23T12:00:05Z`, or `2026-11-23T12:00:05.250Z`.
pub fn text_of_ms(ms: u64) -> String {
    let name = name_of_ms(ms);
    let (date, time) = name.split_once('T').expect("a name has a time");
    let time = time.trim_end_matches('Z').replace('-', ":");
    match ms % 1_000 {
        0 => format!("{date}T{time}Z"),
        rest => format!("{date}T{time}.{rest:03}Z"),
    }
}

/// Milliseconds since 1970 of a point in time: as RFC 3339 has it, in UTC (`Z`) or with an offset (`+01:00`), or the number itself.
/// Digits behind the milliseconds are cut off.
pub fn ms_of_text(text: &str) -> Option<u64> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number(text) {
        return text.parse().ok().filter(|ms| *ms <= LAST_MS);
    }
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let (time, offset_s) = match rest.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => {
            let at = rest.rfind(['+', '-'])?;
            let (hours, minutes) = rest[at + 1..].split_once(':')?;
            let offset = two(hours, 23)? * 3_600 + two(minutes, 59)? * 60;
            (&rest[..at], if rest[at..].starts_with('-') { -(offset as i64) } else { offset as i64 })
        }
    };
    let mut parts = date.split('-');
    let year = parts.next().filter(|year| year.len() == 4 && is_number(year))?.parse::<u64>().ok()?;
    let (month, day) = (two(parts.next()?, 12)?, two(parts.next()?, 31)?);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut clock = clock.split(':');
    let (hour, minute, second) = (two(clock.next()?, 23)?, two(clock.next()?, 59)?, two(clock.next()?, 59)?);
    if parts.next().is_some() || clock.next().is_some() || !is_number(fraction) || year < 1970 {
        return None;
    }
    let ms: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let days = day_number(year, month, day)?;
    let seconds = (days * DAY_S + hour * 3_600 + minute * 60 + second).checked_add_signed(-offset_s)?;
    Some(seconds * 1_000 + ms).filter(|ms| *ms <= LAST_MS)
}

/// The last millisecond of the year 9999.
const LAST_MS: u64 = 253_402_300_799_999;

/// Two digits, at most so many.
fn two(text: &str, most: u64) -> Option<u64> {
    let is_two = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_two && *number <= most)
}

/// Days since 1970; `None` if there is no such day.
fn day_number(year: u64, month: u64, day: u64) -> Option<u64> {
    if month == 0 || day == 0 {
        return None;
    }
    // The same source, the other way round.
    let year_from_march = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year_from_march / 400, year_from_march % 400);
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year).checked_sub(719_468)?;
    let is_same = name_of_ms(days * DAY_S * 1_000).starts_with(&format!("{year:04}-{month:02}-{day:02}T"));
    is_same.then_some(days)
}

#[cfg(test)]
mod tests {
    use super::{ms_of_text, name_of_ms, text_of_ms};

    #[test]
    fn a_point_in_time_is_read_as_it_is_written() {
        for ms in [0, 951_827_696_999, 1_795_435_200_000, 1_795_435_200_001, 253_402_300_799_999] {
            assert_eq!(ms_of_text(&text_of_ms(ms)), Some(ms));
            assert_eq!(ms_of_text(&ms.to_string()), Some(ms));
        }
        let noon = Some(1_795_435_200_000);
        for text in [
            "2026-11-23T12:00:00Z",
            "2026-11-23 12:00:00.000Z",
            "2026-11-23T13:30:00+01:30",
            "2026-11-23t07:00:00-05:00",
            "2026-11-23T12:00:00.0009Z",
        ] {
            assert_eq!(ms_of_text(text), noon, "{text}");
        }
        for text in [
            "",
            "yesterday",
            "2026-11-23",
            "2026-11-23T12:00:00",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-11-00T12:00:00Z",
            "2026-11-23T24:00:00Z",
            "2026-11-23T12:00Z",
            "2026-11-23T12:00:00.Z",
            "2026-11-23T12:00:00+1:00",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "-1",
            "99999999999999999999",
            "2026-11-23T12:00:00Zé",
        ] {
            assert_eq!(ms_of_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_is_a_moment_and_sorts_as_one() {
        assert_eq!(name_of_ms(0), "1970-01-01T00-00-00Z");
        assert_eq!(name_of_ms(951_827_696_999), "2000-02-29T12-34-56Z");
        assert_eq!(name_of_ms(1_795_435_200_000), "2026-11-23T12-00-00Z");
        let names: Vec<String> = (0..3_000).map(|day| name_of_ms(day * 86_400_000)).collect();
        assert!(names.is_sorted());
    }
}
