use toml::value::Datetime;

const DAY_S: i64 = 86_400;
/// The first moment that has a year with five digits.
const MS_END: u64 = 253_402_300_800_000;

/// Reads a moment of RFC 3339 in UTC, such as `2027-01-31T12:00:00Z`, as milliseconds since 1970.
pub fn parse_moment(text: &str) -> Option<u64> {
    moment_ms(&text.parse().ok()?)
}

/// The same as TOML has it. Without an offset nobody knows when that is.
pub(crate) fn moment_ms(moment: &Datetime) -> Option<u64> {
    let (date, time) = (moment.date?, moment.time?);
    let offset_minutes = match moment.offset? {
        toml::value::Offset::Z => 0,
        toml::value::Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days_from_civil(i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let second = i64::from(time.second);
    let of_day = i64::from(time.hour) * 3_600 + i64::from(time.minute) * 60 + second;
    let seconds = days * DAY_S + of_day - offset_minutes * 60;
    u64::try_from(seconds).ok()?.checked_mul(1_000).filter(|ms| *ms < MS_END)
}

/// A moment as it can be read again, to the second.
pub fn moment_text(ms: u64) -> String {
    let seconds = (ms / 1_000) as i64;
    let (days, of_day) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Days since 1970 of a date of the Gregorian calendar. Years begin in March here, so that the day that some have more is their last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) =
        (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:34:56Z", 951_827_696_000),
            ("2026-11-23T12:00:00Z", 1_795_435_200_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ] {
            assert_eq!(parse_moment(text), Some(ms), "{text}");
            assert_eq!(moment_text(ms), text);
        }
        assert_eq!(parse_moment("1970-01-01T02:00:00+02:00"), Some(0));
        for day in 0..80_000 {
            let (year, month, of_month) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, of_month), day);
        }
        for wrong in [
            "",
            "tomorrow",
            "2027-01-01",
            "2027-01-01T00:00:00",
            "1960-01-01T00:00:00Z",
            "9999-12-31T23:59:59-00:01",
        ] {
            assert_eq!(parse_moment(wrong), None, "{wrong}");
        }
    }
}
