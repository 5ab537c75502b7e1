use serde::{Deserialize, Serialize};

/// The server's process while a run went on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeSeries {
    pub(crate) samples: Vec<NodeSample>,
    pub(crate) cpu_us_per_request: Option<f64>,
    /// What could not be read, and why.
    pub(crate) missing: Vec<String>,
}

/// Rates and counts are those since the sample before it, or since the last one that has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeSample {
    pub(crate) at_s: f64,
    /// Cores that it kept busy.
    pub(crate) cpu_cores: Option<f64>,
    pub(crate) resident_bytes: Option<f64>,
    /// When the server answered with what follows. Reports of older programs do not have it.
    #[serde(default)]
    pub(crate) scraped_at_s: Option<f64>,
    /// To the log, by flushes and by compactions, a second.
    pub(crate) written_bytes_per_s: Option<f64>,
    pub(crate) flushes: Option<f64>,
    pub(crate) compactions: Option<f64>,
}

impl NodeSeries {
    /// Makes times those since the beginning of the run, and leaves out what was found before that, and after its end.
    pub(crate) fn cut(&mut self, began_s: f64, elapsed_s: f64) {
        for sample in &mut self.samples {
            sample.at_s -= began_s;
            sample.scraped_at_s = sample.scraped_at_s.map(|at_s| at_s - began_s);
            if sample.at_s < 0.0 {
                (sample.cpu_cores, sample.resident_bytes) = (None, None);
            }
            if sample.scraped_at_s() > elapsed_s {
                *sample =
                    NodeSample { written_bytes_per_s: None, flushes: None, compactions: None, ..*sample };
            }
        }
        self.samples.retain(|sample| sample.scraped_at_s() >= 0.0 && sample.at_s <= elapsed_s);
    }
}

impl NodeSample {
    pub(crate) fn scraped_at_s(&self) -> f64 {
        self.scraped_at_s.unwrap_or(self.at_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the server did while connections were made was drawn left of the run; the second answer came in it.
    #[test]
    fn what_was_told_before_the_beginning_is_left_out() {
        let sample = |at_s, scraped_at_s| NodeSample {
            at_s,
            cpu_cores: Some(1.0),
            resident_bytes: Some(5.0),
            scraped_at_s: Some(scraped_at_s),
            flushes: Some(1.0),
            ..NodeSample::default()
        };
        let samples = vec![sample(0.5, 0.75), sample(1.0, 2.5), sample(2.5, 2.75)];
        let mut series = NodeSeries { samples, ..NodeSeries::default() };
        series.cut(2.0, 10.0);
        let answered_only = NodeSample { cpu_cores: None, resident_bytes: None, ..sample(-1.0, 0.5) };
        assert_eq!(series.samples, [answered_only, sample(0.5, 0.75)]);
    }

    /// The server took 1.5 s to tell of a flush, which was after the end.
    #[test]
    fn what_was_told_after_the_end_is_left_out() {
        let sample = |at_s, scraped_at_s| NodeSample {
            at_s,
            cpu_cores: Some(1.0),
            scraped_at_s,
            flushes: Some(1.0),
            ..NodeSample::default()
        };
        let samples = vec![sample(2.0, Some(2.5)), sample(10.5, Some(12.0)), sample(11.5, None)];
        let mut series = NodeSeries { samples, ..NodeSeries::default() };
        series.cut(1.0, 10.0);
        let left =
            series.samples.iter().map(|left| (left.at_s, left.scraped_at_s(), left.cpu_cores, left.flushes));
        let expected = [(1.0, 1.5, Some(1.0), Some(1.0)), (9.5, 11.0, Some(1.0), None)];
        assert_eq!(left.collect::<Vec<_>>(), expected);
    }
}
