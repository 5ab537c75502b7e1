/// What a metric was at one look.
#[derive(Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// All metrics of a node at one look.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<Sample>);

impl Samples {
    /// Reads the text format of Prometheus. What cannot be read is left out: a newer node may have more to say.
    pub(super) fn parse(text: &str) -> Samples {
        Samples(text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect())
    }

    /// Whether there is a metric that only nodes have.
    pub(super) fn are_of_a_node(&self) -> bool {
        self.0.iter().any(|sample| sample.name.starts_with("ladoga_"))
    }

    /// The sum of a metric over all series that have each of these labels; `values` are those that a label may have.
    pub(super) fn sum(&self, name: &str, labels: &[(&str, &[&str])]) -> f64 {
        self.of(name, labels).map(|sample| sample.value).sum()
    }

    /// A value of a label of the series that is 1.
    pub(super) fn state(&self, name: &str, label: &str) -> Option<&str> {
        let sample = self.of(name, &[]).find(|sample| sample.value > 0.5)?;
        sample.label(label)
    }

    /// A histogram: the upper bound of each bucket, and how many are not above it, in the order of the bounds.
    pub(super) fn buckets(&self, name: &str, labels: &[(&str, &[&str])]) -> Vec<(f64, f64)> {
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for sample in self.of(name, labels) {
            let Some(bound) = sample.label("le").and_then(|bound| bound.parse::<f64>().ok()) else {
                continue;
            };
            match buckets.iter_mut().find(|(known, _)| known.total_cmp(&bound).is_eq()) {
                Some((_, count)) => *count += sample.value,
                None => buckets.push((bound, sample.value)),
            }
        }
        buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        buckets
    }

    fn of(&self, name: &str, labels: &[(&str, &[&str])]) -> impl Iterator<Item = &Sample> {
        self.0.iter().filter(move |sample| {
            let has = |(label, values): &(&str, &[&str])| {
                sample.label(label).is_some_and(|value| values.contains(&value))
            };
            sample.name == name && labels.iter().all(has)
        })
    }
}

impl Sample {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// `name{label="value",...} number`
fn sample(line: &str) -> Option<Sample> {
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, value) = rest.split_once("=\"")?;
            let (value, end) = unescaped(value)?;
            labels.push((label.to_owned(), value));
            rest = rest[label.len() + 2 + end..].trim_start_matches(',');
        }
        rest = &rest[1..];
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// A value up to its quote, and where what stands behind the quote begins.
fn unescaped(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, at + 1)),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                letter => value.push(letter),
            },
            letter => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP f_total Some.\n# TYPE f_total counter\nf_total{a=\"x\",b=\"1\"} 5\nf_total{a=\"y\",b=\"1\"} 7\n\
        f_state{of=\"a \\\"b\\\\\"} 1\nf_state{of=\"c\"} 0\nnonsense\nf_s_bucket{le=\"0.5\"} 1\nf_s_bucket{le=\"+Inf\"} 3\n\
        f_s_bucket{le=\"+Inf\",b=\"1\"} 4\nplain 2.5\nbroken{a=\"x 3\nbroken{a} 3\n";

    #[test]
    fn series_are_summed_by_their_labels() {
        let samples = Samples::parse(TEXT);
        let sums = (samples.sum("f_total", &[]), samples.sum("f_total", &[("a", &["x", "z"])]));
        assert_eq!(sums, (12.0, 5.0));
        assert_eq!(Some(samples.sum("f_total", &[("b", &["1"]), ("a", &["y"])])), Some(7.0));
        assert_eq!((samples.sum("plain", &[]), samples.sum("broken", &[])), (2.5, 0.0));
        assert_eq!(samples.state("f_state", "of"), Some("a \"b\\"));
        assert!(!samples.are_of_a_node() && Samples::parse("ladoga_up 1\n").are_of_a_node());
        assert_eq!(samples.buckets("f_s_bucket", &[]), [(0.5, 1.0), (f64::INFINITY, 7.0)]);
    }
}
