use std::cmp::Ordering;
use std::fmt;
use std::num::{IntErrorKind, ParseIntError};

/// Digits behind the point.
const DECIMALS: usize = 17;
/// Digits in front of the point: as many as the largest number of 64 bits has.
const WHOLE_DIGITS_MAX: i64 = 309;

/// A number with a point, whatever is behind its last decimal rounded away.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    is_negative: bool,
    /// In units of the last decimal, most significant first, without zeros in front.
    digits: Vec<u8>,
}

impl Decimal {
    /// Reads digits, a point among them perhaps, and an exponent. None if it is something else, or too large.
    pub(super) fn parse(text: &str) -> Option<Decimal> {
        let is_negative = text.starts_with('-');
        let text = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent_of(exponent)?),
            None => (text, 0),
        };
        let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
        let all = || whole.bytes().chain(behind.bytes());
        if !all().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let zeros = all().take_while(|byte| *byte == b'0').count();
        let mut digits = all().skip(zeros).map(|byte| byte - b'0').peekable();
        let whole_digits = whole.len() as i64 - zeros as i64 + i64::from(exponent);
        if digits.peek().is_none() || whole_digits < -(DECIMALS as i64) {
            return Some(Decimal { is_negative: false, digits: Vec::new() });
        }
        if whole_digits > WHOLE_DIGITS_MAX {
            return None;
        }
        let kept = (whole_digits + DECIMALS as i64) as usize;
        let mut kept: Vec<u8> = (0..kept).map(|_| digits.next().unwrap_or(0)).collect();
        if digits.next().is_some_and(|digit| digit >= 5) {
            kept = sum(&kept, &[1]);
        }
        Some(Decimal { is_negative: is_negative && !kept.is_empty(), digits: kept })
    }

    pub(super) fn plus(&self, other: &Decimal) -> Decimal {
        if self.is_negative == other.is_negative {
            return Decimal { is_negative: self.is_negative, digits: sum(&self.digits, &other.digits) };
        }
        let (larger, smaller) = match compare(&self.digits, &other.digits) {
            Ordering::Equal => return Decimal { is_negative: false, digits: Vec::new() },
            Ordering::Greater => (self, other),
            Ordering::Less => (other, self),
        };
        Decimal { is_negative: larger.is_negative, digits: difference(&larger.digits, &smaller.digits) }
    }
}

/// Without zeros at the end of what is behind the point.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let digits = format!("{digits:0>width$}", width = DECIMALS + 1);
        let (whole, behind) = digits.split_at(digits.len() - DECIMALS);
        let (sign, behind) = (if self.is_negative { "-" } else { "" }, behind.trim_end_matches('0'));
        let point = if behind.is_empty() { "" } else { "." };
        write!(f, "{sign}{whole}{point}{behind}")
    }
}

/// None if it is no whole number. However large it is makes no difference beyond what fits.
fn exponent_of(text: &str) -> Option<i32> {
    text.parse()
        .or_else(|error: ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow => Ok(i32::MAX),
            IntErrorKind::NegOverflow => Ok(i32::MIN),
            _ => Err(error),
        })
        .ok()
}

fn compare(one: &[u8], other: &[u8]) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

fn sum(one: &[u8], other: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let digits = (0..=one.len().max(other.len())).map(|place| {
        let digit = digit_at(one, place) + digit_at(other, place) + carry;
        carry = digit / 10;
        digit % 10
    });
    in_order(digits.collect())
}

/// Of a number and one that is no larger.
fn difference(larger: &[u8], smaller: &[u8]) -> Vec<u8> {
    let mut borrowed = 0;
    let digits = (0..larger.len()).map(|place| {
        let digit = 10 + digit_at(larger, place) - digit_at(smaller, place) - borrowed;
        borrowed = 1 - digit / 10;
        digit % 10
    });
    in_order(digits.collect())
}

/// The digit at a place, counted from the last one.
fn digit_at(digits: &[u8], place: usize) -> u8 {
    digits.len().checked_sub(place + 1).map_or(0, |index| digits[index])
}

/// Digits that were found from the last one on.
fn in_order(mut digits: Vec<u8>) -> Vec<u8> {
    while digits.last() == Some(&0) {
        digits.pop();
    }
    digits.reverse();
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(number: i128) -> Decimal {
        Decimal::parse(&format!("{number}e-17")).expect("a number")
    }

    #[test]
    fn sums_are_those_of_whole_numbers() {
        // Of every length and either sign, some of them with the same digits.
        let numbers: Vec<i128> = (0..100)
            .map(|n| 3_i128.pow(n % 70) * i128::from(1 - 2 * (n as i32 % 2)) + i128::from(n / 70))
            .collect();
        for one in &numbers {
            assert_eq!(units(*one).plus(&units(-one)), units(0));
            for other in &numbers {
                assert_eq!(units(*one).plus(&units(*other)), units(one + other), "{one} + {other}");
            }
            let written = units(*one).to_string();
            assert_eq!(Decimal::parse(&written), Some(units(*one)), "{written}");
        }
    }

    #[test]
    fn numbers_are_read_with_their_exponent_and_rounded() {
        for (text, expected) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("+7", "7"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-1.50", "-1.5"),
            ("12e3", "12000"),
            ("12E-3", "0.012"),
            ("0.012e2", "1.2"),
            ("1e-17", "0.00000000000000001"),
            ("5e-18", "0.00000000000000001"),
            ("4e-18", "0"),
            ("-4e-18", "0"),
            ("9.999999999999999999", "10"),
            ("1e-2147483648", "0"),
            ("1e-99999999999", "0"),
            ("0e2147483647", "0"),
            ("0e99999999999", "0"),
            ("00000000000000000000000000000001", "1"),
            ("123456789012345678901234567890.25", "123456789012345678901234567890.25"),
        ] {
            assert_eq!(
                Decimal::parse(text).map(|number| number.to_string()).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for text in ["inf", "1e310", "1e99999999999", "1e", "1x", "1.2.3", "--1"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }
}
