use std::fmt::{Display, Write};

/// Writes the text format of Prometheus (version 0.0.4).
///
/// A writer of our own: the client libraries want to own the figures, as atomics that all threads add to, while
/// ours are one set a thread, written without a locked instruction and added up when somebody asks.
#[derive(Debug, Default)]
pub(super) struct Text {
    out: String,
}

impl Text {
    /// Begins a family of figures.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a figure; the labels are complete, as in `a="b",c="d"`.
    pub(super) fn figure(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = if labels.is_empty() {
            writeln!(self.out, "{name} {value}")
        } else {
            writeln!(self.out, "{name}{{{labels}}} {value}")
        };
    }

    /// Writes a histogram: upper bounds, and how many are in each bucket.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &str,
        buckets: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for (bound, in_bucket) in buckets {
            below += in_bucket;
            let _ = writeln!(self.out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}");
        }
        let _ = writeln!(self.out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
        self.figure(&format!("{name}_sum"), labels, sum);
        self.figure(&format!("{name}_count"), labels, count);
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let mut text = Text::default();
        text.family("f_seconds", "histogram", "How long.");
        text.histogram("f_seconds", "a=\"b\"", [(0.5, 1), (1.0, 2)].into_iter(), 4, 9.5);
        text.figure("g", "", 1);
        let expected = "# HELP f_seconds How long.\n# TYPE f_seconds histogram\n\
            f_seconds_bucket{a=\"b\",le=\"0.5\"} 1\nf_seconds_bucket{a=\"b\",le=\"1\"} 3\n\
            f_seconds_bucket{a=\"b\",le=\"+Inf\"} 4\nf_seconds_sum{a=\"b\"} 9.5\nf_seconds_count{a=\"b\"} 4\ng 1\n";
        assert_eq!(text.finish(), expected);
    }
}
