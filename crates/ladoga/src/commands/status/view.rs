use std::fmt::Write;

use super::super::counted;
use super::samples::Samples;

/// Requests by what they do: operations by HTTP, and kinds of commands of Redis.
const GROUPS: [(&str, &[&str], &[&str]); 3] = [
    ("reads", &["get", "head"], &["read"]),
    ("writes", &["put", "delete", "increment", "expire"], &["write"]),
    ("other", &["range", "changes", "batch"], &["range"]),
];
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Where the bytes are of which the memory of a node consists, as far as it counts them.
const MEMORY: [(&str, &[&str]); 3] = [
    ("memtables", &["ladoga_memtable_bytes", "ladoga_sealed_memtable_bytes"]),
    ("caches", &["ladoga_block_cache_bytes", "ladoga_record_cache_bytes"]),
    ("indexes", &["ladoga_table_index_and_filter_bytes", "ladoga_merkle_tree_bytes"]),
];

/// What a node did between two looks, and how it is at the second one.
pub(super) struct View<'s> {
    pub(super) before: &'s Samples,
    pub(super) now: &'s Samples,
    pub(super) seconds: f64,
}

impl View<'_> {
    /// For a screen: several lines.
    pub(super) fn screen(&self) -> String {
        let mut out = String::new();
        for (name, operations, kinds) in GROUPS {
            let rate = self.requests(operations, kinds);
            _ = write!(out, "  {name:<12}{:>12} /s", number(rate));
            for ((label, _), seconds) in PERCENTILES.iter().zip(self.latencies(operations, kinds)) {
                _ = write!(out, "   {label} {:>8}", seconds.map_or("-".to_owned(), duration));
            }
            out.push('\n');
        }
        let failed = self.rate("ladoga_requests_total", &[("status", &["500", "503", "504", "507"])]);
        let slow = self.rate("ladoga_slow_requests_total", &[]);
        let connections = counted(self.sum("ladoga_connections") as u64, "connection");
        _ = writeln!(
            out,
            "  {:<12}{:>12} /s   {} slow /s, {connections}",
            "failed",
            number(failed),
            number(slow)
        );
        let written = self.rate("ladoga_compaction_written_bytes_total", &[]);
        let read = self.rate("ladoga_compaction_read_bytes_total", &[]);
        _ = writeln!(
            out,
            "  {:<12}{:>15}   in {}; {} of the disk free; writes {}",
            "store",
            size(self.stored_bytes()),
            counted(self.sum("ladoga_level_tables") as u64, "table"),
            size(self.sum("ladoga_disk_free_bytes")),
            self.now.state("ladoga_write_state", "state").unwrap_or("unknown"),
        );
        _ = writeln!(out, "  {:<12}{:>13}/s   written, {}/s read", "compaction", size(written), size(read));
        _ = write!(out, "  {:<12}{:>15}  ", "memory", size(self.memory_bytes()));
        for (name, metrics) in MEMORY {
            _ = write!(out, " {name} {}", size(metrics.iter().map(|metric| self.sum(metric)).sum()));
        }
        out.push('\n');
        out
    }

    /// For a file: one line.
    pub(super) fn line(&self) -> String {
        let mut out = String::new();
        for (name, operations, kinds) in GROUPS {
            _ = write!(out, "{name}_per_second={:.1} ", self.requests(operations, kinds));
            for ((label, _), seconds) in PERCENTILES.iter().zip(self.latencies(operations, kinds)) {
                let milliseconds = seconds.map_or("-".to_owned(), |seconds| format!("{:.3}", seconds * 1e3));
                _ = write!(out, "{name}_{label}_ms={milliseconds} ");
            }
        }
        let failed = self.rate("ladoga_requests_total", &[("status", &["500", "503", "504", "507"])]);
        _ = write!(
            out,
            "failed_per_second={failed:.1} stored_bytes={} compaction_bytes_per_second={:.0} memory_bytes={} connections={}",
            self.stored_bytes(),
            self.rate("ladoga_compaction_written_bytes_total", &[]),
            self.memory_bytes(),
            self.sum("ladoga_connections"),
        );
        out
    }

    fn sum(&self, name: &str) -> f64 {
        self.now.sum(name, &[])
    }

    /// By how much a counter grew in a second. One that is smaller than before was begun anew, by a restart.
    fn rate(&self, name: &str, labels: &[(&str, &[&str])]) -> f64 {
        let (before, now) = (self.before.sum(name, labels), self.now.sum(name, labels));
        (if now < before { now } else { now - before }) / self.seconds
    }

    fn requests(&self, operations: &[&str], kinds: &[&str]) -> f64 {
        self.rate("ladoga_requests_total", &[("operation", operations)])
            + self.rate("ladoga_resp_commands_total", &[("kind", kinds)])
    }

    /// The percentiles of what was answered between the looks, in seconds; `None` if nothing was.
    fn latencies(&self, operations: &[&str], kinds: &[&str]) -> [Option<f64>; 3] {
        let of = |samples: &Samples| {
            let http =
                samples.buckets("ladoga_request_duration_seconds_bucket", &[("operation", operations)]);
            let resp = samples.buckets("ladoga_resp_command_duration_seconds_bucket", &[("kind", kinds)]);
            merged(http, &resp, 1.0)
        };
        let (before, now) = (of(self.before), of(self.now));
        let total = |buckets: &[(f64, f64)]| buckets.last().map_or(0.0, |(_, count)| *count);
        let between = if total(&now) < total(&before) { now } else { merged(now, &before, -1.0) };
        PERCENTILES.map(|(_, share)| quantile(&between, share))
    }

    fn stored_bytes(&self) -> f64 {
        self.sum("ladoga_level_bytes") + self.sum("ladoga_blob_bytes")
    }

    fn memory_bytes(&self) -> f64 {
        MEMORY.iter().flat_map(|(_, metrics)| *metrics).map(|metric| self.sum(metric)).sum()
    }
}

/// Adds the counts of other buckets, so many times.
fn merged(mut buckets: Vec<(f64, f64)>, others: &[(f64, f64)], times: f64) -> Vec<(f64, f64)> {
    for (bound, count) in others {
        match buckets.iter_mut().find(|(known, _)| known.total_cmp(bound).is_eq()) {
            Some((_, sum)) => *sum += times * count,
            None => buckets.push((*bound, times * count)),
        }
    }
    buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    buckets
}

/// What so large a share does not exceed, as if the values in a bucket were spread evenly over it; `None` if there are none. What is in
/// the last bucket, which has no end, counts as its beginning.
fn quantile(buckets: &[(f64, f64)], share: f64) -> Option<f64> {
    let (_, total) = *buckets.last()?;
    let wanted = total * share;
    if total <= 0.0 {
        return None;
    }
    let (mut start, mut below) = (0.0, 0.0);
    for &(end, count) in buckets {
        if count >= wanted && count > below {
            let part = (wanted - below) / (count - below);
            return Some(if end.is_finite() { start + (end - start) * part } else { start });
        }
        (start, below) = (end, count);
    }
    None
}

fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.001 => format!("{:.0} us", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

fn size(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{value:.0} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_shows_what_happened_since_the_one_before() {
        let before = Samples::parse("ladoga_requests_total{operation=\"get\",status=\"200\"} 100\n");
        let now = Samples::parse(
            "ladoga_requests_total{operation=\"get\",status=\"200\"} 300\n\
             ladoga_resp_commands_total{kind=\"read\",result=\"ok\"} 100\n\
             ladoga_requests_total{operation=\"put\",status=\"503\"} 10\n\
             ladoga_request_duration_seconds_bucket{operation=\"get\",le=\"0.001\"} 90\n\
             ladoga_request_duration_seconds_bucket{operation=\"get\",le=\"0.002\"} 100\n\
             ladoga_request_duration_seconds_bucket{operation=\"get\",le=\"+Inf\"} 100\n\
             ladoga_level_bytes{level=\"0\"} 1048576\nladoga_blob_bytes 1048576\n\
             ladoga_write_state{state=\"ok\"} 1\nladoga_write_state{state=\"failed\"} 0\n",
        );
        let view = View { before: &before, now: &now, seconds: 2.0 };
        let line = view.line();
        for part in [
            "reads_per_second=150.0 reads_p50_ms=0.556 reads_p99_ms=1.900 ",
            "writes_per_second=5.0 writes_p50_ms=- ",
            "failed_per_second=5.0 stored_bytes=2097152 ",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        let screen = view.screen();
        assert!(screen.contains("2.0 MiB") && screen.contains("writes ok"), "{screen}");
        // It was restarted.
        let view = View { before: &now, now: &before, seconds: 2.0 };
        assert!(view.line().starts_with("reads_per_second=50.0 "), "{}", view.line());
    }

    #[test]
    fn percentiles_are_those_of_the_buckets() {
        let buckets = [(1.0, 50.0), (2.0, 100.0), (f64::INFINITY, 101.0)];
        assert_eq!(quantile(&buckets, 0.5), Some(1.01));
        assert_eq!(quantile(&buckets, 0.999), Some(2.0));
        assert_eq!(quantile(&[(1.0, 0.0)], 0.5), None);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
