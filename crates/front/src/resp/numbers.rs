use bytes::Bytes;
use ladoga_resp::Request;
use ladoga_service::KeyValue;

use super::arguments::integer;
use super::call::StoreCall;
use super::failed::Failed;
use super::found::{Effect, NewLifetime};
use super::served::{CommandResult, Served};
use super::table::Verb;

/// Digits behind the point of a sum.
const DECIMALS: usize = 17;
/// Behind so many digits a number is not added exactly any more.
const EXACT_DIGITS_MAX: usize = 20;

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
    if let (Some(one), Some(other)) = (exact(one), exact(other))
        && let Some(sum) = one.checked_add(other)
    {
        return Ok(trimmed(&decimal(sum)));
    }
    let sum = approximate(one) + approximate(other);
    if !sum.is_finite() {
        return Err(Failed::err("increment would produce NaN or Infinity"));
    }
    Ok(trimmed(&format!("{sum:.DECIMALS$}")))
}

/// Text that is a number with a point.
fn float(text: &[u8]) -> Result<&str, Failed> {
    let invalid = || Failed::err("value is not a valid float");
    let text = str::from_utf8(text).map_err(|_| invalid())?;
    let is_number = text.parse::<f64>().is_ok_and(|number| !number.is_nan());
    if is_number { Ok(text) } else { Err(invalid()) }
}

fn approximate(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

/// A number in units of its last decimal, if it has no more digits than that has room for.
fn exact(text: &str) -> Option<i128> {
    let (is_negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, exponent) = match digits.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + behind.len() > EXACT_DIGITS_MAX
        || !whole.bytes().chain(behind.bytes()).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let number: i128 = format!("{whole}{behind}").parse().ok()?;
    let shift = (DECIMALS as i32 - behind.len() as i32).checked_add(exponent)?;
    let power = 10_i128.checked_pow(u32::try_from(shift).ok()?)?;
    let number = number.checked_mul(power)?;
    Some(if is_negative { -number } else { number })
}

fn decimal(units: i128) -> String {
    let one = 10_i128.pow(DECIMALS as u32);
    let sign = if units < 0 { "-" } else { "" };
    let (whole, behind) =
        (units.unsigned_abs() / one.unsigned_abs(), units.unsigned_abs() % one.unsigned_abs());
    format!("{sign}{whole}.{behind:0DECIMALS$}")
}

/// Without zeros at the end of what is behind the point.
fn trimmed(text: &str) -> String {
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
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
        assert_eq!(sum("1e308", "1.7e308"), None);
    }
}
