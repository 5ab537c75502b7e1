//! Names of backups: when they began, so that they sort by it.

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

#[cfg(test)]
mod tests {
    use super::name_of_ms;

    #[test]
    fn a_name_is_a_moment_and_sorts_as_one() {
        assert_eq!(name_of_ms(0), "1970-01-01T00-00-00Z");
        assert_eq!(name_of_ms(951_827_696_999), "2000-02-29T12-34-56Z");
        assert_eq!(name_of_ms(1_795_435_200_000), "2026-11-23T12-00-00Z");
        let names: Vec<String> = (0..3_000).map(|day| name_of_ms(day * 86_400_000)).collect();
        assert!(names.is_sorted());
    }
}
