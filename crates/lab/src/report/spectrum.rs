//! wrk2's detailed percentile spectrum, the classic text output of `HdrHistogram`.

use std::io::{self, Write};

use hdrhistogram::Histogram;

const TICKS_PER_HALF_DISTANCE: u64 = 5;

/// Prints a histogram of microseconds in milliseconds.
pub(super) fn print(micros: &Histogram<u64>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n  Detailed Percentile spectrum:")?;
    writeln!(out, "{:>12} {:>12} {:>12} {:>12}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let last = rows(micros, out)?;
    writeln!(out, "{:12.3} {:12.6} {:12} {:>12}", last, 1.0, micros.len(), "inf")?;
    writeln!(
        out,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]",
        milliseconds(micros.mean()),
        milliseconds(micros.stdev())
    )?;
    // wrk2 prints the lower end of the largest value here, and its upper end in the rows.
    let max = micros.lowest_equivalent(micros.max());
    writeln!(out, "#[Max     = {:12.3}, Total count    = {:12}]", milliseconds(max as f64), micros.len())?;
    let (buckets, sub_buckets) = shape(micros);
    writeln!(out, "#[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]")
}

/// The rows up to the largest value, which is returned: it is in the last row too.
fn rows(micros: &Histogram<u64>, out: &mut dyn Write) -> io::Result<f64> {
    let (mut seen, mut level, mut value) = (0, 0.0_f64, 0.0);
    for entry in micros.iter_recorded() {
        seen += entry.count_at_value();
        value = milliseconds(micros.highest_equivalent(entry.value_iterated_to()) as f64);
        let reached = 100.0 * seen as f64 / micros.len() as f64;
        while level <= reached {
            let quantile = level / 100.0;
            writeln!(out, "{value:12.3} {quantile:12.6} {seen:12} {:12.2}", 1.0 / (1.0 - quantile))?;
            level = next_level(level);
            if seen == micros.len() {
                return Ok(value);
            }
        }
    }
    Ok(value)
}

/// Five steps to half of what is left, then five smaller ones to half of that, and so on.
fn next_level(level: f64) -> f64 {
    let half_distance = 2_u64.pow((100.0 / (100.0 - level)).log2() as u32 + 1);
    level + 100.0 / (TICKS_PER_HALF_DISTANCE * half_distance) as f64
}

fn milliseconds(micros: f64) -> f64 {
    micros / 1000.0
}

/// Buckets and sub-buckets, from the number of distinct values: there are half as many sub-buckets in every bucket
/// after the first.
fn shape(micros: &Histogram<u64>) -> (u64, u64) {
    let decimals = 2 * 10_u64.pow(u32::from(micros.sigfig()));
    let sub_buckets = decimals.next_power_of_two();
    let half = sub_buckets / 2;
    (micros.distinct_values() as u64 / half - 1, sub_buckets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{in_micros, ns_histogram};

    #[test]
    fn nothing_recorded_prints_zeros_and_no_nan() {
        let mut out = Vec::new();
        print(&in_micros(&ns_histogram()), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.to_lowercase().contains("nan"), "{text}");
        assert!(text.contains("       0.000     1.000000            0          inf\n"), "{text}");
        assert!(text.ends_with("#[Buckets =           27, SubBuckets     =         2048]\n"), "{text}");
    }

    /// The spectrum of a real run of wrk2 is printed again from its own rows: the rows between two printed values do
    /// not show, so putting all of them on the printed value changes nothing.
    #[test]
    fn a_spectrum_of_wrk2_comes_out_again_row_by_row() {
        for (name, real) in [
            ("corrected", include_str!("../../tests/wrk2/spectrum-corrected.txt")),
            ("uncorrected", include_str!("../../tests/wrk2/spectrum-uncorrected.txt")),
        ] {
            let mut micros = in_micros(&ns_histogram());
            let mut before = 0;
            for row in real.lines().filter(|line| line.starts_with(' ') && !line.contains("Value")) {
                let words: Vec<&str> = row.split_whitespace().collect();
                if let [value, _, total, _] = words[..] {
                    let value = (value.parse::<f64>().unwrap() * 1000.0).round() as u64;
                    let total: u64 = total.parse().unwrap();
                    micros.record_n(value, total - before).unwrap();
                    before = total;
                }
            }
            let mut out = Vec::new();
            print(&micros, &mut out).unwrap();
            let printed = String::from_utf8(out).unwrap();
            // The mean is not in the rows.
            let comparable = |text: &str| {
                text.lines()
                    .filter(|line| !line.is_empty() && !line.starts_with("#[Mean"))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            assert_eq!(comparable(&printed), comparable(real), "{name}");
        }
    }
}
