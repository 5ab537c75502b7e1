use hdrhistogram::Histogram;
use mlua::{Lua, MetaMethod, Table, UserData, UserDataFields, UserDataMethods};

use crate::stats::{RunOutcome, Samples, in_micros};

/// What `done` gets as `latency` and as `requests`: moments, percentiles, and every distinct value with its count.
pub(super) struct Results {
    min: f64,
    max: f64,
    mean: f64,
    stdev: f64,
    /// Ascending.
    counts: Vec<(u64, u64)>,
    total: u64,
}

impl Results {
    /// In microseconds.
    pub(super) fn of_latency(outcome: &RunOutcome) -> Self {
        let micros: Histogram<u64> = in_micros(&outcome.all().corrected);
        let counts =
            micros.iter_recorded().map(|entry| (entry.value_iterated_to(), entry.count_at_value())).collect();
        Self {
            min: micros.min() as f64,
            max: micros.max() as f64,
            mean: micros.mean(),
            stdev: micros.stdev(),
            counts,
            total: micros.len(),
        }
    }

    /// In requests a second and thread.
    pub(super) fn of_samples(samples: &Samples) -> Self {
        let sorted = samples.sorted();
        let groups = sorted.chunk_by(|one, other| one == other);
        Self {
            min: sorted.first().copied().unwrap_or(0) as f64,
            max: samples.max() as f64,
            mean: samples.mean(),
            stdev: samples.stdev(),
            counts: groups.map(|group| (group[0], group.len() as u64)).collect(),
            total: sorted.len() as u64,
        }
    }

    fn percentile(&self, percentile: f64) -> u64 {
        let wanted = (percentile / 100.0 * self.total as f64 + 0.5) as u64;
        let mut seen = 0;
        for (value, count) in &self.counts {
            seen += count;
            if seen >= wanted.max(1) {
                return *value;
            }
        }
        self.counts.last().map_or(0, |(value, _)| *value)
    }
}

impl UserData for Results {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("min", |_, results| Ok(results.min));
        fields.add_field_method_get("max", |_, results| Ok(results.max));
        fields.add_field_method_get("mean", |_, results| Ok(results.mean));
        fields.add_field_method_get("stdev", |_, results| Ok(results.stdev));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("percentile", |_, results, percentile: f64| Ok(results.percentile(percentile)));
        methods.add_meta_method(MetaMethod::Call, |_, results, index: f64| {
            let place = (index as usize).checked_sub(1);
            Ok(place.and_then(|place| results.counts.get(place).copied()).unwrap_or((0, 0)))
        });
        methods.add_meta_method(MetaMethod::Len, |_, results, ()| Ok(results.counts.len()));
    }
}

/// What `done` gets as `summary`.
pub(super) fn summary(lua: &Lua, outcome: &RunOutcome) -> mlua::Result<Table> {
    let errors = lua.create_table()?;
    errors.set("connect", outcome.errors.connect)?;
    errors.set("read", outcome.errors.read)?;
    errors.set("write", outcome.errors.write)?;
    errors.set("status", outcome.errors.status)?;
    errors.set("timeout", outcome.errors.timeout)?;
    let summary = lua.create_table()?;
    summary.set("duration", outcome.elapsed_ns / 1000)?;
    summary.set("requests", outcome.complete)?;
    summary.set("bytes", outcome.bytes)?;
    summary.set("errors", errors)?;
    Ok(summary)
}
