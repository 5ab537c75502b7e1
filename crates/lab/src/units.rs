//! Numbers with units, read and written as wrk does.

/// So many of something, in words.
pub(crate) fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A number and its unit, in whole units: `2m` is 120.
fn scan(text: &str, scale: u64, base: &str, units: &[&str]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    if unit.is_empty() || unit.eq_ignore_ascii_case(base) {
        return Some(number);
    }
    let power = 1 + units.iter().position(|known| unit.eq_ignore_ascii_case(known))?;
    number.checked_mul(scale.checked_pow(power as u32)?)
}

/// `20000`, `20k`, `1M`
pub(crate) fn parse_metric(text: &str) -> Result<u64, String> {
    let wanted = || format!("`{text}` is not a number such as 20000, 20k or 1M");
    scan(text, 1000, "", &["k", "M", "G", "T", "P"]).ok_or_else(wanted)
}

/// As [`parse_metric`], and more than zero.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    parse_metric(text)
        .and_then(|count| if count > 0 { Ok(count) } else { Err("must be more than 0".to_owned()) })
}

/// Requests are due at whole nanoseconds.
const RATE_MAX: u64 = 1_000_000_000;

/// Requests a second.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        rate @ ..=RATE_MAX => Ok(rate),
        _ => Err(format!("at most {RATE_MAX} requests a second: no generator sends more")),
    }
}

/// `30`, `10s`, `2m`, `1h`, in milliseconds; `500ms` too, which wrk does not have.
pub(crate) fn parse_ms(text: &str) -> Result<u64, String> {
    let wanted = || format!("`{text}` is not a time such as 30, 10s, 2m, 1h or 500ms");
    let ms = match text.strip_suffix("ms") {
        Some(digits) => scan(digits, 1, "", &[]),
        None => scan(text, 60, "s", &["m", "h"]).and_then(|seconds| seconds.checked_mul(1000)),
    };
    match ms {
        Some(0) => Err("must be more than 0".to_owned()),
        Some(ms) if ms <= TIME_MS_MAX => Ok(ms),
        _ => Err(wanted()),
    }
}

/// A hundred years: more does not fit into nanoseconds with room to spare.
const TIME_MS_MAX: u64 = 100 * 366 * 24 * 3600 * 1000;

/// `100`, `1KiB`, `4k`, `1MiB`, in bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wanted = || format!("`{text}` is not a size such as 100, 4KiB or 1MiB");
    let plain = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
    scan(plain, 1024, "", &["K", "M", "G", "T"]).ok_or_else(wanted)
}

/// wrk goes over to the next unit at 85 % of it, and never uses its last one.
fn format(number: f64, scale: f64, base: &'static str, units: &[&'static str], decimals: usize) -> String {
    let (mut amount, mut unit) = (number, base);
    for (index, next) in units.iter().enumerate() {
        if index + 1 == units.len() || amount < scale * 0.85 {
            break;
        }
        amount /= scale;
        unit = next;
    }
    format!("{amount:.decimals$}{unit}")
}

pub(crate) fn format_binary(number: f64) -> String {
    format(number, 1024.0, "", &["K", "M", "G", "T", "P"], 2)
}

pub(crate) fn format_metric(number: f64) -> String {
    format(number, 1000.0, "", &["k", "M", "G", "T", "P"], 2)
}

pub(crate) fn format_time_us(micros: f64) -> String {
    if micros >= 1_000_000.0 {
        format(micros / 1_000_000.0, 60.0, "s", &["m", "h"], 2)
    } else {
        format(micros, 1000.0, "us", &["ms", "s"], 2)
    }
}

pub(crate) fn format_time_s(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{:.0}ms", seconds * 1000.0);
    }
    format(seconds, 60.0, "s", &["m", "h"], 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_wrk_reads_them() {
        assert_eq!(
            ["20000", "20k", "1M", "0"].map(|text| parse_metric(text).unwrap()),
            [20_000, 20_000, 1_000_000, 0]
        );
        assert_eq!(
            ["30", "10s", "2m", "250ms"].map(|text| parse_ms(text).unwrap()),
            [30_000, 10_000, 120_000, 250]
        );
        assert_eq!(
            ["100", "4KiB", "4k", "1MB"].map(|text| parse_size(text).unwrap()),
            [100, 4096, 4096, 1 << 20]
        );
        for text in ["", "k", "-1", "1.5k", "10x", "99999999999999999999", "1 k"] {
            assert!(parse_metric(text).is_err(), "{text}");
            assert!(parse_ms(text).is_err(), "{text}");
        }
        assert!(parse_count("0").is_err() && parse_ms("0").is_err());
        assert!(parse_ms("9999999999h").is_err());
    }

    #[test]
    fn numbers_are_written_as_wrk_writes_them() {
        assert_eq!(
            [674.0, 849.9, 850.0, 5730.0].map(format_time_us),
            ["674.00us", "849.90us", "0.85ms", "5.73ms"]
        );
        assert_eq!([2_000_000.0, 60_000_000.0].map(format_time_us), ["2.00s", "1.00m"]);
        assert_eq!([1063.0, 69.3, 72_450.0].map(format_metric), ["1.06k", "69.30", "72.45k"]);
        assert_eq!([15.0, 120.0, 3600.0].map(format_time_s), ["15s", "2m", "60m"]);
        assert_eq!(format_binary(4.43 * 1024.0 * 1024.0), "4.43M");
    }
}
