use bytes::Bytes;
use ladoga_resp::Request;
use ladoga_service::KeyValue;

use super::arguments::integer;
use super::call::StoreCall;
use super::decimal::Decimal;
use super::failed::Failed;
use super::found::{Effect, NewLifetime};
use super::served::{CommandResult, Served};
use super::table::Verb;

/// Longer text is no number with a point, as in Redis: nobody waits for digits without end.
const FLOAT_BYTES_MAX: usize = 5 << 10;

/// What `INCR` and its like add.
pub(super) fn amount(verb: Verb, request: &Request) -> Result<i64, Failed> {
    match verb {
        Verb::Incr => Ok(1),
        Verb::Decr => Ok(-1),
        Verb::IncrBy => integer(&request[2]),
        _ => integer(&request[2])?.checked_neg().ok_or_else(|| Failed::err("decrement would overflow")),
    }
}

/// Adds to a number.
pub(super) async fn increment<K: KeyValue>(call: StoreCall<K>, key: Bytes, by: i64) -> CommandResult {
    Ok(Served::integer(call.increment(key, by).await?))
}

pub(super) async fn increment_by_float<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    call.update(request.bytes(1), true, |found| {
        let before = found.map_or(&b"0"[..], |found| &found.value);
        let sum = Bytes::from(float_sum(before, &request[2])?);
        Ok((Effect::Put(sum.clone(), NewLifetime::Kept), Served::value(Some(sum))))
    })
    .await
}

/// The sum of two numbers with a point. Redis adds them as numbers of 80 bits; here they are added digit by digit, which comes to the
/// same wherever those bits are enough, and to what one expects where they are not.
fn float_sum(one: &[u8], other: &[u8]) -> Result<String, Failed> {
    let (one, other) = (float(one)?, float(other)?);
    let is_finite = (approximate(one) + approximate(other)).is_finite();
    match (Decimal::parse(one), Decimal::parse(other)) {
        (Some(one), Some(other)) if is_finite => Ok(one.plus(&other).to_string()),
        _ => Err(Failed::err("increment would produce NaN or Infinity")),
    }
}

/// Text that is a number with a point.
fn float(text: &[u8]) -> Result<&str, Failed> {
    let invalid = || Failed::err("value is not a valid float");
    let text = str::from_utf8(text).map_err(|_| invalid())?;
    let is_number = text.len() <= FLOAT_BYTES_MAX && text.parse::<f64>().is_ok_and(|number| !number.is_nan());
    if is_number { Ok(text) } else { Err(invalid()) }
}

fn approximate(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> Option<String> {
        float_sum(one.as_bytes(), other.as_bytes()).ok()
    }

    #[test]
    fn numbers_with_a_point_are_added_exactly() {
        for (one, other, expected) in [
            ("10.5", "0.1", "10.6"),
            ("3", "1", "4"),
            ("5.0e3", "200", "5200"),
            ("0.1", "0.2", "0.3"),
            ("10000000000", "0.1", "10000000000.1"),
            ("-1.5", "1.5", "0"),
            ("1", "-1.25", "-0.25"),
            ("17179869184.5", "0.5", "17179869185"),
            ("1e20", "0", "100000000000000000000"),
            ("9007199254740993", "1e-18", "9007199254740993"),
            ("-9223372036854675800.5", "1e-30", "-9223372036854675800.5"),
            ("123456789012345678901234567890", "1", "123456789012345678901234567891"),
        ] {
            assert_eq!(sum(one, other).as_deref(), Some(expected), "{one} + {other}");
        }
        assert_eq!(
            (sum("0e2147483647", "1").as_deref(), sum("1", "1e-2147483648").as_deref()),
            (Some("1"), Some("1"))
        );
        assert!(sum("1e300", "1e300").is_some_and(|sum| sum.starts_with('2') && sum.len() == 301));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "abc", " 1", "1 ", "nan", "1.5.5"] {
            assert_eq!(sum(text, "1"), None, "{text}");
        }
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum(&"0".repeat(FLOAT_BYTES_MAX), "1").as_deref(), Some("1"));
        assert_eq!(sum(&"0".repeat(FLOAT_BYTES_MAX + 1), "1"), None);
        assert_eq!(sum("1e308", "1.7e308"), None);
    }
}
