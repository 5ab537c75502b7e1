use super::Distribution;
use crate::units::{parse_count, parse_size};

/// How a built-in workload differs from its defaults.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Knobs {
    /// Number of keys of the workload, which are key0, key1 and so on [default: 1,000,000; 1,000 for put-overwrite and get-hot; no end
    /// for put]
    #[arg(long, value_name = "N", value_parser = parse_count, requires = "workload")]
    pub(crate) keys: Option<u64>,
    /// Size of a value [default: short values, `value0`, `value1`, …]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "workload")]
    pub(crate) value: Option<u64>,
    /// Distribution of the keys that are requested
    #[arg(long, value_name = "NAME", value_enum, requires = "workload")]
    pub(crate) distribution: Option<Distribution>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1, requires = "workload")]
    pub(crate) seed: u64,
}
