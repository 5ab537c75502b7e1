pub use ladoga_profiler::date;

use crate::units::format_time_us;

/// What stands where there is no figure.
pub(super) const NONE: &str = "–";

/// Text that is safe inside of an element or an attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// `412 µs`, `6.40 ms`, `1.35 s`
pub(crate) fn micros(micros: f64) -> String {
    if micros >= 1000.0 {
        let text = format_time_us(micros);
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "m" => "min",
            unit => unit,
        };
        return format!("{digits} {unit}");
    }
    if micros >= 100.0 { format!("{micros:.0} µs") } else { format!("{micros:.1} µs") }
}

/// With three digits, for two values side by side: `6.4 ms`, `602 ms`
pub(super) fn short_micros(micros: f64) -> String {
    let (amount, unit) = match micros {
        1e6.. => (micros / 1e6, "s"),
        1e3.. => (micros / 1e3, "ms"),
        _ => (micros, "µs"),
    };
    let decimals = usize::from(amount < 100.0);
    format!("{amount:.decimals$} {unit}")
}

/// As on an axis: `100 µs`, `1 ms`
pub(super) fn round_micros(micros: f64) -> String {
    match micros {
        1e6.. => format!("{} s", micros / 1e6),
        1e3.. => format!("{} ms", micros / 1e3),
        _ => format!("{micros} µs"),
    }
}

/// `1,234,567`
pub fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut out = String::from(if number < -0.5 { "−" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.5 MiB`
pub(super) fn bytes(bytes: f64) -> String {
    let (mut amount, mut unit) = (bytes, 0);
    while amount >= 1024.0 && unit < 4 {
        amount /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && amount < 100.0);
    format!("{amount:.decimals$} {}", ["B", "KiB", "MiB", "GiB", "TiB"][unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            [31.44, 412.3, 6400.0, 1_350_000.0].map(micros),
            ["31.4 µs", "412 µs", "6.40 ms", "1.35 s"]
        );
        assert_eq!(
            [41.26, 6400.0, 601_830.0, 1.73e6].map(short_micros),
            ["41.3 µs", "6.4 ms", "602 ms", "1.7 s"]
        );
        assert_eq!([10.0, 1000.0, 1e7].map(round_micros), ["10 µs", "1 ms", "10 s"]);
        assert_eq!([0.0, 999.0, 1_234_567.4, -1000.0].map(count), ["0", "999", "1,234,567", "−1,000"]);
        assert_eq!([12.0, 1536.0, 3.0e9].map(bytes), ["12 B", "1.5 KiB", "2.8 GiB"]);
    }

    #[test]
    fn text_cannot_end_its_element() {
        assert_eq!(escape("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;");
    }
}
