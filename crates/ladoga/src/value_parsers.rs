//! What several commands read from a command line, and what they say if that is wrong.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use ladoga_model::{KEY_BYTES_MAX, check_key};

/// A key that can be stored. Any other is told before the node is asked.
pub(crate) fn key_parser() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|key| match check_key(key.as_encoded_bytes()) {
        Ok(()) => Ok(key),
        Err(error) => Err(error.to_string()),
    })
}

/// A prefix that a key can have. Any other is told before the node is asked.
pub(crate) fn prefix_parser() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|prefix| match prefix.len() {
        1..=KEY_BYTES_MAX => Ok(prefix),
        _ => Err(format!("expected a prefix of 1 to {KEY_BYTES_MAX} bytes")),
    })
}

/// A number of this range.
pub(crate) fn number<N>(range: RangeInclusive<N>) -> impl TypedValueParser<Value = N>
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text: &str| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a number from {} to {}", range.start(), range.end()))
    }
}
