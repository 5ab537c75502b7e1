use ladoga_model::{Quote, Value};

use crate::Error;

/// The most bytes that a number takes: a sign and 19 digits.
pub const NUMBER_BYTES_MAX: usize = 20;

/// The number under a key plus `by`. A number is decimal digits, with a minus before them if it is negative; a key without a
/// value has 0.
pub fn incremented<B: AsRef<[u8]>, L>(value: Option<&Value<B, L>>, by: i64) -> Result<i64, Error> {
    let number = match value {
        None => 0,
        Some(Value::Inline(text)) => parse_number(text.as_ref()).ok_or_else(|| no_number(text.as_ref()))?,
        Some(Value::Large(_)) => return Err(too_long()),
    };
    number.checked_add(by).ok_or(Error::Overflow { number, by })
}

fn no_number(text: &[u8]) -> Error {
    if text.len() > NUMBER_BYTES_MAX {
        return too_long(); // As of a value of which only the length is known.
    }
    Error::NotANumber { found: Quote::of(text).to_string() }
}

fn too_long() -> Error {
    Error::NotANumber { found: "longer than any number".to_owned() }
}

/// The number that bytes are, if they are one. There may be any number of zeros before its digits.
pub fn parse_number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    // `i64::from_str` takes a plus sign as well.
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(text).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &[u8], by: i64) -> Result<i64, Error> {
        incremented(Some(&Value::<&[u8], ()>::Inline(text)), by)
    }

    #[test]
    fn numbers_are_added() {
        assert_eq!(incremented(None::<&Value<&[u8], ()>>, -3), Ok(-3));
        for (text, by, sum) in [("0", 1, 1), ("41", 1, 42), ("-5", 3, -2), ("007", 0, 7), ("-0", 2, 2)] {
            assert_eq!(of(text.as_bytes(), by), Ok(sum), "{text} + {by}");
        }
        for number in [i64::MIN, i64::MAX] {
            assert!(number.to_string().len() <= NUMBER_BYTES_MAX);
            assert_eq!(of(number.to_string().as_bytes(), 0), Ok(number));
        }
    }

    #[test]
    fn what_is_no_number_is_told() {
        for text in ["", "-", "+1", " 1", "1 ", "1\n", "1.0", "0x1", "--1", "9223372036854775808", "\u{665}"]
        {
            assert!(matches!(of(text.as_bytes(), 1), Err(Error::NotANumber { .. })), "{text}");
        }
        let large = Value::<&[u8], u64>::Large(300_000);
        assert!(matches!(incremented(Some(&large), 1), Err(Error::NotANumber { .. })));
    }

    #[test]
    fn what_is_too_large_is_not_stored() {
        for (number, by) in [(i64::MAX, 1), (i64::MIN, -1), (-2, i64::MIN)] {
            assert_eq!(of(number.to_string().as_bytes(), by), Err(Error::Overflow { number, by }));
        }
    }
}
