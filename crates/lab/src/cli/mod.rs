//! What a person types: flags, units, the address.

mod options;
mod target;
mod units;

pub(crate) use options::Knobs;
pub use options::Options;
pub(crate) use target::{Target, resolve};
pub(crate) use units::{
    format_binary, format_metric, format_time_s, format_time_us, parse_count, parse_ms, parse_size,
};
