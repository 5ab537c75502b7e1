use std::collections::HashMap;

/// One scrape of `/metrics`.
pub(crate) struct Metrics {
    /// By name and labels, as in the text.
    samples: HashMap<String, f64>,
}

impl Metrics {
    /// Parses the Prometheus text format; anything else panics.
    pub(crate) fn parse(text: &str) -> Metrics {
        assert!(text.ends_with('\n'), "the last line of the metrics does not end");
        let (mut typed, mut samples) = (HashMap::new(), HashMap::new());
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let words: Vec<&str> = comment.splitn(3, ' ').collect();
                match words[..] {
                    ["HELP", _, text] => assert!(!text.is_empty(), "{line:?}"),
                    ["TYPE", name, kind] => {
                        assert!(["counter", "gauge", "histogram", "summary"].contains(&kind), "{line:?}");
                        assert!(typed.insert(name, kind).is_none(), "{name} has two types");
                    }
                    _ => panic!("no metric: {line:?}"),
                }
                continue;
            }
            let (series, number) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no metric: {line:?}"));
            let name = series.split('{').next().unwrap_or_default();
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
            assert!(!name.is_empty() && name.bytes().all(is_name), "no name: {line:?}");
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let has_type =
                typed.contains_key(name) || family.is_some_and(|family| typed.contains_key(family));
            assert!(has_type, "{name} has no type");
            let number = number.parse().unwrap_or_else(|_| panic!("no number: {line:?}"));
            assert!(samples.insert(series.to_owned(), number).is_none(), "{series} is there twice");
        }
        assert_names(&typed);
        Metrics { samples }
    }

    /// The sum of the series whose name contains each of `parts`, labels included.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let matches = |series: &&String| {
            series.split('{').next() == Some(name) && labels.iter().all(|label| series.contains(label))
        };
        let found: Vec<f64> =
            self.samples.keys().filter(matches).map(|series| self.samples[series]).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }

    /// Every name and its labels.
    pub(crate) fn series(&self) -> impl Iterator<Item = (&str, f64)> {
        self.samples.iter().map(|(series, number)| (series.as_str(), *number))
    }
}

/// The rules of Prometheus for names: `_total` on counters only, base units, and a name of its own for each metric
/// when `OpenMetrics` takes `_total` off it.
fn assert_names(typed: &HashMap<&str, &str>) {
    for (name, kind) in typed {
        assert!(name.starts_with("ladoga_"), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == "counter", "{name} is a {kind}");
        let stem = name.strip_suffix("_total").unwrap_or(name);
        assert!(stem == *name || !typed.contains_key(stem), "{stem} and {name} are one name in OpenMetrics");
        for unit in ["_ms", "_us", "_ns", "_milliseconds", "_microseconds", "_nanoseconds", "_kib", "_mib"] {
            assert!(!stem.ends_with(unit), "{name}: seconds and bytes are the units");
        }
    }
}
