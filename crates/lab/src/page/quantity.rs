//! What the numbers of an axis are, and how people read them: on the axis, in words, and in the page's script.

use super::words::{count, micros, round_micros};

/// A kind of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A time, in seconds.
    Seconds,
    /// A time, in microseconds.
    Micros,
    /// A time, in milliseconds.
    Millis,
    /// A time, in minutes.
    Minutes,
    /// A whole number.
    Count,
    /// A number as it is.
    Plain,
    /// A share of all, from 0 to 1.
    Share,
    /// One in so many: the scale of the axis of percentiles.
    Rarity,
}

impl Quantity {
    /// The name in the page's script.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Quantity::Seconds => "seconds",
            Quantity::Micros => "micros",
            Quantity::Millis => "millis",
            Quantity::Minutes => "minutes",
            Quantity::Count => "count",
            Quantity::Plain => "plain",
            Quantity::Share => "share",
            Quantity::Rarity => "rarity",
        }
    }

    /// A round number on the axis.
    pub fn axis(self, number: f64) -> String {
        match self {
            Quantity::Seconds => round_seconds(number),
            Quantity::Micros => round_micros(number),
            Quantity::Millis => format!("{number} ms"),
            Quantity::Minutes => format!("{number} min"),
            Quantity::Count => count(number),
            Quantity::Plain => plain(number),
            Quantity::Share => format!("{} %", plain(number * 100.0)),
            Quantity::Rarity => nines(number),
        }
    }

    /// A number that was measured.
    pub fn value(self, number: f64) -> String {
        match self {
            Quantity::Seconds => format!("{number:.2} s"),
            Quantity::Micros => micros(number),
            Quantity::Millis => format!("{number:.1} ms"),
            Quantity::Minutes => format!("{number:.1} min"),
            Quantity::Count => count(number),
            Quantity::Plain => format!("{number:.2}"),
            Quantity::Share => percent(number),
            Quantity::Rarity => nines(number),
        }
    }
}

/// `0.5 s`, `10 s`, `20 min`, `1 h`, `1:30 h`: a time of an axis.
fn round_seconds(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round();
    if seconds < 120.0 || (minutes * 60.0 - seconds).abs() > 1e-6 {
        return format!("{} s", plain(seconds));
    }
    let (hours, rest) = (minutes as u64 / 60, minutes as u64 % 60);
    match (hours, rest) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, rest) => format!("{hours}:{rest:02} h"),
    }
}

/// A number of an axis, without the digits that only arithmetic has put there.
fn plain(number: f64) -> String {
    format!("{}", (number * 1e4).round() / 1e4)
}

fn nines(rarity: f64) -> String {
    let percentile = 100.0 * (1.0 - 1.0 / rarity);
    match rarity as u64 {
        0..=1 => "0 %".to_owned(),
        2..=99 => format!("{percentile:.0} %"),
        _ => format!("{percentile:.*} %", (rarity.log10().round() as usize).saturating_sub(2)),
    }
}

/// `0 %`, `0.0100 %`, `1.25 %`: with as many digits as a small share needs.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        0.0 => "0 %".to_owned(),
        ..0.01 => format!("{percent:.4} %"),
        ..10.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_reads_as_what_it_is() {
        assert_eq!(Quantity::Micros.axis(1000.0), "1 ms");
        let times = [0.0, 0.5, 60.0, 150.0, 600.0, 3_600.0, 5_400.0].map(|time| Quantity::Seconds.axis(time));
        assert_eq!(times, ["0 s", "0.5 s", "60 s", "150 s", "10 min", "1 h", "1:30 h"]);
        assert_eq!(Quantity::Micros.value(51_310.0), "51.31 ms");
        assert_eq!([1.0, 10.0, 1000.0].map(|one| Quantity::Rarity.axis(one)), ["0 %", "90 %", "99.9 %"]);
        assert_eq!([0.0, 0.00001, 0.005, 0.25].map(percent), ["0 %", "0.0010 %", "0.50 %", "25.0 %"]);
        assert_eq!((Quantity::Share.axis(0.1), Quantity::Plain.value(0.123)), ("10 %".into(), "0.12".into()));
    }
}
